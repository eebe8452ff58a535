//! When is there enough? The state machine that tells the reconstruction what it may start.
//!
//! Pure: arrivals in, signals out. [`crate::AppendStage`] drives it.

use kernels::types::ScanShape;

use crate::resident::{Arrival, RowArrival};

/// Frames after which the bright-field geometry is worth measuring, when the first scan row is longer than that.
pub const GEOMETRY_FRAMES: u64 = 512;

/// What has become possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The bright-field geometry can be measured. At most once; before any row.
    Geometry,
    /// Nothing more will come for a scan row. Once for every row.
    RowComplete(RowArrival),
    /// Nothing more will come at all. Exactly once, last.
    Complete {
        /// Scan positions that have no frame.
        missing: u64,
    },
}

/// Turns arrivals into signals.
#[derive(Clone, Debug)]
pub struct Trigger {
    scan: ScanShape,
    geometry_sent: bool,
    rows_sent: Vec<bool>,
    rows_left: usize,
    complete_sent: bool,
}

impl Trigger {
    /// A trigger for a scan that has not started.
    pub fn new(scan: ScanShape) -> Self {
        let rows = if scan.cols == 0 { 0 } else { scan.rows };
        Self {
            scan,
            geometry_sent: false,
            rows_sent: vec![false; rows],
            rows_left: rows,
            complete_sent: false,
        }
    }

    /// What an arrival makes possible, in the order to act on it.
    pub fn arrived(&mut self, arrival: &Arrival) -> Vec<Signal> {
        let mut signals = Vec::new();
        if self.complete_sent {
            return signals;
        }
        let frames = arrival.totals.frames;
        if !self.geometry_sent && frames > 0 && (frames >= GEOMETRY_FRAMES || !arrival.rows.is_empty()) {
            self.geometry_sent = true;
            signals.push(Signal::Geometry);
        }
        for &row in &arrival.rows {
            self.row(row, &mut signals);
        }
        if self.rows_left == 0 {
            self.complete(arrival.totals.missing, &mut signals);
        }
        signals
    }

    /// The input has ended: every row not yet signalled, then completion, unless it was signalled before.
    ///
    /// `missing` counts the missing positions of a row, whether they were lost or never came; `frames` have arrived.
    pub fn ended(&mut self, frames: u64, missing: impl Fn(usize) -> u64) -> Vec<Signal> {
        let mut signals = Vec::new();
        if self.complete_sent {
            return signals;
        }
        if !self.geometry_sent && frames > 0 {
            self.geometry_sent = true;
            signals.push(Signal::Geometry);
        }
        for row in 0..self.rows_sent.len() {
            self.row(RowArrival { row, missing: missing(row) }, &mut signals);
        }
        self.complete((self.scan.positions() as u64).saturating_sub(frames), &mut signals);
        signals
    }

    fn row(&mut self, row: RowArrival, signals: &mut Vec<Signal>) {
        if let Some(sent) = self.rows_sent.get_mut(row.row)
            && !std::mem::replace(sent, true)
        {
            self.rows_left -= 1;
            signals.push(Signal::RowComplete(row));
        }
    }

    fn complete(&mut self, missing: u64, signals: &mut Vec<Signal>) {
        if !std::mem::replace(&mut self.complete_sent, true) {
            signals.push(Signal::Complete { missing });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resident::Totals;

    fn arrival(frames: u64, missing: u64, rows: &[(usize, u64)]) -> Arrival {
        Arrival {
            positions: 0..frames + missing,
            covered: frames,
            rows: rows.iter().map(|&(row, missing)| RowArrival { row, missing }).collect(),
            totals: Totals { frames, missing, ..Totals::default() },
        }
    }

    fn row(row: usize, missing: u64) -> Signal {
        Signal::RowComplete(RowArrival { row, missing })
    }

    #[test]
    fn the_first_row_settles_the_geometry_first() {
        let mut trigger = Trigger::new(ScanShape { rows: 3, cols: 4 });
        assert_eq!(trigger.arrived(&arrival(3, 0, &[])), []);
        assert_eq!(trigger.arrived(&arrival(5, 0, &[(0, 0)])), [Signal::Geometry, row(0, 0)]);
        assert_eq!(
            trigger.arrived(&arrival(11, 1, &[(1, 1), (2, 0)])),
            [row(1, 1), row(2, 0), Signal::Complete { missing: 1 }]
        );
    }

    #[test]
    fn geometry_does_not_wait_for_a_long_row() {
        let mut trigger = Trigger::new(ScanShape { rows: 2, cols: 4096 });
        assert_eq!(trigger.arrived(&arrival(511, 0, &[])), []);
        assert_eq!(trigger.arrived(&arrival(512, 0, &[])), [Signal::Geometry]);
        assert_eq!(trigger.arrived(&arrival(1024, 0, &[])), []);
    }

    #[test]
    fn a_row_of_holes_alone_settles_no_geometry() {
        let mut trigger = Trigger::new(ScanShape { rows: 2, cols: 4 });
        assert_eq!(trigger.arrived(&arrival(0, 4, &[(0, 4)])), [row(0, 4)]);
        assert_eq!(
            trigger.arrived(&arrival(4, 4, &[(1, 0)])),
            [Signal::Geometry, row(1, 0), Signal::Complete { missing: 4 }]
        );
    }

    #[test]
    fn completion_comes_exactly_once() {
        let mut trigger = Trigger::new(ScanShape { rows: 1, cols: 4 });
        let last = arrival(4, 0, &[(0, 0)]);
        assert_eq!(trigger.arrived(&last), [Signal::Geometry, row(0, 0), Signal::Complete { missing: 0 }]);
        assert_eq!(trigger.arrived(&last), []);
        assert_eq!(trigger.ended(4, |_| 0), []);
    }

    #[test]
    fn an_early_end_completes_with_every_row_accounted_for() {
        let mut trigger = Trigger::new(ScanShape { rows: 3, cols: 4 });
        assert_eq!(trigger.arrived(&arrival(5, 0, &[(0, 0)])), [Signal::Geometry, row(0, 0)]);
        let signals = trigger.ended(5, |row| [0, 3, 4][row]);
        assert_eq!(signals, [row(1, 3), row(2, 4), Signal::Complete { missing: 7 }]);
        assert_eq!(trigger.ended(5, |_| 4), []);
    }

    #[test]
    fn an_input_without_frames_ends_without_geometry() {
        let mut trigger = Trigger::new(ScanShape { rows: 1, cols: 4 });
        assert_eq!(trigger.ended(0, |_| 4), [row(0, 4), Signal::Complete { missing: 4 }]);
    }
}
