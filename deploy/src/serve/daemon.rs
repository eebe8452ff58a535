//! Series after series: wait, make room, let the frames through the pipeline, say what came of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::anyhow;
use crossbeam_channel::{Receiver, bounded};
use ingest::stream::series::SeriesSettings;
use ingest::stream::source::{Announced, SeriesEnd, StreamSource};
use kernels::Cpu;
use kernels::types::{Kilovolts, ScanShape};
use ssb::Preview;

use super::ServeRequest;
use super::hub::Hub;
use super::series::{Ended, Series};
use crate::optics::{Acquisition, OpticsValues, Provenance, ResolvedOptics, Source, check_settled, resolve};
use crate::pipeline::{Finished, Listener, Subject, run_source};
use crate::report::{AcquiredWith, Input, utc};
use crate::request::RunRequest;

/// Images from which a detector means "until I am told to stop".
const CONTINUOUS: u64 = 1_000_000_000;
/// What a frame is taken to be compressed to, where nobody knows yet: a part of its counts.
const COMPRESSED_PART: u64 = 16;

/// Takes series until the stop flag is raised, the receiver is gone, or enough have come.
pub(super) fn run(
    request: &ServeRequest,
    mut source: StreamSource,
    hub: &Arc<Hub>,
    say: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<()> {
    let mut taken = 0;
    while request.most_series.is_none_or(|most| taken < most) {
        let Some(announced) = source.next_series(|armed| hub.armed(armed)) else { return Ok(()) };
        taken += 1;
        let series = Acquiring::new(request, &announced, hub);
        match series.and_then(|acquiring| acquiring.acquire(request, &mut source, hub, say)) {
            Ok(said) => say(&said),
            Err(error) => say(&format!("series {}: failed: {error:#}", announced.key.id)),
        }
        // whatever is left of it on the wire is not of the next
        source.pass_over(announced.key);
    }
    Ok(())
}

/// A series whose first image has come, with everything settled that its reconstruction needs.
struct Acquiring {
    announced: Announced,
    subject: Subject,
    optics: ResolvedOptics,
    warnings: Vec<String>,
    opening: Instant,
}

impl Acquiring {
    fn new(request: &ServeRequest, announced: &Announced, hub: &Hub) -> anyhow::Result<Self> {
        let opening = Instant::now();
        let unknown = || anyhow!("its first image has no channel that can be read");
        let (detector, count_type) = announced.detector.zip(announced.count_type).ok_or_else(unknown)?;
        let said = announced.num_images;
        let given = request.optics.sources().iter().find_map(|source| source.values.scan_shape);
        // what the detector is set to, where it can be asked and it agrees with what it announced
        let set = hub.watch.said().scan().filter(|scan| said == Some(scan.positions() as u64));
        let mut warnings = Vec::new();
        let scan = match (given.or(set), said) {
            (Some(scan), _) => scan,
            (None, Some(images)) if images < CONTINUOUS => {
                let scan = nearly_square(images);
                warnings.push(format!(
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
            warnings.push(format!(
                "the detector was armed for {images} images, the scan {scan} has {positions} positions: {what}"
            ));
        }
        if said.is_none() {
            warnings.push("the start of the series was missed: joined while it ran".to_owned());
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
        let acquisition = Acquisition { frames_expected: positions };
        let optics = resolve(&request.optics, &[stream, shape], acquisition)?;
        check_settled(&optics, detector)?;
        let name = PathBuf::from(format!("tcp://{} series {}", request.stream, announced.key.id));
        let subject = Subject {
            frames_expected: positions,
            detector,
            count_type,
            compressed_bytes: positions.saturating_mul((detector.pixels() * count_type.bytes()) as u64)
                / COMPRESSED_PART,
            pixel_mask: announced.pixel_mask.clone().map(|mask| ([detector.rows, detector.cols], mask)),
            input: Input {
                master: name.clone(),
                master_absolute: name,
                acquisition: AcquiredWith {
                    detector: announced.description.clone(),
                    serial: announced.serial_number.clone(),
                    date: None,
                },
                files: Vec::new(),
                compressed_bytes: 0,
            },
            problems: warnings.clone(),
        };
        Ok(Self { announced: announced.clone(), subject, optics, warnings, opening })
    }

    /// Lets the frames through the pipeline; returns what is to be said of it.
    fn acquire(
        self,
        request: &ServeRequest,
        source: &mut StreamSource,
        hub: &Arc<Hub>,
        say: &(dyn Fn(&str) + Sync),
    ) -> anyhow::Result<String> {
        let scan = self.optics.scan_shape.value;
        let series = hub.begin(self.announced.clone(), scan);
        self.warnings.iter().for_each(|warning| series.warn(warning.clone()));
        let id = self.announced.key.id;
        say(&format!("series {id}: receiving {} frames, {scan}", self.subject.frames_expected));
        let settings = SeriesSettings {
            channel: request.channel.clone(),
            silence: request.silence,
            ..SeriesSettings::new(self.subject.frames_expected)
        };
        let folder = request.out.join(folder_name(id));
        let run = RunRequest {
            master: self.subject.input.master.clone(),
            out: folder,
            optics: request.optics.clone(),
            memory_budget_bytes: request.memory_budget_bytes,
            threads: None,
            loss: false,
            quiet: true,
            rings: request.rings,
            stop: request.stop.clone(),
        };
        let (previews, previews_in) = bounded(1);
        let mut end = None;
        let finished = std::thread::scope(|scope| {
            // ends when the pipeline drops the other end
            scope.spawn(|| show_previews(&previews_in, &series, hub));
            let listener = Listener {
                started: Box::new(|running| {
                    series.running(running);
                    hub.tell();
                }),
                previews: Some(previews),
            };
            let frames = |raw, _counters| end = source.read_series(settings, &raw);
            run_source(Cpu, &run, (self.subject, self.optics, self.opening), frames, listener)
        });
        let said = conclude(&series, id, finished, end);
        hub.tell();
        said
    }
}

/// Takes previews to where they are looked at.
fn show_previews(previews: &Receiver<Preview>, series: &Series, hub: &Hub) {
    for preview in previews {
        series.set_phase(|phase| phase.preview(preview));
        hub.tell();
    }
}

/// Writes down how a series ended, and says it in a line.
fn conclude(
    series: &Series,
    id: u64,
    finished: anyhow::Result<Finished<Cpu>>,
    end: Option<SeriesEnd>,
) -> anyhow::Result<String> {
    let ended = |folder: Option<PathBuf>, seconds: f64| Ended {
        why: end.as_ref().map_or_else(|| "stopped on request".to_owned(), |end| end.ending.to_string()),
        counts: end.as_ref().map(|end| end.counts).unwrap_or_default(),
        folder,
        seconds,
    };
    let Finished { report, live, spectra, .. } = match finished {
        Ok(finished) => finished,
        Err(error) => {
            series.failed(format!("{error:#}"), Some(ended(None, 0.0)));
            return Err(error);
        }
    };
    let seconds = report.seconds.iter().find(|(stage, _)| stage == "read_decode_encode");
    let ended = ended(Some(report.folder.clone()), seconds.map_or(0.0, |(_, seconds)| *seconds));
    let frames = &report.frames;
    let said = format!(
        "series {id}: {}: {} of {} frames, {} missing ({}){}, {}",
        if frames.missing == 0 && live.is_some() { "complete" } else { "PARTIAL" },
        frames.received,
        frames.expected,
        frames.missing,
        ended.why,
        if live.is_some() { "" } else { ", no phase image" },
        report.folder.display(),
    );
    if let Some(live) = live {
        let optics = report.optics.optics_at(live.bright_field.sampling);
        series.set_phase(|phase| {
            phase.finish(live.bright_field, live.reconstruction, spectra.map(|spectra| (spectra, optics)));
        });
    }
    series.finished(report.status, report.optics.clone(), &report.warnings, ended);
    Ok(said)
}

/// The scan of so many images that is nearest to a square, with rows no longer than columns.
fn nearly_square(images: u64) -> ScanShape {
    let images = usize::try_from(images).unwrap_or(usize::MAX).max(1);
    let rows = (1..=images.isqrt()).rev().find(|rows| images.is_multiple_of(*rows)).unwrap_or(1);
    ScanShape { rows, cols: images / rows }
}

/// A folder of its own for every series, in the order of time: the detector's numbers begin again when it restarts.
fn folder_name(id: u64) -> String {
    format!("{}-series-{id:06}", utc(SystemTime::now()).replace(':', ""))
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
