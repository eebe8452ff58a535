//! invert_half_plane on CUDA: columns, then rows from complex to real, in double.

use num_complex::Complex64;

use super::{InvertError, InvertHalfPlane, check};
use crate::cuda::fourier::{Fourier, Lines};
use crate::cuda::{Argument, Cuda, CudaBuffer, Kernel, Launch};
use crate::device::Device;
use crate::types::ScanShape;

/// Columns back.
pub(crate) static INVERT_COLUMNS: Kernel =
    Kernel { name: "invert_columns", source: include_str!("invert_columns.cu") };
/// Rows back, to real.
pub(crate) static INVERT_ROWS: Kernel =
    Kernel { name: "invert_rows", source: include_str!("invert_rows.cu") };

const THREADS: u32 = 128;

impl InvertHalfPlane for Cuda {
    fn invert_half_plane(&self, plane: &[Complex64], scan: ScanShape) -> Result<Vec<f64>, InvertError> {
        check(plane, scan)?;
        if scan.positions() == 0 {
            return Ok(Vec::new());
        }
        let q_cols = scan.cols / 2 + 1;
        let plane = self.upload(plane)?;
        let image: CudaBuffer<f64> = self.uninitialised(scan.positions())?;
        let bytes = |len: usize| 2 * len * size_of::<Complex64>();

        let fourier = Fourier::<Complex64>::new(self, scan.rows)?;
        let lines = Lines::of_all(self, bytes(scan.rows), q_cols)?;
        let [plan, roots] = fourier.arguments();
        let launch = Launch {
            kernel: &INVERT_COLUMNS,
            grid: [q_cols as u32, 1],
            threads: THREADS,
            shared_bytes: lines.shared_bytes,
            arguments: &[plane.argument(), plan, roots, lines.argument(), Argument::U32(scan.rows as u32)],
        };
        // SAFETY: invert_columns.cu reads and writes rows x q_cols values (`check`), a column a block, and uses 2 rows values a
        // block, which `lines` has for each.
        unsafe { self.launch(&launch) }?;

        let fourier = Fourier::<Complex64>::new(self, scan.cols)?;
        let lines = Lines::of_all(self, bytes(scan.cols), scan.rows)?;
        let [plan, roots] = fourier.arguments();
        let launch = Launch {
            kernel: &INVERT_ROWS,
            grid: [scan.rows as u32, 1],
            threads: THREADS,
            shared_bytes: lines.shared_bytes,
            arguments: &[
                plane.argument(),
                image.argument(),
                plan,
                roots,
                lines.argument(),
                Argument::U32(scan.cols as u32),
                Argument::F64(1.0 / scan.positions() as f64),
            ],
        };
        // SAFETY: invert_rows.cu reads rows x q_cols values and writes rows x cols, a row a block, and uses 2 cols values a
        // block, which `lines` has for each.
        unsafe { self.launch(&launch) }?;
        Ok(self.download(&image)?)
    }
}
