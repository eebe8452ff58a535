//! Strontium titanate along `[001]`, with vacancies and barium dopants.

use super::{Atom, Defect, Extent, Specimen};
use crate::simulate::counts::{generator, uniform};
use crate::simulate::elements::Species;

/// Lattice parameter of cubic SrTiO3 at room temperature.
pub(in crate::simulate) const CELL_M: f64 = 3.905e-10;

/// Fractional sites of the cell: (row, col, depth).
const SITES: [(Species, [f64; 3]); 5] = [
    (Species::Strontium, [0.0, 0.0, 0.25]),
    (Species::Titanium, [0.5, 0.5, 0.75]),
    (Species::Oxygen, [0.5, 0.5, 0.25]),
    (Species::Oxygen, [0.5, 0.0, 0.75]),
    (Species::Oxygen, [0.0, 0.5, 0.75]),
];

/// Where the corner of the middle cell lies from the middle of the scan, in cells: nothing is centred by accident.
const CORNER: [f64; 2] = [0.13, -0.21];

/// Chance that a site is a defect.
const BARIUM_FOR_STRONTIUM: f64 = 0.06;
const STRONTIUM_VACANCY: f64 = 0.06;
const OXYGEN_VACANCY: f64 = 0.04;

/// Fills `extent` with whole cells; `specimen.thickness_m` is rounded to whole cells, at least one.
pub(in crate::simulate) fn strontium_titanate(mut specimen: Specimen, extent: Extent, seed: u64) -> Specimen {
    let layers = (specimen.thickness_m / CELL_M).round().max(1.0);
    specimen.thickness_m = layers * CELL_M;
    let reach = |half_m: f64| (half_m / CELL_M).ceil() as i64 + 1;
    let (rows, cols) = (reach(extent.half_rows_m), reach(extent.half_cols_m));
    for layer in 0..layers as i64 {
        for (row, col) in (-rows..=rows).flat_map(|row| (-cols..=cols).map(move |col| (row, col))) {
            for (site, (species, place)) in SITES.into_iter().enumerate() {
                let at = |cell: i64, axis: usize| (cell as f64 + CORNER[axis] + place[axis]) * CELL_M;
                let (row_m, col_m) = (at(row, 0), at(col, 1));
                let depth_m = (layer as f64 + place[2]) * CELL_M;
                // The chance belongs to the site, whatever the extent.
                let chance =
                    uniform(&mut generator(seed, &[row as u64, col as u64, layer as u64, site as u64]));
                let planted = layer == layers as i64 / 2 && species == Species::Strontium;
                let (species, defect) = match (species, row, col) {
                    (Species::Strontium, 0, 0) if planted => (None, "Sr vacancy"),
                    (Species::Strontium, 1, -1) if planted => (Some(Species::Barium), "Sr->Ba"),
                    (Species::Strontium, ..) if chance < BARIUM_FOR_STRONTIUM => {
                        (Some(Species::Barium), "Sr->Ba")
                    }
                    (Species::Strontium, ..) if chance < BARIUM_FOR_STRONTIUM + STRONTIUM_VACANCY => {
                        (None, "Sr vacancy")
                    }
                    (Species::Oxygen, ..) if chance < OXYGEN_VACANCY => (None, "O vacancy"),
                    (species, ..) => (Some(species), ""),
                };
                specimen.atoms.extend(species.map(|species| Atom { species, row_m, col_m, depth_m }));
                if !defect.is_empty() {
                    let position_angstrom = [row_m, col_m, depth_m].map(|length| length * 1e10);
                    specimen.defects.push(Defect { kind: defect.to_owned(), position_angstrom });
                }
            }
        }
    }
    specimen
}

#[cfg(test)]
mod tests {
    use kernels::types::Kilovolts;

    use super::*;

    fn crystal(half_m: f64, seed: u64) -> Specimen {
        let extent = Extent { half_rows_m: half_m, half_cols_m: half_m };
        strontium_titanate(Specimen::new(Kilovolts(300.0), 4e-9), extent, seed)
    }

    #[test]
    fn the_formula_and_the_density_are_those_of_strontium_titanate() {
        let specimen = crystal(4e-9, 1);
        let count = |species| specimen.atoms.iter().filter(|atom| atom.species == species).count() as f64;
        let cells = count(Species::Titanium);
        assert!((specimen.thickness_m / CELL_M - 10.0).abs() < 1e-9);
        assert!((count(Species::Oxygen) / cells - 3.0 * (1.0 - OXYGEN_VACANCY)).abs() < 0.05);
        assert!((count(Species::Strontium) / cells - 0.88).abs() < 0.03);
        assert!((count(Species::Barium) / cells - BARIUM_FOR_STRONTIUM).abs() < 0.02);
        let lost = specimen.defects.iter().filter(|defect| defect.kind.ends_with("vacancy")).count() as f64;
        assert_eq!(specimen.atoms.len() as f64 + lost, 5.0 * cells);
    }

    #[test]
    fn a_larger_extent_adds_atoms_and_moves_none() {
        let (small, large) = (crystal(1e-9, 3), crystal(2e-9, 3));
        assert!(small.atoms.iter().all(|atom| large.atoms.contains(atom)));
        assert!(crystal(1e-9, 4).atoms != small.atoms);
    }
}
