use super::*;
use crate::count_code::packed::{num_words, unpack};
use crate::count_code::{Coverage, Directory, EncodedCounts, INTERVAL};
use crate::device::Cpu;
use crate::encode_counts::{EncodeCounts, EncodedInterval};
use crate::sum_counts::{FrameSums, SumCounts, large_tile_shape, tile_shape};
use crate::types::{BatchShape, CountBuffer, FrameBatch, IntoCountBuffer};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// What the counts of one pixel look like.
#[derive(Clone, Copy, Debug)]
enum Pixel {
    Poisson(f64),
    Constant(u32),
    /// 0, and with this probability the marker.
    Marked(f64),
    /// Anything.
    Noise,
    /// A few values far apart.
    Two(u32, u32),
}

fn poisson(rng: &mut Pcg64, mean: f64) -> u32 {
    if mean > 40.0 {
        let gauss: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        return (mean + gauss * mean.sqrt()).max(0.0) as u32;
    }
    let (limit, mut product, mut count) = ((-mean).exp(), rng.random::<f64>(), 0);
    while product > limit {
        product *= rng.random::<f64>();
        count += 1;
    }
    count
}

fn draw<T: Count>(rng: &mut Pcg64, pixel: Pixel) -> T {
    let marker = T::TYPE.marker();
    let count = match pixel {
        Pixel::Poisson(mean) => poisson(rng, mean).min(marker),
        Pixel::Constant(count) => count.min(marker),
        Pixel::Marked(share) if rng.random::<f64>() < share => marker,
        Pixel::Marked(_) => 0,
        Pixel::Noise => rng.random::<u32>() & marker,
        Pixel::Two(a, b) => {
            if rng.random() {
                a.min(marker)
            } else {
                b.min(marker)
            }
        }
    };
    T::try_from(count).ok().unwrap()
}

/// Frames `[frame][pixel]` whose pixels follow `kinds` in turn.
fn frames<T: Count>(rng: &mut Pcg64, frames: usize, pixels: usize, kinds: &[Pixel]) -> Vec<T> {
    (0..frames * pixels).map(|index| draw(rng, kinds[index % pixels % kinds.len()])).collect()
}

fn encode<D: EncodeCounts, T: IntoCountBuffer>(
    device: &D,
    detector: DetectorShape,
    host: &[T],
    present: &[usize],
    positions: usize,
) -> EncodedInterval {
    let mut interval = device.open_interval(detector, T::TYPE).unwrap();
    for (frame, &position) in present.iter().enumerate() {
        let counts = &host[frame * detector.pixels()..(frame + 1) * detector.pixels()];
        let counts: CountBuffer<D> = T::wrap(device.upload(counts).unwrap());
        let batch = FrameBatch { first: position as u64, shape: BatchShape { frames: 1, detector }, counts };
        assert_eq!(device.add_frames(&mut interval, &batch, 0..1, position).unwrap(), 0);
    }
    device.encode_counts(&mut interval, positions).unwrap()
}

/// Counts come back, in every way they can be asked for, and the sums are those of plain loops.
fn round_trip<D: EncodeCounts + DecodeCounts + SumCounts, T: IntoCountBuffer>(
    device: &D,
    detector: DetectorShape,
    host: &[T],
    present: &[usize],
    positions: usize,
) -> EncodedInterval {
    let pixels = detector.pixels();
    let encoded = encode(device, detector, host, present, positions);
    let mut dense = vec![T::default(); positions * pixels];
    for (frame, &position) in present.iter().enumerate() {
        dense[position * pixels..(position + 1) * pixels]
            .copy_from_slice(&host[frame * pixels..(frame + 1) * pixels]);
    }
    let mut frames = device.upload(&vec![T::try_from(1).ok().unwrap(); positions * pixels]).unwrap();
    device.decode_positions(&encoded.counts, 0..positions, &mut frames).unwrap();
    assert!(device.download(&frames).unwrap() == dense);

    let all: Vec<u32> = (0..pixels as u32).collect();
    let odd: Vec<u32> = (0..pixels as u32)
        .rev()
        .filter(|pixel| pixel % 3 == 1)
        .chain([0, 0].into_iter().take(pixels))
        .collect();
    for (asked, range) in
        [(&all, 0..positions), (&odd, 0..positions), (&odd, positions / 3..positions - positions / 4)]
    {
        let window = ImageWindow { stride: range.len() + 3, column: 2 };
        let mut out = device.upload(&vec![7_u32; asked.len() * window.stride]).unwrap();
        device.decode_pixels(&encoded.counts, asked, range.clone(), &mut out, window).unwrap();
        let out = device.download(&out).unwrap();
        for (image, &pixel) in out.chunks(window.stride).zip(asked.iter()) {
            assert_eq!([image[0], image[1], image[window.stride - 1]], [7; 3], "outside the window");
            for (&got, position) in image[2..].iter().zip(range.clone()) {
                assert_eq!(
                    got,
                    dense[position * pixels + pixel as usize].into(),
                    "pixel {pixel} at {position}"
                );
            }
        }
    }

    let batch: CountBuffer<D> = T::wrap(device.upload(&dense).unwrap());
    let sums = device.sum_counts(&batch, BatchShape { frames: positions, detector }).unwrap();
    assert_eq!(encoded.totals, sums.total);
    assert_eq!(encoded.row_moments, sums.row_moment);
    assert_eq!(encoded.col_moments, sums.col_moment);
    check_tiles(&encoded, &sums, detector, positions);
    for pixel in 0..pixels {
        let counts = dense.iter().skip(pixel).step_by(pixels);
        assert_eq!(encoded.pixel_sums[pixel], counts.clone().map(|&count| -> u64 { count.into() }).sum());
        let hits = counts.filter(|&&count| Into::<u32>::into(count) == T::TYPE.marker()).count();
        assert_eq!(encoded.marker_hits[pixel] as usize, hits);
    }
    encoded
}

/// Small tiles are those of `sums`, large tiles the sums of their small ones.
fn check_tiles(encoded: &EncodedInterval, sums: &FrameSums, detector: DetectorShape, positions: usize) {
    let (rows, cols) = tile_shape(detector);
    let (large_rows, large_cols) = large_tile_shape(detector);
    let mut expected = vec![vec![0_u64; positions]; rows * cols + large_rows * large_cols];
    for (position, tiles) in sums.tiles.chunks((rows * cols).max(1)).enumerate() {
        for (tile, &sum) in tiles.iter().enumerate() {
            expected[tile][position] = sum;
            let large = tile / cols / 4 * large_cols + tile % cols / 4;
            expected[rows * cols + large][position] += sum;
        }
    }
    assert_eq!(encoded.tiles.widths.len(), expected.len());
    let mut words = encoded.tiles.words.as_slice();
    for (expected, &width) in expected.iter().zip(&encoded.tiles.widths) {
        let (stream, rest) = words.split_at(num_words(positions, width.into()));
        let mut got = Vec::new();
        unpack(stream, width.into(), 0, positions, |sum| got.push(sum));
        assert_eq!(&got, expected);
        words = rest;
    }
    assert!(words.is_empty());
}

const KINDS: [Pixel; 14] = [
    Pixel::Poisson(0.18),
    Pixel::Poisson(0.001),
    Pixel::Constant(0),
    Pixel::Poisson(0.6),
    Pixel::Constant(u32::MAX),
    Pixel::Poisson(1.5),
    Pixel::Marked(0.01),
    Pixel::Poisson(12.0),
    Pixel::Poisson(45.0),
    Pixel::Noise,
    Pixel::Poisson(900.0),
    Pixel::Two(0, 60_000),
    Pixel::Two(3, 90_000_000),
    Pixel::Marked(0.9),
];

fn every_kind_of_pixel_comes_back<T: IntoCountBuffer>() {
    let mut rng = Pcg64::seed_from_u64(1);
    let detector = DetectorShape { rows: 7, cols: 41 };
    for positions in [1, 2, 63, 300, INTERVAL - 1, INTERVAL] {
        let present: Vec<usize> = (0..positions).collect();
        for kinds in [&KINDS[..], &KINDS[..1], &KINDS[..2], &KINDS[9..10], &KINDS[4..5]] {
            let host: Vec<T> = frames(&mut rng, positions, detector.pixels(), kinds);
            round_trip(&Cpu, detector, &host, &present, positions);
        }
    }
}

#[test]
fn every_kind_of_pixel_comes_back_from_u8() {
    every_kind_of_pixel_comes_back::<u8>();
}

#[test]
fn every_kind_of_pixel_comes_back_from_u16() {
    every_kind_of_pixel_comes_back::<u16>();
}

#[test]
fn every_kind_of_pixel_comes_back_from_u32() {
    every_kind_of_pixel_comes_back::<u32>();
}

#[test]
fn every_single_kind_comes_back_at_every_detector_size() {
    let mut rng = Pcg64::seed_from_u64(2);
    let sizes = [(0, 4), (1, 1), (3, 5), (1, 16), (1, 17), (5, 51), (16, 16), (1, 257)];
    for (rows, cols) in sizes {
        for kind in KINDS {
            let detector = DetectorShape { rows, cols };
            let host: Vec<u16> = frames(&mut rng, 50, detector.pixels(), &[kind]);
            let present: Vec<usize> = (0..50).collect();
            round_trip(&Cpu, detector, &host, &present, 50);
        }
    }
}

#[test]
fn missing_positions_read_zero_and_cost_nothing() {
    let mut rng = Pcg64::seed_from_u64(3);
    let detector = DetectorShape { rows: 4, cols: 33 };
    let positions = 700;
    for share in [0.0, 0.01, 0.5, 0.99] {
        let present: Vec<usize> = (0..positions).filter(|_| rng.random::<f64>() < share).collect();
        let host: Vec<u16> = frames(&mut rng, present.len(), detector.pixels(), &KINDS);
        let encoded = round_trip(&Cpu, detector, &host, &present, positions);
        assert_eq!(encoded.counts.coverage().present().collect::<Vec<_>>(), present);
        let without: Vec<usize> = (0..present.len()).collect();
        let packed = encode(&Cpu, detector, &host, &without, present.len().max(1));
        assert_eq!(encoded.counts.payload(), packed.counts.payload());
    }
}

#[test]
fn order_and_batches_leave_no_trace() {
    let mut rng = Pcg64::seed_from_u64(4);
    let detector = DetectorShape { rows: 20, cols: 20 };
    let host: Vec<u16> = frames(&mut rng, 200, detector.pixels(), &KINDS);
    let present: Vec<usize> = (0..200).collect();
    let one_by_one = encode(&Cpu, detector, &host, &present, 200);
    let counts = CountBuffer::U16(host);
    let batch = FrameBatch { first: 0, shape: BatchShape { frames: 200, detector }, counts };
    let mut interval = Cpu.open_interval(detector, CountType::U16).unwrap();
    // an interval used before, filled backwards and with repeats
    Cpu.add_frames(&mut interval, &batch, 50..200, 3).unwrap();
    Cpu.encode_counts(&mut interval, 1024).unwrap();
    assert_eq!(Cpu.add_frames(&mut interval, &batch, 150..200, 150).unwrap(), 0);
    assert_eq!(Cpu.add_frames(&mut interval, &batch, 0..160, 0).unwrap(), 10);
    let at_once = Cpu.encode_counts(&mut interval, 200).unwrap();
    assert!(one_by_one == at_once);
}

#[test]
fn what_does_not_fit_is_refused() {
    let detector = DetectorShape { rows: 2, cols: 2 };
    let encoded = encode(&Cpu, detector, &[1_u16, 2, 3, 4], &[0], 1).counts;
    let window = ImageWindow { stride: 1, column: 0 };
    let mut out = vec![0_u16; 4];
    assert!(matches!(
        Cpu.decode_pixels(&encoded, &[4], 0..1, &mut out, window),
        Err(DecodeCountsError::Pixel { pixel: 4, .. })
    ));
    assert!(matches!(
        Cpu.decode_pixels(&encoded, &[0], 0..2, &mut out, window),
        Err(DecodeCountsError::Positions { end: 2, positions: 1, .. })
    ));
    assert!(matches!(
        Cpu.decode_pixels(&encoded, &[0, 1, 2, 3, 3], 0..1, &mut out, window),
        Err(DecodeCountsError::Buffer { got: 4, expected: 5 })
    ));
    let beyond = ImageWindow { stride: 1, column: 1 };
    assert!(Cpu.decode_pixels(&encoded, &[0], 0..1, &mut out, beyond).is_err());
    assert!(matches!(
        Cpu.decode_positions(&encoded, 0..1, &mut vec![0_u8; 4]),
        Err(DecodeCountsError::Narrow { .. })
    ));
    assert!(Cpu.decode_positions(&encoded, 0..1, &mut vec![0_u16; 3]).is_err());
}

/// Damaged bytes give an error or other counts, never a panic; and cut bytes always give an error or fewer events.
#[test]
fn damaged_streams_never_panic() {
    let mut rng = Pcg64::seed_from_u64(5);
    let detector = DetectorShape { rows: 1, cols: 16 };
    let present: Vec<usize> = (0..200).collect();
    let decode = |count_type, bytes: Vec<u8>| {
        let directory = Directory::from_lengths(&[bytes.len()]);
        let counts =
            EncodedCounts::from_parts(detector, count_type, Coverage::full(200), directory, bytes).unwrap();
        Cpu.decode_positions(&counts, 0..200, &mut vec![0_u32; 200 * 16])
    };
    let (mut refused, mut tried) = (0, 0);
    for kinds in [&KINDS[..], &KINDS[..1], &KINDS[1..2], &KINDS[5..6], &KINDS[8..9], &KINDS[9..10]] {
        let host: Vec<u16> = frames(&mut rng, 200, 16, kinds);
        let bytes = encode(&Cpu, detector, &host, &present, 200).counts.payload().to_vec();
        for len in 1..bytes.len() {
            assert!(
                decode(CountType::U16, bytes[..len].to_vec()).is_err(),
                "cut at {len} of {}",
                bytes.len()
            );
        }
        for _ in 0..4000 {
            let mut damaged = bytes.clone();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..damaged.len());
                damaged[at] ^= 1 << rng.random_range(0..8);
            }
            let count_type = [CountType::U8, CountType::U16, CountType::U32][rng.random_range(0..3)];
            refused += usize::from(decode(count_type, damaged).is_err());
            tried += 1;
        }
        for _ in 0..2000 {
            let garbage: Vec<u8> = (0..rng.random_range(1..200)).map(|_| rng.random()).collect();
            let _ = decode(CountType::U32, garbage);
        }
    }
    assert!(refused * 10 > tried * 8, "{refused} of {tried} damaged streams were noticed");
}
