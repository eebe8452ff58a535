//! From spectra to a phase image.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use kernels::correct_spectra::{BrightFieldPixels, CorrectSpectra, GammaModel};
use kernels::object_images::{MakeObjectImages, Normalisation, ObjectImages};
use kernels::phase_moments::PhaseMomentsOfPixels;
use kernels::transform_rows::TransformRows;
use kernels::types::{Optics, ScanShape};
use num_complex::{Complex32, Complex64};

use crate::bright_field::BrightField;
use crate::error::SsbError;
use crate::spectra::LiveSpectra;
use crate::warning::{Warning, warnings, warnings_of_result};

/// Every operation that single-sideband ptychography needs of a device.
pub trait SsbDevice: TransformRows + CorrectSpectra + MakeObjectImages + PhaseMomentsOfPixels {}

impl<D: TransformRows + CorrectSpectra + MakeObjectImages + PhaseMomentsOfPixels> SsbDevice for D {}

/// What to compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Damping of the least-squares phase, as a part of the largest sum_k |gamma|^2.
    pub least_squares_damping: f64,
    /// Whether to compute the mean phase and its variance over pixels, which costs several reconstructions.
    pub moments: Moments,
}

/// Whether single-pixel phases are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moments {
    /// No.
    #[default]
    Skip,
    /// Mean phase and phase-variance loss.
    Compute,
}

impl Default for Options {
    fn default() -> Self {
        Self { least_squares_damping: 0.01, moments: Moments::Skip }
    }
}

/// The result. Images are `[scan_row][scan_col]`, half planes `[q_row][q_col]` with q_col in 0..=cols/2.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconstruction {
    /// The scan.
    pub scan: ScanShape,
    /// The object wave O = inverse transform of the mean over pixels of G conj(gamma) / |gamma|.
    pub object: Vec<Complex32>,
    /// arg O \[rad\]; damped by the transfer function, so smaller than the true phase shift.
    pub phase: Vec<f32>,
    /// |O|, counts a bright-field pixel.
    pub amplitude: Vec<f32>,
    /// The spectrum of O, half plane, unnormalised; the other half is C(-q) = -conj C(q), but for the real C(0).
    pub spectrum: Vec<Complex64>,
    /// mean over pixels of |gamma|: how much of a frequency comes through, half plane.
    pub transfer: Vec<f64>,
    /// The least-squares phase \[rad\]: quantitative where the transfer function is not near zero; mean zero.
    pub phase_least_squares: Vec<f32>,
    /// mean_k arg O_k \[rad\], when asked for.
    pub mean_phase: Option<Vec<f32>>,
    /// Phase-variance loss \[rad^2\], when asked for.
    pub loss: Option<f64>,
    /// Bright-field pixels that took part.
    pub num_pixels: usize,
    /// Scan positions that were there; the rest counts as each pixel's mean.
    pub num_covered: usize,
    /// What limits the result.
    pub warnings: Vec<Warning>,
    /// How long it took.
    pub timings: Timings,
    /// `cpu` or `cuda`: what computed it.
    pub device: &'static str,
}

impl Reconstruction {
    /// Whether the phase shows anything: false when no spatial frequency came through, or all phases are the same.
    pub fn has_phase(&self) -> bool {
        !self.warnings.iter().any(Warning::is_without_phase)
    }
}

/// Time per step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Column transforms, correction and sums; where a device works beside the caller, until they were asked for.
    pub columns: Duration,
    /// Inverse transforms and phases.
    pub images: Duration,
    /// Mean phase and loss.
    pub moments: Duration,
}

/// Reconstructs from the rows that are there.
///
/// The pixels of `bright_field` must be among those of `spectra`, which may hold more. Detector sampling and beam centre
/// are those of `bright_field`; `optics.detector_sampling` is not read.
///
/// O = dc + i u with u real, because the corrected spectrum is anti-Hermitian ([`kernels::object_images`]). At the Nyquist
/// frequency of an even axis, which is its own mirror image, the anti-Hermitian part is taken; that matters only where the
/// transfer function reaches that far.
///
/// # Errors
/// [`SsbError::Empty`] before the first row; [`SsbError::WrongLength`] when `spectra` lacks a pixel;
/// [`SsbError::Model`] for impossible optics; what the device refuses.
pub fn reconstruct<D: SsbDevice>(
    spectra: &LiveSpectra<D>,
    bright_field: &BrightField,
    optics: &Optics,
    options: &Options,
) -> Result<Reconstruction, SsbError> {
    let scan = spectra.scan();
    let num_covered = spectra.num_covered();
    if num_covered == 0 {
        return Err(SsbError::Empty { scan });
    }
    let optics = Optics { detector_sampling: bright_field.sampling, ..optics.clone() };
    let model = GammaModel::new(&optics)?;
    let pixels = pixels(spectra.pixels(), bright_field, &model)?;
    let num_pixels = pixels.num_used();
    let num_positions = scan.positions() as f64;
    let means = spectra.means();
    let used_means = means.iter().zip(&pixels.used).filter(|&(_, &used)| used).map(|(mean, _)| mean);
    let dc = used_means.sum::<f64>() / num_pixels.max(1) as f64 * num_positions;
    if dc <= 0.0 {
        return Err(SsbError::NoDisk {
            good_pixels: num_pixels,
            mean_counts: 0.0,
            brightest: 0.0,
            saturated: bright_field.marked.len(),
        });
    }

    let start = Instant::now();
    let fill = spectra.fill();
    let input = spectra.filled(fill.as_ref());
    let sums = spectra.device().correct_spectra(&input, &pixels, &model)?;
    let columns = start.elapsed();

    let start = Instant::now();
    let by = Normalisation { num_pixels, dc, damping: options.least_squares_damping };
    let ObjectImages { imaginary, phase, amplitude, phase_least_squares, spectrum, transfer } =
        spectra.device().object_images(&sums, scan, by)?;
    let images = start.elapsed();

    let start = Instant::now();
    let moments = match options.moments {
        Moments::Skip => None,
        Moments::Compute => Some(spectra.device().phase_moments(&input, &pixels, &model, dc)?),
    };
    let timings = Timings { columns, images, moments: start.elapsed() };

    let mut warnings = warnings(&optics, bright_field);
    warnings.extend(warnings_of_result(&optics, scan, &transfer, &phase));
    if num_covered < scan.positions() {
        let positions = scan.positions();
        warnings.push(Warning::Filled { missing: positions - num_covered, positions });
    }
    Ok(Reconstruction {
        scan,
        object: imaginary.iter().map(|&u| Complex32::new((dc / num_positions) as f32, u)).collect(),
        phase,
        amplitude,
        spectrum,
        transfer,
        phase_least_squares,
        loss: moments.as_ref().map(|moments| moments.loss),
        mean_phase: moments.map(|moments| to_f32(&moments.mean)),
        num_pixels,
        num_covered,
        warnings,
        timings,
        device: spectra.keeper(),
    })
}

/// Where the pixels of the spectra are, and which of them the bright field uses.
pub(crate) fn pixels(
    held: &[u32],
    bright_field: &BrightField,
    model: &GammaModel,
) -> Result<BrightFieldPixels, SsbError> {
    let angle = |&pixel: &u32| {
        let [row, col] = bright_field.row_col(pixel);
        model.angle_of_pixel(row, col, bright_field.centre)
    };
    let used: Vec<bool> = held.iter().map(|pixel| bright_field.pixels.binary_search(pixel).is_ok()).collect();
    let pixels = BrightFieldPixels { angles: held.iter().map(angle).collect(), used };
    let (got, expected) = (pixels.num_used(), bright_field.pixels.len());
    if got != expected {
        return Err(SsbError::WrongLength { what: "bright-field pixels with spectra", got, expected });
    }
    Ok(pixels)
}

fn to_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}
