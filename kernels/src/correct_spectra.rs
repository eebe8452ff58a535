//! correct_spectra: the column transform, the correction and the sum over bright-field pixels in one pass.
//!
//! Reads row transforms ([`crate::transform_rows`]), finishes G(q, k) a few pixels at a time, and adds up, for every
//! scan frequency q of the half plane, what a reconstruction needs. G is never written.

mod cpu;
mod cuda;
mod frequencies;
mod gamma;
mod geometry;
mod overlap;
mod runs;
mod sums;
#[cfg(test)]
mod tests;

pub use gamma::{GammaModel, ModelError};
pub use sums::CudaSums;

pub(crate) use cpu::load_column;
pub(crate) use cuda::{
    CORRECT_OBLONG, CORRECT_QUADRATIC, CORRECT_SPECTRA, CudaModel, OVERLAP_FUNCTION, SUM_PARTS,
    TRANSFORM_COLUMNS, at_once, for_finished, sum_parts, transform_columns,
};
pub(crate) use frequencies::{Frequency, column_frequencies};
pub(crate) use geometry::ChunkGeometry;
pub(crate) use overlap::{Aperture, Reach, conj_gamma};

use num_complex::{Complex32, Complex64};

use crate::device::DeviceError;
use crate::transform_rows::{SpectraShape, TransformRows};
use crate::types::ScanShape;

/// The bright-field pixels of spectra: where each is, and whether it takes part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrightFieldPixels {
    /// k of every pixel, in units of the semi-angle, (row, col) in the scan frame ([`GammaModel::angle_of_pixel`]).
    pub angles: Vec<[f64; 2]>,
    /// Whether the pixel takes part in sums. Spectra may hold more pixels than a reconstruction uses.
    pub used: Vec<bool>,
}

impl BrightFieldPixels {
    /// Number of pixels that take part.
    pub fn num_used(&self) -> usize {
        self.used.iter().filter(|&&used| used).count()
    }
}

/// Row transforms of a scan, complete or not.
#[derive(Debug)]
pub struct Spectra<'a, D: TransformRows> {
    /// The transformed rows. A missing row counts as zero.
    pub rows: &'a D::Rows,
    /// What stands at scan positions that are not there.
    pub fill: Option<&'a MeanFill>,
}

impl<D: TransformRows> Spectra<'_, D> {
    /// The shape of all of it.
    pub fn shape(&self) -> SpectraShape {
        D::shape(self.rows)
    }
}

/// Fills positions that are not there with each pixel's mean: G gains mean_k times the transform of the gaps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeanFill {
    /// Mean counts of every pixel.
    pub means: Vec<f32>,
    /// For every scan row the row transform of its missing positions (1 where missing), `[q_col]`; None without gaps.
    pub gaps: Vec<Option<Vec<Complex32>>>,
}

/// Sums over the used pixels, half plane `[q_row][q_col]`, q_col in 0..=cols/2, float64.
///
/// At the Nyquist frequency of an even axis q and -q are the same sample; values there are the mean of both signs,
/// which is what makes the plane exactly anti-Hermitian.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrectedSums {
    /// sum_k G conj(gamma) / max(|gamma|, 1e-8): the phase-only correction. Zero at q = 0.
    pub corrected: Vec<Complex64>,
    /// sum_k G conj(gamma).
    pub numerator: Vec<Complex64>,
    /// sum_k |gamma|^2.
    pub denominator: Vec<f64>,
    /// sum_k |gamma|.
    pub transfer: Vec<f64>,
}

/// What correcting refuses.
#[derive(Debug, thiserror::Error)]
pub enum CorrectError {
    /// A part of the input does not have the length the shape asks for.
    #[error("{what}: got {got}, expected {expected}")]
    WrongLength {
        /// Which part.
        what: &'static str,
        /// Length given.
        got: usize,
        /// Length the shape asks for.
        expected: usize,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The correction of spectra by the overlap function.
pub trait CorrectSpectra: TransformRows {
    /// Sums of a correction, where the device keeps them; [`Self::download_sums`] gives them.
    type Sums: std::fmt::Debug + Send;

    /// Finishes what can be finished of G once no row comes any more, with `fill` where positions are not there: what is
    /// asked of the rows afterwards is answered sooner where a device gains from it, and is the same. `fill` must be that of
    /// every [`Spectra`] of them from then on, and no row may be transformed into them.
    ///
    /// # Errors
    /// [`CorrectError::WrongLength`] when the fill does not fit the shape; [`CorrectError::Device`].
    fn close_rows(&self, rows: &mut Self::Rows, fill: Option<&MeanFill>) -> Result<(), CorrectError>;

    /// Finishes G(q, k), corrects it and sums over the used pixels.
    ///
    /// The order of summation is fixed: the same input gives the same bits whatever the number of threads.
    ///
    /// # Errors
    /// [`CorrectError::WrongLength`] when the fill or `pixels` does not fit the shape; [`CorrectError::Device`].
    fn correct_spectra(
        &self,
        spectra: &Spectra<'_, Self>,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
    ) -> Result<Self::Sums, CorrectError>;

    /// The sums on the host.
    ///
    /// # Errors
    /// [`CorrectError::Device`].
    fn download_sums(&self, sums: &Self::Sums) -> Result<CorrectedSums, CorrectError>;

    /// Sums that were taken elsewhere.
    ///
    /// # Errors
    /// [`CorrectError::WrongLength`] when the planes have different lengths; [`CorrectError::Device`].
    fn upload_sums(&self, sums: &CorrectedSums) -> Result<Self::Sums, CorrectError>;

    /// gamma(k, q) itself, not normalised, half plane `[pixel][q_row][q_col]`, by the arithmetic of
    /// [`Self::correct_spectra`]; pixels that are not used give zero.
    ///
    /// # Errors
    /// [`CorrectError::WrongLength`] when `pixels` has angles and flags of different number; [`CorrectError::Device`].
    fn overlap_function(
        &self,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
        scan: ScanShape,
    ) -> Result<Vec<Complex32>, CorrectError>;

    /// The spectrum G(q, k) of one pixel, half plane `[q_row][q_col]`, unnormalised.
    ///
    /// # Errors
    /// [`CorrectError::WrongLength`] when there is no such pixel or the fill does not fit the shape.
    fn pixel_spectrum(
        &self,
        spectra: &Spectra<'_, Self>,
        pixel: usize,
    ) -> Result<Vec<Complex32>, CorrectError>;
}

/// Checks the lengths of pixels and fill.
pub(crate) fn check<D: TransformRows>(
    spectra: &Spectra<'_, D>,
    pixels: Option<&BrightFieldPixels>,
) -> Result<(), CorrectError> {
    let shape = spectra.shape();
    let expect = |what, got: usize, expected: usize| match got == expected {
        true => Ok(()),
        false => Err(CorrectError::WrongLength { what, got, expected }),
    };
    if let Some(pixels) = pixels {
        expect("angles of bright-field pixels", pixels.angles.len(), shape.pixels)?;
        expect("use of bright-field pixels", pixels.used.len(), shape.pixels)?;
    }
    if let Some(fill) = spectra.fill {
        expect("means of bright-field pixels", fill.means.len(), shape.pixels)?;
        expect("gaps of scan rows", fill.gaps.len(), shape.scan.rows)?;
        for gap in fill.gaps.iter().flatten() {
            expect("frequencies of a gap", gap.len(), shape.q_cols())?;
        }
    }
    Ok(())
}

/// Checks that all planes of sums have one length, and gives it.
fn check_sums(sums: &CorrectedSums) -> Result<usize, CorrectError> {
    let expected = sums.corrected.len();
    let planes = [
        ("the sums of G conj(gamma)", sums.numerator.len()),
        ("the sums of |gamma|^2", sums.denominator.len()),
        ("the sums of |gamma|", sums.transfer.len()),
    ];
    match planes.into_iter().find(|&(_, got)| got != expected) {
        None => Ok(expected),
        Some((what, got)) => Err(CorrectError::WrongLength { what, got, expected }),
    }
}

/// Checks that pixels have as many flags as angles, and gives their number.
fn check_overlap(pixels: &BrightFieldPixels) -> Result<usize, CorrectError> {
    let (got, expected) = (pixels.used.len(), pixels.angles.len());
    match got == expected {
        true => Ok(expected),
        false => Err(CorrectError::WrongLength { what: "use of bright-field pixels", got, expected }),
    }
}
