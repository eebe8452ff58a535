//! What one source says about the microscope.

use std::path::PathBuf;

use kernels::types::{Aberration, Degrees, Kilovolts, Milliradians, Nanometres, Pixels, ScanShape};
use serde::Serialize;

/// What one source says; everything may be left unsaid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpticsValues {
    /// Accelerating voltage.
    pub voltage: Option<Kilovolts>,
    /// Probe semi-convergence angle.
    pub semi_angle: Option<Milliradians>,
    /// Scan step along (row, col).
    pub scan_step: Option<[Nanometres; 2]>,
    /// Rotation from the detector to the scan.
    pub rotation: Option<Degrees>,
    /// Whether detector rows and columns are swapped before the rotation.
    pub transpose: Option<bool>,
    /// Scan lines and positions a line.
    pub scan_shape: Option<ScanShape>,
    /// Centre of the bright-field disk (row, col), origin at the centre of pixel (0, 0).
    pub bf_centre: Option<[Pixels; 2]>,
    /// Radius of the bright-field disk.
    pub bf_radius: Option<Pixels>,
    /// Scattering angle of one detector pixel along (row, col).
    pub detector_sampling: Option<[Milliradians; 2]>,
    /// Probe aberrations, angles in the scan frame; a name at most once.
    pub aberrations: Vec<Aberration>,
}

impl OpticsValues {
    /// Takes back what was said of one parameter.
    pub(super) fn forget(&mut self, parameter: Parameter) {
        match parameter {
            Parameter::Voltage => self.voltage = None,
            Parameter::SemiAngle => self.semi_angle = None,
            Parameter::ScanStep => self.scan_step = None,
            Parameter::Rotation => self.rotation = None,
            Parameter::Transpose => self.transpose = None,
            Parameter::ScanShape => self.scan_shape = None,
            Parameter::BfCentre => self.bf_centre = None,
            Parameter::BfRadius => self.bf_radius = None,
            Parameter::DetectorSampling => self.detector_sampling = None,
            Parameter::Aberration => self.aberrations.clear(),
        }
    }
}

/// What a user said: flags, and an optics file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpticsRequest {
    /// Given on the command line.
    pub flags: OpticsValues,
    /// Given in the TOML file of `--optics`, with the file's path.
    pub optics_file: Option<(PathBuf, OpticsValues)>,
}

impl OpticsRequest {
    /// The sources a user controls, strongest first.
    pub fn sources(&self) -> Vec<Source> {
        let mut sources =
            vec![Source { provenance: Provenance::Flag, place: String::new(), values: self.flags.clone() }];
        if let Some((path, values)) = &self.optics_file {
            sources.push(Source {
                provenance: Provenance::OpticsFile,
                place: path.display().to_string(),
                values: values.clone(),
            });
        }
        sources
    }
}

/// One source of parameters and its rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The kind of source; also its rank.
    pub provenance: Provenance,
    /// The file it is, for a person; empty for flags.
    pub place: String,
    /// What it says.
    pub values: OpticsValues,
}

/// Where a value came from. The order is the order of precedence: the first that speaks wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Provenance {
    /// A command-line flag.
    #[serde(rename = "flag")]
    Flag,
    /// The TOML file of `--optics`.
    #[serde(rename = "optics file")]
    OpticsFile,
    /// The acquisition's own files.
    #[serde(rename = "file")]
    File,
    /// A metadata file beside the acquisition.
    #[serde(rename = "side-car")]
    SideCar,
    /// Measured or fitted on the counts.
    #[serde(rename = "fitted")]
    Fitted,
    /// Nobody said: the documented default.
    #[serde(rename = "default")]
    Default,
}

impl std::fmt::Display for Provenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::OpticsFile => "optics file",
            Self::File => "file",
            Self::SideCar => "side-car",
            Self::Fitted => "fitted",
            Self::Default => "default",
        })
    }
}

/// The parameters by name: one spelling for flags, optics files, errors and `result.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// Accelerating voltage.
    Voltage,
    /// Probe semi-convergence angle.
    SemiAngle,
    /// Scan step.
    ScanStep,
    /// Rotation from detector to scan.
    Rotation,
    /// Detector rows and columns swapped.
    Transpose,
    /// Scan lines and positions a line.
    ScanShape,
    /// Centre of the bright-field disk.
    BfCentre,
    /// Radius of the bright-field disk.
    BfRadius,
    /// Scattering angle of a pixel.
    DetectorSampling,
    /// Probe aberrations.
    Aberration,
}

impl Parameter {
    /// The flag, with its dashes.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Voltage => "--voltage-kv",
            Self::SemiAngle => "--semi-angle-mrad",
            Self::ScanStep => "--scan-step-nm",
            Self::Rotation => "--rotation-deg",
            Self::Transpose => "--transpose",
            Self::ScanShape => "--scan-shape",
            Self::BfCentre => "--bf-centre",
            Self::BfRadius => "--bf-radius-px",
            Self::DetectorSampling => "--detector-sampling-mrad",
            Self::Aberration => "--aberration",
        }
    }

    /// The key in an optics file.
    pub fn key(self) -> &'static str {
        match self {
            Self::Voltage => "voltage_kv",
            Self::SemiAngle => "semi_angle_mrad",
            Self::ScanStep => "scan_step_nm",
            Self::Rotation => "rotation_deg",
            Self::Transpose => "transpose",
            Self::ScanShape => "scan_shape",
            Self::BfCentre => "bf_centre",
            Self::BfRadius => "bf_radius_px",
            Self::DetectorSampling => "detector_sampling_mrad",
            Self::Aberration => "aberrations",
        }
    }
}
