//! A series of a log as the set of files that the detector's filewriter would have written.
//!
//! In: a log and a series. Out: a master and data files whose chunks are the frames of the stream, byte for byte, and a
//! side-car with the scan where its shape is given. The frames are read twice: once to know which there are, once to copy
//! them in the order of their numbers.

mod metadata;
mod side_car;

use std::ops::Range;
use std::path::{Path, PathBuf};

use kernels::bslz4_decode::Encoding;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{CountType, DetectorShape, Kilovolts, ScanShape};

use super::error::RecordError;
use super::reader::{LogReader, LogReport, Place, RecordFinder};
use crate::filewriter::{Existing, FilewriterSet, FilewriterSettings, FilewriterSummary, MasterMetadata};
use crate::stream::message::{Channel, Message};
use crate::stream::series::OwnedKey;

/// Missing frames that are stood in for, at most: this many and sixteen for each that is there. A number far off is a
/// fault of its message, not of the acquisition.
const MOST_MISSING: u64 = 1 << 16;

/// What stands in a set for a frame that did not come while later ones did. A dataset has no hole of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFrames {
    /// Nothing is written.
    Refuse,
    /// A chunk of a header alone, which no program can decode: a hole for those that know holes, an error for others.
    Unreadable,
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
}

impl ExportSettings {
    /// A new set of this name, 1000 images a file, missing frames unreadable.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            channel: None,
            images_per_file: 1000,
            existing: Existing::Refuse,
            missing: MissingFrames::Unreadable,
            scan: None,
            voltage: None,
        }
    }
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct ExportSummary {
    /// The files of the set.
    pub set: FilewriterSummary,
    /// The side-car with the scan.
    pub side_car: Option<PathBuf>,
    /// Frames of the series in the set.
    pub frames: u64,
    /// Frames that others stand for.
    pub missing: Vec<Range<u64>>,
    /// Images that the start announced; the set ends with the last that came.
    pub num_images: Option<u64>,
    /// Images that were there already; the first is taken.
    pub doubled: u64,
    /// Images of another shape or type than the first, without the channel, beyond the last announced, or whose bytes
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
}

/// What is known of the series after the first reading.
#[derive(Debug, Default)]
struct Found {
    kind: Option<Kind>,
    metadata: MasterMetadata,
    num_images: Option<u64>,
    has_start: bool,
    first_nanos: Option<u64>,
    /// Numbers of the frames and where they stand.
    frames: Vec<(u64, Place)>,
    unfit: u64,
}

/// Writes a series of a log as a set of files into `out`.
///
/// # Errors
/// [`RecordError::Series`]: the log has no frame of it, the frames are not bitshuffled and LZ4-compressed, or frames are
/// missing and may not be; [`RecordError::Filewriter`], such as a set that is there already; `Io`, `Damaged`: the log cannot
/// be read, or changed meanwhile. A set that fails leaves nothing behind; the side-car comes after it.
pub fn export_series(
    folder: &Path,
    key: &OwnedKey,
    out: &Path,
    settings: &ExportSettings,
) -> Result<ExportSummary, RecordError> {
    let refused = |why: String| RecordError::Series { series: key.id, why };
    let mut reader = LogReader::open(folder)?;
    let mut found = find(&mut reader, key, settings)?;
    let log = reader.into_report();
    let kind = found.kind.take().ok_or_else(|| refused("the log has no frame of it".to_owned()))?;
    found.frames.sort_by_key(|&(number, _)| number);
    let came = found.frames.len();
    found.frames.dedup_by_key(|&mut (number, _)| number);
    let doubled = (came - found.frames.len()) as u64;
    let missing = missing(&found.frames);
    let num_missing: u64 = missing.iter().map(|range| range.end - range.start).sum();
    if num_missing > 0 && settings.missing == MissingFrames::Refuse {
        return Err(refused(format!("{num_missing} frames are missing, the first is {}", missing[0].start)));
    }
    let most = MOST_MISSING + 16 * found.frames.len() as u64;
    if num_missing > most {
        return Err(refused(format!("{num_missing} frames are missing, expected at most {most}")));
    }
    let side_car = side_car::path(out, &settings.name);
    if settings.existing == Existing::Refuse && settings.scan.is_some() && side_car.exists() {
        return Err(crate::filewriter::FilewriterError::Exists { path: side_car }.into());
    }
    let set = copy(folder, key, out, settings, &found, &kind)?;
    let side_car = match settings.scan {
        Some(scan) => {
            side_car::write(&side_car, scan)?;
            Some(side_car)
        }
        None => None,
    };
    Ok(ExportSummary {
        set,
        side_car,
        frames: found.frames.len() as u64,
        missing,
        num_images: found.num_images,
        doubled,
        unfit: found.unfit,
        log,
    })
}

/// Numbers between the first possible and the last that came which did not come. Sorted by number.
fn missing(frames: &[(u64, Place)]) -> Vec<Range<u64>> {
    let mut due = 0;
    let mut missing = Vec::new();
    for &(number, _) in frames {
        if number > due {
            missing.push(due..number);
        }
        due = number.saturating_add(1);
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
fn find(reader: &mut LogReader, key: &OwnedKey, settings: &ExportSettings) -> Result<Found, RecordError> {
    let mut found = Found::default();
    while let Some(record) = reader.next_record()? {
        if record.series != Some(key.id) {
            continue;
        }
        let Ok(message) = record.message() else { continue };
        let series = message.series();
        if series.id != key.id || series.unique_id != key.unique_id.as_deref() {
            continue;
        }
        found.first_nanos.get_or_insert(record.arrival_nanos);
        match message {
            Message::Start(start) if !found.has_start => {
                found.has_start = true;
                found.num_images = start.num_images;
                found.metadata = metadata::of_start(&start, record.parts(), settings.channel.as_deref());
            }
            Message::Start(_) | Message::End(_) => {}
            Message::Image(image) => {
                let name = found.kind.as_ref().map(|kind| kind.channel.as_str());
                let channel = chosen(image.channels(), name.or(settings.channel.as_deref()));
                let beyond = found.num_images.is_some_and(|images| image.number >= images);
                let Some(channel) = channel.filter(|_| !beyond) else {
                    found.unfit += 1;
                    continue;
                };
                if channel.packed.encoding != Encoding::Bslz4 {
                    let why = format!(
                        "got {} frames, expected bitshuffled LZ4: files hold the bytes of the stream",
                        channel.packed.encoding
                    );
                    return Err(RecordError::Series { series: key.id, why });
                }
                let kind = found.kind.get_or_insert_with(|| Kind {
                    channel: channel.name.to_owned(),
                    detector: channel.detector,
                    count_type: channel.count_type,
                });
                if is_fit(channel, kind) {
                    found.frames.push((image.number, record.place));
                } else {
                    found.unfit += 1;
                }
            }
        }
    }
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
    let total = (kind.detector.pixels() * kind.count_type.bytes()) as u64;
    let announced = channel.packed.bytes.first_chunk().map(|total| u64::from_be_bytes(*total));
    (channel.detector, channel.count_type) == (kind.detector, kind.count_type)
        && channel.packed.bytes.len() >= 12
        && announced == Some(total)
}

/// The second reading: the frames in order.
fn copy(
    folder: &Path,
    key: &OwnedKey,
    out: &Path,
    settings: &ExportSettings,
    found: &Found,
    kind: &Kind,
) -> Result<FilewriterSummary, RecordError> {
    let mut metadata = found.metadata.clone();
    let largest = kind.count_type.marker();
    metadata.saturation_value = metadata.saturation_value.min(largest);
    if metadata.pixel_mask.len() != kind.detector.pixels() {
        metadata.pixel_mask = Vec::new();
    }
    let num_images = found.frames.last().map_or(0, |&(last, _)| last.saturating_add(1));
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
            images_per_file: settings.images_per_file,
            existing: settings.existing,
            metadata,
        },
    )?;
    let stand_in = stand_in(kind, settings.missing);
    let mut finder = RecordFinder::new(folder);
    for &(number, place) in &found.frames {
        while set.num_images() < number {
            set.append_chunk(&stand_in)?;
        }
        let record = finder.read(place)?;
        let changed = || RecordError::Series {
            series: key.id,
            why: format!("frame {number} is not in the log any more as it was"),
        };
        let Ok(Message::Image(image)) = record.message() else { return Err(changed()) };
        let channel = chosen(image.channels(), Some(&kind.channel)).filter(|_| image.number == number);
        set.append_chunk(channel.ok_or_else(changed)?.packed.bytes)?;
    }
    Ok(set.finish()?)
}

/// The chunk that stands for a missing frame.
fn stand_in(kind: &Kind, missing: MissingFrames) -> Vec<u8> {
    let pixels = kind.detector.pixels();
    let mut chunk = Vec::new();
    match (missing, kind.count_type) {
        (MissingFrames::Zeros, CountType::U8) => encode_bslz4(&vec![0_u8; pixels], &mut chunk),
        (MissingFrames::Zeros, CountType::U16) => encode_bslz4(&vec![0_u16; pixels], &mut chunk),
        (MissingFrames::Zeros, CountType::U32) => encode_bslz4(&vec![0_u32; pixels], &mut chunk),
        _ => {
            chunk.extend(((pixels * kind.count_type.bytes()) as u64).to_be_bytes());
            chunk.extend(8192_u32.to_be_bytes());
        }
    }
    chunk
}
