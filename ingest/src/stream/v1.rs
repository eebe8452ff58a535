//! Stream v1: JSON headers and blobs in parts (SIMPLON API reference 1.8, stream interface). Shapes are `[cols, rows]`.

use kernels::bslz4_decode::Encoding;
use kernels::types::CountType;
use serde::Deserialize;

use super::message::{Channel, Image, Message, MessageError, Packed, SeriesKey, Start, shape};

/// The first part of every message.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    htype: &'a str,
    series: Option<u64>,
    frame: Option<u64>,
    header_detail: Option<&'a str>,
}

/// The part before a blob.
#[derive(Deserialize)]
struct Blob<'a> {
    shape: [u64; 2],
    #[serde(rename = "type", borrow)]
    count_type: &'a str,
    encoding: Option<&'a str>,
    size: Option<u64>,
}

/// The detector's configuration, as far as it is of use.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config<'a> {
    nimages: Option<u64>,
    ntrigger: Option<u64>,
    bit_depth_image: Option<u64>,
    x_pixels_in_detector: Option<u64>,
    y_pixels_in_detector: Option<u64>,
    photon_energy: Option<f64>,
    frame_time: Option<f64>,
    count_time: Option<f64>,
    beam_center_x: Option<f64>,
    beam_center_y: Option<f64>,
    x_pixel_size: Option<f64>,
    y_pixel_size: Option<f64>,
    countrate_correction_count_cutoff: Option<u64>,
    #[serde(borrow)]
    detector_number: Option<&'a str>,
    #[serde(borrow)]
    description: Option<&'a str>,
}

fn json<'a, T: Deserialize<'a>>(part: usize, bytes: &'a [u8]) -> Result<T, MessageError> {
    serde_json::from_slice(bytes).map_err(|error| MessageError::Json { part, what: error.to_string() })
}

/// Whether a header type is this one; simulators leave out the leading `d`, and the version after the dash varies.
fn is(htype: &str, name: &str) -> bool {
    let htype = htype.split('-').next().unwrap_or_default();
    htype == name || name.strip_prefix('d') == Some(htype)
}

pub(super) fn parse<'a>(
    first: &'a [u8],
    rest: impl Iterator<Item = &'a [u8]>,
    num_parts: usize,
) -> Result<Message<'a>, MessageError> {
    let head: Head = json(1, first)?;
    let of = |of| move || MessageError::Missing { field: "series", of };
    let key = |id| SeriesKey { id, unique_id: None };
    match head.htype {
        htype if is(htype, "dseries_end") => {
            Ok(Message::End(key(head.series.ok_or_else(of("an end of stream v1"))?)))
        }
        htype if is(htype, "dimage") => {
            let series = key(head.series.ok_or_else(of("an image of stream v1"))?);
            let field = MessageError::Missing { field: "frame", of: "an image of stream v1" };
            image(Image::new(series, head.frame.ok_or(field)?), htype, rest, num_parts)
        }
        htype if is(htype, "dheader") => {
            let series = key(head.series.ok_or_else(of("a start of stream v1"))?);
            start(series, head.header_detail, rest, num_parts)
        }
        htype => Err(MessageError::Type { got: htype.chars().take(64).collect() }),
    }
}

fn image<'a>(
    mut image: Image<'a>,
    htype: &str,
    mut rest: impl Iterator<Item = &'a [u8]>,
    num_parts: usize,
) -> Result<Message<'a>, MessageError> {
    let wrong = || MessageError::Parts {
        htype: htype.chars().take(64).collect(),
        got: num_parts,
        expected: "4 or 5",
    };
    if !(4..=5).contains(&num_parts) {
        return Err(wrong());
    }
    let (Some(header), Some(bytes)) = (rest.next(), rest.next()) else { return Err(wrong()) };
    let blob: Blob = json(2, header)?;
    let count_type = count_type(blob.count_type)?;
    if let Some(expected_bytes) = blob.size.filter(|&size| size != bytes.len() as u64) {
        return Err(MessageError::BlobLength { got_bytes: bytes.len(), expected_bytes });
    }
    let [cols, rows] = blob.shape;
    let packed = Packed { encoding: encoding(blob.encoding.unwrap_or("<"), count_type)?, bytes };
    image.push(Channel { name: "", detector: shape(rows, cols)?, count_type, packed });
    Ok(Message::Image(image))
}

fn count_type(name: &str) -> Result<CountType, MessageError> {
    match name {
        "uint8" => Ok(CountType::U8),
        "uint16" => Ok(CountType::U16),
        "uint32" => Ok(CountType::U32),
        other => Err(MessageError::CountType { got: other.chars().take(64).collect() }),
    }
}

/// `[bs<BIT>][[-]lz4][<|>]`; big endian is refused, and so is a bit number that is not that of the type.
fn encoding(name: &str, count_type: CountType) -> Result<Encoding, MessageError> {
    let refused = || MessageError::Encoding { got: name.chars().take(64).collect(), count_type };
    let packing = name.strip_suffix('<').ok_or_else(refused)?;
    let own = match count_type {
        CountType::U8 => "bs8",
        CountType::U16 => "bs16",
        CountType::U32 => "bs32",
    };
    match packing {
        "" => Ok(Encoding::Raw),
        "lz4" => Ok(Encoding::Lz4Block),
        packing => match packing.strip_prefix(own) {
            Some("-lz4" | "lz4") => Ok(Encoding::Bslz4),
            _ => Err(refused()),
        },
    }
}

fn start<'a>(
    series: SeriesKey<'a>,
    detail: Option<&str>,
    rest: impl Iterator<Item = &'a [u8]>,
    num_parts: usize,
) -> Result<Message<'a>, MessageError> {
    let mut start = Start::of(series);
    let (parts, expected) = match detail {
        Some("all") => (8, "8 or 9"),
        Some("basic") => (2, "2 or 3"),
        _ => (1, "1 or 2"),
    };
    if num_parts != parts && num_parts != parts + 1 {
        return Err(MessageError::Parts { htype: "dheader".to_owned(), got: num_parts, expected });
    }
    let rest: Vec<&[u8]> = rest.collect();
    if parts > 1
        && let Some(config) = rest.first()
    {
        let config: Config = json(2, config)?;
        start.num_images = match (config.nimages, config.ntrigger) {
            (Some(images), triggers) => Some(images.saturating_mul(triggers.unwrap_or(1))),
            _ => None,
        };
        if let (Some(rows), Some(cols)) = (config.y_pixels_in_detector, config.x_pixels_in_detector) {
            start.detector = Some(shape(rows, cols)?);
        }
        start.count_type = match config.bit_depth_image {
            Some(8) => Some(CountType::U8),
            Some(16) => Some(CountType::U16),
            Some(32) => Some(CountType::U32),
            _ => None,
        };
        start.incident_energy_ev = config.photon_energy;
        start.frame_time_s = config.frame_time;
        start.count_time_s = config.count_time;
        start.beam_centre = config.beam_center_y.zip(config.beam_center_x);
        start.pixel_size_m = config.y_pixel_size.zip(config.x_pixel_size);
        start.saturation_value = config.countrate_correction_count_cutoff;
        start.serial_number = config.detector_number;
        start.description = config.description;
    }
    if parts == 8
        && let [_, _, _, header, blob, ..] = rest[..]
    {
        let header: Blob = json(5, header)?;
        if header.count_type == "uint32" {
            start.pixel_mask = Some(Packed { encoding: Encoding::Raw, bytes: blob });
        }
    }
    start.appendix = rest.get(parts - 1).copied();
    Ok(Message::Start(start))
}
