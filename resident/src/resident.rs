//! The encoded acquisition while it grows: one writer appends blocks, any number of readers take snapshots.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use encoder::{Block, INTERVAL};
use kernels::types::{CountType, DetectorShape, ScanShape};

use crate::budget::Budget;
use crate::coverage::PositionSet;
use crate::error::ResidentError;
use crate::snapshot::{Snapshot, State};

/// What an append made available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Scan positions settled by it: each now has its frame, or never will.
    pub positions: Range<u64>,
    /// How many of them have a frame.
    pub covered: u64,
    /// Scan rows that became settled with it, ascending.
    pub rows: Vec<RowArrival>,
    /// The acquisition so far, this append included.
    pub totals: Totals,
}

/// A scan row for which nothing more will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowArrival {
    /// The scan row.
    pub row: usize,
    /// Positions of the row that have no frame; 0 for a whole row.
    pub missing: u64,
}

/// Running totals over an acquisition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Scan positions that have a frame.
    pub frames: u64,
    /// Scan positions that will never have one.
    pub missing: u64,
    /// Scan positions still to come.
    pub awaited: u64,
    /// Bytes of encoded blocks held.
    pub held_bytes: u64,
}

/// An acquisition being received, encoded and exact.
///
/// `append` is for one writer at a time; `snapshot` is for everyone. Appending waits for a reader only while that
/// reader copies one pointer, and never for a query.
#[derive(Debug)]
pub struct Resident {
    budget: Budget,
    published: Mutex<Arc<State>>,
    rows: Mutex<RowsAwaited>,
}

/// Positions still to come in every scan row. Held by the writer for the length of an append.
#[derive(Debug)]
struct RowsAwaited(Vec<u64>);

impl Resident {
    /// An acquisition of which nothing has arrived.
    ///
    /// # Errors
    /// [`ResidentError::TooLarge`] for more than 2^32 - 1 scan positions or pixels, or when there is no memory for the
    /// totals, which lie outside the budget: 16 bytes a pixel, 8 bytes and a bit a scan position at most.
    pub fn new(
        scan: ScanShape,
        detector: DetectorShape,
        count_type: CountType,
        budget: Budget,
    ) -> Result<Self, ResidentError> {
        let (positions, pixels) = (scan.positions() as u64, detector.pixels() as u64);
        let bytes = pixels.saturating_mul(16).saturating_add(positions.saturating_mul(9));
        let too_large = || ResidentError::TooLarge { positions, pixels, bytes };
        if positions > u64::from(u32::MAX) || pixels > u64::from(u32::MAX) {
            return Err(too_large());
        }
        let mut rows = Vec::new();
        rows.try_reserve_exact(scan.rows).map_err(|_| too_large())?;
        rows.resize(scan.rows, scan.cols as u64);
        let zeros = || -> Result<Arc<Vec<u64>>, ResidentError> {
            let mut zeros = Vec::new();
            zeros.try_reserve_exact(detector.pixels()).map_err(|_| too_large())?;
            zeros.resize(detector.pixels(), 0);
            Ok(Arc::new(zeros))
        };
        let state = State {
            scan,
            detector,
            count_type,
            blocks: vec![None; positions.div_ceil(INTERVAL as u64) as usize],
            settled: vec![false; positions.div_ceil(INTERVAL as u64) as usize],
            covered: PositionSet::empty(positions),
            detector_total: zeros()?,
            marker_hits: zeros()?,
            totals: Totals { awaited: positions, ..Totals::default() },
        };
        Ok(Self { budget, published: Mutex::new(Arc::new(state)), rows: Mutex::new(RowsAwaited(rows)) })
    }

    /// Keeps a block and adds its totals.
    ///
    /// # Errors
    /// [`ResidentError`]: another shape or count type, beyond the scan, not one whole interval, an interval that is
    /// settled already, or over the budget. Everything held before stays as it was.
    pub fn append(&self, block: Block) -> Result<Arrival, ResidentError> {
        let mut rows = lock(&self.rows);
        let held = Arc::clone(&lock(&self.published));
        let positions = held.check_block(&block)?;
        let asked_bytes = block.bytes() as u64;
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
        next.add(block, asked_bytes);
        Ok(self.publish(next, positions, &mut rows))
    }

    /// Everything that has arrived by now, for any thread; it does not change as more arrives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&lock(&self.published)))
    }

    /// The most bytes of blocks that may be held.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Makes the next state the one that readers get, and says what is new in it.
    fn publish(&self, next: State, positions: Range<u64>, rows: &mut RowsAwaited) -> Arrival {
        let arrival = Arrival {
            covered: next.covered.count(positions.clone()),
            rows: rows.settle(&next, positions.clone()),
            totals: next.totals,
            positions,
        };
        let next = Arc::new(next);
        let before = std::mem::replace(&mut *lock(&self.published), next);
        drop(before); // outside the lock: freeing a state takes longer than swapping a pointer
        arrival
    }
}

impl RowsAwaited {
    /// Takes positions off their rows; the rows that thereby have nothing more to come.
    fn settle(&mut self, state: &State, positions: Range<u64>) -> Vec<RowArrival> {
        let cols = state.scan.cols as u64;
        let mut settled = Vec::new();
        if positions.is_empty() {
            return settled;
        }
        for row in positions.start / cols..positions.end.div_ceil(cols) {
            let span = row * cols..(row + 1) * cols;
            let taken = positions.end.min(span.end) - positions.start.max(span.start);
            if let Some(awaited) = self.0.get_mut(row as usize) {
                *awaited -= taken;
                if *awaited == 0 {
                    let missing = cols - state.covered.count(span);
                    settled.push(RowArrival { row: row as usize, missing });
                }
            }
        }
        settled
    }
}

/// Locks, also after a panic elsewhere: what these locks guard is replaced whole, never left half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
