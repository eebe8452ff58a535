//! What a microscope can be: every value is checked, with its unit, before anything is computed from it.

use std::path::PathBuf;

use kernels::correct_spectra::{GammaModel, ModelError};
use kernels::types::{
    Aberration, DetectorShape, GeometryError, Kilovolts, Milliradians, Nanometres, Pixels, ScanGeometry,
};
use ssb::bright_field::FEWEST_PIXELS;

use super::missing::Missing;
use super::scan::hint;
use super::{OpticsValues, Parameter, Provenance, Resolved, ResolvedOptics, Source};

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
    /// Parameters nobody said, and a scan shape that is not the frames: both at once.
    #[error("{wrong}\n{}", Missing::text(missing))]
    MissingAndWrongShape {
        /// The parameters nobody said.
        missing: Vec<Missing>,
        /// What is wrong with the shape: [`OpticsError::WrongScanShape`].
        wrong: Box<OpticsError>,
    },
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
        expected: String,
    },
    /// Values that are each possible and together are not, or are more than can be followed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// One aberration twice from one source.
    #[error("aberration {name}: given twice, expected once")]
    Repeated {
        /// The Krivanek name.
        name: String,
    },
    /// A scan that no frames can be of.
    #[error("scan shape ({place}): {error}")]
    Geometry {
        /// What cannot be.
        error: GeometryError,
        /// Where the shape came from.
        place: String,
    },
    /// A scan that needs more frames than there are.
    #[error(
        "scan shape {geometry} ({place}) needs {} frames, but the acquisition has {frames} frames{}",
        geometry.num_frames(), hint(*frames, geometry.order())
    )]
    WrongScanShape {
        /// The scan asked for.
        geometry: ScanGeometry,
        /// Where it came from.
        place: String,
        /// Frames the acquisition has.
        frames: u64,
    },
}

/// Accelerating voltages an electron microscope can have \[kV\].
pub(crate) const VOLTAGES_KV: [f64; 2] = [10.0, 1000.0];
/// Semi-angles a probe can have \[mrad\].
pub(crate) const SEMI_ANGLES_MRAD: [f64; 2] = [0.5, 200.0];
/// Steps a scan can have \[nm\].
pub(crate) const SCAN_STEPS_NM: [f64; 2] = [1e-4, 1000.0];
/// Frames a position can have.
const FRAMES_PER_POSITION: [u64; 2] = [1, 65_536];
/// Frames that can be between scan lines.
const FLYBACK_FRAMES: [u64; 2] = [0, 1_000_000];
/// Frames that can be before the first scan line.
const SKIP_FRAMES: [u64; 2] = [0, 1_000_000_000];
/// No term of any order is larger than this in a microscope that makes a probe.
const LARGEST_ABERRATION: Nanometres = Nanometres(1e10);
/// A term below this turns no phase: it is in another unit.
const SMALLEST_ABERRATION: Nanometres = Nanometres(1e-4);

/// Checks what is said of a microscope, whoever says it.
///
/// # Errors
/// As [`check_source`].
pub(crate) fn check_values(values: &OpticsValues) -> Result<(), OpticsError> {
    check_source(&Source { provenance: Provenance::Asked, place: String::new(), values: values.clone() })
}

/// What is wrong with optics, by the keys of a file instead of flags.
pub(crate) fn in_keys(error: &OpticsError) -> String {
    match error {
        OpticsError::Impossible { parameter: Parameter::Aberration, got, expected, .. } => {
            format!("aberrations: got {got}, expected {expected}")
        }
        OpticsError::Impossible { parameter, got, expected, .. } => {
            format!("{}: got {got}, expected {expected}", parameter.key())
        }
        error => error.to_string(),
    }
}

/// Most frames of a scan that anybody asks for: 16 times the largest that is planned for, 2048 x 2048 with 4 a position.
const MOST_SCAN_FRAMES: u64 = 1 << 28;

/// Checks everything a source says.
///
/// # Errors
/// [`OpticsError::Impossible`] for the first value out of range, [`OpticsError::Repeated`].
pub(crate) fn check_source(source: &Source) -> Result<(), OpticsError> {
    let values = &source.values;
    let place = source.described();
    let check = |parameter, fine: bool, got: &dyn Fn() -> String, expected: &str| match fine {
        true => Ok(()),
        false => Err(OpticsError::Impossible {
            parameter,
            place: place.clone(),
            got: got(),
            expected: str::to_owned(expected),
        }),
    };
    if let Some(Kilovolts(kv)) = values.voltage {
        let [least, most] = VOLTAGES_KV;
        let fine = (least..=most).contains(&kv);
        let expected = format!("{least} to {most} kV{}", meant(kv, 1e-3, VOLTAGES_KV, "kV"));
        check(Parameter::Voltage, fine, &|| format!("{kv} kV"), &expected)?;
    }
    if let Some(Milliradians(mrad)) = values.semi_angle {
        let [least, most] = SEMI_ANGLES_MRAD;
        let fine = (least..=most).contains(&mrad);
        let meant = meant(mrad, 1e3, SEMI_ANGLES_MRAD, "mrad");
        let expected = format!("{least} to {most} mrad{meant}");
        check(Parameter::SemiAngle, fine, &|| format!("{mrad} mrad"), &expected)?;
    }
    if let Some(step) = values.scan_step {
        let [least, most] = SCAN_STEPS_NM;
        let is_fine = |nm: f64| (least..=most).contains(&nm);
        let fine = step.iter().all(|&Nanometres(nm)| is_fine(nm));
        let wrong = step.iter().find(|step| !is_fine(step.0)).map_or(0.0, |step| step.0);
        let meant = meant(wrong, 1e9, SCAN_STEPS_NM, "nm");
        let comma = match step {
            [Nanometres(0.0), Nanometres(col)] if col > 0.0 => "; a decimal point is written as a point",
            _ => "",
        };
        let expected = format!("{least} to {most} nm for row and col{meant}{comma}");
        check(Parameter::ScanStep, fine, &|| pair(step.map(|step| step.0), "nm"), &expected)?;
    }
    if let Some(rotation) = values.rotation {
        let fine = rotation.0.abs() <= 360.0;
        check(Parameter::Rotation, fine, &|| rotation.to_string(), "-360 to 360 deg")?;
    }
    if let Some(shape) = values.scan_shape {
        let fine = shape.rows > 0 && shape.cols > 0;
        check(Parameter::ScanShape, fine, &|| shape.to_string(), "at least 1x1")?;
    }
    for (parameter, said, [least, most]) in [
        (Parameter::FramesPerPosition, values.frames_per_position, FRAMES_PER_POSITION),
        (Parameter::FlybackFrames, values.flyback_frames, FLYBACK_FRAMES),
        (Parameter::SkipFrames, values.skip_frames, SKIP_FRAMES),
    ] {
        if let Some(frames) = said {
            let fine = (least..=most).contains(&frames);
            check(parameter, fine, &|| format!("{frames} frames"), &format!("{least} to {most} frames"))?;
        }
    }
    if let Some(shape) = values.scan_shape {
        let positions = shape.rows.checked_mul(shape.cols);
        let frames = positions.and_then(|positions| {
            (positions as u64).checked_mul(values.frames_per_position.unwrap_or(1).max(1))
        });
        let fine = frames.is_some_and(|frames| frames <= MOST_SCAN_FRAMES);
        let expected = format!("at most {MOST_SCAN_FRAMES} frames in all");
        check(Parameter::ScanShape, fine, &|| shape.to_string(), &expected)?;
    }
    if let Some(centre) = values.bf_centre {
        let fine = centre.iter().all(|&Pixels(px)| px.is_finite() && px.abs() < 1e5);
        check(Parameter::BfCentre, fine, &|| pair(centre.map(|px| px.0), "px"), "a place on the detector")?;
    }
    if let Some(Pixels(px)) = values.bf_radius {
        check(Parameter::BfRadius, 0.0 < px && px < 1e5, &|| format!("{px} px"), "more than 0 px")?;
    }
    if let Some(sampling) = values.detector_sampling {
        let fine = sampling.iter().all(|&Milliradians(mrad)| 0.0 < mrad && mrad < 100.0);
        check(
            Parameter::DetectorSampling,
            fine,
            &|| pair(sampling.map(|mrad| mrad.0), "mrad"),
            "more than 0 and less than 100 mrad a pixel for row and col",
        )?;
    }
    for (at, term) in values.aberrations.iter().enumerate() {
        if let Some((got, expected)) = aberration_problem(term) {
            check(Parameter::Aberration, false, &|| got.clone(), &expected)?;
        }
        if values.aberrations[..at].iter().any(|earlier| earlier.name() == term.name()) {
            return Err(OpticsError::Repeated { name: term.name() });
        }
    }
    Ok(())
}

/// What is wrong with a term: what it is, and what is expected.
pub(crate) fn aberration_problem(term: &Aberration) -> Option<(String, String)> {
    let Nanometres(size) = term.size;
    let angle = if term.symmetry > 0 { format!(", {} deg", short(term.angle.0)) } else { String::new() };
    let got = format!("{} = {} nm{angle}", term.name(), short(size));
    if !(size.abs() <= LARGEST_ABERRATION.0 && term.angle.0.abs() <= 1e4) {
        return Some((got, "at most 1e10 nm (10 m) and 1e4 deg".to_owned()));
    }
    let Nanometres(least) = SMALLEST_ABERRATION;
    let is_in_another_unit = size != 0.0 && size.abs() < least;
    let meant = || meant(size, 1e9, [least, LARGEST_ABERRATION.0].map(|nm| nm.copysign(size)), "nm");
    is_in_another_unit.then(|| (got, format!("0 or at least {least} nm{}", meant())))
}

/// A pair as it was given: one number where both are the same.
fn pair([row, col]: [f64; 2], unit: &str) -> String {
    match row == col {
        true => format!("{} {unit}", short(row)),
        false => format!("{} {unit}, {} {unit}", short(row), short(col)),
    }
}

/// A question, where a value in the base unit (radians, metres) would be a usual one in `unit`.
pub(crate) fn meant(got: f64, per_base_unit: f64, usual: [f64; 2], unit: &str) -> String {
    let value = got * per_base_unit;
    match (usual[0].min(usual[1])..=usual[0].max(usual[1])).contains(&value) {
        true => {
            // Six digits: what is left of the change of units goes.
            let value = format!("{value:.5e}").parse().unwrap_or(value);
            format!("; did you mean {value} {unit}? it is read in {unit}")
        }
        false => String::new(),
    }
}

/// A number without three hundred digits, before the point or behind it.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-6..1e9 => value.to_string(),
        _ => format!("{value:e}"),
    }
}

/// Where a value came from, beside the name of its flag.
fn origin<T>(resolved: &Resolved<T>) -> String {
    match resolved.provenance {
        Provenance::Flag => resolved.provenance.to_string(),
        _ => resolved.detail.clone(),
    }
}

/// Refuses a place (row, col) that is not on a detector, whose pixels have their centres at whole numbers: with what was got
/// and what was expected.
pub(crate) fn check_place(
    [Pixels(row), Pixels(col)]: [Pixels; 2],
    detector: DetectorShape,
) -> Result<(), (String, String)> {
    let [most_row, most_col] = [detector.rows, detector.cols].map(|len| len as f64 - 0.5);
    if (-0.5..=most_row).contains(&row) && (-0.5..=most_col).contains(&col) {
        return Ok(());
    }
    Err((
        format!("{}, {} px", short(row), short(col)),
        format!("row -0.5 to {most_row} px and col -0.5 to {most_col} px (the {detector} detector)"),
    ))
}

/// Checks what can only be said of all values together, and of a detector: that a pinned bright field lies on it, and
/// that the aberrations can be followed.
///
/// # Errors
/// [`OpticsError::Impossible`] for the bright field, [`OpticsError::Model`].
pub(crate) fn check_settled(optics: &ResolvedOptics, detector: DetectorShape) -> Result<(), OpticsError> {
    if let Some(centre) = &optics.bf_centre
        && let Err((got, expected)) = check_place(centre.value, detector)
    {
        let (parameter, place) = (Parameter::BfCentre, origin(centre));
        return Err(OpticsError::Impossible { parameter, place, got, expected });
    }
    if let Some(radius) = &optics.bf_radius {
        let smallest = (FEWEST_PIXELS as f64 / std::f64::consts::PI).sqrt();
        let largest = (detector.rows as f64).hypot(detector.cols as f64);
        let Pixels(px) = radius.value;
        if !(smallest..=largest).contains(&px) {
            return Err(OpticsError::Impossible {
                parameter: Parameter::BfRadius,
                place: origin(radius),
                got: format!("{px} px"),
                expected: format!(
                    "{smallest:.1} px ({FEWEST_PIXELS} pixels) to {largest:.1} px (the diagonal of the {detector} detector)"
                ),
            });
        }
    }
    // A sampling that is not pinned is measured later: no aberration depends on it.
    let sampling = optics.detector_sampling.as_ref().map_or([Milliradians(1.0); 2], |pinned| pinned.value);
    optics.optics_at(sampling).map(|optics| GammaModel::new(&optics)).transpose()?;
    Ok(())
}
