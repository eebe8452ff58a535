//! An acquisition whose frames are made when they are asked for: what `sideband replay simulate` sends.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kernels::types::{Count, CountType, DetectorShape, ScanShape};
use rayon::prelude::*;

use super::args::SimulateArgs;
use super::bad_pixels::BadPixels;
use super::produce::{Desk, Exposure};
use super::settings::Settings;
use super::specimen::Specimen;
use super::thresholds::SimulatedChannel;
use super::truth::{Totals, Truth};
use super::wave::Beam;
use super::{prepare, write_truth_phase};
use crate::output::write_atomically;
use crate::request::{StopFlag, WrongFlags};

/// Makes frames by their numbers; the same flags give the bytes that `sideband simulate` writes, in any order, for the first threshold.
pub struct OnTheFly {
    args: SimulateArgs,
    settings: Settings,
    beam: Beam,
    specimen: Specimen,
    bad: BadPixels,
    mask: Vec<u32>,
    stop: StopFlag,
    desks: Desks,
    /// Time it took to lay everything out.
    prepared_secs: f64,
}

impl std::fmt::Debug for OnTheFly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnTheFly").field("args", &self.args).finish_non_exhaustive()
    }
}

/// Memory of threads that make no frame just now.
enum Desks {
    U8(Mutex<Vec<Desk<u8>>>),
    U16(Mutex<Vec<Desk<u16>>>),
    U32(Mutex<Vec<Desk<u32>>>),
}

impl OnTheFly {
    /// Lays out specimen and probe. `args.out`, `name` and the files' flags are not looked at.
    ///
    /// # Errors
    /// A flag out of range, by its name; the memory cannot be had.
    pub fn new(args: SimulateArgs) -> anyhow::Result<Self> {
        let started = Instant::now();
        let settings = Settings::from_args(&args).map_err(WrongFlags::because)?;
        let bad = BadPixels::place(&args);
        let (beam, specimen) = prepare(&args, &settings)?;
        let desks = match args.count_type {
            CountType::U8 => Desks::U8(Mutex::default()),
            CountType::U16 => Desks::U16(Mutex::default()),
            CountType::U32 => Desks::U32(Mutex::default()),
        };
        let (mask, prepared_secs) = (bad.mask(), started.elapsed().as_secs_f64());
        let stop = StopFlag::default();
        Ok(Self { args, settings, beam, specimen, bad, mask, stop, desks, prepared_secs })
    }

    /// Shape of the scan: a frame a position.
    pub fn scan(&self) -> ScanShape {
        self.args.scan_shape
    }

    /// Shape of a frame.
    pub fn detector(&self) -> DetectorShape {
        self.args.detector_shape
    }

    /// The type of its counts.
    pub fn count_type(&self) -> CountType {
        self.args.count_type
    }

    /// Energy of the beam \[eV\].
    pub fn incident_energy_ev(&self) -> f64 {
        self.settings.optics.voltage.volts()
    }

    /// Where the beam meets the detector, (row, col), pixels.
    pub fn beam_centre(&self) -> [f64; 2] {
        self.settings.centre
    }

    /// Bad pixels as the detector lists them, 0 is good, `[det_row][det_col]`.
    pub fn pixel_mask(&self) -> &[u32] {
        &self.mask
    }

    /// Frames of a range of numbers below the scan's, made on all threads: of each the channels, compressed as bitshuffle/LZ4
    /// chunks.
    ///
    /// # Errors
    /// The memory for a thread cannot be had.
    pub fn frames(
        &self,
        numbers: std::ops::Range<u64>,
        channels: &[SimulatedChannel],
    ) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
        match &self.desks {
            Desks::U8(desks) => self.made(desks, numbers, channels),
            Desks::U16(desks) => self.made(desks, numbers, channels),
            Desks::U32(desks) => self.made(desks, numbers, channels),
        }
    }

    fn made<T: Count>(
        &self,
        desks: &Mutex<Vec<Desk<T>>>,
        numbers: std::ops::Range<u64>,
        channels: &[SimulatedChannel],
    ) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
        let exposure = Exposure {
            beam: &self.beam,
            bad: &self.bad,
            electrons_per_frame: self.args.electrons_per_frame,
            seed: self.args.seed,
            stop: &self.stop,
        };
        let free = || desks.lock().unwrap_or_else(PoisonError::into_inner);
        numbers
            .into_par_iter()
            .map(|number| {
                let waiting = free().pop();
                let mut desk = waiting.map_or_else(|| Desk::new(&self.beam), Ok)?;
                // a scan has fewer positions than memory has bytes
                let frame = number as usize;
                let first = desk.expose(&exposure, frame, &self.mask).bytes;
                let channels = channels.iter().map(|&channel| match channel {
                    SimulatedChannel::Threshold(0) => first.clone(),
                    other => desk.of_channel(other, self.args.seed, frame),
                });
                let channels = channels.collect();
                free().push(desk);
                Ok(channels)
            })
            .collect()
    }

    /// Writes `truth.json` and `truth_phase.npy` into a folder, as `sideband simulate` does; what only the counts of all
    /// frames would tell is left out.
    ///
    /// # Errors
    /// The folder or the files cannot be written.
    pub fn write_truth(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)?;
        write_truth_phase(&folder.join("truth_phase.npy"), self.beam.geometry(), &self.specimen)?;
        let (args, totals) = (&self.args, Totals::default());
        let (settings, secs) = (&self.settings, self.prepared_secs);
        let truth = Truth::new(args, settings, &self.beam, &self.specimen, &self.bad, totals, secs);
        let mut truth = serde_json::to_value(&truth)?;
        if let Some(truth) = truth.as_object_mut() {
            for untold in ["mean_counts_per_frame_good_pixels", "saturated_counts", "frames_per_file"] {
                truth.remove(untold);
            }
        }
        write_atomically(&folder.join("truth.json"), &serde_json::to_vec_pretty(&truth)?)?;
        Ok(())
    }
}
