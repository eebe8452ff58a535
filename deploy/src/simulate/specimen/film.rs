//! Gold nanoparticles on an amorphous carbon film.

use super::{Atom, Extent, Specimen};
use crate::simulate::counts::{generator, uniform};
use crate::simulate::elements::Species;

/// Lattice parameter of gold at room temperature.
const GOLD_CELL_M: f64 = 4.078e-10;
/// Atoms a cubic nanometre of amorphous carbon, 1.9 g/cm^3.
const CARBON_PER_NM3: f64 = 95.0;
/// Distance between particles: one in each square of this width.
const PARTICLE_PITCH_M: f64 = 5.5e-9;
/// Radii of the particles; the largest decides the thickness of their layer.
const SMALLEST_RADIUS_M: f64 = 0.8e-9;
const LARGEST_RADIUS_M: f64 = 1.6e-9;

const CARBON: u64 = 1;
const PARTICLE: u64 = 2;

/// Thickness of a film of `film_m` with its particles.
pub(in crate::simulate) fn total_thickness_m(film_m: f64) -> f64 {
    film_m + 2.0 * LARGEST_RADIUS_M
}

/// Fills `extent`: spherical fcc particles, each turned at random, lying on the side where the beam enters; below them
/// carbon atoms at random places (no short-range order) through the rest of the thickness.
pub(in crate::simulate) fn gold_on_carbon(mut specimen: Specimen, extent: Extent, seed: u64) -> Specimen {
    let film_m = (specimen.thickness_m - 2.0 * LARGEST_RADIUS_M).max(0.0);
    let tiles = |pitch_m: f64| {
        let reach = |half_m: f64| (half_m / pitch_m).ceil() as i64 + 1;
        let (rows, cols) = (reach(extent.half_rows_m), reach(extent.half_cols_m));
        (-rows..=rows).flat_map(move |row| (-cols..=cols).map(move |col| (row, col)))
    };
    for (row, col) in tiles(PARTICLE_PITCH_M) {
        add_particle(&mut specimen, (row, col), seed);
    }
    const CARBON_TILE_M: f64 = 1e-9;
    let per_tile = CARBON_PER_NM3 * film_m * 1e9;
    for (row, col) in tiles(CARBON_TILE_M) {
        let mut random = generator(seed, &[CARBON, row as u64, col as u64]);
        // The whole part, and one more as often as the rest says.
        let atoms = (per_tile + uniform(&mut random)).floor() as usize;
        for _ in 0..atoms {
            let [at_row, at_col, at_depth] = [(); 3].map(|()| uniform(&mut random));
            specimen.atoms.push(Atom {
                species: Species::Carbon,
                row_m: (row as f64 + at_row) * CARBON_TILE_M,
                col_m: (col as f64 + at_col) * CARBON_TILE_M,
                depth_m: 2.0 * LARGEST_RADIUS_M + at_depth * film_m,
            });
        }
    }
    specimen
}

fn add_particle(specimen: &mut Specimen, (tile_row, tile_col): (i64, i64), seed: u64) {
    let mut random = generator(seed, &[PARTICLE, tile_row as u64, tile_col as u64]);
    let radius_m = SMALLEST_RADIUS_M + uniform(&mut random) * (LARGEST_RADIUS_M - SMALLEST_RADIUS_M);
    // The one in the middle is moved by half its radius, so that a small scan sees gold and its edge.
    let room_m = if (tile_row, tile_col) == (0, 0) {
        0.5 * radius_m
    } else {
        PARTICLE_PITCH_M / 2.0 - LARGEST_RADIUS_M
    };
    let turn = 2.0 * std::f64::consts::PI * uniform(&mut random);
    let centre = [
        tile_row as f64 * PARTICLE_PITCH_M + room_m * turn.cos(),
        tile_col as f64 * PARTICLE_PITCH_M + room_m * turn.sin(),
        2.0 * LARGEST_RADIUS_M - radius_m,
    ];
    let rotation = random_rotation([(); 3].map(|()| uniform(&mut random)));
    let reach = (radius_m / GOLD_CELL_M).ceil() as i64 + 1;
    for row in -reach..=reach {
        for col in -reach..=reach {
            for layer in -reach..=reach {
                for basis in [[0.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]] {
                    let at = [row as f64 + basis[0], col as f64 + basis[1], layer as f64 + basis[2]]
                        .map(|cells| cells * GOLD_CELL_M);
                    if at.iter().map(|x| x * x).sum::<f64>() > radius_m * radius_m {
                        continue;
                    }
                    let turned =
                        rotation.map(|axis| axis.iter().zip(at).map(|(weight, x)| weight * x).sum::<f64>());
                    specimen.atoms.push(Atom {
                        species: Species::Gold,
                        row_m: centre[0] + turned[0],
                        col_m: centre[1] + turned[1],
                        depth_m: centre[2] + turned[2],
                    });
                }
            }
        }
    }
}

/// A rotation drawn evenly from all rotations, from three uniform numbers (K. Shoemake, Graphics Gems III, 1992).
fn random_rotation([u, v, w]: [f64; 3]) -> [[f64; 3]; 3] {
    let (v, w) = (2.0 * std::f64::consts::PI * v, 2.0 * std::f64::consts::PI * w);
    let [x, y] = [v.sin(), v.cos()].map(|part| (1.0 - u).sqrt() * part);
    let [z, s] = [w.sin(), w.cos()].map(|part| u.sqrt() * part);
    [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * s), 2.0 * (x * z + y * s)],
        [2.0 * (x * y + z * s), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * s)],
        [2.0 * (x * z - y * s), 2.0 * (y * z + x * s), 1.0 - 2.0 * (x * x + y * y)],
    ]
}

#[cfg(test)]
mod tests {
    use kernels::types::Kilovolts;

    use super::*;

    #[test]
    fn gold_and_carbon_have_their_densities_and_stay_inside_the_thickness() {
        let extent = Extent { half_rows_m: 10e-9, half_cols_m: 10e-9 };
        let thickness_m = total_thickness_m(3e-9);
        let specimen = gold_on_carbon(Specimen::new(Kilovolts(300.0), thickness_m), extent, 2);
        assert!(specimen.atoms.iter().all(|atom| (0.0..=thickness_m).contains(&atom.depth_m)));
        let inside = |atom: &&Atom| atom.row_m.abs() < 10e-9 && atom.col_m.abs() < 10e-9;
        let carbon =
            specimen.atoms.iter().filter(inside).filter(|atom| atom.species == Species::Carbon).count();
        assert!((carbon as f64 / (400.0 * 3.0) / CARBON_PER_NM3 - 1.0).abs() < 0.01);
        let num_neighbours = |atom: &Atom| {
            let near = specimen.atoms.iter().filter(|other| {
                let distance = ((other.row_m - atom.row_m).powi(2)
                    + (other.col_m - atom.col_m).powi(2)
                    + (other.depth_m - atom.depth_m).powi(2))
                .sqrt();
                other.species == Species::Gold && distance > 1e-12 && distance < 3e-10
            });
            near.count()
        };
        let gold: Vec<_> = specimen.atoms.iter().filter(|atom| atom.species == Species::Gold).collect();
        let most = gold.iter().take(300).map(|atom| num_neighbours(atom)).max();
        assert_eq!(most, Some(12), "fcc has twelve nearest neighbours");
    }
}
