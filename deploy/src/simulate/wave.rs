//! One frame: the probe at a scan position, through the slices, onto the detector.
//!
//! The wave starts as P(k) = A(k) exp(-i chi(k)), moved to the scan position by a phase ramp, so that positions are
//! exact; each slice multiplies it in real space; between slices exp(-i pi lambda dz k^2) exp(2 pi i dz k.tilt)
//! propagates it (the ramp follows the slices of a tilted specimen sideways); |psi(k)|^2 summed over the samples of a
//! pixel is what the pixel collects. Only samples that the aperture, the band or the detector can see are transformed.

use std::f64::consts::PI;
use std::sync::Arc;

use kernels::types::Optics;
use rustfft::num_complex::{Complex32, Complex64};
use rustfft::{Fft, FftPlanner};

use super::fourier::{columns_to_lines, lines_to_columns};
use super::geometry::Geometry;
use super::transmission::Transmission;
use crate::room::filled;

/// Everything frames share.
pub(super) struct Beam {
    geometry: Geometry,
    transmission: Transmission,
    /// Columns of reciprocal samples inside the aperture.
    aperture_cols: Vec<usize>,
    /// The probe in front of the first slice, `[aperture column][row]`, rows in transform order.
    probe: Vec<Complex32>,
    between: Option<Propagator>,
    /// Columns of reciprocal samples on the detector, in detector order, and their rows.
    detector_cols: Vec<usize>,
    detector_rows: Vec<usize>,
    row_plans: Plans,
    col_plans: Plans,
}

/// Propagation from slice to slice, limited to the band: a column factor times a row factor.
struct Propagator {
    cols: Vec<usize>,
    col_factors: Vec<Complex32>,
    row_factors: Vec<Complex32>,
    /// Rows inside the band of each column: the first `.0` and the last `.1` in transform order.
    rows: Vec<(usize, usize)>,
}

/// Transforms along one axis.
struct Plans {
    forward: Arc<dyn Fft<f32>>,
    inverse: Arc<dyn Fft<f32>>,
}

impl Plans {
    fn new(size: usize) -> Self {
        let mut planner = FftPlanner::new();
        Self { forward: planner.plan_fft_forward(size), inverse: planner.plan_fft_inverse(size) }
    }

    fn scratch_len(&self) -> usize {
        self.forward.get_inplace_scratch_len().max(self.inverse.get_inplace_scratch_len())
    }
}

/// Memory one thread needs to make frames.
pub(super) struct Scratch {
    /// `[row][col]`, real space or half-transformed.
    wave: Vec<Complex32>,
    /// `[reciprocal column][row]`.
    columns: Vec<Complex32>,
    transform: Vec<Complex32>,
    row_ramp: Vec<Complex32>,
    /// `[detector column][detector row]`.
    turned: Vec<f32>,
}

/// The specimen's tilt in the scan's frame and the distance between slices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    pub(super) thickness_m: f64,
    pub(super) tilt_rad: [f64; 2],
}

fn unit(phase_rad: f64) -> Complex32 {
    let exact = Complex64::cis(phase_rad);
    Complex32::new(exact.re as f32, exact.im as f32)
}

impl Beam {
    pub(super) fn new(optics: &Optics, geometry: Geometry, transmission: Transmission, stack: Stack) -> Self {
        let num_slices = transmission.slices.len();
        let slice_m = stack.thickness_m / num_slices as f64;
        let tilt_rad = geometry.detector_from_scan(stack.tilt_rad);
        let [rows, cols] = [0, 1].map(|axis| geometry.axes[axis].size);
        let angle = |row: usize, col: usize| [geometry.angle_rad(0, row), geometry.angle_rad(1, col)];

        let reaches = |col: &usize| {
            geometry.angle_rad(1, *col).abs() < optics.semi_angle.radians() + geometry.pitch_rad
        };
        let aperture_cols: Vec<usize> = (0..cols).filter(reaches).collect();
        // From the plane of C10, the entrance, to the middle of the first slice; sideways from mid depth.
        let (down_m, sideways_m) = (slice_m / 2.0, (slice_m - stack.thickness_m) / 2.0);
        let exact: Vec<Complex64> = aperture_cols
            .iter()
            .flat_map(|&col| (0..rows).map(move |row| (row, col)))
            .map(|(row, col)| {
                let [row_rad, col_rad] = angle(row, col);
                let open = (optics.semi_angle.radians() - row_rad.hypot(col_rad)) / geometry.pitch_rad + 0.5;
                if open <= 0.0 {
                    return Complex64::default();
                }
                let [scan_row, scan_col] = geometry.scan_from_detector([row_rad, col_rad]);
                let chi = optics.aberrations.chi_rad(scan_row, scan_col, optics.wavelength());
                let travel = travel_rad(&geometry, [row_rad, col_rad], down_m, tilt_rad, sideways_m);
                Complex64::from_polar(open.min(1.0), travel - chi)
            })
            .collect();
        // One electron in all, and the 1/(rows cols) of a transform there and back.
        let norm = exact.iter().map(Complex64::norm_sqr).sum::<f64>().sqrt() * (rows * cols) as f64;
        let probe = exact
            .iter()
            .map(|value| Complex32::new((value.re / norm) as f32, (value.im / norm) as f32))
            .collect();

        let between = (num_slices > 1).then(|| Propagator::new(&geometry, slice_m, tilt_rad));
        let samples = |axis: usize, pixels: usize| {
            (0..pixels * geometry.pixel_samples).map(|sample| geometry.sample_index(axis, sample)).collect()
        };
        Self {
            detector_rows: samples(0, geometry.detector.rows),
            detector_cols: samples(1, geometry.detector.cols),
            row_plans: Plans::new(rows),
            col_plans: Plans::new(cols),
            geometry,
            transmission,
            aperture_cols,
            probe,
            between,
        }
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Rows and columns of the specimen that were laid out, metres, in the detector's frame.
    pub(super) fn laid_out_m(&self) -> [f64; 2] {
        [0, 1].map(|axis| self.transmission.shape[axis] as f64 * self.geometry.axes[axis].step_m)
    }

    /// Memory for one thread.
    ///
    /// # Errors
    /// It cannot be had.
    pub(super) fn scratch(&self) -> anyhow::Result<Scratch> {
        let [rows, cols] = [0, 1].map(|axis| self.geometry.axes[axis].size);
        let between = self.between.as_ref().map_or(0, |between| between.cols.len());
        let lines = self.aperture_cols.len().max(self.detector_cols.len()).max(between);
        let zero = Complex32::default();
        let what = "the wave of a frame";
        let transform = self.row_plans.scratch_len().max(self.col_plans.scratch_len());
        Ok(Scratch {
            wave: filled(zero, rows * cols, what)?,
            columns: filled(zero, lines * rows, what)?,
            transform: filled(zero, transform, what)?,
            row_ramp: filled(zero, rows, what)?,
            turned: filled(0.0, self.geometry.detector.pixels(), what)?,
        })
    }

    /// Fraction of the beam's electrons that each pixel collects, `[det_row][det_col]`, at scan position `frame`.
    pub(super) fn fractions(&self, frame: usize, scratch: &mut Scratch, out: &mut [f32]) {
        let steps = self.geometry.position_steps(frame);
        let whole = steps.map(|step| step.round() as i64);
        let window = self.transmission.window(&self.geometry, whole);
        self.enter([0, 1].map(|axis| steps[axis] - whole[axis] as f64), scratch);
        for (slice, map) in self.transmission.slices.iter().enumerate() {
            if let Some(between) = self.between.as_ref().filter(|_| slice > 0) {
                self.propagate(between, scratch);
            }
            let cols = self.geometry.axes[1].size;
            for (row, line) in scratch.wave.chunks_exact_mut(cols).enumerate() {
                let start = (window[0] + row) * self.transmission.shape[1] + window[1];
                line.iter_mut().zip(&map[start..start + cols]).for_each(|(wave, factor)| *wave *= factor);
            }
        }
        self.collect(scratch, out);
    }

    /// The probe in real space, its middle `offset` steps beyond the middle of the window.
    fn enter(&self, offset: [f64; 2], scratch: &mut Scratch) {
        let [rows, cols] = [0, 1].map(|axis| self.geometry.axes[axis].size);
        let ramp = |axis: usize, index: usize| {
            let size = self.geometry.axes[axis].size;
            let samples = self.geometry.angle_rad(axis, index) / self.geometry.pitch_rad;
            unit(-2.0 * PI * samples * ((size / 2) as f64 + offset[axis]) / size as f64)
        };
        for (row, factor) in scratch.row_ramp.iter_mut().enumerate() {
            *factor = ramp(0, row);
        }
        let lines = &mut scratch.columns[..self.aperture_cols.len() * rows];
        let filled = lines.chunks_exact_mut(rows).zip(self.probe.chunks_exact(rows)).zip(&self.aperture_cols);
        for ((line, probe), &col) in filled {
            let col_factor = ramp(1, col);
            for ((value, probe), row_factor) in line.iter_mut().zip(probe).zip(&scratch.row_ramp) {
                *value = probe * row_factor * col_factor;
            }
        }
        self.row_plans.inverse.process_with_scratch(lines, &mut scratch.transform);
        scratch.wave.fill(Complex32::default());
        lines_to_columns(lines, rows, &self.aperture_cols, &mut scratch.wave, cols);
        self.col_plans.inverse.process_with_scratch(&mut scratch.wave, &mut scratch.transform);
    }

    fn propagate(&self, between: &Propagator, scratch: &mut Scratch) {
        let [rows, cols] = [0, 1].map(|axis| self.geometry.axes[axis].size);
        self.col_plans.forward.process_with_scratch(&mut scratch.wave, &mut scratch.transform);
        let lines = &mut scratch.columns[..between.cols.len() * rows];
        columns_to_lines(&scratch.wave, cols, &between.cols, lines, rows);
        self.row_plans.forward.process_with_scratch(lines, &mut scratch.transform);
        for (index, line) in lines.chunks_exact_mut(rows).enumerate() {
            let (first, last) = between.rows[index];
            line[first..rows - last].fill(Complex32::default());
            let factor = between.col_factors[index];
            line.iter_mut().zip(&between.row_factors).for_each(|(value, row)| *value *= row * factor);
        }
        self.row_plans.inverse.process_with_scratch(lines, &mut scratch.transform);
        scratch.wave.fill(Complex32::default());
        lines_to_columns(lines, rows, &between.cols, &mut scratch.wave, cols);
        self.col_plans.inverse.process_with_scratch(&mut scratch.wave, &mut scratch.transform);
    }

    /// |psi|^2 summed over each pixel. The unnormalised transform there and back is in the probe's norm.
    fn collect(&self, scratch: &mut Scratch, out: &mut [f32]) {
        let [rows, cols] = [0, 1].map(|axis| self.geometry.axes[axis].size);
        let (det_rows, det_cols) = (self.geometry.detector.rows, self.geometry.detector.cols);
        let samples = self.geometry.pixel_samples;
        self.col_plans.forward.process_with_scratch(&mut scratch.wave, &mut scratch.transform);
        let lines = &mut scratch.columns[..self.detector_cols.len() * rows];
        columns_to_lines(&scratch.wave, cols, &self.detector_cols, lines, rows);
        self.row_plans.forward.process_with_scratch(lines, &mut scratch.transform);
        scratch.turned.fill(0.0);
        for (index, line) in lines.chunks_exact(rows).enumerate() {
            let pixels = &mut scratch.turned[index / samples * det_rows..][..det_rows];
            for (pixel, members) in pixels.iter_mut().zip(self.detector_rows.chunks_exact(samples)) {
                *pixel += members.iter().map(|&row| line[row].norm_sqr()).sum::<f32>();
            }
        }
        for (det_row, line) in out.chunks_exact_mut(det_cols).enumerate() {
            for (det_col, pixel) in line.iter_mut().enumerate() {
                *pixel = scratch.turned[det_col * det_rows + det_row];
            }
        }
    }
}

/// Phase of travelling `down_m` along the beam and following a tilted specimen by what it moves in `sideways_m` of depth.
fn travel_rad(
    geometry: &Geometry,
    angle_rad: [f64; 2],
    down_m: f64,
    tilt_rad: [f64; 2],
    sideways_m: f64,
) -> f64 {
    let squared = angle_rad[0].powi(2) + angle_rad[1].powi(2);
    let along = angle_rad[0] * tilt_rad[0] + angle_rad[1] * tilt_rad[1];
    PI / geometry.wavelength_m * (2.0 * along * sideways_m - squared * down_m)
}

impl Propagator {
    fn new(geometry: &Geometry, slice_m: f64, tilt_rad: [f64; 2]) -> Self {
        let [rows, cols] = [0, 1].map(|axis| geometry.axes[axis].size);
        let limit = geometry.band_limit_rad;
        let inside: Vec<usize> = (0..cols).filter(|&col| geometry.angle_rad(1, col).abs() <= limit).collect();
        let factor = |axis: usize, index: usize| {
            let mut angle = [0.0; 2];
            angle[axis] = geometry.angle_rad(axis, index);
            unit(travel_rad(geometry, angle, slice_m, tilt_rad, slice_m))
        };
        let rows_inside = |col: usize| {
            let within = |row: &usize| geometry.angle_rad(0, *row).hypot(geometry.angle_rad(1, col)) <= limit;
            let first = (0..rows).take_while(within).count();
            let last = (0..rows).rev().take_while(within).count();
            (first, last)
        };
        Self {
            // The 1/(rows cols) of a transform there and back.
            col_factors: inside.iter().map(|&col| factor(1, col) / (rows * cols) as f32).collect(),
            row_factors: (0..rows).map(|row| factor(0, row)).collect(),
            rows: inside.iter().map(|&col| rows_inside(col)).collect(),
            cols: inside,
        }
    }
}
