//! A run from a log of the recorder: its messages take the same way as those of the wire.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ingest::record::{
    LogReader, LogSource, LogSourceSettings, Pace, RecordError, SeriesInLog, list_series_until,
};
use ingest::stream::series::{OwnedKey, SeriesSettings};
use ingest::stream::source::StreamSource;
use kernels::Cpu;

use super::{Listener, SeriesOptics, folder_name, of_series, run_source};
use crate::optics::ResolvedOptics;
use crate::report::RunReport;
use crate::request::{Interrupted, RunRequest};

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
    let keys: Vec<&OwnedKey> = with_frames.iter().map(|series| &series.key).collect();
    let at = chosen(&keys, request.series.as_deref()).with_context(|| folder.display().to_string())?;
    let series = with_frames[at];
    series.check_single()?;
    let bytes = series.bytes / series.channels.len().max(1) as u64;
    let mut reports = Vec::new();
    // how many there are is known once the first is found
    let mut channels = Channels { place: 0, number: 1 };
    while channels.place < channels.number {
        let told = (bytes, found.num_damages);
        let report = run_channel(request, &series.key, told, opening, &mut channels, |optics| {
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
/// channels that are asked for, the first.
///
/// # Errors
/// The log cannot be read, or has no such series; a value that cannot be; those of every run.
pub fn run_key(request: &RunRequest, key: &OwnedKey) -> anyhow::Result<RunReport> {
    let mut channels = Channels { place: 0, number: 1 };
    run_channel(request, key, (0, 0), Instant::now(), &mut channels, |optics| {
        Ok(optics.resolve(&request.optics)?)
    })
}

/// Which of the channels that are asked for is run, and how many they are, once that is known.
struct Channels {
    place: usize,
    number: usize,
}

/// Runs a channel of a series of which so many bytes are in the log, at so many damaged places.
fn run_channel(
    request: &RunRequest,
    key: &OwnedKey,
    (bytes, damages): (u64, u64),
    opening: Instant,
    of: &mut Channels,
    settled: impl FnOnce(&SeriesOptics) -> anyhow::Result<ResolvedOptics>,
) -> anyhow::Result<RunReport> {
    let folder = &request.master;
    let stop = request.stop.flag();
    let settings =
        LogSourceSettings { pace: Pace::AsTaken, series: Some(key.id), ..LogSourceSettings::default() };
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
        let channels = request.threshold.choose(&announced.channels)?;
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
        let finished = run_source(Cpu, &request, (subject, optics, opening), frames, Listener::default());
        // whatever follows in the log is not read
        drop(source);
        let _ = reading.join();
        Ok(finished?.report)
    })
}

/// The series of this number or unique name, or the last; which of these.
fn chosen(keys: &[&OwnedKey], asked: Option<&str>) -> anyhow::Result<usize> {
    let names = |of: &[usize]| -> String {
        let names = of.iter().filter_map(|&at| keys.get(at)).map(|key| match &key.unique_id {
            Some(unique_id) => format!("{} ({unique_id})", key.id),
            None => key.id.to_string(),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let Some(last) = keys.len().checked_sub(1) else {
        return Err(anyhow!("there is no series with frames in this log"));
    };
    let Some(asked) = asked else { return Ok(last) };
    let is_asked = |key: &OwnedKey| key.unique_id.as_deref() == Some(asked) || asked.parse() == Ok(key.id);
    let all: Vec<usize> = (0..keys.len()).collect();
    let found: Vec<usize> = all.iter().copied().filter(|&at| is_asked(keys[at])).collect();
    match found[..] {
        [one] => Ok(one),
        [] => Err(anyhow!("got series {asked}, expected one of {}", names(&all))),
        _ => Err(anyhow!("got series {asked}, of which there are several: name one of {}", names(&found))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_came_twice_is_refused_with_the_names_and_a_name_is_found() {
        let key = |id, unique_id: Option<&str>| OwnedKey { id, unique_id: unique_id.map(str::to_owned) };
        let all = [key(7, Some("A")), key(7, Some("B")), key(8, Some("C")), key(9, None)];
        let all: Vec<&OwnedKey> = all.iter().collect();
        let of = |asked| chosen(&all, asked).map_err(|why| why.to_string());
        assert_eq!([of(Some("B")), of(Some("8")), of(None)], [Ok(1), Ok(2), Ok(3)]);
        assert_eq!(
            of(Some("7")).unwrap_err(),
            "got series 7, of which there are several: name one of 7 (A), 7 (B)"
        );
        assert_eq!(of(Some("D")).unwrap_err(), "got series D, expected one of 7 (A), 7 (B), 8 (C), 9");
        assert!(chosen(&[], None).is_err());
    }
}
