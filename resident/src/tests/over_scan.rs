//! Questions by place in the image, of frames that come in another order, in parts, and with others between them.

use kernels::types::{CountType, DetectorShape, FrameOrder, Item, ScanGeometry, ScanPath, ScanShape};

use super::dense::Dense;
use crate::{Budget, Missing, Resident, ResidentError, Roi};

const DETECTOR: DetectorShape = DetectorShape { rows: 24, cols: 20 };
const SCAN: ScanShape = ScanShape { rows: 18, cols: 31 };

/// Frames one after the other, without a scan.
fn acquired(frames: u64, gaps: &[std::ops::Range<u64>]) -> Dense {
    Dense::new(ScanShape { rows: 1, cols: frames as usize }, DETECTOR, CountType::U16, gaps, 9)
}

fn geometry(path: ScanPath, [frames_per_position, flyback_frames, skip_frames]: [u64; 3]) -> ScanGeometry {
    let order = FrameOrder { path, frames_per_position, flyback_frames, skip_frames };
    ScanGeometry::new(SCAN, order).unwrap()
}

/// The frames of every position, row by row, as the beam goes.
fn places(geometry: &ScanGeometry) -> Vec<Vec<u64>> {
    let order = geometry.order();
    let mut places = vec![Vec::new(); SCAN.positions()];
    let mut frame = order.skip_frames;
    for row in 0..SCAN.rows {
        for step in 0..SCAN.cols {
            let back = order.path == ScanPath::Snake && row % 2 == 1;
            let col = if back { SCAN.cols - 1 - step } else { step };
            places[row * SCAN.cols + col] = (frame..frame + order.frames_per_position).collect();
            frame += order.frames_per_position;
        }
        frame += order.flyback_frames;
    }
    places
}

const ALL: [(ScanPath, [u64; 3]); 6] = [
    (ScanPath::Raster, [1, 0, 0]),
    (ScanPath::Snake, [1, 0, 0]),
    (ScanPath::Raster, [3, 0, 0]),
    (ScanPath::Raster, [1, 5, 0]),
    (ScanPath::Raster, [1, 0, 700]),
    (ScanPath::Snake, [3, 4, 11]),
];

#[test]
fn every_answer_is_that_of_the_positions_that_are_there() {
    for (path, numbers) in ALL {
        for surplus in [0, 40] {
            let geometry = geometry(path, numbers);
            // a part of a position, a whole one or more, and one across two blocks where there are that many frames
            let gaps = [33..34, 70..80, 1023..1024];
            let frames = geometry.num_frames() + surplus;
            let dense = acquired(frames, &gaps.map(|gap| gap.start.min(frames)..gap.end.min(frames)));
            let flat = dense.resident(100).snapshot();
            let snapshot = flat.with_geometry(geometry).unwrap();
            check(&dense, &snapshot, &places(&geometry));
            // and again, from what is known by now
            check(&dense, &snapshot, &places(&geometry));
        }
    }
}

fn check(dense: &Dense, snapshot: &crate::Snapshot, places: &[Vec<u64>]) {
    let what = snapshot.geometry().to_string();
    let over = snapshot.over_scan();
    let there: Vec<bool> =
        places.iter().map(|frames| frames.iter().all(|&frame| dense.covered[frame as usize])).collect();
    let missing: Vec<u64> = (0..places.len() as u64).filter(|&at| !there[at as usize]).collect();
    let coverage = over.coverage();
    assert_eq!(coverage.missing().iter().cloned().flatten().collect::<Vec<_>>(), missing, "{what}");
    assert_eq!(coverage.asked(), places.len() as u64);

    let mask: Vec<bool> = (0..DETECTOR.pixels()).map(|pixel| pixel % 3 == 0).collect();
    let of_positions = |value: &dyn Fn(u64) -> u64| -> Vec<u64> {
        let sum = |(frames, &there): (&Vec<u64>, &bool)| {
            if there { frames.iter().map(|&frame| value(frame)).sum() } else { 0 }
        };
        places.iter().zip(&there).map(sum).collect()
    };
    let weighted = |weight: &dyn Fn(usize) -> u64| {
        of_positions(&|frame| {
            let counts = dense.frame(frame).iter().enumerate();
            counts.map(|(pixel, &count)| u64::from(count) * weight(pixel)).sum()
        })
    };
    let masked = over.mask_sum(&mask, Missing::Report).unwrap();
    assert_eq!(masked.value, weighted(&|pixel| mask[pixel].into()), "{what}");
    assert_eq!(masked.coverage, coverage);
    assert_eq!(over.frame_sums(Missing::Report).unwrap().value, weighted(&|_| 1), "{what}");

    let excluded: Vec<bool> = (0..DETECTOR.pixels()).map(|pixel| pixel == 200).collect();
    let kept = |pixel: usize| u64::from(pixel != 200);
    let total = weighted(&kept);
    let com = over.com(Some(&excluded), Missing::Report).unwrap().value;
    for (got, moment) in [
        (com.row, weighted(&|pixel| kept(pixel) * (pixel / DETECTOR.cols) as u64)),
        (com.col, weighted(&|pixel| kept(pixel) * (pixel % DETECTOR.cols) as u64)),
    ] {
        for (at, got) in got.into_iter().enumerate() {
            let expected = moment[at] as f64 / total[at] as f64; // 0 / 0 is NaN
            assert!(got == expected || got.is_nan() && expected.is_nan(), "{what}: {got} {expected}");
        }
    }

    let frames: Vec<u64> = places
        .iter()
        .zip(&there)
        .filter(|(_, there)| **there)
        .flat_map(|(frames, _)| frames)
        .copied()
        .collect();
    let pattern = dense.pattern(frames.iter().copied());
    let detector_total = over.detector_total(Missing::Report).unwrap();
    assert_eq!(*detector_total.value, pattern, "{what}");
    let num = coverage.covered() as f64;
    let mean: Vec<f64> = pattern.iter().map(|&sum| sum as f64 / num).collect();
    assert_eq!(over.mean_pattern(Missing::Report).unwrap().value, mean, "{what}");
    let hits: Vec<u64> = (0..DETECTOR.pixels())
        .map(|pixel| frames.iter().filter(|&&frame| dense.frame(frame)[pixel] == 65535).count() as u64)
        .collect();
    assert_eq!(*over.marker_hits(Missing::Report).unwrap().value, hits, "{what}");

    let rect = Roi::Rect { scan_rows: 1..3, scan_cols: 2..9 };
    let of_rect: Vec<u64> =
        (1..3).flat_map(|row| (2..9).flat_map(move |col| places[row * SCAN.cols + col].clone())).collect();
    let sums = snapshot.roi_sum(&rect, Missing::Report).unwrap();
    assert_eq!(sums.value, dense.pattern(of_rect.iter().copied()), "{what}");
    assert_eq!(sums.coverage.asked(), of_rect.len() as u64);
    let mask: Vec<bool> = (0..SCAN.positions()).map(|at| at % 7 == 1).collect();
    let of_mask = places.iter().zip(&mask).filter(|(_, inside)| **inside).flat_map(|(frames, _)| frames);
    let sums = snapshot.roi_sum(&Roi::Mask(&mask), Missing::Report).unwrap();
    assert_eq!(sums.value, dense.pattern(of_mask.copied()), "{what}");

    let refused = over.frame_sums(Missing::Fail).map(|_| ()).unwrap_err();
    assert!(matches!(refused, ResidentError::Missing { .. }), "{refused}");
}

#[test]
fn while_it_grows_every_moment_is_answered_as_it_was() {
    let geometry = geometry(ScanPath::Snake, [3, 9, 5]);
    let dense = acquired(geometry.num_frames(), &[]);
    let resident = Resident::new(geometry, DETECTOR, CountType::U16, Budget::UNLIMITED).unwrap();
    let mut snapshots = Vec::new();
    let mut rows = Vec::new();
    for item in dense.encode(64) {
        let Item::Data(block) = item else { panic!("a gap") };
        let (first, end) = (block.first(), block.first() + block.positions() as u64);
        let arrival = resident.append(block).unwrap();
        for row in &arrival.rows {
            let frames = geometry.frames_of_row(row.row);
            assert!(row.missing == 0 && frames.end <= end && frames.end > first, "{row:?}");
        }
        rows.extend(arrival.rows.iter().map(|row| row.row));
        snapshots.push((end, resident.snapshot()));
    }
    assert_eq!(rows, (0..SCAN.rows).collect::<Vec<_>>());
    assert!(snapshots.len() > 1);
    assert_eq!(snapshots.last().unwrap().1.totals().awaited, 0);
    // the newest first: what it leaves known is too much for the older ones
    for (end, snapshot) in snapshots.iter().rev().chain(&snapshots) {
        let whole = places(&geometry).into_iter().filter(|frames| frames.iter().all(|frame| frame < end));
        let expected = dense.pattern(whole.flatten());
        assert_eq!(*snapshot.over_scan().detector_total(Missing::Report).unwrap().value, expected, "{end}");
    }
}

#[test]
fn a_geometry_that_needs_more_frames_than_there_are_is_refused_with_both_numbers() {
    let geometry = geometry(ScanPath::Snake, [2, 3, 4]);
    let needed = geometry.num_frames();
    assert_eq!(needed, 4 + 18 * 62 + 17 * 3);
    let frames = needed - 1;
    let refused = Resident::with_frames(geometry, frames, DETECTOR, CountType::U16, Budget::UNLIMITED)
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(refused.contains(&format!("needs {needed} frames, the series has {frames}")), "{refused}");
    assert!(refused.contains("18x31, snake, 2 frames a position, 3 fly-back frames"), "{refused}");
    let flat =
        Resident::new(ScanShape { rows: 1, cols: 7 }, DETECTOR, CountType::U16, Budget::UNLIMITED).unwrap();
    assert!(flat.snapshot().with_geometry(geometry).is_err());
    assert!(flat.snapshot().with_geometry(ScanShape { rows: 7, cols: 1 }.into()).is_ok());
}
