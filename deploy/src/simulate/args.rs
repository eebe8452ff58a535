//! What can be asked of the simulator, as flags.

use std::path::PathBuf;

use clap::{Args, FromArgMatches, ValueEnum};
use kernels::types::{Aberration, CountType, DetectorShape, ScanShape};
use serde::{Deserialize, Serialize};

use crate::optics::{parse_aberration, parse_number, parse_row_col};
use crate::request::parse_threads;

/// A pair (row, col), as one clap value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowCol(pub [f64; 2]);

fn row_col(text: &str) -> Result<RowCol, String> {
    parse_row_col(text, "47.3,48.85").map(RowCol)
}

fn tilt(text: &str) -> Result<RowCol, String> {
    parse_row_col(text, "5,0").map(RowCol)
}

fn detector_shape(text: &str) -> Result<DetectorShape, String> {
    // Written like a scan shape.
    let ScanShape { rows, cols } = text
        .parse()
        .map_err(|_| format!("got detector shape '{text}', expected ROWSxCOLS such as 192x192"))?;
    Ok(DetectorShape { rows, cols })
}

fn count_type(text: &str) -> Result<CountType, String> {
    [CountType::U8, CountType::U16, CountType::U32]
        .into_iter()
        .find(|known| known.to_string() == text)
        .ok_or_else(|| format!("got count type '{text}', expected u8, u16 or u32"))
}

/// The specimens that can be had by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecimenName {
    /// SrTiO3 seen along its 001 axis, with Sr and O vacancies and Ba on Sr sites.
    Sto,
    /// Gold nanoparticles, turned at random, on an amorphous carbon film.
    GoldParticle,
    /// A smooth star, dots and a slope, at most 0.4 rad: what a weak phase object is.
    TestChart,
    /// Nothing.
    Vacuum,
}

/// Simulates an acquisition and writes it as the detector would, with the truth beside it.
///
/// Lengths and angles of the scan frame: rows point down, columns to the right, angles turn from rows to columns.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    /// Folder for the files; made when it is missing.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Start of the file names: NAME_master.h5, NAME_data_000001.h5, ...
    #[arg(long, default_value = "simulated")]
    pub name: String,
    /// Replace a set that is there already.
    #[arg(long)]
    pub force: bool,
    /// Images of a data file.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub images_per_file: u64,
    /// Type of a count: u8, u16 or u32. Larger counts are stored as the largest.
    #[arg(long, default_value = "u16", value_parser = count_type, value_name = "TYPE")]
    pub count_type: CountType,
    /// Seed of the specimen, the counts and the bad pixels.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Worker threads; one a core when not given. The files do not depend on it.
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Say nothing on stderr but errors.
    #[arg(long, short)]
    pub quiet: bool,

    /// What lies in the beam.
    #[arg(long, value_enum, default_value_t = SpecimenName::Sto, conflicts_with = "phase_map", help_heading = "Specimen")]
    pub specimen: SpecimenName,
    /// A phase image instead of --specimen: .npy in radians, or a grey .png from 0 to --phase-map-white-rad.
    #[arg(long, value_name = "FILE", requires = "phase_map_pixel_nm", help_heading = "Specimen")]
    pub phase_map: Option<PathBuf>,
    /// Width of a pixel of the phase image.
    #[arg(long, value_parser = parse_number, value_name = "NM", requires = "phase_map", help_heading = "Specimen")]
    pub phase_map_pixel_nm: Option<f64>,
    /// Phase of white in a .png.
    #[arg(long, value_parser = parse_number, value_name = "RAD", default_value_t = 0.3, help_heading = "Specimen")]
    pub phase_map_white_rad: f64,
    /// Thickness: whole cells for sto (default one), the carbon film for gold-particle (default 2), the distance over
    /// which the phase is spread for the others (default 0).
    #[arg(long, value_parser = parse_number, value_name = "NM", help_heading = "Specimen")]
    pub thickness_nm: Option<f64>,
    /// Slices of the multislice calculation; 1 is a phase object at mid depth. Default: 1 up to 1 nm, above one every 0.4 nm.
    #[arg(long, value_name = "N", help_heading = "Specimen")]
    pub slices: Option<usize>,
    /// Tilt of the specimen: what lies z below mid depth is displaced by z times this, scan frame; more than one slice.
    #[arg(long, value_name = "ROW,COL", value_parser = tilt, default_value = "0,0", allow_hyphen_values = true, help_heading = "Specimen")]
    pub tilt_mrad: RowCol,

    /// Accelerating voltage.
    #[arg(long, value_parser = parse_number, value_name = "KV", default_value_t = 200.0, help_heading = "Microscope")]
    pub voltage_kv: f64,
    /// Probe semi-convergence angle.
    #[arg(long, value_parser = parse_number, value_name = "MRAD", default_value_t = 25.0, help_heading = "Microscope")]
    pub semi_angle_mrad: f64,
    /// Scan lines x positions a line.
    #[arg(long, value_name = "ROWSxCOLS", default_value = "64x64", help_heading = "Microscope")]
    pub scan_shape: ScanShape,
    /// Scan step.
    #[arg(long, value_parser = parse_number, value_name = "NM", default_value_t = 0.024, help_heading = "Microscope")]
    pub scan_step_nm: f64,
    /// Detector rows x columns.
    #[arg(long, value_name = "ROWSxCOLS", default_value = "96x96", value_parser = detector_shape, help_heading = "Microscope")]
    pub detector_shape: DetectorShape,
    /// Scattering angle of one detector pixel.
    #[arg(long, value_parser = parse_number, value_name = "MRAD", default_value_t = 1.0, help_heading = "Microscope")]
    pub detector_sampling_mrad: f64,
    /// Centre of the beam on the detector, pixels; the middle of the detector when not given.
    #[arg(long, value_name = "ROW,COL", value_parser = row_col, allow_hyphen_values = true, help_heading = "Microscope")]
    pub bf_centre: Option<RowCol>,
    /// Rotation that turns detector axes into scan axes, k_scan = Rot k_detector, Rot = [[cos, -sin], [sin, cos]] on (row, col).
    #[arg(long, value_parser = parse_number, value_name = "DEG", default_value_t = -12.5, allow_negative_numbers = true, help_heading = "Microscope")]
    pub rotation_deg: f64,
    /// Swap detector rows and columns before the rotation.
    #[arg(long, help_heading = "Microscope")]
    pub transpose: bool,
    /// A probe aberration in nm where the beam enters, with its angle in the scan frame where it has one: C10=-6.3,
    /// C12=1.8,11.6. Repeat for more; C10 is minus the defocus. Default: C10=-12 and C12=3,20.
    #[arg(long = "aberration", value_name = "NAME=NM[,DEG]", value_parser = parse_aberration, allow_hyphen_values = true, help_heading = "Microscope")]
    pub aberrations: Vec<Aberration>,

    /// Electrons that hit the specimen in the time of a frame, on average.
    #[arg(long, value_parser = parse_number, value_name = "N", default_value_t = 2000.0, help_heading = "Detector")]
    pub electrons_per_frame: f64,
    /// Pixels that count too much and are listed in pixel_mask.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Detector")]
    pub hot_pixels: usize,
    /// Pixels that count too much and are not listed.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Detector")]
    pub unlisted_hot_pixels: usize,
    /// Pixels that count nothing, listed in pixel_mask.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Detector")]
    pub dead_pixels: usize,
    /// Samples along each side of a pixel; as many as the probe needs, at least 2, when not given.
    #[arg(long, value_name = "N", help_heading = "Detector")]
    pub pixel_samples: Option<usize>,
}

impl SimulateArgs {
    /// Every flag at its default, files going to `out`: the small demonstration.
    ///
    /// # Panics
    /// Never: the defaults are tested to be valid.
    pub fn demo(out: PathBuf) -> Self {
        let command = Self::augment_args(clap::Command::new("simulate"));
        let arguments = [std::ffi::OsString::from("simulate"), "--out".into(), out.into()];
        Self::from_arg_matches(&command.get_matches_from(arguments)).expect("the defaults are valid")
    }
}
