//! A run from a log of the recorder: its messages take the same way as those of the wire.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ingest::record::{LogReader, LogSource, LogSourceSettings, Pace, SeriesInLog, list_series};
use ingest::stream::series::{OwnedKey, SeriesSettings};
use ingest::stream::source::StreamSource;
use kernels::Cpu;

use super::{Listener, SeriesOptics, of_series, run_source};
use crate::optics::ResolvedOptics;
use crate::report::RunReport;
use crate::request::RunRequest;

/// Ending of a segment's file.
const SEGMENT: &str = "sbl";

/// Whether a path is the folder of a log.
pub(super) fn is_log(path: &Path) -> bool {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|ending| ending == SEGMENT))
}

/// Runs a series of a log: the one that is asked for, or the last.
///
/// # Errors
/// The log cannot be read, or has no such series; those of every run.
pub(super) fn run(request: &RunRequest, opening: Instant) -> anyhow::Result<RunReport> {
    let folder = &request.master;
    let (listed, found) = list_series(folder)?;
    let series = chosen(&listed, request.series).with_context(|| folder.display().to_string())?;
    run_series(request, &series.key, (series.bytes, found.num_damages), opening, |optics| {
        Ok(optics.resolve_whole(&request.optics)?)
    })
}

/// Runs the series of this key of a log, as far as its microscope is known: without all of it there is no phase.
///
/// # Errors
/// The log cannot be read, or has no such series; a value that cannot be; those of every run.
pub fn run_key(request: &RunRequest, key: &OwnedKey) -> anyhow::Result<RunReport> {
    run_series(request, key, (0, 0), Instant::now(), |optics| Ok(optics.resolve(&request.optics)?))
}

/// Runs a series of which so many bytes are in the log, at so many damaged places.
fn run_series(
    request: &RunRequest,
    key: &OwnedKey,
    (bytes, damages): (u64, u64),
    opening: Instant,
    settled: impl FnOnce(&SeriesOptics) -> anyhow::Result<ResolvedOptics>,
) -> anyhow::Result<RunReport> {
    let folder = &request.master;
    let stop = request.stop.flag();
    let settings = LogSourceSettings { pace: Pace::AsTaken, ..LogSourceSettings::default() };
    let (log, received) = LogSource::new(LogReader::open(folder)?, settings, stop.clone());
    let mut source = StreamSource::new(received, stop);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| log.run());
        let announced = loop {
            let announced = source.next_series(|_| ()).context("the series cannot be found again")?;
            if announced.key == *key {
                break announced;
            }
            source.pass_over(announced.key);
        };
        let name = format!("{} series {}", folder.display(), announced.key.id);
        let (mut subject, optics) = of_series(&announced, &request.optics, &name, None)?;
        let optics = settled(&optics)?;
        subject.compressed_bytes = if bytes > 0 { bytes } else { subject.compressed_bytes };
        subject.input.files.push(folder.clone());
        if damages > 0 {
            let problem = format!("{}: {damages} places are damaged and passed over", folder.display());
            subject.problems.push(problem);
        }
        let settings = SeriesSettings {
            // a series that was not finished has no end: the log is read much faster than that
            silence: Duration::from_secs(3),
            ..SeriesSettings::new(subject.frames_expected)
        };
        let frames = |raw, _counters| {
            source.read_series(settings, &raw);
        };
        let finished = run_source(Cpu, request, (subject, optics, opening), frames, Listener::default());
        // whatever follows in the log is not read
        drop(source);
        let _ = reading.join();
        Ok(finished?.report)
    })
}

/// The series of a number, or the last with frames.
fn chosen(listed: &[SeriesInLog], id: Option<u64>) -> anyhow::Result<&SeriesInLog> {
    let with_frames = listed.iter().filter(|series| series.frames.count() > 0);
    let found = match id {
        Some(id) => with_frames.clone().rfind(|series| series.key.id == id),
        None => with_frames.clone().next_back(),
    };
    found.ok_or_else(|| {
        let ids: Vec<String> = with_frames.map(|series| series.key.id.to_string()).collect();
        match (id, ids.is_empty()) {
            (_, true) => anyhow!("there is no series with frames in this log"),
            (Some(id), false) => anyhow!("got series {id}, expected one of {}", ids.join(", ")),
            (None, false) => anyhow!("no series"),
        }
    })
}
