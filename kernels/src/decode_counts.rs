//! decode_counts: encoded counts of an interval back to counts, exactly.
//!
//! In: [`EncodedCounts`] of one interval. Out: scan images of chosen detector pixels, `[pixel][position]`, or whole
//! frames, `[frame][det_row][det_col]`. Positions that are not covered read 0; the coverage tells them from counts.
//! Streams may come from a file: a damaged one is an error, never a panic or a read outside.

mod cpu;
mod group;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::count_code::EncodedCounts;
use crate::device::{Device, DeviceError};
use crate::types::{Count, CountType, DetectorShape};

pub use group::GroupFault;
pub(crate) use group::decode_group;

/// Where decoded scan images go: image `i` starts at element `i * stride + column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageWindow {
    /// Elements from one image to the next.
    pub stride: usize,
    /// First element within an image.
    pub column: usize,
}

/// Decodes encoded counts.
pub trait DecodeCounts: Device {
    /// Writes the counts of `pixels` (row-major detector indices, any order, repeats allowed) at the interval's
    /// `positions` into `out`, one image a pixel, placed by `window`; elements outside the windows stay as they are.
    ///
    /// # Errors
    /// [`DecodeCountsError`]; the content of the windows is then undefined.
    fn decode_pixels<T: Count>(
        &self,
        counts: &EncodedCounts,
        pixels: &[u32],
        positions: Range<usize>,
        out: &mut Self::Buffer<T>,
        window: ImageWindow,
    ) -> Result<(), DecodeCountsError>;

    /// Writes the whole frames at the interval's `positions` into `out`, `[frame][det_row][det_col]`.
    ///
    /// # Errors
    /// [`DecodeCountsError`]; the content of `out` is then undefined.
    fn decode_positions<T: Count>(
        &self,
        counts: &EncodedCounts,
        positions: Range<usize>,
        out: &mut Self::Buffer<T>,
    ) -> Result<(), DecodeCountsError>;
}

/// What decoding can fail with.
#[derive(Debug, thiserror::Error)]
pub enum DecodeCountsError {
    /// The bytes of a group are not what an encoder writes.
    #[error("group {group} (detector pixels from {first_pixel}): {fault}")]
    Corrupt {
        /// The group.
        group: usize,
        /// Its first detector pixel.
        first_pixel: usize,
        /// What is wrong.
        fault: GroupFault,
    },
    /// A pixel that the detector does not have.
    #[error("got detector pixel {pixel}, expected one below {} of a detector of {detector}", detector.pixels())]
    Pixel {
        /// The pixel asked for.
        pixel: u32,
        /// The detector.
        detector: DetectorShape,
    },
    /// Positions that the interval does not have.
    #[error("got positions {start}..{end}, expected a range within 0..{positions}")]
    Positions {
        /// First position asked for.
        start: usize,
        /// End of the positions asked for.
        end: usize,
        /// Positions of the interval.
        positions: usize,
    },
    /// A buffer too short for what was asked.
    #[error("got a buffer of {got} elements, expected at least {expected}")]
    Buffer {
        /// Its length.
        got: usize,
        /// What is needed; `usize::MAX` where that overflows.
        expected: usize,
    },
    /// An output type that cannot hold the counts.
    #[error("got {got} as output type, expected one that holds {counts}")]
    Narrow {
        /// The output type.
        got: CountType,
        /// The type of the counts.
        counts: CountType,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Checks the preconditions that every device shares; returns the length a window needs.
pub(crate) fn check<T: Count>(
    counts: &EncodedCounts,
    positions: &Range<usize>,
) -> Result<usize, DecodeCountsError> {
    if T::TYPE.bytes() < counts.count_type().bytes() {
        return Err(DecodeCountsError::Narrow { got: T::TYPE, counts: counts.count_type() });
    }
    if positions.start > positions.end || positions.end > counts.positions() {
        let (start, end) = (positions.start, positions.end);
        return Err(DecodeCountsError::Positions { start, end, positions: counts.positions() });
    }
    Ok(positions.end - positions.start)
}

/// Checks pixels and buffer of [`DecodeCounts::decode_pixels`].
pub(crate) fn check_windows(
    counts: &EncodedCounts,
    pixels: &[u32],
    len: usize,
    out_len: usize,
    window: ImageWindow,
) -> Result<(), DecodeCountsError> {
    let detector = counts.detector();
    if let Some(&pixel) = pixels.iter().find(|&&pixel| pixel as usize >= detector.pixels()) {
        return Err(DecodeCountsError::Pixel { pixel, detector });
    }
    let width = window.column.saturating_add(len);
    let expected = match pixels.len() {
        0 => 0,
        images if width <= window.stride => (images - 1).saturating_mul(window.stride).saturating_add(width),
        _ => usize::MAX,
    };
    if out_len < expected {
        return Err(DecodeCountsError::Buffer { got: out_len, expected });
    }
    Ok(())
}
