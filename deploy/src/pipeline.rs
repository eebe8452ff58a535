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
//! | images and `result.json` | outputs | `final_images.rs`, `account.rs`, [`crate::report`] |
//!
//! Every stage runs on a thread of its own, named in `stages.rs`; arithmetic inside a stage is spread over rayon's
//! threads. Channels are bounded, so a slow stage slows the reading and nothing else. A stage that ends closes its
//! output, which ends the next in good order: the stop flag ends the source, and the rest follows. Read [`run`] first.

mod account;
mod again;
mod chosen;
mod final_images;
mod ledger;
mod memory;
mod of_log;
mod of_series;
mod prepare;
mod stages;
mod subject;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use encoder::{EncodeCounters, Showing};
use ingest::counters::IngestCounters;
use ingest::dectris::FileSet;
use ingest::raw::RawBatch;
use ingest::source::FileSource;
use kernels::reduce_frames::ReduceFrames;
use kernels::types::{DetectorShape, Gap, Item};
use kernels::{Cpu, Processor};
use resident::{Event, Resident};
use ssb::{LiveResult, LiveSettings, LiveSpectra, LiveSsb, Preview};

use crate::open::open;
use crate::optics::ResolvedOptics;
use crate::output::{Image, Quantity};
use crate::progress::{Progress, Voice};
use crate::report::{Outcome, RunReport, folders_for, prepare_folder, write_results};
use crate::request::{Interrupted, RunRequest, StopFlag, check_threads};

pub use again::Finished;
pub use chosen::{Choices, Chosen};
pub use of_log::run_key as run_of_log;
pub use of_series::{SeriesOptics, of_series, square};
pub(crate) use of_series::{folder_name, name_of_folder, still_holds};
use prepare::Prepared;
use stages::start_stages;
pub use subject::Subject;

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
    let finished = run_source(&request, (subject, optics, opening), source, Listener::default())?;
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
    /// What is said of the frames while they come: it stands in the report.
    pub said: Said,
}

/// What is said of an acquisition while it comes, one sentence each.
#[derive(Clone, Debug, Default)]
pub struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    /// Says something, once.
    pub fn say(&self, sentence: String) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !said.contains(&sentence) {
            said.push(sentence);
        }
    }

    /// All that was said so far.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Default for Listener<'_> {
    /// Nobody.
    fn default() -> Self {
        let unwritable = Unwritable::Fails;
        let (started, reconstructed) = (Box::new(|_| ()), Box::new(|_: &_| ()));
        Self { started, unwritable, previews: None, reconstructed, said: Said::default() }
    }
}

/// The run in its four parts: what has to be known, the way of the data, the images, the account. `what` is the acquisition,
/// its optics, and when it was asked for; `source` sends its frames.
///
/// # Errors
/// As [`run`].
pub fn run_source(
    request: &RunRequest,
    what: (Subject, ResolvedOptics, Instant),
    source: impl FnOnce(Sender<Item<RawBatch>>, Arc<IngestCounters>) + Send,
    listener: Listener<'_>,
) -> anyhow::Result<Finished<Processor>> {
    let (subject, optics, opening) = what;
    let (unwritable, said) = (listener.unwritable, listener.said.clone());
    let (mut prepared, _made) = Prepared::new(request, subject, optics, opening, unwritable)?;
    let (streamed, spectra) = stream(request, &prepared, source, listener)?;
    if prepared.resident.snapshot().totals().frames == 0 {
        return Err(nothing_came(request, &streamed.filled));
    }
    prepared.subject.problems.extend(said.all());
    let detector = prepared.subject.detector;
    let not_writable = prepared.not_writable.clone();
    let mut finished = account::settle(request, prepared, streamed, spectra)?;
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
    let why = why_nothing_came(&filled.gaps);
    anyhow!("no frame of {} could be read; {why}", request.master.display())
}

/// Why no frame came: the first few reasons, with how many frames each has where there are several.
fn why_nothing_came(gaps: &[Gap]) -> String {
    /// Reasons that are told.
    const MOST_TOLD: usize = 4;
    let mut reasons: Vec<(String, u64)> = Vec::new();
    let mut num_others = 0;
    for gap in gaps {
        let reason = gap.reason.to_string();
        match reasons.iter().position(|(known, _)| *known == reason) {
            Some(at) => reasons[at].1 += gap.count,
            None if reasons.len() < MOST_TOLD => reasons.push((reason, gap.count)),
            None => num_others += gap.count,
        }
    }
    match &reasons[..] {
        [] => "nothing came".to_owned(),
        [(only, _)] => only.clone(),
        several => {
            let told = several.iter().map(|(reason, frames)| format!("{reason} ({frames} frames)"));
            let others = (num_others > 0).then(|| format!("other reasons ({num_others} frames)"));
            told.chain(others).collect::<Vec<_>>().join("; ")
        }
    }
}

/// What the way of the data came to.
struct Streamed {
    filled: Filled,
    /// The reconstruction, or why there is none.
    live: anyhow::Result<LiveResult>,
}

/// Sends an acquisition through every stage, up to the reconstruction, while telling the progress.
fn stream(
    request: &RunRequest,
    prepared: &Prepared,
    source: impl FnOnce(Sender<Item<RawBatch>>, Arc<IngestCounters>) + Send,
    listener: Listener<'_>,
) -> anyhow::Result<(Streamed, Option<LiveSpectra<Processor>>)> {
    let Prepared { subject, resident, .. } = prepared;
    let frames = subject.frames_expected;
    let showing = listener.previews.as_ref().map(|_| Showing::default());
    let settings = LiveSettings { previews: listener.previews, ..prepared.live_settings() };
    let live = LiveSsb::new(request.processor.clone(), settings);
    let progress = Progress::new(frames, Voice::for_stderr(request.quiet));
    for note in &prepared.notes {
        progress.note(note);
    }
    std::thread::scope(|scope| {
        let (results, results_in) = bounded(1);
        let live_ssb = move |events| live.run(events, results);
        let stages = start_stages(scope, Cpu, source, (frames, showing), resident, live_ssb)?;
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
