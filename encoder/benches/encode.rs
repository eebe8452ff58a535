//! Encoding and decoding of simulated frames at several doses, on one thread: microseconds a frame, bytes a frame.
//!
//! Time on the processor, of one thread. Every row is checked: the counts come back exactly. `--check` is for that
//! alone, on few frames; numbers choose doses.

use std::collections::BTreeMap;
use std::time::Duration;

use encoder::entropy::poisson_bound_bits;
use encoder::{Block, BlockBytes, INTERVAL};
use kernels::Cpu;
use kernels::decode_counts::{DecodeCounts, ImageWindow};
use kernels::encode_counts::EncodeCounts;
use kernels::types::{BatchShape, CountBuffer, CountType, DetectorShape, FrameBatch};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const DETECTOR: DetectorShape = DetectorShape { rows: 192, cols: 192 };
const DISK_RADIUS_PX: f64 = 50.0;
const BATCH: usize = 256;

/// Mean of every pixel at a dose \[electrons a frame\]: 97 % in an evenly lit disk, the rest falling off outside.
fn means(dose: f64) -> Vec<f64> {
    let radius = |pixel: usize| {
        let (row, col) = ((pixel / DETECTOR.cols) as f64, (pixel % DETECTOR.cols) as f64);
        (row - 95.3).hypot(col - 96.1)
    };
    let in_disk = (0..DETECTOR.pixels()).filter(|&pixel| radius(pixel) <= DISK_RADIUS_PX).count() as f64;
    let tail = |pixel: usize| (-(radius(pixel) - DISK_RADIUS_PX) / 12.0).exp();
    let outside = (0..DETECTOR.pixels()).filter(|&pixel| radius(pixel) > DISK_RADIUS_PX);
    let tails: f64 = outside.map(tail).sum();
    (0..DETECTOR.pixels())
        .map(|pixel| match radius(pixel) <= DISK_RADIUS_PX {
            true => dose * 0.97 / in_disk,
            false => dose * 0.03 * tail(pixel) / tails,
        })
        .collect()
}

fn poisson(rng: &mut Pcg64Mcg, mean: f64) -> u16 {
    if mean > 30.0 {
        let gauss: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        return (mean + gauss * mean.sqrt()).round().max(0.0) as u16;
    }
    let (mut left, mut count, mut term) = (rng.random::<f64>(), 0, (-mean).exp());
    while left > term && count < 200 {
        left -= term;
        count += 1;
        term *= mean / f64::from(count);
    }
    count
}

/// Time that this thread has spent on a processor: on a machine shared with others, wall time says little.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for one timespec.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "the system tells no thread time");
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

struct Row {
    add_us: f64,
    encode_us: f64,
    decode_us: f64,
    frames_us: f64,
    bytes: BlockBytes,
    bound_bytes: f64,
}

fn measure(dose: f64, frames: usize, repeats: usize) -> Row {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let means = means(dose);
    let counts: Vec<u16> = (0..frames)
        .flat_map(|_| means.iter().map(|&mean| poisson(&mut rng, mean)).collect::<Vec<_>>())
        .collect();
    let batches: Vec<FrameBatch<Cpu>> = counts
        .chunks(BATCH * DETECTOR.pixels())
        .enumerate()
        .map(|(index, counts)| FrameBatch {
            first: (index * BATCH) as u64,
            shape: BatchShape { frames: counts.len() / DETECTOR.pixels(), detector: DETECTOR },
            counts: CountBuffer::U16(counts.to_vec()),
        })
        .collect();
    let bright: Vec<u32> = (0..DETECTOR.pixels() as u32)
        .filter(|&pixel| means[pixel as usize] > dose * 0.5 / (std::f64::consts::PI * DISK_RADIUS_PX.powi(2)))
        .collect();
    let mut interval = Cpu.open_interval(DETECTOR, CountType::U16).expect("an interval");
    let per_frame = |start: Duration| (cpu_time() - start).as_secs_f64() * 1e6 / frames as f64;
    let mut best = [f64::INFINITY; 4];
    let mut block = None;
    let mut images = vec![0_u32; bright.len() * frames];
    let mut dense = vec![0_u16; counts.len()];
    for _ in 0..repeats {
        let start = cpu_time();
        for batch in &batches {
            Cpu.add_frames(&mut interval, batch, 0..batch.shape.frames, batch.first as usize)
                .expect("frames fit");
        }
        best[0] = best[0].min(per_frame(start));
        let start = cpu_time();
        let made = Block::new(0, Cpu.encode_counts(&mut interval, frames).expect("an encoded interval"));
        best[1] = best[1].min(per_frame(start));
        let window = ImageWindow { stride: frames, column: 0 };
        let start = cpu_time();
        Cpu.decode_pixels(made.counts(), &bright, 0..frames, &mut images, window).expect("our own streams");
        best[2] = best[2].min(per_frame(start));
        let start = cpu_time();
        Cpu.decode_positions(made.counts(), 0..frames, &mut dense).expect("our own streams");
        best[3] = best[3].min(per_frame(start));
        block = Some(made);
    }
    let block = block.expect("at least one repeat");
    assert!(dense == counts, "counts came back changed");
    for (image, &pixel) in images.chunks(frames).zip(&bright) {
        let same = |(frame, &count): (usize, &u32)| {
            count == counts[frame * DETECTOR.pixels() + pixel as usize].into()
        };
        assert!(image.iter().enumerate().all(same), "pixel {pixel} came back changed");
    }
    let mut histogram = BTreeMap::new();
    for &count in &counts {
        *histogram.entry(count.into()).or_insert(0) += 1;
    }
    let bound_bytes = poisson_bound_bits(frames as u64, block.pixel_sums().to_vec(), histogram) / 8.0;
    let [add_us, encode_us, decode_us, frames_us] = best;
    Row { add_us, encode_us, decode_us, frames_us, bytes: block.encoded_bytes(), bound_bytes }
}

fn main() {
    let check = std::env::args().any(|argument| argument == "--check");
    let (frames, repeats) = if check { (64, 1) } else { (INTERVAL, 5) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one thread");
    println!(
        "One thread, {frames} frames of {DETECTOR}, u16, processor time, best of {repeats}; counts checked.\n"
    );
    println!(
        "| electrons/frame | add us/frame | encode us/frame | both | decode bright field us/frame | decode frames \
         us/frame | counts B/frame | of bound | index and sums B/frame |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let asked: Vec<f64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let doses = [300.0, 1_500.0, 5_000.0, 20_000.0, 100_000.0, 400_000.0];
    for dose in doses.into_iter().filter(|dose| asked.is_empty() || asked.contains(dose)) {
        let row = pool.install(|| measure(dose, frames, repeats));
        println!(
            "| {dose} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.4} | {:.1} |",
            row.add_us,
            row.encode_us,
            row.add_us + row.encode_us,
            row.decode_us,
            row.frames_us,
            row.bytes.counts() as f64 / frames as f64,
            row.bytes.counts() as f64 / row.bound_bytes,
            (row.bytes.total() - row.bytes.counts()) as f64 / frames as f64,
        );
    }
}
