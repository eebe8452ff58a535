//! Which series a log holds, and how much of each.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kernels::types::{CountType, DetectorShape};

use super::error::RecordError;
use super::reader::{LogReader, LogReport, Place, Record};
use crate::stream::message::Message;
use crate::stream::series::OwnedKey;

/// A series as a log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesInLog {
    /// The series.
    pub key: OwnedKey,
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
    /// Names of the channels of the first image; one without a name in stream v1.
    pub channels: Vec<String>,
    /// When its first message came, nanoseconds since 1970.
    pub first_arrival_nanos: u64,
    /// When its last message came.
    pub last_arrival_nanos: u64,
    /// Bytes of its records.
    pub bytes: u64,
    /// Starts that came behind images of it, where nothing but the number names the series (stream v1): other acquisitions
    /// of the same number, which cannot be told apart any more.
    pub began_again: u64,
    /// Whether its start is there.
    pub start_seen: bool,
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
    fn new(key: OwnedKey, record: &Record<'_>) -> Self {
        Self {
            key,
            num_images: None,
            frames: FrameRanges::default(),
            doubled: 0,
            detector: None,
            count_type: None,
            channels: Vec::new(),
            first_arrival_nanos: record.arrival_nanos,
            last_arrival_nanos: record.arrival_nanos,
            bytes: 0,
            began_again: 0,
            start_seen: false,
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
                self.began_again += u64::from(self.key.unique_id.is_none() && self.frames.count() > 0);
                self.start_seen = true;
                self.num_images = self.num_images.or(start.num_images);
                self.detector = self.detector.or(start.detector);
            }
            Message::Image(image) => {
                if self.count_type.is_none()
                    && let Some(channel) = image.channels().next()
                {
                    self.count_type = Some(channel.count_type);
                    self.detector = Some(channel.detector);
                    self.channels = image.channels().map(|channel| channel.name.to_owned()).collect();
                }
                self.doubled += u64::from(!self.frames.insert(image.number));
            }
            Message::End(_) => self.end_seen = true,
        }
    }

    /// What is wrong with a series that is several, in words.
    ///
    /// # Errors
    /// Its number came again.
    pub fn check_single(&self) -> Result<(), RecordError> {
        match self.began_again {
            0 => Ok(()),
            again => Err(several(self.key.id, again)),
        }
    }

    /// Whether every image that was announced is there, and it is one series.
    pub fn is_complete(&self) -> bool {
        self.began_again == 0
            && self
                .num_images
                .is_some_and(|images| matches!(self.frames.ranges(), [only] if *only == (0..images)))
    }
}

/// The refusal of a number that `again` other acquisitions have, too.
pub(super) fn several(series: u64, again: u64) -> RecordError {
    let why = format!(
        "the log holds {} acquisitions of this number, which stream v1 does not tell apart (a detector that was restarted \
         counts from 1 again); record each in a log folder of its own",
        again.saturating_add(1)
    );
    RecordError::Series { series, why }
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
    let mut reader = LogReader::open(folder)?.until(stop);
    let mut found: Vec<SeriesInLog> = Vec::new();
    while let Some(record) = reader.next_record()? {
        let Ok(message) = record.message() else { continue };
        let key = message.series();
        let same = |series: &SeriesInLog| {
            series.key.id == key.id && series.key.unique_id.as_deref() == key.unique_id
        };
        // from the last on: that is the one
        let at = match found.iter().rposition(same) {
            Some(at) => at,
            None => {
                let key = OwnedKey { id: key.id, unique_id: key.unique_id.map(str::to_owned) };
                found.push(SeriesInLog::new(key, &record));
                found.len() - 1
            }
        };
        found[at].take(&record, &message);
    }
    Ok((found, reader.into_report()))
}
