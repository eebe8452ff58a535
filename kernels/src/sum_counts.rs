//! sum_counts: what is asked of every frame without its pixels: total, first moments, 8 x 8 tile sums.
//!
//! In: counts, `[frame][det_row][det_col]`. Out: per frame the sum of all counts, of count x row and of count x column
//! (row and column counted from 0), and the sums of tiles of [`TILE`] x [`TILE`] pixels, the last of a row or column
//! smaller where the detector is no multiple. Every pixel counts, marked ones with the marker's value: a mask is
//! applied where it is known, later. Sums are u64; the moments wrap beyond 2^64, which takes a detector of more than
//! 2^20 pixels a side full of 32-bit markers.

mod cpu;
#[cfg(test)]
mod tests;

use crate::device::{Device, DeviceError};
use crate::types::{BatchShape, CountBuffer, DetectorShape};

pub(crate) use cpu::FrameSummer;

/// Pixels along a side of a small tile.
pub const TILE: usize = 8;

/// Pixels along a side of a large tile: four small ones.
pub const LARGE_TILE: usize = 4 * TILE;

/// Small tiles of a detector, (rows, cols).
pub fn tile_shape(detector: DetectorShape) -> (usize, usize) {
    (detector.rows.div_ceil(TILE), detector.cols.div_ceil(TILE))
}

/// Large tiles of a detector, (rows, cols).
pub fn large_tile_shape(detector: DetectorShape) -> (usize, usize) {
    (detector.rows.div_ceil(LARGE_TILE), detector.cols.div_ceil(LARGE_TILE))
}

/// Sums of single frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameSums {
    /// Sum of all counts, by frame.
    pub total: Vec<u64>,
    /// Sum of count x detector row, by frame.
    pub row_moment: Vec<u64>,
    /// Sum of count x detector column, by frame.
    pub col_moment: Vec<u64>,
    /// Sums of small tiles, `[frame][tile_row][tile_col]`.
    pub tiles: Vec<u64>,
}

/// Sums frames.
pub trait SumCounts: Device {
    /// Sums every frame of a batch.
    ///
    /// # Errors
    /// [`SumCountsError::Length`] when `counts` has not the length `shape` says; [`SumCountsError::Device`].
    fn sum_counts(&self, counts: &CountBuffer<Self>, shape: BatchShape) -> Result<FrameSums, SumCountsError>;
}

/// What summing can fail with.
#[derive(Debug, thiserror::Error)]
pub enum SumCountsError {
    /// A buffer that does not fit its shape.
    #[error("got {got} counts, expected {expected} for {frames} frames of {detector}")]
    Length {
        /// Counts in the buffer.
        got: usize,
        /// Counts the shape stands for.
        expected: usize,
        /// Frames of the shape.
        frames: usize,
        /// Detector of the shape.
        detector: DetectorShape,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Compares a buffer's length with its shape.
pub(crate) fn check_length(got: usize, shape: BatchShape) -> Result<(), SumCountsError> {
    let expected = shape.counts();
    if got == expected {
        return Ok(());
    }
    Err(SumCountsError::Length { got, expected, frames: shape.frames, detector: shape.detector })
}
