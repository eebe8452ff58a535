//! transform_rows on CUDA: all rows lie in one buffer, `[pixel][scan_row][q_col]`, and a row is written into its place.

use std::sync::Arc;

use num_complex::{Complex32, Complex64};

use super::{SpectraShape, TransformError, TransformRows, check, check_row};
use crate::cuda::fourier::{Fourier, Lines, batch};
use crate::cuda::{Argument, Cuda, CudaBuffer, Kernel, Launch};
use crate::device::{Device, DeviceError};

/// Transforms one scan row.
pub(crate) static TRANSFORM_ROWS: Kernel =
    Kernel { name: "transform_rows", source: include_str!("transform_rows.cu") };

const THREADS: u32 = 128;

/// Transformed rows in device memory.
#[derive(Debug)]
pub struct CudaRows {
    pub(crate) shape: SpectraShape,
    /// `[pixel][scan_row][q_col]`, zero where a row is not there.
    pub(crate) spectra: CudaBuffer<Complex32>,
    pub(crate) row_fourier: Fourier<Complex32>,
    pub(crate) column_fourier: Fourier<Complex32>,
    /// For images: along columns, along rows.
    pub(crate) inverse: Arc<[Fourier<Complex64>; 2]>,
    /// The columns are transformed too: `spectra` is G, `[pixel][q_row][q_col]`.
    pub(crate) is_closed: bool,
}

impl CudaRows {
    /// Values of the half plane of one pixel.
    pub(crate) fn plane(&self) -> usize {
        self.shape.scan.rows * self.shape.q_cols()
    }
}

/// Checks that the sizes of a scan fit the 32-bit numbers of the kernels.
fn check_sizes(device: &Cuda, shape: SpectraShape) -> Result<(), DeviceError> {
    let fits = |value: usize| u32::try_from(value).is_ok_and(|value| value <= u32::MAX / 4);
    let scan = shape.scan;
    if fits(shape.pixels) && fits(scan.rows.saturating_mul(scan.cols + 2)) {
        return Ok(());
    }
    let what =
        format!("spectra of {} pixels and {scan} positions, expected less than 2^30 of each", shape.pixels);
    Err(DeviceError::Failed { device: device.name(), what })
}

impl TransformRows for Cuda {
    type Rows = CudaRows;

    fn open_rows(&self, shape: SpectraShape) -> Result<CudaRows, TransformError> {
        check_sizes(self, shape)?;
        let len = shape.pixels.saturating_mul(shape.scan.rows).saturating_mul(shape.q_cols());
        Ok(CudaRows {
            shape,
            spectra: self.zeros(len)?,
            row_fourier: Fourier::new(self, shape.scan.cols)?,
            column_fourier: Fourier::new(self, shape.scan.rows)?,
            inverse: Arc::new([Fourier::new(self, shape.scan.rows)?, Fourier::new(self, shape.scan.cols)?]),
            is_closed: false,
        })
    }

    fn shape(rows: &CudaRows) -> SpectraShape {
        rows.shape
    }

    fn keeper(_: &CudaRows) -> &'static str {
        "cuda"
    }

    fn rows_bytes(shape: SpectraShape) -> u64 {
        let row = (shape.pixels as u64).saturating_mul(shape.q_cols() as u64).saturating_mul(8);
        row.saturating_mul(shape.scan.rows as u64)
    }

    fn transform_row(
        &self,
        rows: &mut CudaRows,
        scan_row: usize,
        counts: &[u32],
        covered: &[bool],
    ) -> Result<(), TransformError> {
        let shape = rows.shape;
        check_row(scan_row, shape)?;
        check(counts.len(), covered.len(), shape)?;
        if rows.is_closed {
            return Err(TransformError::Closed { row: scan_row });
        }
        if counts.is_empty() {
            return Ok(());
        }
        let (pixels, cols) = (shape.pixels, shape.scan.cols);
        let counts = self.upload_beside(counts)?;
        let flags: Vec<u8> = covered.iter().map(|&covered| covered.into()).collect();
        let flags = self.upload_beside(&flags)?;
        let line = 2 * cols * size_of::<Complex32>();
        let pairs = batch(line, 8);
        let blocks = pixels.div_ceil(2 * pairs);
        let lines = Lines::new(self, line * pairs, blocks)?;
        for first in (0..blocks).step_by(lines.most_blocks.max(1)) {
            let blocks = (blocks - first).min(lines.most_blocks);
            let first_pixel = first * 2 * pairs;
            let [plan, roots] = rows.row_fourier.arguments();
            let launch = Launch {
                kernel: &TRANSFORM_ROWS,
                grid: [blocks as u32, 1],
                threads: THREADS,
                shared_bytes: lines.shared_bytes,
                arguments: &[
                    counts.argument_from(first_pixel * cols),
                    flags.argument(),
                    rows.spectra.argument_from(first_pixel * rows.plane()),
                    plan,
                    roots,
                    lines.argument(),
                    Argument::U32((pixels - first_pixel) as u32),
                    Argument::U32(shape.scan.rows as u32),
                    Argument::U32(cols as u32),
                    Argument::U32(scan_row as u32),
                    Argument::U32(pairs as u32),
                ],
            };
            // SAFETY: transform_rows.cu reads pixels x cols counts and cols flags (`check`), writes row `scan_row` (`check_row`)
            // of pixels x rows x q_cols spectra, and uses 2 cols pairs values a block, which `lines` has for each.
            unsafe { self.launch(&launch) }?;
        }
        Ok(())
    }

    fn row_spectra(&self, rows: &CudaRows, scan_row: usize) -> Result<Vec<Complex32>, TransformError> {
        check_row(scan_row, rows.shape)?;
        if rows.is_closed {
            return Err(TransformError::Closed { row: scan_row });
        }
        let q_cols = rows.shape.q_cols();
        let mut row = Vec::with_capacity(rows.shape.pixels * q_cols);
        for pixel in 0..rows.shape.pixels {
            let first = pixel * rows.plane() + scan_row * q_cols;
            row.extend(self.download_part(&rows.spectra, first, q_cols)?);
        }
        Ok(row)
    }
}
