//! Batches of frames on a device.

use super::*;
use crate::bslz4_encode::encode_bslz4;
use crate::device::DeviceError;
use crate::types::{DetectorShape, IntoCountBuffer};

fn batch(frames: usize) -> (Vec<u16>, Vec<Vec<u8>>, BatchShape) {
    let shape = BatchShape { frames, detector: DetectorShape { rows: 31, cols: 33 } };
    let counts = counts_of::<u16>(Kind::Disk, shape.counts(), 11);
    let encoded = counts
        .chunks(shape.detector.pixels())
        .map(|frame| {
            let mut bytes = Vec::new();
            encode_bslz4(frame, &mut bytes);
            bytes
        })
        .collect();
    (counts, encoded, shape)
}

fn slices(frames: &[Vec<u8>]) -> Vec<&[u8]> {
    frames.iter().map(Vec::as_slice).collect()
}

fn frames_keep_their_order<D: DecodeFrames>(device: &D) {
    let (counts, encoded, shape) = batch(100);
    let (decoded, failed) =
        device.decode_frames(Encoding::Bslz4, &slices(&encoded), shape, CountType::U16).unwrap();
    assert!(failed.is_empty());
    let CountBuffer::U16(decoded) = decoded else { panic!("got {decoded:?}, expected u16 counts") };
    assert_eq!(device.download(&decoded).unwrap(), counts);
}

fn a_frame_that_fails_is_zero_and_listed<D: DecodeFrames>(device: &D) {
    let (mut counts, mut encoded, shape) = batch(9);
    let pixels = shape.detector.pixels();
    encoded[2].truncate(30);
    encoded[7].clear();
    for index in [2, 7] {
        counts[index * pixels..][..pixels].fill(0);
    }
    let mut buffer = u16::wrap::<D>(device.upload(&oracle::dirty::<u16>(shape.counts())).unwrap());
    let failed = device.decode_frames_into(Encoding::Bslz4, &slices(&encoded), shape, &mut buffer).unwrap();
    assert_eq!(failed.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [2, 7]);
    assert_eq!(failed[1].1, DecodeError::ShortHeader { got_bytes: 0, expected_bytes: 12 });
    let CountBuffer::U16(decoded) = buffer else { panic!("got {buffer:?}, expected u16 counts") };
    assert_eq!(device.download(&decoded).unwrap(), counts);
}

fn every_type_decodes<D: DecodeFrames>(device: &D) {
    fn decode<D: DecodeFrames, T: IntoCountBuffer>(device: &D) -> (CountBuffer<D>, Vec<T>) {
        let shape = BatchShape { frames: 3, detector: DetectorShape { rows: 10, cols: 10 } };
        let counts = counts_of::<T>(Kind::Noise, shape.counts(), 5);
        let mut encoded = vec![Vec::new(); 3];
        for (frame, bytes) in counts.chunks(100).zip(&mut encoded) {
            encode_bslz4(frame, bytes);
        }
        let decoded = device.decode_frames(Encoding::Bslz4, &slices(&encoded), shape, T::TYPE).unwrap();
        assert!(decoded.1.is_empty());
        (decoded.0, counts)
    }
    let (CountBuffer::U8(decoded), counts) = decode::<D, u8>(device) else { panic!("expected u8 counts") };
    assert_eq!(device.download(&decoded).unwrap(), counts);
    let (CountBuffer::U32(decoded), counts) = decode::<D, u32>(device) else { panic!("expected u32 counts") };
    assert_eq!(device.download(&decoded).unwrap(), counts);
}

fn what_does_not_fit_together_is_refused<D: DecodeFrames>(device: &D) {
    let (_, encoded, shape) = batch(3);
    let frames = slices(&encoded);
    let error = device.decode_frames(Encoding::Bslz4, &frames[..2], shape, CountType::U16).unwrap_err();
    assert!(
        matches!(error, DeviceError::Failed { .. })
            && error.to_string().contains("got 2 frames to decode, expected 3")
    );
    let mut short = u16::wrap::<D>(device.zeros(shape.counts() - 1).unwrap());
    let error = device.decode_frames_into(Encoding::Bslz4, &frames, shape, &mut short).unwrap_err();
    assert!(error.to_string().contains("got a buffer of 3068 counts, expected 3069"), "{error}");
}

fn no_frames_and_no_pixels_are_fine<D: DecodeFrames>(device: &D) {
    let shape = BatchShape { frames: 0, detector: DetectorShape { rows: 4, cols: 4 } };
    let (counts, failed) = device.decode_frames(Encoding::Raw, &[], shape, CountType::U8).unwrap();
    assert!(counts.is_empty() && failed.is_empty());
    let shape = BatchShape { frames: 2, detector: DetectorShape { rows: 0, cols: 4 } };
    let (counts, failed) = device.decode_frames(Encoding::Raw, &[&[], &[1]], shape, CountType::U8).unwrap();
    assert!(counts.is_empty());
    assert_eq!(failed, [(1, DecodeError::WrongLength { got_bytes: 1, expected_bytes: 0 })]);
}

on_every_device!(
    frames_keep_their_order,
    a_frame_that_fails_is_zero_and_listed,
    every_type_decodes,
    what_does_not_fit_together_is_refused,
    no_frames_and_no_pixels_are_fine,
);
