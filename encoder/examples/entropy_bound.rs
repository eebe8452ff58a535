//! Prints what the counts of an acquisition could take at least and what our blocks take.
//!
//! `cargo run --release -p encoder --example entropy_bound -- COUNTS.npy`, an array of u8, u16 or u32 counts,
//! `[frame][det_row][det_col]`, little-endian, C order (numpy.save writes it).

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read};

use encoder::entropy::poisson_bound_bits;
use encoder::{BlockBytes, EncodeStage, Encoded};
use kernels::Cpu;
use kernels::types::{BatchShape, CountBuffer, CountType, DetectorShape, FrameBatch, IntoCountBuffer, Item};

/// Frames read at a time.
const BATCH: usize = 512;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: entropy_bound COUNTS.npy")?;
    let mut file = BufReader::new(File::open(&path)?);
    let (count_type, [frames, rows, cols]) = read_header(&mut file)?;
    let detector = DetectorShape { rows, cols };
    println!("{path}: {frames} frames of {detector}, {count_type}");
    match count_type {
        CountType::U8 => report::<u8>(file, frames, detector),
        CountType::U16 => report::<u16>(file, frames, detector),
        CountType::U32 => report::<u32>(file, frames, detector),
    }
}

/// Reads the header of an npy file of version 1.0: type and shape.
fn read_header(file: &mut impl Read) -> Result<(CountType, [usize; 3]), Box<dyn Error>> {
    let mut start = [0; 10];
    file.read_exact(&mut start)?;
    if start[..8] != *b"\x93NUMPY\x01\x00" {
        return Err("expected an npy file of version 1.0".into());
    }
    let mut header = vec![0; usize::from(u16::from_le_bytes([start[8], start[9]]))];
    file.read_exact(&mut header)?;
    let header = String::from_utf8(header)?;
    let count_type = match header.split("'descr': '").nth(1).and_then(|rest| rest.split('\'').next()) {
        Some("|u1") => CountType::U8,
        Some("<u2") => CountType::U16,
        Some("<u4") => CountType::U32,
        other => return Err(format!("got type {other:?}, expected |u1, <u2 or <u4").into()),
    };
    let shape = header.split('(').nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
    let shape: Vec<usize> = shape.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    let shape =
        <[usize; 3]>::try_from(shape).map_err(|got| format!("got shape {got:?}, expected three sizes"))?;
    if header.contains("'fortran_order': True") {
        return Err("expected C order".into());
    }
    Ok((count_type, shape))
}

fn report<T: IntoCountBuffer>(
    mut file: impl Read,
    frames: usize,
    detector: DetectorShape,
) -> Result<(), Box<dyn Error>> {
    let stage = EncodeStage::new(Cpu).with_positions(frames as u64);
    let (batches, batches_in) = crossbeam_channel::bounded(2);
    let (blocks, blocks_in) = crossbeam_channel::bounded(2);
    let encoding = std::thread::spawn(move || stage.run(batches_in, blocks));
    let adding = std::thread::spawn(move || {
        let (mut bytes, mut sums) = (BlockBytes::default(), vec![0_u64; detector.pixels()]);
        for item in blocks_in {
            if let Item::Data(Encoded::Whole(block)) = item {
                bytes += block.encoded_bytes();
                block.pixel_sums().for_each(|pixel, sum| sums[pixel] += sum);
            }
        }
        (bytes, sums)
    });
    let mut histogram = BTreeMap::new();
    for first in (0..frames).step_by(BATCH) {
        let shape = BatchShape { frames: BATCH.min(frames - first), detector };
        let mut counts = vec![T::default(); shape.counts()];
        file.read_exact(bytemuck::cast_slice_mut(&mut counts))?;
        for &count in &counts {
            *histogram.entry(count.into()).or_insert(0) += 1;
        }
        let counts: CountBuffer<Cpu> = T::wrap(counts);
        batches.send(Item::Data(FrameBatch { first: first as u64, shape, counts }))?;
    }
    drop(batches);
    encoding.join().map_err(|_| "the encode stage panicked")??;
    let (bytes, sums) = adding.join().map_err(|_| "the adding thread panicked")?;
    let bound = poisson_bound_bits(frames as u64, sums, histogram) / 8.0;
    let raw = frames as f64 * detector.pixels() as f64 * T::TYPE.bytes() as f64;
    println!("| part | bytes | bytes/frame | of the bound |\n|---|---|---|---|");
    let line = |part: &str, bytes: f64| {
        println!("| {part} | {bytes:.0} | {:.1} | {:.4} |", bytes / frames as f64, bytes / bound);
    };
    line("counts as delivered", raw);
    line("entropy bound (Poisson by pixel)", bound);
    line("**count streams with directory**", bytes.counts() as f64);
    line("- payload with models", bytes.streams as f64);
    line("- directory", bytes.directory as f64);
    line("tile sums", bytes.tiles as f64);
    line("position sums", bytes.position_sums as f64);
    line("pixel sums", bytes.pixel_sums as f64);
    line("coverage", bytes.coverage as f64);
    line("all", bytes.total() as f64);
    Ok(())
}
