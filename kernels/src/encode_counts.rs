//! encode_counts: the counts of an interval of scan positions to entropy-coded streams by detector pixel, with all sums.
//!
//! In: frames, in batches of any size and in any order, each put at its position of an open interval. Out, once per
//! interval: [`EncodedCounts`], the sums of every frame, and the sum and the marker hits of every pixel. The result
//! depends on the frames and their positions alone, not on batches, order or threads.

mod by_pixel;
mod choice;
mod cpu;
mod group;
mod planes;
mod scan;
mod span;
mod squares;
mod stats;
mod tiles;

use std::ops::Range;

use crate::count_code::{Coverage, EncodedCounts, EncodedError};
use crate::device::{Device, DeviceError};
use crate::types::{CountType, DetectorShape, FrameBatch};

pub use cpu::CpuInterval;
pub(crate) use cpu::{Frames, Slot};
pub(crate) use planes::{FramePlanes, PlanePair, SPAN_WORDS, set_bits};
pub(crate) use scan::{SPAN_PIXELS, Scratch, scan_frame};
pub(crate) use tiles::FrameTiles;
pub use tiles::PackedTiles;

/// One interval, encoded, with its sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedInterval {
    /// The counts.
    pub counts: EncodedCounts,
    /// Sum of all counts, by position of the interval; 0 where none is there, here and below.
    pub totals: Vec<u64>,
    /// Sum of count x detector row, by position.
    pub row_moments: Vec<u64>,
    /// Sum of count x detector column, by position.
    pub col_moments: Vec<u64>,
    /// Sums of small and large tiles, by position.
    pub tiles: PackedTiles,
    /// Sum of every detector pixel over the interval.
    pub pixel_sums: Vec<u64>,
    /// How often every detector pixel showed the marker of the count type.
    pub marker_hits: Vec<u32>,
}

/// Encodes counts.
pub trait EncodeCounts: Device {
    /// An interval that is being filled.
    type Interval: Send + std::fmt::Debug;

    /// An empty interval of [`INTERVAL`](crate::count_code::INTERVAL) positions.
    ///
    /// # Errors
    /// [`EncodeCountsError::Device`] where there is no memory for it.
    fn open_interval(
        &self,
        detector: DetectorShape,
        count_type: CountType,
    ) -> Result<Self::Interval, EncodeCountsError>;

    /// Puts frames of a batch (`frames` counts from its first) at the interval's positions from `position` on; a
    /// position that is taken keeps what it has. Returns the number of frames that found their position taken.
    ///
    /// # Errors
    /// [`EncodeCountsError`] where shape, type, frames or positions do not fit; the interval is then unchanged.
    fn add_frames(
        &self,
        interval: &mut Self::Interval,
        batch: &FrameBatch<Self>,
        frames: Range<usize>,
        position: usize,
    ) -> Result<usize, EncodeCountsError>;

    /// Which positions of an open interval are there.
    fn coverage<'a>(&self, interval: &'a Self::Interval) -> &'a Coverage;

    /// Encodes the first `positions` positions of an interval as they are now and leaves it as it is.
    ///
    /// # Errors
    /// [`EncodeCountsError::Device`].
    fn encode_so_far(
        &self,
        interval: &Self::Interval,
        positions: usize,
    ) -> Result<EncodedInterval, EncodeCountsError>;

    /// Encodes the first `positions` positions of an interval and leaves it empty, its memory kept for the next.
    ///
    /// # Errors
    /// [`EncodeCountsError::Device`].
    fn encode_counts(
        &self,
        interval: &mut Self::Interval,
        positions: usize,
    ) -> Result<EncodedInterval, EncodeCountsError>;
}

/// What encoding can fail with.
#[derive(Debug, thiserror::Error)]
pub enum EncodeCountsError {
    /// Frames of another detector.
    #[error("got frames of {got}, expected {expected} like those before")]
    Detector {
        /// Shape of the frames.
        got: DetectorShape,
        /// Shape of the interval.
        expected: DetectorShape,
    },
    /// Frames of another type.
    #[error("got {got} counts, expected {expected} like those before")]
    Type {
        /// Type of the frames.
        got: CountType,
        /// Type of the interval.
        expected: CountType,
    },
    /// A batch whose counts do not fit its shape, or frames that it does not have.
    #[error(
        "got {counts} counts in a batch of {frames} frames of {detector}, asked for frames {start}..{end}"
    )]
    Batch {
        /// Counts in the buffer.
        counts: usize,
        /// Frames of the batch.
        frames: usize,
        /// Shape of a frame.
        detector: DetectorShape,
        /// First frame asked for.
        start: usize,
        /// End of the frames asked for.
        end: usize,
    },
    /// Positions beyond the interval.
    #[error("got positions {start}..{end}, expected a range within 0..{positions}")]
    Positions {
        /// First position.
        start: usize,
        /// End of the positions.
        end: usize,
        /// Positions of an interval.
        positions: usize,
    },
    /// The encoder's own parts do not fit together: a fault of this program.
    #[error("encoder fault: {0}")]
    Parts(#[from] EncodedError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
