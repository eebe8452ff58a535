//! How fast one core decodes encoded counts, by how many there are: whole intervals of all pixels.
//!
//! The counts must first come back as they were encoded. `--check` does that and times nothing.

#[path = "bslz4_decode/poisson.rs"]
mod poisson;

use std::time::Instant;

use kernels::count_code::INTERVAL;
use kernels::decode_counts::{DecodeCounts, ImageWindow};
use kernels::device::Cpu;
use kernels::encode_counts::EncodeCounts;
use kernels::types::{BatchShape, CountBuffer, CountType, DetectorShape, FrameBatch, IntoCountBuffer};
use poisson::poisson;
use rand::SeedableRng;
use rand_pcg::Pcg64;

const DETECTOR: DetectorShape = DetectorShape { rows: 16, cols: 192 };
/// Counts a pixel and frame, on average.
const MEANS: [f64; 7] = [0.003, 0.02, 0.1, 0.2, 0.6, 3.0, 20.0];
const ROUNDS: usize = 15;

fn main() {
    let check_only = std::env::args().any(|argument| argument == "--check");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one thread can be started");
    println!("| counts a pixel | ns a pixel and frame | ns a count that is not 0 |\n|---|---|---|");
    for mean in MEANS {
        pool.install(|| run(mean, check_only));
    }
}

fn run(mean: f64, check_only: bool) {
    let mut rng = Pcg64::seed_from_u64(5);
    let frames: Vec<u16> =
        (0..INTERVAL * DETECTOR.pixels()).map(|_| poisson(mean, &mut rng) as u16).collect();
    let mut interval = Cpu.open_interval(DETECTOR, CountType::U16).expect("an interval can be opened");
    let counts: CountBuffer<Cpu> = u16::wrap(frames.clone());
    let batch = FrameBatch { first: 0, shape: BatchShape { frames: INTERVAL, detector: DETECTOR }, counts };
    Cpu.add_frames(&mut interval, &batch, 0..INTERVAL, 0).expect("the frames fit the interval");
    let encoded = Cpu.encode_counts(&mut interval, INTERVAL).expect("the counts can be encoded");

    let pixels: Vec<u32> = (0..DETECTOR.pixels() as u32).collect();
    let mut images = vec![0_u16; frames.len()];
    let window = ImageWindow { stride: INTERVAL, column: 0 };
    let mut decode = || {
        let start = Instant::now();
        Cpu.decode_pixels(&encoded.counts, &pixels, 0..INTERVAL, &mut images, window)
            .expect("the code is whole");
        start.elapsed().as_secs_f64()
    };
    let mut best = decode();
    for _ in 0..if check_only { 0 } else { ROUNDS } {
        best = best.min(decode());
    }
    for (pixel, image) in images.chunks(INTERVAL).enumerate() {
        assert!(image.iter().eq(frames.iter().skip(pixel).step_by(DETECTOR.pixels())), "pixel {pixel}");
    }
    if !check_only {
        let there = frames.iter().filter(|&&count| count > 0).count();
        println!("| {mean} | {:.2} | {:.2} |", best * 1e9 / frames.len() as f64, best * 1e9 / there as f64);
    }
}
