//! What a microscope can be: every value is checked, with its unit, before anything is computed from it.

use std::path::PathBuf;

use kernels::types::{Kilovolts, Milliradians, Nanometres, Pixels, ScanShape};

use super::missing::Missing;
use super::{Parameter, Source};

/// Why the optics of an acquisition could not be settled.
#[derive(Debug, thiserror::Error)]
pub enum OpticsError {
    /// The optics file could not be used.
    #[error("optics file {}: {what}", path.display())]
    OpticsFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line where there is one.
        what: String,
    },
    /// Parameters nobody said; all of them, in one error.
    #[error("{}", Missing::text(.0))]
    Missing(Vec<Missing>),
    /// A value no microscope has.
    #[error("{} ({place}): got {got}, expected {expected}", parameter.flag())]
    Impossible {
        /// The parameter.
        parameter: Parameter,
        /// Where the value came from.
        place: String,
        /// The value with its unit.
        got: String,
        /// The range with its unit.
        expected: &'static str,
    },
    /// One aberration twice from one source.
    #[error("aberration {name}: given twice, expected once")]
    Repeated {
        /// The Krivanek name.
        name: String,
    },
    /// A scan that is not the frames.
    #[error(
        "scan shape {shape} ({place}) has {} positions, but the acquisition has {frames} frames; expected rows x cols = frames",
        shape.positions()
    )]
    WrongScanShape {
        /// The shape asked for.
        shape: ScanShape,
        /// Where it came from.
        place: String,
        /// Frames the acquisition has.
        frames: u64,
    },
}

/// Checks everything a source says.
///
/// # Errors
/// [`OpticsError::Impossible`] for the first value out of range, [`OpticsError::Repeated`].
pub(crate) fn check_source(source: &Source) -> Result<(), OpticsError> {
    let values = &source.values;
    let place = source.described();
    let check = |parameter, fine: bool, got: &dyn Fn() -> String, expected| match fine {
        true => Ok(()),
        false => Err(OpticsError::Impossible { parameter, place: place.clone(), got: got(), expected }),
    };
    if let Some(Kilovolts(kv)) = values.voltage {
        check(Parameter::Voltage, (10.0..=1000.0).contains(&kv), &|| format!("{kv} kV"), "10 to 1000 kV")?;
    }
    if let Some(Milliradians(mrad)) = values.semi_angle {
        let fine = 0.0 < mrad && mrad < 200.0;
        check(Parameter::SemiAngle, fine, &|| format!("{mrad} mrad"), "more than 0 and less than 200 mrad")?;
    }
    if let Some(step) = values.scan_step {
        let fine = step.iter().all(|&Nanometres(nm)| 0.0 < nm && nm <= 1000.0);
        check(
            Parameter::ScanStep,
            fine,
            &|| format!("{}, {}", step[0], step[1]),
            "more than 0 and at most 1000 nm for row and col",
        )?;
    }
    if let Some(rotation) = values.rotation {
        let fine = rotation.0.abs() <= 360.0;
        check(Parameter::Rotation, fine, &|| rotation.to_string(), "-360 to 360 deg")?;
    }
    if let Some(shape) = values.scan_shape {
        let fine = shape.rows > 0 && shape.cols > 0;
        check(Parameter::ScanShape, fine, &|| shape.to_string(), "at least 1x1")?;
    }
    if let Some(centre) = values.bf_centre {
        let fine = centre.iter().all(|&Pixels(px)| px.is_finite() && px.abs() < 1e5);
        check(
            Parameter::BfCentre,
            fine,
            &|| format!("{}, {}", centre[0], centre[1]),
            "a place on the detector",
        )?;
    }
    if let Some(Pixels(px)) = values.bf_radius {
        check(Parameter::BfRadius, 0.0 < px && px < 1e5, &|| format!("{px} px"), "more than 0 px")?;
    }
    if let Some(sampling) = values.detector_sampling {
        let fine = sampling.iter().all(|&Milliradians(mrad)| 0.0 < mrad && mrad < 100.0);
        check(
            Parameter::DetectorSampling,
            fine,
            &|| format!("{}, {}", sampling[0], sampling[1]),
            "more than 0 and less than 100 mrad a pixel for row and col",
        )?;
    }
    for (at, term) in values.aberrations.iter().enumerate() {
        let fine = term.size.0.is_finite() && term.angle.0.is_finite();
        let got = || format!("{} = {}, {}", term.name(), term.size, term.angle);
        check(Parameter::Aberration, fine, &got, "finite numbers")?;
        if values.aberrations[..at].iter().any(|earlier| earlier.name() == term.name()) {
            return Err(OpticsError::Repeated { name: term.name() });
        }
    }
    Ok(())
}
