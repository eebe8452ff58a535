//! phase_moments: the phase image of every single bright-field pixel, averaged, and how much they disagree.

mod cpu;
mod cuda;
#[cfg(test)]
mod tests;

pub(crate) use cuda::{CORRECT_PLANES, SUM_PHASES};

use crate::correct_spectra::{BrightFieldPixels, CorrectError, GammaModel, Spectra};
use crate::transform_rows::TransformRows;

/// What computing moments refuses.
#[derive(Debug, thiserror::Error)]
pub enum MomentsError {
    /// The mean of G at q = 0 is what phases are measured against.
    #[error("mean spectrum at zero frequency is {got}, expected a positive number of counts")]
    NoCounts {
        /// The value given.
        got: f64,
    },
    /// No pixel takes part.
    #[error("none of {pixels} bright-field pixels is used")]
    NoPixels {
        /// Pixels of the spectra.
        pixels: usize,
    },
    /// The spectra do not fit their shape.
    #[error(transparent)]
    Correct(#[from] CorrectError),
}

/// Moments of the phases phi_k(R) = arg O_k(R), O_k = inverse transform of G conj(gamma) / max(|gamma|, 1e-8) of one
/// pixel k, with the common `dc` at q = 0.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseMoments {
    /// mean_k phi_k \[rad\], `[scan_row][scan_col]`.
    pub mean: Vec<f64>,
    /// mean over R of (mean_k phi_k^2 - (mean_k phi_k)^2) \[rad^2\]: smallest where the aberrations are right.
    pub loss: f64,
}

/// Moments of single-pixel phases.
pub trait PhaseMomentsOfPixels: TransformRows {
    /// Corrects, inverts and takes the phase of every used pixel.
    ///
    /// `dc` is mean_k G(0, k). Summed in float64 in a fixed order: the same bits whatever the number of threads. Costs
    /// several times [`correct_spectra`](crate::correct_spectra::CorrectSpectra::correct_spectra).
    ///
    /// # Errors
    /// [`MomentsError`]: no counts, no pixel, or spectra that do not fit their shape.
    fn phase_moments(
        &self,
        spectra: &Spectra<'_, Self>,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
        dc: f64,
    ) -> Result<PhaseMoments, MomentsError>;
}

/// Checks what every device needs, and gives the number of pixels that take part.
fn check<D: TransformRows>(
    spectra: &Spectra<'_, D>,
    pixels: &BrightFieldPixels,
    dc: f64,
) -> Result<usize, MomentsError> {
    crate::correct_spectra::check(spectra, Some(pixels))?;
    if !(dc > 0.0 && dc.is_finite()) {
        return Err(MomentsError::NoCounts { got: dc });
    }
    match pixels.num_used() {
        0 => Err(MomentsError::NoPixels { pixels: pixels.used.len() }),
        num_used => Ok(num_used),
    }
}
