//! A series of a detector's stream, live or from a log, as the pipeline takes it.

use std::path::PathBuf;

use anyhow::anyhow;
use ingest::stream::source::Announced;
use kernels::types::{DetectorShape, Kilovolts, ScanGeometry, ScanShape};

use super::Subject;
use crate::optics::{
    Acquisition, OpticsError, OpticsRequest, OpticsValues, Parameter, Provenance, ResolvedOptics, Source,
    check_settled, nearly_square, resolve, resolve_known, set_scan,
};
use crate::report::{AcquiredWith, Input};

/// Images from which a detector means "until I am told to stop".
const CONTINUOUS: u64 = 1_000_000_000;
/// How many times the frames that a scan needs are kept at most.
const MOST_SURPLUS: u64 = 4;
/// How a sentence begins that a shape takes back.
const SHAPE_UNKNOWN: &str = "the scan shape is not known";
/// What a frame is taken to be compressed to, where nobody knows yet: a part of its counts.
const COMPRESSED_PART: u64 = 16;

/// What a series itself says of its optics, to be joined with what people say, once and again.
#[derive(Clone, Debug)]
pub struct SeriesOptics {
    recorded: Vec<Source>,
    frames: u64,
    detector: DetectorShape,
}

impl SeriesOptics {
    /// What is known by now; what is not, the optics name.
    ///
    /// # Errors
    /// A value that cannot be, or a scan that needs more frames than there are.
    pub fn resolve(&self, request: &OpticsRequest) -> Result<ResolvedOptics, OpticsError> {
        let optics = resolve_known(request, &self.recorded, Acquisition { frames_expected: self.frames })?;
        check_settled(&optics, self.detector)?;
        Ok(optics)
    }

    /// The same request without a bright field that is not on this detector; what is not used any more, with a sentence of
    /// each. A series is not lost for it: the disk is measured.
    pub(crate) fn on_detector(&self, request: &OpticsRequest) -> (OpticsRequest, Vec<(Parameter, String)>) {
        let (mut request, mut not_used) = (request.clone(), Vec::new());
        while let Err(OpticsError::Impossible { parameter, place, got, expected }) = self.resolve(&request)
            && matches!(parameter, Parameter::BfCentre | Parameter::BfRadius)
        {
            request.forget(parameter);
            let key = parameter.key();
            not_used.push((parameter, format!("{key} ({place}): got {got}, expected {expected}: not used")));
        }
        (request, not_used)
    }

    /// As [`resolve`](Self::resolve), where everything has to be known.
    ///
    /// # Errors
    /// What is missing, by name, too.
    pub fn resolve_whole(&self, request: &OpticsRequest) -> Result<ResolvedOptics, OpticsError> {
        let is_known = |source: &&Source| source.provenance != Provenance::StandIn;
        let recorded: Vec<Source> = self.recorded.iter().filter(is_known).cloned().collect();
        let optics = resolve(request, &recorded, Acquisition { frames_expected: self.frames })?;
        check_settled(&optics, self.detector)?;
        Ok(optics)
    }
}

/// What is acquired in a series whose first image has come, and what it says of its optics; what a person should know at
/// once is among the problems. `name` is what the report calls it, `set` the scan the detector is set to, where it was asked.
///
/// The scan shape is what the user says or what the detector is set to; where nobody knows it, a single row of all images
/// stands for it. The series has as many frames as it announced, but for many more than the scan needs, and at least as
/// many as it needs: those that it did not announce are missing.
///
/// # Errors
/// No channel that can be read; a number of images that nobody knows.
pub fn of_series(
    announced: &Announced,
    request: &OpticsRequest,
    name: &str,
    set: Option<ScanShape>,
) -> anyhow::Result<(Subject, SeriesOptics)> {
    let unknown = || anyhow!("its first image has no channel that can be read");
    let (detector, count_type) = announced.detector.zip(announced.count_type).ok_or_else(unknown)?;
    let said = announced.num_images;
    let order = request.frame_order();
    let given = request.sources().iter().find_map(|source| source.values.scan_shape);
    let is_all = |scan: &ScanShape| {
        let geometry = ScanGeometry::new(*scan, order).ok();
        geometry
            .is_some_and(|it| [it.num_frames(), it.num_frames_with_last_flyback()].map(Some).contains(&said))
    };
    // what the detector is set to counts where it agrees with what it announced
    let set = set.and_then(|set| set_scan(set, order)).filter(is_all);
    let mut problems: Vec<String> = announced.notes().map(str::to_owned).collect();
    let (scan, provenance) = match (given.or(set), said) {
        (Some(scan), _) => (scan, Provenance::Default),
        (None, Some(images)) if images < CONTINUOUS => {
            let positions = images.saturating_sub(order.skip_frames) / order.frames_per_position.max(1);
            let cols = usize::try_from(positions).unwrap_or(usize::MAX).max(1);
            let hint = nearly_square(images, order).filter(|scan| scan.rows == scan.cols);
            let hint = hint.map_or_else(String::new, |scan| format!("; it could be {scan}"));
            problems.push(format!(
                "{SHAPE_UNKNOWN}: {images} images are shown as one row (--scan-shape ROWSxCOLS){hint}"
            ));
            (ScanShape { rows: 1, cols }, Provenance::StandIn)
        }
        (None, _) => {
            return Err(anyhow!(
                "how many images it has is not known (its start was missed, or it goes on until it is stopped): give --scan-shape ROWSxCOLS"
            ));
        }
    };
    let geometry = ScanGeometry::new(scan, order)?;
    let needed = geometry.num_frames();
    let armed = said.filter(|&images| images < CONTINUOUS);
    // a detector that is armed for much more than a scan is stopped when the scan is over
    let kept = armed.filter(|&images| images / MOST_SURPLUS <= needed);
    let frames = kept.unwrap_or(needed).max(needed);
    if let Some(images) = armed.filter(|&images| images > frames) {
        problems.push(format!(
            "the detector was armed for {images} images, the scan {geometry} needs {needed}: the rest is left out"
        ));
    }
    if let Some(images) = armed.filter(|&images| images < needed) {
        problems.push(format!(
            "the detector was armed for {images} images, the scan {geometry} needs {needed}: the rest is missing"
        ));
    }
    if said.is_none() {
        problems.push("the start of the series was missed: joined while it ran".to_owned());
    }
    if announced.pixel_mask.is_none() {
        let brought =
            "the stream brought no pixel mask (header_detail is not all): every pixel counts as good";
        problems.push(brought.to_owned());
    }
    let stream = Source {
        provenance: Provenance::File,
        place: "the stream".to_owned(),
        values: OpticsValues {
            voltage: announced.incident_energy_ev.filter(|&ev| ev > 0.0).map(|ev| Kilovolts(ev / 1e3)),
            ..OpticsValues::default()
        },
    };
    let shape = Source {
        provenance,
        place: "the number of images".to_owned(),
        values: OpticsValues { scan_shape: Some(scan), ..OpticsValues::default() },
    };
    let optics = SeriesOptics { recorded: vec![stream, shape], frames, detector };
    let frame_bytes = (detector.pixels() * count_type.bytes()) as u64;
    let subject = Subject {
        frames_expected: frames,
        detector,
        count_type,
        compressed_bytes: frames.saturating_mul(frame_bytes) / COMPRESSED_PART,
        pixel_mask: announced.pixel_mask.clone().map(|mask| ([detector.rows, detector.cols], mask)),
        input: Input {
            master: PathBuf::from(name),
            master_absolute: PathBuf::from(name),
            acquisition: AcquiredWith {
                detector: announced.description.clone(),
                serial: announced.serial_number.clone(),
                date: None,
            },
            files: Vec::new(),
            compressed_bytes: 0,
        },
        problems,
    };
    Ok((subject, optics))
}

/// Whether a sentence of a series still holds, by what is known of its optics: its shape may be by now.
pub(crate) fn still_holds(said: &str, optics: &ResolvedOptics) -> bool {
    !(optics.is_shape_known() && said.starts_with(SHAPE_UNKNOWN))
}

/// A channel's own folder.
pub(crate) fn folder_name(announced: &Announced, place: usize) -> String {
    name_of_folder(announced.channels.first().map_or("", |channel| &channel.name), place)
}

/// The name of a channel for a file; its place where the name, which comes from outside, cannot be one.
pub(crate) fn name_of_folder(channel: &str, place: usize) -> String {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    match channel {
        name if !name.is_empty() && name.chars().all(is_of_name) => name.to_owned(),
        _ => format!("channel_{place}"),
    }
}

/// The square scan of so many images, where there is one: a hint, never an answer.
pub fn square(images: u64) -> Option<ScanShape> {
    let side = images.isqrt();
    (side > 1 && side * side == images).then_some(())?;
    let side = usize::try_from(side).ok()?;
    Some(ScanShape { rows: side, cols: side })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_number_of_images_may_be_a_square_scan() {
        let shape = |images| square(images).map(|scan| (scan.rows, scan.cols));
        assert_eq!([shape(4096), shape(4)], [Some((64, 64)), Some((2, 2))]);
        assert_eq!([shape(8192), shape(4097), shape(1), shape(0), shape(u64::MAX)], [None; 5]);
    }
}
