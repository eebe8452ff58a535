//! object_images on the processor.

use num_complex::Complex64;

use super::{MakeObjectImages, Normalisation, ObjectError, ObjectImages, ObjectPlanes, check};
use crate::correct_spectra::CorrectedSums;
use crate::device::Cpu;
use crate::invert_half_plane::InvertHalfPlane;
use crate::types::ScanShape;

impl MakeObjectImages for Cpu {
    fn object_images(
        &self,
        sums: &CorrectedSums,
        scan: ScanShape,
        by: Normalisation,
    ) -> Result<ObjectImages, ObjectError> {
        check(sums.corrected.len(), scan)?;
        let spectrum = spectrum(sums, by);
        let u = self.invert_half_plane(&imaginary_image(&spectrum), scan)?;
        let least_squares = self.invert_half_plane(&least_squares(sums, scan, by), scan)?;
        let real = by.dc / scan.positions() as f64;
        Ok(ObjectImages {
            phase: u.iter().map(|&u| (u / real).atan() as f32).collect(),
            amplitude: u.iter().map(|&u| real.hypot(u) as f32).collect(),
            imaginary: to_f32(&u),
            phase_least_squares: to_f32(&least_squares),
            most_transfer: sums.transfer.iter().skip(1).copied().fold(0.0, f64::max) / by.num_pixels as f64,
            planes: by.with_planes.then(|| ObjectPlanes {
                transfer: sums.transfer.iter().map(|sum| sum / by.num_pixels as f64).collect(),
                spectrum,
            }),
        })
    }
}

/// The mean over pixels, with the mean counts at zero frequency.
fn spectrum(sums: &CorrectedSums, by: Normalisation) -> Vec<Complex64> {
    let mut spectrum: Vec<Complex64> = sums.corrected.iter().map(|sum| sum / by.num_pixels as f64).collect();
    if let Some(zero) = spectrum.first_mut() {
        *zero = by.dc.into();
    }
    spectrum
}

/// The half plane of u in O = dc + i u.
fn imaginary_image(spectrum: &[Complex64]) -> Vec<Complex64> {
    let mut plane: Vec<Complex64> = spectrum.iter().map(|c| -Complex64::I * c).collect();
    if let Some(zero) = plane.first_mut() {
        *zero = Complex64::ZERO;
    }
    plane
}

/// phi(q), half plane.
fn least_squares(sums: &CorrectedSums, scan: ScanShape, by: Normalisation) -> Vec<Complex64> {
    let positions_per_dc = scan.positions() as f64 / by.dc;
    let damping = by.damping * sums.denominator.iter().copied().fold(0.0, f64::max);
    let at = |(&numerator, &denominator): (&Complex64, &f64)| {
        let denominator = denominator + damping;
        if denominator > 0.0 {
            -Complex64::I * numerator * (positions_per_dc / denominator)
        } else {
            Complex64::ZERO
        }
    };
    let mut plane: Vec<Complex64> = sums.numerator.iter().zip(&sums.denominator).map(at).collect();
    if let Some(zero) = plane.first_mut() {
        *zero = Complex64::ZERO;
    }
    plane
}

fn to_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}
