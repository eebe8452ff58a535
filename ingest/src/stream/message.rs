//! What a message of the stream says; everything in it is borrowed from the message.

use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};

use super::{v1, v2};

/// Channels that an image can have: two thresholds and their difference, and one to spare.
pub const MOST_CHANNELS: usize = 4;

/// Which series a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeriesKey<'a> {
    /// The number that `arm` returned.
    pub id: u64,
    /// Stream v2: a name that never comes again, where the number does after the detector was started anew.
    pub unique_id: Option<&'a str>,
}

/// A message of the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Message<'a> {
    /// A series begins.
    Start(Start<'a>),
    /// One image.
    Image(Image<'a>),
    /// A series has ended. Says nothing about whether all images came.
    End(SeriesKey<'a>),
}

impl Message<'_> {
    /// The series.
    pub fn series(&self) -> SeriesKey<'_> {
        match self {
            Self::Start(start) => start.series,
            Self::Image(image) => image.series,
            Self::End(series) => *series,
        }
    }
}

/// The beginning of a series. Every fact may be missing: real starts leave out many.
#[derive(Clone, Debug, PartialEq)]
pub struct Start<'a> {
    /// The series.
    pub series: SeriesKey<'a>,
    /// Images of the whole series, `nimages` x `ntrigger`.
    pub num_images: Option<u64>,
    /// Shape of an image.
    pub detector: Option<DetectorShape>,
    /// Type of the counts: `bit_depth_image` of stream v1, `image_dtype` of v2, which real starts leave out.
    pub count_type: Option<CountType>,
    /// Channels by name, in order; none in stream v1.
    pub channels: Vec<&'a str>,
    /// Energy of the electrons, eV.
    pub incident_energy_ev: Option<f64>,
    /// Time from one image to the next, s.
    pub frame_time_s: Option<f64>,
    /// Time an image counts, s.
    pub count_time_s: Option<f64>,
    /// Beam centre in pixels from the first, (row, col).
    pub beam_centre: Option<(f64, f64)>,
    /// Detector pixel, m, (row, col).
    pub pixel_size_m: Option<(f64, f64)>,
    /// Counts from which on a pixel is saturated.
    pub saturation_value: Option<u64>,
    /// The detector's serial number.
    pub serial_number: Option<&'a str>,
    /// What the detector is.
    pub description: Option<&'a str>,
    /// The header appendix, as given.
    pub appendix: Option<&'a [u8]>,
    /// Pixel mask, u32 by pixel, little-endian, row-major; stream v1 with `header_detail` `all`, stream v2.
    pub pixel_mask: Option<Packed<'a>>,
}

impl<'a> Start<'a> {
    /// A start that says nothing yet.
    pub(super) fn of(series: SeriesKey<'a>) -> Self {
        Self {
            series,
            num_images: None,
            detector: None,
            count_type: None,
            channels: Vec::new(),
            incident_energy_ev: None,
            frame_time_s: None,
            count_time_s: None,
            beam_centre: None,
            pixel_size_m: None,
            saturation_value: None,
            serial_number: None,
            description: None,
            appendix: None,
            pixel_mask: None,
        }
    }
}

/// One image: a frame for each channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Image<'a> {
    /// The series.
    pub series: SeriesKey<'a>,
    /// Number of the image, counted from 0 over the whole series.
    pub number: u64,
    channels: [Option<Channel<'a>>; MOST_CHANNELS],
}

impl<'a> Image<'a> {
    /// An image without channels.
    pub(super) fn new(series: SeriesKey<'a>, number: u64) -> Self {
        Self { series, number, channels: [None; MOST_CHANNELS] }
    }

    /// Adds a channel; false where there is no place for it.
    pub(super) fn push(&mut self, channel: Channel<'a>) -> bool {
        match self.channels.iter_mut().find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(channel);
                true
            }
            None => false,
        }
    }

    /// The channels, in the order of the message.
    pub fn channels(&self) -> impl Iterator<Item = &Channel<'a>> {
        self.channels.iter().flatten()
    }
}

/// One frame of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channel<'a> {
    /// Its name, such as `threshold_1`; empty in stream v1.
    pub name: &'a str,
    /// Shape, (rows, cols), whichever order the version sends.
    pub detector: DetectorShape,
    /// The type of the counts.
    pub count_type: CountType,
    /// The counts.
    pub packed: Packed<'a>,
}

impl Channel<'_> {
    /// Whether the bytes are, or announce, as many as the shape and the type have.
    pub fn is_whole(&self) -> bool {
        self.packed.is_of(self.detector.pixels().saturating_mul(self.count_type.bytes()))
    }
}

/// Bytes and how they are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    /// The packing.
    pub encoding: Encoding,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl Packed<'_> {
    /// Whether the bytes are, or announce, so many unpacked ones. A bare LZ4 block announces nothing: it may be.
    pub fn is_of(&self, frame_bytes: usize) -> bool {
        match self.encoding {
            Encoding::Raw => self.bytes.len() == frame_bytes,
            Encoding::Lz4Block => !self.bytes.is_empty() && u32::try_from(frame_bytes).is_ok(),
            Encoding::Bslz4 | Encoding::Lz4Framed => {
                let announced = self.bytes.first_chunk().map(|total| u64::from_be_bytes(*total));
                self.bytes.len() >= 12 && announced == Some(frame_bytes as u64)
            }
        }
    }
}

/// Why a message is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A message without parts or bytes.
    #[error("got an empty message")]
    Empty,
    /// Neither JSON nor CBOR.
    #[error("got a message that begins with {got:02x?}, expected JSON (stream v1) or CBOR (stream v2)")]
    Unknown {
        /// Its first bytes.
        got: Vec<u8>,
    },
    /// JSON that is not what it should be.
    #[error("part {part}: {what}")]
    Json {
        /// The part, counted from 1.
        part: usize,
        /// What is wrong.
        what: String,
    },
    /// CBOR that is not what it should be.
    #[error("CBOR: {0}")]
    Cbor(String),
    /// A message of this type with another number of parts.
    #[error("got {got} parts of {htype}, expected {expected}")]
    Parts {
        /// The type of the first part.
        htype: String,
        /// Parts that came.
        got: usize,
        /// Parts that such a message has.
        expected: &'static str,
    },
    /// A type of message that there is not.
    #[error("got a message of type {got:?}, expected a start, an image or an end of a series")]
    Type {
        /// The type.
        got: String,
    },
    /// A field that must be there and is not.
    #[error("got no {field} in {of}")]
    Missing {
        /// The field.
        field: &'static str,
        /// The type of message.
        of: &'static str,
    },
    /// A shape that no detector has.
    #[error("got an image of {got:?}, expected two dimensions of 1 to 65535")]
    Shape {
        /// The dimensions.
        got: Vec<u64>,
    },
    /// A type of counts that is not supported.
    #[error("got counts of {got}, expected u8, u16 or u32, little-endian")]
    CountType {
        /// The type.
        got: String,
    },
    /// An encoding that is not supported.
    #[error("got encoding {got:?} of {count_type} counts")]
    Encoding {
        /// The encoding.
        got: String,
        /// The type of the counts.
        count_type: CountType,
    },
    /// A blob of another length than its header says.
    #[error("got a blob of {got_bytes} bytes, expected the {expected_bytes} of its header")]
    BlobLength {
        /// Bytes that came.
        got_bytes: usize,
        /// Bytes announced.
        expected_bytes: u64,
    },
    /// More channels than an image can have.
    #[error("got {got} channels in an image, expected at most {MOST_CHANNELS}")]
    Channels {
        /// Channels that came.
        got: u64,
    },
}

/// Tells what a message is, by its first byte: `{` is stream v1, CBOR's tag or a map stream v2.
///
/// # Errors
/// [`MessageError`]; nothing is read beyond the message, nothing is allocated by its say-so.
pub fn parse<'a>(mut parts: impl Iterator<Item = &'a [u8]> + Clone) -> Result<Message<'a>, MessageError> {
    let num_parts = parts.clone().count();
    let first = parts.next().ok_or(MessageError::Empty)?;
    match first {
        [] => Err(MessageError::Empty),
        [b'{' | b' ' | b'\n' | b'\t' | b'\r', ..] => v1::parse(first, parts, num_parts),
        // a tag, or a map
        [0xa0..=0xdb, ..] if num_parts == 1 => v2::parse(first),
        [0xa0..=0xdb, ..] => {
            Err(MessageError::Parts { htype: "CBOR".to_owned(), got: num_parts, expected: "1" })
        }
        _ => Err(MessageError::Unknown { got: first[..first.len().min(8)].to_vec() }),
    }
}

/// A shape, checked.
pub(super) fn shape(rows: u64, cols: u64) -> Result<DetectorShape, MessageError> {
    match (u16::try_from(rows), u16::try_from(cols)) {
        (Ok(rows @ 1..), Ok(cols @ 1..)) => Ok(DetectorShape { rows: rows.into(), cols: cols.into() }),
        _ => Err(MessageError::Shape { got: vec![rows, cols] }),
    }
}

#[cfg(test)]
mod tests;
