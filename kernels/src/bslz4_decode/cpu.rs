//! Frames in parallel on the processor: one frame a task, each into its own part of the buffer.

use rayon::prelude::*;

use super::{DecodeFrames, Encoding, FailedFrames, decode_frame};
use crate::device::{Cpu, Device, DeviceError};
use crate::types::{BatchShape, Count, CountBuffer, CountType};
use crate::with_counts;

impl DecodeFrames for Cpu {
    fn decode_frames(
        &self,
        encoding: Encoding,
        frames: &[&[u8]],
        shape: BatchShape,
        count_type: CountType,
    ) -> Result<(CountBuffer<Self>, FailedFrames), DeviceError> {
        check_frames(self, frames, shape)?;
        let mut counts = match count_type {
            CountType::U8 => CountBuffer::U8(self.zeros(shape.counts())?),
            CountType::U16 => CountBuffer::U16(self.zeros(shape.counts())?),
            CountType::U32 => CountBuffer::U32(self.zeros(shape.counts())?),
        };
        let failed = self.decode_frames_into(encoding, frames, shape, &mut counts)?;
        Ok((counts, failed))
    }

    fn decode_frames_into(
        &self,
        encoding: Encoding,
        frames: &[&[u8]],
        shape: BatchShape,
        counts: &mut CountBuffer<Self>,
    ) -> Result<FailedFrames, DeviceError> {
        check_frames(self, frames, shape)?;
        check_counts(self, counts, shape)?;
        Ok(with_counts!(counts, counts => decode_into(encoding, frames, shape, counts)))
    }
}

pub(crate) fn check_frames<D: Device>(
    device: &D,
    frames: &[&[u8]],
    shape: BatchShape,
) -> Result<(), DeviceError> {
    if frames.len() == shape.frames {
        return Ok(());
    }
    Err(DeviceError::Failed {
        device: device.name(),
        what: format!("got {} frames to decode, expected {}", frames.len(), shape.frames),
    })
}

pub(crate) fn check_counts<D: Device>(
    device: &D,
    counts: &CountBuffer<D>,
    shape: BatchShape,
) -> Result<(), DeviceError> {
    if counts.len() == shape.counts() {
        return Ok(());
    }
    Err(DeviceError::Failed {
        device: device.name(),
        what: format!("got a buffer of {} counts, expected {}", counts.len(), shape.counts()),
    })
}

/// `counts` is `shape.counts()` long, `frames` are `shape.frames` many.
pub(crate) fn decode_into<T: Count>(
    encoding: Encoding,
    frames: &[&[u8]],
    shape: BatchShape,
    counts: &mut [T],
) -> FailedFrames {
    let decode = |index: usize, out: &mut [T]| match decode_frame(encoding, frames[index], out) {
        Ok(()) => None,
        Err(error) => {
            out.fill(T::default());
            Some((index, error))
        }
    };
    match shape.detector.pixels() {
        // A detector without pixels: no counts to cut up, but the bytes are still checked.
        0 => (0..frames.len()).filter_map(|index| decode(index, &mut [])).collect(),
        pixels => counts
            .par_chunks_exact_mut(pixels)
            .enumerate()
            .filter_map(|(index, out)| decode(index, out))
            .collect(),
    }
}
