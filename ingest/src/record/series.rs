//! Which series a log holds, and how much of each.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kernels::types::{CountType, DetectorShape};

use super::acquisition::{LogKey, SeriesRecord, SeriesRecords, Which};
use super::error::RecordError;
use super::reader::{LogReader, LogReport, Place, Record};
use crate::stream::message::Message;
use crate::stream::series::OwnedKey;

/// A series as a log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesInLog {
    /// The series.
    pub key: OwnedKey,
    /// Which of the series that have this key, counted from 1 in the order of the log.
    pub place: u64,
    /// How many there are.
    pub num_of_name: u64,
    /// Images that its start announced.
    pub num_images: Option<u64>,
    /// Numbers of the images that are there.
    pub frames: FrameRanges,
    /// Images whose number was there already.
    pub doubled: u64,
    /// Shape of an image.
    pub detector: Option<DetectorShape>,
    /// Type of the counts.
    pub count_type: Option<CountType>,
    /// Names of the channels of which frames came, in the order of the start; one without a name in stream v1.
    pub channels: Vec<String>,
    /// Channels that its start announced.
    pub announced_channels: Vec<String>,
    /// When its first message came, nanoseconds since 1970.
    pub first_arrival_nanos: u64,
    /// When its last message came.
    pub last_arrival_nanos: u64,
    /// Bytes of its records.
    pub bytes: u64,
    /// Whether its start is there.
    pub start_seen: bool,
    /// Starts that came between images of it: it may have frames of several acquisitions.
    pub second_starts: u64,
    /// Whether the last message was such a start, if an image comes behind it.
    is_in_doubt: bool,
    /// Whether its end is there.
    pub end_seen: bool,
    /// The first of its records.
    pub first: Place,
    /// The last of its records: it lies on disk up to there.
    pub last: Place,
}

/// Numbers of frames, as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameRanges(Vec<Range<u64>>);

impl FrameRanges {
    /// Adds a number; false where it is there already.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        let Some(behind) = number.checked_add(1) else { return false };
        // the first range that ends at the number or behind it
        let at = self.0.partition_point(|range| range.end < number);
        match self.0.get_mut(at) {
            Some(range) if range.contains(&number) => return false,
            Some(range) if range.end == number => {
                range.end = behind;
                if let Some(next) = self.0.get(at + 1)
                    && next.start == behind
                {
                    self.0[at].end = next.end;
                    self.0.remove(at + 1);
                }
            }
            Some(range) if range.start == behind => range.start = number,
            _ => self.0.insert(at, number..behind),
        }
        true
    }

    /// The ranges, ascending, none touching the next.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// The number behind the last; 0 where there is none.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |range| range.end)
    }
}

impl SeriesInLog {
    fn new(key: OwnedKey, place: u64, record: &Record<'_>) -> Self {
        Self {
            key,
            place,
            num_of_name: place,
            num_images: None,
            frames: FrameRanges::default(),
            doubled: 0,
            detector: None,
            count_type: None,
            channels: Vec::new(),
            announced_channels: Vec::new(),
            first_arrival_nanos: record.arrival_nanos,
            last_arrival_nanos: record.arrival_nanos,
            bytes: 0,
            start_seen: false,
            second_starts: 0,
            is_in_doubt: false,
            end_seen: false,
            first: record.place,
            last: record.place,
        }
    }

    fn take(&mut self, record: &Record<'_>, message: &Message<'_>) {
        self.last_arrival_nanos = record.arrival_nanos;
        self.bytes += record.place.bytes;
        self.last = record.place;
        match message {
            Message::Start(start) => {
                self.start_seen = true;
                self.is_in_doubt = self.frames.count() > 0;
                // of several before the first image the last counts, as it does for the receiver
                if self.frames.count() == 0 {
                    self.announced_channels.clear();
                    self.num_images = start.num_images.or(self.num_images);
                    self.detector = start.detector.or(self.detector);
                }
                start.channels.iter().for_each(|name| add_name(&mut self.announced_channels, name));
            }
            Message::Image(image) => {
                if self.count_type.is_none()
                    && let Some(channel) = image.channels().next()
                {
                    self.count_type = Some(channel.count_type);
                    self.detector = Some(channel.detector);
                }
                image.channels().for_each(|channel| self.add_channel(channel.name));
                self.second_starts += u64::from(std::mem::take(&mut self.is_in_doubt));
                self.doubled += u64::from(!self.frames.insert(image.number));
            }
            Message::End(_) => self.end_seen = true,
        }
    }

    fn add_channel(&mut self, name: &str) {
        let before = self.channels.len();
        add_name(&mut self.channels, name);
        if self.channels.len() > before {
            let announced = &self.announced_channels;
            let place = |name: &String| announced.iter().position(|announced| announced == name);
            self.channels.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
        }
    }

    /// What a person should know before it is taken for one acquisition.
    pub fn doubt(&self) -> Option<&'static str> {
        let why = "a second start came behind its first images, and no end of the first: it may hold frames of two acquisitions";
        (self.second_starts > 0).then_some(why)
    }

    /// What names it in its log.
    pub fn log_key(&self) -> LogKey {
        LogKey { key: self.key.clone(), which: Which::Place(self.place) }
    }

    /// Its number, with its place among those of the same name where there are several: `7`, `7.2`.
    pub fn label(&self) -> String {
        match self.num_of_name {
            1 => self.key.id.to_string(),
            _ => format!("{}.{}", self.key.id, self.place),
        }
    }

    /// As people are told of it: its label, and its unique name where it has one.
    pub fn name(&self) -> String {
        let unique = self.key.unique_id.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{}{unique}", self.label())
    }

    /// Whether this is how a person may name it: by number or unique name, and its place with either: `7.2`.
    pub fn is_called(&self, asked: &str) -> bool {
        let is_name =
            |name: &str| self.key.unique_id.as_deref() == Some(name) || name == self.key.id.to_string();
        let of_place = asked.strip_suffix(&format!(".{}", self.place));
        // one that is alone with its unique name is not in the way of the places of a number that came again
        let has_own_name = self.num_of_name == 1 && self.key.unique_id.is_some();
        is_name(asked) || of_place.is_some_and(|name| is_name(name) && !has_own_name)
    }

    /// Whether every image that was announced is there.
    pub fn is_complete(&self) -> bool {
        self.num_images.is_some_and(|images| matches!(self.frames.ranges(), [only] if *only == (0..images)))
    }
}

/// Adds a name that is not there.
fn add_name(names: &mut Vec<String>, name: &str) {
    /// Names that are listed, and bytes of one, at most: more than any detector has.
    const MOST: (usize, usize) = (8, 64);
    if names.len() < MOST.0 && name.len() <= MOST.1 && !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

/// The series of a log in the order of their first messages, and what was found in the log.
///
/// The whole log is read: what is listed is there, with its checksums.
///
/// # Errors
/// [`RecordError::Io`] where the folder or a segment cannot be read.
pub fn list_series(folder: &Path) -> Result<(Vec<SeriesInLog>, LogReport), RecordError> {
    list_series_until(folder, Arc::default())
}

/// As [`list_series`], which may take minutes, as long as the flag is not raised.
///
/// # Errors
/// Those of [`list_series`]; [`RecordError::Stopped`] once the flag is raised.
pub fn list_series_until(
    folder: &Path,
    stop: Arc<AtomicBool>,
) -> Result<(Vec<SeriesInLog>, LogReport), RecordError> {
    let mut records = SeriesRecords::all(LogReader::open(folder)?.until(stop));
    let mut found: Vec<SeriesInLog> = Vec::new();
    while let Some(SeriesRecord { record, series }) = records.next_record()? {
        let (Some(at), Ok(message)) = (series, record.message()) else { continue };
        if at == found.len() {
            let key = OwnedKey::of(message.series());
            let place = found.iter().filter(|series| series.key == key).count() as u64 + 1;
            found.push(SeriesInLog::new(key, place, &record));
        }
        if let Some(series) = found.get_mut(at) {
            series.take(&record, &message);
        }
    }
    for at in 0..found.len() {
        found[at].num_of_name = found.iter().filter(|series| series.key == found[at].key).count() as u64;
    }
    Ok((found, records.into_report()))
}
