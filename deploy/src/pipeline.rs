//! The pipeline: the only place that knows all stages.
//!
//! ```text
//! source -> sequence -> decode -> ledger -> encode -> append -> live ssb -> results
//! ```
//!
//! Every stage runs on a thread of its own, named here; arithmetic inside a stage is spread over rayon's threads.
//! Channels are bounded, so a slow stage slows the reading and nothing else. A stage that ends closes its output, which ends
//! the next in good order. Read [`run`] first.

mod images;
mod ledger;

use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use encoder::EncodeStage;
use ingest::counters::IngestCounters;
use ingest::decode::DecodeStage;
use ingest::dectris::FileSet;
use ingest::sequence::SequenceStage;
use ingest::source::FileSource;
use kernels::bslz4_decode::DecodeFrames;
use kernels::encode_counts::EncodeCounts;
use kernels::types::{Gap, Milliradians, Pixels};
use kernels::{Cpu, Device};
use resident::{AppendStage, Budget, Event, Resident};
use ssb::{LiveResult, LiveSettings, LiveSsb, Moments, Options, Pins};

use crate::doctor::{MemoryReport, peak_memory_bytes};
use crate::open::open;
use crate::optics::{MeasuredBrightField, ResolvedOptics};
use crate::progress::{Progress, Voice};
use crate::report::{Encoded, Frames, Input, MissingFrames, RunReport, Software, Status, write_results};
use crate::request::{RunRequest, StopFlag};

use ledger::Ledger;

/// Batches on their way between two stages.
const BATCHES_BETWEEN: usize = 4;

/// Memory assumed usable where the system does not say.
const MEMORY_FALLBACK_BYTES: u64 = 4 << 30;

/// What filling a resident came to.
#[derive(Debug)]
pub struct Filled {
    /// What ingest counted.
    pub counters: Arc<IngestCounters>,
    /// Frames that did not come, and why.
    pub gaps: Vec<Gap>,
    /// From the first byte asked for to the last block kept.
    pub elapsed: Duration,
}

/// A run from a master file to the result folder. Returns the report as it was written.
///
/// # Errors
/// The set cannot be opened, parameters are missing or impossible, the memory does not suffice, or results cannot be
/// written. Frames that cannot be used are no error: they are in the report.
pub fn run(request: RunRequest) -> anyhow::Result<RunReport> {
    if let Some(threads) = request.threads {
        // Stages run on threads of their own and compute on rayon's global threads, which can be chosen once.
        let chosen = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|thread| format!("compute-{thread}"))
            .build_global();
        if rayon::current_num_threads() != threads {
            chosen.with_context(|| format!("{threads} worker threads cannot be started"))?;
        }
    }
    run_on(Cpu, request)
}

fn run_on(device: Cpu, request: RunRequest) -> anyhow::Result<RunReport> {
    let opened = Instant::now();
    let (set, mut optics) = open(&request)?;
    let open_time = opened.elapsed();
    let usable = MemoryReport::examine().usable_bytes().map_or(MEMORY_FALLBACK_BYTES, |bytes| bytes / 10 * 8);
    let scan = optics.scan_shape.value;
    let budget = Budget { bytes: request.memory_budget_bytes.unwrap_or(usable) };
    let resident = Arc::new(Resident::new(scan, set.detector, set.count_type, budget)?);
    let pixel_mask = pixel_mask(&set)?;
    let live = LiveSsb::new(device, live_settings(&request, &optics, pixel_mask.clone(), usable));
    let progress = Progress::new(set.frames_expected, Voice::for_stderr(request.quiet));
    for note in &optics.notes {
        progress.note(note);
    }

    let (filled, live) = std::thread::scope(|scope| {
        let (results, results_in) = bounded(1);
        let filling =
            fill_on(scope, device, &set, &resident, &request.stop, move |events| live.run(events, results))?;
        let watched = watch(&results_in, &filling.counters, &progress);
        let (filled, live) = filling.finish();
        progress.finish();
        let live = live
            .map_err(anyhow::Error::from)
            .and_then(|()| watched.ok_or_else(|| anyhow!("the scan did not complete")));
        anyhow::Ok((filled?, live))
    })?;

    let mut warnings = problems(&set);
    let (live, ssb_error) = match live {
        Ok(live) => (Some(live), None),
        Err(error) => (None, Some(error)),
    };
    warnings.extend(ssb_error.iter().map(|error| format!("no phase image: {error}")));
    if let Some(live) = &live {
        warnings.extend(live.reconstruction.warnings.iter().map(ToString::to_string));
        optics.fill_measured(measured(live));
    }
    let snapshot = resident.snapshot();
    let totals = snapshot.totals();
    if totals.frames == 0 {
        return Err(anyhow!(
            "no frame of {} could be read; {}",
            request.master.display(),
            first_reason(&filled.gaps)
        ));
    }
    let imaging = Instant::now();
    let found = images::compute(&snapshot, live.as_ref(), &optics, request.rings, &pixel_mask)?;
    let images_time = imaging.elapsed();
    let missing = set.frames_expected.saturating_sub(totals.frames);
    let mut report = RunReport {
        software: Software::default(),
        status: match (request.stop.is_raised() && missing > 0, missing > 0 || live.is_none()) {
            (true, _) => Status::Interrupted,
            (false, true) => Status::Partial,
            (false, false) => Status::Complete,
        },
        device: device.name(),
        input: Input {
            master: request.master.clone(),
            files: set
                .files
                .iter()
                .map(|file| file.path.clone())
                .chain(set.side_cars.iter().map(|file| file.path.clone()))
                .collect(),
            compressed_bytes: filled.counters.bytes.get(),
        },
        frames: Frames {
            expected: set.frames_expected,
            received: totals.frames,
            missing,
            gaps: filled.gaps.iter().map(MissingFrames::from).collect(),
        },
        seconds: seconds(open_time, &filled, live.as_ref(), images_time),
        optics,
        bright_field: found.bright_field,
        masks: found.masks,
        encoded: Some(Encoded {
            bytes: totals.held_bytes,
            dense_bytes: totals.frames * (set.detector.pixels() * set.count_type.bytes()) as u64,
            spectra_bytes: live.as_ref().map_or(0, |live| live.spectra_bytes),
            peak_memory_bytes: peak_memory_bytes(),
        }),
        loss_rad2: live.as_ref().and_then(|live| live.reconstruction.loss),
        images: Vec::new(),
        warnings,
    };
    write_results(&request.out, &found.images, &mut report)?;
    Ok(report)
}

/// A resident being filled, with a consumer of its events.
struct Filling<'scope, E> {
    counters: Arc<IngestCounters>,
    ledger: Arc<Ledger>,
    started: Instant,
    stages: Vec<ScopedJoinHandle<'scope, anyhow::Result<()>>>,
    append: ScopedJoinHandle<'scope, anyhow::Result<Instant>>,
    consumer: ScopedJoinHandle<'scope, E>,
}

impl<E> Filling<'_, E> {
    /// Waits for every stage.
    fn finish(self) -> (anyhow::Result<Filled>, E) {
        let mut outcome = Ok(());
        for stage in self.stages {
            outcome = outcome.and(joined(stage));
        }
        let appended = joined(self.append);
        let consumed = match self.consumer.join() {
            Ok(consumed) => consumed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let filled = outcome.and(appended).map(|done| Filled {
            counters: self.counters,
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

/// Starts every stage from the files to the resident, and the consumer of its events.
fn fill_on<'scope, D, E: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    device: D,
    set: &FileSet,
    resident: &Arc<Resident>,
    stop: &StopFlag,
    consumer: impl FnOnce(Receiver<Event>) -> E + Send + 'scope,
) -> anyhow::Result<Filling<'scope, E>>
where
    D: DecodeFrames + EncodeCounts,
{
    let counters = Arc::new(IngestCounters::default());
    let ledger = Arc::new(Ledger::default());
    let (raw, raw_in) = bounded(BATCHES_BETWEEN);
    let (ordered, ordered_in) = bounded(BATCHES_BETWEEN);
    let (decoded, decoded_in) = bounded(BATCHES_BETWEEN);
    let (entered, entered_in) = bounded(1);
    let (blocks, blocks_in) = bounded(BATCHES_BETWEEN);
    // Events hold only a pointer to the resident; a consumer that lags must not hold up the encoder.
    let (events, events_in) = bounded(set.frames_expected.min(1 << 16) as usize + 8);

    let source = FileSource::new(set.runs(), 2, stop.flag());
    let sequence = SequenceStage::new(set.frames_expected, counters.clone());
    let decode = DecodeStage::new(device.clone(), counters.clone());
    let encode = EncodeStage::new(device).with_positions(set.frames_expected);
    let append = AppendStage::new(resident.clone());
    let book = ledger.clone();
    let named = |name: &str| Builder::new().name(name.to_owned());
    let started = Instant::now();
    let stages = vec![
        named("ingest-source").spawn_scoped(scope, move || {
            source.run(raw);
            Ok(())
        })?,
        named("ingest-sequence").spawn_scoped(scope, move || {
            sequence.run(raw_in, ordered);
            Ok(())
        })?,
        named("ingest-decode").spawn_scoped(scope, move || Ok(decode.run(ordered_in, decoded)?))?,
        named("ledger").spawn_scoped(scope, move || {
            book.run(decoded_in, entered);
            Ok(())
        })?,
        named("encode").spawn_scoped(scope, move || Ok(encode.run(entered_in, blocks)?))?,
    ];
    let append = named("append").spawn_scoped(scope, move || {
        append.run(blocks_in, events)?;
        Ok(Instant::now())
    })?;
    let consumer = named("ssb-live").spawn_scoped(scope, move || consumer(events_in))?;
    Ok(Filling { counters, ledger, started, stages, append, consumer })
}

/// Fills a resident from a file set and nothing else; what a run does before it reconstructs.
///
/// # Errors
/// The device fails or the budget does not suffice.
pub fn fill<D>(device: D, set: &FileSet, resident: &Arc<Resident>, stop: &StopFlag) -> anyhow::Result<Filled>
where
    D: DecodeFrames + EncodeCounts,
{
    std::thread::scope(|scope| {
        let filling = fill_on(scope, device, set, resident, stop, |events| events.iter().for_each(drop))?;
        filling.finish().0
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

/// The detector's own mask, 0 is good, `[det_row][det_col]`; all good where the file has none.
fn pixel_mask(set: &FileSet) -> anyhow::Result<Vec<u32>> {
    match &set.metadata.pixel_mask {
        Some(([rows, cols], mask)) if [*rows, *cols] == [set.detector.rows, set.detector.cols] => {
            Ok(mask.clone())
        }
        Some(([rows, cols], _)) => {
            let detector = set.detector;
            Err(anyhow!(
                "the pixel mask is {rows}x{cols}, the frames are {detector}: these do not belong together"
            ))
        }
        None => Ok(vec![0; set.detector.pixels()]),
    }
}

fn live_settings(
    request: &RunRequest,
    optics: &ResolvedOptics,
    pixel_mask: Vec<u32>,
    memory: u64,
) -> LiveSettings {
    let pinned = |resolved: &Option<crate::optics::Resolved<[Pixels; 2]>>| {
        resolved.as_ref().map(|pinned| pinned.value.map(|px| px.0))
    };
    let sampling = optics.detector_sampling.as_ref().map(|pinned| pinned.value);
    LiveSettings {
        optics: optics.optics_at(sampling.unwrap_or([Milliradians(1.0); 2])),
        pins: Pins {
            centre: pinned(&optics.bf_centre),
            radius: optics.bf_radius.as_ref().map(|pinned| pinned.value),
            sampling,
        },
        pixel_mask,
        options: Options {
            moments: if request.loss { Moments::Compute } else { Moments::Skip },
            ..Options::default()
        },
        most_bytes: memory,
    }
}

fn measured(live: &LiveResult) -> MeasuredBrightField {
    MeasuredBrightField {
        centre: live.bright_field.centre.map(Pixels),
        radius: live.bright_field.radius,
        sampling: live.bright_field.sampling,
    }
}

fn problems(set: &FileSet) -> Vec<String> {
    let files = set.files.iter().filter_map(|file| Some((&file.path, file.problem.as_ref()?)));
    let side_cars = set.side_cars.iter().filter_map(|file| Some((&file.path, file.problem.as_ref()?)));
    let unreadable = set.metadata.unreadable.iter().map(|what| format!("cannot be read: {what}"));
    files
        .chain(side_cars)
        .map(|(path, problem)| format!("{}: {problem}", path.display()))
        .chain(unreadable)
        .collect()
}

fn first_reason(gaps: &[Gap]) -> String {
    gaps.first().map_or_else(|| "nothing came".to_owned(), |gap| gap.reason.to_string())
}

fn seconds(
    open: Duration,
    filled: &Filled,
    live: Option<&LiveResult>,
    images: Duration,
) -> Vec<(String, f64)> {
    let mut seconds = vec![("open", open), ("read_decode_encode", filled.elapsed)];
    if let Some(live) = live {
        let timings = live.reconstruction.timings;
        seconds.extend([
            ("ssb_rows", live.rows),
            ("ssb_columns", timings.columns),
            ("ssb_images", timings.images),
            ("ssb_moments", timings.moments),
        ]);
    }
    seconds.push(("virtual_images", images));
    seconds.into_iter().map(|(stage, time)| (stage.to_owned(), time.as_secs_f64())).collect()
}
