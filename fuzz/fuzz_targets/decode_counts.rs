//! Encoded counts with any bytes in any part: no panic, no memory by their say-so, and both ways to decode agree.
//!
//! Byte 0 chooses: parts made of the bytes alone, or counts made of the bytes, encoded, with the changes that the rest says.

#![no_main]

use kernels::Cpu;
use kernels::count_code::{Coverage, Directory, EncodedCounts, INTERVAL};
use kernels::decode_counts::{DecodeCounts, ImageWindow};
use kernels::encode_counts::EncodeCounts;
use kernels::types::{BatchShape, Count, CountType, DetectorShape, FrameBatch, IntoCountBuffer};
use libfuzzer_sys::fuzz_target;

/// Bytes taken from the front; zeros behind the end.
struct Taker<'a>(&'a [u8]);

impl<'a> Taker<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }

    fn number(&mut self, bytes: usize) -> usize {
        self.take(bytes).iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
    }
}

/// Asks for everything, in both ways; the answers are the same or both are errors.
fn decode<T: Count>(counts: &EncodedCounts) -> Option<Vec<T>> {
    let (pixels, positions) = (counts.detector().pixels(), counts.positions());
    let dirty = T::try_from(0x5a).unwrap_or_default();
    let mut frames = vec![dirty; pixels * positions];
    let by_frame = Cpu.decode_positions(counts, 0..positions, &mut frames);
    // Every other pixel apart from the rest, so that groups are picked from as well.
    let order: Vec<u32> = (0..pixels as u32).step_by(2).chain((1..pixels as u32).step_by(2)).collect();
    let mut images = vec![dirty; pixels * positions];
    let window = ImageWindow { stride: positions, column: 0 };
    let by_pixel = Cpu.decode_pixels(counts, &order, 0..positions, &mut images, window);
    if positions > 0 {
        assert_eq!(by_frame.is_ok(), by_pixel.is_ok(), "{by_frame:?} {by_pixel:?}");
    }
    let middle = positions / 3..positions - positions / 4;
    let _ = Cpu.decode_positions(counts, middle.clone(), &mut frames.clone());
    let _ = Cpu.decode_pixels(counts, &order, middle, &mut images.clone(), window);
    by_frame.ok()?;
    for (image, &pixel) in order.iter().enumerate() {
        for position in 0..positions {
            let (a, b) = (frames[position * pixels + pixel as usize], images[image * positions + position]);
            assert!(a == b, "pixel {pixel} at {position}");
        }
    }
    Some(frames)
}

fn decode_as_any(counts: &EncodedCounts) {
    decode::<u8>(counts);
    decode::<u16>(counts);
    decode::<u32>(counts);
}

/// Parts from the bytes alone.
fn hostile(taker: &mut Taker<'_>, count_type: CountType) {
    let detector = DetectorShape { rows: taker.number(1) % 24, cols: taker.number(1) % 24 };
    let mut coverage = Coverage::none(taker.number(2) % (INTERVAL + 2));
    let (step, offset) = (taker.number(1) + 1, taker.number(2));
    (0..coverage.positions()).filter(|position| (position + offset) % step == 0).for_each(|position| {
        coverage.insert(position);
    });
    let (kind, num_groups, num_spans) = (taker.number(1), taker.number(1) % 40, taker.number(1) % 4);
    let bases = (0..num_spans).map(|_| taker.number(8) as u64).collect();
    let directory = match kind % 3 {
        0 => Directory::from_short(bases, (0..num_groups).map(|_| taker.number(2) as u16).collect()),
        1 => Directory::from_long(bases, (0..num_groups).map(|_| taker.number(4) as u32).collect()),
        _ => {
            let groups = kernels::count_code::num_groups(detector.pixels());
            let share = taker.0.len() / groups.max(1);
            Directory::from_lengths(&vec![share; groups])
        }
    };
    if let Ok(counts) = EncodedCounts::from_parts(detector, count_type, coverage, directory, taker.0.to_vec())
    {
        decode_as_any(&counts);
    }
}

/// Counts from the bytes, encoded: they come back. Then the stream is changed.
fn changed<T: IntoCountBuffer>(taker: &mut Taker<'_>) {
    let detector = DetectorShape { rows: 1 + taker.number(1) % 3, cols: 1 + taker.number(1) % 24 };
    let (positions, step) = (1 + taker.number(1), 1 + taker.number(1) % 4);
    let (pattern, changes) = (taker.number(1), taker.number(1) % 16);
    let changes: Vec<[usize; 3]> =
        (0..changes).map(|_| [taker.number(2), taker.number(1), taker.number(1)]).collect();
    let source = taker.0;
    let count = |index: usize| {
        let byte = source.get(index % source.len().max(1)).copied().map_or(0, u32::from);
        let count = match pattern % 4 {
            0 => byte & 3,
            1 => u32::from(byte == 1),
            2 => byte,
            _ => byte.wrapping_mul(0x0101_0101) >> (pattern / 4 % 24),
        };
        T::try_from(count & T::TYPE.marker()).unwrap_or_default()
    };
    let pixels = detector.pixels();
    let mut interval = Cpu.open_interval(detector, T::TYPE).expect("memory");
    let mut expected = vec![T::default(); positions * pixels];
    for position in (0..positions).step_by(step) {
        let frame: Vec<T> = (0..pixels).map(|pixel| count(position * pixels + pixel)).collect();
        expected[position * pixels..(position + 1) * pixels].copy_from_slice(&frame);
        let batch = FrameBatch {
            first: position as u64,
            shape: BatchShape { frames: 1, detector },
            counts: T::wrap(frame),
        };
        Cpu.add_frames(&mut interval, &batch, 0..1, position).expect("a frame that fits");
    }
    let counts = Cpu.encode_counts(&mut interval, positions).expect("memory").counts;
    assert!(decode::<T>(&counts).is_some_and(|frames| frames == expected), "the counts come back");
    let mut payload = counts.payload().to_vec();
    for [at, kind, value] in changes.into_iter().filter(|_| !payload.is_empty()).collect::<Vec<_>>() {
        let at = at % payload.len();
        match kind % 3 {
            0 => payload[at] ^= 1 << (value & 7),
            1 => payload[at] = value as u8,
            _ => payload.swap(at, value % counts.payload().len()),
        }
    }
    let (coverage, directory) = (counts.coverage().clone(), counts.directory().clone());
    if let Ok(counts) = EncodedCounts::from_parts(detector, T::TYPE, coverage, directory, payload) {
        decode_as_any(&counts);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let mut taker = Taker(bytes);
    match choice % 6 {
        0 => hostile(&mut taker, CountType::U8),
        1 => hostile(&mut taker, CountType::U16),
        2 => hostile(&mut taker, CountType::U32),
        3 => changed::<u8>(&mut taker),
        4 => changed::<u16>(&mut taker),
        _ => changed::<u32>(&mut taker),
    }
});
