//! Appending to and asking a simulated acquisition: milliseconds a question, frames/s.
//!
//! Poisson counts of an evenly lit disk, u16, through the encode stage's own operations. Every answer is compared with
//! sums taken over the dense counts as they were made; then it is timed. Wall time, best of several. `--check` is for
//! the answers alone, on a small scan; `--threads N` sets the threads, all by default.

use std::hint::black_box;
use std::time::Instant;

use encoder::{Block, INTERVAL};
use kernels::Cpu;
use kernels::encode_counts::EncodeCounts;
use kernels::types::{BatchShape, CountBuffer, CountType, DetectorShape, FrameBatch, ScanShape};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use resident::{Budget, Missing, Resident, Roi, Snapshot};

struct Setting {
    scan: ScanShape,
    detector: DetectorShape,
    dose: f64,
    repeats: usize,
}

/// Answers computed from the dense counts.
struct Direct {
    total: Vec<u64>,
    bright: Vec<u64>,
    ring: Vec<u64>,
    tilted: Vec<i64>,
    frame_sums: Vec<u64>,
    roi: Vec<u64>,
    first_frame: Vec<u16>,
    first_images: Vec<u16>,
}

impl Setting {
    fn radius(&self, pixel: usize) -> f64 {
        let centre = (self.detector.rows as f64 * 0.497, self.detector.cols as f64 * 0.503);
        ((pixel / self.detector.cols) as f64 - centre.0).hypot((pixel % self.detector.cols) as f64 - centre.1)
    }

    /// Radius of the bright field \[px\].
    fn disk(&self) -> f64 {
        self.detector.rows as f64 * 0.26
    }

    fn mask(&self, inner: f64, outer: f64) -> Vec<bool> {
        (0..self.detector.pixels())
            .map(|pixel| (inner * self.disk()..outer * self.disk()).contains(&self.radius(pixel)))
            .collect()
    }

    /// Weights that grow along detector columns inside the bright field.
    fn tilt(&self) -> Vec<i64> {
        let inside = self.mask(0.0, 1.0);
        let weight = |(pixel, &inside): (usize, &bool)| {
            if inside { (pixel % self.detector.cols) as i64 - 96 } else { 0 }
        };
        inside.iter().enumerate().map(weight).collect()
    }

    /// The scan region summed: a rectangle that no block lies in.
    fn roi(&self) -> Roi<'static> {
        let (rows, cols) = (self.scan.rows, self.scan.cols);
        Roi::Rect { scan_rows: rows / 4..rows / 2, scan_cols: cols / 4..cols / 2 }
    }

    fn in_roi(&self, position: u64) -> bool {
        let (row, col) = (position as usize / self.scan.cols, position as usize % self.scan.cols);
        (self.scan.rows / 4..self.scan.rows / 2).contains(&row)
            && (self.scan.cols / 4..self.scan.cols / 2).contains(&col)
    }

    fn bright_pixels(&self) -> Vec<u32> {
        (0u32..).zip(self.mask(0.0, 1.0)).filter(|(_, inside)| *inside).map(|(pixel, _)| pixel).collect()
    }

    /// The frames of an interval: 97 % of the dose in the disk, the rest spread evenly.
    fn frames(&self, first: u64, frames: usize) -> Vec<u16> {
        let pixels = self.detector.pixels();
        let inside = self.mask(0.0, 1.0);
        let lit = inside.iter().filter(|&&inside| inside).count() as f64;
        let terms = [self.dose * 0.97 / lit, self.dose * 0.03 / (pixels as f64 - lit)];
        let tables = terms.map(cumulative);
        let mut counts = vec![0; frames * pixels];
        counts.par_chunks_exact_mut(pixels).enumerate().for_each(|(frame, counts)| {
            let mut random = Pcg64Mcg::seed_from_u64(first + frame as u64);
            for (count, &inside) in counts.iter_mut().zip(&inside) {
                let table = &tables[usize::from(!inside)];
                let draw: f64 = random.random();
                *count = table.iter().take_while(|&&bound| draw >= bound).count() as u16;
            }
        });
        counts
    }
}

/// Cumulative Poisson probabilities.
fn cumulative(mean: f64) -> Vec<f64> {
    let (mut term, mut sum, mut table) = ((-mean).exp(), 0.0, Vec::new());
    for count in 1..200 {
        sum += term;
        table.push(sum);
        term *= mean / f64::from(count);
    }
    table
}

/// The blocks of the acquisition, and what its questions must answer.
fn make(setting: &Setting) -> (Vec<Block>, Direct) {
    let (positions, pixels) = (setting.scan.positions(), setting.detector.pixels());
    let (bright, ring, tilt) = (setting.mask(0.0, 1.0), setting.mask(1.2, 1.8), setting.tilt());
    let bright_pixels = setting.bright_pixels();
    let (total, roi) = (vec![0; pixels], vec![0; pixels]);
    let (first_frame, first_images) = (Vec::new(), Vec::new());
    let (sums, tilted) = (vec![0; positions], vec![0; positions]);
    let mut direct = Direct {
        total,
        roi,
        first_frame,
        first_images,
        tilted,
        bright: sums.clone(),
        ring: sums.clone(),
        frame_sums: sums,
    };
    let mut interval = Cpu.open_interval(setting.detector, CountType::U16).expect("an interval");
    let mut blocks = Vec::new();
    for first in (0..positions).step_by(INTERVAL) {
        let frames = INTERVAL.min(positions - first);
        let counts = setting.frames(first as u64, frames);
        for (at, frame) in counts.chunks_exact(pixels).enumerate() {
            let position = first + at;
            let inside = setting.in_roi(position as u64);
            for (pixel, &count) in frame.iter().enumerate().filter(|(_, count)| **count > 0) {
                let count = u64::from(count);
                direct.total[pixel] += count;
                direct.frame_sums[position] += count;
                direct.bright[position] += count * u64::from(bright[pixel]);
                direct.ring[position] += count * u64::from(ring[pixel]);
                direct.tilted[position] += count as i64 * tilt[pixel];
                direct.roi[pixel] += count * u64::from(inside);
            }
        }
        if first == 0 {
            direct.first_frame = counts[..pixels].to_vec();
            let image = |&pixel: &u32| counts.iter().skip(pixel as usize).step_by(pixels).copied();
            direct.first_images = bright_pixels.iter().flat_map(image).collect();
        }
        let shape = BatchShape { frames, detector: setting.detector };
        let batch = FrameBatch { first: first as u64, shape, counts: CountBuffer::U16(counts) };
        Cpu.add_frames(&mut interval, &batch, 0..frames, 0).expect("frames fit");
        blocks.push(Block::new(
            first as u64,
            Cpu.encode_counts(&mut interval, frames).expect("an encoded interval"),
        ));
    }
    (blocks, direct)
}

fn check(setting: &Setting, snapshot: &Snapshot, direct: &Direct) {
    let (all, fail) = (snapshot.positions(), Missing::Fail);
    let bright = setting.mask(0.0, 1.0);
    let mean: Vec<f64> = direct.total.iter().map(|&sum| sum as f64 / all.end as f64).collect();
    assert_eq!(snapshot.mean_pattern(fail).expect("a whole scan").value, mean);
    assert_eq!(snapshot.frame_sums(all.clone(), fail).expect("a whole scan").value, direct.frame_sums);
    assert_eq!(snapshot.mask_sum(&bright, all.clone(), fail).expect("a whole scan").value, direct.bright);
    let ring = snapshot.mask_sum(&setting.mask(1.2, 1.8), all.clone(), fail).expect("a whole scan");
    assert_eq!(ring.value, direct.ring);
    let dark: Vec<bool> = bright.iter().map(|inside| !inside).collect();
    let dark = snapshot.mask_sum(&dark, all.clone(), fail).expect("a whole scan").value;
    assert!(
        dark.iter()
            .zip(&direct.bright)
            .map(|(dark, bright)| dark + bright)
            .eq(direct.frame_sums.iter().copied())
    );
    assert_eq!(snapshot.weighted_sum(&setting.tilt(), all, fail).expect("a whole scan").value, direct.tilted);
    assert_eq!(snapshot.roi_sum(&setting.roi(), fail).expect("a whole scan").value, direct.roi);
    assert_eq!(snapshot.frame::<u16>(0, fail).expect("a whole scan").value, direct.first_frame);
    let first = 0..(INTERVAL as u64).min(snapshot.positions().end);
    let images = snapshot.pixel_images::<u16>(&setting.bright_pixels(), first, fail).expect("a whole scan");
    assert_eq!(images.value, direct.first_images);
}

/// Best wall time \[s\] of several.
fn best<T>(repeats: usize, mut run: impl FnMut() -> T) -> f64 {
    let times = (0..repeats).map(|_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}

fn row(question: &str, secs: f64, frames: u64) {
    println!("| {question} | {:.3} | {:.3e} |", secs * 1e3, frames as f64 / secs);
}

fn time(setting: &Setting, blocks: &[Block], snapshot: &Snapshot) {
    let (all, fail, repeats) = (snapshot.positions(), Missing::Fail, setting.repeats);
    let frames = all.end;
    let append = best(repeats, || {
        let resident = empty(setting);
        let copies = blocks.to_vec();
        let start = Instant::now();
        for block in copies {
            resident.append(block).expect("a block that fits");
        }
        start.elapsed()
    });
    let copy = best(repeats, || (empty(setting), blocks.to_vec()));
    row("append every block (with the copy of its bytes)", append, frames);
    row("... of which the copy", copy, frames);
    row("mean pattern", best(repeats, || snapshot.mean_pattern(fail)), frames);
    row("frame sums", best(repeats, || snapshot.frame_sums(all.clone(), fail)), frames);
    row("centre of mass", best(repeats, || snapshot.com(None, all.clone(), fail)), frames);
    let hot: Vec<bool> = (0..setting.detector.pixels()).map(|pixel| pixel % 1801 == 5).collect();
    let com = best(repeats, || snapshot.com(Some(&hot), all.clone(), fail));
    row("centre of mass without 21 pixels", com, frames);
    let bright = setting.mask(0.0, 1.0);
    let ring = setting.mask(1.2, 1.8);
    let dark: Vec<bool> = bright.iter().map(|inside| !inside).collect();
    row("bright-field mask", best(repeats, || snapshot.mask_sum(&bright, all.clone(), fail)), frames);
    row(
        "dark-field mask (its complement)",
        best(repeats, || snapshot.mask_sum(&dark, all.clone(), fail)),
        frames,
    );
    row("ring mask", best(repeats, || snapshot.mask_sum(&ring, all.clone(), fail)), frames);
    let tilt = setting.tilt();
    row(
        "weights that differ everywhere in the bright field",
        best(repeats, || snapshot.weighted_sum(&tilt, all.clone(), fail)),
        frames,
    );
    let scan_row = snapshot.row(1);
    let cols = scan_row.end - scan_row.start;
    row(
        "bright-field mask, one scan row",
        best(repeats, || snapshot.mask_sum(&bright, scan_row.clone(), fail)),
        cols,
    );
    let roi = setting.roi();
    let chosen = (setting.scan.rows / 4 * (setting.scan.cols / 4)) as u64;
    row("scan region, a sixteenth", best(repeats, || snapshot.roi_sum(&roi, fail)), chosen);
    row(
        "scan region, everything",
        best(repeats, || snapshot.roi_sum(&Roi::Positions(all.clone()), fail)),
        frames,
    );
    row("one frame", best(repeats, || snapshot.frame::<u16>(frames / 2, fail)), 1);
    let pixels = setting.bright_pixels();
    let mut out: Vec<u32> = Vec::new();
    let first = 0..(INTERVAL as u64).min(frames);
    let images = best(repeats, || snapshot.pixel_images_into(&pixels, first.clone(), fail, &mut out));
    row("bright-field pixel images, one interval", images, first.end);
    let images = best(repeats, || snapshot.pixel_images_into(&pixels, scan_row.clone(), fail, &mut out));
    row("bright-field pixel images, one scan row", images, cols);
    let images = best(repeats, || snapshot.pixel_images_into(&pixels, all.clone(), fail, &mut out));
    row("bright-field pixel images, everything", images, frames);
    let one = [pixels[pixels.len() / 2]];
    let image = best(repeats, || snapshot.pixel_images_into(&one, all.clone(), fail, &mut out));
    row("one pixel's image", image, frames);
}

fn empty(setting: &Setting) -> Resident {
    Resident::new(setting.scan, setting.detector, CountType::U16, Budget::UNLIMITED)
        .expect("memory for totals")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let checking = arguments.iter().any(|argument| argument == "--check");
    let threads = arguments.iter().skip_while(|argument| *argument != "--threads").nth(1);
    let threads = threads.and_then(|threads| threads.parse().ok()).unwrap_or(0);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("threads");
    let setting = if checking {
        let detector = DetectorShape { rows: 90, cols: 76 };
        Setting { scan: ScanShape { rows: 36, cols: 40 }, detector, dose: 800.0, repeats: 1 }
    } else {
        let detector = DetectorShape { rows: 192, cols: 192 };
        Setting { scan: ScanShape { rows: 128, cols: 128 }, detector, dose: 5000.0, repeats: 5 }
    };
    let (blocks, direct) = make(&setting);
    let resident = empty(&setting);
    for block in blocks.clone() {
        resident.append(block).expect("a block that fits");
    }
    let snapshot = resident.snapshot();
    check(&setting, &snapshot, &direct);
    println!(
        "Scan {}, detector {}, u16, {} electrons/frame, {} bright-field pixels, {:.1} MB held, {}; answers checked, best of {}.\n",
        setting.scan,
        setting.detector,
        setting.dose,
        setting.bright_pixels().len(),
        snapshot.totals().held_bytes as f64 * 1e-6,
        kernels::Device::name(&Cpu),
        setting.repeats,
    );
    println!("| question | ms | frames/s |");
    println!("|---|---|---|");
    time(&setting, &blocks, &snapshot);
}
