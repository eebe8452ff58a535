//! `sideband export`.

use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use ingest::filewriter::{Existing, FilewriterError};
use ingest::record::{
    ExportSettings, ExportSummary, LogReport, MissingFrames, RecordError, SeriesInLog, export_series,
    list_series_until,
};
use ingest::stream::threshold::{Threshold, shown};
use kernels::bslz4_decode::Encoding;
use kernels::types::{Kilovolts, ScanShape};

use super::{Ending, say, tell};
use crate::pipeline::name_of_folder;
use crate::report::{moment, utc};
use crate::request::{StopFlag, WrongFlags};

/// What `sideband export` takes.
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// The folder of the recording.
    #[arg(value_name = "LOG_FOLDER")]
    pub log: PathBuf,
    /// Folder for the files of the set; made when it does not exist.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    pub out: Option<PathBuf>,
    /// Number or unique name of the series, with its place behind a dot where several have that (7.2); needed where the
    /// recording holds several.
    #[arg(long, value_name = "ID")]
    pub series: Option<String>,
    /// Say which series the recording holds, and write nothing.
    #[arg(long, conflicts_with_all = ["out", "series", "scan_shape"])]
    pub list: bool,
    /// Shape of the scan: written into a side-car beside the master.
    #[arg(long, value_name = "ROWSxCOLS")]
    pub scan_shape: Option<ScanShape>,
    /// Start of the file names; series_ID when not given.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Which thresholds of stream v2: first, all (a set for each, NAME_CHANNEL), a number, or the name of a channel
    /// [default: first].
    #[arg(long, value_name = "WHICH", alias = "channel")]
    pub threshold: Option<Threshold>,
    /// Accelerating voltage, where the stream does not say it.
    #[arg(long, value_name = "KV", value_parser = voltage)]
    pub voltage_kv: Option<f64>,
    /// What the set has for a frame that did not come.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Missing::Holes)]
    pub missing: Missing,
    /// Images of a data file.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub images_per_file: u64,
    /// Replace a set of the same name.
    #[arg(long)]
    pub overwrite: bool,
}

/// What the set has for a missing frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Missing {
    /// Nothing: sideband sees a gap, others read zeros; the set lists them.
    Holes,
    /// A frame of zeros, as if they had been measured.
    Zeros,
    /// The export is refused.
    Refuse,
}

fn voltage(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(kv) if (10.0..=1000.0).contains(&kv) => Ok(kv),
        _ => Err(format!("got '{text}', expected 10 to 1000 kV")),
    }
}

/// Exports a series, or lists those there are; ends early, and leaves no half of a set, when it is asked to stop.
///
/// # Errors
/// The folder holds no log, the series is not in it or not the only one, or it cannot be a set of files.
pub(super) fn export(args: &ExportArgs, stop: &StopFlag) -> anyhow::Result<Ending> {
    match export_until(args, stop) {
        Err(error) if matches!(error.downcast_ref(), Some(RecordError::Stopped)) => {
            tell("stopped: the set that was being written is gone, the log is as it was");
            Ok(Ending::Interrupted)
        }
        ended => ended,
    }
}

fn export_until(args: &ExportArgs, stop: &StopFlag) -> anyhow::Result<Ending> {
    let (series, report) = list_series_until(&args.log, stop.flag())?;
    tell_of_log(&report);
    if report.segments == 0 {
        bail!("{}: the folder holds no recording", args.log.display());
    }
    let Some(out) = args.out.as_ref().filter(|_| !args.list) else {
        say(listed(&series).trim_end())?;
        return Ok(Ending::Done);
    };
    let chosen = choose_series(&series, args.series.as_deref(), "--series")?;
    if let Some(doubt) = chosen.doubt() {
        tell(&format!("warning: series {}: {doubt}", chosen.name()));
    }
    let name = args.name.clone().unwrap_or_else(|| format!("series_{}", chosen.label()));
    if args.threshold == Some(Threshold::All) {
        for absent in chosen.announced_channels.iter().filter(|name| !chosen.channels.contains(name)) {
            tell(&format!("warning: {absent:?} was announced, and no frame of it came: it has no set"));
        }
    }
    for (channel, name) in sets(args.threshold.as_ref(), &chosen.channels, &name)? {
        let settings = ExportSettings {
            channel,
            images_per_file: args.images_per_file,
            existing: if args.overwrite { Existing::Replace } else { Existing::Refuse },
            missing: match args.missing {
                Missing::Holes => MissingFrames::Hole,
                Missing::Zeros => MissingFrames::Zeros,
                Missing::Refuse => MissingFrames::Refuse,
            },
            scan: args.scan_shape,
            voltage: args.voltage_kv.map(Kilovolts),
            stop: stop.flag(),
            ..ExportSettings::new(name)
        };
        let summary =
            export_series(&args.log, &chosen.log_key(), out, &settings).map_err(|error| match error {
                RecordError::Filewriter(FilewriterError::Exists { .. }) => {
                    anyhow!("{error}; --overwrite replaces it")
                }
                error => error.into(),
            })?;
        tell_of_set(&summary, args);
        say(&summary.set.master.display().to_string())?;
    }
    Ok(Ending::Done)
}

/// The channel and the name of each set that is asked for, of those that a series has; no channel stands for the first.
///
/// # Errors
/// A channel that the series does not have; those that it has are named.
fn sets(
    asked: Option<&Threshold>,
    channels: &[String],
    name: &str,
) -> anyhow::Result<Vec<(Option<String>, String)>> {
    let has_names = channels.iter().any(|channel| !channel.is_empty());
    Ok(match asked {
        Some(Threshold::All) if channels.len() > 1 => {
            let set = |(place, channel): (usize, &String)| {
                (Some(channel.clone()), format!("{name}_{}", name_of_folder(channel, place)))
            };
            channels.iter().enumerate().map(set).collect()
        }
        // the channel of stream v1 has no name, and is the first threshold
        Some(threshold @ (Threshold::Number(_) | Threshold::Name(_)))
            if has_names || threshold.to_string() != shown("") =>
        {
            let asked = threshold.to_string();
            let named = |name: fn(&str) -> &str| channels.iter().find(|channel| name(channel) == asked);
            let Some(channel) = named(|name| name).or_else(|| named(shown)) else {
                let there: Vec<&str> = channels.iter().map(|channel| shown(channel)).collect();
                let there = there.join(", ");
                return Err(WrongFlags::because(anyhow!(
                    "--threshold: got {threshold}, expected one of the series: {there}"
                )));
            };
            vec![(Some(channel.clone()), name.to_owned())]
        }
        _ => vec![(None, name.to_owned())],
    })
}

/// The series that is asked for with a flag, or the only one.
///
/// # Errors
/// There is none, or several.
pub(crate) fn choose_series<'a>(
    series: &'a [SeriesInLog],
    asked: Option<&str>,
    flag: &str,
) -> anyhow::Result<&'a SeriesInLog> {
    let is_asked = |series: &&SeriesInLog| asked.is_none_or(|asked| series.is_called(asked));
    let found: Vec<_> = series.iter().filter(is_asked).collect();
    match (found.as_slice(), asked) {
        ([only], _) => Ok(only),
        ([], Some(asked)) => Err(WrongFlags::because(anyhow!(
            "{flag}: got {asked}, expected one of the recording:\n{}",
            listed(series).trim_end()
        ))),
        ([], None) => bail!("the recording holds no series"),
        (several, _) => {
            let several: Vec<SeriesInLog> = several.iter().map(|&series| series.clone()).collect();
            Err(WrongFlags::because(anyhow!(
                "the recording holds several series; {flag} says which, by its unique name or its place (7.2) where the number is not enough:\n{}",
                listed(&several).trim_end()
            )))
        }
    }
}

/// A line for each series.
fn listed(series: &[SeriesInLog]) -> String {
    let mut text = String::new();
    for series in series {
        let expected = series.num_images.map(|images| format!(" of {images}")).unwrap_or_default();
        let state = match (series.is_complete(), series.end_seen) {
            (true, _) => "complete",
            (false, true) => "ended",
            (false, false) => "not ended",
        };
        let start = match (series.start_seen, series.second_starts) {
            (false, _) => ", start missed",
            (true, 0) => "",
            (true, _) => ", of two starts",
        };
        let shape = series.detector.map(|detector| format!(", {detector}")).unwrap_or_default();
        let channels: Vec<&str> =
            series.channels.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        let channels = if channels.is_empty() { String::new() } else { format!(", {}", channels.join(" ")) };
        let _ = writeln!(
            text,
            "series {}: {}{expected} frames, {state}{start}{shape}{channels}, {:.1} MB, {} to {}",
            series.name(),
            series.frames.count(),
            series.bytes as f64 * 1e-6,
            utc(moment(series.first_arrival_nanos)),
            utc(moment(series.last_arrival_nanos)),
        );
    }
    text
}

/// Says what is damaged or missing in the log.
fn tell_of_log(report: &LogReport) {
    const MOST_TOLD: usize = 5;
    for damage in report.damages.iter().take(MOST_TOLD) {
        let what = if damage.is_tail { "ends in" } else { "holds" };
        tell(&format!(
            "warning: segment {:08} {what} {} bytes that are no record, at {}: {}",
            damage.segment, damage.bytes, damage.offset, damage.why
        ));
    }
    let more = report.num_damages.saturating_sub(MOST_TOLD as u64);
    if more > 0 {
        tell(&format!("warning: {more} more damages"));
    }
    if report.not_saved > 0 {
        tell(&format!("warning: {} messages were not saved when they came", report.not_saved));
    }
    if report.missing > 0 {
        tell(&format!("warning: {} messages are lost from the recording", report.missing));
    }
}

/// Says what is not in the set.
fn tell_of_set(summary: &ExportSummary, args: &ExportArgs) {
    let missing: u64 = summary.missing.iter().map(|range| range.end - range.start).sum();
    if missing > 0 {
        let instead = match args.missing {
            Missing::Zeros => "frames of zeros stand for them",
            _ => "holes, which sideband takes as missing and others read as zeros; the set lists them",
        };
        let first = ranges(&summary.missing);
        tell(&format!("warning: {missing} frames are missing ({first}): {instead}"));
    }
    if summary.encoding != Encoding::Bslz4 {
        let encoding = summary.encoding;
        tell(&format!("note: the frames are not bitshuffled: the set holds them as they came, {encoding}"));
    }
    let images = summary.set.num_images;
    if let Some(expected) = summary.num_images.filter(|&expected| expected != images) {
        tell(&format!("warning: the set ends after {images} of {expected} frames"));
    }
    if summary.doubled + summary.unfit > 0 {
        let (doubled, unfit) = (summary.doubled, summary.unfit);
        tell(&format!("note: left out {doubled} frames that came again and {unfit} that do not belong"));
    }
}

/// The first few ranges of frames, in words.
fn ranges(ranges: &[Range<u64>]) -> String {
    const MOST_TOLD: usize = 5;
    let told: Vec<String> = ranges
        .iter()
        .take(MOST_TOLD)
        .map(|range| match range.end - range.start {
            1 => range.start.to_string(),
            _ => format!("{} to {}", range.start, range.end - 1),
        })
        .collect();
    let more = if ranges.len() > MOST_TOLD { ", ..." } else { "" };
    format!("{}{more}", told.join(", "))
}

#[cfg(test)]
mod tests;
