//! How wide a probe is, by ray optics.

use std::f64::consts::PI;

use kernels::types::{Metres, Optics};

/// Radius of the probe where it is widest: the largest |grad chi| / 2 pi inside the aperture, in the plane of the
/// aberrations and after travelling each of `depths_m`. Never less than the radius of its diffraction disk.
pub fn probe_radius(optics: &Optics, depths_m: &[f64]) -> Metres {
    const RAYS: usize = 72;
    let aperture = optics.semi_angle.radians();
    let wavelength = optics.wavelength();
    let mut radius_m = 0.61 * wavelength.0 / aperture;
    for ray in 0..RAYS {
        let (sin, cos) = (ray as f64 / RAYS as f64 * 2.0 * PI).sin_cos();
        for part in [0.35, 0.7, 1.0] {
            let [row, col] = [cos, sin].map(|direction| direction * aperture * part);
            let chi = |row: f64, col: f64| optics.aberrations.chi_rad(row, col, wavelength);
            let nudge = aperture * 1e-4;
            // chi is a phase over angle; over k = angle / wavelength its slope is the ray's place times 2 pi.
            let slope = |low: f64, high: f64| (high - low) / (2.0 * nudge) * wavelength.0 / (2.0 * PI);
            let place = [
                slope(chi(row - nudge, col), chi(row + nudge, col)),
                slope(chi(row, col - nudge), chi(row, col + nudge)),
            ];
            for &depth in [0.0].iter().chain(depths_m) {
                radius_m = radius_m.max((place[0] + depth * row).hypot(place[1] + depth * col));
            }
        }
    }
    Metres(radius_m)
}
