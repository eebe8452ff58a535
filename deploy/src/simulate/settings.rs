//! Flags, checked and in the units of the calculation.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use kernels::types::{
    Aberration, Aberrations, Degrees, DetectorShape, Kilovolts, Milliradians, Nanometres, Optics,
};

use crate::optics::{SCAN_STEPS_NM, SEMI_ANGLES_MRAD, VOLTAGES_KV, aberration_problem, meant};
use crate::request::check_threads;

use super::args::{SimulateArgs, SpecimenName};
use super::specimen::{
    Extent, MOST_PHASE_RAD, STO_CELL_M, Specimen, film_thickness_m, gold_on_carbon, read_phase_map,
    strontium_titanate, test_chart,
};
use super::wave::Stack;

/// A checked request.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) optics: Optics,
    pub(super) centre: [f64; 2],
    pub(super) stack: Stack,
    pub(super) num_slices: usize,
    pub(super) specimen: SpecimenChoice,
}

/// What lies in the beam.
#[derive(Clone, Debug)]
pub(super) enum SpecimenChoice {
    Named(SpecimenName),
    Map { path: PathBuf, pixel_m: f64, white_rad: f64 },
}

/// Thicker than this, a specimen is not one phase object unless asked for.
const THIN_M: f64 = 1e-9;
/// Distance of slices when not asked for.
const SLICE_M: f64 = 4e-10;

impl Settings {
    /// Checks the flags.
    ///
    /// # Errors
    /// The flag, what it got and what is expected.
    pub(super) fn from_args(args: &SimulateArgs) -> anyhow::Result<Self> {
        in_unit("--voltage-kv", args.voltage_kv, VOLTAGES_KV, 1e-3, "kV")?;
        in_unit("--semi-angle-mrad", args.semi_angle_mrad, SEMI_ANGLES_MRAD, 1e3, "mrad")?;
        in_unit("--scan-step-nm", args.scan_step_nm, SCAN_STEPS_NM, 1e9, "nm")?;
        positive("--detector-sampling-mrad", args.detector_sampling_mrad, 100.0)?;
        positive("--electrons-per-frame", args.electrons_per_frame, 1e9)?;
        ensure!(
            (-360.0..=360.0).contains(&args.rotation_deg),
            "--rotation-deg: got {:e}, expected -360 to 360",
            args.rotation_deg
        );
        let DetectorShape { rows, cols } = args.detector_shape;
        ensure!(rows.max(cols) <= 8192, "--detector-shape: got {rows}x{cols}, expected at most 8192 a side");
        let positions = args.scan_shape.positions();
        ensure!(positions <= 1 << 30, "--scan-shape: got {positions} positions, expected at most 2^30");
        check_threads(args.threads)?;
        if let Some(samples) = args.pixel_samples {
            ensure!((1..=16).contains(&samples), "--pixel-samples: got {samples}, expected 1 to 16");
        }
        let bad_pixels =
            args.hot_pixels.saturating_add(args.unlisted_hot_pixels).saturating_add(args.dead_pixels);
        ensure!(
            bad_pixels <= args.detector_shape.pixels() / 10,
            "--hot-pixels, --unlisted-hot-pixels, --dead-pixels: got {bad_pixels} in all, expected at most a tenth of the detector"
        );
        let centre = match args.bf_centre {
            Some(centre) => centre.0,
            None => [(rows as f64 - 1.0) / 2.0, (cols as f64 - 1.0) / 2.0],
        };
        for (axis, size) in [rows, cols].into_iter().enumerate() {
            ensure!(
                (-0.5..size as f64).contains(&centre[axis]),
                "--bf-centre: got {},{}, expected a point of the {rows}x{cols} detector",
                centre[0],
                centre[1]
            );
        }
        let specimen = specimen_choice(args)?;
        let thickness_m = thickness_m(args, &specimen)?;
        let num_slices = match args.slices {
            Some(slices) => slices,
            None if thickness_m <= THIN_M => 1,
            None => (thickness_m / SLICE_M).ceil() as usize,
        };
        ensure!((1..=10_000).contains(&num_slices), "--slices: got {num_slices}, expected 1 to 10000");
        ensure!(
            num_slices == 1 || thickness_m > 0.0,
            "--slices: got {num_slices} for a specimen of no thickness, expected --thickness-nm too"
        );
        let tilt_rad = args.tilt_mrad.0.map(|tilt| tilt * 1e-3);
        ensure!(
            tilt_rad[0].hypot(tilt_rad[1]) <= 0.2,
            "--tilt-mrad: got {},{}, expected at most 200 mrad",
            args.tilt_mrad.0[0],
            args.tilt_mrad.0[1]
        );
        Ok(Self {
            optics: optics(args)?,
            centre,
            stack: Stack { thickness_m, tilt_rad },
            num_slices,
            specimen,
        })
    }

    /// The specimen, filling `extent`.
    ///
    /// # Errors
    /// A phase map that cannot be read.
    pub(super) fn build_specimen(&self, args: &SimulateArgs, extent: Extent) -> anyhow::Result<Specimen> {
        let step_m = args.scan_step_nm * 1e-9;
        let empty = Specimen::new(self.optics.voltage, self.stack.thickness_m);
        Ok(match &self.specimen {
            SpecimenChoice::Named(SpecimenName::Vacuum) => empty,
            SpecimenChoice::Named(SpecimenName::Sto) => strontium_titanate(empty, extent, args.seed),
            SpecimenChoice::Named(SpecimenName::GoldParticle) => gold_on_carbon(empty, extent, args.seed),
            SpecimenChoice::Named(SpecimenName::TestChart) => {
                let width_m = args.scan_shape.rows.min(args.scan_shape.cols) as f64 * step_m;
                // Twice the finest distance the optics resolve, or four steps.
                let finest_m = self.optics.wavelength().0 / self.optics.semi_angle.radians();
                empty.with_smooth(test_chart(width_m, finest_m.max(4.0 * step_m)))
            }
            SpecimenChoice::Map { path, pixel_m, white_rad } => {
                empty.with_smooth(read_phase_map(path, *white_rad)?.smooth(*pixel_m))
            }
        })
    }

    /// Radius of the probe where it is widest, by ray optics: the largest |grad chi| / 2 pi inside the aperture, at the
    /// entrance, mid depth and the exit. Never less than the radius of its diffraction disk.
    pub(super) fn probe_radius_m(&self) -> f64 {
        let depths = [0.5, 1.0].map(|part| part * self.stack.thickness_m);
        ssb::probe_radius(&self.optics, &depths).0
    }

    /// C10 at mid depth: that of the entrance plus half the thickness.
    pub(super) fn c10_at_mid_depth_m(&self) -> f64 {
        self.optics.aberrations.size("C10").metres() + self.stack.thickness_m / 2.0
    }
}

/// As [`positive`], within a range; asks whether the value was meant in the base unit.
fn in_unit(flag: &str, got: f64, range: [f64; 2], per_base_unit: f64, unit: &str) -> anyhow::Result<()> {
    let [least, most] = range;
    ensure!(
        (least..=most).contains(&got),
        "{flag}: got {got} {unit}, expected {least} to {most} {unit}{}",
        meant(got, per_base_unit, range, unit)
    );
    Ok(())
}

fn positive(flag: &str, got: f64, most: f64) -> anyhow::Result<()> {
    ensure!(got > 0.0 && got <= most, "{flag}: got {got}, expected more than 0 and at most {most}");
    Ok(())
}

fn optics(args: &SimulateArgs) -> anyhow::Result<Optics> {
    let mut aberrations = args.aberrations.clone();
    for (index, term) in aberrations.iter().enumerate() {
        if aberrations[..index].iter().any(|earlier| earlier.name() == term.name()) {
            bail!("--aberration: got {} twice, expected it once", term.name());
        }
        if let Some((got, expected)) = aberration_problem(term) {
            bail!("--aberration: got {got}, expected {expected}");
        }
    }
    if aberrations.is_empty() {
        for (name, size, angle) in [("C10", -12.0, 0.0), ("C12", 3.0, 20.0)] {
            aberrations.push(Aberration::named(name, Nanometres(size), Degrees(angle))?);
        }
    }
    Ok(Optics {
        voltage: Kilovolts(args.voltage_kv),
        semi_angle: Milliradians(args.semi_angle_mrad),
        scan_step: [Nanometres(args.scan_step_nm); 2],
        detector_sampling: [Milliradians(args.detector_sampling_mrad); 2],
        rotation: Degrees(args.rotation_deg),
        transpose: args.transpose,
        aberrations: Aberrations(aberrations),
    })
}

fn specimen_choice(args: &SimulateArgs) -> anyhow::Result<SpecimenChoice> {
    let Some(path) = &args.phase_map else { return Ok(SpecimenChoice::Named(args.specimen)) };
    let pixel_nm = args.phase_map_pixel_nm.context("--phase-map: expected --phase-map-pixel-nm too")?;
    ensure!(
        (1e-6..=1e6).contains(&pixel_nm),
        "--phase-map-pixel-nm: got {pixel_nm:e} nm, expected 0.000001 to 1000000 nm"
    );
    ensure!(
        args.phase_map_white_rad.abs() <= MOST_PHASE_RAD,
        "--phase-map-white-rad: got {:e} rad, expected {MOST_PHASE_RAD} rad at most, either sign",
        args.phase_map_white_rad
    );
    Ok(SpecimenChoice::Map {
        path: path.clone(),
        pixel_m: pixel_nm * 1e-9,
        white_rad: args.phase_map_white_rad,
    })
}

fn thickness_m(args: &SimulateArgs, specimen: &SpecimenChoice) -> anyhow::Result<f64> {
    let asked_m = args.thickness_nm.map(|thickness| thickness * 1e-9);
    if let Some(asked) = args.thickness_nm {
        ensure!((0.0..=1000.0).contains(&asked), "--thickness-nm: got {asked}, expected 0 to 1000");
    }
    Ok(match specimen {
        SpecimenChoice::Named(SpecimenName::Sto) => {
            (asked_m.unwrap_or(STO_CELL_M) / STO_CELL_M).round().max(1.0) * STO_CELL_M
        }
        SpecimenChoice::Named(SpecimenName::GoldParticle) => film_thickness_m(asked_m.unwrap_or(2e-9)),
        _ => asked_m.unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ray_radius_of_a_defocused_probe_is_defocus_times_aperture() {
        let mut args = SimulateArgs::demo("unused".into());
        args.aberrations = vec![Aberration::named("C10", Nanometres(-100.0), Degrees(0.0)).unwrap()];
        args.thickness_nm = Some(0.39);
        let settings = Settings::from_args(&args).unwrap();
        assert!((settings.probe_radius_m() - 100e-9 * 25e-3).abs() < 1e-13);
        assert!((settings.c10_at_mid_depth_m() + 100e-9 - STO_CELL_M / 2.0).abs() < 1e-15);
    }

    #[test]
    fn a_flag_out_of_range_is_named() {
        let refused = |change: fn(&mut SimulateArgs)| {
            let mut args = SimulateArgs::demo("unused".into());
            change(&mut args);
            Settings::from_args(&args).unwrap_err().to_string()
        };
        assert!(refused(|args| args.voltage_kv = 0.0).contains("--voltage-kv"));
        assert!(refused(|args| args.electrons_per_frame = f64::NAN).contains("--electrons-per-frame"));
        assert!(refused(|args| args.scan_step_nm = 2.4e-11).contains("did you mean 0.024 nm?"));
        assert!(refused(|args| args.semi_angle_mrad = 0.025).contains("did you mean 25 mrad?"));
        assert!(refused(|args| args.threads = Some(0)).contains("--threads: got 0, expected 1 to 1024"));
        assert!(refused(|args| args.threads = Some(1025)).contains("--threads: got 1025"));
        assert!(refused(|args| args.rotation_deg = 1e300).contains("--rotation-deg: got 1e300"));
        for absurd_nm in [0.0, 1e-300, 1e7, f64::NAN] {
            let mut args = SimulateArgs::demo("unused".into());
            (args.phase_map, args.phase_map_pixel_nm) = (Some("map.npy".into()), Some(absurd_nm));
            let refused = Settings::from_args(&args).unwrap_err().to_string();
            assert!(
                refused.contains("--phase-map-pixel-nm: got") && refused.contains("1000000"),
                "{refused}"
            );
            (args.phase_map_pixel_nm, args.phase_map_white_rad) = (Some(0.01), absurd_nm + 1e9);
            let refused = Settings::from_args(&args).unwrap_err().to_string();
            assert!(refused.contains("--phase-map-white-rad: got"), "{refused}");
        }
        assert!(refused(|args| args.slices = Some(0)).contains("--slices"));
        assert!(refused(|args| args.dead_pixels = 5000).contains("--dead-pixels"));
        assert!(refused(|args| args.aberrations = vec![optics_term(); 2]).contains("C30 twice"));
    }

    fn optics_term() -> Aberration {
        Aberration::named("C30", Nanometres(1.0), Degrees(0.0)).unwrap()
    }
}
