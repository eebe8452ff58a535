//! `sideband replay`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, FromArgMatches, ValueEnum};
use ingest::stream::compose::Version;

use super::{Ending, signals};
use crate::replay::fault::FaultSwitch;
use crate::replay::{Rate, ReplaySettings};
use crate::request::WrongFlags;
use crate::simulate::SimulateArgs;

/// A version of the stream, as it is said on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StreamVersion {
    /// JSON and blobs, `format` legacy, port 9999.
    V1,
    /// CBOR, `format` cbor, port 31001.
    V2,
}

/// Sends a file set, or a recording, over the wire as a detector does.
///
/// Prints where it listens: one line for the stream, one for the REST interface; then one line a series.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// A DECTRIS master file, NAME_master.h5; the folder of a recording; or the word simulate, for frames that are made while
    /// they are sent.
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// Number or unique name of the series of a recording; needed where it holds several.
    #[arg(long, value_name = "ID")]
    pub log_series: Option<String>,
    /// Version of the stream to begin with; the REST interface can change it (stream/config/format).
    #[arg(long, value_enum, default_value = "v2")]
    pub stream: StreamVersion,
    /// Port of the stream; 9999 for v1 and 31001 for v2 when not given. 0 lets the system choose.
    #[arg(long, value_name = "PORT")]
    pub stream_port: Option<u16>,
    /// Port of the REST interface. 0 lets the system choose.
    #[arg(long, value_name = "PORT", default_value_t = 18080)]
    pub api_port: u16,
    /// Address to listen on; anything but the loopback can be reached by others, and there is no password.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind: IpAddr,
    /// Frames a second, or max, or recorded.
    #[arg(long, value_name = "RATE", default_value = "recorded")]
    pub rate: Rate,
    /// Arm without being told to, as soon as a reader is there.
    #[arg(long)]
    pub arm: bool,
    /// End after so many series; with --arm, arm so many.
    #[arg(long, value_name = "N")]
    pub series: Option<u64>,
    /// How long a message waits for a reader that does not read, before it is dropped.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub patience: Duration,
    /// How long --arm waits for a reader.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub wait: Duration,
    /// Most memory for messages that are laid out ahead, in MB; half of what is free when not given.
    #[arg(long, value_name = "MB")]
    pub memory_mb: Option<u64>,
    /// Names of the channels in stream v2, such as threshold_1,threshold_2,difference: of a recording those it has, of a
    /// simulation each with counts of its own; all get the frames of a file set [default: those of a recording, else
    /// threshold_1].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub channels: Vec<String>,
    /// How long after arm the pulses of an external trigger come.
    #[arg(long, value_name = "SECONDS", default_value = "0.05", value_parser = seconds)]
    pub pulse_delay: Duration,
    /// Seed of the faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// A fault, KIND or KIND=VALUE; can be given several times.
    #[arg(long, value_name = "KIND[=VALUE]")]
    pub fault: Vec<FaultSwitch>,
    /// Write which frames were hit by what, one JSON object a series.
    #[arg(long, value_name = "FILE")]
    pub fault_log: Option<PathBuf>,
    /// What is simulated, behind --: the flags of sideband simulate. --out DIR writes truth.json and truth_phase.npy there.
    #[arg(last = true, value_name = "FLAGS OF SIMULATE")]
    pub simulated: Vec<String>,
}

/// A time of at most a day.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(secs) if (0.0..=86_400.0).contains(&secs) => Ok(Duration::from_secs_f64(secs)),
        _ => Err(format!("got '{text}', expected seconds, 0 to 86400")),
    }
}

/// What `--out` of a simulation is when it is not given; no file system has it.
const NO_FOLDER: &str = "\n";

/// What is simulated, where the source is the word for it and nothing of that name is there.
///
/// # Errors
/// Flags that `sideband simulate` does not take; flags of it beside another source.
fn simulation(source: &Path, flags: &[String]) -> anyhow::Result<Option<SimulateArgs>> {
    if source != Path::new("simulate") || source.exists() {
        if flags.is_empty() {
            return Ok(None);
        }
        return Err(WrongFlags::because(anyhow::anyhow!(
            "got {} behind --, which is for the source simulate; the source is {}",
            flags.join(" "),
            source.display()
        )));
    }
    let command = SimulateArgs::augment_args(clap::Command::new("sideband replay simulate --"));
    let command = command.mut_arg("out", |out| out.required(false).default_value(NO_FOLDER));
    let words = std::iter::once("simulate").chain(flags.iter().map(String::as_str));
    let matches = command.try_get_matches_from(words).map_err(|error| match error.use_stderr() {
        true => WrongFlags::because(error),
        // what was asked for, such as --help
        false => error.exit(),
    })?;
    let mut args = SimulateArgs::from_arg_matches(&matches).map_err(WrongFlags::because)?;
    if args.out == Path::new(NO_FOLDER) {
        args.out = PathBuf::new();
    }
    Ok(Some(args))
}

/// Replays.
///
/// # Errors
/// Those of [`crate::replay::run`].
pub(super) fn replay(args: ReplayArgs) -> anyhow::Result<Ending> {
    let settings = ReplaySettings {
        simulation: simulation(&args.source, &args.simulated)?,
        source: args.source,
        log_series: args.log_series,
        version: match args.stream {
            StreamVersion::V1 => Version::V1,
            StreamVersion::V2 => Version::V2,
        },
        bind: args.bind,
        stream_port: args.stream_port,
        api_port: args.api_port,
        rate: args.rate,
        arms_itself: args.arm,
        num_series: args.series,
        patience: args.patience,
        wait_for_reader: args.wait,
        memory_bytes: args.memory_mb.map(|mb| mb.saturating_mul(1_000_000)),
        seed: args.seed,
        faults: args.fault,
        fault_log: args.fault_log,
        channels: args.channels,
        pulse_delay: args.pulse_delay,
        stop: signals::stop_on_signal()?,
    };
    crate::replay::run(&settings).map(|()| Ending::Done)
}
