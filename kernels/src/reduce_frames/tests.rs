use super::*;
use crate::bslz4_encode::encode_bslz4;
use crate::device::Cpu;
use crate::encode_counts::EncodedInterval;
use crate::types::{DetectorShape, IntoCountBuffer};

/// Counts of which one in `one_in` is not 0 and at most `largest`.
fn counts<T: IntoCountBuffer>(len: usize, one_in: u64, largest: u64, seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..len)
        .map(|_| {
            let count = if next() % one_in == 0 { 1 + next() % largest } else { 0 };
            T::try_from(count as u32).ok().unwrap_or_default()
        })
        .collect()
}

/// The frames as a detector writes them.
fn compressed<T: IntoCountBuffer>(frames: &[Vec<T>]) -> Vec<Vec<u8>> {
    let compress = |frame: &Vec<T>| {
        let mut bytes = Vec::new();
        encode_bslz4(frame, &mut bytes);
        bytes
    };
    frames.iter().map(compress).collect()
}

/// What the encoder makes of a batch that is put at position 3.
fn encoded<B: Batch>(device: &B::Device, mut batch: B) -> EncodedInterval {
    let shape = batch.shape();
    let mut interval = device.open_interval(shape.detector, batch.count_type()).unwrap();
    assert_eq!(batch.add_to(device, &mut interval, 0..shape.frames, 3).unwrap(), 0);
    device.encode_counts(&mut interval, shape.frames + 5).unwrap()
}

fn reduced_frames_encode_to_the_same_bytes<D: ReduceFrames, T: IntoCountBuffer>(device: &D) {
    let shapes = [(192, 192), (96, 96), (8, 8), (64, 5), (16, 100), (33, 47), (1, 64), (7, 3), (128, 2)];
    for (rows, cols) in shapes {
        let detector = DetectorShape { rows, cols };
        // a frame with few small counts, one with a count of 16 or more, one that is dense, one that is empty
        let kinds = [(25, 3), (25, 3), (9, 40), (25, 15), (1, 2), (1 << 40, 1), (2, 100)];
        let frames: Vec<Vec<T>> = (0..)
            .zip(kinds)
            .map(|(seed, (one_in, largest))| counts(detector.pixels(), one_in, largest, seed))
            .collect();
        let compressed = compressed(&frames);
        let raw: Vec<&[u8]> = frames.iter().map(|frame| bytemuck::cast_slice(frame)).collect();
        let shape = BatchShape { frames: frames.len(), detector };
        let dense = FrameBatch { first: 0, shape, counts: T::wrap(device.upload(&frames.concat()).unwrap()) };
        let expected = encoded(device, dense);
        // every order: what a thread remembers of the frame before must not show
        for turn in 0..3 {
            let mut spent = None;
            for (encoding, bytes) in [
                (Encoding::Bslz4, compressed.iter().map(Vec::as_slice).collect()),
                (Encoding::Raw, raw.clone()),
            ] {
                let bytes: Vec<&[u8]> = bytes;
                let (batch, failed) =
                    ReducedBatch::<D>::decode(device, encoding, 0, &bytes, shape, T::TYPE, spent.take())
                        .unwrap();
                assert_eq!(failed, []);
                assert!(encoded(device, batch) == expected, "{detector}, {encoding}, turn {turn}");
                let (batch, _) = ReducedBatch::<D>::decode(
                    device,
                    encoding,
                    0,
                    &bytes[..2],
                    BatchShape { frames: 2, detector },
                    T::TYPE,
                    None,
                )
                .unwrap();
                spent = Some(batch);
            }
        }
    }
}

#[test]
fn reduced_frames_encode_to_the_same_bytes_as_all_counts() {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    one.install(|| {
        reduced_frames_encode_to_the_same_bytes::<_, u8>(&Cpu);
        reduced_frames_encode_to_the_same_bytes::<_, u16>(&Cpu);
        reduced_frames_encode_to_the_same_bytes::<_, u32>(&Cpu);
    });
    reduced_frames_encode_to_the_same_bytes::<_, u16>(&Cpu);
}

fn frames_of_planes_alone_encode_to_the_same_bytes<D: ReduceFrames, T: IntoCountBuffer>(device: &D) {
    // beside small counts: nothing, a hot pixel in every frame, a few large counts here and there
    for (large, num_frames, detector) in [
        (0, 200, DetectorShape { rows: 96, cols: 96 }),
        (1, 130, DetectorShape { rows: 96, cols: 96 }),
        (2, 64, DetectorShape { rows: 72, cols: 72 }),
        (2, 1000, DetectorShape { rows: 16, cols: 20 }),
    ] {
        let pixels = detector.pixels();
        let frames: Vec<Vec<T>> = (0..num_frames)
            .map(|frame| {
                // brighter to the right: empty groups, sparse ones, dense ones
                let mut counts: Vec<T> = counts(pixels, 4, 5, frame);
                for (pixel, count) in counts.iter_mut().enumerate() {
                    if (pixel % detector.cols) as u64 * 7 < frame * pixel as u64 % 90 {
                        *count = T::default();
                    }
                }
                let mut put =
                    |pixel: usize, count| counts[pixel] = T::try_from(count).ok().unwrap_or_default();
                match large {
                    1 => put(pixels / 2, 16 + (frame as u32 * 12) % 240),
                    2 => (0..2)
                        .for_each(|turn| put((frame as usize * 37 + turn * 300) % pixels, T::TYPE.marker())),
                    _ => {}
                }
                counts
            })
            .collect();
        let compressed = compressed(&frames);
        let bytes: Vec<&[u8]> = compressed.iter().map(Vec::as_slice).collect();
        let shape = BatchShape { frames: frames.len(), detector };
        let dense = FrameBatch { first: 0, shape, counts: T::wrap(device.upload(&frames.concat()).unwrap()) };
        let (batch, failed) =
            ReducedBatch::<D>::decode(device, Encoding::Bslz4, 0, &bytes, shape, T::TYPE, None).unwrap();
        assert_eq!(failed, []);
        assert!(encoded(device, batch) == encoded(device, dense), "{detector}, {large}");
    }
}

#[test]
fn frames_of_planes_alone_encode_to_the_same_bytes_as_all_counts() {
    frames_of_planes_alone_encode_to_the_same_bytes::<_, u8>(&Cpu);
    frames_of_planes_alone_encode_to_the_same_bytes::<_, u16>(&Cpu);
    frames_of_planes_alone_encode_to_the_same_bytes::<_, u32>(&Cpu);
}

fn damaged_frames_fail_as_they_do_when_decoded<D: ReduceFrames>(device: &D) {
    let detector = DetectorShape { rows: 96, cols: 96 };
    let frame: Vec<u16> = counts(detector.pixels(), 30, 3, 5);
    let mut sound = Vec::new();
    encode_bslz4(&frame, &mut sound);
    let mut damaged: Vec<Vec<u8>> = (0..sound.len()).step_by(7).map(|end| sound[..end].to_vec()).collect();
    damaged.extend((0..sound.len()).step_by(3).map(|at| {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    }));
    damaged.push([sound.as_slice(), &[0]].concat());
    damaged.push(sound.clone());
    let bytes: Vec<&[u8]> = damaged.iter().map(Vec::as_slice).collect();
    for chunk in bytes.chunks(500) {
        let shape = BatchShape { frames: chunk.len(), detector };
        let decode = (Encoding::Bslz4, 7);
        let (dense, expected) =
            FrameBatch::<D>::decode(device, decode.0, decode.1, chunk, shape, CountType::U16, None).unwrap();
        let (reduced, failed) =
            ReducedBatch::<D>::decode(device, decode.0, decode.1, chunk, shape, CountType::U16, None)
                .unwrap();
        assert_eq!(failed, expected);
        assert_eq!((reduced.first(), reduced.shape()), (7, shape));
        assert!(encoded(device, reduced) == encoded(device, dense), "counts of damaged frames differ");
    }
}

#[test]
fn damaged_frames_fail_reduced_as_they_do_decoded() {
    damaged_frames_fail_as_they_do_when_decoded(&Cpu);
}

#[test]
fn a_frame_whose_position_is_taken_stays_out() {
    let detector = DetectorShape { rows: 8, cols: 8 };
    let shape = BatchShape { frames: 2, detector };
    let batch = |value: u16| {
        let frames = [vec![value; 64], vec![value; 64]];
        let bytes: Vec<&[u8]> = frames.iter().map(|frame| bytemuck::cast_slice(frame)).collect();
        ReducedBatch::<Cpu>::decode(&Cpu, Encoding::Raw, 0, &bytes, shape, CountType::U16, None).unwrap().0
    };
    let mut interval = Cpu.open_interval(detector, CountType::U16).unwrap();
    assert_eq!(batch(1).add_to(&Cpu, &mut interval, 0..2, 0).unwrap(), 0);
    assert_eq!(batch(5).add_to(&Cpu, &mut interval, 0..2, 1).unwrap(), 1);
    let encoded = Cpu.encode_counts(&mut interval, 3).unwrap();
    assert_eq!(encoded.totals, [64, 64, 320]);
    assert!(batch(1).add_to(&Cpu, &mut interval, 0..3, 0).is_err());
    assert!(batch(1).add_to(&Cpu, &mut interval, 0..2, 1023).is_err());
    let mut other = Cpu.open_interval(detector, CountType::U8).unwrap();
    let error = batch(1).add_to(&Cpu, &mut other, 0..2, 0).unwrap_err().to_string();
    assert!(error.contains("u16") && error.contains("u8"), "{error}");
}

#[test]
fn bytes_that_cannot_be_a_frame_are_refused_before_memory_is_asked_for() {
    // 16 GiB of counts a frame, if they were believed
    let detector = DetectorShape { rows: 1 << 16, cols: 1 << 16 };
    let frame_bytes = (detector.pixels() * 4) as u64;
    let mut header = frame_bytes.to_be_bytes().to_vec();
    header.extend(8192_u32.to_be_bytes());
    let shape = BatchShape { frames: 3, detector: DetectorShape { rows: 1 << 12, cols: 1 << 12 } };
    let mut out = Vec::new();
    for bytes in [&[b'x'][..], &header, &[0; 12]] {
        out.push(crate::bslz4_decode::check_plausible::<u32>(Encoding::Bslz4, bytes, frame_bytes as usize));
    }
    let texts: Vec<String> = out.into_iter().map(|checked| checked.unwrap_err().to_string()).collect();
    assert!(texts[0].contains("header of 12") && texts[1].contains("67108864"), "{texts:?}");
    assert!(texts[2].contains("0 bytes decoded"), "{texts:?}");
    let bytes: [&[u8]; 3] = [b"x", &header, &[]];
    let (_, failed) = Cpu.reduce_frames(Encoding::Bslz4, &bytes, shape, CountType::U32, None).unwrap();
    assert_eq!(failed.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 2]);
}
