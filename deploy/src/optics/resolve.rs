//! Joining the sources: the first that speaks wins, and it is remembered which one it was.

use kernels::types::{
    ABERRATIONS, Aberration, Aberrations, Degrees, FrameOrder, Kilovolts, Milliradians, Nanometres, Optics,
    Pixels, ScanGeometry, ScanPath, ScanShape,
};

use ssb::{Known, Pins};

use super::check::{OpticsError, check_source};
use super::missing::Missing;
use super::{OpticsRequest, OpticsValues, Parameter, Provenance, Source};

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved<T> {
    /// The value, unit in its type.
    pub value: T,
    /// The kind of source.
    pub provenance: Provenance,
    /// The source itself: the flag, the file.
    pub detail: String,
}

/// What the resolution has to know of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// Frames the acquisition should have, received or not.
    pub frames_expected: u64,
}

/// The bright field as it was measured on the mean pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredBrightField {
    /// Centre (row, col).
    pub centre: [Pixels; 2],
    /// Radius.
    pub radius: Pixels,
    /// Scattering angle of one pixel along (row, col), from the edge; none where the semi-angle is not known.
    pub sampling: Option<[Milliradians; 2]>,
}

/// Every parameter with its origin. Of the bright field, what is `None` has to be measured: see
/// [`ResolvedOptics::fill_measured`]; of the rest, what is `None` is not known, and there is no phase without it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedOptics {
    /// Accelerating voltage.
    pub voltage: Option<Resolved<Kilovolts>>,
    /// Probe semi-convergence angle.
    pub semi_angle: Option<Resolved<Milliradians>>,
    /// Scan step along (row, col).
    pub scan_step: Option<Resolved<[Nanometres; 2]>>,
    /// Rotation from detector to scan.
    pub rotation: Option<Resolved<Degrees>>,
    /// Detector rows and columns swapped before the rotation.
    pub transpose: Resolved<bool>,
    /// Scan lines and positions a line.
    pub scan_shape: Resolved<ScanShape>,
    /// The way of the beam through the positions.
    pub scan_path: Resolved<ScanPath>,
    /// Consecutive frames of a position, which are summed.
    pub frames_per_position: Resolved<u64>,
    /// Frames after each scan line that belong to no position.
    pub flyback_frames: Resolved<u64>,
    /// Frames before the first scan line that belong to no position.
    pub skip_frames: Resolved<u64>,
    /// Which frames are which positions, as these five say.
    pub geometry: ScanGeometry,
    /// Centre of the bright field when pinned or measured.
    pub bf_centre: Option<Resolved<[Pixels; 2]>>,
    /// Radius of the bright field when pinned or measured.
    pub bf_radius: Option<Resolved<Pixels>>,
    /// Scattering angle of a pixel when pinned or measured.
    pub detector_sampling: Option<Resolved<[Milliradians; 2]>>,
    /// All 14 aberrations, in the order of [`ABERRATIONS`].
    pub aberrations: Vec<Resolved<Aberration>>,
    /// What a person should know of how the values were found, one sentence each.
    pub notes: Vec<String>,
}

/// Joins what the user said with what the files say (`recorded`: the file, then side-cars; any order).
///
/// # Errors
/// [`OpticsError::Impossible`] or [`OpticsError::Repeated`] for a value of the user's that cannot be (what a file says
/// and cannot be is ignored, with a note: detectors are often left at the settings of another experiment);
/// [`OpticsError::Missing`] with every parameter that is needed and unknown;
/// [`OpticsError::WrongScanShape`] when the scan needs more than the frames expected, [`OpticsError::Geometry`];
/// [`OpticsError::MissingAndWrongShape`] when both are so.
pub fn resolve(
    request: &OpticsRequest,
    recorded: &[Source],
    acquisition: Acquisition,
) -> Result<ResolvedOptics, OpticsError> {
    let (optics, missing) = join(request, recorded, acquisition)?;
    let wrong_shape = optics.as_ref().and_then(|optics| wrong_shape(optics, acquisition));
    match (optics, missing.is_empty(), wrong_shape) {
        (Some(optics), true, None) => Ok(optics),
        (_, true, Some(wrong)) => Err(wrong),
        (_, false, Some(wrong)) => Err(OpticsError::MissingAndWrongShape { missing, wrong: Box::new(wrong) }),
        (_, _, None) => Err(OpticsError::Missing(missing)),
    }
}

/// As [`resolve`], where what is missing may be said later: [`ResolvedOptics::unknown`] names it. A scan shape there has
/// to be, if only a stand-in.
///
/// # Errors
/// As [`resolve`]; of what is missing, the scan shape alone.
pub fn resolve_known(
    request: &OpticsRequest,
    recorded: &[Source],
    acquisition: Acquisition,
) -> Result<ResolvedOptics, OpticsError> {
    let (optics, missing) = join(request, recorded, acquisition)?;
    let optics = optics.ok_or(OpticsError::Missing(missing))?;
    match wrong_shape(&optics, acquisition) {
        Some(wrong) => Err(wrong),
        None => Ok(optics),
    }
}

/// What is known, where the scan shape is, and what is missing.
fn join(
    request: &OpticsRequest,
    recorded: &[Source],
    acquisition: Acquisition,
) -> Result<(Option<ResolvedOptics>, Vec<Missing>), OpticsError> {
    let mut sources = request.sources();
    sources.extend(recorded.iter().cloned());
    sources.sort_by_key(|source| source.provenance);
    let mut ignored = Vec::new();
    for source in &mut sources {
        check_or_forget(source, &mut ignored)?;
    }
    let notes = ignored.iter().map(|(parameter, what)| format!("{}: {what}", parameter.key())).collect();
    let mut join = Join { sources: &sources, acquisition, ignored, missing: Vec::new(), notes };

    let voltage = join.required(Parameter::Voltage, |said| said.voltage);
    let semi_angle = join.required(Parameter::SemiAngle, |said| said.semi_angle);
    let scan_step = join.required(Parameter::ScanStep, |said| said.scan_step);
    let rotation = join.required(Parameter::Rotation, |said| said.rotation);
    let scan_shape = join.required(Parameter::ScanShape, |said| said.scan_shape);
    let transpose = join.or_default(Parameter::Transpose, |said| said.transpose, false, "not transposed");
    let scan_path =
        join.or_default(Parameter::ScanPath, |said| said.scan_path, ScanPath::Raster, "row by row");
    let frames_per_position = join.or_default(
        Parameter::FramesPerPosition,
        |said| said.frames_per_position,
        1,
        "one frame a position",
    );
    let flyback_frames = join.or_default(Parameter::FlybackFrames, |said| said.flyback_frames, 0, "none");
    let skip_frames = join.or_default(Parameter::SkipFrames, |said| said.skip_frames, 0, "none");
    let order = FrameOrder {
        path: scan_path.value,
        frames_per_position: frames_per_position.value,
        flyback_frames: flyback_frames.value,
        skip_frames: skip_frames.value,
    };
    let bf_centre = join.first(Parameter::BfCentre, |said| said.bf_centre);
    let bf_radius = join.first(Parameter::BfRadius, |said| said.bf_radius);
    let detector_sampling = join.first(Parameter::DetectorSampling, |said| said.detector_sampling);
    let aberrations = join.aberrations();

    let Join { missing, notes, .. } = join;
    let Some(scan_shape) = scan_shape else { return Ok((None, missing)) };
    let geometry = ScanGeometry::new(scan_shape.value, order)
        .map_err(|error| OpticsError::Geometry { error, place: scan_shape.detail.clone() })?;
    let optics = Some(ResolvedOptics {
        voltage,
        semi_angle,
        scan_step,
        rotation,
        transpose,
        scan_shape,
        scan_path,
        frames_per_position,
        flyback_frames,
        skip_frames,
        geometry,
        bf_centre,
        bf_radius,
        detector_sampling,
        aberrations,
        notes,
    });
    Ok((optics, missing))
}

/// What is wrong with a scan that needs more than the frames.
fn wrong_shape(optics: &ResolvedOptics, acquisition: Acquisition) -> Option<OpticsError> {
    let (geometry, frames) = (optics.geometry, acquisition.frames_expected);
    let is_wrong = geometry.num_frames() > frames;
    is_wrong.then(|| OpticsError::WrongScanShape {
        geometry,
        place: optics.scan_shape.detail.clone(),
        frames,
    })
}

/// Refuses what a user says and cannot be; forgets what a file says and cannot be.
fn check_or_forget(source: &mut Source, ignored: &mut Vec<(Parameter, String)>) -> Result<(), OpticsError> {
    loop {
        match check_source(source) {
            Err(OpticsError::Impossible { parameter, place, got, expected })
                if source.provenance >= Provenance::File =>
            {
                ignored.push((parameter, format!("{place} says {got}, ignored: expected {expected}")));
                source.values.forget(parameter);
            }
            checked => return checked,
        }
    }
}

/// The sources, strongest first, and what came up while joining them.
struct Join<'a> {
    sources: &'a [Source],
    acquisition: Acquisition,
    /// What files say and cannot be.
    ignored: Vec<(Parameter, String)>,
    missing: Vec<Missing>,
    notes: Vec<String>,
}

impl Join<'_> {
    /// The first source that says it; a weaker source that says otherwise becomes a note.
    fn first<T: Copy + PartialEq + Shown>(
        &mut self,
        parameter: Parameter,
        said: impl Fn(&OpticsValues) -> Option<T>,
    ) -> Option<Resolved<T>> {
        let mut speaking = self.sources.iter().filter_map(|source| Some((source, said(&source.values)?)));
        let (winner, value) = speaking.next()?;
        let detail = winner.detail(parameter);
        for (other, differs) in speaking.filter(|(_, other)| *other != value) {
            self.notes.push(format!(
                "{}: {} says {}, {detail} says {} and is used",
                parameter.key(),
                other.detail(parameter),
                differs.shown(),
                value.shown()
            ));
        }
        Some(Resolved { value, provenance: winner.provenance, detail })
    }

    /// As [`Self::first`]; what nobody says is as usual.
    fn or_default<T: Copy + PartialEq + Shown>(
        &mut self,
        parameter: Parameter,
        said: impl Fn(&OpticsValues) -> Option<T>,
        value: T,
        detail: &str,
    ) -> Resolved<T> {
        let usual = || Resolved { value, provenance: Provenance::Default, detail: detail.to_owned() };
        self.first(parameter, said).unwrap_or_else(usual)
    }

    /// As [`Self::first`]; what nobody says is asked for.
    fn required<T: Copy + PartialEq + Shown>(
        &mut self,
        parameter: Parameter,
        said: impl Fn(&OpticsValues) -> Option<T>,
    ) -> Option<Resolved<T>> {
        let found = self.first(parameter, said);
        if found.is_none() {
            let frames = self.acquisition.frames_expected;
            let mut ignored = self.ignored.iter().filter(|(of, _)| *of == parameter);
            let ignored = ignored.next().map(|(_, what)| what.clone());
            self.missing.push(Missing { parameter, frames, ignored });
        }
        found
    }

    /// Every aberration: the first source that names it, or 0 and a note.
    fn aberrations(&mut self) -> Vec<Resolved<Aberration>> {
        let mut all = Vec::with_capacity(ABERRATIONS.len());
        let mut unsaid = Vec::new();
        for (name, order, symmetry) in ABERRATIONS {
            let of_name =
                |said: &OpticsValues| said.aberrations.iter().find(|term| term.name() == name).copied();
            let resolved = self.first(Parameter::Aberration, of_name).unwrap_or_else(|| {
                unsaid.push(name);
                Resolved {
                    value: Aberration { order, symmetry, size: Nanometres(0.0), angle: Degrees(0.0) },
                    provenance: Provenance::Default,
                    detail: "not given, taken as 0".to_owned(),
                }
            });
            all.push(resolved);
        }
        if !unsaid.is_empty() {
            let which =
                if unsaid.len() == ABERRATIONS.len() { "all of them".to_owned() } else { unsaid.join(" ") };
            self.notes.push(format!(
                "aberrations not given are taken as 0: {which} (give them with --aberration NAME=NM[,DEG])"
            ));
        }
        all
    }
}

/// A value with its unit, for a note.
trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown_as_displayed {
    ($($name:ty),*) => {
        $(impl Shown for $name {
            fn shown(&self) -> String {
                self.to_string()
            }
        })*
    };
}

shown_as_displayed!(Kilovolts, Milliradians, Nanometres, Degrees, Pixels, ScanShape, ScanPath, u64, bool);

impl<T: Shown + PartialEq> Shown for [T; 2] {
    fn shown(&self) -> String {
        match self[0] == self[1] {
            true => self[0].shown(),
            false => format!("{}, {}", self[0].shown(), self[1].shown()),
        }
    }
}

impl Shown for Aberration {
    fn shown(&self) -> String {
        match self.symmetry {
            0 => format!("{} = {}", self.name(), self.size),
            _ => format!("{} = {}, {}", self.name(), self.size, self.angle),
        }
    }
}

impl Source {
    /// The source as a person would name it.
    pub(crate) fn described(&self) -> String {
        match self.place.is_empty() {
            true => self.provenance.to_string(),
            false => format!("{} {}", self.provenance, self.place),
        }
    }

    /// The source of one parameter: the flag, or the place.
    fn detail(&self, parameter: Parameter) -> String {
        match self.provenance {
            Provenance::Flag => parameter.flag().to_owned(),
            Provenance::Asked => "the API".to_owned(),
            _ => self.described(),
        }
    }
}

impl ResolvedOptics {
    /// Fills what was not pinned with what was measured; what was pinned stays.
    pub fn fill_measured(&mut self, measured: MeasuredBrightField) {
        fn fill<T>(slot: &mut Option<Resolved<T>>, value: T, detail: &str) {
            slot.get_or_insert_with(|| Resolved {
                value,
                provenance: Provenance::Fitted,
                detail: detail.to_owned(),
            });
        }
        fill(&mut self.bf_centre, measured.centre, "centroid of the bright-field disk in the mean pattern");
        fill(&mut self.bf_radius, measured.radius, "area of the bright-field disk in the mean pattern");
        if let Some(sampling) = measured.sampling {
            let how = "semi-angle over the radius of the half-height edge";
            fill(&mut self.detector_sampling, sampling, how);
        }
    }

    /// What of the bright field is pinned, or was measured: what is not is measured on the pattern.
    pub fn pins(&self) -> Pins {
        Pins {
            centre: self.bf_centre.as_ref().map(|centre| centre.value.map(|px| px.0)),
            radius: self.bf_radius.as_ref().map(|radius| radius.value),
            sampling: self.detector_sampling.as_ref().map(|sampling| sampling.value),
        }
    }

    /// Whether the shape of the scan is known; a stand-in has as many positions and means nothing else.
    pub fn is_shape_known(&self) -> bool {
        self.scan_shape.provenance != Provenance::StandIn
    }

    /// What a phase needs and is not known, in the order of the flags.
    pub fn unknown(&self) -> Vec<Parameter> {
        let known = [
            (Parameter::Voltage, self.voltage.is_some()),
            (Parameter::SemiAngle, self.semi_angle.is_some()),
            (Parameter::ScanStep, self.scan_step.is_some()),
            (Parameter::Rotation, self.rotation.is_some()),
            (Parameter::ScanShape, self.is_shape_known()),
        ];
        known.into_iter().filter(|(_, is_known)| !is_known).map(|(parameter, _)| parameter).collect()
    }

    /// A sentence that names what is not known; none where everything is.
    pub fn unknown_text(&self) -> Option<String> {
        let keys: Vec<_> = self.unknown().into_iter().map(Parameter::key).collect();
        (!keys.is_empty()).then(|| format!("calibration unknown: {}", keys.join(", ")))
    }

    /// Distance of neighbouring scan positions along (row, col), where it is known.
    pub fn step(&self) -> Option<[Nanometres; 2]> {
        self.scan_step.as_ref().map(|step| step.value)
    }

    /// The optics as the kernels take them, at a detector sampling (pinned or measured); none where something is not known.
    pub fn optics_at(&self, detector_sampling: [Milliradians; 2]) -> Option<Optics> {
        let given =
            self.aberrations.iter().map(|term| term.value).filter(|term| term.size.0 != 0.0).collect();
        if !self.is_shape_known() {
            return None;
        }
        Some(Optics {
            voltage: self.voltage.as_ref()?.value,
            semi_angle: self.semi_angle.as_ref()?.value,
            scan_step: self.scan_step.as_ref()?.value,
            detector_sampling,
            rotation: self.rotation.as_ref()?.value,
            transpose: self.transpose.value,
            aberrations: Aberrations(given),
        })
    }

    /// What a live reconstruction is told. A sampling that is not pinned is measured: the one in it is not used then.
    pub fn known(&self) -> Known {
        let sampling = self.detector_sampling.as_ref().map(|pinned| pinned.value);
        Known { optics: self.optics_at(sampling.unwrap_or([Milliradians(1.0); 2])), pins: self.pins() }
    }
}

#[cfg(test)]
mod tests;
