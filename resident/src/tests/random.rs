//! A thousand random questions, each equal to direct computation to the last bit.

use std::ops::Range;

use kernels::types::{CountType, DetectorShape, ScanShape};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::dense::Dense;
use crate::{Coverage, Missing, ResidentError, Roi, Snapshot};

const CASES: usize = 1000;
const SCAN: ScanShape = ScanShape { rows: 37, cols: 61 };
const DETECTOR: DetectorShape = DetectorShape { rows: 44, cols: 37 };
/// Frames a batch; the last is the whole scan.
const BATCHES: [usize; 4] = [1, 7, 512, SCAN.rows * SCAN.cols];

fn acquisition(count_type: CountType) -> Dense {
    match count_type {
        CountType::U8 => Dense::new(SCAN, DETECTOR, count_type, &[], 1),
        CountType::U16 => {
            Dense::new(SCAN, DETECTOR, count_type, &[3..4, 700..731, 1000..1100, 2256..2257], 2)
        }
        CountType::U32 => Dense::new(SCAN, DETECTOR, count_type, &[0..5, 900..2050, 2100..2101], 3),
    }
}

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

#[test]
fn a_thousand_random_questions_differ_nowhere_from_direct_computation() {
    let pools = [pool(1), pool(2)];
    let mut random = Pcg64::seed_from_u64(20);
    let mut asked = 0;
    for count_type in [CountType::U8, CountType::U16, CountType::U32] {
        let dense = acquisition(count_type);
        let snapshots: Vec<Snapshot> = BATCHES
            .iter()
            .flat_map(|&batch| pools.iter().map(move |pool| (batch, pool)))
            .map(|(batch, pool)| pool.install(|| dense.resident(batch).snapshot()))
            .collect();
        for snapshot in &snapshots {
            assert!(snapshot.blocks().eq(snapshots[0].blocks()), "a block depends on batches or threads");
            check_totals(&dense, snapshot);
        }
        for case in 0..CASES.div_ceil(3) {
            let pool = &pools[case / snapshots.len() % 2];
            let snapshot = &snapshots[case % snapshots.len()];
            pool.install(|| ask(&dense, snapshot, case, &mut random));
            asked += 1;
        }
    }
    assert!(asked >= CASES);
}

fn check_totals(dense: &Dense, snapshot: &Snapshot) {
    let total = dense.pattern(snapshot.positions());
    let frames = dense.covered.iter().filter(|&&covered| covered).count() as f64;
    let answer = snapshot.mean_pattern(Missing::Report).unwrap();
    let mean: Vec<f64> = total.iter().map(|&sum| sum as f64 / frames).collect();
    assert_eq!(answer.value, mean);
    assert_eq!(*snapshot.detector_total(Missing::Report).unwrap().value, total);
    check_coverage(dense, &answer.coverage, snapshot.positions());
    let mut hits = vec![0; total.len()];
    for position in snapshot.positions() {
        for (hit, &count) in hits.iter_mut().zip(dense.frame(position)) {
            *hit += u64::from(count == dense.count_type.marker());
        }
    }
    assert_eq!(*snapshot.marker_hits(Missing::Report).unwrap().value, hits);
    assert_eq!(snapshot.totals().frames as f64, frames);
    assert_eq!(snapshot.totals().awaited, 0);
    assert_eq!(snapshot.totals().missing + snapshot.totals().frames, SCAN.positions() as u64);
}

fn check_coverage(dense: &Dense, coverage: &Coverage, positions: impl Iterator<Item = u64> + Clone) {
    assert_eq!(coverage.asked(), positions.clone().count() as u64);
    let listed: Vec<u64> = coverage.missing().iter().cloned().flatten().collect();
    assert_eq!(listed, dense.missing(positions));
}

/// Asks one question of the kind that `case` picks.
fn ask(dense: &Dense, snapshot: &Snapshot, case: usize, random: &mut Pcg64) {
    let positions = range(random, SCAN.positions() as u64);
    match case % 8 {
        0 => {
            let mask = mask(random);
            let answer = snapshot.mask_sum(&mask, positions.clone(), Missing::Report).unwrap();
            let weights: Vec<i64> = mask.iter().map(|&inside| inside.into()).collect();
            let direct = dense.weighted(&weights, positions.clone());
            assert!(answer.value.iter().map(|&sum| i128::from(sum)).eq(direct));
            check_coverage(dense, &answer.coverage, positions);
        }
        1 => {
            let largest = [1, 9, 1 << 20, i64::MAX][random.random_range(0..4)];
            let mask = mask(random);
            let (inside, outside) = (random.random_range(-largest..=largest), random.random_range(0..2));
            let noise = random.random_range(0..2);
            let weights: Vec<i64> = mask
                .iter()
                .map(|&within| match (within, noise * random.random_range(0..50)) {
                    (_, 49) => random.random_range(-largest..=largest),
                    (true, _) => inside,
                    (false, _) => outside,
                })
                .collect();
            check_weighted(dense, snapshot, &weights, positions);
        }
        2 => check_weighted_f64(dense, snapshot, random, positions),
        3 => {
            let excluded = match random.random_range(0..3) {
                0 => None,
                1 => Some((0..DETECTOR.pixels()).map(|_| random.random_range(0..300) == 0).collect()),
                _ => Some(mask(random)),
            };
            let excluded: Option<&[bool]> = excluded.as_deref();
            let moments = snapshot.moments(excluded, positions.clone(), Missing::Report).unwrap();
            assert_eq!(moments.value, dense.moments(excluded, positions.clone()));
            let com = snapshot.com(excluded, positions.clone(), Missing::Report).unwrap().value;
            let direct = dense.com(excluded, positions);
            let bits =
                |values: &[f64]| values.iter().map(|value| (value.is_nan(), *value)).collect::<Vec<_>>();
            for (got, expected) in [(&com.row, &direct.row), (&com.col, &direct.col)] {
                let same = |(got, expected): (&(bool, f64), &(bool, f64))| {
                    got.0 == expected.0 && (got.0 || got.1 == expected.1)
                };
                assert_eq!(got.len(), expected.len());
                assert!(bits(got).iter().zip(&bits(expected)).all(same));
            }
        }
        4 => check_roi(dense, snapshot, random, positions),
        5 => {
            let short = positions.start..positions.end.min(positions.start + 200);
            let (rows, cols) = (axis(random, DETECTOR.rows), axis(random, DETECTOR.cols));
            let answer =
                snapshot.region::<u32>(short.clone(), rows.clone(), cols.clone(), Missing::Report).unwrap();
            assert_eq!(answer.value, dense.region(short.clone(), rows, cols));
            check_coverage(dense, &answer.coverage, short);
        }
        6 => {
            let len = [0, 1, 5, 40, 800][random.random_range(0..5)];
            let pixels: Vec<u32> =
                (0..len).map(|_| random.random_range(0..DETECTOR.pixels() as u32)).collect();
            let mut out = vec![77; random.random_range(0..5000)]; // what it held must not matter
            let coverage =
                snapshot.pixel_images_into::<u32>(&pixels, positions.clone(), Missing::Report, &mut out);
            assert_eq!(out, dense.images(&pixels, positions.clone()));
            check_coverage(dense, &coverage.unwrap(), positions);
        }
        _ => {
            let position = random.random_range(0..SCAN.positions() as u64);
            match (snapshot.frame::<u32>(position, Missing::Fail), dense.covered[position as usize]) {
                (Ok(frame), true) => assert_eq!(frame.value, dense.frame(position)),
                (Err(ResidentError::Missing { first_missing, num_missing: 1, asked: 1 }), false) => {
                    assert_eq!(first_missing, position);
                }
                (answer, covered) => panic!("frame {position}, covered {covered}: {answer:?}"),
            }
            let sums = snapshot.frame_sums(positions.clone(), Missing::Report).unwrap().value;
            assert_eq!(sums, dense.moments(None, positions).total);
        }
    }
}

fn check_weighted(dense: &Dense, snapshot: &Snapshot, weights: &[i64], positions: Range<u64>) {
    let direct = dense.weighted(weights, positions.clone());
    let beyond = direct.iter().position(|&sum| i64::try_from(sum).is_err());
    match (snapshot.weighted_sum(weights, positions.clone(), Missing::Report), beyond) {
        (Ok(answer), None) => {
            assert!(answer.value.iter().map(|&sum| i128::from(sum)).eq(direct));
            check_coverage(dense, &answer.coverage, positions);
        }
        (Err(ResidentError::Overflow { position, got }), Some(first)) => {
            assert_eq!((position, got), (positions.start + first as u64, direct[first]));
        }
        (answer, beyond) => panic!("first sum beyond 64 bits {beyond:?}, got {answer:?}"),
    }
}

fn check_weighted_f64(dense: &Dense, snapshot: &Snapshot, random: &mut Pcg64, positions: Range<u64>) {
    let mask = mask(random);
    let (inside, slope) = (random.random_range(-1.0..1.0), random.random_range(0..2));
    let weights: Vec<f64> = mask
        .iter()
        .enumerate()
        .map(|(pixel, &within)| if within { inside + (pixel * slope) as f64 * 1e-3 } else { 0.0 })
        .collect();
    let answer = snapshot.weighted_sum_f64(&weights, positions.clone(), Missing::Report).unwrap();
    let again = snapshot.weighted_sum_f64(&weights, positions.clone(), Missing::Report).unwrap();
    let direct = dense.weighted_f64(&weights, positions.clone());
    assert_eq!(answer.value.len(), direct.len());
    // both sums are off by (n + 1) 2^-53 of the sum of sizes at most
    let bound = 2.01 * (DETECTOR.pixels() as f64 + 1.0) * 2f64.powi(-53);
    for (position, ((&got, &repeat), &(expected, size))) in
        positions.clone().zip(answer.value.iter().zip(&again.value).zip(&direct))
    {
        if dense.covered[position as usize] {
            assert!((got - expected).abs() <= bound * size, "{got} for {expected} at {position}");
            assert_eq!(got.to_bits(), repeat.to_bits());
        } else {
            assert!(got.is_nan());
        }
    }
    check_coverage(dense, &answer.coverage, positions);
}

fn check_roi(dense: &Dense, snapshot: &Snapshot, random: &mut Pcg64, positions: Range<u64>) {
    let inside: Vec<bool>;
    let (roi, chosen): (Roi<'_>, Vec<u64>) = match random.random_range(0..3) {
        0 => {
            let (rows, cols) = (axis(random, SCAN.rows), axis(random, SCAN.cols));
            let at = |row| cols.clone().map(move |col| (row * SCAN.cols + col) as u64);
            let chosen = rows.clone().flat_map(at).collect();
            (Roi::Rect { scan_rows: rows, scan_cols: cols }, chosen)
        }
        1 => (Roi::Positions(positions.clone()), positions.collect()),
        _ => {
            let rarity = random.random_range(1..200);
            inside = (0..SCAN.positions()).map(|_| random.random_range(0..rarity) == 0).collect();
            let chosen = (0..).zip(&inside).filter(|(_, inside)| **inside).map(|(at, _)| at).collect();
            (Roi::Mask(&inside), chosen)
        }
    };
    let answer = snapshot.roi_sum(&roi, Missing::Report).unwrap();
    assert_eq!(answer.value, dense.pattern(chosen.iter().copied()));
    check_coverage(dense, &answer.coverage, chosen.into_iter());
}

fn range(random: &mut Pcg64, len: u64) -> Range<u64> {
    match random.random_range(0..4) {
        0 => 0..len,
        1 => {
            let row = random.random_range(0..SCAN.rows) * SCAN.cols;
            row as u64..(row + SCAN.cols) as u64
        }
        _ => {
            let (a, b) = (random.random_range(0..=len), random.random_range(0..=len));
            a.min(b)..a.max(b)
        }
    }
}

fn axis(random: &mut Pcg64, len: usize) -> Range<usize> {
    let (a, b) = (random.random_range(0..=len), random.random_range(0..=len));
    a.min(b)..a.max(b)
}

/// Discs, rings, rectangles, half planes, scattered pixels, and what they leave out.
fn mask(random: &mut Pcg64) -> Vec<bool> {
    let kind = random.random_range(0..5);
    let flipped = random.random_range(0..2) == 1;
    let centre = (random.random_range(10.0..34.0), random.random_range(10.0..27.0));
    let (inner, outer) = (random.random_range(0.0..12.0), random.random_range(5.0..30.0));
    let (rows, cols) = (axis(random, DETECTOR.rows), axis(random, DETECTOR.cols));
    let rarity = random.random_range(1..1000);
    (0..DETECTOR.pixels())
        .map(|pixel| {
            let (row, col) = (pixel / DETECTOR.cols, pixel % DETECTOR.cols);
            let radius = (row as f64 - centre.0).hypot(col as f64 - centre.1);
            flipped
                ^ match kind {
                    0 => radius < outer,
                    1 => (inner..outer).contains(&radius),
                    2 => rows.contains(&row) && cols.contains(&col),
                    3 => row as f64 + 0.5 * (col as f64) < outer,
                    _ => random.random_range(0..rarity) == 0,
                }
        })
        .collect()
}
