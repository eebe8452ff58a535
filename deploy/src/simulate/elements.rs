//! Atoms as sums of Gaussians: f(s) = sum a_i exp(-b_i s^2), s = sin(theta)/lambda, first Born approximation, for s up to
//! 2 per angstrom. Numbers: L.-M. Peng, G. Ren, S. L. Dudarev, M. J. Whelan, Acta Cryst. A52 (1996) 257, table 1.
//!
//! The phase a projected atom gives the wave is then, with b'_i = b_i + B (B the Debye-Waller factor),
//! phi(r) = gamma lambda sum_i a_i (4 pi / b'_i) exp(-4 pi^2 r^2 / b'_i), gamma the relativistic mass ratio.

use std::f64::consts::PI;

use kernels::types::{Kilovolts, electron_wavelength};

/// An element in a given surrounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Species {
    /// Strontium in SrTiO3.
    Strontium,
    /// Barium on a strontium site.
    Barium,
    /// Titanium in SrTiO3.
    Titanium,
    /// Oxygen in SrTiO3.
    Oxygen,
    /// Carbon, amorphous.
    Carbon,
    /// Gold, fcc.
    Gold,
}

impl Species {
    pub(super) const ALL: [Self; 6] =
        [Self::Strontium, Self::Barium, Self::Titanium, Self::Oxygen, Self::Carbon, Self::Gold];

    /// a \[angstrom\], b \[angstrom^2\].
    fn scattering(self) -> [[f64; 5]; 2] {
        match self {
            Self::Strontium => {
                [[0.6703, 1.4926, 3.3368, 4.4600, 3.1501], [0.3190, 2.2287, 10.3504, 52.3291, 151.2216]]
            }
            Self::Barium => {
                [[0.9049, 2.6076, 4.8498, 5.1603, 4.7388], [0.3066, 2.4363, 12.1821, 54.6135, 161.9978]]
            }
            Self::Titanium => {
                [[0.3825, 1.2598, 2.0008, 3.0617, 2.0694], [0.3040, 2.4863, 9.2783, 39.0751, 109.4583]]
            }
            Self::Oxygen => {
                [[0.0974, 0.2921, 0.6910, 0.6990, 0.2039], [0.2067, 1.3815, 4.6943, 12.7105, 32.4726]]
            }
            Self::Carbon => {
                [[0.0893, 0.2563, 0.7570, 1.0487, 0.3575], [0.2465, 1.7100, 6.4094, 18.6113, 50.2523]]
            }
            Self::Gold => {
                [[0.9674, 1.8916, 3.3993, 3.0524, 1.2607], [0.2358, 1.4712, 5.6758, 18.7119, 61.5286]]
            }
        }
    }

    /// Debye-Waller factor B \[angstrom^2\] at room temperature. SrTiO3: Y. A. Abramov et al., Acta Cryst. B51 (1995)
    /// 942; barium takes the value of the site; gold: L.-M. Peng et al., Acta Cryst. A52 (1996) 456; carbon: a choice.
    fn debye_waller(self) -> f64 {
        match self {
            Self::Strontium | Self::Barium => 0.62,
            Self::Titanium => 0.44,
            Self::Oxygen => 0.73,
            Self::Carbon => 1.0,
            Self::Gold => 0.62,
        }
    }
}

/// One Gaussian of a projected atom: phase = height exp(-falloff r^2), taken as 0 beyond `reach`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhaseGaussian {
    pub(super) height_rad: f64,
    pub(super) falloff_per_m2: f64,
    pub(super) reach_m: f64,
}

/// The Gaussians of a species at an accelerating voltage.
pub(super) fn phase_gaussians(species: Species, voltage: Kilovolts) -> [PhaseGaussian; 5] {
    /// exp(-9.2) = 1e-4 of the height: where a Gaussian is cut.
    const CUT: f64 = 9.2;
    const ELECTRON_REST_ENERGY_EV: f64 = 510_998.95;
    let mass_ratio = 1.0 + voltage.volts() / ELECTRON_REST_ENERGY_EV;
    let wavelength_angstrom = electron_wavelength(voltage).0 * 1e10;
    let [heights, widths] = species.scattering();
    std::array::from_fn(|index| {
        let width = widths[index] + species.debye_waller();
        let falloff_per_m2 = 4.0 * PI * PI / width * 1e20;
        PhaseGaussian {
            height_rad: mass_ratio * wavelength_angstrom * heights[index] * 4.0 * PI / width,
            falloff_per_m2,
            reach_m: (CUT / falloff_per_m2).sqrt(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The area under a projected atom is gamma lambda f(0): f(0) from an independent fit (I. Lobato, D. Van Dyck,
    /// Acta Cryst. A70 (2014) 636).
    #[test]
    fn the_phase_of_an_atom_integrates_to_its_forward_scattering() {
        let voltage = Kilovolts(300.0);
        let known = [
            (Species::Strontium, 13.11),
            (Species::Barium, 18.27),
            (Species::Titanium, 8.78),
            (Species::Carbon, 2.51),
            (Species::Gold, 10.58),
        ];
        for (species, forward_angstrom) in known {
            let area: f64 =
                phase_gaussians(species, voltage).iter().map(|g| g.height_rad * PI / g.falloff_per_m2).sum();
            let expected = 1.587_14 * 1.968_749e-12 * forward_angstrom * 1e-10;
            assert!((area / expected - 1.0).abs() < 3e-3, "{species:?}: {area} {expected}");
        }
    }
}
