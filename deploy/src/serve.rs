//! The daemon beside the microscope: listens to a detector's stream, reconstructs series after series, and shows them.
//!
//! It reads and never arms. One thread receives, the pipeline works on one series at a time, pages are answered by a few
//! threads of their own that only ever read what is there: nobody who looks can hold up what comes.
//!
//! | part | file |
//! |---|---|
//! | series after series through the pipeline | `daemon.rs` |
//! | what is known of every series, for whoever asks | `hub.rs`, `series.rs` |
//! | what is asked for of the microscope, the virtual detectors, the reconstruction | `asked.rs` |
//! | the phase, preview and final, and again by other optics | `phase.rs` |
//! | images of a series, also of one that is still coming | `images.rs` |
//! | the HTTP API, the page, who may ask, and how many | `http.rs`, `page.rs`, `access.rs`, `capped.rs` |
//! | series of earlier runs, exports, series finished again | `recorded.rs`, `jobs.rs` |
//! | what there is to be warned of while frames come | `warnings.rs` |
//! | results that could not be written, tried again | `unwritten.rs` |
//! | what the detector says of itself, what it dropped | `detector.rs` |
//! | numbers for Prometheus | `metrics.rs` |

mod access;
mod asked;
mod capped;
mod daemon;
mod detector;
mod http;
mod hub;
mod images;
mod jobs;
mod metrics;
mod page;
mod phase;
mod recorded;
mod series;
mod unwritten;
mod warnings;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, ensure};
use ingest::record::{LogReport, RecordCounters, RecordError, RecordLog, RecordSettings, RecordStage};
use ingest::stream::receive::{ReceiveCounters, ReceiveSettings, ReceiveStage};
use ingest::stream::source::StreamSource;
use ingest::stream::threshold::Threshold;
use kernels::Processor;
use kernels::types::ScanShape;

use crate::optics::{
    Acquisition, OpticsError, OpticsRequest, OpticsValues, Provenance, Source, resolve_known,
};
use crate::pipeline::start_threads;
use crate::report::remove_abandoned;
use crate::request::{Interrupted, StopFlag, WrongFlags};
use crate::rings::Rings;

use access::Access;
use hub::{Hub, Say};

/// What the daemon is told.
#[derive(Clone, Debug)]
pub struct ServeRequest {
    /// `HOST:PORT` of the detector's PUSH socket.
    pub stream: String,
    /// `HOST:PORT` of its SIMPLON interface, which is asked what it dropped; not asked where none is named.
    pub api: Option<String>,
    /// Where pages are served; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The secret that pages are asked for; made up at the start where the address is not this machine's alone.
    pub token: Option<String>,
    /// Every series gets a folder in here.
    pub out: PathBuf,
    /// Where every message is kept as it came; nowhere where this is nothing.
    pub record: Option<RecordSettings>,
    /// Exports of what is recorded.
    pub export: ExportRequest,
    /// The microscope.
    pub optics: OpticsRequest,
    /// The virtual detectors.
    pub rings: Rings,
    /// Which channels of a series are acquired, each as an acquisition of its own.
    pub threshold: Threshold,
    /// How long a series may be silent before it is over.
    pub silence: Duration,
    /// Bytes of the ring between the wire and the rest.
    pub ring_bytes: usize,
    /// Most bytes the encoded resident may take; none: chosen from the memory that is free.
    pub memory_budget_bytes: Option<u64>,
    /// Worker threads; none: one a core.
    pub threads: Option<usize>,
    /// What computes phases.
    pub processor: Processor,
    /// Series after which it ends; none: it stays.
    pub most_series: Option<u64>,
    /// Raised to end it in good order.
    pub stop: StopFlag,
}

/// Exports of what is recorded.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    /// Whether every series is exported once it is over and durable.
    pub on_completion: bool,
    /// Every set gets a folder in here.
    pub folder: PathBuf,
}

/// Bytes of a slab of the ring.
const SLAB_BYTES: usize = 1 << 20;
/// The longest message is as long as the ring, within these bounds: a start with all that a detector says of a million
/// pixels is 9 MB.
const LONGEST_MESSAGE: std::ops::Range<u64> = 64 << 20..512 << 20;

/// Runs the daemon until the stop flag is raised or enough series have come. `say` is given the lines that a person or a
/// script waits for: where it listens, and what became of each series, again where results were made again to something else.
///
/// # Errors
/// What is missing of the microscope, by name; an address or a folder that cannot be used; where a number of series was asked
/// for, those that failed and messages that were not saved.
pub fn serve(request: &ServeRequest, say: impl Fn(&str) + Send + Sync + 'static) -> anyhow::Result<()> {
    let begun = SystemTime::now();
    start_threads(request.threads)?;
    let unknown = check_optics(&request.optics)?;
    ensure!(
        request.record.is_some() || !request.export.on_completion,
        WrongFlags::because(anyhow!(
            "exports are made from the log: give --record DIR, or folder in [record]"
        ))
    );
    // first, so that a port that is taken leaves nothing behind
    let listener = http::listen(request.listen)?;
    std::fs::create_dir_all(&request.out)
        .with_context(|| format!("{}: cannot be made", request.out.display()))?;
    remove_abandoned(&request.out);
    let stop = request.stop.flag();
    let counters = Arc::new(ReceiveCounters::default());
    let settings = ReceiveSettings {
        slab_bytes: SLAB_BYTES,
        slabs: (request.ring_bytes / SLAB_BYTES).max(4),
        most_message_bytes: (request.ring_bytes as u64).clamp(LONGEST_MESSAGE.start, LONGEST_MESSAGE.end),
        ..ReceiveSettings::new(&request.stream)
    };
    let (receive, received) = ReceiveStage::new(settings, counters.clone(), stop.clone());
    let recorded = Arc::new(RecordCounters::default());
    let mut first_message = 0;
    let (record, received) = match &request.record {
        None => (None, received),
        Some(settings) => {
            let log = open_log(settings, &stop)?;
            say(&log_line(settings, log.recovered()));
            first_message = log.next_record();
            let (stage, received) = RecordStage::new(received, log, recorded.clone());
            (Some(stage), received)
        }
    };
    let mut source = StreamSource::new(received, stop.clone());
    source.count_from(first_message);
    let say = Arc::new(say);
    let hub = Arc::new(Hub::new(request, counters, recorded, &source, Say(say.clone())));
    let told = hub.clone();
    source.on_notice(move |notice| told.notice(notice));
    let access = Access::new(request.listen, request.token.clone())?;
    let pages = http::start(listener, hub.clone(), access.clone(), request)?;
    say(&format!("stream tcp://{}", request.stream));
    say(&format!("page {}", access.address(pages.address())));
    if let Some(unknown) = unknown {
        say(&format!("{unknown}: there is no phase until it is given, on the page or over the API"));
    }
    let named = std::thread::Builder::new().name("stream-receive".to_owned());
    let outcome = std::thread::scope(|scope| {
        named.spawn_scoped(scope, || receive.run()).context("no thread to receive on")?;
        if let Some(record) = record {
            let named = std::thread::Builder::new().name("record".to_owned());
            named.spawn_scoped(scope, || record.run()).context("no thread to record on")?;
        }
        if let Some(detector) = &hub.detector {
            scope.spawn(|| hub.watch.run(detector, &request.stop));
        }
        if let Some(settings) = &request.record {
            scope.spawn(|| {
                let (log, out) = (&settings.folder, &request.out);
                hub.recorded_before.read(log, out, &request.threshold, begun, request.stop.flag());
            });
        }
        scope.spawn(|| hub.jobs.run(&hub, &request.stop));
        scope.spawn(|| unwritten::run(&hub, &request.stop));
        let outcome = daemon::run(request, source, &hub);
        // the receiver ends with the daemon, whyever that ended
        request.stop.raise();
        outcome
    });
    hub.stopping();
    pages.stop();
    let lost = hub.not_saved();
    if lost > 0 {
        say(&format!("log: {lost} messages NOT SAVED ({})", hub.record_error()));
    }
    let failed = outcome?;
    let Some(asked) = request.most_series else { return Ok(()) };
    ensure!(failed == 0, "{failed} of {asked} series failed");
    ensure!(lost == 0, "{lost} messages are not in the log");
    Ok(())
}

/// Opens the log; its last segment is read for that.
///
/// # Errors
/// Those of [`RecordLog::open_until`]; [`Interrupted`].
fn open_log(settings: &RecordSettings, stop: &Arc<AtomicBool>) -> anyhow::Result<RecordLog> {
    RecordLog::open_until(settings.clone(), stop).map_err(|error| match error {
        RecordError::Stopped => Interrupted { what: "before anything was received".to_owned() }.into(),
        error => error.into(),
    })
}

/// What is in a log when it is opened.
fn log_line(settings: &RecordSettings, found: &LogReport) -> String {
    let torn = match found.num_damages {
        0 => String::new(),
        damages => format!(", {damages} damaged places passed over"),
    };
    let folder = settings.folder.display();
    match (found.segments, found.num_damages) {
        (0, 0) => format!("log {folder}: new"),
        _ => format!("log {folder}: goes on behind {} messages in its last segment{torn}", found.records),
    }
}

/// What of the microscope is not known; the shape of a scan and the voltage may come with a series.
///
/// # Errors
/// A value that cannot be.
fn check_optics(request: &OpticsRequest) -> Result<Option<String>, OpticsError> {
    let row = OpticsValues { scan_shape: Some(ScanShape { rows: 1, cols: 1 }), ..OpticsValues::default() };
    let shape =
        Source { provenance: Provenance::StandIn, place: "the number of images".to_owned(), values: row };
    let acquisition = Acquisition { frames_expected: u64::MAX };
    Ok(resolve_known(request, &[shape], acquisition)?.unknown_text())
}
