//! Frames that lie in pinned memory already, as a receiver can put them there: what a call costs without a copy on the host,
//! and what its parts cost.

use std::time::{Duration, Instant};

use super::{Chunk, Layout, layout};
use crate::bslz4_decode::{Encoding, FailedFrames};
use crate::cuda::{Cuda, CudaBuffer, Queue, Slab};
use crate::device::{Device, DeviceError};
use crate::types::{BatchShape, Count, CountBuffer, CountType};
use crate::with_counts;

/// Compressed frames in pinned memory of a CUDA device.
#[derive(Debug)]
pub struct StagedFrames {
    slab: Slab,
    layout: Layout,
    count_type: CountType,
}

impl StagedFrames {
    /// Bytes that go up for them.
    pub fn bytes(&self) -> usize {
        self.layout.bytes
    }
}

impl Cuda {
    /// Puts bitshuffle/LZ4 frames into pinned memory.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] where a frame is not for the device to decode (see [`crate::bslz4_decode`]), or they are not
    /// `shape.frames` many; [`DeviceError::OutOfMemory`].
    pub fn stage_frames(
        &self,
        frames: &[&[u8]],
        shape: BatchShape,
        count_type: CountType,
    ) -> Result<StagedFrames, DeviceError> {
        super::check_frames(self, frames, shape)?;
        let pixels = shape.detector.pixels();
        if !layout::is_for_the_device(pixels, count_type.bytes()) {
            return Err(self.failed("frames of this size are decoded by the processor"));
        }
        let layout = match count_type {
            CountType::U8 => Layout::new::<u8>(frames, pixels),
            CountType::U16 => Layout::new::<u16>(frames, pixels),
            CountType::U32 => Layout::new::<u32>(frames, pixels),
        };
        if layout.table.iter().any(|&[_, len]| len == 0) {
            return Err(self.failed("not every frame is one that the device decodes"));
        }
        let mut slab = self.pinned(layout.bytes)?;
        layout.chunks().iter().for_each(|chunk| layout.copy(frames, chunk, slab.bytes_mut()));
        Ok(StagedFrames { slab, layout, count_type })
    }

    /// Sends staged frames up and decodes them over `counts`.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if `counts` is not as long as the frames have counts, or of another type;
    /// [`DeviceError::OutOfMemory`].
    pub fn decode_staged(
        &self,
        staged: &mut StagedFrames,
        counts: &mut CountBuffer<Self>,
    ) -> Result<FailedFrames, DeviceError> {
        self.check_staged(staged, counts)?;
        let StagedFrames { slab, layout, .. } = staged;
        with_counts!(counts, counts => {
            let refused = self.run(layout, slab, counts, 0, Self::begin, |_, _| ())?;
            let mut failed = Vec::new();
            let frame = |index| layout.frame(index, slab.bytes());
            self.settle(Encoding::Bslz4, &refused, frame, 0, layout.pixels, counts, &mut failed)?;
            Ok(failed)
        })
    }

    /// How long staged frames take to go up, and then `times` kernels that decode all of them from device memory.
    ///
    /// # Errors
    /// As [`Self::decode_staged`].
    pub fn time_staged(
        &self,
        staged: &StagedFrames,
        counts: &mut CountBuffer<Self>,
        times: usize,
    ) -> Result<[Duration; 2], DeviceError> {
        self.check_staged(staged, counts)?;
        with_counts!(counts, counts => self.time(staged, counts, times))
    }

    fn time<T: Count>(
        &self,
        staged: &StagedFrames,
        counts: &mut CudaBuffer<T>,
        times: usize,
    ) -> Result<[Duration; 2], DeviceError> {
        let StagedFrames { slab, layout, .. } = staged;
        let input = self.uninitialised::<u8>(layout.bytes)?;
        let flags = self.zeros::<u8>(layout.table.len())?;
        self.begin()?;
        self.read_bytes(Queue::Upload, &flags, 1)?;
        let start = Instant::now();
        // SAFETY: the slab is not written to before the next call that borrows it mutably; the read waits for the copy.
        let sent = unsafe { self.write_pinned(Queue::Upload, &input, 0, &slab.bytes()[..layout.bytes]) };
        self.read_bytes(Queue::Upload, &flags, 1)?;
        let upload = start.elapsed();
        sent?;
        self.fence(Queue::Decode, Queue::Upload)?;
        let all = Chunk { frames: 0..layout.table.len(), bytes: 0..layout.bytes };
        let start = Instant::now();
        for _ in 0..times {
            self.launch_decode(layout, &all, &input, &flags, counts, 0)?;
        }
        self.read_bytes(Queue::Decode, &flags, 1)?;
        let decode = start.elapsed();
        self.fence(Queue::Main, Queue::Decode)?;
        Ok([upload, decode])
    }

    fn check_staged(&self, staged: &StagedFrames, counts: &CountBuffer<Self>) -> Result<(), DeviceError> {
        let expected = staged.layout.table.len() * staged.layout.pixels;
        if counts.len() == expected && counts.count_type() == staged.count_type {
            return Ok(());
        }
        let (got, got_type, expected_type) = (counts.len(), counts.count_type(), staged.count_type);
        Err(self
            .failed(&format!("got a buffer of {got} {got_type} counts, expected {expected} {expected_type}")))
    }
}
