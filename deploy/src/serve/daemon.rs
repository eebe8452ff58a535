//! Series after series: wait, make room, let the frames through the pipeline, say what came of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crossbeam_channel::{Receiver, bounded};
use ingest::stream::series::SeriesSettings;
use ingest::stream::source::{Announced, SeriesEnd, StreamSource};
use kernels::Cpu;
use kernels::types::ScanShape;
use ssb::{Moments, Preview};

use super::ServeRequest;
use super::hub::Hub;
use super::series::{Ended, SHARED, Series, Setup};
use crate::optics::OpticsRequest;
use crate::output::Quantity;
use crate::pipeline::{Choices, Finished, Listener, Subject, Unwritable, of_series, run_source};
use crate::report::utc;
use crate::request::RunRequest;

/// Takes series until the stop flag is raised, the receiver is gone, or enough have come; returns how many failed.
pub(super) fn run(
    request: &ServeRequest,
    mut source: StreamSource,
    hub: &Arc<Hub>,
    say: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<u64> {
    let (mut taken, mut failed) = (0, 0);
    while request.most_series.is_none_or(|most| taken < most) {
        let Some(announced) = source.next_series(|armed| hub.armed(armed)) else { return Ok(failed) };
        taken += 1;
        let said = match Acquiring::new(request, &announced, hub) {
            Ok(acquiring) => acquiring.acquire(request, &mut source, hub, say),
            Err(error) => {
                // listed, so that it is seen
                hub.begin(announced.clone(), ScanShape { rows: 1, cols: 1 }, None)
                    .failed(format!("{error:#}"), None);
                hub.tell();
                Err(error)
            }
        };
        match said {
            Ok(said) => say(&said),
            Err(error) => {
                failed += 1;
                say(&format!("series {}: failed: {error:#}", announced.key.id));
            }
        }
        // whatever is left of it on the wire is not of the next
        source.pass_over(announced.key);
    }
    Ok(failed)
}

/// A series whose first image has come, with everything settled that can be by then.
struct Acquiring {
    announced: Announced,
    subject: Subject,
    setup: Setup,
    choices: Choices,
    opening: Instant,
}

impl Acquiring {
    fn new(request: &ServeRequest, announced: &Announced, hub: &Hub) -> anyhow::Result<Self> {
        let opening = Instant::now();
        let name = format!("tcp://{} series {}", request.stream, announced.key.id);
        let asked = hub.asked();
        let said = OpticsRequest { asked: asked.optics()?, ..request.optics.clone() };
        let (subject, optics) = of_series(announced, &said, &name, hub.watch.said().scan())?;
        let setup = Setup { optics, request: request.optics.clone(), rings: request.rings };
        let choices = setup.choices(&asked)?;
        Ok(Self { announced: announced.clone(), subject, setup, choices, opening })
    }

    /// Lets the frames through the pipeline; returns what is to be said of it.
    fn acquire(
        self,
        request: &ServeRequest,
        source: &mut StreamSource,
        hub: &Arc<Hub>,
        say: &(dyn Fn(&str) + Sync),
    ) -> anyhow::Result<String> {
        let scan = self.choices.optics.scan_shape.value;
        let series = hub.begin(self.announced.clone(), scan, Some(self.setup));
        self.subject.problems.iter().for_each(|warning| series.warn(warning.clone()));
        let id = self.announced.key.id;
        say(&format!("series {id}: receiving {} frames, {scan}", self.subject.frames_expected));
        let settings = SeriesSettings {
            channel: request.channel.clone(),
            silence: request.silence,
            ..SeriesSettings::new(self.subject.frames_expected)
        };
        let folder = own_folder(&request.out, id);
        let belongs = folder.clone();
        let run = RunRequest {
            master: self.subject.input.master.clone(),
            series: None,
            out: folder,
            optics: request.optics.clone(),
            memory_budget_bytes: request.memory_budget_bytes,
            threads: None,
            loss: self.choices.moments == Moments::Compute,
            quiet: true,
            rings: self.choices.rings,
            stop: request.stop.clone(),
        };
        let not_saved = hub.not_saved();
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
                unwritable: Unwritable::Borne,
                previews: Some(previews),
                reconstructed: Box::new(|live| {
                    let (field, made) = (live.bright_field.clone(), live.reconstruction.clone());
                    series.set_phase(|phase| phase.finish(field, made));
                    hub.tell();
                }),
            };
            let frames = |raw, _counters| end = source.read_series(settings, &raw);
            run_source(Cpu, &run, (self.subject, self.choices.optics, self.opening), frames, listener)
        });
        let lost = hub.not_saved() - not_saved;
        if lost > 0 {
            series.warn(format!("{lost} messages of the detector were NOT SAVED: {}", hub.record_error()));
        }
        let said = conclude(&series, belongs, finished, end);
        hub.tell();
        said
    }
}

/// Takes previews to where they are looked at.
fn show_previews(previews: &Receiver<Preview>, series: &Series, hub: &Hub) {
    for preview in previews {
        series.look(&preview.bright_field);
        series.set_phase(|phase| phase.preview(preview));
        hub.tell();
    }
}

/// Writes down how a series ended, and says it in a line; its results belong into a folder.
fn conclude(
    series: &Series,
    belongs: PathBuf,
    finished: anyhow::Result<Finished<Cpu>>,
    end: Option<SeriesEnd>,
) -> anyhow::Result<String> {
    let ended = Ended {
        why: end.as_ref().map_or_else(|| "stopped on request".to_owned(), |end| end.ending.to_string()),
        counts: end.as_ref().map(|end| end.counts).unwrap_or_default(),
        missing: 0,
        corrupt: 0,
        folder: None,
        belongs: None,
        seconds: 0.0,
    };
    let finished = match finished {
        Ok(finished) => finished,
        Err(error) => {
            series.failed(format!("{error:#}"), Some(ended));
            return Err(error);
        }
    };
    let report = &finished.report;
    let seconds = report.seconds.iter().find(|(stage, _)| stage == "read_decode_encode");
    let of_kind = |kind| report.frames.gaps.iter().filter(move |gap| gap.kind == kind);
    let (folder, belongs) = match &finished.not_written {
        None => (Some(report.folder.clone()), report.folder.clone()),
        Some(_) => (None, belongs),
    };
    let ended = Ended {
        missing: report.frames.missing,
        corrupt: of_kind("corrupt").map(|gap| gap.count).sum(),
        folder,
        belongs: Some(belongs.clone()),
        seconds: seconds.map_or(0.0, |(_, seconds)| *seconds),
        ..ended
    };
    let shared = if ended.counts.is_shared() { format!("; {SHARED}") } else { String::new() };
    let frames = &report.frames;
    let has_phase = finished.images.iter().any(|image| image.quantity() == Quantity::Phase);
    let no_phase = match (has_phase, report.optics.unknown_text()) {
        (true, _) => String::new(),
        (false, Some(unknown)) => format!(", no phase image ({unknown})"),
        (false, None) => ", no phase image".to_owned(),
    };
    let place = match &finished.not_written {
        None => belongs.display().to_string(),
        Some(why) => format!("results NOT WRITTEN ({why})"),
    };
    let said = format!(
        "series {}: {}: {} of {} frames, {} missing ({}{shared}){no_phase}, {place}",
        series.id(),
        if frames.missing == 0 && has_phase { "complete" } else { "PARTIAL" },
        frames.received,
        frames.expected,
        frames.missing,
        ended.why,
    );
    series.finished(finished, ended);
    // what was asked for while the last phase was made
    series.remake()?;
    Ok(said)
}

/// A folder of its own for every series, in the order of time: the detector's numbers begin again when it restarts, and
/// another daemon may write beside this one. Where none can be made, the first name says why when it is used.
fn own_folder(out: &Path, id: u64) -> PathBuf {
    /// Series of one number in one second.
    const MOST: u32 = 100;
    let name = format!("{}-series-{id:06}", utc(SystemTime::now()).replace(':', ""));
    let first = out.join(&name);
    let others = (2..=MOST).map(|other| out.join(format!("{name}-{other}")));
    let mut all = std::iter::once(first.clone()).chain(others);
    let made = all.find(|folder| match std::fs::create_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() != std::io::ErrorKind::AlreadyExists,
    });
    made.unwrap_or(first)
}
