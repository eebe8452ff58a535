//! The optics of an acquisition: wavelength, probe, geometry between detector and scan.

use super::units::{Degrees, Kilovolts, Metres, Milliradians, Nanometres, Radians};

/// Relativistic electron wavelength: lambda = h / sqrt(2 m e V (1 + e V / (2 m c^2))), CODATA 2022.
///
/// 300 kV gives 1.96875 pm.
pub fn electron_wavelength(voltage: Kilovolts) -> Metres {
    const PLANCK_J_S: f64 = 6.626_070_15e-34;
    const ELECTRON_MASS_KG: f64 = 9.109_383_713_9e-31;
    const ELEMENTARY_CHARGE_C: f64 = 1.602_176_634e-19;
    const LIGHT_SPEED_M_S: f64 = 299_792_458.0;
    let energy_j = ELEMENTARY_CHARGE_C * voltage.volts();
    let relativistic = 1.0 + energy_j / (2.0 * ELECTRON_MASS_KG * LIGHT_SPEED_M_S.powi(2));
    Metres(PLANCK_J_S / (2.0 * ELECTRON_MASS_KG * energy_j * relativistic).sqrt())
}

/// One term C_nm of the aberration function, up to fifth order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aberration {
    /// Order n: the phase grows as alpha^(n+1).
    pub order: u32,
    /// Rotational symmetry m; 0 is round.
    pub symmetry: u32,
    /// C_nm.
    pub size: Nanometres,
    /// phi_nm in the scan frame, measured from +row towards +col; no meaning when `symmetry` is 0.
    pub angle: Degrees,
}

/// Names, orders and symmetries of the 14 aberrations up to fifth order (Krivanek notation).
pub const ABERRATIONS: [(&str, u32, u32); 14] = [
    ("C10", 1, 0),
    ("C12", 1, 2),
    ("C21", 2, 1),
    ("C23", 2, 3),
    ("C30", 3, 0),
    ("C32", 3, 2),
    ("C34", 3, 4),
    ("C41", 4, 1),
    ("C43", 4, 3),
    ("C45", 4, 5),
    ("C50", 5, 0),
    ("C52", 5, 2),
    ("C54", 5, 4),
    ("C56", 5, 6),
];

/// A name that is no aberration up to fifth order.
#[derive(Debug, thiserror::Error)]
#[error("got aberration '{got}', expected one of C10 C12 C21 C23 C30 C32 C34 C41 C43 C45 C50 C52 C54 C56")]
pub struct UnknownAberration {
    /// The name given.
    pub got: String,
}

impl Aberration {
    /// The term with a Krivanek name such as `C10` or `C23`.
    ///
    /// # Errors
    /// [`UnknownAberration`] for any other name.
    pub fn named(name: &str, size: Nanometres, angle: Degrees) -> Result<Self, UnknownAberration> {
        ABERRATIONS
            .iter()
            .find(|(known, ..)| known.eq_ignore_ascii_case(name))
            .map(|&(_, order, symmetry)| Self { order, symmetry, size, angle })
            .ok_or_else(|| UnknownAberration { got: name.to_owned() })
    }

    /// The Krivanek name, for example `C12`.
    pub fn name(&self) -> String {
        format!("C{}{}", self.order, self.symmetry)
    }
}

/// The aberration function chi of a probe P = A exp(-i chi):
/// chi = (2 pi / lambda) sum_nm C_nm alpha^(n+1) cos(m (phi - phi_nm)) / (n + 1),
/// alpha = lambda |v|, phi = atan2(v_col, v_row). Sign as abTEM: C10 = -defocus, overfocus positive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aberrations(pub Vec<Aberration>);

impl Aberrations {
    /// chi \[rad\] at a scattering angle given by its components \[rad\] in the scan frame. The float64 reference.
    pub fn chi_rad(&self, alpha_row_rad: f64, alpha_col_rad: f64, wavelength: Metres) -> f64 {
        let alpha = alpha_row_rad.hypot(alpha_col_rad);
        let phi = alpha_col_rad.atan2(alpha_row_rad);
        let sum: f64 = self
            .0
            .iter()
            .map(|term| {
                let power = alpha.powi(term.order as i32 + 1) / f64::from(term.order + 1);
                let turn = (f64::from(term.symmetry) * (phi - term.angle.radians())).cos();
                term.size.metres() * power * turn
            })
            .sum();
        2.0 * std::f64::consts::PI / wavelength.0 * sum
    }

    /// The size of a term by name, 0 nm when it is not listed.
    pub fn size(&self, name: &str) -> Nanometres {
        Nanometres(self.0.iter().filter(|term| term.name() == name).map(|term| term.size.0).sum())
    }
}

/// Everything the model of a reconstruction needs to know of the microscope.
#[derive(Clone, Debug, PartialEq)]
pub struct Optics {
    /// Accelerating voltage.
    pub voltage: Kilovolts,
    /// Probe semi-convergence angle.
    pub semi_angle: Milliradians,
    /// Scan step along (row, col).
    pub scan_step: [Nanometres; 2],
    /// Detector sampling along (row, col), per pixel.
    pub detector_sampling: [Milliradians; 2],
    /// Turns detector components into scan components, k_scan = Rot k_detector,
    /// Rot = [[cos, -sin], [sin, cos]] on (row, col); applied after `transpose`.
    pub rotation: Degrees,
    /// Swaps the detector's row and column components before the rotation.
    pub transpose: bool,
    /// Probe aberrations, angles in the scan frame.
    pub aberrations: Aberrations,
}

impl Optics {
    /// The electron wavelength.
    pub fn wavelength(&self) -> Metres {
        electron_wavelength(self.voltage)
    }

    /// Scattering angle \[rad\], (row, col) in the scan frame, of a detector pixel relative to the beam centre \[px\].
    pub fn scan_angle(&self, det_row: f64, det_col: f64, centre: [f64; 2]) -> [Radians; 2] {
        let mut row = (det_row - centre[0]) * self.detector_sampling[0].radians();
        let mut col = (det_col - centre[1]) * self.detector_sampling[1].radians();
        if self.transpose {
            std::mem::swap(&mut row, &mut col);
        }
        let (sin, cos) = self.rotation.radians().sin_cos();
        [Radians(cos * row - sin * col), Radians(sin * row + cos * col)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wavelength_at_300_kv_is_1_96875_pm() {
        assert!((electron_wavelength(Kilovolts(300.0)).0 - 1.968_748_899_648_993e-12).abs() < 1e-23);
    }

    #[test]
    fn a_name_beyond_fifth_order_is_refused_by_name() {
        let refused = Aberration::named("C70", Nanometres(1.0), Degrees(0.0)).unwrap_err();
        assert!(refused.to_string().contains("C70"));
    }
}
