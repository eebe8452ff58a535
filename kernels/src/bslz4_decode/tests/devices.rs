//! Batches on every device against the processor, frame by frame: every type, shape and block size, and damage.

use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64;

use super::damage::mutate;
use super::*;
use crate::cuda::{Argument, Launch, Queue, Slab};
use crate::device::Cpu;
use crate::types::{DetectorShape, IntoCountBuffer};
use crate::{Cuda, Device, with_counts};

fn shape(frames: usize, pixels: usize) -> BatchShape {
    BatchShape { frames, detector: DetectorShape { rows: 1, cols: pixels } }
}

fn widened<T: Count>(counts: Vec<T>) -> Vec<u32> {
    counts.into_iter().map(Into::into).collect()
}

/// The counts and what failed, on a device, over a dirty buffer.
fn decoded<D: DecodeFrames, T: IntoCountBuffer>(
    device: &D,
    encoding: Encoding,
    frames: &[Vec<u8>],
    pixels: usize,
) -> (Vec<u32>, FailedFrames) {
    let shape = shape(frames.len(), pixels);
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let mut counts = T::wrap::<D>(device.upload(&oracle::dirty::<T>(shape.counts())).unwrap());
    let failed = device.decode_frames_into(encoding, &frames, shape, &mut counts).unwrap();
    (with_counts!(&counts, counts => widened(device.download(counts).unwrap())), failed)
}

/// Gives the number of frames that failed.
fn as_the_processor<D: DecodeFrames, T: IntoCountBuffer>(
    device: &D,
    encoding: Encoding,
    frames: &[Vec<u8>],
    pixels: usize,
) -> usize {
    let expected = decoded::<Cpu, T>(&Cpu, encoding, frames, pixels);
    let got = decoded::<D, T>(device, encoding, frames, pixels);
    assert_eq!(got.1, expected.1);
    for frame in 0..frames.len() {
        let part = frame * pixels..(frame + 1) * pixels;
        assert!(got.0[part.clone()] == expected.0[part], "frame {frame} of {pixels} {}", T::TYPE);
    }
    got.1.len()
}

fn of_kinds<T: IntoCountBuffer>(pixels: usize, block_bytes: usize) -> Vec<Vec<u8>> {
    let encode = |kind| {
        let mut bytes = Vec::new();
        encode_bslz4_in_blocks(&counts_of::<T>(kind, pixels, 9), block_bytes, &mut bytes);
        bytes
    };
    Kind::ALL.into_iter().map(encode).collect()
}

fn sizes_and_blocks<D: DecodeFrames, T: IntoCountBuffer>(device: &D) {
    let count = size_of::<T>();
    for (pixels, block_bytes) in [
        (1, 64),
        (7, 64),
        (8, 64),
        (9, 64),
        (515, 64),
        (1000, 24 * 8 * count),
        (128 * 8, 8192),
        (8192 / count, 8192),
        (8192 / count + 8, 8192),
        (3 * 8192 / count - 128, 8192),
        (8192 / count * 2 + 131, 8192), // the second frame is not aligned
        (9000, 16_384),
        (9001, 32_768),
        (9003, 65_536),                     // larger than the kernel takes
        (300, u32::MAX as usize / 64 * 64), // larger than the frame
    ] {
        let frames = of_kinds::<T>(pixels, block_bytes);
        assert_eq!(as_the_processor::<D, T>(device, Encoding::Bslz4, &frames, pixels), 0);
    }
}

fn every_shape_and_block_size_of_u8<D: DecodeFrames>(device: &D) {
    sizes_and_blocks::<D, u8>(device);
}

fn every_shape_and_block_size_of_u16<D: DecodeFrames>(device: &D) {
    sizes_and_blocks::<D, u16>(device);
}

fn every_shape_and_block_size_of_u32<D: DecodeFrames>(device: &D) {
    sizes_and_blocks::<D, u32>(device);
}

/// Planes of any content, compressed: literals and matches of all lengths, distances and overlaps.
fn frame_of_planes(planes: &[u8], block_bytes: usize) -> Vec<u8> {
    let mut frame = (planes.len() as u64).to_be_bytes().to_vec();
    frame.extend((block_bytes as u32).to_be_bytes());
    for block in planes.chunks(block_bytes) {
        let block = lz4_flex::block::compress(block);
        frame.extend((block.len() as u32).to_be_bytes());
        frame.extend(block);
    }
    frame
}

fn literals_and_matches_of_every_kind<D: DecodeFrames>(device: &D) {
    let mut random = Pcg64::seed_from_u64(31);
    let mut frames = Vec::new();
    for period in (1..70).chain([127, 128, 129, 500, 1000, 4097]) {
        let mut planes = vec![0u8; 8192];
        random.fill_bytes(&mut planes[..period]);
        for at in period..planes.len() {
            planes[at] = planes[at - period];
        }
        // what breaks a period: single bytes, zeros, noise
        for _ in 0..random.random_range(0..200) {
            let at = random.random_range(0..planes.len());
            match random.random_range(0..4) {
                0 => planes[at] = random.random(),
                1 => planes[at..(at + 40).min(8192)].fill(0),
                2 => random.fill_bytes(&mut planes[at..(at + 20).min(8192)]),
                _ => {
                    let from = random.random_range(0..at + 1);
                    let len = random.random_range(0..400).min(8192 - at);
                    planes.copy_within(from..from + len, at);
                }
            }
        }
        frames.push(frame_of_planes(&planes, 8192));
    }
    assert_eq!(as_the_processor::<D, u16>(device, Encoding::Bslz4, &frames, 4096), 0);
}

fn every_encoding<D: DecodeFrames>(device: &D) {
    let counts = counts_of::<u16>(Kind::Disk, 700, 2);
    let raw: Vec<u8> = bytemuck::cast_slice(&counts).to_vec();
    let mut framed = Vec::new();
    encode_lz4_framed(&counts, 512, &mut framed);
    let bare = lz4_flex::block::compress(&raw);
    for (encoding, frame) in [(Encoding::Raw, raw), (Encoding::Lz4Framed, framed), (Encoding::Lz4Block, bare)]
    {
        let frames = [frame.clone(), frame[..frame.len() - 3].to_vec(), frame];
        assert_eq!(as_the_processor::<D, u16>(device, encoding, &frames, 700), 1);
    }
}

fn frames_of_other_blocks_among_the_usual_ones<D: DecodeFrames>(device: &D) {
    let mut frames = of_kinds::<u16>(2000, 1024);
    frames.extend(of_kinds::<u16>(2000, 512));
    frames.extend(of_kinds::<u16>(2000, 1024));
    frames[3][11] = 1; // a block size that is none
    assert_eq!(as_the_processor::<D, u16>(device, Encoding::Bslz4, &frames, 2000), 1);
}

fn damaged<D: DecodeFrames, T: IntoCountBuffer>(device: &D, pixels: usize, block_bytes: usize, seed: u64) {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut frames = Vec::new();
    for case in 0..150 {
        let mut bytes = of_kinds::<T>(pixels, block_bytes).swap_remove(case % Kind::ALL.len());
        if case % 7 != 0 {
            for _ in 0..random.random_range(1..4) {
                mutate(&mut bytes, &mut random);
            }
        }
        frames.push(bytes);
    }
    // the payload alone: what the header says is well
    for case in 0..150 {
        let mut bytes = of_kinds::<T>(pixels, block_bytes).swap_remove(case % Kind::ALL.len());
        if case % 3 == 0 {
            let at = random.random_range(16..bytes.len());
            bytes.truncate(at);
        } else {
            let at = random.random_range(16 * 8..bytes.len() * 8);
            bytes[at / 8] ^= 1 << (at % 8);
        }
        frames.push(bytes);
    }
    let failed = as_the_processor::<D, T>(device, Encoding::Bslz4, &frames, pixels);
    assert!((100..280).contains(&failed), "{failed} of 300 frames failed: this tested little");
}

fn damaged_frames_fail_alone_and_as_on_the_processor<D: DecodeFrames>(device: &D) {
    damaged::<D, u8>(device, 611, 256, 1);
    damaged::<D, u16>(device, 1203, 1024, 2);
    damaged::<D, u32>(device, 520, 512, 3);
}

/// A processor chosen at run time gives what its device gives.
#[test]
fn a_processor_decodes_as_its_device() {
    let frames = of_kinds::<u16>(1203, 1024);
    for device in [crate::Processor::Cpu, crate::Processor::Cuda(Cuda::emulated(1))] {
        assert_eq!(as_the_processor::<_, u16>(&device, Encoding::Bslz4, &frames, 1203), 0);
        assert_eq!(as_the_processor::<_, u16>(&device, Encoding::Raw, &frames, 1203), frames.len());
    }
}

on_every_device!(
    every_shape_and_block_size_of_u8,
    every_shape_and_block_size_of_u16,
    every_shape_and_block_size_of_u32,
    literals_and_matches_of_every_kind,
    every_encoding,
    frames_of_other_blocks_among_the_usual_ones,
    damaged_frames_fail_alone_and_as_on_the_processor,
);

/// Numbers in float64 as counts, two a number, one frame.
fn frame_of_numbers(number: f64, len: usize) -> Vec<u8> {
    let counts: Vec<u32> = vec![number; len]
        .iter()
        .flat_map(|number| {
            let bits = number.to_bits();
            [bits as u32, (bits >> 32) as u32]
        })
        .collect();
    let mut bytes = Vec::new();
    encode_bslz4_in_blocks(&counts, 8192, &mut bytes);
    bytes
}

/// The schedule of a fault that another program had: batches are decoded, joined and dropped, and the next ones are decoded
/// into their memory while the join is still queued, which then reads what is of another batch. Gives the wrong sums.
fn wrong_sums(device: &Cuda, decode: fn(&Cuda, &[u8], usize) -> crate::cuda::CudaBuffer<u32>) -> usize {
    const LEN: usize = 96;
    let mut joined = Vec::new();
    for round in 0..3 {
        let number = |batch: usize| (8 * round + batch) as f64;
        let batches: Vec<_> =
            (0..8).map(|batch| decode(device, &frame_of_numbers(number(batch), LEN), 2 * LEN)).collect();
        let sums = device.zeros::<f64>(LEN).unwrap();
        for batch in &batches {
            let launch = Launch {
                kernel: &crate::correct_spectra::SUM_PARTS,
                grid: [1, 1],
                threads: 128,
                shared_bytes: 0,
                arguments: &[batch.argument(), sums.argument(), Argument::U32(1), Argument::U64(LEN as u64)],
            };
            // SAFETY: sum_parts.cu reads one part of LEN values and adds to LEN of them.
            unsafe { device.launch(&launch) }.unwrap();
        }
        joined.push(sums);
        // the batches are dropped here, before anything of the join has run
    }
    let expected = |round: usize| (0..8).map(|batch| (8 * round + batch) as f64).sum::<f64>();
    let wrong = |(round, sums): (usize, &_)| {
        let sums = device.download(sums).unwrap();
        sums.iter().filter(|&&sum| sum != expected(round)).count()
    };
    joined.iter().enumerate().map(wrong).sum()
}

#[test]
fn frames_are_not_decoded_over_what_a_queue_still_reads() {
    for seed in 0..12 {
        let wrong = wrong_sums(&Cuda::emulated(seed), |device, frame, len| {
            let decoded = device.decode_frames(Encoding::Bslz4, &[frame], shape(1, len), CountType::U32);
            match decoded.unwrap() {
                (CountBuffer::U32(counts), failed) if failed.is_empty() => counts,
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(wrong, 0, "seed {seed}");
    }
}

#[test]
fn without_the_fence_frames_are_decoded_over_what_a_queue_still_reads() {
    let unfenced = |device: &Cuda, frame: &[u8], len: usize| {
        let frames = [frame];
        let layout = cuda::Layout::new::<u32>(&frames, len);
        let mut slab: Slab = device.pinned(layout.bytes).unwrap();
        let mut counts = device.uninitialised::<u32>(len).unwrap();
        let copy = |memory: &mut [u8], chunk: &cuda::Chunk| layout.copy(&frames, chunk, memory);
        let refused = device.run(&layout, &mut slab, &mut counts, 0, |_| Ok(()), copy).unwrap();
        assert!(refused.is_empty());
        device.fence(Queue::Main, Queue::Decode).unwrap();
        // giving pinned memory back waits for all queues, which would be a fence
        std::mem::forget(slab);
        counts
    };
    let wrong = (0..12).filter(|&seed| wrong_sums(&Cuda::emulated(seed), unfenced) > 0).count();
    assert_eq!(wrong, 12, "the schedule is no test if it goes well without the fence");
}
