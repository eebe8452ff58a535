//! `sideband serve` on the command line.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, ensure};
use clap::Args;
use ingest::record::{RecordSettings, Retention};
use ingest::stream::threshold::Threshold;
use tracing_subscriber::EnvFilter;

use super::{Ending, OpticsArgs, tell};
use crate::config::{
    self, Config, DEFAULT_LISTEN, DEFAULT_RING_MIB, DEFAULT_SILENCE_S, RecordConfig, RingsConfig,
};
use crate::device::DeviceChoice;
use crate::request::{StopFlag, WrongFlags, parse_threads};
use crate::rings::{Ring, Rings};
use crate::serve::{ExportRequest, ServeRequest};

/// What `sideband serve` takes. Flag, environment, file of settings, default: the first that says it counts.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// File of settings, sideband.toml; every flag below is stronger than it.
    #[arg(long, value_name = "FILE.toml", env = CONFIG_VARIABLE)]
    pub config: Option<PathBuf>,
    /// The detector's PUSH socket: port 9999 for stream v1, 31001 for stream v2.
    #[arg(long, value_name = "HOST:PORT", env = "SIDEBAND_STREAM")]
    pub stream: Option<String>,
    /// The detector's SIMPLON interface, asked once a second what it dropped and how it is set; it is never told anything.
    #[arg(long, value_name = "HOST[:PORT]", env = "SIDEBAND_API")]
    pub api: Option<String>,
    /// Folder that gets a folder for every series.
    #[arg(long, value_name = "DIR", env = "SIDEBAND_OUT")]
    pub out: Option<PathBuf>,
    /// Folder of the log that keeps every message as it came; nothing is recorded when not given.
    #[arg(long, value_name = "DIR", env = "SIDEBAND_RECORD")]
    pub record: Option<PathBuf>,
    /// Most the log may take, GB (10^9 bytes); what comes beyond is NOT SAVED, and said so, unless the oldest may go.
    #[arg(long, value_name = "GB", env = "SIDEBAND_RECORD_GB")]
    pub record_gb: Option<f64>,
    /// Remove the oldest segments of a log that is full.
    #[arg(long)]
    pub record_remove_oldest: bool,
    /// Make a DECTRIS file set of every series from the log, once it is over and durable.
    #[arg(long)]
    pub export_on_completion: bool,
    /// Folder that gets a folder for every such set [default: exports, among the results].
    #[arg(long, value_name = "DIR", env = "SIDEBAND_EXPORT_FOLDER")]
    pub export_folder: Option<PathBuf>,
    /// Where the page and the API are served; away from this machine's own addresses a token is needed [default: 127.0.0.1:8040].
    #[arg(long, value_name = "ADDR:PORT", env = "SIDEBAND_LISTEN", value_parser = config::listen_address)]
    pub listen: Option<SocketAddr>,
    /// File with the token that the page and the API are asked with; made up at the start where one is needed and none given.
    #[arg(long, value_name = "FILE", env = "SIDEBAND_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Which thresholds of stream v2 are acquired: first, all (each is a series of its own), a number, or the name of a channel
    /// [default: first].
    #[arg(long, value_name = "WHICH", env = "SIDEBAND_THRESHOLD")]
    pub threshold: Option<Threshold>,
    /// Seconds of silence after which a series is over [default: 10].
    #[arg(long, value_name = "SECONDS", env = "SIDEBAND_SILENCE_S")]
    pub silence_s: Option<f64>,
    /// Memory between the wire and the rest, MiB [default: 256].
    #[arg(long, value_name = "MIB", env = "SIDEBAND_RING_MIB")]
    pub ring_mib: Option<u32>,
    /// Most memory the encoded counts may take, in GB (10^9 bytes); chosen from the free memory when not given.
    #[arg(long, value_name = "GB", env = "SIDEBAND_MEMORY_GB")]
    pub memory_gb: Option<f64>,
    /// Worker threads; one a core when not given.
    #[arg(long, value_name = "N", env = "SIDEBAND_THREADS", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// What computes phases: auto (a CUDA device where there is one), cpu, cuda, or cuda:NUMBER [default: auto].
    #[arg(long, value_name = "DEVICE", env = "SIDEBAND_DEVICE")]
    pub device: Option<DeviceChoice>,
    /// End after so many series; stays when not given.
    #[arg(long, value_name = "N")]
    pub series: Option<u64>,
    /// The microscope.
    #[command(flatten)]
    pub optics: OpticsArgs,
    /// Bright field, IN,OUT in units of the bright-field radius [default: 0,0.9].
    #[arg(long, value_name = "IN,OUT", help_heading = RINGS)]
    pub bf_ring: Option<Ring>,
    /// Annular dark field [default: 1.2,1.85].
    #[arg(long, value_name = "IN,OUT", help_heading = RINGS)]
    pub adf_ring: Option<Ring>,
    /// Dark field [default: 1.1,inf].
    #[arg(long, value_name = "IN,OUT", help_heading = RINGS)]
    pub df_ring: Option<Ring>,
}

const RINGS: &str = "Virtual detectors (units of the bright-field radius)";

/// Names the file of settings where no flag does.
const CONFIG_VARIABLE: &str = "SIDEBAND_CONFIG";

/// Most bytes of a token file.
const MOST_TOKEN_BYTES: u64 = 4096;

/// Refuses a number outside its range, by its name.
fn within(name: &str, value: f64, range: [f64; 2], unit: &str) -> anyhow::Result<f64> {
    config::within(name, value, range, unit).map_err(|why| WrongFlags::because(anyhow!(why)))
}

impl ServeArgs {
    /// What is asked for, the file of settings and all others read; it ends when `stop` is raised.
    ///
    /// # Errors
    /// What is missing, by name; a file that cannot be read; a number out of its range; a token that is none.
    pub fn request(&self, stop: StopFlag) -> anyhow::Result<ServeRequest> {
        let file = self.config.as_deref().map(read_config).transpose()?.unwrap_or_default();
        let missing = |what: &str| WrongFlags::because(anyhow!("{what}"));
        let stream = self.stream.clone().or(file.stream.address.clone());
        let stream = stream.ok_or_else(|| {
            missing("nobody said where the detector is: give --stream HOST:PORT, or address in [stream]")
        })?;
        let out = self.out.clone().or(file.results.out.clone());
        let out =
            out.ok_or_else(|| missing("nobody said where results go: give --out DIR, or out in [results]"))?;
        let token_file = self.token_file.as_ref().or(file.page.token_file.as_ref());
        let mut optics = self.optics.request()?;
        if let (None, Some(path)) = (&optics.optics_file, &self.config) {
            let values = file.optics_values().map_err(|what| WrongFlags::because(anyhow!("{what}")))?;
            optics.optics_file = Some((path.clone(), values));
        }
        let silence = self.silence_s.or(file.stream.silence_s).unwrap_or(DEFAULT_SILENCE_S);
        let silence = within("silence_s", silence, config::SILENCES_S, "s")?;
        let ring_mib = self.ring_mib.or(file.stream.ring_mib).unwrap_or(DEFAULT_RING_MIB);
        let ring_mib = within("ring_mib", ring_mib.into(), config::RINGS_MIB, "MiB")?;
        let memory_gb = self.memory_gb.or(file.limits.memory_gb);
        let memory_gb = memory_gb.map(|gb| within("memory_gb", gb, config::SIZES_GB, "GB")).transpose()?;
        let api = self.api.clone().or(file.stream.api.clone());
        api.as_deref().map(config::check_api).transpose().map_err(|why| WrongFlags::because(anyhow!(why)))?;
        let exports = self.export_folder.clone().or(file.export.folder.clone());
        let export = ExportRequest {
            on_completion: self.export_on_completion || file.export.on_completion.unwrap_or(false),
            folder: exports.unwrap_or_else(|| out.join("exports")),
        };
        Ok(ServeRequest {
            stream: config::stream_address(&stream).map_err(|why| WrongFlags::because(anyhow!(why)))?,
            api,
            listen: self.listen.or(file.page.listen).unwrap_or(DEFAULT_LISTEN),
            token: token_file.map(|path| read_token(path)).transpose()?,
            out,
            optics,
            export,
            record: self.record(&file.record)?,
            rings: self.rings(&file.virtual_detectors),
            threshold: self.threshold.clone().or(file.stream.threshold.clone()).unwrap_or_default(),
            silence: Duration::from_secs_f64(silence),
            ring_bytes: (ring_mib as usize) << 20,
            memory_budget_bytes: memory_gb.map(|gb| (gb * 1e9) as u64),
            threads: self.threads.or(file.limits.threads),
            processor: self.device.or(file.limits.device).unwrap_or_default().open()?,
            most_series: self.series,
            stop,
        })
    }

    fn record(&self, file: &RecordConfig) -> anyhow::Result<Option<RecordSettings>> {
        let Some(folder) = self.record.clone().or(file.folder.clone()) else { return Ok(None) };
        let most_gb = self.record_gb.or(file.most_gb);
        let most_gb = most_gb.map(|gb| within("record_gb", gb, config::SIZES_GB, "GB")).transpose()?;
        let may_remove = self.record_remove_oldest || file.remove_oldest.unwrap_or(false);
        let most_bytes = most_gb.map(|gb| (gb * 1e9) as u64);
        let usual = RecordSettings::new(folder);
        Ok(Some(RecordSettings {
            // whole segments are removed: several have to fit
            segment_bytes: most_bytes.map_or(usual.segment_bytes, |most| (most / 8).min(usual.segment_bytes)),
            most_bytes,
            retention: if may_remove { Retention::RemoveOldest } else { Retention::Keep },
            ..usual
        }))
    }

    fn rings(&self, file: &RingsConfig) -> Rings {
        let usual = Rings::default();
        Rings {
            bf: self.bf_ring.or(file.bf_ring).unwrap_or(usual.bf),
            adf: self.adf_ring.or(file.adf_ring).unwrap_or(usual.adf),
            df: self.df_ring.or(file.df_ring).unwrap_or(usual.df),
        }
    }
}

/// Reads the file of settings; where it cannot be used, the variable that names it is named, too.
fn read_config(path: &Path) -> anyhow::Result<Config> {
    let is_of_environment = std::env::var_os(CONFIG_VARIABLE).is_some_and(|named| named == path);
    Config::read(path).map_err(|error| match is_of_environment {
        true => WrongFlags::because(error.context(CONFIG_VARIABLE)),
        false => WrongFlags::because(error),
    })
}

/// Reads a token.
fn read_token(path: &Path) -> anyhow::Result<String> {
    let refused = |what: String| anyhow!("{}: {what}", path.display());
    let bytes =
        ingest::read_small_file(path, MOST_TOKEN_BYTES).map_err(|error| refused(error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    ensure!(
        text.len() >= 16 && text.bytes().all(is_fine),
        refused(format!(
            "got {} characters, expected a token of at least 16 letters, digits, - _ . ~",
            text.len()
        ))
    );
    Ok(text)
}

/// Sends what the stages have to say to stderr: warnings, or what RUST_LOG asks for. A daemon's log keeps it.
fn speak_up() {
    let usual = || EnvFilter::new("warn");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| usual());
    // already there where this library is used by another program
    let _ = tracing_subscriber::fmt()
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
}

/// Serves until it is told to stop, or enough series have come.
///
/// # Errors
/// Those of [`crate::serve::serve`].
pub(super) fn serve(args: &ServeArgs, stop: StopFlag) -> anyhow::Result<Ending> {
    let request = args.request(stop.clone())?;
    speak_up();
    // a stdout that went away is no reason to lose a series
    let say = move |line: &str| {
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            tell(line);
        }
    };
    crate::serve::serve(&request, say)?;
    let is_done = request.most_series.is_some() && stop.cause() == "request";
    Ok(if is_done { Ending::Done } else { Ending::Interrupted })
}
