//! What each slice of the specimen does to the wave: exp(i phase), on a map that covers every window of the scan.
//!
//! The phase is laid out at half the grid's step, turned into exp(i phase), and only then limited to the band that
//! cannot wrap around onto the detector; so nothing is undersampled before it is limited.

use anyhow::ensure;
use rayon::prelude::*;
use rustfft::FftDirection;
use rustfft::num_complex::Complex32;

use super::fourier::transform_map;
use super::geometry::{Geometry, transform_size};
use super::specimen::{Atom, Extent, SmoothPhase, Specimen};
use crate::room::filled;

/// The maps of all slices.
pub(super) struct Transmission {
    /// Rows and columns of a map.
    pub(super) shape: [usize; 2],
    /// Grid step of the map's first sample, from the middle of the scan.
    origin: [i64; 2],
    /// A map a slice, `[row][col]`.
    pub(super) slices: Vec<Vec<Complex32>>,
}

/// Where the map lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapPlan {
    shape: [usize; 2],
    origin: [i64; 2],
}

/// Samples around the windows, so that limiting the band does not carry one edge to the other.
const MARGIN: i64 = 24;

/// Finer steps in a grid step while the phase is laid out.
const FINER: usize = 2;

impl MapPlan {
    /// A map for all windows of the scan.
    ///
    /// # Errors
    /// Maps beyond the memory set aside for them, with advice.
    pub(super) fn new(geometry: &Geometry, num_slices: usize) -> anyhow::Result<Self> {
        const MOST_BYTES: f64 = 6e9;
        let mut shape = [0; 2];
        let mut origin = [0; 2];
        let corners =
            [0, geometry.scan.cols - 1].map(|col| [col, (geometry.scan.rows - 1) * geometry.scan.cols + col]);
        let corners = corners.as_flattened().iter().map(|&frame| geometry.position_steps(frame));
        for axis in 0..2 {
            let steps = corners.clone().map(|corner| corner[axis]);
            let half = geometry.axes[axis].size as i64 / 2;
            origin[axis] = steps.clone().fold(f64::INFINITY, f64::min).floor() as i64 - half - MARGIN;
            let end = steps.fold(f64::NEG_INFINITY, f64::max).ceil() as i64 + half + MARGIN;
            shape[axis] = transform_size((end - origin[axis]) as f64)?;
        }
        let samples = shape[0] as f64 * shape[1] as f64;
        let bytes = samples * 8.0 * (num_slices as f64 + 3.0 * (FINER * FINER) as f64);
        ensure!(
            bytes <= MOST_BYTES,
            "the specimen needs {:.1} GB of maps for this scan, expected at most {:.0} GB; give fewer --slices, a smaller scan or a smaller --scan-step-nm",
            bytes / 1e9,
            MOST_BYTES / 1e9
        );
        Ok(Self { shape, origin })
    }

    /// The part of the scan's frame that the map covers.
    pub(super) fn extent(&self, geometry: &Geometry) -> Extent {
        let mut extent = Extent { half_rows_m: 0.0, half_cols_m: 0.0 };
        for corner in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            let at = |axis: usize| {
                let samples = self.origin[axis] + (corner[axis] * self.shape[axis]) as i64;
                samples as f64 * geometry.axes[axis].step_m
            };
            let [row, col] = geometry.scan_from_detector([at(0), at(1)]);
            extent.half_rows_m = extent.half_rows_m.max(row.abs());
            extent.half_cols_m = extent.half_cols_m.max(col.abs());
        }
        extent
    }
}

impl Transmission {
    /// Lays out the specimen in `num_slices` slices.
    ///
    /// # Errors
    /// The memory for a map cannot be had.
    pub(super) fn new(
        specimen: &Specimen,
        geometry: &Geometry,
        plan: MapPlan,
        num_slices: usize,
    ) -> anyhow::Result<Self> {
        let mut by_slice: Vec<Vec<Atom>> = vec![Vec::new(); num_slices];
        for atom in &specimen.atoms {
            let [row_m, col_m] = geometry.detector_from_scan([atom.row_m, atom.col_m]);
            let slice = specimen.slice_of(atom.depth_m, num_slices);
            by_slice[slice].push(Atom { row_m, col_m, ..*atom });
        }
        let smooth =
            specimen.smooth.as_ref().map(|smooth| smooth_phase(smooth, geometry, plan)).transpose()?;
        let share = 1.0 / num_slices as f32;
        let slices = by_slice
            .into_iter()
            .map(|atoms| {
                let mut phase = atomic_phase(specimen, &atoms, geometry, plan)?;
                if let Some(smooth) = &smooth {
                    phase.iter_mut().zip(smooth).for_each(|(phase, smooth)| *phase += smooth * share);
                }
                band_limited(&phase, geometry, plan)
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { shape: plan.shape, origin: plan.origin, slices })
    }

    /// Row and column of the map where a window of the grid starts whose middle lies `steps` from the middle of the scan.
    pub(super) fn window(&self, geometry: &Geometry, steps: [i64; 2]) -> [usize; 2] {
        let start = |axis: usize| steps[axis] - geometry.axes[axis].size as i64 / 2 - self.origin[axis];
        [start(0) as usize, start(1) as usize]
    }
}

/// Place \[m\] of a sample of the finer map along an axis.
fn place(geometry: &Geometry, plan: MapPlan, axis: usize, index: usize) -> f64 {
    (plan.origin[axis] as f64 + index as f64 / FINER as f64) * geometry.axes[axis].step_m
}

fn smooth_phase(smooth: &SmoothPhase, geometry: &Geometry, plan: MapPlan) -> anyhow::Result<Vec<f32>> {
    let cols = plan.shape[1] * FINER;
    let mut phase = filled(0.0_f32, plan.shape[0] * FINER * cols, "the phase of the specimen")?;
    phase.par_chunks_mut(cols).enumerate().for_each(|(row, line)| {
        let row_m = place(geometry, plan, 0, row);
        for (col, value) in line.iter_mut().enumerate() {
            let [row_m, col_m] = geometry.scan_from_detector([row_m, place(geometry, plan, 1, col)]);
            *value = smooth(row_m, col_m) as f32;
        }
    });
    Ok(phase)
}

/// Sums the atoms, given in the detector's frame, Gaussian by Gaussian: each is a product of a row and a column factor.
fn atomic_phase(
    specimen: &Specimen,
    atoms: &[Atom],
    geometry: &Geometry,
    plan: MapPlan,
) -> anyhow::Result<Vec<f32>> {
    const BAND: usize = 32;
    let [rows, cols] = plan.shape.map(|samples| samples * FINER);
    let step = [0, 1].map(|axis| geometry.axes[axis].step_m / FINER as f64);
    let start = [0, 1].map(|axis| place(geometry, plan, axis, 0));
    let mut phase = filled(0.0_f32, rows * cols, "the phase of the atoms")?;
    // Samples within `reach` of a centre along an axis, as a range clipped to `first..end`.
    let range = |axis: usize, centre_m: f64, reach_m: f64, first: usize, end: usize| {
        let index = |at_m: f64| ((at_m - start[axis]) / step[axis]).clamp(first as f64, end as f64);
        index(centre_m - reach_m).ceil() as usize..(index(centre_m + reach_m).floor() as usize + 1).min(end)
    };
    phase.par_chunks_mut(cols * BAND).enumerate().for_each(|(band, lines)| {
        let first_row = band * BAND;
        let end_row = first_row + lines.len() / cols;
        let mut factors = Vec::new();
        for atom in atoms {
            for gaussian in specimen.gaussians(atom.species) {
                let at_rows = range(0, atom.row_m, gaussian.reach_m, first_row, end_row);
                if at_rows.is_empty() {
                    continue;
                }
                let at_cols = range(1, atom.col_m, gaussian.reach_m, 0, cols);
                let factor = |axis: usize, index: usize, centre_m: f64| {
                    let distance_m = start[axis] + index as f64 * step[axis] - centre_m;
                    (-gaussian.falloff_per_m2 * distance_m * distance_m).exp()
                };
                factors.clear();
                factors.extend(at_cols.clone().map(|col| factor(1, col, atom.col_m) as f32));
                for row in at_rows {
                    let height = (gaussian.height_rad * factor(0, row, atom.row_m)) as f32;
                    let line = &mut lines[(row - first_row) * cols..][at_cols.clone()];
                    line.iter_mut().zip(&factors).for_each(|(value, factor)| *value += height * factor);
                }
            }
        }
    });
    Ok(phase)
}

/// exp(i phase) on the finer map, limited to the band, on the grid's step.
fn band_limited(phase: &[f32], geometry: &Geometry, plan: MapPlan) -> anyhow::Result<Vec<Complex32>> {
    let [rows, cols] = plan.shape;
    let mut fine = filled(Complex32::default(), phase.len(), "what the specimen does to the wave")?;
    let pairs = fine.par_iter_mut().zip(phase);
    pairs.for_each(|(factor, &phase)| *factor = Complex32::new(phase.cos(), phase.sin()));
    transform_map(&mut fine, rows * FINER, cols * FINER, FftDirection::Forward)?;
    // Angle a map frequency scatters by: wavelength / (samples step).
    let pitch =
        [0, 1].map(|axis| geometry.wavelength_m / (plan.shape[axis] as f64 * geometry.axes[axis].step_m));
    let signed =
        |index: usize, size: usize| if index < size / 2 { index as i64 } else { index as i64 - size as i64 };
    let scale = 1.0 / (rows * FINER * cols * FINER) as f32;
    let mut map = filled(Complex32::default(), rows * cols, "a map of the specimen")?;
    map.par_chunks_mut(cols).enumerate().for_each(|(row, line)| {
        let row = signed(row, rows);
        let fine_row = row.rem_euclid((rows * FINER) as i64) as usize;
        for (col, value) in line.iter_mut().enumerate() {
            let col = signed(col, cols);
            let fine_col = col.rem_euclid((cols * FINER) as i64) as usize;
            if (row as f64 * pitch[0]).hypot(col as f64 * pitch[1]) <= geometry.band_limit_rad {
                *value = fine[fine_row * cols * FINER + fine_col] * scale;
            }
        }
    });
    transform_map(&mut map, rows, cols, FftDirection::Inverse)?;
    Ok(map)
}
