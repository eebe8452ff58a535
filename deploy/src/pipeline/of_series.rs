//! A series of a detector's stream, live or from a log, as the pipeline takes it.

use std::path::PathBuf;

use anyhow::anyhow;
use ingest::stream::source::Announced;
use kernels::types::{Kilovolts, ScanShape};

use super::Subject;
use crate::optics::{
    Acquisition, OpticsRequest, OpticsValues, Provenance, ResolvedOptics, Source, check_settled, resolve,
};
use crate::report::{AcquiredWith, Input};

/// Images from which a detector means "until I am told to stop".
const CONTINUOUS: u64 = 1_000_000_000;
/// What a frame is taken to be compressed to, where nobody knows yet: a part of its counts.
const COMPRESSED_PART: u64 = 16;

/// What is acquired in a series whose first image has come, and the microscope; what a person should know at once is among
/// the problems. `name` is what the report calls it, `set` the scan the detector is set to, where it was asked.
///
/// The scan shape is what the user says, what the detector is set to, or the most nearly square one. The series has as many
/// frames as that has positions, whatever it announced: more are left out, fewer are missing.
///
/// # Errors
/// No channel that can be read; a number of images that nobody knows; optics that are missing or impossible.
pub fn of_series(
    announced: &Announced,
    request: &OpticsRequest,
    name: &str,
    set: Option<ScanShape>,
) -> anyhow::Result<(Subject, ResolvedOptics)> {
    let unknown = || anyhow!("its first image has no channel that can be read");
    let (detector, count_type) = announced.detector.zip(announced.count_type).ok_or_else(unknown)?;
    let said = announced.num_images;
    let given = request.sources().iter().find_map(|source| source.values.scan_shape);
    // what the detector is set to counts where it agrees with what it announced
    let set = set.filter(|scan| said == Some(scan.positions() as u64));
    let mut problems = Vec::new();
    let scan = match (given.or(set), said) {
        (Some(scan), _) => scan,
        (None, Some(images)) if images < CONTINUOUS => {
            let scan = nearly_square(images);
            problems.push(format!(
                "the scan shape is not given: {images} images are taken as {scan} (--scan-shape ROWSxCOLS)"
            ));
            scan
        }
        (None, _) => {
            return Err(anyhow!(
                "how many images it has is not known (its start was missed, or it goes on until it is stopped): give --scan-shape ROWSxCOLS"
            ));
        }
    };
    let positions = scan.positions() as u64;
    if let Some(images) = said.filter(|&images| images != positions && images < CONTINUOUS) {
        let what = if images > positions { "the rest is left out" } else { "the rest is missing" };
        problems.push(format!(
            "the detector was armed for {images} images, the scan {scan} has {positions} positions: {what}"
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
        provenance: Provenance::Default,
        place: "the number of images".to_owned(),
        values: OpticsValues { scan_shape: Some(scan), ..OpticsValues::default() },
    };
    let optics = resolve(request, &[stream, shape], Acquisition { frames_expected: positions })?;
    check_settled(&optics, detector)?;
    let frame_bytes = (detector.pixels() * count_type.bytes()) as u64;
    let subject = Subject {
        frames_expected: positions,
        detector,
        count_type,
        compressed_bytes: positions.saturating_mul(frame_bytes) / COMPRESSED_PART,
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

/// The scan of so many images that is nearest to a square, with rows no longer than columns.
fn nearly_square(images: u64) -> ScanShape {
    let images = usize::try_from(images).unwrap_or(usize::MAX).max(1);
    let rows = (1..=images.isqrt()).rev().find(|rows| images.is_multiple_of(*rows)).unwrap_or(1);
    ScanShape { rows, cols: images / rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_of_unknown_shape_is_as_square_as_its_number_of_images_allows() {
        let shape = |images| {
            let ScanShape { rows, cols } = nearly_square(images);
            (rows, cols)
        };
        assert_eq!([shape(4096), shape(8192), shape(12)], [(64, 64), (64, 128), (3, 4)]);
        assert_eq!([shape(4099), shape(1), shape(0)], [(1, 4099), (1, 1), (1, 1)]);
    }
}
