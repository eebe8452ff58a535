//! reduce_frames: compressed frames to what the encoder needs of them: small counts as the bit planes they came as, the
//! others that are not 0 one by one, and the frame's sums. The counts of a frame are never written down.
//!
//! In: frames as the detector wrote them. Out: a [`ReducedBatch`], which
//! [`add_reduced`](ReduceFrames::add_reduced) puts into an interval. The result is that of
//! [`decode_frames`](crate::bslz4_decode::DecodeFrames::decode_frames) and
//! [`add_frames`](EncodeCounts::add_frames), bit for bit; on a processor the detour over the counts costs more than twice
//! the time, most of it for memory.
//!
//! [`Batch`] is what both forms of frames have in common: stages are written against it.

mod cpu;
mod plane_sums;
mod planes;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub(crate) use cpu::Reducible;
pub use cpu::{CpuReduced, ReducedFrames};

use crate::bslz4_decode::{DecodeFrames, Encoding, FailedFrames};
use crate::device::DeviceError;
use crate::encode_counts::{EncodeCounts, EncodeCountsError};
use crate::types::{BatchShape, CountBuffer, CountType, FrameBatch};

/// A run of consecutive frames, reduced.
#[derive(Debug)]
pub struct ReducedBatch<D: ReduceFrames> {
    /// Scan position of the first frame, counted from 0 in scan raster order.
    pub first: u64,
    /// Frames, and their shape.
    pub shape: BatchShape,
    /// The type of the counts.
    pub count_type: CountType,
    /// What the encoder needs of each frame.
    pub frames: D::Reduced,
}

/// Reduces frames.
pub trait ReduceFrames: EncodeCounts + DecodeFrames {
    /// What the encoder needs of the frames of a batch.
    type Reduced: Send + Sync + std::fmt::Debug;

    /// Reduces compressed frames, in the order given; `spent` is the memory of a batch that is not needed any more.
    ///
    /// A frame that fails counts nothing, and is listed with its index in `frames`; the others are not touched by it.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if `frames` are not `shape.frames` many, [`DeviceError::OutOfMemory`].
    fn reduce_frames(
        &self,
        encoding: Encoding,
        frames: &[&[u8]],
        shape: BatchShape,
        count_type: CountType,
        spent: Option<Self::Reduced>,
    ) -> Result<(Self::Reduced, FailedFrames), DeviceError>;

    /// Moves frames of a batch (`frames` counts from its first) to the interval's positions from `position` on; a
    /// position that is taken keeps what it has. Returns the number of frames that found their position taken.
    ///
    /// # Errors
    /// As [`EncodeCounts::add_frames`].
    fn add_reduced(
        &self,
        interval: &mut Self::Interval,
        batch: &mut ReducedBatch<Self>,
        frames: Range<usize>,
        position: usize,
    ) -> Result<usize, EncodeCountsError>;
}

/// A run of consecutive frames on its way from the decoder to the encoder.
pub trait Batch: Sized + Send {
    /// The device that decodes and encodes it.
    type Device: EncodeCounts;

    /// Decodes the frames from `first` on, in the order given, into the memory of `spent` where it fits. A frame that
    /// fails counts nothing, and is listed with its index in `frames`.
    ///
    /// # Errors
    /// [`DeviceError`]: the device itself fails, or `frames` are not `shape.frames` many.
    fn decode(
        device: &Self::Device,
        encoding: Encoding,
        first: u64,
        frames: &[&[u8]],
        shape: BatchShape,
        count_type: CountType,
        spent: Option<Self>,
    ) -> Result<(Self, FailedFrames), DeviceError>;

    /// Scan position of the first frame.
    fn first(&self) -> u64;

    /// Frames, and their shape.
    fn shape(&self) -> BatchShape;

    /// The type of the counts.
    fn count_type(&self) -> CountType;

    /// Puts frames (`frames` counts from the first) at the interval's positions from `position` on, each frame once in
    /// the life of a batch. Returns the number of frames that found their position taken.
    ///
    /// # Errors
    /// As [`EncodeCounts::add_frames`].
    fn add_to(
        &mut self,
        device: &Self::Device,
        interval: &mut <Self::Device as EncodeCounts>::Interval,
        frames: Range<usize>,
        position: usize,
    ) -> Result<usize, EncodeCountsError>;
}

impl<D: EncodeCounts + DecodeFrames> Batch for FrameBatch<D> {
    type Device = D;

    fn decode(
        device: &D,
        encoding: Encoding,
        first: u64,
        frames: &[&[u8]],
        shape: BatchShape,
        count_type: CountType,
        spent: Option<Self>,
    ) -> Result<(Self, FailedFrames), DeviceError> {
        let fits =
            |counts: &CountBuffer<D>| counts.count_type() == count_type && counts.len() == shape.counts();
        let (counts, failed) = match spent.map(|batch| batch.counts).filter(fits) {
            Some(mut counts) => {
                let failed = device.decode_frames_into(encoding, frames, shape, &mut counts)?;
                (counts, failed)
            }
            None => device.decode_frames(encoding, frames, shape, count_type)?,
        };
        Ok((Self { first, shape, counts }, failed))
    }

    fn first(&self) -> u64 {
        self.first
    }

    fn shape(&self) -> BatchShape {
        self.shape
    }

    fn count_type(&self) -> CountType {
        self.counts.count_type()
    }

    fn add_to(
        &mut self,
        device: &D,
        interval: &mut D::Interval,
        frames: Range<usize>,
        position: usize,
    ) -> Result<usize, EncodeCountsError> {
        device.add_frames(interval, self, frames, position)
    }
}

impl<D: ReduceFrames> Batch for ReducedBatch<D> {
    type Device = D;

    fn decode(
        device: &D,
        encoding: Encoding,
        first: u64,
        frames: &[&[u8]],
        shape: BatchShape,
        count_type: CountType,
        spent: Option<Self>,
    ) -> Result<(Self, FailedFrames), DeviceError> {
        let spent = spent.map(|batch| batch.frames);
        let (frames, failed) = device.reduce_frames(encoding, frames, shape, count_type, spent)?;
        Ok((Self { first, shape, count_type, frames }, failed))
    }

    fn first(&self) -> u64 {
        self.first
    }

    fn shape(&self) -> BatchShape {
        self.shape
    }

    fn count_type(&self) -> CountType {
        self.count_type
    }

    fn add_to(
        &mut self,
        device: &D,
        interval: &mut D::Interval,
        frames: Range<usize>,
        position: usize,
    ) -> Result<usize, EncodeCountsError> {
        device.add_reduced(interval, self, frames, position)
    }
}
