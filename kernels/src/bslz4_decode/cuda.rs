//! Frames on a CUDA device: compressed bytes go up from pinned memory, and are decoded there while the next ones come.
//!
//! Bitshuffle/LZ4 in blocks of up to 32 KiB, which is what detectors write, is decoded by the device. Whatever else there is,
//! other encodings, larger blocks, frames of fewer than eight counts, the processor decodes and sends up. It also looks again
//! at every frame that the device refuses: the error is its own, word for word.

mod layout;
mod staged;

use rayon::prelude::*;

use super::cpu::{check_counts, check_frames};
use super::{DecodeError, DecodeFrames, Encoding, FailedFrames, decode_frame};
use crate::cuda::{Argument, Cuda, CudaBuffer, Kernel, Launch, Queue, Slab};
use crate::device::{Cpu, Device, DeviceError};
use crate::types::{BatchShape, Count, CountBuffer, CountType};
use crate::with_counts;
pub(super) use layout::{Chunk, Layout};
pub use staged::StagedFrames;

/// Decodes frames.
pub(crate) static BSLZ4_DECODE: Kernel =
    Kernel { name: "bslz4_decode", source: include_str!("bslz4_decode.cu") };

/// Compressed bytes that are in pinned and device memory at a time.
const PASS_BYTES: usize = 192 << 20;
/// Counts that the processor decodes at a time, in bytes.
const HOST_BYTES: usize = 64 << 20;
/// Shared memory that a kernel has without asking for more.
const SHARED_BYTES: usize = 48 << 10;
/// Warps that fill the largest device twice.
const ENOUGH_WARPS: usize = 8192;

impl DecodeFrames for Cuda {
    fn decode_frames(
        &self,
        encoding: Encoding,
        frames: &[&[u8]],
        shape: BatchShape,
        count_type: CountType,
    ) -> Result<(CountBuffer<Self>, FailedFrames), DeviceError> {
        check_frames(self, frames, shape)?;
        let mut counts = match count_type {
            CountType::U8 => CountBuffer::U8(self.uninitialised(shape.counts())?),
            CountType::U16 => CountBuffer::U16(self.uninitialised(shape.counts())?),
            CountType::U32 => CountBuffer::U32(self.uninitialised(shape.counts())?),
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
        let pixels = shape.detector.pixels();
        with_counts!(counts, counts => self.decode_into(encoding, frames, pixels, counts))
    }
}

impl Cuda {
    /// `counts` are `pixels` for each of `frames`.
    pub(crate) fn decode_into<T: Count>(
        &self,
        encoding: Encoding,
        frames: &[&[u8]],
        pixels: usize,
        counts: &mut CudaBuffer<T>,
    ) -> Result<FailedFrames, DeviceError> {
        let mut failed = Vec::new();
        if encoding != Encoding::Bslz4 || !layout::is_for_the_device(pixels, size_of::<T>()) {
            let all: Vec<usize> = (0..frames.len()).collect();
            self.settle(encoding, &all, |index| frames[index], 0, pixels, counts, &mut failed)?;
            return Ok(failed);
        }
        let mut first = 0;
        while first < frames.len() {
            let mut bytes = 0usize;
            let fits = |frame: &&&[u8]| {
                bytes = bytes.saturating_add(frame.len());
                bytes <= PASS_BYTES
            };
            let num = frames[first..].iter().take_while(fits).count().max(1);
            let pass = &frames[first..first + num];
            let layout = Layout::new::<T>(pass, pixels);
            let mut slab = self.take_slab(layout.bytes)?;
            let copy = |slab: &mut [u8], chunk: &Chunk| layout.copy(pass, chunk, slab);
            let refused = self.run(&layout, &mut slab, counts, first * pixels, Self::begin, copy)?;
            self.keep_slab(slab);
            self.settle(encoding, &refused, |index| pass[index], first, pixels, counts, &mut failed)?;
            let is_wronged = |&index: &usize| {
                layout.table[index][1] > 0 && failed.iter().all(|(failed, _)| *failed != first + index)
            };
            debug_assert!(
                !refused.iter().any(is_wronged),
                "the device refuses frames that the processor decodes"
            );
            first += num;
        }
        Ok(failed)
    }

    /// The memory that was taken last may be that of buffers which were dropped while the main queue had still to read
    /// them: nothing goes up or is decoded before it has.
    fn begin(&self) -> Result<(), DeviceError> {
        self.fence(Queue::Upload, Queue::Main)?;
        self.fence(Queue::Decode, Queue::Main)
    }

    /// After `begin`, sends frames up and decodes them over the counts from `first_count` on, chunk by chunk; `fill` brings
    /// those of a chunk into the slab. Says which frames the processor has to look at.
    pub(super) fn run<T: Count>(
        &self,
        layout: &Layout,
        slab: &mut Slab,
        counts: &mut CudaBuffer<T>,
        first_count: usize,
        begin: fn(&Self) -> Result<(), DeviceError>,
        mut fill: impl FnMut(&mut [u8], &Chunk),
    ) -> Result<Vec<usize>, DeviceError> {
        let input = self.uninitialised::<u8>(layout.bytes)?;
        let flags = self.uninitialised::<u8>(layout.table.len())?;
        let mut issue = || {
            begin(self)?;
            self.write_zeros(Queue::Decode, &flags, 0, flags.len())?;
            for chunk in layout.chunks() {
                fill(slab.bytes_mut(), &chunk);
                // SAFETY: the slab is not written to before the flags are read below, which waits for all copies.
                unsafe {
                    let from = &slab.bytes()[chunk.bytes.clone()];
                    self.write_pinned(Queue::Upload, &input, chunk.bytes.start, from)
                }?;
                self.fence(Queue::Decode, Queue::Upload)?;
                self.launch_decode(layout, &chunk, &input, &flags, counts, first_count)?;
            }
            Ok(())
        };
        let issued = issue();
        // Whatever became of it: memory goes back, and the slab is written again, after what was issued.
        let fenced =
            self.fence(Queue::Decode, Queue::Upload).and_then(|()| self.fence(Queue::Main, Queue::Decode));
        let flags = self.read_bytes(Queue::Decode, &flags, layout.table.len());
        issued?;
        fenced?;
        let is_refused =
            |(index, &flag): (usize, &u8)| (flag != 0 || layout.table[index][1] == 0).then_some(index);
        Ok(flags?.iter().enumerate().filter_map(is_refused).collect())
    }

    /// Decodes the frames of a chunk that are in `input`.
    fn launch_decode<T: Count>(
        &self,
        layout: &Layout,
        chunk: &Chunk,
        input: &CudaBuffer<u8>,
        flags: &CudaBuffer<u8>,
        counts: &mut CudaBuffer<T>,
        first_count: usize,
    ) -> Result<(), DeviceError> {
        let num_frames = chunk.frames.len();
        let num_blocks = layout.num_blocks();
        let blocks_per_part = num_blocks.div_ceil(ENOUGH_WARPS.div_ceil(num_frames.max(1)).min(num_blocks));
        let parts = num_blocks.div_ceil(blocks_per_part);
        let room = layout.block_bytes.next_multiple_of(16);
        let warps = (SHARED_BYTES / room).clamp(1, 3);
        let first_count = first_count + chunk.frames.start * layout.pixels;
        assert!(first_count + num_frames * layout.pixels <= counts.len(), "the buffer is shorter");
        let launch = Launch {
            kernel: &BSLZ4_DECODE,
            grid: [(num_frames * parts).div_ceil(warps) as u32, 1],
            threads: 32 * warps as u32,
            shared_bytes: (warps * room) as u32,
            arguments: &[
                input.argument(),
                input.argument_from(chunk.frames.start * size_of::<[u32; 2]>()),
                counts.argument_from(first_count),
                flags.argument_from(chunk.frames.start),
                Argument::U32(num_frames as u32),
                Argument::U32(layout.frame_bytes() as u32),
                Argument::U32(layout.block_bytes as u32),
                Argument::U32(parts as u32),
                Argument::U32(blocks_per_part as u32),
                Argument::U32(size_of::<T>() as u32),
            ],
        };
        // SAFETY: bslz4_decode.cu reads frames where the table says they are, inside `input` (`Layout::new`), and up to 64
        // bytes after them, which are there too; it writes `frame_bytes` of counts (asserted above) and a flag for each of
        // `num_frames`, and uses a room of a block for each of its warps.
        unsafe { self.launch_on(Queue::Decode, &launch) }
    }

    /// Decodes frames on the processor, in place of counts that the device did not make. `indices` rise.
    #[expect(clippy::too_many_arguments, reason = "what decode_into has, and a part of it")]
    fn settle<'a, T: Count>(
        &self,
        encoding: Encoding,
        indices: &[usize],
        frame: impl Fn(usize) -> &'a [u8] + Sync,
        first: usize,
        pixels: usize,
        counts: &mut CudaBuffer<T>,
        failed: &mut FailedFrames,
    ) -> Result<(), DeviceError> {
        let at_once = (HOST_BYTES / (pixels * size_of::<T>()).max(1)).max(1);
        for indices in indices.chunks(at_once) {
            let decode = |&index: &usize| {
                let mut host = Cpu.zeros::<T>(pixels)?;
                Ok(decode_frame(encoding, frame(index), &mut host).map(|()| host))
            };
            let decoded: Vec<Result<Result<Vec<T>, DecodeError>, DeviceError>> =
                indices.par_iter().map(decode).collect();
            for (index, decoded) in indices.iter().zip(decoded) {
                let at = (first + index) * pixels;
                match decoded? {
                    Ok(host) => self.write(counts, at, &host)?,
                    Err(error) => {
                        self.write_zeros(Queue::Main, counts, at, pixels)?;
                        failed.push((first + index, error));
                    }
                }
            }
        }
        Ok(())
    }

    fn failed(&self, what: &str) -> DeviceError {
        DeviceError::Failed { device: self.name(), what: what.to_owned() }
    }
}
