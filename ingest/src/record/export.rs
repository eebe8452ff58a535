//! A series of a log as the set of files that the detector's filewriter would have written.
//!
//! In: a log and a series. Out: a master and data files whose chunks are the frames of the stream, byte for byte, and a
//! side-car with the scan where its shape is given, and with what is missing. The frames are read twice: once to know which there are, once to copy
//! them in the order of their numbers.

mod chunk;
mod metadata;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape, Kilovolts, ScanShape};

use super::acquisition::{LogKey, SeriesRecord, SeriesRecords};
use super::error::RecordError;
use super::reader::{LogReader, LogReport, Place, RecordFinder};
use crate::filewriter::{
    Existing, FilewriterSet, FilewriterSettings, FilewriterSummary, MasterMetadata, write_side_car,
};
use crate::stream::message::{Channel, Message};

/// Missing frames that a set has places for, at most: this many and sixteen for each that is there. A number far off is a
/// fault of its message, not of the acquisition, and a series may be armed for thousands of millions.
const MOST_MISSING: u64 = 1 << 16;

/// What a set has for a frame that did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFrames {
    /// Nothing is written.
    Refuse,
    /// A chunk that was never written: readers find zeros, sideband a gap, and the set lists them.
    Hole,
    /// Counts of zero, which nothing tells from counts of zero that were measured.
    Zeros,
}

/// How a series is exported.
#[derive(Clone, Debug)]
pub struct ExportSettings {
    /// Start of every file name.
    pub name: String,
    /// The channel, such as `threshold_1`; the first of the first image where none is named.
    pub channel: Option<String>,
    /// Images of a data file.
    pub images_per_file: u64,
    /// What to do with a set of the same name.
    pub existing: Existing,
    /// What stands for missing frames.
    pub missing: MissingFrames,
    /// Shape of the scan: written into a side-car.
    pub scan: Option<ScanShape>,
    /// Accelerating voltage, where it is known better than the stream knows it.
    pub voltage: Option<Kilovolts>,
    /// Raised to give it up.
    pub stop: Arc<AtomicBool>,
}

impl ExportSettings {
    /// A new set of this name, 1000 images a file, missing frames as holes.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            channel: None,
            images_per_file: 1000,
            existing: Existing::Refuse,
            missing: MissingFrames::Hole,
            scan: None,
            voltage: None,
            stop: Arc::default(),
        }
    }
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct ExportSummary {
    /// The files of the set.
    pub set: FilewriterSummary,
    /// The side-car with the scan and what is missing.
    pub side_car: Option<PathBuf>,
    /// Frames of the series in the set.
    pub frames: u64,
    /// How the frames are compressed in the set.
    pub encoding: Encoding,
    /// Frames that did not come.
    pub missing: Vec<Range<u64>>,
    /// Images that the start announced; the set ends with the last that came where far more were announced than came.
    pub num_images: Option<u64>,
    /// Images that were there already; the first is taken.
    pub doubled: u64,
    /// Images of another shape, type or compression than the first, without the channel, beyond the last announced, or whose bytes
    /// announce another length: not in the set.
    pub unfit: u64,
    /// What was found in the log.
    pub log: LogReport,
}

/// What all frames of a set have in common.
#[derive(Clone, Debug)]
struct Kind {
    channel: String,
    detector: DetectorShape,
    count_type: CountType,
    encoding: Encoding,
}

/// Kinds of frames in one series that are told apart.
const MOST_KINDS: usize = 8;

/// What is known of the series after the first reading.
#[derive(Debug, Default)]
struct Found {
    /// Which of those that are read.
    series: Option<usize>,
    kind: Option<Kind>,
    /// What its start says of the frames, where it says both.
    announced: Option<(DetectorShape, CountType)>,
    /// Frames of one kind each, in the order of their first.
    alike: Vec<(Kind, Vec<(u64, Place)>)>,
    metadata: MasterMetadata,
    num_images: Option<u64>,
    has_start: bool,
    first_nanos: Option<u64>,
    /// Numbers of the frames and where they stand.
    frames: Vec<(u64, Place)>,
    unfit: u64,
}

impl Found {
    /// Settles which frames are those of the set: of the kind that the start says, as the receiver takes them, else of the kind
    /// that most have. The others do not fit.
    fn choose_kind(&mut self) {
        let is_announced = |kind: &Kind| self.announced == Some((kind.detector, kind.count_type));
        let rank = |(kind, frames): &(Kind, Vec<(u64, Place)>)| (is_announced(kind), frames.len());
        // of equals the first
        let best = self.alike.iter().enumerate().rev().max_by_key(|(_, alike)| rank(alike)).map(|(at, _)| at);
        for (at, (kind, frames)) in std::mem::take(&mut self.alike).into_iter().enumerate() {
            if Some(at) == best {
                (self.kind, self.frames) = (Some(kind), frames);
            } else {
                self.unfit += frames.len() as u64;
            }
        }
    }
}

/// Writes a series of a log as a set of files into `out`.
///
/// # Errors
/// [`RecordError::Series`]: the log has no frame of it, or frames are missing and may not be; [`RecordError::Filewriter`], such as a set that is there already; `Io`, `Damaged`: the log cannot
/// be read, or changed meanwhile; `Stopped`: its flag was raised. A set that fails leaves nothing behind; the side-car comes after it.
pub fn export_series(
    folder: &Path,
    key: &LogKey,
    out: &Path,
    settings: &ExportSettings,
) -> Result<ExportSummary, RecordError> {
    let refused = |why: String| RecordError::Series { series: key.key.id, why };
    let reader = LogReader::open(folder)?.until(settings.stop.clone());
    let mut records = SeriesRecords::of(reader, key.clone());
    let mut found = find(&mut records, settings)?;
    let log = records.into_report();
    let kind = found.kind.take().ok_or_else(|| refused("the log has no frame of it".to_owned()))?;
    found.frames.sort_by_key(|&(number, _)| number);
    let came = found.frames.len();
    found.frames.dedup_by_key(|&mut (number, _)| number);
    let doubled = (came - found.frames.len()) as u64;
    let came_end = found.frames.last().map_or(0, |&(last, _)| last.saturating_add(1));
    let most = MOST_MISSING + 16 * found.frames.len() as u64;
    let between = came_end - found.frames.len() as u64;
    if between > most {
        return Err(refused(format!("{between} frames are missing, expected at most {most}")));
    }
    let announced = found.num_images.unwrap_or(0);
    let num_images = if announced.saturating_sub(found.frames.len() as u64) <= most { announced } else { 0 };
    let num_images = num_images.max(came_end);
    let missing = missing(&found.frames, num_images);
    let num_missing: u64 = missing.iter().map(|range| range.end - range.start).sum();
    if let (Some(first), MissingFrames::Refuse) = (missing.first(), settings.missing) {
        return Err(refused(format!("{num_missing} frames are missing, the first is {}", first.start)));
    }
    let side_car = out.join(format!("{}_em_metadata.h5", settings.name));
    let needs_side_car = settings.scan.is_some() || num_missing > 0;
    if settings.existing == Existing::Refuse && needs_side_car && side_car.exists() {
        return Err(crate::filewriter::FilewriterError::Exists { path: side_car }.into());
    }
    let set = copy(folder, key.key.id, out, settings, &found, &kind, num_images)?;
    if needs_side_car {
        write_side_car(&side_car, settings.scan, &missing)?;
    }
    Ok(ExportSummary {
        set,
        side_car: needs_side_car.then_some(side_car),
        frames: found.frames.len() as u64,
        encoding: chunk::stored(kind.encoding),
        missing,
        num_images: found.num_images,
        doubled,
        unfit: found.unfit,
        log,
    })
}

/// Which of so many frames did not come. Those that did are sorted by number.
fn missing(frames: &[(u64, Place)], num_images: u64) -> Vec<Range<u64>> {
    let mut due = 0;
    let mut missing = Vec::new();
    for &(number, _) in frames {
        if number > due {
            missing.push(due..number);
        }
        due = number.saturating_add(1);
    }
    if due < num_images {
        missing.push(due..num_images);
    }
    missing
}

/// The channel that is exported, of those of an image.
fn chosen<'a, 'b: 'a>(
    mut channels: impl Iterator<Item = &'a Channel<'b>>,
    name: Option<&str>,
) -> Option<&'a Channel<'b>> {
    channels.find(|channel| name.is_none_or(|name| channel.name == name))
}

/// The first reading: which frames there are, and what the start says.
fn find(records: &mut SeriesRecords, settings: &ExportSettings) -> Result<Found, RecordError> {
    let mut found = Found::default();
    while let Some(SeriesRecord { record, series }) = records.next_record()? {
        let Ok(message) = record.message() else { continue };
        if found.series != series {
            // one of the same name before it
            found = Found { series, ..Found::default() };
        }
        found.first_nanos.get_or_insert(record.arrival_nanos);
        match message {
            Message::Start(start) if !found.has_start || found.alike.is_empty() => {
                found.has_start = true;
                found.num_images = start.num_images;
                found.announced = start.detector.zip(start.count_type);
                found.metadata = metadata::of_start(&start, record.parts(), settings.channel.as_deref());
            }
            Message::Start(_) | Message::End(_) => {}
            Message::Image(image) => {
                let name = found.alike.first().map(|(kind, _)| kind.channel.as_str());
                let channel = chosen(image.channels(), name.or(settings.channel.as_deref()));
                let beyond = found.num_images.is_some_and(|images| image.number >= images);
                let Some(channel) = channel.filter(|_| !beyond) else {
                    found.unfit += 1;
                    continue;
                };
                let own = Kind {
                    channel: channel.name.to_owned(),
                    detector: channel.detector,
                    count_type: channel.count_type,
                    encoding: channel.packed.encoding,
                };
                let of_kind = found.alike.iter().position(|(kind, _)| is_fit(channel, kind));
                match of_kind {
                    Some(at) => found.alike[at].1.push((image.number, record.place)),
                    None if found.alike.len() < MOST_KINDS && is_fit(channel, &own) => {
                        found.alike.push((own, vec![(image.number, record.place)]));
                    }
                    None => found.unfit += 1,
                }
            }
        }
    }
    found.choose_kind();
    if !found.has_start {
        found.metadata = metadata::unknown();
    }
    if let Some(nanos) = found.first_nanos {
        found.metadata.date = metadata::date(nanos);
    }
    if let Some(voltage) = settings.voltage {
        found.metadata.voltage = voltage;
    }
    Ok(found)
}

/// Whether a frame is one of the set, and its bytes announce as many counts as it has.
fn is_fit(channel: &Channel<'_>, kind: &Kind) -> bool {
    (channel.detector, channel.count_type, channel.packed.encoding)
        == (kind.detector, kind.count_type, kind.encoding)
        && channel.is_whole()
}

/// The second reading: the frames in order.
fn copy(
    folder: &Path,
    series: u64,
    out: &Path,
    settings: &ExportSettings,
    found: &Found,
    kind: &Kind,
    num_images: u64,
) -> Result<FilewriterSummary, RecordError> {
    let mut metadata = found.metadata.clone();
    let largest = kind.count_type.marker();
    metadata.saturation_value = metadata.saturation_value.min(largest);
    if metadata.pixel_mask.len() != kind.detector.pixels() {
        metadata.pixel_mask = Vec::new();
    }
    if metadata.flat_field.len() != kind.detector.pixels() {
        metadata.flat_field = Vec::new();
    }
    if !num_images.is_multiple_of(metadata.images_per_trigger.max(1)) {
        // a series that ended within a trigger: no number of whole triggers says how many images there are
        metadata.images_per_trigger = 1;
    }
    let mut set = FilewriterSet::create(
        out,
        FilewriterSettings {
            name: settings.name.clone(),
            detector: kind.detector,
            count_type: kind.count_type,
            encoding: chunk::stored(kind.encoding),
            images_per_file: settings.images_per_file,
            existing: settings.existing,
            metadata,
        },
    )?;
    let frame_bytes = kind.detector.pixels() * kind.count_type.bytes();
    let zeros = (settings.missing == MissingFrames::Zeros)
        .then(|| chunk::of_zeros(kind.encoding, kind.count_type, frame_bytes));
    let leave_out = |set: &mut FilewriterSet, end: u64| match &zeros {
        None => set.skip(end - set.num_images()),
        Some(zeros) => (set.num_images()..end).try_for_each(|_| set.append_chunk(zeros)),
    };
    let mut finder = RecordFinder::new(folder);
    for &(number, place) in &found.frames {
        if settings.stop.load(Relaxed) {
            return Err(RecordError::Stopped);
        }
        leave_out(&mut set, number)?;
        let record = finder.read(place)?;
        let changed = || RecordError::Series {
            series,
            why: format!("frame {number} is not in the log any more as it was"),
        };
        let Ok(Message::Image(image)) = record.message() else { return Err(changed()) };
        let channel = chosen(image.channels(), Some(&kind.channel)).filter(|_| image.number == number);
        let packed = channel.ok_or_else(changed)?.packed;
        set.append_chunk(&chunk::of(packed, kind.count_type, frame_bytes).ok_or_else(changed)?)?;
    }
    leave_out(&mut set, num_images)?;
    Ok(set.finish()?)
}
