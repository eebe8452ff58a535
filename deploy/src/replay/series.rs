//! A series as it is armed: what it is, and what its messages say.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use ingest::stream::compose::{ComposeError, HeaderDetail, ImageExtras, SeriesFacts, StartContents, Version};
use ingest::stream::push::WireMessage;
use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};
use serde_json::{Map, Value};

use super::fault::FrameFault;
use super::frames::Channels;
use super::recording::Recording;
use super::source::Source;
use super::{Rate, ReplaySettings};
use crate::report::utc;
use crate::request::WrongFlags;

/// What every series of a set has in common.
#[derive(Clone, Debug)]
pub struct SeriesSource {
    facts: SeriesFacts,
    rate: Rate,
    channels: Vec<String>,
    pixel_mask: Vec<u32>,
    recording: Option<Arc<Recording>>,
    has_faults: bool,
}

/// Where the messages of a series come from.
#[derive(Clone, Debug)]
pub enum Wording {
    /// They are made anew.
    Anew,
    /// They are those of a recording, in the order of their numbers; what faults damage is made anew.
    Recorded(Arc<Recording>),
    /// They are those of a recording, all of them, in the order in which they came.
    AsTheyCame(Arc<Recording>),
}

impl Wording {
    /// The recording.
    pub fn recording(&self) -> Option<&Arc<Recording>> {
        match self {
            Self::Anew => None,
            Self::Recorded(recording) | Self::AsTheyCame(recording) => Some(recording),
        }
    }
}

/// One series, ready to be sent.
#[derive(Clone, Debug)]
pub struct Series {
    /// The version of the stream.
    pub version: Version,
    /// What it says of itself.
    pub facts: SeriesFacts,
    /// Frames a second; none: as fast as they are taken.
    pub frames_per_second: Option<f64>,
    /// Frames that a trigger releases; none: they come by themselves.
    pub frames_per_trigger: Option<u64>,
    /// How long after it is armed the first frame comes at the earliest.
    pub delay: Duration,
    /// Whether anything of it is sent over the stream.
    pub is_streamed: bool,
    /// `image_appendix`.
    pub image_appendix: Option<String>,
    /// When it was armed, RFC 3339.
    pub date: String,
    /// Names of the channels in stream v2.
    pub channels: Vec<String>,
    /// Where its messages come from.
    pub wording: Wording,
    /// When each frame is due, nanoseconds after the first, in the order in which they are sent; empty where the rate says it.
    times: Arc<Vec<u64>>,
    header: Arc<Header>,
}

/// What its start says.
#[derive(Debug)]
struct Header {
    detail: HeaderDetail,
    appendix: Option<String>,
    config: Map<String, Value>,
    pixel_mask: Vec<u32>,
}

impl SeriesSource {
    /// What a source says of its series.
    ///
    /// # Errors
    /// `--rate recorded`, and the source does not say how fast it was recorded.
    pub fn new(set: &Source, settings: &ReplaySettings) -> anyhow::Result<Self> {
        let frame_time_s = set.metadata.frame_time_secs.filter(|time| *time > 0.0);
        if settings.rate == Rate::Recorded && frame_time_s.is_none() {
            let name = &set.name;
            let why = anyhow::anyhow!("{name}: does not say its frame_time; give --rate N or --rate max");
            return Err(WrongFlags::because(why));
        }
        let facts = SeriesFacts {
            id: 1,
            unique_id: String::new(),
            num_images: set.frames_expected,
            detector: set.detector,
            count_type: set.count_type,
            encoding: set.encoding,
            incident_energy_ev: set.metadata.incident_energy_ev.unwrap_or(0.0),
            frame_time_s: frame_time_s.unwrap_or(1e-4),
        };
        let pixel_mask = match &set.metadata.pixel_mask {
            Some(([rows, cols], mask)) if (*rows, *cols) == (set.detector.rows, set.detector.cols) => {
                mask.clone()
            }
            _ => Vec::new(),
        };
        Ok(Self {
            facts,
            rate: settings.rate,
            channels: set.channels.clone(),
            pixel_mask,
            recording: set.recording.clone(),
            has_faults: !settings.faults.is_empty(),
        })
    }

    /// Whether the frames can be sent in a version.
    ///
    /// # Errors
    /// They are packed in a way that this version has no name for.
    pub fn check(&self, version: Version) -> Result<(), ComposeError> {
        self.facts.check(version)
    }

    /// The series with this number, as the detector and the stream are configured. The series of a recording is sent as it was
    /// recorded when it has its number, its version, and a detector whose configuration `is_untouched`.
    ///
    /// # Errors
    /// More images than a number holds.
    pub fn series(
        &self,
        id: u64,
        version: Version,
        detector: &Map<String, Value>,
        stream: &Map<String, Value>,
        is_untouched: bool,
    ) -> anyhow::Result<Series> {
        let number = |name: &str| detector.get(name).and_then(Value::as_f64);
        let whole = |name: &str| detector.get(name).and_then(Value::as_u64).unwrap_or(1);
        let text = |name: &str| stream.get(name).and_then(Value::as_str).unwrap_or_default();
        let appendix = |name: &str| Some(text(name).to_owned()).filter(|text| !text.is_empty());
        let images = whole("nimages");
        let now = SystemTime::now();
        let same = |recording: &&Arc<Recording>| recording.key.id == id && recording.version == version;
        let recorded = self.recording.as_ref().filter(same).filter(|_| is_untouched);
        let wording = match recorded {
            None => Wording::Anew,
            Some(recording) if self.has_faults => Wording::Recorded(Arc::clone(recording)),
            Some(recording) => Wording::AsTheyCame(Arc::clone(recording)),
        };
        let recorded_name = recorded.and_then(|recording| recording.key.unique_id.clone());
        let facts = SeriesFacts {
            id,
            unique_id: recorded_name.unwrap_or_else(|| unique_id(now, id)),
            num_images: images.checked_mul(whole("ntrigger")).context("nimages x ntrigger is too large")?,
            incident_energy_ev: number("photon_energy").unwrap_or(0.0),
            frame_time_s: number("frame_time").unwrap_or(self.facts.frame_time_s),
            ..self.facts.clone()
        };
        let frames_per_second = match self.rate {
            Rate::FramesPerSecond(rate) => Some(rate),
            Rate::Max => None,
            Rate::Recorded => Some(facts.frame_time_s.recip()).filter(|_| self.recording.is_none()),
        };
        let times = match (&self.recording, self.rate, &wording) {
            (Some(_), Rate::Recorded, Wording::AsTheyCame(recording)) => {
                recording.images.iter().map(|image| image.nanos).collect()
            }
            (Some(recording), Rate::Recorded, _) => recording.times_by_number(),
            _ => Vec::new(),
        };
        let mode = detector.get("trigger_mode").and_then(Value::as_str).unwrap_or_default();
        let header = Header {
            detail: match text("header_detail") {
                "none" => HeaderDetail::None,
                "all" => HeaderDetail::All,
                _ => HeaderDetail::Basic,
            },
            appendix: appendix("header_appendix"),
            config: detector.clone(),
            pixel_mask: self.pixel_mask.clone(),
        };
        Ok(Series {
            version,
            facts,
            frames_per_second,
            frames_per_trigger: mode.starts_with("int").then_some(images),
            delay: Duration::ZERO,
            is_streamed: text("mode") != "disabled",
            image_appendix: appendix("image_appendix"),
            date: utc(now),
            channels: self.channels.clone(),
            wording,
            times: Arc::new(times),
            header: Arc::new(header),
        })
    }
}

impl Series {
    /// How long after the first the frame at this place is due; none: as fast as frames are taken. A series longer than what
    /// was recorded goes on with its beginning, a mean pause later.
    pub fn due(&self, place: u64) -> Option<Duration> {
        let Some(&last) = self.times.last() else {
            return self.frames_per_second.map(|rate| Duration::from_secs_f64(place as f64 / rate));
        };
        let count = self.times.len() as u64;
        let round = last.saturating_add(last / (count - 1).max(1));
        let at = self.times[(place % count) as usize];
        Some(Duration::from_nanos((place / count).saturating_mul(round).saturating_add(at)))
    }

    /// Whether a message can be made of a frame: stream v1 has its first channel alone.
    pub fn has_frame(&self, channels: &Channels) -> bool {
        match self.version {
            Version::V1 => channels.first().is_some_and(|bytes| !bytes.is_empty()),
            Version::V2 => channels.iter().any(|bytes| !bytes.is_empty()),
        }
    }

    /// The message of a frame, with what is done to it.
    pub fn image(&self, number: u64, channels: &Channels, damage: Option<FrameFault>) -> WireMessage {
        let extras = ImageExtras {
            appendix: self.image_appendix.as_deref(),
            series_date: Some(&self.date),
            channels: &self.channels,
        };
        let none = Vec::new();
        // one channel stands for all
        let of = |place| channels.get(place).or(channels.first()).unwrap_or(&none);
        let with = |facts: &SeriesFacts, altered: &dyn Fn(&[u8]) -> Vec<u8>| match self.version {
            Version::V1 => facts.image_with(self.version, number, &altered(of(0)), extras),
            Version::V2 => {
                let there = (0..).zip(&self.channels).filter(|(place, _)| !of(*place).is_empty());
                let altered: Vec<_> =
                    there.map(|(place, name)| (name.as_str(), altered(of(place)))).collect();
                let altered: Vec<_> = altered.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
                facts.image_of_channels_with(number, &altered, extras)
            }
        };
        match damage {
            Some(FrameFault::Truncated) => with(&self.facts, &|bytes| bytes[..bytes.len() / 2].to_vec()),
            Some(FrameFault::Corrupted) => with(&self.facts, &|bytes| corrupted(self.facts.encoding, bytes)),
            Some(FrameFault::WrongSize) => {
                let DetectorShape { rows, cols } = self.facts.detector;
                let detector = DetectorShape { rows: rows + 1, cols };
                with(&SeriesFacts { detector, ..self.facts.clone() }, &<[u8]>::to_vec)
            }
            Some(FrameFault::WrongType) => {
                let count_type = match self.facts.count_type {
                    CountType::U8 => CountType::U16,
                    CountType::U16 => CountType::U32,
                    CountType::U32 => CountType::U16,
                };
                with(&SeriesFacts { count_type, ..self.facts.clone() }, &<[u8]>::to_vec)
            }
            _ => with(&self.facts, &<[u8]>::to_vec),
        }
    }

    /// The message that it begins with.
    pub fn start(&self) -> WireMessage {
        let contents = StartContents {
            detail: self.header.detail,
            appendix: self.header.appendix.as_deref(),
            config: &self.header.config,
            channels: &self.channels,
            arm_date: &self.date,
            pixel_mask: &self.header.pixel_mask,
        };
        self.facts.full_start(self.version, &contents)
    }

    /// The series that follows this one at once, with the same settings.
    pub fn followed_by(&self, id: u64) -> Self {
        let now = SystemTime::now();
        let mut next = self.clone();
        (next.facts.id, next.facts.unique_id, next.date) = (id, unique_id(now, id), utc(now));
        next.wording = Wording::Anew;
        next
    }

    /// The end of this series, or of one that there is not.
    pub fn end(&self, is_own: bool) -> WireMessage {
        if is_own {
            return self.facts.end(self.version);
        }
        let id = self.facts.id + 1_000_000;
        let unique_id = unique_id(SystemTime::UNIX_EPOCH, id);
        SeriesFacts { id, unique_id, ..self.facts.clone() }.end(self.version)
    }
}

/// Bytes that no reader can decode: LZ4 has no checksum, so it is the framing that is altered and not the counts.
fn corrupted(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match encoding {
        // counts as they are: nothing but their number can be wrong
        Encoding::Raw => bytes.push(0),
        // the total is another; of a bare block, the first sequence copies what is not there
        _ => bytes.iter_mut().take(8).for_each(|byte| *byte ^= 0xff),
    }
    bytes
}

/// 26 characters of Crockford's base 32, as a ULID has them: 48 bits of milliseconds, 80 bits that differ.
fn unique_id(now: SystemTime, id: u64) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let differs = u128::from(since.subsec_nanos()) << 48 | u128::from(id & 0xffff_ffff_ffff);
    let bits = (since.as_millis() & 0xffff_ffff_ffff) << 80 | differs;
    (0..26).rev().map(|digit| char::from(DIGITS[(bits >> (5 * digit)) as usize & 31])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_names_are_26_characters_and_differ() {
        let now = SystemTime::now();
        let (one, other) = (unique_id(now, 1), unique_id(now, 2));
        assert_eq!((one.len(), other.len()), (26, 26));
        assert_ne!(one, other);
    }
}
