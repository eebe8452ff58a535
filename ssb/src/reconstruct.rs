//! From spectra to a phase image.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use kernels::correct_spectra::{BrightFieldPixels, CorrectSpectra, GammaModel};
use kernels::object_images::{MakeObjectImages, Normalisation, ObjectImages, ObjectPlanes};
use kernels::phase_moments::PhaseMomentsOfPixels;
use kernels::transform_rows::TransformRows;
use kernels::types::{Optics, ScanShape};
use num_complex::Complex32;

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
    /// Whether spectrum and transfer function are wanted too.
    pub with_planes: bool,
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
        Self { least_squares_damping: 0.01, with_planes: false, moments: Moments::Skip }
    }
}

/// The result. Images are `[scan_row][scan_col]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconstruction {
    /// The scan.
    pub scan: ScanShape,
    /// The real part of the object wave O = inverse transform of the mean over pixels of G conj(gamma) / |gamma|, the same
    /// everywhere. Counts a bright-field pixel.
    pub real: f32,
    /// The imaginary part of O.
    pub imaginary: Vec<f32>,
    /// arg O \[rad\]; damped by the transfer function, so smaller than the true phase shift.
    pub phase: Vec<f32>,
    /// |O|, counts a bright-field pixel.
    pub amplitude: Vec<f32>,
    /// The least-squares phase \[rad\]: quantitative where the transfer function is not near zero; mean zero.
    pub phase_least_squares: Vec<f32>,
    /// Spectrum and transfer function, when asked for.
    pub planes: Option<ObjectPlanes>,
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
    /// The object wave O.
    pub fn object(&self) -> Vec<Complex32> {
        self.imaginary.iter().map(|&imaginary| Complex32::new(self.real, imaginary)).collect()
    }

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
    let (damping, with_planes) = (options.least_squares_damping, options.with_planes);
    let by = Normalisation { num_pixels, dc, damping, with_planes };
    let images_of = spectra.device().object_images(&sums, scan, by)?;
    let ObjectImages { imaginary, phase, amplitude, phase_least_squares, most_transfer, planes } = images_of;
    let images = start.elapsed();

    let start = Instant::now();
    let moments = match options.moments {
        Moments::Skip => None,
        Moments::Compute => Some(spectra.device().phase_moments(&input, &pixels, &model, dc)?),
    };
    let timings = Timings { columns, images, moments: start.elapsed() };

    let mut warnings = warnings(&optics, bright_field);
    warnings.extend(warnings_of_result(&optics, scan, most_transfer, &phase));
    if num_covered < scan.positions() {
        let positions = scan.positions();
        warnings.push(Warning::Filled { missing: positions - num_covered, positions });
    }
    Ok(Reconstruction {
        scan,
        real: (dc / num_positions) as f32,
        imaginary,
        phase,
        amplitude,
        phase_least_squares,
        planes,
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
    // both ascend
    let mut wanted = bright_field.pixels.iter().peekable();
    let is_used = |pixel: &u32| {
        while wanted.next_if(|&wanted| wanted < pixel).is_some() {}
        wanted.next_if_eq(&pixel).is_some()
    };
    let used: Vec<bool> = held.iter().map(is_used).collect();
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
