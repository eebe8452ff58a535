//! Decoding on the CUDA device of this machine: kernels, calls with their upload, and what the link alone takes.
//!
//! Every pixel is compared with the counts that were encoded before anything is timed. Frames are those of a 192 x 192 detector
//! with a bright-field disk, few hundred different ones, again and again. `--check` runs a small batch for its answer and times
//! nothing; a machine without a device is told in a line.

#[path = "bslz4_decode/poisson.rs"]
mod poisson;

use std::time::{Duration, Instant};

use kernels::bslz4_decode::{DecodeFrames, Encoding};
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{BatchShape, CountBuffer, CountType, DetectorShape};
use kernels::{Cuda, Device};
use poisson::poisson;
use rand::SeedableRng;
use rand_pcg::Pcg64;

const SIDE: usize = 192;
const PIXELS: usize = SIDE * SIDE;
const RADIUS_PX: f64 = 53.25;
/// Rows and columns of pixels that are always at the largest count.
const DEAD: [(usize, usize); 6] = [(3, 4), (70, 80), (100, 30), (150, 150), (90, 120), (180, 20)];
/// Different frames of a set.
const DISTINCT: usize = 256;
const BATCHES: [usize; 4] = [64, 1024, 16_384, 65_536];
const ROUNDS: usize = 7;
/// Kernels queued for one time.
const LAUNCHES: usize = 20;

struct Set {
    name: &'static str,
    electrons: f64,
    counts: Vec<Vec<u16>>,
    encoded: Vec<Vec<u8>>,
}

impl Set {
    fn new(name: &'static str, electrons: f64, distinct: usize) -> Self {
        let mut random = Pcg64::seed_from_u64(0x5eed);
        let from_centre = |row: usize, col: usize| (row as f64 - 95.87).hypot(col as f64 - 95.27);
        let is_bright = |pixel: &usize| from_centre(pixel / SIDE, pixel % SIDE) <= RADIUS_PX;
        let bright: Vec<usize> = (0..PIXELS).filter(is_bright).collect();
        let mean = electrons / bright.len() as f64;
        let mut frame = || {
            let mut counts = vec![0u16; PIXELS];
            bright.iter().for_each(|&pixel| counts[pixel] = poisson(mean, &mut random) as u16);
            DEAD.iter().for_each(|(row, col)| counts[row * SIDE + col] = u16::MAX);
            counts
        };
        let counts: Vec<Vec<u16>> = (0..distinct).map(|_| frame()).collect();
        let encode = |counts: &Vec<u16>| {
            let mut bytes = Vec::new();
            encode_bslz4(counts, &mut bytes);
            bytes
        };
        let encoded = counts.iter().map(encode).collect();
        Self { name, electrons, counts, encoded }
    }

    /// A batch of `num` frames.
    fn frames(&self, num: usize) -> Vec<&[u8]> {
        self.encoded.iter().map(Vec::as_slice).cycle().take(num).collect()
    }
}

/// Panics where a pixel is not what was encoded, and overwrites all of them.
fn check(device: &Cuda, set: &Set, counts: &mut CountBuffer<Cuda>, num: usize, what: &str) {
    let CountBuffer::U16(decoded) = &*counts else { panic!("expected u16 counts") };
    let decoded = device.download(decoded).expect("the counts come down");
    let pairs = decoded.chunks_exact(PIXELS).zip(set.counts.iter().cycle());
    let wrong = pairs.filter(|(got, expected)| got != expected).count();
    assert!(decoded.len() == num * PIXELS && wrong == 0, "{what}: {wrong} of {num} frames are wrong");
    *counts = dirty(device, 0);
    *counts = dirty(device, num);
}

fn dirty(device: &Cuda, num: usize) -> CountBuffer<Cuda> {
    let mut counts = CountBuffer::U16(device.zeros::<u16>(num * PIXELS).expect("device memory"));
    // frames that are not zero anywhere
    let noise: Vec<u8> = vec![0x5a; PIXELS * 2];
    let frames = vec![noise.as_slice(); num];
    let failed = device.decode_frames_into(Encoding::Raw, &frames, shape(num), &mut counts);
    assert!(failed.expect("raw frames").is_empty());
    counts
}

fn shape(frames: usize) -> BatchShape {
    BatchShape { frames, detector: DetectorShape { rows: SIDE, cols: SIDE } }
}

/// Decodes in every way there is, and compares.
fn check_all(device: &Cuda, set: &Set, num: usize) {
    let frames = set.frames(num);
    let mut counts = dirty(device, num);
    let failed = device.decode_frames_into(Encoding::Bslz4, &frames, shape(num), &mut counts);
    assert!(failed.expect("a batch").is_empty());
    check(device, set, &mut counts, num, "decode_frames_into");
    let mut staged = device.stage_frames(&frames, shape(num), CountType::U16).expect("pinned memory");
    assert!(device.decode_staged(&mut staged, &mut counts).expect("a batch").is_empty());
    check(device, set, &mut counts, num, "decode_staged");
    device.time_staged(&staged, &mut counts, 2).expect("a batch");
    check(device, set, &mut counts, num, "the kernel alone");
}

fn measure(device: &Cuda, set: &Set, num: usize) {
    let frames = set.frames(num);
    let mut counts = CountBuffer::U16(device.zeros::<u16>(num * PIXELS).expect("device memory"));
    let mut staged = device.stage_frames(&frames, shape(num), CountType::U16).expect("pinned memory");
    let [mut kernel, mut upload, mut call, mut host] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS + 1 {
        let [up, kernels] = device.time_staged(&staged, &mut counts, LAUNCHES).expect("a batch");
        upload.push(up);
        kernel.push(kernels / LAUNCHES as u32);
        let start = Instant::now();
        device.decode_staged(&mut staged, &mut counts).expect("a batch");
        call.push(start.elapsed());
        let start = Instant::now();
        device.decode_frames_into(Encoding::Bslz4, &frames, shape(num), &mut counts).expect("a batch");
        host.push(start.elapsed());
    }
    let [kernel, upload, call, host] = [kernel, upload, call, host].map(|times| Times::new(&times[1..]));
    println!(
        "| {}, {} electrons | {num} | {} | {kernel} | {upload} | {call} | {:.2} | {host} | {:.0} |",
        set.name,
        set.electrons,
        staged.bytes() / num,
        call.median / upload.median,
        (num * PIXELS * 2) as f64 * 1e-6 / kernel.median,
    );
}

/// Milliseconds.
struct Times {
    median: f64,
    least: f64,
    most: f64,
}

impl Times {
    fn new(times: &[Duration]) -> Self {
        let mut millis: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        millis.sort_by(f64::total_cmp);
        Self { median: millis[millis.len() / 2], least: millis[0], most: millis[millis.len() - 1] }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} [{:.3}-{:.3}]", self.median, self.least, self.most)
    }
}

fn main() {
    let check_only = std::env::args().any(|argument| argument == "--check");
    let device = match Cuda::new(0) {
        Ok(device) => device,
        Err(why) => return println!("CUDA, decoding: not run: {why}"),
    };
    let distinct = if check_only { 16 } else { DISTINCT };
    let sets = [("A", 700.0), ("B", 180_000.0)].map(|(name, electrons)| Set::new(name, electrons, distinct));
    for set in &sets {
        check_all(&device, set, if check_only { 40 } else { 5000 });
    }
    if check_only {
        return println!("CUDA, decoding: every pixel is what was encoded");
    }
    println!(
        "{}, decoding {SIDE} x {SIDE} u16; milliseconds, median [least-most] of {ROUNDS}\n",
        device.name()
    );
    println!(
        "| set | frames | bytes a frame | kernel | upload alone | call from pinned memory | call / upload | call from other memory \
         | kernel GB/s of counts |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for set in &sets {
        for num in BATCHES {
            measure(&device, set, num);
        }
        check_all(&device, set, BATCHES[3]);
    }
    println!(
        "\nEvery pixel of {} frames a set is what was encoded, in every way it was decoded.",
        BATCHES[3]
    );
}
