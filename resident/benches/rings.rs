//! Dragging a ring over a 256 x 256 scan: every image anew, and each from the one before.
//!
//! Poisson counts of an evenly lit disk, u16. Every answer of both ways is compared, and the first and last with sums taken
//! over the dense counts as they were made. A few intervals are simulated and repeated over the scan. Wall time by step.
//! `--check` is for the answers alone, on a small scan; `--threads N` sets the threads, all by default.

use std::time::Instant;

use encoder::{Block, INTERVAL};
use kernels::Cpu;
use kernels::encode_counts::{EncodeCounts, EncodedInterval};
use kernels::types::{BatchShape, CountBuffer, CountType, DetectorShape, FrameBatch, ScanShape};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use resident::{Budget, MaskImages, Missing, Resident, Snapshot};

/// Counts of the simulated intervals, `[frame][pixel]`.
type Simulated = Vec<Vec<u16>>;

#[derive(Clone, Copy)]
struct Ring {
    centre: [f64; 2],
    inner: f64,
    outer: f64,
}

impl Ring {
    fn mask(&self, detector: DetectorShape) -> Vec<bool> {
        let distance = |pixel: usize| {
            ((pixel / detector.cols) as f64 - self.centre[0])
                .hypot((pixel % detector.cols) as f64 - self.centre[1])
        };
        (0..detector.pixels()).map(|pixel| (self.inner..=self.outer).contains(&distance(pixel))).collect()
    }
}

/// Poisson counts: 97 % of the dose within `radius`.
fn simulate(detector: DetectorShape, radius: f64, dose: f64, intervals: usize) -> Simulated {
    let centre = [detector.rows as f64 * 0.497, detector.cols as f64 * 0.503];
    let lit = Ring { centre, inner: 0.0, outer: radius }.mask(detector);
    let num_lit = lit.iter().filter(|&&lit| lit).count() as f64;
    let means = [dose * 0.03 / (detector.pixels() as f64 - num_lit), dose * 0.97 / num_lit];
    let tables = means.map(|mean| {
        let (mut term, mut sum) = ((-mean).exp(), 0.0);
        let next = |count: u32| {
            sum += term;
            term *= mean / f64::from(count);
            sum
        };
        (1..60).map(next).collect::<Vec<f64>>()
    });
    let frame = |seed: u64| {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let count = |&lit: &bool| {
            let draw: f64 = random.random();
            tables[usize::from(lit)].iter().take_while(|&&bound| draw >= bound).count() as u16
        };
        lit.iter().map(count).collect::<Vec<u16>>()
    };
    let interval = |at: usize| {
        let frames = (0..INTERVAL).into_par_iter().map(|position| frame((at * INTERVAL + position) as u64));
        frames.flatten_iter().collect()
    };
    (0..intervals).map(interval).collect()
}

fn encode(detector: DetectorShape, counts: &[u16]) -> EncodedInterval {
    let shape = BatchShape { frames: INTERVAL, detector };
    let batch = FrameBatch { first: 0, shape, counts: CountBuffer::U16(counts.to_vec()) };
    let mut interval = Cpu.open_interval(detector, CountType::U16).expect("an interval");
    Cpu.add_frames(&mut interval, &batch, 0..INTERVAL, 0).expect("frames fit");
    Cpu.encode_counts(&mut interval, INTERVAL).expect("an encoded interval")
}

/// Sums over the dense counts.
fn direct(simulated: &Simulated, mask: &[bool], positions: usize) -> Vec<u64> {
    let sum = |frame: &[u16]| {
        frame.iter().zip(mask).filter(|(_, inside)| **inside).map(|(&count, _)| u64::from(count)).sum()
    };
    let of_interval = |counts: &Vec<u16>| counts.chunks_exact(mask.len()).map(sum).collect::<Vec<u64>>();
    let sums: Vec<u64> = simulated.iter().flat_map(of_interval).collect();
    sums.into_iter().cycle().take(positions).collect()
}

/// Milliseconds of every step of a drag, anew and from the one before.
fn drag(snapshot: &Snapshot, simulated: &Simulated, path: &[Ring]) -> [Vec<f64>; 2] {
    let images = MaskImages::default();
    let (detector, all) = (snapshot.detector(), snapshot.positions());
    let mut took = [Vec::new(), Vec::new()];
    for (step, ring) in path.iter().enumerate() {
        let mask = ring.mask(detector);
        let start = Instant::now();
        let anew = snapshot.mask_sum(&mask, all.clone(), Missing::Fail).expect("a whole scan");
        took[0].push(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        let image = images.mask_sum(snapshot, &mask, Missing::Fail).expect("a whole scan");
        took[1].push(start.elapsed().as_secs_f64() * 1e3);
        assert_eq!(image, anew);
        if step == 0 || step + 1 == path.len() {
            assert_eq!(image.value, direct(simulated, &mask, all.end as usize));
        }
    }
    // the first has none before it
    took.map(|mut took| {
        took.remove(0);
        took.sort_by(f64::total_cmp);
        took
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let checking = arguments.iter().any(|argument| argument == "--check");
    let threads = arguments.iter().skip_while(|argument| *argument != "--threads").nth(1);
    let threads = threads.and_then(|threads| threads.parse().ok()).unwrap_or(0);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("threads");
    let (scan, detector, dose, steps, intervals) = if checking {
        (ScanShape { rows: 64, cols: 48 }, DetectorShape { rows: 60, cols: 52 }, 300.0, 5, 2)
    } else {
        (ScanShape { rows: 256, cols: 256 }, DetectorShape { rows: 192, cols: 192 }, 5000.0, 40, 4)
    };
    let radius = detector.rows as f64 * 0.26;
    let simulated = simulate(detector, radius, dose, intervals);
    let encoded: Vec<EncodedInterval> = simulated.iter().map(|counts| encode(detector, counts)).collect();
    let resident =
        Resident::new(scan, detector, CountType::U16, Budget::UNLIMITED).expect("memory for totals");
    for (at, interval) in encoded.iter().cycle().take(scan.positions() / INTERVAL).enumerate() {
        resident.append(Block::new((at * INTERVAL) as u64, interval.clone())).expect("a block that fits");
    }
    let snapshot = resident.snapshot();
    println!(
        "Scan {scan}, detector {detector}, u16, {dose} electrons/frame, a ring dragged in {steps} steps, {}; answers checked.\n",
        kernels::Device::name(&Cpu),
    );
    println!("| drag | every image anew, ms p50 and p95 | each from the one before, ms p50 and p95 |");
    println!("|---|---|---|");
    let centre = [detector.rows as f64 * 0.497, detector.cols as f64 * 0.503];
    let bright = Ring { centre, inner: 0.0, outer: 0.9 * radius };
    let dark = Ring { centre, inner: 1.2 * radius, outer: 1.8 * radius };
    let path = |step: &dyn Fn(f64) -> Ring| (0..=steps).map(|at| step(f64::from(at))).collect::<Vec<Ring>>();
    let drags = [
        ("bright-field edge, 0.5 px a step", path(&|at| Ring { outer: bright.outer - 0.5 * at, ..bright })),
        (
            "bright-field edge, 2 px and back",
            path(&|at| Ring { outer: bright.outer - 2.0 * (at % 2.0), ..bright }),
        ),
        (
            "bright-field centre, 0.5 px a step",
            path(&|at| Ring { centre: [centre[0] + 0.8 * at / 2.0, centre[1] - 0.6 * at / 2.0], ..bright }),
        ),
        ("dark-field inner edge, 0.3 px a step", path(&|at| Ring { inner: dark.inner + 0.3 * at, ..dark })),
    ];
    for (name, path) in drags {
        let at = |took: &[f64], part: f64| took[((took.len() - 1) as f64 * part) as usize];
        let [anew, before] = drag(&snapshot, &simulated, &path).map(|took| [at(&took, 0.5), at(&took, 0.95)]);
        println!("| {name} | {:.1} and {:.1} | {:.1} and {:.1} |", anew[0], anew[1], before[0], before[1]);
    }
}
