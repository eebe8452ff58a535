//! transform_rows: Fourier transforms along one scan row, for every bright-field pixel.
//!
//! The first half of G(q, k) = sum over scan positions of I(R, k) exp(-2 pi i q . R): along the scan row, as soon as
//! the row is there. The other half, along scan columns, is fused with the correction
//! ([`crate::correct_spectra`]).

mod cpu;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::device::{Device, DeviceError};
use crate::lanes::{LANES, PixelBlock};
use crate::types::ScanShape;

/// [`PixelBlock`]s that lie side by side for one scan frequency: 256 pixels.
pub const BLOCKS_PER_CHUNK: usize = 16;

/// The shape of spectra G, and where things lie in one transformed scan row.
///
/// A scan row is `[chunk of 256 pixels][q_col][block of 16 pixels]` of [`PixelBlock`]: a column transform reads 2 KiB
/// at a time, and threads that transform different chunks write to different memory. The last chunk has as many blocks
/// as are left; lanes beyond the last pixel are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpectraShape {
    /// Scan positions.
    pub scan: ScanShape,
    /// Bright-field pixels k.
    pub pixels: usize,
}

impl SpectraShape {
    /// Scan frequencies kept along a scan row, `cols / 2 + 1`: counts are real, the other half is their conjugate.
    pub fn q_cols(self) -> usize {
        self.scan.cols / 2 + 1
    }

    /// Blocks of 16 pixels, the last one padded.
    pub fn blocks(self) -> usize {
        self.pixels.div_ceil(LANES)
    }

    /// Chunks of 256 pixels, the last one as long as needed.
    pub fn chunks(self) -> usize {
        self.blocks().div_ceil(BLOCKS_PER_CHUNK)
    }

    /// Number of [`PixelBlock`]s in one transformed scan row.
    pub fn row_len(self) -> usize {
        self.blocks().saturating_mul(self.q_cols())
    }

    /// The blocks of one chunk.
    pub fn chunk_blocks(self, chunk: usize) -> Range<usize> {
        chunk * BLOCKS_PER_CHUNK..((chunk + 1) * BLOCKS_PER_CHUNK).min(self.blocks())
    }

    /// Where one chunk at one scan frequency lies in a transformed scan row.
    pub fn chunk_range(self, chunk: usize, q_col: usize) -> Range<usize> {
        let blocks = self.chunk_blocks(chunk);
        let start = blocks.start * self.q_cols() + q_col * blocks.len();
        start..start + blocks.len()
    }
}

/// What [`TransformRows::transform_row`] refuses.
#[derive(Debug, thiserror::Error)]
pub enum TransformError {
    /// The counts are not `pixels x cols`.
    #[error("scan row of {got} counts, expected {pixels} pixels x {cols} columns")]
    WrongLength {
        /// Counts given.
        got: usize,
        /// Bright-field pixels.
        pixels: usize,
        /// Scan columns.
        cols: usize,
    },
    /// The coverage is not one flag a scan column.
    #[error("coverage of {got} scan columns, expected {expected}")]
    WrongCoverage {
        /// Flags given.
        got: usize,
        /// Scan columns.
        expected: usize,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Fourier transforms along a scan row.
pub trait TransformRows: Device {
    /// Transforms one scan row of every bright-field pixel.
    ///
    /// In: counts in host memory, `[pixel][scan_col]`; `covered`, one flag a scan column, positions that are not covered count as
    /// zero whatever `counts` holds there. Out: sum over columns of I exp(-2 pi i q_col col / cols), unnormalised,
    /// q_col in 0..=cols/2, laid out as [`SpectraShape`] says.
    ///
    /// # Errors
    /// [`TransformError::WrongLength`], [`TransformError::WrongCoverage`], [`TransformError::Device`].
    fn transform_row(
        &self,
        counts: &[u32],
        covered: &[bool],
        shape: SpectraShape,
    ) -> Result<Self::Buffer<PixelBlock>, TransformError>;
}

fn check(counts: usize, covered: usize, shape: SpectraShape) -> Result<(), TransformError> {
    let (pixels, cols) = (shape.pixels, shape.scan.cols);
    if counts != pixels.saturating_mul(cols) {
        return Err(TransformError::WrongLength { got: counts, pixels, cols });
    }
    if covered != cols {
        return Err(TransformError::WrongCoverage { got: covered, expected: cols });
    }
    Ok(())
}
