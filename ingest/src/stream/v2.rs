//! Stream v2: one CBOR map a message (DECTRIS documentation, stream_v2; RFC 8949, typed arrays RFC 8746). Shapes are
//! `[rows, cols]`. Keys that are not known are skipped.

use kernels::bslz4_decode::Encoding;
use kernels::types::CountType;
use minicbor::data::{Tag, Type};
use minicbor::decode::{Decoder, Error};

use super::message::{Channel, Image, MOST_CHANNELS, Message, MessageError, Packed, SeriesKey, Start, shape};

/// "Self-described CBOR".
const SELF_DESCRIBED: u64 = 55_799;
/// A multi-dimensional array, row-major.
const ARRAY: u64 = 40;
/// DECTRIS: `[algorithm, bytes of an element, compressed]`.
const COMPRESSED: u64 = 56_500;
const U8: u64 = 64;
const U16: u64 = 69;
const U32: u64 = 70;

impl From<Error> for MessageError {
    fn from(error: Error) -> Self {
        Self::Cbor(error.to_string())
    }
}

/// An array as it stands in a message.
struct Array<'a> {
    dimensions: [u64; 2],
    /// Tag of the elements.
    elements: u64,
    /// Algorithm, where it is compressed.
    algorithm: Option<&'a str>,
    bytes: &'a [u8],
}

/// What the keys of a message say, whatever its type.
#[derive(Default)]
struct Fields<'a> {
    kind: Option<&'a str>,
    series_id: Option<u64>,
    unique_id: Option<&'a str>,
    image_id: Option<u64>,
    size_x: Option<u64>,
    size_y: Option<u64>,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Message<'_>, MessageError> {
    let mut decoder = Decoder::new(bytes);
    if decoder.datatype()? == Type::Tag {
        let tag = decoder.tag()?.as_u64();
        if tag != SELF_DESCRIBED {
            return Err(MessageError::Cbor(format!("got tag {tag}, expected {SELF_DESCRIBED} or a map")));
        }
    }
    let mut pairs = decoder.map()?;
    let mut fields = Fields::default();
    // replaced once the series is known
    let nobody = SeriesKey { id: 0, unique_id: None };
    let (mut image, mut start) = (Image::new(nobody, 0), Start::of(nobody));
    loop {
        match &mut pairs {
            Some(0) => break,
            Some(left) => *left -= 1,
            None if decoder.datatype()? == Type::Break => break,
            None => {}
        }
        match decoder.str()? {
            "type" => fields.kind = Some(decoder.str()?),
            "series_id" => fields.series_id = Some(decoder.u64()?),
            "series_unique_id" => fields.unique_id = text(&mut decoder)?,
            "image_id" => fields.image_id = Some(decoder.u64()?),
            "data" => read_channels(&mut decoder, &mut image)?,
            "image_size_x" => fields.size_x = whole(&mut decoder)?,
            "image_size_y" => fields.size_y = whole(&mut decoder)?,
            "image_dtype" => start.count_type = text(&mut decoder)?.and_then(count_type),
            "number_of_images" => start.num_images = whole(&mut decoder)?,
            "incident_energy" => start.incident_energy_ev = number(&mut decoder)?,
            "frame_time" => start.frame_time_s = number(&mut decoder)?,
            "count_time" => start.count_time_s = number(&mut decoder)?,
            "beam_center_x" => {
                let col = number(&mut decoder)?.unwrap_or(f64::NAN);
                start.beam_centre.get_or_insert((f64::NAN, f64::NAN)).1 = col;
            }
            "beam_center_y" => {
                let row = number(&mut decoder)?.unwrap_or(f64::NAN);
                start.beam_centre.get_or_insert((f64::NAN, f64::NAN)).0 = row;
            }
            "pixel_size_x" => {
                let col = number(&mut decoder)?.unwrap_or(f64::NAN);
                start.pixel_size_m.get_or_insert((f64::NAN, f64::NAN)).1 = col;
            }
            "pixel_size_y" => {
                let row = number(&mut decoder)?.unwrap_or(f64::NAN);
                start.pixel_size_m.get_or_insert((f64::NAN, f64::NAN)).0 = row;
            }
            "saturation_value" => start.saturation_value = whole(&mut decoder)?,
            "detector_serial_number" => start.serial_number = text(&mut decoder)?,
            "detector_description" => start.description = text(&mut decoder)?,
            "channels" => {
                for name in decoder.array_iter::<&str>()? {
                    let name = name?;
                    // an image has no more; the rest is nobody's
                    if start.channels.len() < MOST_CHANNELS {
                        start.channels.push(name);
                    }
                }
            }
            "pixel_mask" => start.pixel_mask = read_mask(&mut decoder)?,
            "user_data" => {
                let from = decoder.position();
                decoder.skip()?;
                start.appendix = bytes.get(from..decoder.position());
            }
            _ => decoder.skip()?,
        }
    }
    settle(fields, image, start)
}

fn settle<'a>(
    fields: Fields<'a>,
    mut image: Image<'a>,
    mut start: Start<'a>,
) -> Result<Message<'a>, MessageError> {
    let kind = fields.kind.ok_or(MessageError::Missing { field: "type", of: "a message of stream v2" })?;
    let id = fields.series_id;
    let id = id.ok_or(MessageError::Missing { field: "series_id", of: "a message of stream v2" })?;
    let series = SeriesKey { id, unique_id: fields.unique_id };
    match kind {
        "end" => Ok(Message::End(series)),
        "image" => {
            let of = "an image of stream v2";
            image.series = series;
            image.number = fields.image_id.ok_or(MessageError::Missing { field: "image_id", of })?;
            match image.channels().next() {
                Some(_) => Ok(Message::Image(image)),
                None => Err(MessageError::Missing { field: "data", of }),
            }
        }
        "start" => {
            start.series = series;
            if let (Some(rows), Some(cols)) = (fields.size_y, fields.size_x) {
                start.detector = Some(shape(rows, cols)?);
            }
            let known =
                |pair: Option<(f64, f64)>| pair.filter(|(row, col)| row.is_finite() && col.is_finite());
            start.beam_centre = known(start.beam_centre);
            start.pixel_size_m = known(start.pixel_size_m);
            Ok(Message::Start(start))
        }
        other => Err(MessageError::Type { got: other.chars().take(64).collect() }),
    }
}

fn read_channels<'a>(decoder: &mut Decoder<'a>, image: &mut Image<'a>) -> Result<(), MessageError> {
    let mut pairs = decoder.map()?;
    // all are counted, also those that an image has no place for
    let mut got = image.channels().count() as u64;
    loop {
        match &mut pairs {
            Some(0) => break,
            Some(left) => *left -= 1,
            None if decoder.datatype()? == Type::Break => {
                decoder.skip()?;
                break;
            }
            None => {}
        }
        got += 1;
        let name = decoder.str()?;
        let array = read_array(decoder)?;
        let count_type = match array.elements {
            U8 => CountType::U8,
            U16 => CountType::U16,
            U32 => CountType::U32,
            other => return Err(MessageError::CountType { got: format!("tag {other}") }),
        };
        let [rows, cols] = array.dimensions;
        let packed = packed(&array, count_type)?;
        image.push(Channel { name, detector: shape(rows, cols)?, count_type, packed });
    }
    if got > MOST_CHANNELS as u64 { Err(MessageError::Channels { got }) } else { Ok(()) }
}

/// The mask of the first channel.
fn read_mask<'a>(decoder: &mut Decoder<'a>) -> Result<Option<Packed<'a>>, MessageError> {
    if decoder.datatype()? != Type::Map {
        decoder.skip()?;
        return Ok(None);
    }
    let pairs = decoder.map()?.unwrap_or(0);
    let mut mask = None;
    for _ in 0..pairs {
        decoder.skip()?;
        if decoder.datatype()? != Type::Tag {
            decoder.skip()?; // cut out of the message by whoever recorded it
            continue;
        }
        let array = read_array(decoder)?;
        if array.elements == U32 {
            mask = mask.or(Some(packed(&array, CountType::U32)?));
        }
    }
    Ok(mask)
}

fn packed<'a>(array: &Array<'a>, count_type: CountType) -> Result<Packed<'a>, MessageError> {
    let encoding = match array.algorithm {
        None => Encoding::Raw,
        Some("bslz4") => Encoding::Bslz4,
        Some("lz4") => Encoding::Lz4Framed,
        Some(other) => {
            return Err(MessageError::Encoding { got: other.chars().take(64).collect(), count_type });
        }
    };
    Ok(Packed { encoding, bytes: array.bytes })
}

/// `tag 40 [[rows, cols], tag (elements) (bytes | tag 56500 [algorithm, element bytes, bytes])]`.
fn read_array<'a>(decoder: &mut Decoder<'a>) -> Result<Array<'a>, MessageError> {
    expect_tag(decoder, ARRAY)?;
    expect_len(decoder, 2)?;
    expect_len(decoder, 2)?;
    let dimensions = [decoder.u64()?, decoder.u64()?];
    let elements = decoder.tag()?.as_u64();
    if decoder.datatype()? != Type::Tag {
        return Ok(Array { dimensions, elements, algorithm: None, bytes: decoder.bytes()? });
    }
    expect_tag(decoder, COMPRESSED)?;
    expect_len(decoder, 3)?;
    let algorithm = Some(decoder.str()?);
    let element_bytes = decoder.u64()?;
    let expected = match elements {
        U8 => 1,
        U16 => 2,
        U32 => 4,
        _ => element_bytes,
    };
    if element_bytes != expected {
        let what = format!("got elements of {element_bytes} bytes, expected {expected} for tag {elements}");
        return Err(MessageError::Cbor(what));
    }
    Ok(Array { dimensions, elements, algorithm, bytes: decoder.bytes()? })
}

fn expect_tag(decoder: &mut Decoder<'_>, expected: u64) -> Result<(), MessageError> {
    match decoder.tag()? {
        tag if tag == Tag::new(expected) => Ok(()),
        tag => Err(MessageError::Cbor(format!("got tag {}, expected {expected}", tag.as_u64()))),
    }
}

fn expect_len(decoder: &mut Decoder<'_>, expected: u64) -> Result<(), MessageError> {
    match decoder.array()? {
        Some(len) if len == expected => Ok(()),
        other => Err(MessageError::Cbor(format!("got an array of {other:?}, expected {expected}"))),
    }
}

/// A type by its name; nothing where it is another.
fn count_type(name: &str) -> Option<CountType> {
    match name {
        "uint8" => Some(CountType::U8),
        "uint16" => Some(CountType::U16),
        "uint32" => Some(CountType::U32),
        _ => None,
    }
}

/// A text, or nothing where it is null.
fn text<'a>(decoder: &mut Decoder<'a>) -> Result<Option<&'a str>, Error> {
    match decoder.datatype()? {
        Type::String => decoder.str().map(Some),
        _ => decoder.skip().map(|()| None),
    }
}

/// A number of any width, or nothing where there is none.
pub(crate) fn number(decoder: &mut Decoder<'_>) -> Result<Option<f64>, Error> {
    Ok(match decoder.datatype()? {
        Type::F16 => Some(decoder.f16()?.into()),
        Type::F32 => Some(decoder.f32()?.into()),
        Type::F64 => Some(decoder.f64()?),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Some(decoder.u64()? as f64),
        _ => {
            decoder.skip()?;
            None
        }
    })
}

/// A whole number, or nothing where there is none.
fn whole(decoder: &mut Decoder<'_>) -> Result<Option<u64>, Error> {
    match decoder.datatype()? {
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => decoder.u64().map(Some),
        _ => decoder.skip().map(|()| None),
    }
}
