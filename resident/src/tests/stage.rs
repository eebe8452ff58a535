//! From batches to signals through the real stages.

use std::sync::Arc;

use crossbeam_channel::unbounded;
use kernels::types::{CountType, DetectorShape, ScanShape};

use super::dense::Dense;
use crate::{AppendStage, Basis, Budget, Event, Missing, ResidentError, Signal};

const SCAN: ScanShape = ScanShape { rows: 30, cols: 70 }; // 2100 positions: 1024, 1024, 52
const DETECTOR: DetectorShape = DetectorShape { rows: 9, cols: 10 };

/// All events of an acquisition of which only the first `items` messages arrive.
fn events(dense: &Dense, items: usize, budget: Budget) -> (Vec<Event>, Result<(), ResidentError>) {
    let (to_stage, blocks) = unbounded();
    let (events, received) = unbounded();
    for item in dense.encoded(512).into_iter().take(items) {
        to_stage.send(item).unwrap();
    }
    drop(to_stage);
    let resident = dense.empty_resident(budget);
    let outcome = AppendStage::new(Arc::clone(&resident)).run(blocks, events);
    (received.iter().collect(), outcome)
}

/// Checks the order; the missing positions that completion names.
fn check_order(events: &[Event]) -> u64 {
    let signals: Vec<Signal> = events.iter().map(|event| event.signal).collect();
    assert_eq!(signals.first(), Some(&Signal::Geometry(Basis::Settled)));
    let rows: Vec<usize> = signals
        .iter()
        .filter_map(|signal| if let Signal::RowComplete(row) = signal { Some(row.row) } else { None })
        .collect();
    assert_eq!(rows, (0..SCAN.rows).collect::<Vec<_>>());
    assert_eq!(signals.len(), SCAN.rows + 2);
    match signals.last() {
        Some(Signal::Complete { missing }) => *missing,
        last => panic!("{last:?}"),
    }
}

#[test]
fn a_whole_scan_completes_with_every_row_once() {
    let dense = Dense::new(SCAN, DETECTOR, CountType::U16, &[], 1);
    let (events, outcome) = events(&dense, usize::MAX, Budget::UNLIMITED);
    outcome.unwrap();
    assert_eq!(check_order(&events), 0);
    let geometry = events[0].snapshot.mean_pattern(Missing::Report).unwrap();
    assert_eq!(geometry.coverage.covered(), 1024);
    let mean: Vec<f64> = dense.pattern(0..1024).iter().map(|&sum| sum as f64 / 1024.0).collect();
    assert_eq!(geometry.value, mean);
    for event in &events {
        if let Signal::RowComplete(row) = event.signal {
            assert!(event.snapshot.frame_sums(event.snapshot.row(row.row), Missing::Fail).is_ok());
        }
    }
}

#[test]
fn gaps_complete_too_and_are_counted_by_row() {
    let dense = Dense::new(SCAN, DETECTOR, CountType::U16, &[71..74, 1000..2050], 1);
    let (events, outcome) = events(&dense, usize::MAX, Budget::UNLIMITED);
    outcome.unwrap();
    assert_eq!(check_order(&events), 1053);
    for event in &events {
        if let Signal::RowComplete(row) = event.signal {
            let span = event.snapshot.row(row.row);
            assert_eq!(row.missing, dense.missing(span).len() as u64);
        }
    }
}

#[test]
fn an_input_that_ends_early_completes_with_what_never_came() {
    let dense = Dense::new(SCAN, DETECTOR, CountType::U16, &[], 1);
    let (events, outcome) = events(&dense, 1, Budget::UNLIMITED);
    outcome.unwrap();
    assert_eq!(check_order(&events), 2100 - 1024);
}

#[test]
fn a_budget_that_is_spent_ends_the_stage_without_completion() {
    let dense = Dense::new(SCAN, DETECTOR, CountType::U16, &[], 1);
    let (events, outcome) = events(&dense, usize::MAX, Budget { bytes: 1000 });
    assert!(matches!(outcome, Err(ResidentError::OverBudget { held_bytes: 0, .. })), "{outcome:?}");
    assert!(events.is_empty());
}

#[test]
fn the_stage_stops_in_good_order_when_nobody_listens() {
    let dense = Dense::new(SCAN, DETECTOR, CountType::U16, &[], 1);
    let (to_stage, blocks) = unbounded();
    for item in dense.encoded(512) {
        to_stage.send(item).unwrap();
    }
    let (events, received) = unbounded();
    drop(received); // and the input is still open
    AppendStage::new(dense.empty_resident(Budget::UNLIMITED)).run(blocks, events).unwrap();
}
