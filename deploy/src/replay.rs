//! `sideband replay`: a detector to test against. A file set or a recording goes over the wire as a detector control unit sends it.
//!
//! In: a DECTRIS file set, a series of a recording, or a simulation. Out: its frames, compressed as they are stored, over a ZeroMQ PUSH socket (stream v1 or v2), and a
//! SIMPLON REST interface. [`run`] joins the parts: [`frames`] fetches frames, [`plan`] says what is sent in which order and
//! with which faults, [`layout`] lays messages out before they are due, [`sender`] sends them.

pub mod fault;
pub mod frames;
pub mod layout;
pub mod log;
pub mod monitor;
pub mod plan;
pub mod recording;
pub mod sender;
mod series;
pub mod simplon;
pub mod source;
mod thief;

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use ingest::stream::compose::Version;

use crate::request::{Interrupted, StopFlag, WrongFlags};
use crate::simulate::SimulateArgs;
use fault::FaultSwitch;
use log::FaultLog;
use monitor::Pictures;
use sender::Sender;
pub use series::{Series, SeriesSource, Wording};
use simplon::detector::{Detector, Shared};
use simplon::files::Files;
use simplon::http::Api;
use source::Source;

/// How fast frames are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// So many a second.
    FramesPerSecond(f64),
    /// As fast as readers take them.
    Max,
    /// As fast as they were recorded.
    Recorded,
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            "recorded" => Ok(Self::Recorded),
            number => match number.parse() {
                Ok(rate) if (1e-3..=1e9).contains(&rate) => Ok(Self::FramesPerSecond(rate)),
                _ => {
                    Err(format!("got '{text}', expected frames a second (0.001 to 1e9), 'max' or 'recorded'"))
                }
            },
        }
    }
}

/// What is replayed, and how.
#[derive(Clone, Debug)]
pub struct ReplaySettings {
    /// The DECTRIS master file, or the folder of a recording.
    pub source: PathBuf,
    /// What is simulated instead of read, where that is asked for; an empty `out` writes no truth.
    pub simulation: Option<SimulateArgs>,
    /// Number or unique name of the series of a recording; needed where it holds several.
    pub log_series: Option<String>,
    /// The version of the stream to begin with.
    pub version: Version,
    /// The address everything listens on.
    pub bind: IpAddr,
    /// Port of the stream; none: 9999 for v1, 31001 for v2; 0 lets the system choose.
    pub stream_port: Option<u16>,
    /// Port of the REST interface; 0 lets the system choose.
    pub api_port: u16,
    /// How fast.
    pub rate: Rate,
    /// Series are armed by themselves, once a reader is there.
    pub arms_itself: bool,
    /// Ends after so many series; none: stays.
    pub num_series: Option<u64>,
    /// How long a message waits for a reader that does not read.
    pub patience: Duration,
    /// How long a series that arms itself waits for a reader.
    pub wait_for_reader: Duration,
    /// Most bytes of messages that are laid out before they are due; none: half of the memory that is free.
    pub memory_bytes: Option<u64>,
    /// Decides what the faults hit.
    pub seed: u64,
    /// What goes wrong on purpose.
    pub faults: Vec<FaultSwitch>,
    /// Where it is written what the faults hit.
    pub fault_log: Option<PathBuf>,
    /// Names of the channels in stream v2; none: those of a recording, else `threshold_1`. Each gets its own counts where the
    /// source has them or makes them, the same frames where it is a set.
    pub channels: Vec<String>,
    /// How long after it is armed over the REST interface the pulses of an external trigger come.
    pub pulse_delay: Duration,
    /// Raised to end.
    pub stop: StopFlag,
}

/// Replays until as many series are sent as were asked for, or the stop flag is raised.
///
/// # Errors
/// The set cannot be opened or cannot be sent in this version of the stream, a port is taken, no reader came.
pub fn run(settings: &ReplaySettings) -> anyhow::Result<()> {
    check(settings)?;
    let set = Source::open(settings)?;
    let frames = set.frames.clone();
    let source = Arc::new(SeriesSource::new(&set, settings)?);
    source.check(settings.version).map_err(WrongFlags::because)?;
    let log = settings.fault_log.as_deref().map(FaultLog::create).transpose()?;
    let (orders, orders_in) = crossbeam_channel::bounded(64);
    let shared = Arc::new(Shared::default());
    let sender = Sender::bind(settings, frames, log, orders_in, Arc::clone(&shared))?;
    let detector = Arc::new(Detector::new(&set, source, settings, Arc::clone(&shared), orders));
    let (files, pictures) = (Files::of(&set.files), Pictures::of(&set));
    let api = Api::start(settings.bind, settings.api_port, Arc::clone(&detector), files, pictures)?;
    print(&sender.address_line()?)?;
    print(&format!("api http://{}", api.address()))?;
    let named = std::thread::Builder::new().name("replay-send".to_owned());
    let sending = named.spawn(move || sender.run()).context("no thread to send")?;
    let most = settings.num_series.unwrap_or(1);
    while settings.arms_itself && shared.series_over() < most && !sending.is_finished() {
        if !shared.state().is_armed() {
            match detector.arm_now() {
                // nobody takes orders any more
                Err(_) if settings.stop.is_raised() => break,
                armed => armed?,
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = sending.join().map_err(|_| anyhow::anyhow!("the sending thread panicked"))?;
    drop(api);
    match sent? {
        Some(what) => Err(Interrupted { what }.into()),
        None => Ok(()),
    }
}

/// Where the stream listens.
fn stream_address(settings: &ReplaySettings, version: Version) -> SocketAddr {
    let own = match version {
        Version::V1 => 9999,
        Version::V2 => 31001,
    };
    SocketAddr::new(settings.bind, settings.stream_port.unwrap_or(own))
}

/// Writes a line to stdout at once: whoever started the program waits for it.
fn print(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(error).context("stdout cannot be written to"))
        }
        _ => Ok(()),
    }
}

/// Refuses what no thread could make sense of.
///
/// # Errors
/// What is wrong with the settings.
fn check(settings: &ReplaySettings) -> anyhow::Result<()> {
    ensure!(settings.num_series != Some(0), "--series: got 0, expected at least 1");
    Ok(())
}
