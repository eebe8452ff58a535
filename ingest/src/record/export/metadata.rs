//! What a master says, from the start of the series. What the stream did not say is 0 or `unknown`, never a guess.

mod cbor;
mod json;

use kernels::bslz4_decode::decode_frame;
use kernels::types::{Kilovolts, Metres};

use crate::calendar::date_and_time;
use crate::filewriter::{MasterMetadata, MasterTable, MasterValue};
use crate::stream::message::{Packed, Start};

/// Members beyond those of every master, at most.
const MOST_OTHERS: usize = 256;
/// Pixels of the largest detector there is, and some.
const MOST_PIXELS: usize = 1 << 26;

/// A series of which nothing was said.
pub(super) fn unknown() -> MasterMetadata {
    MasterMetadata {
        voltage: Kilovolts(0.0),
        saturation_value: u32::MAX,
        count_time_secs: 0.0,
        frame_time_secs: 0.0,
        trigger_mode: "unknown".to_owned(),
        sensor_material: "unknown".to_owned(),
        sensor_thickness: Metres(0.0),
        pixel_size: Metres(0.0),
        threshold: Kilovolts(0.0),
        ..MasterMetadata::default()
    }
}

/// What the filewriter wants to know and [`Start`] does not hold.
#[derive(Default)]
pub(super) struct More {
    threshold_ev: Option<f64>,
    sensor_material: Option<String>,
    sensor_thickness_m: Option<f64>,
    trigger_mode: Option<String>,
    firmware: Option<String>,
    software: Option<String>,
    mask_applied: Option<bool>,
    images_per_trigger: Option<u64>,
    flat_field: Vec<f32>,
    flat_field_applied: bool,
    countrate_table: MasterTable,
    countrate_lookup: Vec<u32>,
    countrate_applied: bool,
    virtual_pixels_applied: bool,
    readout_time_secs: Option<f64>,
    others: Vec<(String, MasterValue)>,
}

/// What a start says; `parts` are those of its message.
pub(super) fn of_start<'a>(
    start: &Start<'_>,
    parts: impl Iterator<Item = &'a [u8]>,
    channel: Option<&str>,
) -> MasterMetadata {
    let parts: Vec<&[u8]> = parts.collect();
    let mut more = match parts.first() {
        Some([0xa0..=0xdb, ..]) => cbor::read(parts[0], channel.or(start.channels.first().copied())),
        _ => json::read(&parts),
    };
    if let Some(appendix) = appendix(start) {
        more.others.push(("header_appendix".to_owned(), MasterValue::Text(appendix)));
    }
    let unknown = unknown();
    let positive = |value: Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0);
    MasterMetadata {
        voltage: positive(start.incident_energy_ev).map_or(unknown.voltage, |ev| Kilovolts(ev * 1e-3)),
        beam_centre: start.beam_centre.map_or([0.0, 0.0], |(row, col)| [row, col]),
        pixel_mask: pixel_mask(start).unwrap_or_default(),
        pixel_mask_applied: more.mask_applied.unwrap_or(false),
        saturation_value: start
            .saturation_value
            .map_or(unknown.saturation_value, |value| u32::try_from(value).unwrap_or(u32::MAX)),
        count_time_secs: positive(start.count_time_s).unwrap_or(0.0),
        frame_time_secs: positive(start.frame_time_s).unwrap_or(0.0),
        description: start.description.map_or(unknown.description, shortened),
        detector_number: start.serial_number.map_or(unknown.detector_number, shortened),
        firmware: more.firmware.unwrap_or(unknown.firmware),
        trigger_mode: more.trigger_mode.unwrap_or(unknown.trigger_mode),
        images_per_trigger: more.images_per_trigger.unwrap_or(1),
        sensor_material: more.sensor_material.unwrap_or(unknown.sensor_material),
        sensor_thickness: positive(more.sensor_thickness_m).map_or(unknown.sensor_thickness, Metres),
        pixel_size: start.pixel_size_m.map_or(unknown.pixel_size, |(_, col)| Metres(col)),
        threshold: positive(more.threshold_ev).map_or(unknown.threshold, |ev| Kilovolts(ev * 1e-3)),
        software: more.software.unwrap_or(unknown.software),
        flat_field: more.flat_field,
        flat_field_applied: more.flat_field_applied,
        countrate_table: more.countrate_table,
        countrate_lookup: more.countrate_lookup,
        countrate_applied: more.countrate_applied,
        virtual_pixels_applied: more.virtual_pixels_applied,
        readout_time_secs: positive(more.readout_time_secs).unwrap_or(0.0),
        more: more.others,
        ..unknown
    }
}

/// Texts of the stream go into headers of limited length.
fn shortened(text: &str) -> String {
    text.chars().take(256).collect()
}

fn pixel_mask(start: &Start<'_>) -> Option<Vec<u32>> {
    let (packed, detector) = (start.pixel_mask?, start.detector?);
    let pixels = detector.rows.checked_mul(detector.cols).filter(|&pixels| pixels <= MOST_PIXELS)?;
    let mut mask = vec![0; pixels];
    match decode_frame(packed.encoding, packed.bytes, &mut mask) {
        Ok(()) => Some(mask),
        Err(error) => {
            tracing::warn!("the pixel mask of the stream cannot be read and is left out: {error}");
            None
        }
    }
}

/// The appendix, where it is a text of reasonable length.
fn appendix(start: &Start<'_>) -> Option<String> {
    const LONGEST: usize = 1 << 20;
    let bytes = start.appendix.filter(|bytes| bytes.len() <= LONGEST)?;
    match start.series.unique_id {
        // in stream v2 a value of CBOR
        Some(_) => minicbor::decode::<&str>(bytes).ok().map(str::to_owned),
        None => std::str::from_utf8(bytes).ok().map(str::to_owned),
    }
}

/// Whether a key of a start can be the name of a dataset.
fn is_name(key: &str) -> bool {
    (1..=64).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Numbers as single precision: `bytes` hold those of `shape`, packed.
fn floats(packed: Packed<'_>, shape: [usize; 2]) -> Option<Vec<f32>> {
    let bits = words(packed, shape[0].checked_mul(shape[1])?)?;
    Some(bits.into_iter().map(f32::from_bits).collect())
}

/// So many words of four bytes, packed.
fn words(packed: Packed<'_>, count: usize) -> Option<Vec<u32>> {
    if count == 0 || count > MOST_PIXELS {
        return None;
    }
    let mut words = vec![0_u32; count];
    decode_frame(packed.encoding, packed.bytes, &mut words).ok()?;
    Some(words)
}

/// A moment as the detector writes it, `2026-11-01T00:00:00.000`, UTC.
pub(super) fn date(nanos: u64) -> String {
    let (secs, millis) = (nanos / 1_000_000_000, nanos / 1_000_000 % 1000);
    format!("{}.{millis:03}", date_and_time(secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_milliseconds() {
        assert_eq!(date(951_782_400 * 1_000_000_000 + 42_999_999), "2000-02-29T00:00:00.042");
    }
}
