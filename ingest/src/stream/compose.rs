//! Messages of the stream as a detector writes them: for replaying a recording, and for tests.
//!
//! Keys, their order and their forms are those of real messages (EIGER 1.8 JSON; EIGER2 CBOR of 2023).

mod start;

use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};
use minicbor::data::Tag;
use minicbor::encode::{Encoder, Error, Write};
use serde_json::json;

use super::push::WireMessage;

pub use start::{HeaderDetail, StartContents};

/// Which version of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// JSON and blobs.
    V1,
    /// CBOR.
    V2,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

/// What a series says of itself.
#[derive(Clone, Debug)]
pub struct SeriesFacts {
    /// The number that `arm` returned.
    pub id: u64,
    /// The unique name of stream v2, 26 characters.
    pub unique_id: String,
    /// Images of the series.
    pub num_images: u64,
    /// Shape of an image.
    pub detector: DetectorShape,
    /// The type of the counts.
    pub count_type: CountType,
    /// How the frames are packed.
    pub encoding: Encoding,
    /// Energy of the electrons, eV; 0 where it is not known.
    pub incident_energy_ev: f64,
    /// Time from one image to the next, s.
    pub frame_time_s: f64,
}

/// What an image may say beyond what it must.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageExtras<'a> {
    /// `image_appendix`, as given.
    pub appendix: Option<&'a str>,
    /// When the series was triggered, RFC 3339; in stream v2 alone.
    pub series_date: Option<&'a str>,
    /// Names of the channels, each of which gets the same frame; `threshold_1` where none is named. In stream v2 alone.
    pub channels: &'a [String],
}

/// Nanoseconds of a time.
fn nanoseconds(seconds: f64) -> u64 {
    // not negative and far below 2^63 for any frame time; saturates
    (seconds * 1e9) as u64
}

/// Frames as they are packed cannot be sent in a version of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got frames packed as {encoding:?}, which stream {version} has no name for")]
pub struct ComposeError {
    /// How the frames are packed.
    pub encoding: Encoding,
    /// The version of the stream.
    pub version: Version,
}

impl SeriesFacts {
    /// Whether the frames can be sent in a version: stream v1 has no framed LZ4, stream v2 no bare block. To be asked before
    /// anything is sent.
    ///
    /// # Errors
    /// [`ComposeError`]
    pub fn check(&self, version: Version) -> Result<(), ComposeError> {
        match (version, self.encoding) {
            (Version::V1, Encoding::Lz4Framed) | (Version::V2, Encoding::Lz4Block) => {
                Err(ComposeError { encoding: self.encoding, version })
            }
            _ => Ok(()),
        }
    }

    /// The message that a series begins with, without flat field and mask.
    pub fn start(&self, version: Version) -> WireMessage {
        match version {
            Version::V1 => self.start_v1(),
            Version::V2 => self.start_v2(),
        }
    }

    /// The message of an image.
    pub fn image(&self, version: Version, number: u64, bytes: &[u8]) -> WireMessage {
        self.image_with(version, number, bytes, ImageExtras::default())
    }

    /// The message of an image whose channels have frames of their own, in stream v2: names and bytes.
    pub fn image_of_channels(&self, number: u64, channels: &[(&str, &[u8])]) -> WireMessage {
        self.image_of_channels_with(number, channels, ImageExtras::default())
    }

    /// The same that says more than it must; the channels are those of `channels` alone.
    pub fn image_of_channels_with(
        &self,
        number: u64,
        channels: &[(&str, &[u8])],
        extras: ImageExtras<'_>,
    ) -> WireMessage {
        self.image_v2(number, channels, extras)
    }

    /// The message of an image that says more than it must.
    pub fn image_with(
        &self,
        version: Version,
        number: u64,
        bytes: &[u8],
        extras: ImageExtras<'_>,
    ) -> WireMessage {
        match version {
            Version::V1 => self.image_v1(number, bytes, extras),
            Version::V2 => match extras.channels {
                [] => self.image_v2(number, &[("threshold_1", bytes)], extras),
                names => {
                    let channels: Vec<_> = names.iter().map(|name| (name.as_str(), bytes)).collect();
                    self.image_v2(number, &channels, extras)
                }
            },
        }
    }

    /// The message that a series ends with.
    pub fn end(&self, version: Version) -> WireMessage {
        match version {
            Version::V1 => {
                let end = json!({ "htype": "dseries_end-1.0", "series": self.id }).to_string();
                WireMessage::new(&[end.as_bytes()])
            }
            Version::V2 => cbor(1024, |encoder| {
                encoder.map(3)?.str("type")?.str("end")?;
                self.key_v2(encoder)
            }),
        }
    }

    fn start_v1(&self) -> WireMessage {
        let head = json!({ "header_detail": "basic", "htype": "dheader-1.0", "series": self.id });
        let config = json!({
            "bit_depth_image": 8 * self.count_type.bytes(),
            "compression": "bslz4",
            "count_time": self.frame_time_s,
            "frame_time": self.frame_time_s,
            "nimages": 1,
            "ntrigger": self.num_images,
            "photon_energy": self.incident_energy_ev,
            "trigger_mode": "exts",
            "x_pixels_in_detector": self.detector.cols,
            "y_pixels_in_detector": self.detector.rows,
        });
        WireMessage::new(&[head.to_string().as_bytes(), config.to_string().as_bytes()])
    }

    fn image_v1(&self, number: u64, bytes: &[u8], extras: ImageExtras<'_>) -> WireMessage {
        let bits = 8 * self.count_type.bytes();
        let encoding = match self.encoding {
            Encoding::Raw => "<".to_owned(),
            Encoding::Bslz4 => format!("bs{bits}-lz4<"),
            Encoding::Lz4Block => "lz4<".to_owned(),
            // refused by `check`; whoever did not ask sends what every reader refuses, not what it would read wrongly
            Encoding::Lz4Framed => "lz4-framed<".to_owned(),
        };
        // by hand: a hundred thousand of these are made in a second
        let head = format!(
            r#"{{"frame":{number},"hash":"{:032x}","htype":"dimage-1.0","series":{}}}"#,
            u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
            self.id
        );
        let blob = format!(
            r#"{{"encoding":"{encoding}","htype":"dimage_d-1.0","shape":[{},{}],"size":{},"type":"uint{bits}"}}"#,
            self.detector.cols,
            self.detector.rows,
            bytes.len(),
        );
        let real_time = nanoseconds(self.frame_time_s);
        let start = number.saturating_mul(real_time);
        let times = format!(
            r#"{{"htype":"dconfig-1.0","real_time":{real_time},"start_time":{start},"stop_time":{}}}"#,
            start.saturating_add(real_time)
        );
        let parts = [head.as_bytes(), blob.as_bytes(), bytes, times.as_bytes()];
        match extras.appendix {
            Some(appendix) => {
                WireMessage::new(&[parts[0], parts[1], parts[2], parts[3], appendix.as_bytes()])
            }
            None => WireMessage::new(&parts),
        }
    }

    fn start_v2(&self) -> WireMessage {
        cbor(1024, |encoder| {
            encoder.map(9)?.str("type")?.str("start")?;
            self.key_v2(encoder)?;
            encoder.str("channels")?.array(1)?.str("threshold_1")?;
            encoder.str("count_time")?.f64(self.frame_time_s)?;
            encoder.str("frame_time")?.f64(self.frame_time_s)?;
            encoder.str("image_size_x")?.u64(self.detector.cols as u64)?;
            encoder.str("image_size_y")?.u64(self.detector.rows as u64)?;
            encoder.str("number_of_images")?.u64(self.num_images)?.ok()
        })
    }

    fn image_v2(&self, number: u64, channels: &[(&str, &[u8])], extras: ImageExtras<'_>) -> WireMessage {
        let more = u64::from(extras.series_date.is_some()) + u64::from(extras.appendix.is_some());
        let room = channels.iter().map(|(name, bytes)| name.len() + bytes.len() + 128).sum::<usize>() + 512;
        cbor(room, |encoder| {
            encoder.map(8 + more)?.str("type")?.str("image")?;
            self.key_v2(encoder)?;
            encoder.str("image_id")?.u64(number)?;
            // 50 MHz
            let ticks = nanoseconds(self.frame_time_s) / 20;
            let time = |encoder: &mut Encoder<Vec<u8>>, name: &str, ticks: u64| {
                encoder.str(name)?.array(2)?.u64(ticks)?.u64(50_000_000)?.ok()
            };
            time(encoder, "real_time", ticks)?;
            if let Some(date) = extras.series_date {
                encoder.str("series_date")?.tag(Tag::new(0))?.str(date)?;
            }
            time(encoder, "start_time", number.saturating_mul(ticks))?;
            time(encoder, "stop_time", number.saturating_add(1).saturating_mul(ticks))?;
            encoder.str("data")?.map(channels.len() as u64)?;
            channels.iter().try_for_each(|(name, bytes)| self.channel_v2(encoder, name, bytes))?;
            if let Some(appendix) = extras.appendix {
                encoder.str("user_data")?.str(appendix)?;
            }
            Ok(())
        })
    }

    fn channel_v2(&self, encoder: &mut Encoder<Vec<u8>>, name: &str, bytes: &[u8]) -> Written {
        encoder.str(name)?.tag(Tag::new(40))?.array(2)?.array(2)?;
        encoder.u64(self.detector.rows as u64)?.u64(self.detector.cols as u64)?;
        encoder.tag(Tag::new(match self.count_type {
            CountType::U8 => 64,
            CountType::U16 => 69,
            CountType::U32 => 70,
        }))?;
        let algorithm = match self.encoding {
            Encoding::Raw => return encoder.bytes(bytes)?.ok(),
            Encoding::Bslz4 => "bslz4",
            Encoding::Lz4Framed => "lz4",
            // as in stream v1
            Encoding::Lz4Block => "lz4-block",
        };
        encoder.tag(Tag::new(56_500))?.array(3)?.str(algorithm)?;
        encoder.u64(self.count_type.bytes() as u64)?.bytes(bytes)?.ok()
    }

    fn key_v2(&self, encoder: &mut Encoder<Vec<u8>>) -> Written {
        encoder.str("series_id")?.u64(self.id)?.str("series_unique_id")?.str(&self.unique_id)?.ok()
    }
}

type Written = Result<(), Error<<Vec<u8> as Write>::Error>>;

/// A message of one part, of about `room` bytes: the tag of self-described CBOR and what `write` writes.
fn cbor(room: usize, write: impl FnOnce(&mut Encoder<Vec<u8>>) -> Written) -> WireMessage {
    let mut encoder = Encoder::new(Vec::with_capacity(room));
    let written = encoder.tag(Tag::new(55_799)).and_then(write);
    // writing to memory does not fail; a message cut short would be noticed by every reader
    debug_assert!(written.is_ok());
    WireMessage::new(&[&encoder.into_writer()])
}

#[cfg(test)]
mod tests {
    use super::super::message::{Message, parse};
    use super::super::slab::Slab;
    use super::super::zmtp::tests::listed;
    use super::*;

    fn facts(count_type: CountType, encoding: Encoding) -> SeriesFacts {
        SeriesFacts {
            id: 9,
            unique_id: "01HAVE26CHARACTERSATLEAST0".to_owned(),
            num_images: 70_000,
            detector: DetectorShape { rows: 96, cols: 192 },
            count_type,
            encoding,
            incident_energy_ev: 300_000.0,
            frame_time_s: 49.6e-6,
        }
    }

    #[test]
    fn frames_that_a_version_has_no_name_for_are_refused_and_never_labelled_as_others() {
        for (version, encoding) in [(Version::V1, Encoding::Lz4Framed), (Version::V2, Encoding::Lz4Block)] {
            let facts = facts(CountType::U16, encoding);
            assert_eq!(facts.check(version), Err(ComposeError { encoding, version }));
            let slab = listed(&[facts.image(version, 0, &[7; 300])]);
            assert!(parse(slab.messages().next().unwrap()).is_err());
            let other = if version == Version::V1 { Version::V2 } else { Version::V1 };
            assert_eq!(facts.check(other), Ok(()));
        }
    }

    #[test]
    fn channels_and_appendices_are_understood_or_skipped() {
        let facts = facts(CountType::U16, Encoding::Bslz4);
        let channels = ["threshold_1", "threshold_2", "difference"].map(str::to_owned);
        let extras = ImageExtras {
            appendix: Some("{\"lamp\":1}"),
            series_date: Some("2026-01-01T00:00:00Z"),
            channels: &channels,
        };
        for (version, names) in
            [(Version::V1, &[""][..]), (Version::V2, &["threshold_1", "threshold_2", "difference"])]
        {
            let slab = listed(&[facts.image_with(version, 3, &[9; 300], extras)]);
            let Message::Image(image) = parse(slab.messages().next().unwrap()).unwrap() else { panic!() };
            assert_eq!(image.channels().map(|channel| channel.name).collect::<Vec<_>>(), names);
            assert!(image.channels().all(|channel| channel.packed.bytes == [9; 300]));
        }
    }

    #[test]
    fn what_is_composed_is_understood() {
        for version in [Version::V1, Version::V2] {
            for count_type in [CountType::U8, CountType::U16, CountType::U32] {
                let facts = facts(count_type, Encoding::Bslz4);
                let messages =
                    [facts.start(version), facts.image(version, 69_999, &[7; 300]), facts.end(version)];
                let slab: Slab = listed(&messages);
                let mut messages = slab.messages();
                let mut next = || messages.next().unwrap().collect::<Vec<_>>();
                let (start, image, end) = (next(), next(), next());
                let Message::Start(start) = parse(start.iter().copied()).unwrap() else { panic!() };
                assert_eq!((start.num_images, start.detector), (Some(70_000), Some(facts.detector)));
                let Message::Image(image) = parse(image.iter().copied()).unwrap() else { panic!() };
                let channel = image.channels().next().unwrap();
                assert_eq!((image.number, channel.count_type), (69_999, count_type));
                assert_eq!(channel.detector, facts.detector);
                assert_eq!(channel.packed.encoding, Encoding::Bslz4);
                assert_eq!(channel.packed.bytes, [7; 300]);
                let Message::End(key) = parse(end.iter().copied()).unwrap() else { panic!() };
                assert_eq!((key, key), (image.series, start.series));
            }
        }
    }

    #[test]
    fn a_full_start_is_understood_with_its_mask_and_its_appendix() {
        let config = json!({
            "beam_center_x": 96.85, "beam_center_y": 95.3, "count_time": 9.95e-5, "frame_time": 1e-4,
            "nimages": 1, "ntrigger": 70_000, "photon_energy": 300_000.0, "description": "ARINA",
            "detector_number": "S-1", "countrate_correction_count_cutoff": 8352,
            "x_pixel_size": 1e-4, "y_pixel_size": 2e-4, "x_pixels_in_detector": 192, "y_pixels_in_detector": 96,
        });
        let mask: Vec<u32> = (0..96 * 192).collect();
        let facts = facts(CountType::U16, Encoding::Bslz4);
        let channels = ["threshold_1".to_owned()];
        for version in [Version::V1, Version::V2] {
            for (detail, has_config) in [
                (HeaderDetail::None, version == Version::V2),
                (HeaderDetail::Basic, true),
                (HeaderDetail::All, true),
            ] {
                let contents = StartContents {
                    detail,
                    appendix: Some("lamp on"),
                    config: config.as_object().unwrap(),
                    channels: &channels,
                    arm_date: "2026-01-01T00:00:00Z",
                    pixel_mask: &mask,
                };
                let slab = listed(&[facts.full_start(version, &contents)]);
                let Message::Start(start) = parse(slab.messages().next().unwrap()).unwrap() else { panic!() };
                assert!(start.appendix.unwrap().ends_with(b"lamp on"));
                assert_eq!(start.num_images, has_config.then_some(70_000));
                assert_eq!(start.beam_centre, has_config.then_some((95.3, 96.85)));
                assert_eq!(start.pixel_size_m, has_config.then_some((2e-4, 1e-4)));
                assert_eq!(start.saturation_value, has_config.then_some(8352));
                assert_eq!(start.serial_number, has_config.then_some("S-1"));
                assert_eq!(start.detector, has_config.then_some(facts.detector));
                let expected: Vec<u8> = mask.iter().flat_map(|flags| flags.to_le_bytes()).collect();
                let is_all = detail == HeaderDetail::All;
                assert_eq!(start.pixel_mask.map(|mask| mask.bytes), is_all.then_some(&expected[..]));
            }
        }
    }
}
