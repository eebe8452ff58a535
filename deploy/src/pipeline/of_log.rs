//! A run from a log of the recorder: its messages take the same way as those of the wire.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ingest::record::{
    LogKey, LogReader, LogSource, LogSourceSettings, Pace, RecordError, SeriesInLog, list_series_until,
};
use ingest::stream::kind::ChannelKind;
use ingest::stream::series::SeriesSettings;
use ingest::stream::source::StreamSource;
use ingest::stream::threshold::Threshold;

use super::{Listener, Said, SeriesOptics, folder_name, of_series, run_source};
use crate::optics::ResolvedOptics;
use crate::report::RunReport;
use crate::request::{Interrupted, RunRequest, WrongFlags};

/// Ending of a segment's file.
const SEGMENT: &str = "sbl";

/// Whether a path is the folder of a log.
pub(super) fn is_log(path: &Path) -> bool {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|ending| ending == SEGMENT))
}

/// Runs a series of a log: the one that is asked for, or the last. Several channels are read one after the other, each
/// into a folder of its own below the one for results; a report for each.
///
/// # Errors
/// The log cannot be read, or has no such series; those of every run.
pub(super) fn run(request: &RunRequest, opening: Instant) -> anyhow::Result<Vec<RunReport>> {
    let folder = &request.master;
    let listed = list_series_until(folder, request.stop.flag());
    let (listed, found) = listed.map_err(|error| match error {
        RecordError::Stopped => Interrupted { what: "while the log was listed".to_owned() }.into(),
        error => anyhow!(error),
    })?;
    let with_frames: Vec<&SeriesInLog> = listed.iter().filter(|series| series.frames.count() > 0).collect();
    let series = chosen(&with_frames, request.series.as_deref(), folder)?;
    let bytes = series.bytes / series.channels.len().max(1) as u64;
    let mut reports = Vec::new();
    // how many there are is known once the first is found
    let mut channels = Channels { place: 0, number: 1, come: &series.channels };
    while channels.place < channels.number {
        let told = (bytes, found.num_damages);
        let report = run_channel(request, &series.log_key(), told, opening, &mut channels, |optics| {
            Ok(optics.resolve_whole(&request.optics)?)
        })?;
        channels.place += 1;
        let is_interrupted = report.interrupted;
        reports.push(report);
        if is_interrupted {
            break;
        }
    }
    Ok(reports)
}

/// Runs the series of this key of a log, as far as its microscope is known: without all of it there is no phase. Of several
/// channels that are asked for, the first that was announced and came.
///
/// # Errors
/// The log cannot be read, or has no such series; a value that cannot be; those of every run.
pub fn run_key(request: &RunRequest, key: &LogKey) -> anyhow::Result<RunReport> {
    let mut channels = Channels { place: 0, number: 1, come: &[] };
    run_channel(request, key, (0, 0), Instant::now(), &mut channels, |optics| {
        Ok(optics.resolve(&request.optics)?)
    })
}

/// Which of the channels that are asked for is run, and how many they are, once that is known.
struct Channels<'a> {
    place: usize,
    number: usize,
    /// Those of which the log has frames; empty where that is not known.
    come: &'a [String],
}

/// Runs a channel of a series of which so many bytes are in the log, at so many damaged places.
fn run_channel(
    request: &RunRequest,
    key: &LogKey,
    (bytes, damages): (u64, u64),
    opening: Instant,
    of: &mut Channels<'_>,
    settled: impl FnOnce(&SeriesOptics) -> anyhow::Result<ResolvedOptics>,
) -> anyhow::Result<RunReport> {
    let folder = &request.master;
    let stop = request.stop.flag();
    let settings =
        LogSourceSettings { pace: Pace::AsTaken, series: Some(key.clone()), ..LogSourceSettings::default() };
    let (log, received) = LogSource::new(LogReader::open(folder)?, settings, stop.clone());
    let mut source = StreamSource::new(received, stop);
    let said = Said::default();
    let told = said.clone();
    source.on_notice(move |notice| told.say(notice.to_string()));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| log.run());
        let announced = source.next_series(|_| ()).context("the series cannot be found again")?;
        let mut channels = request.threshold.choose(&announced.channels)?;
        let mut absent = Vec::new();
        if request.threshold == Threshold::All && !of.come.is_empty() {
            // what was announced and never came takes nothing from the others
            let (come, never): (Vec<_>, _) =
                channels.into_iter().partition(|channel| of.come.contains(&channel.name));
            let said =
                |channel: &&ChannelKind| format!("{} was announced, and no frame of it came", channel.name);
            absent.extend(never.iter().map(said));
            channels = come;
        }
        of.number = channels.len();
        let channel = channels.get(of.place).context("the log has changed while it was read")?;
        let announced = announced.of_channel(channel);
        let (mut name, mut request) =
            (format!("{} series {}", folder.display(), announced.key.id), request.clone());
        if of.number > 1 {
            request.out = request.out.join(folder_name(&announced, of.place));
            name = format!("{name} {}", announced.channel());
        }
        let (mut subject, optics) = of_series(&announced, &request.optics, &name, None)?;
        let optics = settled(&optics)?;
        subject.compressed_bytes = if bytes > 0 { bytes } else { subject.compressed_bytes };
        subject.input.files.push(folder.clone());
        subject.problems.extend(absent);
        if damages > 0 {
            let problem = format!("{}: {damages} places are damaged and passed over", folder.display());
            subject.problems.push(problem);
        }
        let settings = SeriesSettings {
            // a series that was not finished has no end: the log is read much faster than that
            silence: Duration::from_secs(3),
            ..announced.reading(subject.frames_expected)
        };
        let frames = |raw, _counters| {
            source.read_series(settings, &raw);
        };
        let listener = Listener { said, ..Listener::default() };
        let finished = run_source(&request, (subject, optics, opening), frames, listener);
        // whatever follows in the log is not read
        drop(source);
        let _ = reading.join();
        Ok(finished?.report)
    })
}

/// The series of a log that is called so, or the last.
fn chosen<'a>(all: &[&'a SeriesInLog], asked: Option<&str>, log: &Path) -> anyhow::Result<&'a SeriesInLog> {
    let log = log.display();
    let names = |of: &[&SeriesInLog]| of.iter().map(|series| series.name()).collect::<Vec<_>>().join(", ");
    let last = all.last().with_context(|| format!("{log}: there is no series with frames in this log"))?;
    let Some(asked) = asked else { return Ok(last) };
    let found: Vec<&SeriesInLog> = all.iter().copied().filter(|series| series.is_called(asked)).collect();
    let refused = |what: String| Err(WrongFlags::because(anyhow!("{log}: got series {asked}, {what}")));
    match found[..] {
        [one] => Ok(one),
        [] => refused(format!("expected one of {}", names(all))),
        _ => refused(format!("of which there are several: name one of {}", names(&found))),
    }
}
