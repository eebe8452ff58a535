//! Stage: compressed frames from files, by position, with read-ahead, in order.
//!
//! Files are read with positioned reads, not mapped: a mapped file that another program cuts short kills the reader with
//! SIGBUS, a positioned read comes back short and becomes a gap. A file that is not what it was when its index was read
//! (another in its place, written over, grown) is a gap too: its index no longer says what its bytes are.

mod read;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};
use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape, Gap, GapReason, Item};

use crate::FileIdentity;
use crate::counters::IngestCounters;
use crate::raw::RawBatch;
use read::{OpenFiles, read_batch};

/// Frames fetched and decoded together, at most.
pub const FRAMES_PER_BATCH: usize = 128;
/// Bytes of counts that a batch decodes to, at most, unless a single frame has more.
const BATCH_BYTES: usize = 64 << 20;

/// Frames of a batch.
fn frames_per_batch(run: &StoredRun) -> usize {
    let frame_bytes = run.detector.pixels().saturating_mul(run.count_type.bytes()).max(1);
    (BATCH_BYTES / frame_bytes).clamp(1, FRAMES_PER_BATCH)
}

/// Where one frame lies in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredFrame {
    /// First byte.
    pub offset: u64,
    /// Number of bytes; 0 for a frame the file's index does not have.
    pub bytes: u64,
}

/// A run of consecutive frames in one file.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Number of the first frame, counted from 0 over the acquisition.
    pub first: u64,
    /// The file.
    pub path: PathBuf,
    /// The file as it was when its index was read. Frames of a file that is another now are a gap.
    pub identity: FileIdentity,
    /// Where each frame lies.
    pub frames: Vec<StoredFrame>,
    /// How every frame is compressed.
    pub encoding: Encoding,
    /// The type of its counts.
    pub count_type: CountType,
    /// The shape of each frame.
    pub detector: DetectorShape,
}

/// The stage: what to read, and how far ahead.
#[derive(Debug)]
pub struct FileSource {
    runs: Vec<Item<StoredRun>>,
    readers: usize,
    stop: Arc<AtomicBool>,
    counters: Arc<IngestCounters>,
}

type Read = Vec<Item<RawBatch>>;

/// A batch to read, and where its result is awaited.
struct Job {
    run: Arc<StoredRun>,
    frames: std::ops::Range<usize>,
    promise: Sender<Read>,
}

impl FileSource {
    /// A source of `runs` (and the gaps between them), in rising frame order.
    ///
    /// `readers` threads read ahead; raising `stop` ends the source after the batches already asked for.
    pub fn new(runs: Vec<Item<StoredRun>>, readers: usize, stop: Arc<AtomicBool>) -> Self {
        Self { runs, readers: readers.max(1), stop, counters: Arc::default() }
    }

    /// Notes in `counters` how long reading takes.
    #[must_use]
    pub fn counting(mut self, counters: Arc<IngestCounters>) -> Self {
        self.counters = counters;
        self
    }

    /// Runs until everything is sent, the stop flag is raised, or nobody listens.
    ///
    /// Bytes that cannot be read become gaps with the reason; the rest goes on.
    pub fn run(self, raw: Sender<Item<RawBatch>>) {
        let depth = self.readers * 2;
        let (jobs, jobs_in) = bounded::<Job>(depth);
        let (promises, promised) = bounded::<Receiver<Read>>(depth);
        std::thread::scope(|scope| {
            for reader in 0..self.readers {
                let jobs_in = jobs_in.clone();
                let counters = self.counters.clone();
                let read = move || {
                    let mut files = OpenFiles::default();
                    for job in jobs_in {
                        let start = Instant::now();
                        let read = read_batch(&mut files, &job.run, job.frames);
                        counters.read_ns.add_since(start);
                        if job.promise.send(read).is_err() {
                            return; // nobody waits for it any more
                        }
                    }
                };
                let spawned = std::thread::Builder::new()
                    .name(format!("ingest-read-{reader}"))
                    .spawn_scoped(scope, read);
                if let Err(error) = spawned {
                    tracing::warn!("reader thread {reader} did not start: {error}");
                }
            }
            drop(jobs_in);
            let runs = self.runs;
            let stop = self.stop;
            let asking = std::thread::Builder::new().name("ingest-ask".to_owned());
            if let Err(error) = asking.spawn_scoped(scope, move || ask(runs, &stop, &jobs, &promises)) {
                tracing::warn!("no thread to ask for frames, none is read: {error}");
            }
            for promise in promised {
                let items = promise.recv().unwrap_or_default();
                for item in items {
                    if raw.send(item).is_err() {
                        return; // dropping `promised` stops the asking, which stops the readers
                    }
                }
            }
        });
    }
}

/// Cuts runs into batches, asks the readers for each, and queues the promises in order.
fn ask(runs: Vec<Item<StoredRun>>, stop: &AtomicBool, jobs: &Sender<Job>, promises: &Sender<Receiver<Read>>) {
    for run in runs {
        match run {
            Item::Gap(gap) => {
                let (promise, promised) = bounded(1);
                if promise.send(vec![Item::Gap(gap)]).is_err() || promises.send(promised).is_err() {
                    return;
                }
            }
            Item::Data(run) => {
                let run = Arc::new(run);
                let most = frames_per_batch(&run);
                for start in (0..run.frames.len()).step_by(most) {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let frames = start..(start + most).min(run.frames.len());
                    let (promise, promised) = bounded(1);
                    if promises.send(promised).is_err() {
                        return;
                    }
                    if jobs.send(Job { run: run.clone(), frames, promise }).is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// A gap over part of a run.
fn gap(run: &StoredRun, frames: std::ops::Range<usize>, why: String) -> Item<RawBatch> {
    Item::Gap(Gap {
        first: run.first + frames.start as u64,
        count: frames.len() as u64,
        reason: GapReason::Unreadable(why),
    })
}

#[cfg(test)]
mod tests;
