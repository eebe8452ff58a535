//! When is there enough? The state machine that tells the reconstruction what it may start.
//!
//! Pure: arrivals in, signals out. [`crate::AppendStage`] drives it.

use kernels::types::ScanGeometry;

use crate::resident::{Arrival, RowArrival};

/// Frames after which the bright-field geometry is worth measuring for good.
pub const GEOMETRY_FRAMES: u64 = 512;

/// What has become possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The bright-field geometry can be measured. First of all; never when no frame comes at all. More than once, on more
    /// frames each time, where blocks are shown before they are whole; the last is [`Basis::Settled`].
    Geometry(Basis),
    /// Nothing more will come for a scan row. Once for every row, ascending.
    RowComplete(RowArrival),
    /// Nothing more will come for the scan; frames that belong to no position may. Exactly once, last.
    Complete {
        /// Frames of its positions that are not there.
        missing: u64,
    },
}

/// What the bright-field geometry is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// A first scan row, of a block that is still filling.
    FirstRow,
    /// [`GEOMETRY_FRAMES`] frames, of a block that is still filling.
    Enough,
    /// Whole blocks with as many frames, or everything: the same frames whatever was shown before, so that what is made
    /// of it is the same.
    Settled,
}

/// Turns arrivals, in any order, into signals in order.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// Frames before the first that belongs to a position.
    skip_frames: u64,
    geometry_sent: Option<Basis>,
    /// By scan row: missing frames, once it is settled.
    settled: Vec<Option<u64>>,
    num_settled: usize,
    rows_sent: usize,
    complete_sent: bool,
}

impl Trigger {
    /// A trigger for a scan that has not started.
    pub fn new(geometry: impl Into<ScanGeometry>) -> Self {
        let geometry = geometry.into();
        let scan = geometry.scan();
        Self {
            skip_frames: geometry.order().skip_frames,
            geometry_sent: None,
            settled: vec![None; if scan.cols == 0 { 0 } else { scan.rows }],
            num_settled: 0,
            rows_sent: 0,
            complete_sent: false,
        }
    }

    /// What an arrival makes possible, in the order to act on it.
    pub fn arrived(&mut self, arrival: &Arrival) -> Vec<Signal> {
        for row in &arrival.rows {
            self.settle(row.row, row.missing);
        }
        self.signals(arrival.whole_frames, arrival.totals.frames)
    }

    /// The input has ended: every row not yet signalled, then completion, unless it was signalled before.
    ///
    /// `frames` have arrived; `missing` counts the missing frames of a row, whether they were lost or never came.
    pub fn ended(&mut self, frames: u64, missing: impl Fn(usize) -> u64) -> Vec<Signal> {
        for row in self.rows_sent..self.settled.len() {
            self.settle(row, missing(row));
        }
        self.signals(frames, frames)
    }

    fn settle(&mut self, row: usize, missing: u64) {
        if let Some(settled) = self.settled.get_mut(row) {
            self.num_settled += usize::from(settled.is_none());
            *settled = Some(missing);
        }
    }

    /// Whatever is due by now and was not signalled before; of `frames`, `whole` are in whole blocks.
    fn signals(&mut self, whole: u64, frames: u64) -> Vec<Signal> {
        let mut signals = Vec::new();
        if self.complete_sent {
            return signals;
        }
        let all = self.num_settled == self.settled.len();
        let enough = GEOMETRY_FRAMES.saturating_add(self.skip_frames);
        let basis = match frames {
            0 => None,
            _ if whole >= enough || all => Some(Basis::Settled),
            _ if frames >= enough => Some(Basis::Enough),
            _ => (self.num_settled > 0).then_some(Basis::FirstRow),
        };
        if let Some(basis) = basis.filter(|&basis| self.geometry_sent < Some(basis)) {
            self.geometry_sent = Some(basis);
            signals.push(Signal::Geometry(basis));
        }
        if self.geometry_sent.is_some() || all {
            while let Some(&Some(missing)) = self.settled.get(self.rows_sent) {
                signals.push(Signal::RowComplete(RowArrival { row: self.rows_sent, missing }));
                self.rows_sent += 1;
            }
        }
        if all {
            self.complete_sent = true;
            let missing = self.settled.iter().flatten().sum();
            signals.push(Signal::Complete { missing });
        }
        signals
    }
}

#[cfg(test)]
mod tests {
    use kernels::types::ScanShape;

    use super::*;
    use crate::resident::Totals;

    fn arrival(frames: u64, missing: u64, rows: &[(usize, u64)]) -> Arrival {
        Arrival {
            positions: 0..frames + missing,
            covered: frames,
            rows: rows.iter().map(|&(row, missing)| RowArrival { row, missing }).collect(),
            totals: Totals { frames, missing, ..Totals::default() },
            whole_frames: frames,
        }
    }

    /// The same where only so many of the frames are in whole blocks.
    fn shown(whole_frames: u64, frames: u64, rows: &[(usize, u64)]) -> Arrival {
        Arrival { whole_frames, ..arrival(frames, 0, rows) }
    }

    const FIRST_ROW: Signal = Signal::Geometry(Basis::FirstRow);
    const ENOUGH: Signal = Signal::Geometry(Basis::Enough);
    const SETTLED: Signal = Signal::Geometry(Basis::Settled);

    fn row(row: usize, missing: u64) -> Signal {
        Signal::RowComplete(RowArrival { row, missing })
    }

    #[test]
    fn the_first_row_settles_the_geometry_first() {
        let mut trigger = Trigger::new(ScanShape { rows: 3, cols: 4 });
        assert_eq!(trigger.arrived(&arrival(3, 0, &[])), []);
        assert_eq!(trigger.arrived(&arrival(5, 0, &[(0, 0)])), [FIRST_ROW, row(0, 0)]);
        assert_eq!(
            trigger.arrived(&arrival(11, 1, &[(1, 1), (2, 0)])),
            [SETTLED, row(1, 1), row(2, 0), Signal::Complete { missing: 1 }]
        );
    }

    #[test]
    fn geometry_does_not_wait_for_a_long_row() {
        let mut trigger = Trigger::new(ScanShape { rows: 2, cols: 4096 });
        assert_eq!(trigger.arrived(&arrival(511, 0, &[])), []);
        assert_eq!(trigger.arrived(&arrival(512, 0, &[])), [SETTLED]);
        assert_eq!(trigger.arrived(&arrival(1024, 0, &[])), []);
    }

    #[test]
    fn geometry_of_a_block_that_fills_is_measured_again_on_more_and_on_the_whole_block() {
        let mut trigger = Trigger::new(ScanShape { rows: 16, cols: 128 });
        assert_eq!(trigger.arrived(&shown(0, 100, &[])), []);
        assert_eq!(trigger.arrived(&shown(0, 130, &[(0, 0)])), [FIRST_ROW, row(0, 0)]);
        assert_eq!(trigger.arrived(&shown(0, 300, &[(1, 0)])), [row(1, 0)]);
        assert_eq!(trigger.arrived(&shown(0, 515, &[(2, 0), (3, 0)])), [ENOUGH, row(2, 0), row(3, 0)]);
        assert_eq!(trigger.arrived(&shown(0, 1000, &[])), []);
        assert_eq!(trigger.arrived(&arrival(1024, 0, &[(4, 0)])), [SETTLED, row(4, 0)]);
        assert_eq!(trigger.arrived(&shown(1024, 1500, &[])), []);
    }

    #[test]
    fn a_row_of_holes_alone_settles_no_geometry_and_waits_for_it() {
        let mut trigger = Trigger::new(ScanShape { rows: 2, cols: 4 });
        assert_eq!(trigger.arrived(&arrival(0, 4, &[(0, 4)])), []);
        assert_eq!(
            trigger.arrived(&arrival(4, 4, &[(1, 0)])),
            [SETTLED, row(0, 4), row(1, 0), Signal::Complete { missing: 4 }]
        );
    }

    #[test]
    fn rows_that_settle_out_of_order_are_signalled_in_order() {
        let mut trigger = Trigger::new(ScanShape { rows: 3, cols: 4 });
        assert_eq!(trigger.arrived(&arrival(4, 0, &[(1, 0)])), [FIRST_ROW]);
        assert_eq!(trigger.arrived(&arrival(8, 0, &[(0, 0)])), [row(0, 0), row(1, 0)]);
        let last = [SETTLED, row(2, 0), Signal::Complete { missing: 0 }];
        assert_eq!(trigger.arrived(&arrival(12, 0, &[(2, 0)])), last);
    }

    #[test]
    fn a_scan_that_is_all_lost_completes() {
        let mut trigger = Trigger::new(ScanShape { rows: 2, cols: 4 });
        let signals = trigger.arrived(&arrival(0, 8, &[(0, 4), (1, 4)]));
        assert_eq!(signals, [row(0, 4), row(1, 4), Signal::Complete { missing: 8 }]);
    }

    #[test]
    fn completion_comes_exactly_once() {
        let mut trigger = Trigger::new(ScanShape { rows: 1, cols: 4 });
        let last = arrival(4, 0, &[(0, 0)]);
        assert_eq!(trigger.arrived(&last), [SETTLED, row(0, 0), Signal::Complete { missing: 0 }]);
        assert_eq!(trigger.arrived(&last), []);
        assert_eq!(trigger.ended(4, |_| 0), []);
    }

    #[test]
    fn an_early_end_completes_with_every_row_accounted_for() {
        let mut trigger = Trigger::new(ScanShape { rows: 3, cols: 4 });
        assert_eq!(trigger.arrived(&arrival(5, 0, &[(0, 0)])), [FIRST_ROW, row(0, 0)]);
        let signals = trigger.ended(5, |row| [0, 3, 4][row]);
        assert_eq!(signals, [SETTLED, row(1, 3), row(2, 4), Signal::Complete { missing: 7 }]);
        assert_eq!(trigger.ended(5, |_| 4), []);
    }

    #[test]
    fn an_input_without_frames_ends_without_geometry() {
        let mut trigger = Trigger::new(ScanShape { rows: 1, cols: 4 });
        assert_eq!(trigger.ended(0, |_| 4), [row(0, 4), Signal::Complete { missing: 4 }]);
    }
}
