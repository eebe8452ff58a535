//! The encode stage: frame batches of any size in, blocks out: whole, and on request as far as they have come.

mod showing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, SendError, Sender};
use kernels::encode_counts::EncodeCounts;
use kernels::reduce_frames::Batch;
use kernels::types::{Gap, GapReason, Item};

use crate::{Block, EncoderError, INTERVAL};

use showing::Clock;
pub use showing::Showing;

/// What the stage sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// A block to which nothing will be added.
    Whole(Block),
    /// A block as far as it has come, to be looked at. The next of the same first position has all its frames and takes
    /// its place; the last of them is whole.
    SoFar(Block),
}

impl Encoded {
    /// The block where it is whole.
    pub fn whole(self) -> Option<Block> {
        match self {
            Self::Whole(block) => Some(block),
            Self::SoFar(_) => None,
        }
    }
}

/// What the stage has done so far; read at any time.
#[derive(Debug, Default)]
pub struct EncodeCounters {
    /// Frames encoded.
    pub frames: AtomicU64,
    /// Frames whose position was taken already: dropped.
    pub frames_repeated: AtomicU64,
    /// Frames of a block that had been sent already: dropped, and reported downstream as a gap.
    pub frames_late: AtomicU64,
    /// Frames reported missing by upstream.
    pub frames_missing: AtomicU64,
    /// Whole blocks sent.
    pub blocks: AtomicU64,
    /// Bytes of the counts as they came.
    pub count_bytes: AtomicU64,
    /// Bytes of the whole blocks sent.
    pub block_bytes: AtomicU64,
    /// Nanoseconds spent taking frames in and encoding whole blocks.
    pub encode_ns: AtomicU64,
    /// Blocks sent as far as they had come.
    pub shown: AtomicU64,
    /// Nanoseconds spent encoding those.
    pub show_ns: AtomicU64,
}

/// Re-chunks batches to blocks and encodes them.
///
/// Block `b` is sent once it is full, once a frame or gap of a later block comes, or at the end. A gap is passed on as
/// it is; a block none of whose frames came is not sent. The last block ends with the last position that was
/// mentioned, unless [`with_positions`](Self::with_positions) says how long the scan is. The whole blocks depend on the
/// frames alone, not on batch sizes or threads, nor on what was [shown](Self::showing) meanwhile.
#[derive(Debug)]
pub struct EncodeStage<B: Batch> {
    device: B::Device,
    /// Scan positions, where known.
    positions: Option<u64>,
    /// Made with the first batch, used for one block after the other.
    interval: Option<<B::Device as EncodeCounts>::Interval>,
    /// The block being filled.
    open: Option<Open>,
    /// Frames before this position come too late: their block was sent, or passed over.
    sent_end: u64,
    /// Where the memory of used batches goes.
    spent: Option<Sender<B>>,
    /// Highest position mentioned, plus one.
    seen_end: u64,
    /// Where blocks are shown before they are whole.
    clock: Option<Clock>,
    counters: Arc<EncodeCounters>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    first: u64,
}

/// Why the stage stops before its input ends.
enum Stop {
    /// Nobody listens: in good order.
    Closed,
    Failed(EncoderError),
}

impl From<SendError<Item<Encoded>>> for Stop {
    fn from(_: SendError<Item<Encoded>>) -> Self {
        Self::Closed
    }
}

impl From<EncoderError> for Stop {
    fn from(error: EncoderError) -> Self {
        Self::Failed(error)
    }
}

impl<B: Batch> EncodeStage<B> {
    /// A stage that works on `device`.
    pub fn new(device: B::Device) -> Self {
        let counters = Arc::default();
        Self {
            device,
            positions: None,
            interval: None,
            open: None,
            sent_end: 0,
            spent: None,
            seen_end: 0,
            clock: None,
            counters,
        }
    }

    /// Gives the memory of batches back through `spent` when their frames are taken in, as long as there is room.
    #[must_use]
    pub fn returning(mut self, spent: Sender<B>) -> Self {
        self.spent = Some(spent);
        self
    }

    /// Tells how many scan positions there are, so that the last block is sent as soon as it is full and ends with the
    /// scan even when its last frames are missing.
    #[must_use]
    pub fn with_positions(mut self, positions: u64) -> Self {
        self.positions = Some(positions);
        self
    }

    /// Shows the open block while it fills, for those who look at a scan that comes slowly.
    #[must_use]
    pub fn showing(mut self, showing: Showing) -> Self {
        self.clock = Some(Clock::new(showing));
        self
    }

    /// The stage's counters.
    pub fn counters(&self) -> Arc<EncodeCounters> {
        Arc::clone(&self.counters)
    }

    /// Encodes until the input ends or nobody listens any more.
    ///
    /// # Errors
    /// [`EncoderError`] where a batch does not fit those before, or the device fails.
    pub fn run(
        mut self,
        batches: Receiver<Item<B>>,
        blocks: Sender<Item<Encoded>>,
    ) -> Result<(), EncoderError> {
        match self.work(&batches, &blocks) {
            Ok(()) | Err(Stop::Closed) => Ok(()),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn work(&mut self, batches: &Receiver<Item<B>>, blocks: &Sender<Item<Encoded>>) -> Result<(), Stop> {
        loop {
            let next = match self.clock.as_ref().and_then(Clock::due) {
                None => batches.recv().map_err(RecvTimeoutError::from),
                // what waits comes first, also when a showing is overdue
                Some(due) => batches.recv_deadline(due),
            };
            match next {
                Ok(Item::Data(mut batch)) => {
                    self.add(&mut batch, blocks)?;
                    if let Some(spent) = &self.spent {
                        // full, or nobody takes it: it is freed
                        let _ = spent.try_send(batch);
                    }
                }
                Ok(Item::Gap(gap)) => self.skip(gap, blocks)?,
                Err(RecvTimeoutError::Timeout) => self.show(blocks)?,
                Err(RecvTimeoutError::Disconnected) => return self.flush(blocks),
            }
        }
    }

    /// Puts a batch into its blocks.
    fn add(&mut self, batch: &mut B, blocks: &Sender<Item<Encoded>>) -> Result<(), Stop> {
        let (batch_first, shape, count_type) = (batch.first(), batch.shape(), batch.count_type());
        let frames = shape.frames as u64;
        let end = batch_first.checked_add(frames);
        let end = end.ok_or(EncoderError::Position { first: batch_first, count: frames })?;
        let count_bytes = count_type.bytes() as u64 * shape.detector.pixels() as u64;
        let late = self.sent_end.clamp(batch_first, end) - batch_first;
        if late > 0 {
            self.counters.frames_late.fetch_add(late, Relaxed);
            let reason = GapReason::NotReceived("came after its block was closed".to_owned());
            blocks.send(Item::Gap(Gap { first: batch_first, count: late, reason }))?;
        }
        let mut at = batch_first + late;
        while at < end {
            let first = at - at % INTERVAL as u64;
            self.flush_before(first, blocks)?;
            let until = end.min(first.saturating_add(INTERVAL as u64));
            let failed = |error| EncoderError::Encode { first: at, error };
            let interval = match &mut self.interval {
                Some(interval) => interval,
                none => none.insert(self.device.open_interval(shape.detector, count_type).map_err(failed)?),
            };
            let chosen = (at - batch_first) as usize..(until - batch_first) as usize;
            let start = Instant::now();
            let repeated = batch.add_to(&self.device, interval, chosen, (at - first) as usize);
            let repeated = repeated.map_err(failed)? as u64;
            self.counters.encode_ns.fetch_add(nanoseconds_since(start), Relaxed);
            self.open = Some(Open { first });
            if let Some(clock) = &mut self.clock {
                clock.came(start);
            }
            self.sent_end = self.sent_end.max(first);
            self.seen_end = self.seen_end.max(until);
            self.counters.frames.fetch_add(until - at - repeated, Relaxed);
            self.counters.frames_repeated.fetch_add(repeated, Relaxed);
            self.counters.count_bytes.fetch_add((until - at - repeated) * count_bytes, Relaxed);
            if self.device.coverage(interval).count() == self.block_positions(first, INTERVAL as u64) {
                self.flush(blocks)?;
            }
            at = until;
        }
        Ok(())
    }

    /// Passes a gap on, after the block that it does not touch any more and before the one that it ends.
    fn skip(&mut self, gap: Gap, blocks: &Sender<Item<Encoded>>) -> Result<(), Stop> {
        let end = gap.first.saturating_add(gap.count);
        self.flush_before(gap.first, blocks)?;
        self.counters.frames_missing.fetch_add(gap.count, Relaxed);
        self.seen_end = self.seen_end.max(end);
        blocks.send(Item::Gap(gap))?;
        // the last position that the gap covers belongs to the block that stays open
        self.flush_before(end.saturating_sub(1), blocks)
    }

    /// Sends the open block when `position` lies in a later one.
    fn flush_before(&mut self, position: u64, blocks: &Sender<Item<Encoded>>) -> Result<(), Stop> {
        match self.open {
            Some(open) if position / INTERVAL as u64 > open.first / INTERVAL as u64 => self.flush(blocks),
            _ => Ok(()),
        }
    }

    /// Positions of the block at `first`: all, fewer where the scan ends before or is known to reach `seen` only.
    fn block_positions(&self, first: u64, seen: u64) -> usize {
        let all = self.positions.map_or(seen, |positions| positions.saturating_sub(first));
        all.min(INTERVAL as u64) as usize
    }

    /// Sends the open block as it stands and leaves it open.
    fn show(&mut self, blocks: &Sender<Item<Encoded>>) -> Result<(), Stop> {
        let (Some(open), Some(interval)) = (self.open, &self.interval) else { return Ok(()) };
        let positions = (self.seen_end - open.first).min(INTERVAL as u64) as usize;
        let start = Instant::now();
        let encoded = self.device.encode_so_far(interval, positions);
        let encoded = encoded.map_err(|error| EncoderError::Encode { first: open.first, error })?;
        if let Some(clock) = &mut self.clock {
            clock.shown(start, Instant::now());
        }
        self.counters.shown.fetch_add(1, Relaxed);
        self.counters.show_ns.fetch_add(nanoseconds_since(start), Relaxed);
        blocks.send(Item::Data(Encoded::SoFar(Block::new(open.first, encoded))))?;
        Ok(())
    }

    /// Sends the open block, if there is one.
    fn flush(&mut self, blocks: &Sender<Item<Encoded>>) -> Result<(), Stop> {
        let (Some(open), Some(interval)) = (self.open.take(), &mut self.interval) else { return Ok(()) };
        let seen = self.seen_end - open.first;
        let positions =
            self.positions.map_or(seen, |positions| positions.saturating_sub(open.first).max(seen));
        let positions = positions.min(INTERVAL as u64) as usize;
        let start = Instant::now();
        let encoded = self.device.encode_counts(interval, positions);
        self.counters.encode_ns.fetch_add(nanoseconds_since(start), Relaxed);
        let encoded = encoded.map_err(|error| EncoderError::Encode { first: open.first, error })?;
        let block = Block::new(open.first, encoded);
        self.sent_end = open.first.saturating_add(INTERVAL as u64);
        self.counters.blocks.fetch_add(1, Relaxed);
        self.counters.block_bytes.fetch_add(block.encoded_bytes().total() as u64, Relaxed);
        if let Some(clock) = &mut self.clock {
            clock.sent();
        }
        blocks.send(Item::Data(Encoded::Whole(block)))?;
        Ok(())
    }
}

fn nanoseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
