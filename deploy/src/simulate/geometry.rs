//! The grid every frame is computed on: reciprocal samples that tile the detector's pixels, in the detector's frame.
//!
//! Reciprocal sample j of an axis lies at the scattering angle (j + shift) pitch, pitch = pixel / `pixel_samples`;
//! the shift puts whole groups of `pixel_samples` samples exactly into each pixel for any beam centre. The real-space
//! step is then wavelength / (size pitch), and the window is wavelength / pitch wide.

use anyhow::{bail, ensure};
use kernels::types::{DetectorShape, Optics, ScanShape};

/// One axis of the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    /// Samples.
    pub(super) size: usize,
    /// Reciprocal index of the first sample of detector pixel 0; negative.
    pub(super) first_sample: i64,
    /// Shift of all reciprocal samples, in samples, -1/2 to 1/2.
    pub(super) shift: f64,
    /// Real-space step.
    pub(super) step_m: f64,
}

/// The grid, and the map from the scan's frame into it.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    /// Rows and columns, both in the detector's frame.
    pub(super) axes: [Axis; 2],
    /// Samples along each side of a detector pixel.
    pub(super) pixel_samples: usize,
    /// Angle between reciprocal samples.
    pub(super) pitch_rad: f64,
    /// What the specimen may scatter by, and in multislice what the wave may hold: larger angles are dropped, so that
    /// none wraps around onto the detector.
    pub(super) band_limit_rad: f64,
    pub(super) detector: DetectorShape,
    pub(super) scan: ScanShape,
    /// Electron wavelength.
    pub(super) wavelength_m: f64,
    scan_step_m: [f64; 2],
    rotation_rad: f64,
    transpose: bool,
}

/// What the grid depends on.
#[derive(Clone, Debug)]
pub(super) struct GeometryRequest<'a> {
    pub(super) optics: &'a Optics,
    pub(super) scan: ScanShape,
    pub(super) detector: DetectorShape,
    /// Centre of the beam, pixels (row, col).
    pub(super) centre: [f64; 2],
    /// Chosen so that the probe fits, when not given.
    pub(super) pixel_samples: Option<usize>,
    /// Radius of the probe at its widest, by ray optics.
    pub(super) probe_radius_m: f64,
    pub(super) num_slices: usize,
}

impl Geometry {
    /// Chooses the grid.
    ///
    /// # Errors
    /// A probe too wide for any window that this detector's pixels allow; sizes beyond reason.
    pub(super) fn plan(request: &GeometryRequest<'_>) -> anyhow::Result<Self> {
        let optics = request.optics;
        let wavelength_m = optics.wavelength().0;
        let pixel_rad = optics.detector_sampling[0].radians();
        let pixel_samples = match request.pixel_samples {
            Some(samples) => samples,
            None => samples_for_probe(request.probe_radius_m, wavelength_m / pixel_rad)?,
        };
        let pitch_rad = pixel_rad / pixel_samples as f64;
        let aperture = optics.semi_angle.radians() / pitch_rad + 1.0;
        let plan_axis = |pixels: usize, centre: f64| -> anyhow::Result<(Axis, f64)> {
            let centre_sample = pixel_samples as f64 * (centre + 0.5) - 0.5;
            let zero = centre_sample.round();
            let samples = (pixels * pixel_samples) as f64;
            let reach = zero.max(samples - 1.0 - zero) + 1.0;
            let (needed, enough) = if request.num_slices == 1 {
                (2.0 * (reach + aperture), reach + 3.0 * aperture)
            } else {
                let third = reach.max(2.0 * aperture);
                (3.0 * third, 3.0 * third)
            };
            let size = transform_size((needed * 0.95).max(enough))?;
            let band =
                if request.num_slices == 1 { size as f64 - reach - aperture } else { size as f64 / 3.0 };
            let axis = Axis {
                size,
                first_sample: -(zero as i64),
                shift: zero - centre_sample,
                step_m: wavelength_m / (size as f64 * pitch_rad),
            };
            Ok((axis, band.min(size as f64 / 2.0 - 1.0)))
        };
        let (rows, row_band) = plan_axis(request.detector.rows, request.centre[0])?;
        let (cols, col_band) = plan_axis(request.detector.cols, request.centre[1])?;
        Ok(Self {
            axes: [rows, cols],
            pixel_samples,
            pitch_rad,
            band_limit_rad: row_band.min(col_band) * pitch_rad,
            detector: request.detector,
            scan: request.scan,
            wavelength_m,
            scan_step_m: optics.scan_step.map(|step| step.metres()),
            rotation_rad: optics.rotation.radians(),
            transpose: optics.transpose,
        })
    }

    /// A vector of the scan's frame, in the detector's frame: the inverse of [`Optics::scan_angle`].
    pub(super) fn detector_from_scan(&self, [row, col]: [f64; 2]) -> [f64; 2] {
        let (sin, cos) = self.rotation_rad.sin_cos();
        let turned = [cos * row + sin * col, -sin * row + cos * col];
        if self.transpose { [turned[1], turned[0]] } else { turned }
    }

    /// A vector of the detector's frame, in the scan's frame.
    pub(super) fn scan_from_detector(&self, [row, col]: [f64; 2]) -> [f64; 2] {
        let (row, col) = if self.transpose { (col, row) } else { (row, col) };
        let (sin, cos) = self.rotation_rad.sin_cos();
        [cos * row - sin * col, sin * row + cos * col]
    }

    /// Scan position `frame` relative to the middle of the scan, metres in the scan's frame.
    pub(super) fn position_m(&self, frame: usize) -> [f64; 2] {
        let from_middle = |index: usize, size: usize| index as f64 - (size as f64 - 1.0) / 2.0;
        [
            from_middle(frame / self.scan.cols, self.scan.rows) * self.scan_step_m[0],
            from_middle(frame % self.scan.cols, self.scan.cols) * self.scan_step_m[1],
        ]
    }

    /// Scan position `frame` in steps of the grid, from the middle of the scan, in the detector's frame.
    pub(super) fn position_steps(&self, frame: usize) -> [f64; 2] {
        let [row, col] = self.detector_from_scan(self.position_m(frame));
        [row / self.axes[0].step_m, col / self.axes[1].step_m]
    }

    /// Scattering angle of reciprocal sample `index` (0 to size - 1, transform order) of an axis.
    pub(super) fn angle_rad(&self, axis: usize, index: usize) -> f64 {
        let size = self.axes[axis].size;
        let signed = if index < size.div_ceil(2) { index as f64 } else { index as f64 - size as f64 };
        (signed + self.axes[axis].shift) * self.pitch_rad
    }

    /// Transform index of the reciprocal sample `sample`, counted from the first one of detector pixel 0.
    pub(super) fn sample_index(&self, axis: usize, sample: usize) -> usize {
        let Axis { size, first_sample, .. } = self.axes[axis];
        (first_sample + sample as i64).rem_euclid(size as i64) as usize
    }
}

/// Samples a pixel so that the window is four probe radii wide, at least 2.
fn samples_for_probe(radius_m: f64, window_of_one_m: f64) -> anyhow::Result<usize> {
    const MOST: f64 = 8.0;
    let samples = (4.0 * radius_m / window_of_one_m).ceil().max(2.0);
    if samples > MOST {
        bail!(
            "the probe is {:.2} nm wide and detector pixels this large resolve {:.2} nm: got {samples} samples a pixel, expected at most {MOST}; give smaller aberrations, a smaller --semi-angle-mrad or a smaller --detector-sampling-mrad",
            2e9 * radius_m,
            1e9 * window_of_one_m
        );
    }
    Ok(samples as usize)
}

/// The smallest size of at least `needed` that transforms fast: 2^a 3^b 5^c with a at least 4, b at most 2, c at most 1.
pub(super) fn transform_size(needed: f64) -> anyhow::Result<usize> {
    const LARGEST: f64 = 65_536.0;
    ensure!(needed <= LARGEST, "the grid needs {needed} samples a side, expected at most {LARGEST}");
    let odd = [1, 3, 9, 5, 15, 45];
    let sizes = (4..=16).flat_map(|power| odd.map(|odd| odd << power));
    let best = sizes.filter(|&size| size as f64 >= needed).min();
    Ok(best.unwrap_or(LARGEST as usize))
}

#[cfg(test)]
mod tests {
    use kernels::types::{Aberrations, Degrees, Kilovolts, Milliradians, Nanometres};

    use super::*;

    fn optics(rotation: f64, transpose: bool) -> Optics {
        Optics {
            voltage: Kilovolts(300.0),
            semi_angle: Milliradians(30.0),
            scan_step: [Nanometres(0.016); 2],
            detector_sampling: [Milliradians(0.6); 2],
            rotation: Degrees(rotation),
            transpose,
            aberrations: Aberrations::default(),
        }
    }

    fn plan(optics: &Optics, centre: [f64; 2], num_slices: usize) -> Geometry {
        Geometry::plan(&GeometryRequest {
            optics,
            scan: ScanShape { rows: 4, cols: 6 },
            detector: DetectorShape { rows: 192, cols: 160 },
            centre,
            pixel_samples: None,
            probe_radius_m: 2e-10,
            num_slices,
        })
        .unwrap()
    }

    #[test]
    fn the_samples_of_a_pixel_average_to_the_angle_of_its_centre() {
        let optics = optics(-12.5, false);
        let centre = [95.3, 77.85];
        let geometry = plan(&optics, centre, 1);
        for (axis, pixel) in [(0, 0), (0, 191), (1, 3), (1, 159)] {
            let samples = geometry.pixel_samples;
            let mean: f64 = (0..samples)
                .map(|sample| geometry.angle_rad(axis, geometry.sample_index(axis, pixel * samples + sample)))
                .sum::<f64>()
                / samples as f64;
            assert!((mean - (pixel as f64 - centre[axis]) * 0.6e-3).abs() < 1e-12, "{axis} {pixel} {mean}");
        }
    }

    #[test]
    fn nothing_the_specimen_scatters_wraps_around_onto_the_detector() {
        for num_slices in [1, 5] {
            let optics = optics(0.0, false);
            let geometry = plan(&optics, [90.0, 85.0], num_slices);
            let wave = if num_slices == 1 { 0.03 } else { geometry.band_limit_rad };
            assert!(geometry.band_limit_rad >= 0.06 * 0.999);
            for (axis, pixels_away) in geometry.axes.into_iter().zip([102.0, 86.0]) {
                let range = axis.size as f64 * geometry.pitch_rad;
                let edge = if num_slices == 1 { pixels_away * 0.6e-3 } else { geometry.band_limit_rad };
                assert!(wave + geometry.band_limit_rad + edge <= range * (1.0 + 1e-9));
            }
        }
    }

    #[test]
    fn the_frames_map_back_and_agree_with_the_optics() {
        for transpose in [false, true] {
            let optics = optics(33.0, transpose);
            let geometry = plan(&optics, [95.0, 80.0], 1);
            let angle = optics.scan_angle(100.0, 60.0, [95.0, 80.0]).map(|angle| angle.0);
            let back = geometry.detector_from_scan(angle);
            assert!((back[0] - 5.0 * 0.6e-3).abs() < 1e-12 && (back[1] + 20.0 * 0.6e-3).abs() < 1e-12);
            let again = geometry.scan_from_detector(back);
            assert!((again[0] - angle[0]).abs() < 1e-15 && (again[1] - angle[1]).abs() < 1e-15);
        }
    }

    #[test]
    fn a_probe_wider_than_the_pixels_resolve_is_refused() {
        assert_eq!(samples_for_probe(1e-9, 3e-9).unwrap(), 2);
        assert_eq!(samples_for_probe(3e-9, 3e-9).unwrap(), 4);
        assert!(samples_for_probe(1e-8, 3e-9).unwrap_err().to_string().contains("at most 8"));
        assert_eq!(transform_size(577.0).unwrap(), 640);
        assert_eq!(transform_size(1.0).unwrap(), 16);
    }
}
