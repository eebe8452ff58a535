//! The pipeline: the only place that knows all stages.
//!
//! | way of the data | stage | comes from |
//! |---|---|---|
//! | bytes of the files, read ahead | source | `ingest::source` |
//! | in order; what is missing becomes data | sequence | `ingest::sequence` |
//! | counts | decode | `ingest::decode` |
//! | what is missing is written down | ledger | `ledger.rs` |
//! | encoded blocks | encode | `encoder` |
//! | the resident, and what it has become possible to do | append, with its trigger | `resident` |
//! | spectra row by row, then the phase | live ssb | `ssb` |
//! | images and `result.json` | outputs | `images.rs`, `account.rs`, [`crate::report`] |
//!
//! Every stage runs on a thread of its own, named in `start_stages`; arithmetic inside a stage is spread over rayon's
//! threads. Channels are bounded, so a slow stage slows the reading and nothing else. A stage that ends closes its
//! output, which ends the next in good order: the stop flag ends the source, and the rest follows. Read [`run`] first.

mod account;
mod again;
mod chosen;
mod images;
mod ledger;
mod memory;
mod of_log;
mod of_series;
mod prepare;
mod subject;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use encoder::{EncodeCounters, EncodeStage, Showing};
use ingest::counters::IngestCounters;
use ingest::decode::DecodeStage;
use ingest::dectris::FileSet;
use ingest::raw::RawBatch;
use ingest::sequence::SequenceStage;
use ingest::source::FileSource;
use kernels::Cpu;
use kernels::reduce_frames::{ReduceFrames, ReducedBatch};
use kernels::types::{DetectorShape, Gap, Item};
use resident::{AppendStage, Event, Resident};
use ssb::{LiveResult, LiveSettings, LiveSpectra, LiveSsb, Preview, SsbDevice};

use crate::open::open;
use crate::optics::ResolvedOptics;
use crate::output::{Image, Quantity};
use crate::progress::{Progress, Voice};
use crate::report::{Outcome, RunReport, folders_for, prepare_folder, write_results};
use crate::request::{Interrupted, RunRequest, StopFlag, check_threads};

pub use again::Finished;
pub use chosen::{Choices, Chosen};
use ledger::Ledger;
pub use of_log::run_key as run_of_log;
pub use of_series::{SeriesOptics, of_series, square};
pub(crate) use of_series::{folder_name, name_of_folder};
use prepare::Prepared;
pub use subject::Subject;

/// Batches on their way between two stages.
const BATCHES_BETWEEN: usize = 4;

/// What filling a resident came to.
#[derive(Debug)]
pub struct Filled {
    /// What ingest counted.
    pub counters: Arc<IngestCounters>,
    /// What the encoder counted.
    pub encode: Arc<EncodeCounters>,
    /// Frames that did not come, and why.
    pub gaps: Vec<Gap>,
    /// From the first byte asked for to the last block kept.
    pub elapsed: Duration,
}

/// A run from a master file, or from a log of the recorder, to the result folder. Returns the report as it was written; one a
/// channel where several of a log are asked for.
///
/// # Errors
/// The set cannot be opened, parameters are missing or impossible, the result folder cannot be written to, the memory
/// does not suffice; [`Interrupted`] before the first frame was kept. Frames that cannot be used are no error: they are
/// in the report.
pub fn run(request: RunRequest) -> anyhow::Result<Vec<RunReport>> {
    start_threads(request.threads)?;
    let opening = Instant::now();
    if of_log::is_log(&request.master) {
        return of_log::run(&request, opening);
    }
    let (set, optics) = open(&request)?;
    let subject = Subject::of_files(&set, &request.master);
    let source = file_source(&set, &request.stop);
    let finished = run_source(Cpu, &request, (subject, optics, opening), source, Listener::default())?;
    Ok(vec![finished.report])
}

/// The frames of a file set, as a source.
fn file_source(
    set: &FileSet,
    stop: &StopFlag,
) -> impl FnOnce(Sender<Item<RawBatch>>, Arc<IngestCounters>) + use<> {
    let (runs, stop) = (set.runs(), stop.flag());
    move |raw, counters| FileSource::new(runs, 2, stop).counting(counters).run(raw)
}

/// Starts rayon's global threads, on which stages compute; they can be chosen once in the life of a program.
pub(crate) fn start_threads(asked: Option<usize>) -> anyhow::Result<()> {
    check_threads(asked)?;
    static CHOSEN: Mutex<Option<usize>> = Mutex::new(None);
    let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    match (*chosen, asked) {
        (Some(_), None) => return Ok(()),
        (Some(chosen), Some(asked)) if chosen == asked => return Ok(()),
        (Some(chosen), Some(asked)) => {
            return Err(anyhow!(
                "got {asked} threads, expected {chosen} as in the first run of this program"
            ));
        }
        (None, _) => {}
    }
    let built = rayon::ThreadPoolBuilder::new()
        .num_threads(asked.unwrap_or(0))
        .thread_name(|thread| format!("compute-{thread}"))
        .build_global();
    if let Err(error) = built
        // without a source: something computed before this run, the threads are there already
        && (std::error::Error::source(&error).is_some()
            || asked.is_some_and(|threads| threads != rayon::current_num_threads()))
    {
        return Err(error).with_context(|| match asked {
            Some(threads) => format!("{threads} worker threads cannot be started"),
            None => "one worker thread a core cannot be started; try --threads 1".to_owned(),
        });
    }
    *chosen = Some(rayon::current_num_threads());
    Ok(())
}

/// An acquisition on its way, for whoever wants to look at it meanwhile.
#[derive(Clone, Debug)]
pub struct Running {
    /// What has been kept so far.
    pub resident: Arc<Resident>,
    /// What ingest has counted so far.
    pub counters: Arc<IngestCounters>,
    /// The microscope and the virtual detectors: what is chosen while it comes counts for the results.
    pub chosen: Chosen,
    /// The detector's own mask, 0 is good, `[det_row][det_col]`.
    pub pixel_mask: Vec<u32>,
}

/// What becomes of results that cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unwritable {
    /// The run fails, before the first frame where that can be known.
    #[default]
    Fails,
    /// They are kept in memory and it is said: what is shown live is worth more than a disk that is full.
    Borne,
}

/// Who wants to see an acquisition while it comes.
pub struct Listener<'a> {
    /// Told when the stages are at work.
    pub started: Box<dyn FnOnce(Running) + 'a>,
    /// What becomes of results that cannot be written.
    pub unwritable: Unwritable,
    /// Takes phases of the rows so far. Where somebody does, blocks are shown in the resident before they are whole.
    pub previews: Option<Sender<Preview>>,
    /// Told of the phase of everything as soon as there is one, before anything is written.
    pub reconstructed: Box<dyn FnOnce(&LiveResult) + 'a>,
}

impl Default for Listener<'_> {
    /// Nobody.
    fn default() -> Self {
        let unwritable = Unwritable::Fails;
        Self { started: Box::new(|_| ()), unwritable, previews: None, reconstructed: Box::new(|_| ()) }
    }
}

/// The run in its four parts: what has to be known, the way of the data, the images, the account. `what` is the acquisition,
/// its optics, and when it was asked for; `source` sends its frames.
///
/// # Errors
/// As [`run`].
pub fn run_source<D>(
    device: D,
    request: &RunRequest,
    what: (Subject, ResolvedOptics, Instant),
    source: impl FnOnce(Sender<Item<RawBatch>>, Arc<IngestCounters>) + Send,
    listener: Listener<'_>,
) -> anyhow::Result<Finished<D>>
where
    D: ReduceFrames + SsbDevice,
{
    let (subject, optics, opening) = what;
    let unwritable = listener.unwritable;
    let (prepared, _made) = Prepared::new(request, subject, optics, opening, unwritable)?;
    let (streamed, spectra) = stream(device.clone(), request, &prepared, source, listener)?;
    if prepared.resident.snapshot().totals().frames == 0 {
        return Err(nothing_came(request, &streamed.filled));
    }
    let detector = prepared.subject.detector;
    let not_writable = prepared.not_writable.clone();
    let mut finished = account::settle(&device, request, prepared, streamed, spectra)?;
    let Finished { report, images, .. } = &mut finished;
    let has_phase = images.iter().any(|image| image.quantity() == Quantity::Phase);
    let outcome = match (report.interrupted, has_phase) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Phase,
        (false, false) => Outcome::NoPhase,
    };
    let saved = match not_writable {
        Some(why) => Err(anyhow!(why)),
        None => save(request, outcome, images, report, detector),
    };
    match (saved, unwritable) {
        (Ok(()), _) => {}
        (Err(error), Unwritable::Borne) => finished.not_written = Some(format!("{error:#}")),
        (Err(error), Unwritable::Fails) => return Err(error),
    }
    Ok(finished)
}

/// Writes the results to the first place that takes them.
fn save(
    request: &RunRequest,
    outcome: Outcome,
    images: &[Image],
    report: &mut RunReport,
    detector: DetectorShape,
) -> anyhow::Result<()> {
    let scan = report.optics.scan_shape.value;
    let mut refused = None;
    for folder in folders_for(&request.out, outcome) {
        if folder == request.out {
            return write_results(&folder, images, report).map(drop);
        }
        report.warnings.push(kept(outcome, &request.out, &folder));
        let written = prepare_folder(&folder, scan, detector)
            .and_then(|_beside| write_results(&folder, images, report));
        match written {
            Ok(_) => return Ok(()),
            Err(error) => refused = refused.or(Some(error)),
        }
        report.warnings.pop();
    }
    let error = refused.unwrap_or_else(|| anyhow!("there is no place for the results"));
    match outcome {
        Outcome::Interrupted => {
            Err(Interrupted { what: format!("and what had arrived cannot be saved: {error:#}") }.into())
        }
        Outcome::Phase | Outcome::NoPhase => Err(error),
    }
}

/// A sentence about an older result that is worth more than this one.
fn kept(outcome: Outcome, complete: &Path, beside: &Path) -> String {
    let (why, what) = match outcome {
        Outcome::Interrupted => ("interrupted", "what had arrived"),
        Outcome::Phase | Outcome::NoPhase => ("no phase image", "what could be computed"),
    };
    let (complete, beside) = (complete.display(), beside.display());
    format!("{why}: the complete result in {complete} is kept, {what} is in {beside}")
}

fn nothing_came(request: &RunRequest, filled: &Filled) -> anyhow::Error {
    if request.stop.is_raised() {
        return Interrupted { what: "before the first frame was kept, nothing is saved".to_owned() }.into();
    }
    let reason = filled.gaps.first().map_or_else(|| "nothing came".to_owned(), |gap| gap.reason.to_string());
    anyhow!("no frame of {} could be read; {reason}", request.master.display())
}

/// What the way of the data came to.
struct Streamed {
    filled: Filled,
    /// The reconstruction, or why there is none.
    live: anyhow::Result<LiveResult>,
}

/// Sends an acquisition through every stage, up to the reconstruction, while telling the progress.
fn stream<D>(
    device: D,
    request: &RunRequest,
    prepared: &Prepared,
    source: impl FnOnce(Sender<Item<RawBatch>>, Arc<IngestCounters>) + Send,
    listener: Listener<'_>,
) -> anyhow::Result<(Streamed, Option<LiveSpectra<D>>)>
where
    D: ReduceFrames + SsbDevice,
{
    let Prepared { subject, resident, .. } = prepared;
    let frames = subject.frames_expected;
    let showing = listener.previews.as_ref().map(|_| Showing::default());
    let settings = LiveSettings { previews: listener.previews, ..prepared.live_settings() };
    let live = LiveSsb::new(device.clone(), settings);
    let progress = Progress::new(frames, Voice::for_stderr(request.quiet));
    for note in &prepared.notes {
        progress.note(note);
    }
    std::thread::scope(|scope| {
        let (results, results_in) = bounded(1);
        let live_ssb = move |events| live.run(events, results);
        let stages = start_stages(scope, device, source, (frames, showing), resident, live_ssb)?;
        (listener.started)(Running {
            resident: resident.clone(),
            counters: stages.counters.clone(),
            chosen: prepared.chosen.clone(),
            pixel_mask: prepared.pixel_mask.clone(),
        });
        let watched = watch(&results_in, &stages.counters, &progress);
        if let Some(live) = &watched {
            (listener.reconstructed)(live);
        }
        let (filled, live) = stages.finish();
        progress.finish();
        let (live, spectra) = match live {
            Ok(spectra) => (watched.ok_or_else(|| anyhow!("the scan did not complete")), spectra),
            Err(error) => (Err(error.into()), None),
        };
        let filled = filled.map_err(|error| memory::explained(error, request.memory_budget_bytes, frames))?;
        Ok((Streamed { filled, live }, spectra))
    })
}

/// Fills a resident from a file set and nothing else; what a run does before it reconstructs.
///
/// # Errors
/// The device fails or the budget does not suffice.
pub fn fill<D>(device: D, set: &FileSet, resident: &Arc<Resident>, stop: &StopFlag) -> anyhow::Result<Filled>
where
    D: ReduceFrames,
{
    std::thread::scope(|scope| {
        let drain = |events: Receiver<Event>| events.iter().for_each(drop);
        let source = file_source(set, stop);
        start_stages(scope, device, source, (set.frames_expected, None), resident, drain)?.finish().0
    })
}

/// The stages at work, from the files to the consumer of the resident's events.
struct Stages<'scope, E> {
    counters: Arc<IngestCounters>,
    encode: Arc<EncodeCounters>,
    ledger: Arc<Ledger>,
    started: Instant,
    to_encode: Vec<ScopedJoinHandle<'scope, anyhow::Result<()>>>,
    append: ScopedJoinHandle<'scope, anyhow::Result<Instant>>,
    consumer: ScopedJoinHandle<'scope, E>,
}

/// Starts every stage, in the order in which data passes them. So many frames are expected, and shown before their block is
/// whole where that is wanted.
fn start_stages<'scope, D, E: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    device: D,
    source: impl FnOnce(Sender<Item<RawBatch>>, Arc<IngestCounters>) + Send + 'scope,
    (frames_expected, showing): (u64, Option<Showing>),
    resident: &Arc<Resident>,
    consumer: impl FnOnce(Receiver<Event>) -> E + Send + 'scope,
) -> anyhow::Result<Stages<'scope, E>>
where
    D: ReduceFrames,
{
    let counters = Arc::new(IngestCounters::default());
    let ledger = Arc::new(Ledger::default());
    let (raw, raw_in) = bounded(BATCHES_BETWEEN);
    let (ordered, ordered_in) = bounded(BATCHES_BETWEEN);
    let (decoded, decoded_in) = bounded(BATCHES_BETWEEN);
    let (entered, entered_in) = bounded(1);
    let (blocks, blocks_in) = bounded(BATCHES_BETWEEN);
    // Events hold only a pointer to the resident; a consumer that lags must not hold up the encoder.
    let (events, events_in) = bounded(frames_expected.min(1 << 16) as usize + 8);

    let sequence = SequenceStage::new(frames_expected, counters.clone());
    let (spent, spent_in) = bounded(BATCHES_BETWEEN);
    let decode = DecodeStage::<ReducedBatch<D>>::new(device.clone(), counters.clone()).reusing(spent_in);
    let (book, source_counters) = (ledger.clone(), counters.clone());
    let encode = EncodeStage::new(device).with_positions(frames_expected).returning(spent);
    let encode = match showing {
        Some(showing) => encode.showing(showing),
        None => encode,
    };
    let encode_counters = encode.counters();
    let append = AppendStage::new(resident.clone());

    let named = |name: &str| Builder::new().name(name.to_owned());
    let no_thread = "no thread for a stage; is ulimit -v or ulimit -u too low?";
    let started = Instant::now();
    let to_encode = [
        named("ingest-source").spawn_scoped(scope, move || {
            source(raw, source_counters);
            Ok(())
        }),
        named("ingest-sequence").spawn_scoped(scope, move || {
            sequence.run(raw_in, ordered);
            Ok(())
        }),
        named("ingest-decode").spawn_scoped(scope, move || Ok(decode.run(ordered_in, decoded)?)),
        named("ledger").spawn_scoped(scope, move || {
            book.run(decoded_in, entered);
            Ok(())
        }),
        named("encode").spawn_scoped(scope, move || Ok(encode.run(entered_in, blocks)?)),
    ];
    let to_encode = to_encode.into_iter().collect::<Result<_, _>>().context(no_thread)?;
    let append = named("append").spawn_scoped(scope, move || {
        append.run(blocks_in, events)?;
        Ok(Instant::now())
    });
    let append = append.context(no_thread)?;
    let consumer = named("ssb-live").spawn_scoped(scope, move || consumer(events_in)).context(no_thread)?;
    Ok(Stages { counters, encode: encode_counters, ledger, started, to_encode, append, consumer })
}

impl<E> Stages<'_, E> {
    /// Waits for every stage.
    fn finish(self) -> (anyhow::Result<Filled>, E) {
        let mut outcome = Ok(());
        for stage in self.to_encode {
            outcome = outcome.and(joined(stage));
        }
        let appended = joined(self.append);
        let consumed = match self.consumer.join() {
            Ok(consumed) => consumed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let filled = outcome.and(appended).map(|done| Filled {
            counters: self.counters,
            encode: self.encode,
            gaps: self.ledger.gaps(),
            elapsed: done.duration_since(self.started),
        });
        (filled, consumed)
    }
}

/// The result of a stage; a stage that panicked is our fault and ends the program as a panic.
fn joined<T>(stage: ScopedJoinHandle<'_, anyhow::Result<T>>) -> anyhow::Result<T> {
    match stage.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Waits for the result while telling the progress.
fn watch(
    results: &Receiver<LiveResult>,
    counters: &IngestCounters,
    progress: &Progress,
) -> Option<LiveResult> {
    let (mut received, mut missing) = (0, 0);
    loop {
        let outcome = results.recv_timeout(Duration::from_millis(100));
        let (received_now, missing_now) = (counters.frames_decoded.get(), counters.frames_missing.get());
        progress.add_received(received_now - received);
        progress.add_missing(missing_now - missing);
        (received, missing) = (received_now, missing_now);
        match outcome {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}
