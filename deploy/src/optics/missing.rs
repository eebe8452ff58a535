//! Asking for what nobody said: all of it at once, by flag, saying what it is and where to find it.

use kernels::types::FrameOrder;

use super::Parameter;
use super::scan::hint;

/// A parameter that has to be known and is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The parameter.
    pub parameter: Parameter,
    /// Frames of the acquisition; used to show what a scan shape could be.
    pub frames: u64,
    /// What a file says and cannot be, which is why it is not known after all.
    pub ignored: Option<String>,
}

impl Missing {
    /// How the flag is written.
    pub fn usage(&self) -> String {
        let value = match self.parameter {
            Parameter::Voltage => "KV",
            Parameter::SemiAngle => "MRAD",
            Parameter::ScanStep => "NM or ROW,COL",
            Parameter::Rotation => "DEG",
            Parameter::ScanShape => "ROWSxCOLS",
            _ => "VALUE",
        };
        format!("{} {value}", self.parameter.flag())
    }

    /// What it is and where it could come from.
    pub fn explanation(&self) -> String {
        match self.parameter {
            Parameter::Voltage if self.ignored.is_some() => {
                format!("accelerating voltage; {}", self.ignored.as_deref().unwrap_or_default())
            }
            Parameter::Voltage => {
                "accelerating voltage; the master file has none (incident_energy) and no side-car \
                                   says it"
                    .to_owned()
            }
            Parameter::SemiAngle => {
                "probe semi-convergence angle; the microscope's calibration of the condenser \
                                     aperture, no DECTRIS file has it"
                    .to_owned()
            }
            Parameter::ScanStep => {
                "distance between neighbouring scan positions; the scan engine's calibration at \
                                    this magnification, or a side-car with the pixel size"
                    .to_owned()
            }
            Parameter::Rotation => {
                "angle that turns the detector's axes into the scan's; a calibration of this camera \
                                    length (0 only if it was measured to be 0)"
                    .to_owned()
            }
            Parameter::ScanShape => {
                let could_be = hint(self.frames, FrameOrder::default());
                format!(
                    "scan lines x positions a line, {} in all{could_be}; a side-car with the scan shape, or the \
                     operator's notes",
                    self.frames
                )
            }
            _ => String::new(),
        }
    }

    /// The whole request, one parameter a line.
    pub(crate) fn text(missing: &[Self]) -> String {
        let width = missing.iter().map(|one| one.usage().len()).max().unwrap_or(0);
        let lines: Vec<_> =
            missing.iter().map(|one| format!("\n  {:width$}  {}", one.usage(), one.explanation())).collect();
        let keys: Vec<_> = missing.iter().map(|one| one.parameter.key()).collect();
        format!(
            "{} not known and never guessed; please give:{}\nor write {} into a TOML file and pass it with --optics",
            match missing.len() {
                1 => "one parameter is".to_owned(),
                many => format!("{many} parameters are"),
            },
            lines.concat(),
            keys.join(", ")
        )
    }
}
