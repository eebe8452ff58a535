//! The series of earlier runs that the log holds: listed once at the start, each to be finished or exported.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ingest::record::{RecordError, SeriesInLog, list_series_until};
use ingest::stream::threshold::Threshold;
use serde_json::{Value, json};

use super::jobs::{JobState, Progress};
use crate::output::Quantity;
use crate::pipeline::name_of_folder;
use crate::report::{RESULT_FILE, moment, utc};

/// Series that are listed: the last of the log.
const MOST_LISTED: usize = 200;
/// Results may begin and end so far from the first and last message of their series.
const CLOCK_SLACK: Duration = Duration::from_secs(5);

/// A series of an earlier run, or one of its channels where each is a series of its own.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) series: SeriesInLog,
    /// What people call it, and no other of the log.
    label: String,
    pub(super) channel: Option<OwnChannel>,
    /// Where results of it are.
    pub(super) folder: Option<PathBuf>,
    pub(super) finish: Option<Progress>,
    pub(super) export: Option<Progress>,
}

/// A channel that is a series of its own.
#[derive(Clone, Debug)]
pub(super) struct OwnChannel {
    pub(super) name: String,
    /// Its folder in that of the series.
    pub(super) folder: String,
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    entries: Mutex<Listing>,
}

#[derive(Debug, Default)]
struct Listing {
    /// The log has been read.
    is_read: bool,
    problem: Option<String>,
    /// In the order of the log; `r1` is the first.
    entries: Vec<Entry>,
}

impl Recorded {
    fn listing(&self) -> MutexGuard<'_, Listing> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the log as it was before `begun`, and looks for results of its series below `out`. Where all thresholds are
    /// asked for, each of several channels is listed, the first as the newest. Of a log that takes long nothing is listed once
    /// the flag is raised.
    pub(super) fn read(
        &self,
        log: &Path,
        out: &Path,
        threshold: &Threshold,
        begun: SystemTime,
        stop: Arc<AtomicBool>,
    ) {
        let listed = list_series_until(log, stop);
        if matches!(listed, Err(RecordError::Stopped)) {
            return;
        }
        let mut listing = self.listing();
        listing.is_read = true;
        match listed {
            Err(error) => listing.problem = Some(error.to_string()),
            Ok((series, _)) => {
                let is_earlier = |series: &&SeriesInLog| {
                    moment(series.first_arrival_nanos) < begun && series.frames.count() > 0
                };
                let mut earlier: Vec<SeriesInLog> = series.iter().filter(is_earlier).cloned().collect();
                let surplus = earlier.len().saturating_sub(MOST_LISTED);
                earlier.drain(..surplus);
                let folders = result_folders(out);
                let begins: Vec<(u64, u64)> =
                    earlier.iter().map(|series| (series.key.id, series.first_arrival_nanos)).collect();
                listing.entries = earlier
                    .into_iter()
                    .flat_map(|one| {
                        let entry = |channel: Option<OwnChannel>| {
                            let below = channel.as_ref().map_or("", |channel| &channel.folder);
                            let folder = folder_of(&one, below, &folders, &begins);
                            let (entry, label) = (one.clone(), label_of(&one, &series));
                            Entry { series: entry, label, channel, folder, finish: None, export: None }
                        };
                        own_channels(&one, threshold).into_iter().map(entry).collect::<Vec<_>>()
                    })
                    .collect();
            }
        }
    }

    /// The series that `number` names: `r1` and on.
    pub(super) fn entry(&self, number: &str) -> Option<Entry> {
        self.listing().entries.get(place(number)?).cloned().map(Entry::settled)
    }

    /// Changes one.
    pub(super) fn change(&self, number: &str, change: impl FnOnce(&mut Entry)) {
        let mut listing = self.listing();
        if let Some(entry) = place(number).and_then(|place| listing.entries.get_mut(place)) {
            change(entry);
        }
    }

    /// The list as the API tells it, the newest first.
    pub(super) fn json(&self) -> Value {
        let listing = self.listing();
        let all = listing.entries.iter().cloned().map(Entry::settled).enumerate().rev();
        let entries: Vec<Value> = all.map(|(at, entry)| entry.json(&format!("r{}", at + 1))).collect();
        json!({ "is_read": listing.is_read, "problem": listing.problem, "series": entries })
    }
}

/// What people call a series: its number, its number and place, or its unique name; the first that is of no other of the log.
fn label_of(one: &SeriesInLog, all: &[SeriesInLog]) -> String {
    let placed = |name: &str| format!("{name}.{}", one.place);
    let number = one.key.id.to_string();
    let mut labels = vec![number.clone(), placed(&number)];
    labels.extend(one.key.unique_id.iter().flat_map(|name| [name.clone(), placed(name)]));
    let is_its_own = |label: &&String| {
        let called = |series: &&SeriesInLog| series.is_called(label);
        one.is_called(label) && all.iter().filter(called).count() == 1
    };
    labels.iter().find(is_its_own).cloned().unwrap_or_else(|| one.label())
}

/// What a series is listed as: once, or once for each of its channels, the last first.
fn own_channels(series: &SeriesInLog, threshold: &Threshold) -> Vec<Option<OwnChannel>> {
    match threshold {
        Threshold::All if series.channels.len() > 1 => {
            let own = |(place, name): (usize, &String)| {
                Some(OwnChannel { name: name.clone(), folder: name_of_folder(name, place) })
            };
            series.channels.iter().enumerate().map(own).rev().collect()
        }
        _ => vec![None],
    }
}

/// Place of `r1`, `r2`, ...
fn place(number: &str) -> Option<usize> {
    number.strip_prefix('r')?.parse::<usize>().ok()?.checked_sub(1)
}

impl Entry {
    /// With the folder of results that have been made meanwhile.
    fn settled(mut self) -> Self {
        if let Some(JobState::Done(folder)) = self.finish.as_ref().map(Progress::state) {
            self.folder = Some(folder);
        }
        self
    }

    /// How much of it is there.
    fn state(&self) -> &'static str {
        match (self.series.is_complete(), self.series.end_seen) {
            (true, _) => "complete",
            (false, true) => "partial",
            (false, false) => "unfinished",
        }
    }

    /// As the API tells it.
    pub(super) fn json(&self, number: &str) -> Value {
        let series = &self.series;
        let durable = series.frames.count();
        let there = |quantity: &Quantity| {
            let file = format!("{}.npy", quantity.stem());
            self.folder.as_ref().is_some_and(|folder| folder.join(file).is_file())
        };
        let images: Vec<&str> = Quantity::ALL.into_iter().filter(there).map(Quantity::stem).collect();
        json!({
            "number": number,
            "id": series.key.id,
            "label": self.label,
            "unique_id": series.key.unique_id,
            "channel": self.channel.as_ref().map(|channel| &channel.name),
            "state": self.state(),
            "warnings": series.doubt().into_iter().collect::<Vec<_>>(),
            "started_utc": utc(moment(series.first_arrival_nanos)),
            "last_utc": utc(moment(series.last_arrival_nanos)),
            "frames": {
                "expected": series.num_images,
                "durable": durable,
                "doubled": series.doubled,
            },
            "detector_shape": series.detector.map(|detector| [detector.rows, detector.cols]),
            "count_type": series.count_type.map(|count_type| format!("uint{}", 8 * count_type.bytes())),
            "bytes": series.bytes,
            "folder": self.folder.as_ref().map(|folder| folder.display().to_string()),
            "images": images,
            "finish": self.finish.as_ref().map(Progress::json),
            "export": self.export.as_ref().map(Progress::json),
        })
    }
}

/// Folders of series by their names, which begin with the time: `2026-01-31T235959Z-series-000012`.
fn result_folders(out: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(out).into_iter().flatten().flatten();
    let with_name = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.contains("-series-").then(|| (name, entry.path()))
    });
    with_name.collect()
}

/// The last folder that was begun while a series came and has results, in a folder `below` it where that is named. None that
/// was begun when the next series of this number had: it is that one's. `begins`: number and first arrival of every series.
fn folder_of(
    series: &SeriesInLog,
    below: &str,
    folders: &[(String, PathBuf)],
    begins: &[(u64, u64)],
) -> Option<PathBuf> {
    let (first, last) = (series.first_arrival_nanos, series.last_arrival_nanos);
    let has_results = |folder: &PathBuf| folder.join(below).join(RESULT_FILE).is_file();
    let folders: Vec<(String, PathBuf)> =
        folders.iter().filter(|(_, folder)| has_results(folder)).cloned().collect();
    let folder = folder_begun(series.key.id, first, last, &folders, begins)?;
    Some(if below.is_empty() { folder } else { folder.join(below) })
}

/// The last folder of a number that was begun while a series came which lasted from `first` to `last`, nanoseconds since 1970.
fn folder_begun(
    id: u64,
    first: u64,
    last: u64,
    folders: &[(String, PathBuf)],
    begins: &[(u64, u64)],
) -> Option<PathBuf> {
    let text = |moment: SystemTime| utc(moment).replace(':', "");
    let later = begins.iter().filter(|&&(other, begin)| other == id && begin > first);
    let next = later.map(|&(_, begin)| text(moment(begin))).min();
    let first = text(moment(first).checked_sub(CLOCK_SLACK)?);
    let last = text(moment(last).checked_add(CLOCK_SLACK)?);
    let number = format!("-series-{id:06}");
    let is_of = |name: &str| {
        let time = name.get(..first.len()).unwrap_or_default();
        let rest = name.get(first.len()..).unwrap_or_default();
        let is_before_next = next.as_deref().is_none_or(|next| time < next);
        (first.as_str()..=last.as_str()).contains(&time) && is_before_next && rest.starts_with(&number)
    };
    folders.iter().filter(|(name, _)| is_of(name)).map(|(_, folder)| folder.clone()).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    /// The end of the daemon waited until a log of terabytes was listed.
    #[test]
    fn a_listing_ends_with_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let (recorded, stop) = (Recorded::default(), Arc::new(AtomicBool::new(true)));
        recorded.read(dir.path(), dir.path(), &Threshold::First, SystemTime::now(), stop.clone());
        assert!(!recorded.listing().is_read);
        stop.store(false, Relaxed);
        recorded.read(dir.path(), dir.path(), &Threshold::First, SystemTime::now(), stop);
        assert!(recorded.listing().is_read);
    }

    /// Two series of one number three seconds apart: the first was shown with the results of the second.
    #[test]
    fn a_series_has_the_folder_that_was_begun_before_the_next_of_its_number() {
        let out = tempfile::tempdir().unwrap();
        let at = |seconds: u64| (1_700_000_000 + seconds) * 1_000_000_000;
        let folder = |seconds: u64| {
            let name = format!("{}-series-000001", utc(moment(at(seconds))).replace(':', ""));
            let folder = out.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(RESULT_FILE), "{}").unwrap();
            folder
        };
        let (first, second) = (folder(10), folder(13));
        let folders = result_folders(out.path());
        let begins = [(1, at(10)), (1, at(13)), (2, at(11))];
        let of = |begin: u64, end: u64| folder_begun(1, at(begin), at(end), &folders, &begins);
        assert_eq!(of(10, 12), Some(first));
        assert_eq!(of(13, 15), Some(second));
        assert_eq!(of(20, 21), None);
    }
}
