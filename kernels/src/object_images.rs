//! object_images: from the sums of a correction to the images of a reconstruction.
//!
//! O = dc + i u with u real, because the corrected spectrum is anti-Hermitian; hence half the frequencies, one transform
//! from complex to real, and phase = atan(u / dc). Least squares: phi(q) = (positions / dc) sum G conj gamma /
//! (i (sum |gamma|^2 + damping max)).

mod cpu;
mod cuda;
#[cfg(test)]
mod tests;

use num_complex::Complex64;

pub(crate) use cuda::{FINISH_IMAGES, LARGEST_SUMS, OBJECT_PLANES};

use crate::correct_spectra::{CorrectError, CorrectSpectra};
use crate::device::DeviceError;
use crate::invert_half_plane::InvertError;
use crate::types::ScanShape;

/// What turns sums into an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalisation {
    /// Bright-field pixels that took part.
    pub num_pixels: usize,
    /// Mean over them of all counts of a pixel; above 0.
    pub dc: f64,
    /// Damping of the least-squares phase, as a part of the largest sum_k |gamma|^2.
    pub damping: f64,
    /// Whether the half planes are wanted too.
    pub with_planes: bool,
}

/// Images, `[scan_row][scan_col]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectImages {
    /// Im O; Re O is dc / positions everywhere. Counts a bright-field pixel.
    pub imaginary: Vec<f32>,
    /// arg O \[rad\].
    pub phase: Vec<f32>,
    /// |O|, counts a bright-field pixel.
    pub amplitude: Vec<f32>,
    /// The least-squares phase \[rad\].
    pub phase_least_squares: Vec<f32>,
    /// Largest mean over pixels of |gamma|; 0 where nothing comes through.
    pub most_transfer: f64,
    /// When asked for.
    pub planes: Option<ObjectPlanes>,
}

/// Half planes `[q_row][q_col]`, q_col in 0..=cols/2.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectPlanes {
    /// The spectrum of O, unnormalised, dc at q = 0; the other half is C(-q) = -conj C(q), but for the real C(0).
    pub spectrum: Vec<Complex64>,
    /// Mean over pixels of |gamma|: how much of a frequency comes through.
    pub transfer: Vec<f64>,
}

/// What making images refuses.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The sums are of another scan.
    #[error("sums of {got} frequencies, expected {expected} for a {scan} scan")]
    WrongLength {
        /// Frequencies there are.
        got: usize,
        /// Frequencies the scan has.
        expected: usize,
        /// The scan.
        scan: ScanShape,
    },
    /// The sums could not be taken.
    #[error(transparent)]
    Correct(#[from] CorrectError),
    /// The transform failed.
    #[error(transparent)]
    Invert(#[from] InvertError),
}

impl ObjectError {
    /// Whether the device had no room.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        let (Self::Correct(CorrectError::Device(error)) | Self::Invert(InvertError::Device(error))) = self
        else {
            return false;
        };
        matches!(error, DeviceError::OutOfMemory { .. })
    }
}

/// The images of an object.
pub trait MakeObjectImages: CorrectSpectra {
    /// Makes the images of sums over `scan`.
    ///
    /// # Errors
    /// [`ObjectError`].
    fn object_images(
        &self,
        sums: &Self::Sums,
        scan: ScanShape,
        by: Normalisation,
    ) -> Result<ObjectImages, ObjectError>;
}

/// Checks that there is a sum for every frequency.
fn check(got: usize, scan: ScanShape) -> Result<(), ObjectError> {
    let expected = scan.rows.saturating_mul(scan.cols / 2 + 1);
    match got == expected {
        true => Ok(()),
        false => Err(ObjectError::WrongLength { got, expected, scan }),
    }
}
