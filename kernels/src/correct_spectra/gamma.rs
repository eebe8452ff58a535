//! The overlap function gamma: a weak object of phase phi scatters G(q, k) = i phi(q) dc gamma(k, q), with
//! gamma = P(k - q) P*(k) - P(k) P*(k + q), P = A exp(-i chi) (Rodenburg, McCallum, Nellist 1993; the sign of the
//! argument is k - q: it decides for aberrations of even order n such as C21 and C23).
//!
//! Split chi about k into an even and an odd part in q,
//! E = (chi(k+q) + chi(k-q)) / 2 - chi(k) and O = (chi(k+q) - chi(k-q)) / 2. Then
//! conj gamma = A(k) exp(-iO) \[(A(k-q) - A(k+q)) cos E + i (A(k-q) + A(k+q)) sin E\].
//! chi is a polynomial in the components of the angle, so for each q both parts are polynomials in k whose
//! coefficients come from a Taylor shift in float64; float32 never subtracts two large phases. With C10 and C12 alone E
//! is a constant and O is linear in k. With higher orders this form serves small q only (see `Frequency::is_near`).

use num_complex::{Complex32, Complex64};

use crate::types::{Aberration, Milliradians, Optics, ScanShape};

/// Highest power of the angle in chi: fifth-order aberrations.
pub const MAX_POWER: usize = 6;

/// chi is refused beyond this: a float32 phase is then no better than a few milliradians.
const MOST_TURNS: f64 = 1e4;

/// Coefficients `[i][j]` of u_row^i u_col^j.
pub(crate) type Coefficients = [[f64; MAX_POWER + 1]; MAX_POWER + 1];

/// What a model of the overlap function cannot be built from.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ModelError {
    /// A quantity that must be positive and finite.
    #[error("{quantity} is {got}, expected a positive number")]
    NotPositive {
        /// Which quantity, with its unit.
        quantity: &'static str,
        /// The value given.
        got: f64,
    },
    /// An aberration that is not among the 14 up to fifth order, or not finite.
    #[error(
        "got aberration {name} of {size_nm} nm at {angle_deg} deg, expected a finite term of order 1 to 5 and its symmetry"
    )]
    Aberration {
        /// Krivanek name.
        name: String,
        /// C_nm.
        size_nm: f64,
        /// phi_nm.
        angle_deg: f64,
    },
    /// Aberrations beyond what float32 can follow.
    #[error(
        "aberrations add up to {got_turns:.0} turns of phase at the edge of the aperture, expected at most {most_turns}"
    )]
    TooLarge {
        /// Sum of the sizes of all terms.
        got_turns: f64,
        /// The most that is accepted.
        most_turns: f64,
    },
    /// The rotation is not a number.
    #[error("rotation is {got} deg, expected a finite number")]
    Rotation {
        /// The value given.
        got: f64,
    },
}

/// The overlap function of one set of optics.
///
/// All angles here are in units of the semi-convergence angle, (row, col) in the scan frame: the aperture ends at 1.
#[derive(Clone, Debug, PartialEq)]
pub struct GammaModel {
    optics: Optics,
    /// chi in turns.
    chi_turns: Coefficients,
    /// Highest power in chi: 2, 4 or 6.
    power: usize,
    /// Size of a detector pixel.
    pixel: [f64; 2],
    /// What one detector row, and one detector column, is.
    steps: [[f64; 2]; 2],
    /// Wavelength / (semi-angle * scan step): q index / number of positions to units of the semi-angle.
    frequency: [f64; 2],
}

impl GammaModel {
    /// Prepares the overlap function.
    ///
    /// # Errors
    /// [`ModelError`] for optics that are not finite and positive, or an aberration beyond fifth order.
    pub fn new(optics: &Optics) -> Result<Self, ModelError> {
        let positive = [
            ("accelerating voltage in kV", optics.voltage.0),
            ("semi-convergence angle in mrad", optics.semi_angle.0),
            ("scan step along rows in nm", optics.scan_step[0].0),
            ("scan step along columns in nm", optics.scan_step[1].0),
            ("detector sampling along rows in mrad/px", optics.detector_sampling[0].0),
            ("detector sampling along columns in mrad/px", optics.detector_sampling[1].0),
        ];
        for (quantity, got) in positive {
            if !(got > 0.0 && got.is_finite()) {
                return Err(ModelError::NotPositive { quantity, got });
            }
        }
        if !optics.rotation.0.is_finite() {
            return Err(ModelError::Rotation { got: optics.rotation.0 });
        }
        let semi_angle_rad = optics.semi_angle.radians();
        let wavelength_m = optics.wavelength().0;
        let mut chi_turns = Coefficients::default();
        for term in &optics.aberrations.0 {
            add_term(&mut chi_turns, term, semi_angle_rad, wavelength_m)?;
        }
        let got_turns: f64 = chi_turns.iter().flatten().map(|c| c.abs()).sum();
        if got_turns > MOST_TURNS {
            return Err(ModelError::TooLarge { got_turns, most_turns: MOST_TURNS });
        }
        let highest = (0..=MAX_POWER).flat_map(|i| (0..=MAX_POWER).map(move |j| (i, j)));
        let highest = highest.filter(|&(i, j)| chi_turns[i][j] != 0.0).map(|(i, j)| i + j).max();
        let power = match highest.unwrap_or(0) {
            0..=2 => 2,
            3..=4 => 4,
            _ => 6,
        };
        let pixel = optics.detector_sampling.map(|sampling| sampling.radians() / semi_angle_rad);
        let frequency = optics.scan_step.map(|step| wavelength_m / (semi_angle_rad * step.metres()));
        let step = |row, col| optics.scan_angle(row, col, [0.0; 2]).map(|angle| angle.0 / semi_angle_rad);
        let steps = [step(1.0, 0.0), step(0.0, 1.0)];
        Ok(Self { optics: optics.clone(), chi_turns, power, pixel, steps, frequency })
    }

    /// The optics this was made from.
    pub fn optics(&self) -> &Optics {
        &self.optics
    }

    /// Highest power of the angle in chi: 2 (C10, C12), 4 (to third order) or 6 (to fifth).
    pub fn power(&self) -> usize {
        self.power
    }

    /// The size of a detector pixel along (row, col).
    pub(crate) fn pixel(&self) -> [f64; 2] {
        self.pixel
    }

    /// Where a detector pixel is, given the beam centre \[px\].
    pub fn angle_of_pixel(&self, det_row: f64, det_col: f64, centre: [f64; 2]) -> [f64; 2] {
        let [row, col] = [det_row - centre[0], det_col - centre[1]];
        std::array::from_fn(|axis| row * self.steps[0][axis] + col * self.steps[1][axis])
    }

    /// The angle lambda q of a scan frequency, given signed indices: q = index / (positions * step).
    pub fn angle_of_frequency(&self, index: [isize; 2], scan: ScanShape) -> [f64; 2] {
        let positions = [scan.rows.max(1) as f64, scan.cols.max(1) as f64];
        std::array::from_fn(|axis| index[axis] as f64 / positions[axis] * self.frequency[axis])
    }

    /// The radius beyond which the aperture is exactly zero.
    pub fn outer_radius(&self) -> f64 {
        1.0 + self.pixel[0].max(self.pixel[1]) / 2.0
    }

    /// The radius up to which the aperture is exactly one.
    pub fn inner_radius(&self) -> f64 {
        1.0 - self.pixel[0].max(self.pixel[1]) / 2.0
    }

    /// The soft aperture before it is cut to 0..=1: (1 - |v|) / d + 1/2, d one detector pixel along v.
    pub fn aperture_ramp(&self, angle: [f64; 2]) -> f64 {
        let radius = angle[0].hypot(angle[1]);
        if radius == 0.0 {
            return 1.0;
        }
        let width = (angle[0] / radius * self.pixel[0]).hypot(angle[1] / radius * self.pixel[1]);
        (1.0 - radius) / width + 0.5
    }

    /// The soft aperture A, linear over one detector pixel.
    pub fn aperture(&self, angle: [f64; 2]) -> f64 {
        // most of a disk, and cheap
        let within = self.inner_radius() - 1e-9;
        if within > 0.0 && angle[0] * angle[0] + angle[1] * angle[1] < within * within {
            return 1.0;
        }
        self.aperture_ramp(angle).clamp(0.0, 1.0)
    }

    /// The probe P = A exp(-i chi), float64.
    pub fn probe(&self, angle: [f64; 2]) -> Complex64 {
        let Milliradians(semi_angle_mrad) = self.optics.semi_angle;
        let [row_rad, col_rad] = angle.map(|angle| angle * semi_angle_mrad * 1e-3);
        let chi_rad = self.optics.aberrations.chi_rad(row_rad, col_rad, self.optics.wavelength());
        self.aperture(angle) * Complex64::cis(-chi_rad)
    }

    /// gamma(k, q) in float64, straight from its definition: the reference for everything faster.
    pub fn gamma(&self, k: [f64; 2], q: [f64; 2]) -> Complex64 {
        let at_k = self.probe(k);
        self.probe([k[0] - q[0], k[1] - q[1]]) * at_k.conj()
            - at_k * self.probe([k[0] + q[0], k[1] + q[1]]).conj()
    }

    /// chi in turns, from its polynomial.
    pub(crate) fn chi_turns(&self, angle: [f64; 2]) -> f64 {
        let line = |line: &[f64; MAX_POWER + 1]| line.iter().rev().fold(0.0, |sum, c| sum * angle[1] + c);
        self.chi_turns.iter().rev().fold(0.0, |sum, coefficients| sum * angle[0] + line(coefficients))
    }

    /// The coefficients of chi in turns, `[i][j]` of u_row^i u_col^j.
    pub(crate) fn chi_turns_f64(&self) -> &[[f64; MAX_POWER + 1]; MAX_POWER + 1] {
        &self.chi_turns
    }

    /// q index / number of positions to units of the semi-angle, along (row, col).
    pub(crate) fn frequency(&self) -> [f64; 2] {
        self.frequency
    }

    /// The same in float32.
    pub(crate) fn chi_turns_f32(&self) -> [[f32; MAX_POWER + 1]; MAX_POWER + 1] {
        self.chi_turns.map(|line| line.map(|c| c as f32))
    }

    /// The even and odd parts of chi about any k, for one q.
    pub(crate) fn parts(&self, q: [f64; 2]) -> PhaseParts {
        let mut parts = [[[0.0; MAX_POWER]; MAX_POWER]; 2];
        let powers = q.map(|q| {
            let mut powers = [1.0; MAX_POWER + 1];
            for i in 1..=MAX_POWER {
                powers[i] = powers[i - 1] * q;
            }
            powers
        });
        for from_i in 0..=self.power {
            for from_j in 0..=self.power - from_i {
                let coefficient = self.chi_turns[from_i][from_j];
                if coefficient == 0.0 {
                    continue;
                }
                for i in 0..=from_i {
                    for j in 0..=from_j {
                        let steps = (from_i - i) + (from_j - j);
                        if steps > 0 {
                            parts[steps % 2][i][j] += coefficient
                                * BINOMIALS[from_i][i]
                                * BINOMIALS[from_j][j]
                                * powers[0][from_i - i]
                                * powers[1][from_j - j];
                        }
                    }
                }
            }
        }
        // Whole turns are taken off the constants in float64, where they are exact.
        let [mut even, mut odd] = parts;
        even[0][0] -= even[0][0].round();
        odd[0][0] -= odd[0][0].round();
        let (sin_even, cos_even) = (std::f64::consts::TAU * even[0][0]).sin_cos();
        PhaseParts {
            even: even.map(|line| line.map(|c| c as f32)),
            odd: odd.map(|line| line.map(|c| c as f32)),
            constant: Complex32::new(cos_even as f32, sin_even as f32),
            constant64: Complex64::new(cos_even, sin_even),
        }
    }
}

/// The even and odd parts of chi in turns, polynomials `[i][j]` in k_row^i k_col^j.
#[derive(Clone, Debug)]
pub(crate) struct PhaseParts {
    pub(crate) even: [[f32; MAX_POWER]; MAX_POWER],
    pub(crate) odd: [[f32; MAX_POWER]; MAX_POWER],
    /// exp(i E) of the constant term of E, all there is of it with C10 and C12 alone.
    pub(crate) constant: Complex32,
    pub(crate) constant64: Complex64,
}

pub(crate) const BINOMIALS: [[f64; MAX_POWER + 1]; MAX_POWER + 1] = {
    let mut table = [[0.0; MAX_POWER + 1]; MAX_POWER + 1];
    let mut n = 0;
    while n <= MAX_POWER {
        table[n][0] = 1.0;
        let mut k = 1;
        while k <= n {
            table[n][k] = table[n - 1][k - 1] + table[n - 1][k];
            k += 1;
        }
        n += 1;
    }
    table
};

/// Adds (C_nm / lambda) alpha^(n+1) / (n+1) cos(m (phi - phi_nm)) as a polynomial in the components of alpha:
/// alpha^(n+1) cos(m (phi - phi_nm)) = |z|^(n+1-m) Re(z^m exp(-i m phi_nm)), z = row + i col.
fn add_term(
    chi_turns: &mut Coefficients,
    term: &Aberration,
    semi_angle_rad: f64,
    wavelength_m: f64,
) -> Result<(), ModelError> {
    let known = crate::types::ABERRATIONS.iter().any(|&(_, n, m)| (n, m) == (term.order, term.symmetry));
    if !known || !term.size.0.is_finite() || !term.angle.0.is_finite() {
        return Err(ModelError::Aberration {
            name: term.name(),
            size_nm: term.size.0,
            angle_deg: term.angle.0,
        });
    }
    let (power, symmetry) = (term.order as usize + 1, term.symmetry as usize);
    let size = term.size.metres() * semi_angle_rad.powi(power as i32) / (power as f64 * wavelength_m);
    let turned = Complex64::cis(-(symmetry as f64) * term.angle.radians());
    let half = (power - symmetry) / 2;
    for (j, ways) in BINOMIALS[symmetry].iter().enumerate().take(symmetry + 1) {
        // z^m = sum_j binomial(m, j) row^(m-j) (i col)^j
        let azimuthal = (Complex64::I.powu(j as u32) * turned).re * ways;
        for (round, ways) in BINOMIALS[half].iter().enumerate().take(half + 1) {
            let (rows, cols) = (symmetry - j + 2 * (half - round), j + 2 * round);
            chi_turns[rows][cols] += size * azimuthal * ways;
        }
    }
    Ok(())
}
