//! What one source says about the microscope.

use std::path::PathBuf;

use kernels::types::{
    Aberration, Degrees, FrameOrder, Kilovolts, Milliradians, Nanometres, Pixels, ScanPath, ScanShape,
};
use serde::Serialize;

use super::OpticsTable;

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
    /// The way of the beam through the positions.
    pub scan_path: Option<ScanPath>,
    /// Consecutive frames of a position, which are summed.
    pub frames_per_position: Option<u64>,
    /// Frames after each scan line that belong to no position.
    pub flyback_frames: Option<u64>,
    /// Frames before the first scan line that belong to no position.
    pub skip_frames: Option<u64>,
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
    /// The same, and where it says nothing what a weaker source says; of aberrations name by name.
    #[must_use]
    pub fn or(mut self, weaker: Self) -> Self {
        for term in weaker.aberrations {
            if !self.aberrations.iter().any(|stronger| stronger.name() == term.name()) {
                self.aberrations.push(term);
            }
        }
        Self {
            voltage: self.voltage.or(weaker.voltage),
            semi_angle: self.semi_angle.or(weaker.semi_angle),
            scan_step: self.scan_step.or(weaker.scan_step),
            rotation: self.rotation.or(weaker.rotation),
            transpose: self.transpose.or(weaker.transpose),
            scan_shape: self.scan_shape.or(weaker.scan_shape),
            scan_path: self.scan_path.or(weaker.scan_path),
            frames_per_position: self.frames_per_position.or(weaker.frames_per_position),
            flyback_frames: self.flyback_frames.or(weaker.flyback_frames),
            skip_frames: self.skip_frames.or(weaker.skip_frames),
            bf_centre: self.bf_centre.or(weaker.bf_centre),
            bf_radius: self.bf_radius.or(weaker.bf_radius),
            detector_sampling: self.detector_sampling.or(weaker.detector_sampling),
            aberrations: self.aberrations,
        }
    }

    /// Takes back what was said of one parameter.
    pub(super) fn forget(&mut self, parameter: Parameter) {
        match parameter {
            Parameter::Voltage => self.voltage = None,
            Parameter::SemiAngle => self.semi_angle = None,
            Parameter::ScanStep => self.scan_step = None,
            Parameter::Rotation => self.rotation = None,
            Parameter::Transpose => self.transpose = None,
            Parameter::ScanShape => self.scan_shape = None,
            Parameter::ScanPath => self.scan_path = None,
            Parameter::FramesPerPosition => self.frames_per_position = None,
            Parameter::FlybackFrames => self.flyback_frames = None,
            Parameter::SkipFrames => self.skip_frames = None,
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
    /// Given over the API while the daemon runs.
    pub asked: OpticsValues,
    /// Given on the command line.
    pub flags: OpticsValues,
    /// Given in the TOML file of `--optics`, with the file's path.
    pub optics_file: Option<(PathBuf, OpticsValues)>,
}

impl OpticsRequest {
    /// Takes back what anybody said of one parameter.
    pub(crate) fn forget(&mut self, parameter: Parameter) {
        let file = self.optics_file.as_mut().map(|(_, values)| values);
        [Some(&mut self.asked), Some(&mut self.flags), file]
            .into_iter()
            .flatten()
            .for_each(|values| values.forget(parameter));
    }

    /// The order of the frames, as far as the user says it.
    pub fn frame_order(&self) -> FrameOrder {
        let (said, usual) = (self.joined(), FrameOrder::default());
        FrameOrder {
            path: said.scan_path.unwrap_or(usual.path),
            frames_per_position: said.frames_per_position.unwrap_or(usual.frames_per_position),
            flyback_frames: said.flyback_frames.unwrap_or(usual.flyback_frames),
            skip_frames: said.skip_frames.unwrap_or(usual.skip_frames),
        }
    }

    /// The sources a user controls, strongest first.
    pub fn sources(&self) -> Vec<Source> {
        let said = [(Provenance::Asked, &self.asked), (Provenance::Flag, &self.flags)];
        let mut sources: Vec<Source> = said
            .map(|(provenance, values)| Source { provenance, place: String::new(), values: values.clone() })
            .into();
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

impl OpticsRequest {
    /// What the strongest source says of each parameter: as [`resolve`](super::resolve()) joins them, without a word where they
    /// differ.
    pub fn joined(&self) -> OpticsValues {
        self.sources().into_iter().fold(OpticsValues::default(), |joined, source| joined.or(source.values))
    }

    /// The same with the keys of an optics file.
    pub fn table(&self) -> OpticsTable {
        OpticsTable::of(&self.joined())
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
    /// The API of the daemon, or its page.
    #[serde(rename = "api")]
    Asked,
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
    /// Nobody knows: something stands for it so that what does not depend on it can be shown.
    #[serde(rename = "stand-in")]
    StandIn,
}

impl std::fmt::Display for Provenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Asked => "api",
            Self::Flag => "flag",
            Self::OpticsFile => "optics file",
            Self::File => "file",
            Self::SideCar => "side-car",
            Self::Fitted => "fitted",
            Self::Default => "default",
            Self::StandIn => "stand-in",
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
    /// The way of the beam through the positions.
    ScanPath,
    /// Frames of a position.
    FramesPerPosition,
    /// Frames after each scan line.
    FlybackFrames,
    /// Frames before the first scan line.
    SkipFrames,
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
            Self::ScanPath => "--scan-path",
            Self::FramesPerPosition => "--frames-per-position",
            Self::FlybackFrames => "--flyback-frames",
            Self::SkipFrames => "--skip-frames",
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
            Self::ScanPath => "scan_path",
            Self::FramesPerPosition => "frames_per_position",
            Self::FlybackFrames => "flyback_frames",
            Self::SkipFrames => "skip_frames",
            Self::BfCentre => "bf_centre",
            Self::BfRadius => "bf_radius_px",
            Self::DetectorSampling => "detector_sampling_mrad",
            Self::Aberration => "aberrations",
        }
    }
}
