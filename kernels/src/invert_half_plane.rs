//! invert_half_plane: the real image of half a Hermitian plane.

mod cpu;
mod cuda;
#[cfg(test)]
mod tests;

use num_complex::Complex64;

pub(crate) use cuda::{INVERT_COLUMNS, INVERT_ROWS, invert_planes};

use crate::device::{Device, DeviceError};
use crate::types::ScanShape;

/// What inverting refuses.
#[derive(Debug, thiserror::Error)]
pub enum InvertError {
    /// The plane is not `rows x (cols / 2 + 1)`.
    #[error("half plane of {got} values, expected {expected} for a {scan} image")]
    WrongLength {
        /// Values given.
        got: usize,
        /// Values the shape asks for.
        expected: usize,
        /// The image.
        scan: ScanShape,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The inverse transform of half planes.
pub trait InvertHalfPlane: Device {
    /// u(R) = 1/(rows cols) sum_q U(q) exp(2 pi i q . R) for a Hermitian U, float64.
    ///
    /// In: `[q_row][q_col]`, q_col in 0..=cols/2. Out: `[scan_row][scan_col]`. Where a column is its own mirror image
    /// (0, and Nyquist for even cols) only the Hermitian part of it counts.
    ///
    /// # Errors
    /// [`InvertError::WrongLength`], [`InvertError::Device`].
    fn invert_half_plane(&self, plane: &[Complex64], scan: ScanShape) -> Result<Vec<f64>, InvertError>;
}

fn check(plane: &[Complex64], scan: ScanShape) -> Result<(), InvertError> {
    let expected = scan.rows.saturating_mul(scan.cols / 2 + 1);
    if plane.len() != expected {
        return Err(InvertError::WrongLength { got: plane.len(), expected, scan });
    }
    Ok(())
}
