//! `sideband run` on the command line.

use std::path::PathBuf;

use clap::Args;
use ingest::stream::threshold::Threshold;

use super::OpticsArgs;
use crate::device::DeviceChoice;
use crate::request::{RunRequest, StopFlag, parse_threads};
use crate::rings::{Ring, Rings};

/// What `sideband run` takes.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The DECTRIS master file (NAME_master.h5), or the folder of a recorder's log.
    #[arg(value_name = "MASTER.h5")]
    pub master: PathBuf,
    /// Series of a log, by its number or its unique name; the last when not given.
    #[arg(long, value_name = "ID")]
    pub series: Option<String>,
    /// Which thresholds of a series of a log: first, all (each in a folder of its own), a number, or the name of a channel
    /// [default: first].
    #[arg(long, value_name = "WHICH")]
    pub threshold: Option<Threshold>,
    /// Folder for images and result.json; made when it does not exist.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// The microscope.
    #[command(flatten)]
    pub optics: OpticsArgs,
    /// The virtual detectors.
    #[command(flatten)]
    pub rings: RingArgs,
    /// The limits.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Virtual detectors about the beam centre, in units of the bright-field radius R; good pixels only.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Virtual detectors (units of the bright-field radius)")]
pub struct RingArgs {
    /// Bright field.
    #[arg(long, value_name = "IN,OUT", default_value = "0,0.9")]
    pub bf_ring: Ring,
    /// Annular dark field.
    #[arg(long, value_name = "IN,OUT", default_value = "1.2,1.85")]
    pub adf_ring: Ring,
    /// Dark field.
    #[arg(long, value_name = "IN,OUT", default_value = "1.1,inf")]
    pub df_ring: Ring,
}

impl RingArgs {
    /// The rings.
    pub fn rings(self) -> Rings {
        Rings { bf: self.bf_ring, adf: self.adf_ring, df: self.df_ring }
    }
}

/// How much a run may take and say.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Most memory the encoded counts may take, in GB (10^9 bytes); chosen from the free memory when not given.
    #[arg(long, value_name = "GB", value_parser = positive)]
    pub memory_gb: Option<f64>,
    /// Worker threads; one a core when not given.
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// What computes phases: auto (a CUDA device where there is one), cpu, cuda, or cuda:NUMBER [default: auto].
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceChoice>,
    /// Also compute the mean phase and the phase-variance loss (one inverse transform a bright-field pixel).
    #[arg(long, overrides_with = "no_loss")]
    pub loss: bool,
    /// Leave the phase-variance loss out (the default).
    #[arg(long, overrides_with = "loss")]
    pub no_loss: bool,
    /// Say nothing on stderr but errors and warnings.
    #[arg(long, short)]
    pub quiet: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(gb) if 0.0 < gb && gb < 1e9 => Ok(gb),
        _ => Err(format!("got '{text}', expected a positive number of GB")),
    }
}

impl RunArgs {
    /// The run that is asked for, its optics file read; it ends when `stop` is raised.
    ///
    /// # Errors
    /// The optics file cannot be read; a CUDA device was asked for and cannot be used.
    pub fn request(&self, stop: StopFlag) -> anyhow::Result<RunRequest> {
        Ok(RunRequest {
            master: self.master.clone(),
            series: self.series.clone(),
            threshold: self.threshold.clone().unwrap_or_default(),
            at_once: 1,
            out: self.out.clone(),
            optics: self.optics.request()?,
            processor: self.limits.device.unwrap_or_default().open()?,
            memory_budget_bytes: self.limits.memory_gb.map(|gb| (gb * 1e9) as u64),
            threads: self.limits.threads,
            loss: self.limits.loss,
            quiet: self.limits.quiet,
            rings: self.rings.rings(),
            stop,
        })
    }
}
