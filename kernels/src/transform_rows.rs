//! transform_rows: Fourier transforms along one scan row, for every bright-field pixel.
//!
//! The first half of G(q, k) = sum over scan positions of I(R, k) exp(-2 pi i q . R): along the scan row, as soon as
//! the row is there. The other half, along scan columns, is fused with the correction
//! ([`crate::correct_spectra`]).

mod cpu;
mod cuda;
#[cfg(test)]
mod tests;

use std::ops::Range;

use num_complex::Complex32;

pub use cpu::CpuRows;
pub use cuda::CudaRows;
pub(crate) use cuda::TRANSFORM_ROWS;

use crate::device::{Device, DeviceError};
use crate::lanes::LANES;
use crate::types::ScanShape;

/// [`PixelBlock`](crate::lanes::PixelBlock)s that lie side by side for one scan frequency: 256 pixels.
pub(crate) const BLOCKS_PER_CHUNK: usize = 16;

/// The shape of spectra G.
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

    /// Blocks of 16 pixels, the last one padded: on the processor a scan row is
    /// `[chunk of 256 pixels][q_col][block of 16 pixels]`, so that a column transform reads 2 KiB at a time and threads
    /// that transform different chunks write to different memory. Lanes beyond the last pixel are zero.
    pub(crate) fn blocks(self) -> usize {
        self.pixels.div_ceil(LANES)
    }

    /// Chunks of 256 pixels, the last one as long as needed.
    pub(crate) fn chunks(self) -> usize {
        self.blocks().div_ceil(BLOCKS_PER_CHUNK)
    }

    /// Number of [`PixelBlock`](crate::lanes::PixelBlock)s in one transformed scan row.
    pub(crate) fn row_len(self) -> usize {
        self.blocks().saturating_mul(self.q_cols())
    }

    /// The blocks of one chunk.
    pub(crate) fn chunk_blocks(self, chunk: usize) -> Range<usize> {
        chunk * BLOCKS_PER_CHUNK..((chunk + 1) * BLOCKS_PER_CHUNK).min(self.blocks())
    }

    /// Where one chunk at one scan frequency lies in a transformed scan row.
    pub(crate) fn chunk_range(self, chunk: usize, q_col: usize) -> Range<usize> {
        let blocks = self.chunk_blocks(chunk);
        let start = blocks.start * self.q_cols() + q_col * blocks.len();
        start..start + blocks.len()
    }
}

/// What transforming rows refuses.
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
    /// There is no such scan row.
    #[error("scan row {got}, expected one of {rows}")]
    NoSuchRow {
        /// The row asked for.
        got: usize,
        /// Rows of the scan.
        rows: usize,
    },
    /// The rows were closed.
    #[error("scan row {row} came after the scan was closed")]
    Closed {
        /// The row.
        row: usize,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Fourier transforms along a scan row.
pub trait TransformRows: Device {
    /// The transformed rows of one scan, complete or not.
    type Rows: Send + Sync + std::fmt::Debug;

    /// A scan of which no row is there yet.
    ///
    /// # Errors
    /// [`TransformError::Device`] where there is no memory for it.
    fn open_rows(&self, shape: SpectraShape) -> Result<Self::Rows, TransformError>;

    /// The shape the rows were opened with.
    fn shape(rows: &Self::Rows) -> SpectraShape;

    /// `cpu` or `cuda`: where these rows are kept, and what is computed of them.
    fn keeper(rows: &Self::Rows) -> &'static str;

    /// Bytes that all rows of a scan take.
    fn rows_bytes(shape: SpectraShape) -> u64;

    /// Transforms one scan row of every bright-field pixel; one that is there already is replaced.
    ///
    /// In: counts in host memory, `[pixel][scan_col]`; `covered`, one flag a scan column, positions that are not covered count as
    /// zero whatever `counts` holds there. To the rows: sum over columns of I exp(-2 pi i q_col col / cols),
    /// unnormalised, q_col in 0..=cols/2.
    ///
    /// # Errors
    /// [`TransformError`]: lengths, row, or the device; the rows are then as before.
    fn transform_row(
        &self,
        rows: &mut Self::Rows,
        scan_row: usize,
        counts: &[u32],
        covered: &[bool],
    ) -> Result<(), TransformError>;

    /// One transformed row, `[pixel][q_col]`; zero where it is not there.
    ///
    /// # Errors
    /// [`TransformError::NoSuchRow`], [`TransformError::Device`].
    fn row_spectra(&self, rows: &Self::Rows, scan_row: usize) -> Result<Vec<Complex32>, TransformError>;
}

fn check_row(scan_row: usize, shape: SpectraShape) -> Result<(), TransformError> {
    match scan_row < shape.scan.rows {
        true => Ok(()),
        false => Err(TransformError::NoSuchRow { got: scan_row, rows: shape.scan.rows }),
    }
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
