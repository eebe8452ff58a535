//! A start of stream v2.

use kernels::bslz4_decode::Encoding;
use minicbor::data::Type;
use minicbor::decode::{Decoder, Error};

use super::{MOST_OTHERS, MasterTable, MasterValue, More, floats, is_name, shortened, words};
use crate::stream::message::Packed;
use crate::stream::v2::number;

/// A multi-dimensional array, row-major; single-precision numbers; words; compressed bytes.
const ARRAY: u64 = 40;
const F32: u64 = 85;
const U32: u64 = 70;
const COMPRESSED: u64 = 56_500;

/// What the master has under names of its own, or is said of the files rather than of the stream.
const ELSEWHERE: &[&str] = &[
    "beam_center_x",
    "beam_center_y",
    "count_time",
    "detector_description",
    "detector_serial_number",
    "frame_time",
    "image_dtype",
    "image_size_x",
    "image_size_y",
    "incident_energy",
    "incident_wavelength",
    "number_of_images",
    "pixel_size_x",
    "pixel_size_y",
    "saturation_value",
    "series_id",
    "type",
    "user_data",
];

/// What a start says of a channel; of the first where none is named.
pub(super) fn read(bytes: &[u8], channel: Option<&str>) -> More {
    let mut more = More::default();
    // what comes before something that is not understood counts
    let _ = read_pairs(bytes, channel, &mut more);
    more
}

fn read_pairs(bytes: &[u8], channel: Option<&str>, more: &mut More) -> Result<(), Error> {
    let mut decoder = Decoder::new(bytes);
    if decoder.datatype()? == Type::Tag {
        decoder.tag()?;
    }
    let mut pairs = decoder.map()?;
    loop {
        match &mut pairs {
            Some(0) => return Ok(()),
            Some(left) => *left -= 1,
            None if decoder.datatype()? == Type::Break => return Ok(()),
            None => {}
        }
        match (decoder.str()?, decoder.datatype()?) {
            ("sensor_material", Type::String) => more.sensor_material = Some(shortened(decoder.str()?)),
            ("sensor_thickness", _) => more.sensor_thickness_m = number(&mut decoder)?,
            ("pixel_mask_enabled", Type::Bool) => more.mask_applied = Some(decoder.bool()?),
            ("flatfield_enabled", Type::Bool) => more.flat_field_applied = decoder.bool()?,
            ("countrate_correction_enabled", Type::Bool) => more.countrate_applied = decoder.bool()?,
            ("virtual_pixel_interpolation_enabled", Type::Bool) => {
                more.virtual_pixels_applied = decoder.bool()?;
            }
            ("threshold_energy", Type::Map) => {
                for _ in 0..decoder.map()?.unwrap_or(0) {
                    let name = decoder.str()?;
                    let value = number(&mut decoder)?;
                    if channel.is_none_or(|channel| channel == name) {
                        more.threshold_ev = more.threshold_ev.or(value);
                    }
                }
            }
            ("flatfield", Type::Map) => {
                for _ in 0..decoder.map()?.unwrap_or(0) {
                    let name = decoder.str()?;
                    let is_asked = channel.is_none_or(|channel| channel == name);
                    let table = aside(&mut decoder, flat_field)?;
                    if is_asked && more.flat_field.is_empty() {
                        more.flat_field = table.map(|table| table.numbers).unwrap_or_default();
                    }
                }
            }
            ("countrate_correction_lookup_table", Type::Tag) => {
                more.countrate_lookup = aside(&mut decoder, lookup)?.unwrap_or_default();
            }
            (name, kind) => other(name, kind, &mut decoder, more)?,
        }
    }
}

/// A value without a place of its own.
fn other(name: &str, kind: Type, decoder: &mut Decoder<'_>, more: &mut More) -> Result<(), Error> {
    let value = match kind {
        Type::Bool => MasterValue::Flag(decoder.bool()?),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => MasterValue::Whole(decoder.u64()?),
        Type::F16 | Type::F32 | Type::F64 => MasterValue::Number(number(decoder)?.unwrap_or(f64::NAN)),
        Type::String => MasterValue::Text(shortened(decoder.str()?)),
        Type::Tag if matches!(decoder.probe().tag(), Ok(tag) if tag.as_u64() == 0) => {
            decoder.tag()?; // a date, as text
            MasterValue::Text(shortened(decoder.str()?))
        }
        _ => return decoder.skip(),
    };
    if is_name(name) && !ELSEWHERE.contains(&name) && more.others.len() < MOST_OTHERS {
        more.others.push((name.to_owned(), value));
    }
    Ok(())
}

/// Reads a value that may be of any kind; whatever it is, the decoder stands behind it.
fn aside<'a, T>(
    decoder: &mut Decoder<'a>,
    read: impl Fn(&mut Decoder<'a>) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let mut copy = decoder.clone();
    decoder.skip()?;
    Ok(read(&mut copy).ok().flatten())
}

/// `tag 40 [[rows, cols], tag 85 (bytes, or compressed ones)]`.
fn flat_field(decoder: &mut Decoder<'_>) -> Result<Option<MasterTable>, Error> {
    if decoder.tag()?.as_u64() != ARRAY || decoder.array()? != Some(2) || decoder.array()? != Some(2) {
        return Ok(None);
    }
    let shape = [decoder.u64()?, decoder.u64()?].map(|extent| usize::try_from(extent).unwrap_or(usize::MAX));
    let packed = packed(decoder, F32)?;
    let numbers = packed.and_then(|packed| floats(packed, shape));
    Ok(numbers.map(|numbers| MasterTable { shape, numbers }))
}

/// `tag 70 (bytes, or compressed ones)`, as long as it says.
fn lookup(decoder: &mut Decoder<'_>) -> Result<Option<Vec<u32>>, Error> {
    const LONGEST: u64 = 1 << 22;
    let Some(packed) = packed(decoder, U32)? else { return Ok(None) };
    let bytes = match packed.encoding {
        Encoding::Raw => Some(packed.bytes.len() as u64),
        _ => packed.bytes.first_chunk().map(|total| u64::from_be_bytes(*total)),
    };
    let count = bytes.filter(|&bytes| bytes <= 4 * LONGEST).map(|bytes| bytes as usize / 4);
    Ok(count.and_then(|count| words(packed, count)))
}

fn packed<'a>(decoder: &mut Decoder<'a>, elements: u64) -> Result<Option<Packed<'a>>, Error> {
    if decoder.tag()?.as_u64() != elements {
        return Ok(None);
    }
    if decoder.datatype()? != Type::Tag {
        return Ok(Some(Packed { encoding: Encoding::Raw, bytes: decoder.bytes()? }));
    }
    if decoder.tag()?.as_u64() != COMPRESSED || decoder.array()? != Some(3) {
        return Ok(None);
    }
    let encoding = match decoder.str()? {
        "bslz4" => Encoding::Bslz4,
        "lz4" => Encoding::Lz4Framed,
        _ => return Ok(None),
    };
    let element_bytes = decoder.u64()?;
    let bytes = decoder.bytes()?;
    Ok((element_bytes == 4).then_some(Packed { encoding, bytes }))
}
