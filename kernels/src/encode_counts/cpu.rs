//! encode_counts on the processor: frames are reduced to their bit planes or their events as they come, one frame a task;
//! the interval is encoded one span of 256 detector pixels a task.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::group::Event;
use super::planes::FramePlanes;
use super::scan::{FrameEvents, SPAN_PIXELS};
use super::span::{CoveredCounts, SpanEncoder, SpanOut};
use super::tiles::{FrameTiles, pack_tiles};
use super::{EncodeCounts, EncodeCountsError, EncodedInterval};
use crate::count_code::{Coverage, Directory, EncodedCounts, INTERVAL, num_groups};
use crate::device::{Cpu, Device, DeviceError};
use crate::reduce_frames::Reducible;
use crate::sum_counts::tile_shape;
use crate::types::{BatchShape, CountBuffer, CountType, DetectorShape, FrameBatch};

/// An interval that is being filled: the events of every frame and its sums.
#[derive(Debug)]
pub struct CpuInterval {
    detector: DetectorShape,
    pub(crate) coverage: Coverage,
    pub(crate) frames: Frames,
}

/// The frames of an interval.
#[derive(Debug)]
pub(crate) enum Frames {
    U8(Typed<u8>),
    U16(Typed<u16>),
    U32(Typed<u32>),
}

impl Frames {
    /// The type of the counts.
    pub(crate) fn count_type(&self) -> CountType {
        match self {
            Self::U8(_) => CountType::U8,
            Self::U16(_) => CountType::U16,
            Self::U32(_) => CountType::U32,
        }
    }
}

/// The frames of one count type and the work space to encode them.
#[derive(Debug)]
pub(crate) struct Typed<T: Packed> {
    slots: Vec<Slot<T>>,
    /// Encoders that no thread is using; there are never more than threads.
    idle: Mutex<Vec<SpanEncoder<T>>>,
}

impl<T: Packed> Typed<T> {
    fn new() -> Self {
        Self { slots: (0..INTERVAL).map(|_| Slot::default()).collect(), idle: Mutex::default() }
    }

    /// The slots of the positions from `position` on, which is at most [`INTERVAL`].
    pub(crate) fn slots_from(&mut self, position: usize) -> &mut [Slot<T>] {
        &mut self.slots[position..]
    }

    /// Runs `work` with an encoder.
    fn with_encoder<R>(&self, work: impl FnOnce(&mut SpanEncoder<T>) -> R) -> R {
        // nothing is left half done where a thread panicked: it just does not give its encoder back
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut encoder = taken.unwrap_or_else(SpanEncoder::new);
        let result = work(&mut encoder);
        idle().push(encoder);
        result
    }
}

/// One frame, reduced.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    /// Its counts below 16, where they are kept as planes.
    pub(crate) planes: FramePlanes,
    /// All its other counts that are not 0.
    pub(crate) events: FrameEvents<T>,
    pub(crate) total: u64,
    pub(crate) row_moment: u64,
    pub(crate) col_moment: u64,
    /// Sums of its small tiles.
    pub(crate) tiles: FrameTiles,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self {
            planes: FramePlanes::default(),
            events: FrameEvents::default(),
            total: 0,
            row_moment: 0,
            col_moment: 0,
            tiles: FrameTiles::default(),
        }
    }
}

impl<T> Slot<T> {
    /// A frame whose counts are all 0.
    pub(crate) fn nothing(detector: DetectorShape) -> Self {
        let (tile_rows, tile_cols) = tile_shape(detector);
        Self { tiles: FrameTiles::Narrow(vec![0; tile_rows * tile_cols]), ..Self::default() }
    }
}

/// How a count is joined with its position.
pub(crate) trait Packed: Reducible {
    type Event: Event;
}
impl Packed for u8 {
    type Event = u32;
}
impl Packed for u16 {
    type Event = u32;
}
impl Packed for u32 {
    type Event = u64;
}

impl EncodeCounts for Cpu {
    type Interval = CpuInterval;

    fn open_interval(
        &self,
        detector: DetectorShape,
        count_type: CountType,
    ) -> Result<CpuInterval, EncodeCountsError> {
        if u32::try_from(detector.pixels()).is_err() {
            let bytes = detector.pixels();
            return Err(DeviceError::OutOfMemory { device: self.name(), bytes }.into());
        }
        let frames = match count_type {
            CountType::U8 => Frames::U8(Typed::new()),
            CountType::U16 => Frames::U16(Typed::new()),
            CountType::U32 => Frames::U32(Typed::new()),
        };
        Ok(CpuInterval { detector, coverage: Coverage::none(INTERVAL), frames })
    }

    fn add_frames(
        &self,
        interval: &mut CpuInterval,
        batch: &FrameBatch<Self>,
        frames: Range<usize>,
        position: usize,
    ) -> Result<usize, EncodeCountsError> {
        interval.check(batch.shape, batch.counts.len(), &frames, position)?;
        let (detector, coverage) = (interval.detector, &mut interval.coverage);
        match (&batch.counts, &mut interval.frames) {
            (CountBuffer::U8(counts), Frames::U8(typed)) => {
                Ok(add(counts, &mut typed.slots, detector, coverage, frames, position))
            }
            (CountBuffer::U16(counts), Frames::U16(typed)) => {
                Ok(add(counts, &mut typed.slots, detector, coverage, frames, position))
            }
            (CountBuffer::U32(counts), Frames::U32(typed)) => {
                Ok(add(counts, &mut typed.slots, detector, coverage, frames, position))
            }
            (counts, frames) => {
                Err(EncodeCountsError::Type { got: counts.count_type(), expected: frames.count_type() })
            }
        }
    }

    fn coverage<'a>(&self, interval: &'a CpuInterval) -> &'a Coverage {
        &interval.coverage
    }

    fn encode_counts(
        &self,
        interval: &mut CpuInterval,
        positions: usize,
    ) -> Result<EncodedInterval, EncodeCountsError> {
        let encoded = self.encode_so_far(interval, positions);
        interval.coverage = Coverage::none(INTERVAL);
        encoded
    }

    fn encode_so_far(
        &self,
        interval: &CpuInterval,
        positions: usize,
    ) -> Result<EncodedInterval, EncodeCountsError> {
        let coverage = interval.coverage.resized(positions);
        match &interval.frames {
            Frames::U8(typed) => encode(typed, interval.detector, coverage),
            Frames::U16(typed) => encode(typed, interval.detector, coverage),
            Frames::U32(typed) => encode(typed, interval.detector, coverage),
        }
    }
}

impl CpuInterval {
    /// Checks that `frames` of a batch of this shape, which holds `counts` counts, fit at `position`.
    pub(crate) fn check(
        &self,
        shape: BatchShape,
        counts: usize,
        frames: &Range<usize>,
        position: usize,
    ) -> Result<(), EncodeCountsError> {
        if shape.detector != self.detector {
            return Err(EncodeCountsError::Detector { got: shape.detector, expected: self.detector });
        }
        if counts != shape.counts() || frames.start > frames.end || frames.end > shape.frames {
            return Err(EncodeCountsError::Batch {
                counts,
                frames: shape.frames,
                detector: shape.detector,
                start: frames.start,
                end: frames.end,
            });
        }
        let end = position.saturating_add(frames.end - frames.start);
        if end > INTERVAL {
            return Err(EncodeCountsError::Positions { start: position, end, positions: INTERVAL });
        }
        Ok(())
    }
}

/// Reduces frames to events and sums; returns how many found their position taken.
fn add<T: Reducible>(
    counts: &[T],
    slots: &mut [Slot<T>],
    detector: DetectorShape,
    coverage: &mut Coverage,
    frames: Range<usize>,
    position: usize,
) -> usize {
    let pixels = detector.pixels();
    let mut repeated = 0;
    let mut fresh: Vec<(&[T], &mut Slot<T>)> = Vec::with_capacity(frames.len());
    for (frame, (position, slot)) in frames.zip((position..).zip(&mut slots[position..])) {
        if coverage.insert(position) {
            fresh.push((&counts[frame * pixels..(frame + 1) * pixels], slot));
        } else {
            repeated += 1;
        }
    }
    fresh.into_par_iter().for_each(|(frame, slot)| {
        T::with_reducer(|reducer| {
            reducer.prepare(detector);
            reducer.reduce(frame, slot);
        });
    });
    repeated
}

fn encode<T: Packed>(
    typed: &Typed<T>,
    detector: DetectorShape,
    coverage: Coverage,
) -> Result<EncodedInterval, EncodeCountsError> {
    let slots = typed.slots.as_slice();
    let covered: Vec<&Slot<T>> = coverage.present().map(|position| &slots[position]).collect();
    let pixels = detector.pixels();
    let num_spans = pixels.div_ceil(SPAN_PIXELS);
    let counts = CoveredCounts::new(covered, num_spans);
    let spans: Vec<SpanOut> = (0..num_spans)
        .into_par_iter()
        .map(|span| {
            let pixels = (pixels - span * SPAN_PIXELS).min(SPAN_PIXELS);
            typed.with_encoder(|encoder| encoder.encode(&counts, span, pixels))
        })
        .collect();
    let mut payload = Vec::with_capacity(spans.iter().map(|span| span.bytes.len()).sum());
    let mut lengths = Vec::with_capacity(num_groups(pixels));
    let (mut pixel_sums, mut marker_hits) = (Vec::with_capacity(pixels), Vec::with_capacity(pixels));
    for span in spans {
        payload.extend_from_slice(&span.bytes);
        lengths.extend_from_slice(&span.lengths);
        pixel_sums.extend_from_slice(&span.pixel_sums);
        marker_hits.extend_from_slice(&span.marker_hits);
    }
    let directory = Directory::from_lengths(&lengths);
    let there = |position| coverage.contains(position).then(|| &slots[position]);
    let of =
        |sum: fn(&Slot<T>) -> u64| (0..coverage.positions()).map(|at| there(at).map_or(0, sum)).collect();
    let tiles: Vec<Option<&FrameTiles>> =
        (0..coverage.positions()).map(|at| there(at).map(|slot| &slot.tiles)).collect();
    Ok(EncodedInterval {
        totals: of(|slot| slot.total),
        row_moments: of(|slot| slot.row_moment),
        col_moments: of(|slot| slot.col_moment),
        tiles: pack_tiles(detector, &tiles),
        counts: EncodedCounts::from_parts(detector, T::TYPE, coverage, directory, payload)?,
        pixel_sums,
        marker_hits,
    })
}
