//! The encoded acquisition while it grows: one writer appends blocks, any number of readers take snapshots.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use encoder::{Block, INTERVAL};
use kernels::types::{CountType, DetectorShape, Gap, ScanGeometry};

use crate::budget::Budget;
use crate::coverage::PositionSet;
use crate::error::ResidentError;
use crate::snapshot::{Snapshot, State, check_geometry};

/// What an append, a showing or a gap settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Frames of the intervals that it settled: each is there now, or never will be. Empty when there are none.
    pub positions: Range<u64>,
    /// How many of them are there.
    pub covered: u64,
    /// Scan rows that became settled with it, ascending.
    pub rows: Vec<RowArrival>,
    /// The acquisition so far, this included.
    pub totals: Totals,
    /// Frames of whole blocks: without those of a block that is still filling.
    pub whole_frames: u64,
}

/// A scan row for which nothing more will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowArrival {
    /// The scan row.
    pub row: usize,
    /// Frames of the row that are not there; 0 for a whole row.
    pub missing: u64,
}

/// Running totals over an acquisition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames that are there.
    pub frames: u64,
    /// Frames that are not there and will not come.
    pub missing: u64,
    /// Frames still to come.
    pub awaited: u64,
    /// Bytes of encoded blocks held, one that is still filling included.
    pub held_bytes: u64,
}

/// An acquisition being received: encoded, exact, within a byte budget.
///
/// Appending waits for a reader only while that reader copies one pointer, never for a query; share it in an [`Arc`].
#[derive(Debug)]
pub struct Resident {
    budget: Budget,
    published: Mutex<Arc<State>>,
    writer: Mutex<Writer>,
}

/// What only the writer knows. Locked for the length of an append.
#[derive(Debug)]
struct Writer {
    /// What is held for good: whole blocks. What is published is this and the block that is shown.
    base: State,
    /// The block that is still filling, its interval, and its bytes.
    shown: Option<(usize, Arc<Block>, u64)>,
    /// Frames that upstream reported missing.
    lost: PositionSet,
    /// By interval: its block is held, or nothing of it will come.
    settled: Vec<bool>,
    /// Frames for which nothing more will come: they are there, also in the block that is shown, or lost.
    known: PositionSet,
    /// By scan row: announced as settled.
    announced: Vec<bool>,
}

impl Resident {
    /// An acquisition of which nothing has arrived, of as many frames as its scan needs. A shape alone is a plain scan.
    ///
    /// # Errors
    /// As [`Self::with_frames`].
    pub fn new(
        geometry: impl Into<ScanGeometry>,
        detector: DetectorShape,
        count_type: CountType,
        budget: Budget,
    ) -> Result<Self, ResidentError> {
        let geometry = geometry.into();
        Self::with_frames(geometry, geometry.num_frames(), detector, count_type, budget)
    }

    /// An acquisition of which nothing has arrived, of `positions` frames; what its scan does not need is kept too.
    ///
    /// # Errors
    /// [`ResidentError::TooFewFrames`] for fewer than the geometry needs; [`ResidentError::TooLarge`] for 2^32 frames or
    /// pixels and more, or when there is no memory for the totals, which lie outside the budget: 16 bytes a pixel and less
    /// than 16 bytes a frame.
    pub fn with_frames(
        geometry: ScanGeometry,
        positions: u64,
        detector: DetectorShape,
        count_type: CountType,
        budget: Budget,
    ) -> Result<Self, ResidentError> {
        check_geometry(&geometry, positions)?;
        let pixels = detector.pixels() as u64;
        let bytes = pixels.saturating_mul(16).saturating_add(positions.saturating_mul(16));
        let what = "the totals";
        let too_large = || ResidentError::TooLarge { what, positions, pixels, bytes };
        if positions > u64::from(u32::MAX) || pixels > u64::from(u32::MAX) {
            return Err(too_large());
        }
        let filled = |len: usize, value: u64| -> Result<Vec<u64>, ResidentError> {
            let mut filled = Vec::new();
            filled.try_reserve_exact(len).map_err(|_| too_large())?;
            filled.resize(len, value);
            Ok(filled)
        };
        let intervals = positions.div_ceil(INTERVAL as u64) as usize;
        let state = State {
            geometry,
            num_frames: positions,
            detector,
            count_type,
            blocks: vec![None; intervals],
            covered: PositionSet::empty(positions),
            detector_total: Arc::new(filled(detector.pixels(), 0)?),
            marker_hits: Arc::new(filled(detector.pixels(), 0)?),
            totals: Totals { awaited: positions, ..Totals::default() },
            set_aside: Arc::default(),
        };
        let rows = if geometry.frames_of_row(0).is_empty() { 0 } else { geometry.scan().rows };
        let mut announced = Vec::new();
        announced.try_reserve_exact(rows).map_err(|_| too_large())?;
        announced.resize(rows, false);
        let published = Mutex::new(Arc::new(state.clone()));
        let writer = Writer {
            base: state,
            shown: None,
            lost: PositionSet::empty(positions),
            settled: vec![false; intervals],
            known: PositionSet::empty(positions),
            announced,
        };
        Ok(Self { budget, published, writer: Mutex::new(writer) })
    }

    /// Keeps a block and adds its totals. A block that ends before its interval does leaves the rest missing. Where the
    /// block was shown while it filled, this one takes its place.
    ///
    /// # Errors
    /// [`ResidentError`]: not on an interval, another detector or count type, beyond the scan, an interval that has a
    /// block already, or over the budget. Everything held before stays as it was.
    pub fn append(&self, block: Block) -> Result<Arrival, ResidentError> {
        let mut writer = lock(&self.writer);
        let index = writer.base.check_block(&block)?;
        let (asked_bytes, held_bytes) = (bytes_of(&block), writer.base.totals.held_bytes);
        if !self.budget.admits(asked_bytes, held_bytes) {
            let (first, budget_bytes) = (block.first(), self.budget.bytes);
            return Err(ResidentError::OverBudget { first, asked_bytes, held_bytes, budget_bytes });
        }
        writer.shown.take_if(|(shown, ..)| *shown == index);
        writer.base.add(index, Arc::new(block), asked_bytes);
        let interval = writer.base.interval(index);
        writer.settle(index);
        Ok(self.publish(&mut writer, index..index + 1, interval))
    }

    /// Shows a block that is still filling: readers get it with everything held, until the next showing or the block
    /// itself takes its place. Its frames must be those of the whole block, as far as they have come. It is not shown
    /// where that is over the budget.
    ///
    /// # Errors
    /// As [`append`](Self::append), but for the budget.
    pub fn show(&self, block: Block) -> Result<Arrival, ResidentError> {
        let mut writer = lock(&self.writer);
        let index = writer.base.check_block(&block)?;
        let bytes = bytes_of(&block);
        let touched = writer.base.interval(index);
        if self.budget.admits(bytes, writer.base.totals.held_bytes) {
            writer.known.insert_words(block.first(), block.coverage().words());
            writer.shown = Some((index, Arc::new(block), bytes));
        }
        Ok(self.publish(&mut writer, 0..0, touched))
    }

    /// Notes that frames will not come. An interval of which everything is reported missing is settled by that; the
    /// others wait for their block. What lies beyond the scan is ignored.
    pub fn mark_missing(&self, gap: &Gap) -> Arrival {
        let mut writer = lock(&self.writer);
        let positions = writer.base.positions();
        let lost = gap.first.min(positions)..gap.first.saturating_add(gap.count).min(positions);
        writer.lost.insert_range(lost.clone());
        writer.known.insert_range(lost.clone());
        let mut settled = 0..0;
        if !lost.is_empty() {
            let last = (lost.end - 1) / INTERVAL as u64;
            for index in (lost.start / INTERVAL as u64) as usize..=last as usize {
                let interval = writer.base.interval(index);
                let whole = writer.lost.count(interval.clone()) == interval.end - interval.start;
                if whole && writer.settle(index) {
                    settled = if settled.is_empty() { index..index + 1 } else { settled.start..index + 1 };
                }
            }
        }
        self.publish(&mut writer, settled, lost)
    }

    /// Everything that has arrived by now, for any thread; it does not change as more arrives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { state: Arc::clone(&lock(&self.published)) }
    }

    /// The most bytes of blocks that may be held.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Makes what the writer has the state that readers get, and says what is new in it: the intervals that were settled,
    /// and rows among those that have frames in `touched`.
    fn publish(&self, writer: &mut Writer, intervals: Range<usize>, touched: Range<u64>) -> Arrival {
        let mut next = writer.base.clone();
        if let Some((index, block, bytes)) = &writer.shown {
            next.add(*index, block.clone(), *bytes);
        }
        let known = writer.known.count(0..next.positions());
        next.totals.awaited = next.positions() - known;
        next.totals.missing = known.saturating_sub(next.totals.frames);
        let rows = writer.announce(&next, touched);
        let positions = match intervals.end.checked_sub(1) {
            Some(last) => next.interval(intervals.start).start..next.interval(last).end,
            None => 0..0,
        };
        let covered = next.covered.count(positions.clone());
        let whole_frames = writer.base.totals.frames;
        let arrival = Arrival { positions, covered, rows, totals: next.totals, whole_frames };
        let next = Arc::new(next);
        let before = std::mem::replace(&mut *lock(&self.published), next);
        drop(before); // outside the lock: freeing a state takes longer than swapping a pointer
        arrival
    }
}

impl Writer {
    /// Notes that nothing more will come of an interval; false where that was known.
    fn settle(&mut self, index: usize) -> bool {
        match self.settled.get_mut(index) {
            Some(settled) if !*settled => *settled = true,
            _ => return false,
        }
        self.known.insert_range(self.base.interval(index));
        true
    }

    /// The rows with frames in `touched` for which nothing more will come and which were not announced before.
    fn announce(&mut self, state: &State, touched: Range<u64>) -> Vec<RowArrival> {
        let mut rows = Vec::new();
        if touched.is_empty() {
            return rows;
        }
        for row in state.geometry.rows_of_frames(touched) {
            let span = state.geometry.frames_of_row(row);
            let Some(announced) = self.announced.get_mut(row).filter(|announced| !**announced) else {
                continue;
            };
            let frames = span.end - span.start;
            if self.known.count(span.clone()) == frames {
                *announced = true;
                rows.push(RowArrival { row, missing: frames - state.covered.count(span) });
            }
        }
        rows
    }
}

/// Bytes that a block takes of the budget.
fn bytes_of(block: &Block) -> u64 {
    (block.encoded_bytes().total() + size_of::<Block>()) as u64
}

/// Locks, also after a panic elsewhere: a published state is replaced whole, never left half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
