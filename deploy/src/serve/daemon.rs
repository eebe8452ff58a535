//! Series after series: wait, make room, let the frames through the pipeline, say what came of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::Context;
use crossbeam_channel::{Receiver, Sender, bounded};
use ingest::stream::series::SeriesSettings;
use ingest::stream::source::{Announced, ChannelReading, SeriesEnd, StreamSource};
use ingest::stream::threshold::Threshold;
use kernels::Processor;
use kernels::types::{CountType, ScanShape};
use serde_json::Value;
use ssb::{Moments, Preview};

use super::ServeRequest;
use super::asked::{Asked, Resource};
use super::hub::Hub;
use super::jobs::{Export, Progress};
use super::series::{Ended, Series, Setup, View};
use super::warnings;
use crate::optics::OpticsRequest;
use crate::pipeline::{Choices, Finished, Listener, Subject, Unwritable, folder_name, of_series, run_source};
use crate::report::utc;
use crate::request::RunRequest;

/// Takes series until the stop flag is raised, the receiver is gone, or enough have come; returns how many failed.
pub(super) fn run(request: &ServeRequest, mut source: StreamSource, hub: &Arc<Hub>) -> anyhow::Result<u64> {
    let (mut taken, mut failed) = (0, 0);
    while request.most_series.is_none_or(|most| taken < most) {
        let heard = |armed: &Announced| hub.armed(armed, before(request, armed, hub));
        let Some(announced) = source.next_series(heard) else { return Ok(failed) };
        taken += 1;
        failed += match request.threshold.choose(&announced.channels) {
            Ok(chosen) => {
                let channels: Vec<_> =
                    chosen.into_iter().map(|channel| announced.of_channel(channel)).collect();
                take_channels(request, &channels, &mut source, hub)
            }
            Err(error) => refuse(&announced, &error.into(), hub),
        };
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
    let mut said = warnings::before(known, acquiring.map(|acquiring| &acquiring.choices.optics));
    said.extend(acquiring.into_iter().flat_map(|acquiring| acquiring.not_used.iter().cloned()));
    said
}

/// Asks for something of the next series; one that is armed already is warned of by what is known now.
///
/// # Errors
/// Something that cannot be, with what was got and expected.
pub(super) fn ask_of_next(
    request: &ServeRequest,
    hub: &Hub,
    resource: Resource,
    body: &Value,
) -> anyhow::Result<()> {
    hub.ask(resource, body)?;
    hub.warn_armed(|armed| before(request, armed, hub));
    Ok(())
}

/// Lists a series that cannot be acquired, so that it is seen; returns how many that are.
fn refuse(announced: &Announced, error: &anyhow::Error, hub: &Arc<Hub>) -> u64 {
    hub.begin(announced.clone(), ScanShape { rows: 1, cols: 1 }.into(), 1, None)
        .failed(format!("{error:#}"), None);
    hub.tell();
    hub.say(&format!("series {}: failed: {error:#}", announced.key.id));
    1
}

/// A channel to read, and who wants to know how it ended.
type Reading = (ChannelReading, Sender<Option<SeriesEnd>>);

/// Lets every channel of a series through a pipeline of its own, all from one reading; returns how many failed.
fn take_channels(
    request: &ServeRequest,
    channels: &[Announced],
    source: &mut StreamSource,
    hub: &Arc<Hub>,
) -> u64 {
    let mut failed = 0;
    let mut acquiring = Vec::new();
    if let Some(detector) = &hub.detector {
        hub.watch.renew(detector);
    }
    // the first is listed as the newest
    for (place, announced) in channels.iter().enumerate().rev() {
        match Acquiring::new(request, announced, hub) {
            Ok(ready) => acquiring.push((place, ready.begin(hub))),
            Err(error) => failed += refuse(announced, &error, hub),
        }
    }
    let Some(id) = channels.first().map(|announced| announced.key.id) else { return failed };
    if acquiring.is_empty() {
        return failed;
    }
    let folder = own_folder(&request.out, id);
    let at_once = channels.len() as u64;
    std::thread::scope(|scope| {
        let (readings, readings_in) = bounded::<Reading>(acquiring.len());
        let mut threads = Vec::new();
        for (place, (acquiring, series)) in acquiring {
            let folder = match at_once {
                1 => folder.clone(),
                _ => folder.join(folder_name(&acquiring.announced, place)),
            };
            let readings = readings.clone();
            threads.push(scope.spawn(move || {
                let taken = (series.clone(), folder, at_once);
                let outcome = acquiring.acquire(request, taken, readings, hub);
                match &outcome {
                    Ok(()) => series.say_outcome(&|line| hub.say(line)),
                    Err(error) => hub.say(&format!("{}: failed: {error:#}", series.name())),
                }
                outcome.is_err()
            }));
        }
        drop(readings);
        // until every pipeline is ready for its frames, or has given up
        let (channels, ends): (Vec<_>, Vec<_>) = readings_in.iter().unzip();
        for (end, told) in source.read_channels(channels).into_iter().zip(ends) {
            // a pipeline that failed does not ask any more
            let _ = told.send(end);
        }
        for thread in threads {
            match thread.join() {
                Ok(has_failed) => failed += u64::from(has_failed),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    failed
}

/// A series whose first image has come, with everything settled that can be by then.
struct Acquiring {
    announced: Announced,
    subject: Subject,
    setup: Setup,
    /// What is asked for of it.
    asked: Asked,
    choices: Choices,
    /// What is said of its bright field and cannot be on its detector.
    not_used: Vec<String>,
    opening: Instant,
}

impl Acquiring {
    fn new(request: &ServeRequest, announced: &Announced, hub: &Hub) -> anyhow::Result<Self> {
        let opening = Instant::now();
        let name = format!("tcp://{} series {}", request.stream, announced.key.id);
        let mut asked = hub.asked();
        let said = OpticsRequest { asked: asked.optics()?, ..request.optics.clone() };
        let of_detector = hub.watch.said();
        let mut announced = announced.clone();
        if let (None, Some(detector)) = (&announced.pixel_mask, announced.detector) {
            announced.pixel_mask = of_detector.mask_of(detector);
        }
        let (subject, optics) = of_series(&announced, &said, &name, of_detector.scan())?;
        let (fitting, not_used) = optics.on_detector(&said);
        not_used.iter().for_each(|(parameter, _)| asked.forget(parameter.key()));
        let not_used = not_used.into_iter().map(|(_, said)| said).collect();
        let setup = Setup { optics, request: fitting, rings: request.rings };
        let choices = setup.choices(&asked)?;
        Ok(Self { announced, subject, setup, asked, choices, not_used, opening })
    }

    /// Lists it.
    fn begin(mut self, hub: &Hub) -> (Self, Arc<Series>) {
        let (scan, frames) = (self.choices.optics.geometry, self.subject.frames_expected);
        let setup = (self.setup.clone(), self.asked.clone());
        let series = hub.begin(self.announced.clone(), scan, frames, Some(setup));
        self.subject.problems.append(&mut self.not_used);
        self.subject.problems.iter().for_each(|warning| series.warn(warning.clone()));
        (self, series)
    }

    /// Lets the frames through the pipeline. So many are acquired at once; where its
    /// frames come from is told to `readings`.
    fn acquire(
        self,
        request: &ServeRequest,
        (series, folder, at_once): (Arc<Series>, PathBuf, u64),
        readings: Sender<Reading>,
        hub: &Arc<Hub>,
    ) -> anyhow::Result<()> {
        let (scan, expected) = (self.choices.optics.geometry, self.subject.frames_expected);
        series.expect(warnings::of_scan(&self.choices.optics));
        let dropped = hub.watch.said().dropped;
        hub.say(&format!("{}: receiving {expected} frames, {scan}", series.name()));
        let settings = SeriesSettings {
            silence: request.silence,
            ..self.announced.reading(self.subject.frames_expected)
        };
        let belongs = folder.clone();
        let run = RunRequest {
            master: self.subject.input.master.clone(),
            series: None,
            threshold: Threshold::First,
            out: folder,
            optics: request.optics.clone(),
            processor: request.processor.clone(),
            memory_budget_bytes: request.memory_budget_bytes.map(|bytes| bytes / at_once),
            at_once,
            threads: None,
            loss: self.choices.moments == Moments::Compute,
            quiet: true,
            rings: self.choices.rings,
            stop: request.stop.clone(),
        };
        let not_saved = hub.not_saved();
        let (previews, previews_in) = bounded(1);
        let (told, end) = bounded(1);
        let counts = series.live_counts();
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
                said: series.said_of_frames(),
            };
            let frames = move |frames, _counters| {
                // nobody reads: the daemon ends
                let _ = readings.send((ChannelReading { settings, frames, counts }, told));
            };
            run_source(&run, (self.subject, self.choices.optics, self.opening), frames, listener)
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
        let outcome = conclude(&series, belongs, finished, end.recv().ok().flatten());
        if request.export.on_completion && request.record.is_some() && outcome.is_ok() {
            export(&series, hub);
        }
        hub.tell();
        outcome
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
fn export(series: &Series, hub: &Hub) {
    if let Err(error) = ask_for_export(series, hub) {
        series.warn(format!("NOT EXPORTED: {error:#}"));
    }
}

/// Asks for an export of a series of this daemon; what came of it so far is waited for.
///
/// # Errors
/// It is not over, or too many jobs wait.
pub(super) fn ask_for_export(series: &Series, hub: &Hub) -> anyhow::Result<Progress> {
    let belongs = series.belongs().context("the series is not over, or nothing came of it")?;
    let choices = series.choices().context("the series could not begin")?;
    // a channel of several has its folder in that of the series
    let beside = belongs.strip_prefix(&hub.out).ok().or_else(|| belongs.file_name().map(Path::new));
    let name = beside.context("its folder has no name")?;
    let scan = Some(choices.optics.scan_shape.value).filter(|_| choices.optics.is_shape_known());
    let progress = hub.jobs.export(Export {
        key: series.key(),
        channel: series.channel(),
        out: hub.exports.join(name),
        scan,
        voltage: choices.optics.voltage.map(|voltage| voltage.value),
        durable: hub.recorded.received.get(),
    })?;
    series.set_export(progress.clone());
    Ok(progress)
}

/// Writes down how a series ended; its results belong into a folder.
fn conclude(
    series: &Series,
    belongs: PathBuf,
    finished: anyhow::Result<Finished<Processor>>,
    end: Option<SeriesEnd>,
) -> anyhow::Result<()> {
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
    Ok(())
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
