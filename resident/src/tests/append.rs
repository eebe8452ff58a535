//! Refusals, rows, readers.

use std::sync::atomic::{AtomicBool, Ordering};

use encoder::{Block, INTERVAL};
use kernels::types::{CountType, DetectorShape, Gap, GapReason, Item, ScanShape};

use super::dense::Dense;
use crate::{Budget, Missing, Resident, ResidentError, RowArrival};

const SCAN: ScanShape = ScanShape { rows: 40, cols: 70 }; // 2800 positions: 1024, 1024, 752
const DETECTOR: DetectorShape = DetectorShape { rows: 12, cols: 20 };

fn dense(gaps: &[std::ops::Range<u64>]) -> Dense {
    Dense::new(SCAN, DETECTOR, CountType::U16, gaps, 5)
}

fn blocks(dense: &Dense) -> Vec<Block> {
    dense
        .encode(512)
        .into_iter()
        .filter_map(|item| if let Item::Data(block) = item { Some(block) } else { None })
        .collect()
}

fn gap(first: u64, count: u64) -> Gap {
    Gap { first, count, reason: GapReason::NotReceived("test".to_owned()) }
}

#[test]
fn rows_settle_with_the_block_that_ends_them_in_any_order() {
    let dense = dense(&[75..76, 76..77]);
    let resident = dense.empty_resident(Budget::UNLIMITED);
    let mut blocks = blocks(&dense).into_iter();
    let (first, second, third) = (blocks.next().unwrap(), blocks.next().unwrap(), blocks.next().unwrap());
    let arrival = resident.append(second).unwrap();
    assert_eq!((arrival.positions, arrival.covered), (1024..2048, 1024));
    let rows: Vec<usize> = arrival.rows.iter().map(|row| row.row).collect();
    assert_eq!(rows, (15..29).collect::<Vec<_>>()); // row 14 begins, row 29 ends in another block
    let arrival = resident.append(first).unwrap();
    assert_eq!(arrival.covered, 1022);
    assert_eq!(arrival.rows.len(), 15);
    assert_eq!(arrival.rows[1], RowArrival { row: 1, missing: 2 });
    let arrival = resident.append(third).unwrap();
    assert_eq!((arrival.rows[0].row, arrival.rows.len()), (29, 11));
    assert_eq!((arrival.totals.frames, arrival.totals.missing, arrival.totals.awaited), (2798, 2, 0));
}

#[test]
fn an_interval_is_settled_by_a_gap_over_all_of_it_and_not_by_less() {
    let dense = dense(&[]);
    let resident = dense.empty_resident(Budget::UNLIMITED);
    let arrival = resident.mark_missing(&gap(100, 1500));
    // the rows that it covers are
    assert_eq!((arrival.positions, arrival.rows.len(), arrival.totals.awaited), (0..0, 20, 1300));
    assert_eq!(arrival.rows.first(), Some(&RowArrival { row: 2, missing: 70 }));
    let arrival = resident.mark_missing(&gap(1500, u64::MAX));
    assert_eq!((arrival.positions, arrival.covered), (1024..2800, 0));
    assert_eq!(arrival.rows.first(), Some(&RowArrival { row: 22, missing: 70 }));
    assert_eq!((arrival.totals.missing, arrival.totals.awaited), (2700, 100));
    // frames of an interval that was given up are kept all the same; its rows are not announced again
    let arrival = resident.append(blocks(&dense).remove(1)).unwrap();
    assert_eq!((arrival.rows.len(), arrival.totals.frames, arrival.totals.missing), (0, 1024, 1676));
}

#[test]
fn what_does_not_fit_is_refused_and_harms_nothing() {
    let dense = dense(&[]);
    let resident = dense.empty_resident(Budget::UNLIMITED);
    let block = blocks(&dense).remove(0);
    resident.append(block.clone()).unwrap();
    let before = resident.snapshot();
    let other = |scan, detector, count_type| {
        let other = Dense::new(scan, detector, count_type, &[], 1);
        blocks(&other)
    };
    let refused = resident.append(block).unwrap_err();
    assert!(matches!(refused, ResidentError::AlreadyHeld { first: 0 }), "{refused}");
    let turned = DetectorShape { rows: 20, cols: 12 };
    let refused = resident.append(other(SCAN, turned, CountType::U16).remove(1)).unwrap_err();
    assert_eq!(refused.to_string(), "block at scan position 1024: got detector 20x12, expected 12x20");
    let refused = resident.append(other(SCAN, DETECTOR, CountType::U8).remove(1)).unwrap_err();
    assert_eq!(refused.to_string(), "block at scan position 1024: got u8 counts, expected u16");
    let long = ScanShape { rows: 40, cols: 90 };
    for block in [2, 3] {
        let refused = resident.append(other(long, DETECTOR, CountType::U16).remove(block)).unwrap_err();
        assert!(matches!(refused, ResidentError::BeyondScan { positions: 2800, .. }), "{refused}");
    }
    let after = resident.snapshot();
    assert_eq!(after.totals(), before.totals());
    assert_eq!(
        after.detector_total(Missing::Report).unwrap(),
        before.detector_total(Missing::Report).unwrap()
    );
}

#[test]
fn the_budget_names_asked_held_and_allowed_and_keeps_what_is_held() {
    let dense = dense(&[]);
    let blocks = blocks(&dense);
    let asked = |block: &Block| (block.encoded_bytes().total() + size_of::<Block>()) as u64;
    let bytes = asked(&blocks[0]) + asked(&blocks[1]);
    let resident = dense.empty_resident(Budget { bytes });
    let third = asked(&blocks[2]);
    for (index, block) in blocks.into_iter().enumerate() {
        match (index, resident.append(block)) {
            (0 | 1, Ok(_)) => {}
            (2, Err(refused)) => assert_eq!(
                refused.to_string(),
                format!(
                    "block at scan position 2048: asked for {third} bytes beside {bytes} bytes held, budget {bytes} bytes"
                )
            ),
            (index, answer) => panic!("block {index}: {answer:?}"),
        }
    }
    let snapshot = resident.snapshot();
    assert_eq!(snapshot.totals().held_bytes, bytes);
    let sums = snapshot.frame_sums(0..2048, Missing::Fail).unwrap().value;
    assert_eq!(sums, dense.moments(None, 0..2048).total);
}

#[test]
fn a_block_cut_short_leaves_the_rest_of_its_interval_missing() {
    let short = ScanShape { rows: 1, cols: 1500 };
    let dense = Dense::new(short, DETECTOR, CountType::U8, &[], 9);
    let scan = ScanShape { rows: 2, cols: 1000 };
    let resident = Resident::new(scan, DETECTOR, CountType::U8, Budget::UNLIMITED).unwrap();
    for block in blocks(&dense) {
        resident.append(block).unwrap();
    }
    let snapshot = resident.snapshot();
    let missing = snapshot.coverage(0..2000).unwrap().missing().to_vec();
    assert_eq!((missing.len(), missing.first()), (1, Some(&(1500..2000))));
    assert_eq!((snapshot.totals().awaited, snapshot.totals().missing), (0, 500));
    let images = snapshot.pixel_images::<u8>(&[100], 1400..1600, Missing::Report).unwrap().value;
    let direct = dense.images(&[100], 1400..1500);
    assert!(images[..100].iter().map(|&count| u32::from(count)).eq(direct));
    assert_eq!(images[100..], [0; 100]);
    assert_eq!(snapshot.frame_sums(1400..2000, Missing::Report).unwrap().value.len(), 600);
}

#[test]
fn a_scan_too_large_to_count_is_refused() {
    let scan = ScanShape { rows: usize::MAX, cols: 3 };
    let refused = Resident::new(scan, DETECTOR, CountType::U8, Budget::UNLIMITED).unwrap_err();
    assert!(matches!(refused, ResidentError::TooLarge { .. }), "{refused}");
}

#[test]
fn a_snapshot_stays_as_it_was_and_readers_go_on_while_blocks_come() {
    let dense = dense(&[]);
    let resident = dense.empty_resident(Budget::UNLIMITED);
    let done = AtomicBool::new(false);
    let mask: Vec<bool> = (0..DETECTOR.pixels()).map(|pixel| pixel % 3 == 0).collect();
    let weights: Vec<i64> = mask.iter().map(|&inside| inside.into()).collect();
    let direct = dense.weighted(&weights, 0..2800);
    let empty = resident.snapshot();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let snapshot = resident.snapshot();
                    let frames = snapshot.totals().frames;
                    let image = snapshot.mask_sum(&mask, 0..2800, Missing::Report).unwrap();
                    // the blocks come in order, so that a snapshot is a whole number of them from the start
                    assert_eq!(image.coverage.covered(), frames);
                    let there = image.value.iter().take(frames as usize).map(|&sum| i128::from(sum));
                    assert!(there.eq(direct[..frames as usize].iter().copied()));
                    assert!(image.value[frames as usize..].iter().all(|&sum| sum == 0));
                    let total: u64 = snapshot.detector_total(Missing::Report).unwrap().value.iter().sum();
                    let sums = snapshot.frame_sums(0..2800, Missing::Report).unwrap().value;
                    assert_eq!(total, sums.iter().sum::<u64>());
                    std::thread::yield_now();
                }
            });
        }
        for block in blocks(&dense) {
            resident.append(block).unwrap();
            std::thread::yield_now();
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(empty.totals().frames, 0);
    assert_eq!(empty.coverage(0..2800).unwrap().num_missing(), 2800);
    assert!(empty.mean_pattern(Missing::Report).unwrap().value.iter().all(|mean| mean.is_nan()));
    assert!(empty.mean_pattern(Missing::Fail).is_err());
}

#[test]
fn questions_beyond_scan_or_detector_are_refused() {
    let dense = dense(&[]);
    let snapshot = dense.resident(512).snapshot();
    let refused: Vec<String> = [
        snapshot.frame_sums(0..2801, Missing::Fail).map(drop),
        snapshot.frame::<u16>(u64::MAX, Missing::Fail).map(drop),
        snapshot.pixel_images::<u16>(&[3, 240], 0..1, Missing::Fail).map(drop),
        snapshot.region::<u16>(0..1, 0..13, 0..1, Missing::Fail).map(drop),
        snapshot.mask_sum(&[true], 0..1, Missing::Fail).map(drop),
        snapshot.weighted_sum_f64(&[f64::NAN; 240], 0..1, Missing::Fail).map(drop),
        snapshot.frame::<u8>(0, Missing::Fail).map(drop),
    ]
    .into_iter()
    .map(|answer| answer.unwrap_err().to_string())
    .collect();
    assert_eq!(
        refused,
        [
            "got scan positions 0..2801, expected a range within 0..2800",
            "got scan positions 18446744073709551615..18446744073709551615, expected a range within 0..2800",
            "got detector pixel 240, expected one below 240",
            "got detector rows 0..13, expected a range within 0..12",
            "got a detector mask of 1 elements, expected 240",
            "weight of detector pixel 0 is NaN, expected a finite number",
            "block at scan position 0: got u8 as output type, expected one that holds u16",
        ]
    );
    assert_eq!(INTERVAL, 1024);
}
