//! Frames against what the weak phase object's equations say, written here with the optics' own functions: that
//! covers the sign and the frame of positions, rotation, transposition, aberrations, tilt and depth.

use kernels::types::{Aberration, Degrees, Nanometres, Optics};
use rustfft::num_complex::Complex64;

use crate::simulate::args::{RowCol, SimulateArgs};
use crate::simulate::geometry::{Geometry, GeometryRequest};
use crate::simulate::settings::Settings;
use crate::simulate::specimen::Specimen;
use crate::simulate::transmission::{MapPlan, Transmission};
use crate::simulate::wave::Beam;

use std::f64::consts::PI;

fn demo() -> SimulateArgs {
    let mut args = SimulateArgs::demo("unused".into());
    args.scan_shape = "5x7".parse().unwrap();
    args
}

fn beam(args: &SimulateArgs, smooth: impl Fn(f64, f64) -> f64 + Send + Sync + 'static) -> (Settings, Beam) {
    let settings = Settings::from_args(args).unwrap();
    let geometry = Geometry::plan(&GeometryRequest {
        optics: &settings.optics,
        scan: args.scan_shape,
        detector: args.detector_shape,
        centre: settings.centre,
        pixel_samples: args.pixel_samples,
        probe_radius_m: settings.probe_radius_m(),
        num_slices: settings.num_slices,
    })
    .unwrap();
    let plan = MapPlan::new(&geometry, settings.num_slices).unwrap();
    let specimen =
        Specimen::new(settings.optics.voltage, settings.stack.thickness_m).with_smooth(Box::new(smooth));
    let transmission = Transmission::new(&specimen, &geometry, plan, settings.num_slices).unwrap();
    let beam = Beam::new(&settings.optics, geometry, transmission, settings.stack);
    (settings, beam)
}

fn fractions(beam: &Beam, frame: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; beam.geometry().detector.pixels()];
    beam.fractions(frame, &mut beam.scratch().unwrap(), &mut out);
    out
}

/// A weak sine of the phase, and where it is seen from.
struct Sine<'a> {
    settings: &'a Settings,
    pitch_rad: f64,
    /// Scattering angle of its period, scan frame.
    angle_rad: [f64; 2],
    height_rad: f64,
}

impl Sine<'_> {
    fn probe(&self, [row, col]: [f64; 2]) -> Complex64 {
        let optics: &Optics = &self.settings.optics;
        let open = (optics.semi_angle.radians() - row.hypot(col)) / self.pitch_rad + 0.5;
        Complex64::from_polar(
            open.clamp(0.0, 1.0),
            -optics.aberrations.chi_rad(row, col, optics.wavelength()),
        )
    }

    /// Intensity at an angle of the scan's frame with the probe at `position_m`: first order in the phase, slices at
    /// their depths. Open beam: 1.
    fn intensity(&self, angle: [f64; 2], position_m: [f64; 2]) -> f64 {
        let wavelength_m = self.settings.optics.wavelength().0;
        let turn = |angle: [f64; 2], by_m: [f64; 2]| {
            Complex64::cis(2.0 * PI / wavelength_m * (angle[0] * by_m[0] + angle[1] * by_m[1]))
        };
        let fall = |angle: [f64; 2], down_m: f64| {
            Complex64::cis(-PI / wavelength_m * (angle[0].powi(2) + angle[1].powi(2)) * down_m)
        };
        let at = position_m.map(|metres| -metres);
        let stack = self.settings.stack;
        let mut wave = self.probe(angle) * turn(angle, at) * fall(angle, stack.thickness_m);
        let slices = self.settings.num_slices;
        for slice in 0..slices {
            let depth_m = (slice as f64 + 0.5) / slices as f64 * stack.thickness_m;
            let sideways = stack.tilt_rad.map(|tilt| -tilt * (depth_m - stack.thickness_m / 2.0));
            for sign in [-1.0, 1.0] {
                let by = self.angle_rad.map(|part| sign * part);
                let before = [angle[0] - by[0], angle[1] - by[1]];
                wave += Complex64::new(0.0, self.height_rad / 2.0 / slices as f64)
                    * self.probe(before)
                    * turn(before, at)
                    * fall(before, depth_m)
                    * turn(by, sideways)
                    * fall(angle, stack.thickness_m - depth_m);
            }
        }
        wave.norm_sqr()
    }
}

/// Compares every pixel of a few frames with the equation; also that the object is seen at all.
fn a_weak_sine_is_seen_as_the_equation_says(args: &SimulateArgs) {
    const HEIGHT_RAD: f64 = 0.01;
    let angle_rad = [0.019, -0.011];
    let frequency = Settings::from_args(args).unwrap().optics.wavelength().0;
    let (settings, beam) = beam(args, move |row, col| {
        HEIGHT_RAD * (2.0 * PI / frequency * (angle_rad[0] * row + angle_rad[1] * col)).cos()
    });
    let geometry = beam.geometry();
    let sine = Sine { settings: &settings, pitch_rad: geometry.pitch_rad, angle_rad, height_rad: HEIGHT_RAD };
    let flat = Sine { height_rad: 0.0, ..sine };
    let sine = Sine { height_rad: HEIGHT_RAD, ..flat };
    let samples = geometry.pixel_samples;
    let sample = |sample: usize| (sample as f64 + 0.5) / samples as f64 - 0.5;
    let average = |model: &Sine<'_>, row: usize, col: usize, position_m: [f64; 2]| -> f64 {
        let inside = (0..samples).flat_map(|r| (0..samples).map(move |c| (r, c)));
        inside
            .map(|(r, c)| {
                let place = [row as f64 + sample(r), col as f64 + sample(c)];
                let angle =
                    settings.optics.scan_angle(place[0], place[1], settings.centre).map(|angle| angle.0);
                model.intensity(angle, position_m)
            })
            .sum()
    };
    let mut norm = 0.0;
    for row in 0..geometry.detector.rows {
        for col in 0..geometry.detector.cols {
            norm += average(&flat, row, col, [0.0, 0.0]);
        }
    }
    let (mut worst, mut strongest) = (0.0_f64, 0.0_f64);
    for frame in [0, 11, geometry.scan.positions() - 1] {
        let got = fractions(&beam, frame);
        let position_m = geometry.position_m(frame);
        for row in (0..geometry.detector.rows).step_by(3) {
            for col in (0..geometry.detector.cols).step_by(3) {
                let expected = average(&sine, row, col, position_m) / norm;
                let without = average(&flat, row, col, position_m) / norm;
                let got = f64::from(got[row * geometry.detector.cols + col]);
                worst = worst.max((got - expected).abs());
                strongest = strongest.max((expected - without).abs());
            }
        }
    }
    // What is left is of second order in the phase, and the far tails of the probe.
    assert!(worst < 0.03 * strongest, "off by {worst:e} where the sine gives {strongest:e}");
}

fn aberrations(terms: &[(&str, f64, f64)]) -> Vec<Aberration> {
    terms
        .iter()
        .map(|&(name, size, angle)| Aberration::named(name, Nanometres(size), Degrees(angle)).unwrap())
        .collect()
}

#[test]
fn a_rotated_detector_sees_a_weak_sine_as_the_equation_says() {
    let mut args = demo();
    args.rotation_deg = 33.0;
    args.bf_centre = Some(RowCol([45.2, 50.7]));
    args.thickness_nm = Some(0.0);
    a_weak_sine_is_seen_as_the_equation_says(&args);
}

#[test]
fn odd_and_high_aberrations_act_in_the_scan_frame() {
    let mut args = demo();
    args.rotation_deg = -71.0;
    let terms = [
        ("C10", 4.0, 0.0),
        ("C21", 300.0, 40.0),
        ("C23", 250.0, 70.0),
        ("C30", 2e4, 0.0),
        ("C45", 1e6, 15.0),
    ];
    args.aberrations = aberrations(&terms);
    a_weak_sine_is_seen_as_the_equation_says(&args);
}

#[test]
fn a_transposed_detector_of_unequal_sides_sees_a_weak_sine_as_the_equation_says() {
    let mut args = demo();
    args.rotation_deg = 20.0;
    args.transpose = true;
    args.detector_shape.cols = 80;
    args.aberrations = aberrations(&[("C10", -8.0, 0.0), ("C12", 4.0, 20.0), ("C21", 300.0, 40.0)]);
    a_weak_sine_is_seen_as_the_equation_says(&args);
}

#[test]
fn slices_of_a_tilted_specimen_lie_where_the_tilt_puts_them() {
    let mut args = demo();
    args.rotation_deg = -30.0;
    args.specimen = crate::simulate::SpecimenName::Vacuum;
    args.thickness_nm = Some(12.0);
    args.slices = Some(6);
    args.tilt_mrad = RowCol([14.0, -9.0]);
    a_weak_sine_is_seen_as_the_equation_says(&args);
    args.transpose = true;
    a_weak_sine_is_seen_as_the_equation_says(&args);
}

/// Smooth and strong: up to 1.2 rad.
fn strong(row: f64, col: f64) -> f64 {
    0.6 + 0.4 * (row * 1.7e10).sin() * (col * 1.1e10).cos() + 0.2 * (col * 2.3e10).sin()
}

#[test]
fn slices_closer_than_any_depth_of_focus_are_one_phase_object() {
    let mut args = demo();
    args.specimen = crate::simulate::SpecimenName::Vacuum;
    args.thickness_nm = Some(1e-4);
    args.slices = Some(1);
    let whole = fractions(&beam(&args, strong).1, 9);
    args.slices = Some(4);
    let sliced = fractions(&beam(&args, strong).1, 9);
    let largest = whole.iter().copied().fold(0.0, f32::max);
    for (one, four) in whole.iter().zip(&sliced) {
        assert!((one - four).abs() < 2e-3 * largest, "{one} {four} {largest}");
    }
}

#[test]
fn electrons_are_neither_made_nor_lost() {
    for slices in [1, 5] {
        let mut args = demo();
        args.specimen = crate::simulate::SpecimenName::Vacuum;
        args.thickness_nm = Some(5.0);
        args.slices = Some(slices);
        let sum = |beam: &Beam| fractions(beam, 3).iter().map(|&part| f64::from(part)).sum::<f64>();
        let empty = sum(&beam(&args, |_, _| 0.0).1);
        assert!((empty - 1.0).abs() < 1e-4, "{slices} slices, nothing in the beam: {empty}");
        // A smooth specimen scatters within the detector.
        let strong = sum(&beam(&args, strong).1);
        assert!((strong - 1.0).abs() < 2e-3, "{slices} slices: {strong}");
    }
}

#[test]
fn the_probe_sits_on_the_scan_position_to_a_hundredth_of_a_step() {
    // A phase ramp over the specimen shifts the disk by the ramp; a slow quadratic one shifts it by what it is at the
    // probe: so the disk's centre tells where the probe is.
    let mut args = demo();
    args.aberrations = aberrations(&[("C10", 0.0, 0.0)]);
    args.thickness_nm = Some(0.0);
    args.specimen = crate::simulate::SpecimenName::Vacuum;
    const BEND_PER_M2: f64 = 4e18;
    let (settings, beam) = beam(&args, |row, col| BEND_PER_M2 * (row * row + 0.5 * row * col));
    let geometry = beam.geometry();
    for frame in 0..geometry.scan.positions() {
        let got = fractions(&beam, frame);
        let (mut sum, mut moment) = (0.0, [0.0; 2]);
        for (pixel, &part) in got.iter().enumerate() {
            let place =
                [pixel / geometry.detector.cols, pixel % geometry.detector.cols].map(|index| index as f64);
            let angle = settings.optics.scan_angle(place[0], place[1], settings.centre);
            sum += f64::from(part);
            moment[0] += f64::from(part) * angle[0].0;
            moment[1] += f64::from(part) * angle[1].0;
        }
        let [row_m, col_m] = geometry.position_m(frame);
        let slope = [2.0 * row_m + 0.5 * col_m, 0.5 * row_m].map(|metres| BEND_PER_M2 * metres);
        let step_m = settings.optics.scan_step[0].metres();
        for axis in 0..2 {
            let expected = geometry.wavelength_m / (2.0 * PI) * slope[axis];
            let a_hundredth = geometry.wavelength_m / (2.0 * PI) * 2.0 * BEND_PER_M2 * step_m * 0.01;
            assert!((moment[axis] / sum - expected).abs() < a_hundredth.max(1e-8), "{frame} {axis}");
        }
    }
}
