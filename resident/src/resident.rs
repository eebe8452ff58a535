//! The encoded acquisition while it grows: one writer appends blocks, any number of readers take snapshots.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use encoder::{Block, INTERVAL};
use kernels::types::{CountType, DetectorShape, Gap, ScanGeometry};

use crate::budget::Budget;
use crate::coverage::PositionSet;
use crate::error::ResidentError;
use crate::snapshot::{Snapshot, State, check_geometry};

/// What an append or a gap settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Frames settled by it: each is there now, or never will be. Empty when nothing new is settled.
    pub positions: Range<u64>,
    /// How many of them are there.
    pub covered: u64,
    /// Scan rows that became settled with it, ascending.
    pub rows: Vec<RowArrival>,
    /// The acquisition so far, this included.
    pub totals: Totals,
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
    /// Frames of settled intervals that are not there.
    pub missing: u64,
    /// Frames still to come.
    pub awaited: u64,
    /// Bytes of encoded blocks held.
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
    /// Positions that upstream reported missing.
    lost: PositionSet,
    /// By interval: its block is held, or nothing of it will come.
    settled: Vec<bool>,
    /// Frames in intervals that are not settled.
    awaited: u64,
    /// By scan row: its frames in intervals that are not settled.
    awaited_of_row: Vec<u64>,
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
        let row = geometry.frames_of_row(0);
        let rows = if row.is_empty() { 0 } else { geometry.scan().rows };
        let writer = Writer {
            lost: PositionSet::empty(positions),
            settled: vec![false; intervals],
            awaited: positions,
            awaited_of_row: filled(rows, row.end - row.start)?,
        };
        Ok(Self { budget, published: Mutex::new(Arc::new(state)), writer: Mutex::new(writer) })
    }

    /// Keeps a block and adds its totals. A block that ends before its interval does leaves the rest missing.
    ///
    /// # Errors
    /// [`ResidentError`]: not on an interval, another detector or count type, beyond the scan, an interval that has a
    /// block already, or over the budget. Everything held before stays as it was.
    pub fn append(&self, block: Block) -> Result<Arrival, ResidentError> {
        let mut writer = lock(&self.writer);
        let held = Arc::clone(&lock(&self.published));
        let index = held.check_block(&block)?;
        let asked_bytes = (block.encoded_bytes().total() + size_of::<Block>()) as u64;
        if !self.budget.admits(asked_bytes, held.totals.held_bytes) {
            return Err(ResidentError::OverBudget {
                first: block.first(),
                asked_bytes,
                held_bytes: held.totals.held_bytes,
                budget_bytes: self.budget.bytes,
            });
        }
        let mut next = State::clone(&held);
        drop(held);
        next.add(index, block, asked_bytes);
        let rows = writer.settle(&next, index);
        Ok(self.publish(next, &writer, index..index + 1, rows))
    }

    /// Notes that frames will not come. An interval of which everything is reported missing is settled by that; the
    /// others wait for their block. What lies beyond the scan is ignored.
    pub fn mark_missing(&self, gap: &Gap) -> Arrival {
        let mut writer = lock(&self.writer);
        let next = State::clone(&lock(&self.published));
        let positions = next.positions();
        let lost = gap.first.min(positions)..gap.first.saturating_add(gap.count).min(positions);
        writer.lost.insert_range(lost.clone());
        let (mut settled, mut rows) = (0..0, Vec::new());
        if !lost.is_empty() {
            let last = (lost.end - 1) / INTERVAL as u64;
            for index in (lost.start / INTERVAL as u64) as usize..=last as usize {
                let interval = next.interval(index);
                let whole = writer.lost.count(interval.clone()) == interval.end - interval.start;
                if whole && writer.settled.get(index) == Some(&false) {
                    rows.extend(writer.settle(&next, index));
                    settled = if settled.is_empty() { index..index + 1 } else { settled.start..index + 1 };
                }
            }
        }
        self.publish(next, &writer, settled, rows)
    }

    /// Everything that has arrived by now, for any thread; it does not change as more arrives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { state: Arc::clone(&lock(&self.published)) }
    }

    /// The most bytes of blocks that may be held.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Makes the next state the one that readers get, and says what is new in it.
    fn publish(
        &self,
        mut next: State,
        writer: &Writer,
        intervals: Range<usize>,
        rows: Vec<RowArrival>,
    ) -> Arrival {
        next.totals.awaited = writer.awaited;
        next.totals.missing = next.positions() - next.totals.awaited - next.totals.frames;
        let positions = match intervals.end.checked_sub(1) {
            Some(last) => next.interval(intervals.start).start..next.interval(last).end,
            None => 0..0,
        };
        let covered = next.covered.count(positions.clone());
        let arrival = Arrival { positions, covered, rows, totals: next.totals };
        let next = Arc::new(next);
        let before = std::mem::replace(&mut *lock(&self.published), next);
        drop(before); // outside the lock: freeing a state takes longer than swapping a pointer
        arrival
    }
}

impl Writer {
    /// Takes the frames of an interval off their rows; the rows that thereby have nothing more to come.
    fn settle(&mut self, state: &State, index: usize) -> Vec<RowArrival> {
        let mut rows = Vec::new();
        match self.settled.get_mut(index) {
            Some(settled) if !*settled => *settled = true,
            _ => return rows,
        }
        let (frames, geometry) = (state.interval(index), &state.geometry);
        self.awaited = self.awaited.saturating_sub(frames.end - frames.start);
        for row in geometry.rows_of_frames(frames.clone()) {
            let span = geometry.frames_of_row(row);
            let taken = frames.end.min(span.end).saturating_sub(frames.start.max(span.start));
            if let Some(awaited) = self.awaited_of_row.get_mut(row).filter(|_| taken > 0) {
                *awaited = awaited.saturating_sub(taken);
                if *awaited == 0 {
                    let missing = span.end - span.start - state.covered.count(span);
                    rows.push(RowArrival { row, missing });
                }
            }
        }
        rows
    }
}

/// Locks, also after a panic elsewhere: a published state is replaced whole, never left half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
