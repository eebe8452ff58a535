//! reduce_frames on the processor: one frame a task. Where most counts are below 16 the frame stays the bit planes it
//! came as; else it is decoded into memory that stays in the cache, and its counts that are not 0 are listed.

use std::cell::RefCell;
use std::ops::{ControlFlow, Range};

use rayon::prelude::*;

use super::plane_sums::PlaneSummer;
use super::planes::keep_block;
use super::{ReduceFrames, ReducedBatch};
use crate::bslz4_decode::{
    DecodeError, Encoding, FailedFrames, Isa, check_plausible, decode_frame, for_each_block,
};
use crate::count_code::Coverage;
use crate::device::{Cpu, Device, DeviceError};
use crate::encode_counts::{CpuInterval, EncodeCountsError, Frames, SPAN_PIXELS, Scratch, Slot, scan_frame};
use crate::sum_counts::{FrameSummer, tile_shape};
use crate::types::{BatchShape, Count, CountType, DetectorShape};

/// Frames decoded to all their counts after one with many large ones, before planes are tried again.
const DENSE_FRAMES: u32 = 63;
/// Pixels to each count of 16 or more that a frame may have and stay planes.
const PIXELS_PER_LARGE: usize = 64;
/// Pixels of the largest detector whose frames stay planes: an interval of them takes 134 MB, or twice that.
const MOST_PIXELS: usize = 1 << 19;

/// The reduced frames of a batch.
#[derive(Debug)]
pub enum CpuReduced {
    /// 8-bit counts.
    U8(ReducedFrames<u8>),
    /// 16-bit counts.
    U16(ReducedFrames<u16>),
    /// 32-bit counts.
    U32(ReducedFrames<u32>),
}

/// Reduced frames of one count type, in order.
#[derive(Debug)]
pub struct ReducedFrames<T>(Vec<Slot<T>>);

impl<T> Default for ReducedFrames<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl ReduceFrames for Cpu {
    type Reduced = CpuReduced;

    fn reduce_frames(
        &self,
        encoding: Encoding,
        frames: &[&[u8]],
        shape: BatchShape,
        count_type: CountType,
        spent: Option<CpuReduced>,
    ) -> Result<(CpuReduced, FailedFrames), DeviceError> {
        if frames.len() != shape.frames {
            let what = format!("got {} frames to reduce, expected {}", frames.len(), shape.frames);
            return Err(DeviceError::Failed { device: self.name(), what });
        }
        let mut reduced = match (count_type, spent) {
            (CountType::U8, Some(spent @ CpuReduced::U8(_)))
            | (CountType::U16, Some(spent @ CpuReduced::U16(_)))
            | (CountType::U32, Some(spent @ CpuReduced::U32(_))) => spent,
            (CountType::U8, _) => CpuReduced::U8(ReducedFrames::default()),
            (CountType::U16, _) => CpuReduced::U16(ReducedFrames::default()),
            (CountType::U32, _) => CpuReduced::U32(ReducedFrames::default()),
        };
        let failed = match &mut reduced {
            CpuReduced::U8(reduced) => reduce(encoding, frames, shape.detector, &mut reduced.0),
            CpuReduced::U16(reduced) => reduce(encoding, frames, shape.detector, &mut reduced.0),
            CpuReduced::U32(reduced) => reduce(encoding, frames, shape.detector, &mut reduced.0),
        };
        Ok((reduced, failed))
    }

    fn add_reduced(
        &self,
        interval: &mut CpuInterval,
        batch: &mut ReducedBatch<Self>,
        frames: Range<usize>,
        position: usize,
    ) -> Result<usize, EncodeCountsError> {
        interval.check(batch.shape, batch.shape.counts(), &frames, position)?;
        let coverage = &mut interval.coverage;
        match (&mut batch.frames, &mut interval.frames) {
            (CpuReduced::U8(from), Frames::U8(to)) => {
                Ok(exchange(&mut from.0[frames], to.slots_from(position), coverage, position))
            }
            (CpuReduced::U16(from), Frames::U16(to)) => {
                Ok(exchange(&mut from.0[frames], to.slots_from(position), coverage, position))
            }
            (CpuReduced::U32(from), Frames::U32(to)) => {
                Ok(exchange(&mut from.0[frames], to.slots_from(position), coverage, position))
            }
            (_, frames) => {
                Err(EncodeCountsError::Type { got: batch.count_type, expected: frames.count_type() })
            }
        }
    }
}

/// Puts frames into free slots, whose old memory goes back in their place; returns how many found theirs taken.
fn exchange<T>(from: &mut [Slot<T>], to: &mut [Slot<T>], coverage: &mut Coverage, position: usize) -> usize {
    let mut repeated = 0;
    for (position, (from, to)) in (position..).zip(from.iter_mut().zip(to)) {
        if coverage.insert(position) {
            std::mem::swap(from, to);
        } else {
            repeated += 1;
        }
    }
    repeated
}

fn reduce<T: Reducible>(
    encoding: Encoding,
    frames: &[&[u8]],
    detector: DetectorShape,
    slots: &mut Vec<Slot<T>>,
) -> FailedFrames {
    slots.resize_with(frames.len(), Slot::default);
    let tasks = slots.par_iter_mut().zip(frames.par_iter()).enumerate();
    tasks
        .filter_map(|(index, (slot, bytes))| {
            // first of all: no memory for what cannot be a frame
            let frame_bytes = detector.pixels().saturating_mul(size_of::<T>());
            let reduced = check_plausible::<T>(encoding, bytes, frame_bytes).and_then(|()| {
                T::with_reducer(|reducer| {
                    reducer.prepare(detector);
                    reducer.reduce_compressed(encoding, bytes, slot)
                })
            });
            let error = reduced.err()?;
            *slot = Slot::nothing(detector);
            Some((index, error))
        })
        .collect()
}

/// A count type whose frames can be reduced.
pub(crate) trait Reducible: Count {
    /// Runs `work` with this thread's reducer; nothing that `work` calls may ask for it again.
    fn with_reducer<R>(work: impl FnOnce(&mut FrameReducer<Self>) -> R) -> R;
}

macro_rules! reducible {
    ($($count:ty),*) => {$(
        impl Reducible for $count {
            fn with_reducer<R>(work: impl FnOnce(&mut FrameReducer<Self>) -> R) -> R {
                thread_local! {
                    static REDUCER: RefCell<FrameReducer<$count>> =
                        RefCell::new(FrameReducer::new(DetectorShape { rows: 0, cols: 0 }));
                }
                REDUCER.with_borrow_mut(work)
            }
        }
    )*};
}
reducible!(u8, u16, u32);

/// Reduces one frame after the other; holds the work space.
#[derive(Debug)]
pub(crate) struct FrameReducer<T> {
    detector: DetectorShape,
    summer: FrameSummer,
    scratch: Scratch<T>,
    /// A frame with all its counts.
    counts: Vec<T>,
    /// Sums of its small tiles.
    tiles: Vec<u64>,
    plane_summer: PlaneSummer,
    /// Pixels and counts of 16 and more.
    large: Vec<(u32, T)>,
    /// Frames that are decoded to all their counts before planes are tried again.
    dense_frames: u32,
}

impl<T: Count> FrameReducer<T> {
    fn new(detector: DetectorShape) -> Self {
        Self {
            detector,
            summer: FrameSummer::new(detector),
            scratch: Scratch::new(detector.pixels()),
            counts: Vec::new(),
            tiles: Vec::new(),
            plane_summer: PlaneSummer::new(detector),
            large: Vec::new(),
            dense_frames: 0,
        }
    }

    /// Makes the work space fit a detector.
    pub(crate) fn prepare(&mut self, detector: DetectorShape) {
        if self.detector != detector {
            *self = Self::new(detector);
        }
    }

    /// Reduces a frame of the detector that was prepared for.
    pub(crate) fn reduce(&mut self, frame: &[T], slot: &mut Slot<T>) {
        let (tile_rows, tile_cols) = tile_shape(self.detector);
        slot.planes.clear();
        self.tiles.resize(tile_rows * tile_cols, 0);
        let (summer, tiles) = (&mut self.summer, &mut self.tiles);
        summer.start();
        scan_frame(frame, &mut slot.events, &mut self.scratch, |pixels| {
            summer.sum_until(frame, pixels, tiles);
        });
        [slot.total, slot.row_moment, slot.col_moment] = summer.finish(frame, tiles);
        slot.tiles.set(tiles);
    }

    /// Reduces a compressed frame of the detector that was prepared for; `slot` is of no use after an error.
    fn reduce_compressed(
        &mut self,
        encoding: Encoding,
        bytes: &[u8],
        slot: &mut Slot<T>,
    ) -> Result<(), DecodeError> {
        let pixels = self.detector.pixels();
        if encoding == Encoding::Bslz4 && pixels.is_multiple_of(64) && (1..=MOST_PIXELS).contains(&pixels) {
            match self.dense_frames.checked_sub(1) {
                Some(left) => self.dense_frames = left,
                None if self.reduce_planes(bytes, slot)? => return Ok(()),
                None => self.dense_frames = DENSE_FRAMES,
            }
        }
        let mut counts = std::mem::take(&mut self.counts);
        counts.resize(self.detector.pixels(), T::default());
        let decoded = decode_frame(encoding, bytes, &mut counts);
        if decoded.is_ok() {
            self.reduce(&counts, slot);
        }
        self.counts = counts;
        decoded
    }

    /// Reduces a frame to planes, block by block; false, with `slot` of no use, where too many counts are large or the
    /// frame is not cut as planes need it.
    fn reduce_planes(&mut self, bytes: &[u8], slot: &mut Slot<T>) -> Result<bool, DecodeError> {
        let pixels = self.detector.pixels();
        let Slot { planes, events, tiles, .. } = slot;
        planes.start(pixels.div_ceil(SPAN_PIXELS));
        self.large.clear();
        let mut kept = 0;
        let leftover = for_each_block::<T>(Isa::detect(), bytes, pixels, |first, block| {
            let num_counts = block.len() / size_of::<T>();
            let is_cut = first.is_multiple_of(SPAN_PIXELS) && num_counts.is_multiple_of(64);
            if !is_cut || self.large.len() > pixels / PIXELS_PER_LARGE {
                return ControlFlow::Break(());
            }
            keep_block(block, first / SPAN_PIXELS, planes, &mut self.large);
            kept = first + num_counts;
            ControlFlow::Continue(())
        })?;
        // the way over all counts finds what is wrong with a frame that ends otherwise
        if kept != pixels || leftover.is_none_or(|bytes| !bytes.is_empty()) {
            return Ok(false);
        }
        let mut sums = self.plane_summer.sum(planes, tiles);
        for &(pixel, count) in &self.large {
            self.plane_summer.add(pixel as usize, count.into(), &mut sums, tiles);
        }
        events.set(&self.large, pixels.div_ceil(SPAN_PIXELS));
        (slot.total, slot.row_moment, slot.col_moment) = (sums.total, sums.row_moment, sums.col_moment);
        Ok(true)
    }
}
