//! A series of a recording: where its messages stand, and when they came.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ingest::dectris::Metadata;
use ingest::record::{LogReader, Place, RecordFinder, SeriesRecord, SeriesRecords, list_series};
use ingest::stream::compose::Version;
use ingest::stream::message::{Channel, Image, Message, Start};
use ingest::stream::push::WireMessage;
use ingest::stream::series::OwnedKey;
use kernels::bslz4_decode::{Encoding, decode_frame};
use kernels::types::{CountType, DetectorShape, Pixels};

use super::frames::Channels;
use crate::cli::choose_series;

/// Frames that were announced and did not come, at most, for the announcement to be believed: this many and sixteen for each that came.
const MOST_MISSING: u64 = 1 << 16;

/// What the frames of a series have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameKind {
    /// Shape.
    pub detector: DetectorShape,
    /// The type of the counts.
    pub count_type: CountType,
    /// How they are packed.
    pub encoding: Encoding,
}

impl FrameKind {
    fn of(channel: &Channel<'_>) -> Self {
        Self { detector: channel.detector, count_type: channel.count_type, encoding: channel.packed.encoding }
    }

    /// Whether the frame of a channel is of this kind.
    fn is_of(&self, channel: &Channel<'_>) -> bool {
        *self == Self::of(channel)
    }
}

/// One image of the recording.
#[derive(Clone, Copy, Debug)]
pub struct RecordedImage {
    /// Its number.
    pub number: u64,
    /// Where its message stands.
    pub place: Place,
    /// When it came, nanoseconds after the first image; never before the one that was recorded before it.
    pub nanos: u64,
}

/// A series of a recording.
#[derive(Debug)]
pub struct Recording {
    folder: PathBuf,
    /// The version of the stream that was recorded.
    pub version: Version,
    /// Number and name of the series.
    pub key: OwnedKey,
    /// Where its first message stands, if that is a start.
    pub start: Option<Place>,
    /// Where its end stands.
    pub end: Option<Place>,
    /// Every image in the order in which it came.
    pub images: Vec<RecordedImage>,
    /// Places in `images`, by number; of a number that came twice the first.
    by_number: Vec<u32>,
    /// What the frames of its first channel are like.
    pub kind: FrameKind,
    /// Names of the channels whose frames are like those of the first, which is among them; empty in stream v1.
    pub channels: Vec<String>,
    /// Frames of the series, those that did not come included.
    pub num_frames: u64,
    /// Bytes of the largest message.
    pub largest_bytes: u64,
}

/// What is found while the log is read.
#[derive(Default)]
struct Found {
    version: Option<Version>,
    start: Option<Place>,
    end: Option<Place>,
    announced: Option<u64>,
    metadata: Metadata,
    images: Vec<RecordedImage>,
    first_nanos: Option<u64>,
    kind: Option<FrameKind>,
    channels: Vec<String>,
    largest_bytes: u64,
}

impl Recording {
    /// The series of this number or unique name, with its place behind a dot where several have that; where none is named, the only one.
    ///
    /// # Errors
    /// The folder holds no recording, no such series, several, or no image of it.
    pub fn open(folder: &Path, asked: Option<&str>) -> anyhow::Result<(Self, Metadata)> {
        let (series, report) = list_series(folder)?;
        if report.segments == 0 {
            bail!("the folder holds no recording");
        }
        let chosen = choose_series(&series, asked, "--log-series")?;
        let key = chosen.key.clone();
        let mut found = Found::default();
        let mut records = SeriesRecords::of(LogReader::open(folder)?, chosen.log_key());
        while let Some(SeriesRecord { record, .. }) = records.next_record()? {
            let Ok(message) = record.message() else { continue };
            let first = record.parts().next().and_then(|part| part.first()).copied();
            let version = if matches!(first, Some(0xa0..=0xdb)) { Version::V2 } else { Version::V1 };
            found.version.get_or_insert(version);
            found.largest_bytes = found.largest_bytes.max(record.place.bytes);
            match message {
                Message::Start(start) if found.start.is_none() && found.images.is_empty() => {
                    found.start = Some(record.place);
                    found.announced = start.num_images;
                    found.metadata = metadata(&start);
                }
                Message::Start(_) => {}
                Message::End(_) => found.end = Some(record.place),
                Message::Image(image) => {
                    found.take_channels(&image);
                    let first = *found.first_nanos.get_or_insert(record.arrival_nanos);
                    let before = found.images.last().map_or(0, |image| image.nanos);
                    let nanos = record.arrival_nanos.saturating_sub(first).max(before);
                    found.images.push(RecordedImage { number: image.number, place: record.place, nanos });
                }
            }
        }
        found.into_recording(folder, key)
    }

    /// The image of this number.
    pub fn image(&self, number: u64) -> Option<&RecordedImage> {
        let number_at = |at: &u32| self.images[*at as usize].number;
        let at = self.by_number.binary_search_by_key(&number, number_at).ok()?;
        self.images.get(self.by_number[at] as usize)
    }

    /// When each frame came, by number; one that did not come, when the one before it did.
    pub fn times_by_number(&self) -> Vec<u64> {
        let mut latest = 0;
        let time = |number| {
            latest = self.image(number).map_or(latest, |image| image.nanos.max(latest));
            latest
        };
        (0..self.num_frames).map(time).collect()
    }

    /// What reads its messages.
    pub fn finder(&self) -> RecordFinder {
        RecordFinder::new(&self.folder)
    }

    /// The message at a place, part by part as it was received.
    ///
    /// # Errors
    /// The log is not what it was.
    pub fn message(&self, finder: &mut RecordFinder, place: Place) -> io::Result<WireMessage> {
        let record = finder.read(place).map_err(io::Error::other)?;
        let parts: Vec<&[u8]> = record.parts().collect();
        Ok(WireMessage::new(&parts))
    }

    /// The place of the channel of a name; the first where there is none.
    pub fn place_of(&self, name: &str) -> usize {
        self.channels.iter().position(|channel| channel == name).unwrap_or(0)
    }

    /// The bytes of the channels at these places of a frame, none of one that did not come or is unlike the others. False where
    /// none is there.
    ///
    /// # Errors
    /// The log is not what it was.
    pub fn frame(
        &self,
        finder: &mut RecordFinder,
        number: u64,
        places: &[usize],
        channels: &mut Channels,
    ) -> io::Result<bool> {
        let Some(image) = self.image(number) else { return Ok(false) };
        let record = finder.read(image.place).map_err(io::Error::other)?;
        let Ok(Message::Image(image)) = record.message() else {
            return Err(io::Error::other(format!("frame {number} is not in the log any more as it was")));
        };
        channels.resize_with(places.len(), Vec::new);
        for (bytes, &place) in channels.iter_mut().zip(places) {
            bytes.clear();
            if let Some(channel) = self.channel(&image, place) {
                bytes.extend_from_slice(channel.packed.bytes);
            }
        }
        Ok(channels.iter().any(|bytes| !bytes.is_empty()))
    }

    fn channel<'a, 'b>(&self, image: &'a Image<'b>, place: usize) -> Option<&'a Channel<'b>> {
        let name = self.channels.get(place)?;
        image.channels().find(|channel| channel.name == name && self.kind.is_of(channel))
    }
}

impl Found {
    /// Notes the channels of an image that are new, and like the first.
    fn take_channels(&mut self, image: &Image<'_>) {
        for channel in image.channels() {
            let kind = self.kind.get_or_insert_with(|| FrameKind::of(channel));
            if kind.is_of(channel) && !self.channels.iter().any(|name| name == channel.name) {
                self.channels.push(channel.name.to_owned());
            }
        }
    }

    fn into_recording(self, folder: &Path, key: OwnedKey) -> anyhow::Result<(Recording, Metadata)> {
        let id = key.id;
        let kind = self.kind.with_context(|| format!("there is no image of series {id}"))?;
        let mut by_number: Vec<u32> = (0..u32::try_from(self.images.len())?).collect();
        by_number.sort_by_key(|&at| self.images[at as usize].number);
        by_number.dedup_by_key(|at| self.images[*at as usize].number);
        let end = by_number.last().map_or(0, |&at| self.images[at as usize].number.saturating_add(1));
        let most = MOST_MISSING + 16 * by_number.len() as u64;
        let is_near = |&frames: &u64| frames.saturating_sub(by_number.len() as u64) <= most;
        if !is_near(&end) {
            bail!("series {id}: {} frames up to number {}, too few to replay", by_number.len(), end - 1);
        }
        let num_frames = self.announced.filter(is_near).map_or(end, |announced| announced.max(end));
        let recording = Recording {
            folder: folder.to_path_buf(),
            version: self.version.unwrap_or(Version::V2),
            key,
            start: self.start,
            end: self.end,
            images: self.images,
            by_number,
            kind,
            channels: self.channels,
            num_frames,
            largest_bytes: self.largest_bytes,
        };
        let mut metadata = self.metadata;
        if metadata.frame_time_secs.is_none() {
            // what was recorded says how far apart the frames were
            let last = recording.images.last().map_or(0, |image| image.nanos);
            let pauses = recording.images.len().saturating_sub(1).max(1);
            metadata.frame_time_secs = Some(last as f64 * 1e-9 / pauses as f64).filter(|&secs| secs > 0.0);
        }
        Ok((recording, metadata))
    }
}

/// What a start says, as a master says it.
fn metadata(start: &Start<'_>) -> Metadata {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let positive = |number: Option<f64>| number.filter(|number| number.is_finite() && *number > 0.0);
    let mask = start.pixel_mask.zip(start.detector).and_then(|(packed, detector)| {
        // at most 2^32 pixels by the parser; the message has to be as long
        let mut mask = vec![0_u32; detector.pixels().min(1 << 26)];
        decode_frame(packed.encoding, packed.bytes, &mut mask).ok()?;
        Some(([detector.rows, detector.cols], mask))
    });
    Metadata {
        incident_energy_ev: positive(start.incident_energy_ev),
        count_time_secs: positive(start.count_time_s),
        frame_time_secs: positive(start.frame_time_s),
        saturation_value: start.saturation_value,
        beam_centre: start.beam_centre.map(|(row, col)| [Pixels(row), Pixels(col)]),
        pixel_metres: positive(start.pixel_size_m.map(|(_, col)| col)),
        description: text(start.description),
        serial: text(start.serial_number),
        pixel_mask: mask,
        ..Metadata::default()
    }
}
