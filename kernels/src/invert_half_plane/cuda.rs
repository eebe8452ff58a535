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
        let plane = self.upload(plane)?;
        Ok(self.download(&invert_planes(self, &plane, 1, scan, None)?)?)
    }
}

/// `num` planes `[plane][q_row][q_col]`, which change, to images `[plane][scan_row][scan_col]`. `fourier` is that of columns
/// and that of rows; made here where there is none.
pub(crate) fn invert_planes(
    device: &Cuda,
    planes: &CudaBuffer<Complex64>,
    num: usize,
    scan: ScanShape,
    fourier: Option<&[Fourier<Complex64>; 2]>,
) -> Result<CudaBuffer<f64>, InvertError> {
    let q_cols = scan.cols / 2 + 1;
    assert_eq!(planes.len(), num * scan.rows * q_cols, "as many planes as are asked for");
    let images: CudaBuffer<f64> = device.uninitialised(num * scan.positions())?;
    if scan.positions() == 0 {
        return Ok(images);
    }
    let made;
    let [columns, rows] = match fourier {
        Some(fourier) => fourier,
        None => {
            made = [Fourier::new(device, scan.rows)?, Fourier::new(device, scan.cols)?];
            &made
        }
    };
    let bytes = |len: usize| 2 * len * size_of::<Complex64>();

    let lines = Lines::of_all(device, bytes(scan.rows), q_cols * num)?;
    let [plan, roots] = columns.arguments();
    let launch = Launch {
        kernel: &INVERT_COLUMNS,
        grid: [q_cols as u32, num as u32],
        threads: THREADS,
        shared_bytes: lines.shared_bytes,
        arguments: &[planes.argument(), plan, roots, lines.argument(), Argument::U32(scan.rows as u32)],
    };
    // SAFETY: invert_columns.cu reads and writes rows x q_cols values a plane (asserted), a column a block, and uses 2 rows
    // values a block, which `lines` has for each.
    unsafe { device.launch(&launch) }?;

    let lines = Lines::of_all(device, bytes(scan.cols), scan.rows * num)?;
    let [plan, roots] = rows.arguments();
    let launch = Launch {
        kernel: &INVERT_ROWS,
        grid: [scan.rows as u32, num as u32],
        threads: THREADS,
        shared_bytes: lines.shared_bytes,
        arguments: &[
            planes.argument(),
            images.argument(),
            plan,
            roots,
            lines.argument(),
            Argument::U32(scan.cols as u32),
            Argument::F64(1.0 / scan.positions() as f64),
        ],
    };
    // SAFETY: invert_rows.cu reads rows x q_cols values a plane and writes rows x cols, a row a block, and uses 2 cols values
    // a block, which `lines` has for each.
    unsafe { device.launch(&launch) }?;
    Ok(images)
}
