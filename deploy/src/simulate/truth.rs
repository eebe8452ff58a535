//! What was simulated, as `truth.json`: SI units, names as a reconstruction needs them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::args::SimulateArgs;
use super::bad_pixels::{BadPixels, DeadPixel, HotPixel};
use super::geometry::Geometry;
use super::settings::{Settings, SpecimenChoice};
use super::specimen::{Defect, Specimen};
use super::wave::Beam;
use crate::report::command_line;

/// Who made the set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MadeWith {
    /// The program.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// The command line that made it.
    pub command: Vec<String>,
    /// Time it took.
    pub seconds: f64,
}

/// Everything that is known of a simulated set. Field names carry the unit; (row, col) everywhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the names are the keys of truth.json, with their units; docs/src/how-to/simulate.md has the table"
)]
pub struct Truth {
    /// The master file that was written; not part of `truth.json`.
    #[serde(skip)]
    pub master: PathBuf,
    pub set: String,
    pub made_with: MadeWith,
    pub specimen: String,
    #[serde(rename = "voltage_V")]
    pub voltage_volts: f64,
    pub wavelength_m: f64,
    pub semiangle_rad: f64,
    pub scan_shape: [usize; 2],
    pub scan_step_m: f64,
    pub nyquist_step_for_2alpha_m: f64,
    pub detector_shape: [usize; 2],
    pub detector_sampling_rad_per_px: f64,
    pub bf_radius_px: f64,
    pub bf_centre_row_col_px: [f64; 2],
    pub scan_axes_rotation_rad: f64,
    pub detector_to_scan_rotation_rad: f64,
    /// The same in degrees, as `--rotation-deg` takes it.
    #[serde(default)]
    pub detector_to_scan_rotation_deg: f64,
    pub transpose: bool,
    /// `CNM_m`, `phiNM_scan_frame_rad`, the same `_deg`, `phiNM_detector_frame_rad` for every term, and `C10_at_mid_depth_m`.
    pub aberrations: BTreeMap<String, f64>,
    pub aberration_convention: String,
    /// None for a single slice.
    pub thickness_m: Option<f64>,
    /// Distance over which the specimen reaches, also for a single slice.
    pub specimen_thickness_m: f64,
    /// Rows, columns and depth of the part of the specimen that was laid out.
    pub cell_m: [f64; 3],
    pub n_slices: usize,
    pub n_atoms: usize,
    pub tilt_detector_frame_rad: [f64; 2],
    pub tilt_scan_frame_rad: [f64; 2],
    pub tilt_note: String,
    pub dose_electrons_per_frame: f64,
    pub dose_electrons_per_m2: f64,
    pub poisson_seed: u64,
    pub structure_seed: u64,
    pub hot_pixels: Vec<HotPixel>,
    pub dead_pixels: Vec<DeadPixel>,
    pub defects: Vec<Defect>,
    /// First scan position from the middle of the scan, where defect positions are counted from.
    #[serde(rename = "scan_origin_A")]
    pub scan_origin_angstrom: [f64; 2],
    pub distinct_probe_positions: usize,
    pub commensurate: Option<[u64; 3]>,
    pub frames_per_file: u64,
    pub mean_counts_per_frame_good_pixels: f64,
    /// Counts that did not fit the count type and were stored as its largest value.
    pub saturated_counts: u64,
    /// Rows and columns of the grid each frame was computed on, and samples along each side of a pixel.
    pub grid: [usize; 2],
    pub pixel_samples: usize,
    pub band_limit_rad: f64,
}

/// Sums over all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Counts of pixels that the mask does not list.
    pub(super) good_counts: u64,
    pub(super) saturated_counts: u64,
}

impl Truth {
    pub(super) fn new(
        args: &SimulateArgs,
        settings: &Settings,
        beam: &Beam,
        specimen: &Specimen,
        bad: &BadPixels,
        totals: Totals,
        seconds: f64,
    ) -> Self {
        let geometry = beam.geometry();
        let [laid_out_rows, laid_out_cols] = beam.laid_out_m();
        let optics = &settings.optics;
        let step_m = optics.scan_step[0].metres();
        let semiangle_rad = optics.semi_angle.radians();
        let rotation_rad = optics.rotation.radians();
        let origin_m = geometry.position_m(0);
        let num_frames = geometry.scan.positions() as f64;
        Self {
            master: PathBuf::new(),
            set: args.name.clone(),
            made_with: MadeWith {
                tool: "sideband simulate".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                command: command_line(),
                seconds,
            },
            specimen: describe(&settings.specimen),
            voltage_volts: optics.voltage.volts(),
            wavelength_m: geometry.wavelength_m,
            semiangle_rad,
            scan_shape: [geometry.scan.rows, geometry.scan.cols],
            scan_step_m: step_m,
            nyquist_step_for_2alpha_m: geometry.wavelength_m / (4.0 * semiangle_rad),
            detector_shape: [geometry.detector.rows, geometry.detector.cols],
            detector_sampling_rad_per_px: optics.detector_sampling[0].radians(),
            bf_radius_px: semiangle_rad / optics.detector_sampling[0].radians(),
            bf_centre_row_col_px: settings.centre,
            scan_axes_rotation_rad: -rotation_rad,
            detector_to_scan_rotation_rad: rotation_rad,
            detector_to_scan_rotation_deg: optics.rotation.0,
            transpose: optics.transpose,
            aberrations: aberrations(settings, geometry),
            aberration_convention: "P(k) = A(k) exp(-i chi), chi = 2pi/lambda sum C_nm alpha^(n+1) cos(m(phi-phi_nm))/(n+1); phi = atan2(k_col, k_row)".to_owned(),
            thickness_m: (settings.num_slices > 1).then_some(settings.stack.thickness_m),
            specimen_thickness_m: settings.stack.thickness_m,
            cell_m: [laid_out_rows, laid_out_cols, settings.stack.thickness_m],
            n_slices: settings.num_slices,
            n_atoms: specimen.atoms.len(),
            tilt_detector_frame_rad: geometry.detector_from_scan(settings.stack.tilt_rad),
            tilt_scan_frame_rad: settings.stack.tilt_rad,
            tilt_note: "slice at depth z from mid depth is displaced by z*tilt".to_owned(),
            dose_electrons_per_frame: args.electrons_per_frame,
            dose_electrons_per_m2: args.electrons_per_frame / (step_m * step_m),
            poisson_seed: args.seed,
            structure_seed: args.seed,
            hot_pixels: bad.hot.clone(),
            dead_pixels: bad.dead.clone(),
            defects: specimen.defects.clone(),
            scan_origin_angstrom: origin_m.map(|length| length * 1e10),
            distinct_probe_positions: geometry.scan.positions(),
            commensurate: None,
            frames_per_file: args.images_per_file,
            mean_counts_per_frame_good_pixels: totals.good_counts as f64 / num_frames,
            saturated_counts: totals.saturated_counts,
            grid: [geometry.axes[0].size, geometry.axes[1].size],
            pixel_samples: geometry.pixel_samples,
            band_limit_rad: geometry.band_limit_rad,
        }
    }
}

fn describe(specimen: &SpecimenChoice) -> String {
    match specimen {
        SpecimenChoice::Named(name) => serde_json::to_value(name)
            .ok()
            .and_then(|name| Some(name.as_str()?.to_owned()))
            .unwrap_or_default(),
        SpecimenChoice::Map { path, pixel_m, white_rad } => {
            format!("phase map {}, {} nm a pixel, white {white_rad} rad", path.display(), pixel_m * 1e9)
        }
    }
}

fn aberrations(settings: &Settings, geometry: &Geometry) -> BTreeMap<String, f64> {
    let mut terms = BTreeMap::from([
        ("C10_m".to_owned(), 0.0),
        ("C10_at_mid_depth_m".to_owned(), settings.c10_at_mid_depth_m()),
    ]);
    for term in &settings.optics.aberrations.0 {
        let name = term.name();
        terms.insert(format!("{name}_m"), term.size.metres());
        if term.symmetry > 0 {
            let (sin, cos) = term.angle.radians().sin_cos();
            let [row, col] = geometry.detector_from_scan([cos, sin]);
            terms.insert(format!("phi{}_scan_frame_rad", &name[1..]), term.angle.radians());
            terms.insert(format!("phi{}_scan_frame_deg", &name[1..]), term.angle.0);
            terms.insert(format!("phi{}_detector_frame_rad", &name[1..]), col.atan2(row));
        }
    }
    terms
}
