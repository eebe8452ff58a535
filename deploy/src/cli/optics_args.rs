//! The microscope on the command line.

use std::path::PathBuf;

use clap::Args;
use kernels::types::{Aberration, Degrees, Kilovolts, Milliradians, Nanometres, Pixels, ScanPath, ScanShape};

use crate::optics::{
    OpticsError, OpticsRequest, OpticsValues, parse_aberration, parse_number, parse_pair, read_optics_file,
};

/// A pair (row, col), as one clap value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair([f64; 2]);

fn pair(text: &str) -> Result<Pair, String> {
    parse_pair(text).map(Pair)
}

fn row_col(text: &str) -> Result<Pair, String> {
    crate::optics::parse_row_col(text, "95.3,96.85").map(Pair)
}

/// The microscope. What is not given here is taken from --optics, then from the acquisition's own file, then from a
/// side-car file beside it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Microscope (flag > --optics > file > side-car > default)")]
pub struct OpticsArgs {
    /// TOML file with the same names as these flags.
    #[arg(
        long,
        value_name = "FILE.toml",
        help = "TOML file with the names of these flags, such as voltage_kv = 300; under [aberrations] C10 = -6.3, C12 = [1.8, 11.6]"
    )]
    pub optics: Option<PathBuf>,
    /// Accelerating voltage.
    #[arg(long, value_name = "KV", value_parser = parse_number, allow_negative_numbers = true)]
    pub voltage_kv: Option<f64>,
    /// Probe semi-convergence angle.
    #[arg(long, value_name = "MRAD", value_parser = parse_number, allow_negative_numbers = true)]
    pub semi_angle_mrad: Option<f64>,
    /// Scan step, one number or ROW,COL.
    #[arg(long, value_name = "NM", value_parser = pair, allow_hyphen_values = true)]
    pub scan_step_nm: Option<Pair>,
    /// Rotation that turns detector axes into scan axes, k_scan = Rot k_detector, Rot = [[cos, -sin], [sin, cos]] on (row, col).
    #[arg(long, value_name = "DEG", value_parser = parse_number, allow_negative_numbers = true)]
    pub rotation_deg: Option<f64>,
    /// Swap detector rows and columns before the rotation; --transpose=false where an optics file says true.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub transpose: Option<bool>,
    /// Scan lines x positions a line, such as 256x256.
    #[arg(long, value_name = "ROWSxCOLS")]
    pub scan_shape: Option<ScanShape>,
    /// Way of the beam: raster, every line in the same direction, or snake, by turns there and back.
    #[arg(long, value_name = "PATH")]
    pub scan_path: Option<ScanPath>,
    /// Consecutive frames of a position, which are summed.
    #[arg(long, value_name = "N")]
    pub frames_per_position: Option<u64>,
    /// Frames after each scan line, while the beam flies back, that belong to no position.
    #[arg(long, value_name = "N")]
    pub flyback_frames: Option<u64>,
    /// Frames before the first scan line that belong to no position.
    #[arg(long, value_name = "N")]
    pub skip_frames: Option<u64>,
    /// Centre of the bright-field disk, pixels; measured when not given.
    #[arg(long, value_name = "ROW,COL", value_parser = row_col, allow_hyphen_values = true)]
    pub bf_centre: Option<Pair>,
    /// Radius of the bright-field disk, pixels; measured when not given.
    #[arg(long, value_name = "PX", value_parser = parse_number, allow_negative_numbers = true)]
    pub bf_radius_px: Option<f64>,
    /// Scattering angle of one detector pixel, one number or ROW,COL; measured from the edge of the disk when not given.
    #[arg(long, value_name = "MRAD", value_parser = pair, allow_hyphen_values = true)]
    pub detector_sampling_mrad: Option<Pair>,
    /// A probe aberration in nm, with its angle in the scan frame where it has one: C10=-6.3, C12=1.8,11.6. Repeat for more.
    #[arg(long = "aberration", value_name = "NAME=NM[,DEG]", value_parser = parse_aberration, allow_hyphen_values = true)]
    pub aberrations: Vec<Aberration>,
}

impl OpticsArgs {
    /// What the user says, the optics file read.
    ///
    /// # Errors
    /// [`OpticsError::OpticsFile`].
    pub fn request(&self) -> Result<OpticsRequest, OpticsError> {
        let optics_file = match &self.optics {
            Some(path) => Some((path.clone(), read_optics_file(path)?)),
            None => None,
        };
        Ok(OpticsRequest { flags: self.values(), optics_file, ..Default::default() })
    }

    fn values(&self) -> OpticsValues {
        OpticsValues {
            voltage: self.voltage_kv.map(Kilovolts),
            semi_angle: self.semi_angle_mrad.map(Milliradians),
            scan_step: self.scan_step_nm.map(|Pair(step)| step.map(Nanometres)),
            rotation: self.rotation_deg.map(Degrees),
            transpose: self.transpose,
            scan_shape: self.scan_shape,
            scan_path: self.scan_path,
            frames_per_position: self.frames_per_position,
            flyback_frames: self.flyback_frames,
            skip_frames: self.skip_frames,
            bf_centre: self.bf_centre.map(|Pair(centre)| centre.map(Pixels)),
            bf_radius: self.bf_radius_px.map(Pixels),
            detector_sampling: self.detector_sampling_mrad.map(|Pair(sampling)| sampling.map(Milliradians)),
            aberrations: self.aberrations.clone(),
        }
    }
}
