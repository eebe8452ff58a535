//! Series after series: wait, make room, let the frames through the pipeline, say what came of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::Context;
use crossbeam_channel::{Receiver, bounded};
use ingest::stream::series::SeriesSettings;
use ingest::stream::source::{Announced, SeriesEnd, StreamSource};
use kernels::Cpu;
use kernels::types::{CountType, ScanShape};
use ssb::{Moments, Preview};

use super::ServeRequest;
use super::hub::Hub;
use super::jobs::{Export, Progress};
use super::series::{Ended, SHARED, Series, Setup, View};
use super::warnings;
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
        let heard = |armed: &Announced| hub.armed(armed, before(request, armed, hub));
        let Some(announced) = source.next_series(heard) else { return Ok(failed) };
        taken += 1;
        let said = match Acquiring::new(request, &announced, hub) {
            Ok(acquiring) => acquiring.acquire(request, &mut source, hub, say),
            Err(error) => {
                // listed, so that it is seen
                hub.begin(announced.clone(), ScanShape { rows: 1, cols: 1 }.into(), 1, None)
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

/// What can be warned of when the detector is armed.
fn before(request: &ServeRequest, armed: &Announced, hub: &Hub) -> Vec<String> {
    // a start does not say the type of the counts, on which no optics depend
    let likely = Announced { count_type: armed.count_type.or(Some(CountType::U16)), ..armed.clone() };
    let acquiring = Acquiring::new(request, &likely, hub);
    let acquiring = acquiring.as_ref().ok();
    let known = acquiring.map_or(armed, |acquiring| &acquiring.announced);
    warnings::before(known, acquiring.map(|acquiring| &acquiring.choices.optics))
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
        let of_detector = hub.watch.said();
        let mut announced = announced.clone();
        if let (None, Some(detector)) = (&announced.pixel_mask, announced.detector) {
            announced.pixel_mask = of_detector.mask_of(detector);
        }
        let (subject, optics) = of_series(&announced, &said, &name, of_detector.scan())?;
        let setup = Setup { optics, request: request.optics.clone(), rings: request.rings };
        let choices = setup.choices(&asked)?;
        Ok(Self { announced, subject, setup, choices, opening })
    }

    /// Lets the frames through the pipeline; returns what is to be said of it.
    fn acquire(
        self,
        request: &ServeRequest,
        source: &mut StreamSource,
        hub: &Arc<Hub>,
        say: &(dyn Fn(&str) + Sync),
    ) -> anyhow::Result<String> {
        let (scan, frames) = (self.choices.optics.geometry, self.subject.frames_expected);
        let series = hub.begin(self.announced.clone(), scan, frames, Some(self.setup));
        self.subject.problems.iter().for_each(|warning| series.warn(warning.clone()));
        series.expect(warnings::of_scan(&self.choices.optics));
        let dropped = hub.watch.said().dropped;
        let id = self.announced.key.id;
        say(&format!("series {id}: receiving {frames} frames, {scan}"));
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
                    series.reconstructed(live);
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
        let dropped_now = hub.watch.said().dropped;
        if let Some(more) =
            dropped_now.zip(dropped).map(|(now, then)| now.saturating_sub(then)).filter(|&n| n > 0)
        {
            series.warn(format!("the detector dropped {more} messages while this series came"));
        }
        let said = conclude(&series, belongs, finished, end);
        if request.export.on_completion && request.record.is_some() && said.is_ok() {
            export(&series, hub, request);
        }
        hub.tell();
        said
    }
}

/// Takes previews to where they are looked at.
fn show_previews(previews: &Receiver<Preview>, series: &Series, hub: &Hub) {
    for preview in previews {
        series.look(&preview.bright_field, preview.rows);
        series.preview(preview);
        hub.tell();
    }
}

/// Asks for an export of a series, from the log.
///
/// It is said with the series where that cannot be.
fn export(series: &Series, hub: &Hub, request: &ServeRequest) {
    if let Err(error) = ask_for_export(series, hub, request.channel.clone()) {
        series.warn(format!("NOT EXPORTED: {error:#}"));
    }
}

/// Asks for an export of a series of this daemon; what came of it so far is waited for.
///
/// # Errors
/// It is not over, or too many jobs wait.
pub(super) fn ask_for_export(
    series: &Series,
    hub: &Hub,
    channel: Option<String>,
) -> anyhow::Result<Progress> {
    let belongs = series.belongs().context("the series is not over, or nothing came of it")?;
    let choices = series.choices().context("the series could not begin")?;
    let name = belongs.file_name().context("its folder has no name")?;
    let scan = Some(choices.optics.scan_shape.value).filter(|_| choices.optics.is_shape_known());
    let progress = hub.jobs.export(Export {
        key: series.key(),
        channel,
        out: hub.exports.join(name),
        scan,
        voltage: choices.optics.voltage.map(|voltage| voltage.value),
        durable: hub.recorded.received.get(),
    })?;
    series.set_export(progress.clone());
    Ok(progress)
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
            // one that is not empty stays
            let _ = std::fs::remove_dir(&belongs);
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
    let descan = || {
        let live = finished.live.as_ref()?;
        let View { snapshot, pixel_mask, .. } = series.view()?;
        let known = report.optics.is_shape_known();
        known.then(|| warnings::descan(&snapshot, &live.bright_field, &pixel_mask, snapshot.scan().rows))?
    };
    if let Some(descan) = descan() {
        series.warn(descan);
    }
    series.finished(finished, ended);
    // what was asked for while the last phase was made
    series.remake()?;
    Ok(said)
}

/// A folder of its own for every series, in the order of time: the detector's numbers begin again when it restarts, and
/// another daemon may write beside this one. Where none can be made, the first name says why when it is used.
pub(super) fn own_folder(out: &Path, id: u64) -> PathBuf {
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
