//! What lies in the beam: atoms, or a smooth phase, in the scan's frame with the origin in the middle of the scan.

mod charts;
mod crystal;
mod film;
mod phase_map;

use std::collections::HashMap;

use kernels::types::Kilovolts;
use serde::{Deserialize, Serialize};

pub(super) use charts::test_chart;
pub(super) use crystal::{CELL_M as STO_CELL_M, strontium_titanate};
pub(super) use film::{gold_on_carbon, total_thickness_m as film_thickness_m};
pub(super) use phase_map::{MOST_PHASE_RAD, read_phase_map};

use super::elements::{PhaseGaussian, Species, phase_gaussians};
use crate::room::filled;

/// An atom; metres, the depth counted from where the beam enters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Atom {
    pub(super) species: Species,
    pub(super) row_m: f64,
    pub(super) col_m: f64,
    pub(super) depth_m: f64,
}

/// A place where the specimen differs from the perfect one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Defect {
    /// What it is: `Sr->Ba`, `Sr vacancy`, `O vacancy`.
    pub kind: String,
    /// Row, column from the middle of the scan, depth from the entrance, in angstrom.
    #[serde(rename = "position_A")]
    pub position_angstrom: [f64; 3],
}

/// The part of the scan's frame that must be filled, half widths along (row, col).
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) half_rows_m: f64,
    pub(super) half_cols_m: f64,
}

/// A smooth phase \[rad\] of the position (row, col) \[m\] for the whole thickness.
pub(super) type SmoothPhase = Box<dyn Fn(f64, f64) -> f64 + Send + Sync>;

/// A specimen.
pub(super) struct Specimen {
    pub(super) atoms: Vec<Atom>,
    pub(super) smooth: Option<SmoothPhase>,
    pub(super) defects: Vec<Defect>,
    pub(super) thickness_m: f64,
    gaussians: HashMap<Species, [PhaseGaussian; 5]>,
}

impl Specimen {
    pub(super) fn new(voltage: Kilovolts, thickness_m: f64) -> Self {
        let gaussians =
            Species::ALL.into_iter().map(|species| (species, phase_gaussians(species, voltage))).collect();
        Self { atoms: Vec::new(), smooth: None, defects: Vec::new(), thickness_m, gaussians }
    }

    /// The same specimen with a smooth phase on top.
    pub(super) fn with_smooth(mut self, phase: SmoothPhase) -> Self {
        self.smooth = Some(phase);
        self
    }

    /// The Gaussians of a species at this specimen's voltage.
    pub(super) fn gaussians(&self, species: Species) -> &[PhaseGaussian] {
        self.gaussians.get(&species).map_or(&[], |gaussians| gaussians.as_slice())
    }

    /// The slice, of `num_slices` equal ones, that holds a depth.
    pub(super) fn slice_of(&self, depth_m: f64, num_slices: usize) -> usize {
        let slice = depth_m / self.thickness_m.max(f64::MIN_POSITIVE) * num_slices as f64;
        (slice.max(0.0) as usize).min(num_slices - 1)
    }

    /// The phase of the whole thickness, projected along the beam of an untilted specimen, at the positions \[m\].
    ///
    /// # Errors
    /// The memory for it cannot be had.
    pub(super) fn projected_phase(&self, positions: &[[f64; 2]]) -> anyhow::Result<Vec<f64>> {
        use rayon::prelude::*;
        let cells = Cells::new(self);
        let mut phases = filled(0.0, positions.len(), "the projected phase")?;
        phases.par_iter_mut().zip(positions).for_each(|(value, &[row, col])| {
            let smooth = self.smooth.as_ref().map_or(0.0, |phase| phase(row, col));
            *value = smooth + cells.phase(self, row, col);
        });
        Ok(phases)
    }
}

/// Atoms by square cells as wide as the farthest reach, in a fixed order.
struct Cells {
    width_m: f64,
    atoms: HashMap<(i64, i64), Vec<Atom>>,
}

impl Cells {
    fn new(specimen: &Specimen) -> Self {
        let reaches =
            specimen.atoms.iter().flat_map(|atom| specimen.gaussians(atom.species)).map(|g| g.reach_m);
        let width_m = reaches.fold(1e-10, f64::max);
        let mut atoms: HashMap<_, Vec<Atom>> = HashMap::new();
        for atom in &specimen.atoms {
            atoms.entry(Self::cell(width_m, atom.row_m, atom.col_m)).or_default().push(*atom);
        }
        Self { width_m, atoms }
    }

    fn cell(width_m: f64, row_m: f64, col_m: f64) -> (i64, i64) {
        ((row_m / width_m).floor() as i64, (col_m / width_m).floor() as i64)
    }

    fn phase(&self, specimen: &Specimen, row_m: f64, col_m: f64) -> f64 {
        let (cell_row, cell_col) = Self::cell(self.width_m, row_m, col_m);
        let mut phase = 0.0;
        for cell in (-1..=1).flat_map(|row| (-1..=1).map(move |col| (cell_row + row, cell_col + col))) {
            for atom in self.atoms.get(&cell).into_iter().flatten() {
                let distance_squared = (atom.row_m - row_m).powi(2) + (atom.col_m - col_m).powi(2);
                for gaussian in specimen.gaussians(atom.species) {
                    if distance_squared < gaussian.reach_m.powi(2) {
                        phase += gaussian.height_rad * (-gaussian.falloff_per_m2 * distance_squared).exp();
                    }
                }
            }
        }
        phase
    }
}
