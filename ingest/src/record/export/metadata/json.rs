//! The parts of a start of stream v1: the configuration, and with `header_detail` `all` flat field, mask and table.

use kernels::bslz4_decode::Encoding;
use serde_json::Value;

use super::{MOST_OTHERS, MasterTable, MasterValue, More, floats, is_name, shortened};
use crate::stream::message::Packed;

/// What the master has under names of its own, or is said of the files rather than of the stream.
const ELSEWHERE: &[&str] = &[
    "beam_center_x",
    "beam_center_y",
    "bit_depth_image",
    "compression",
    "count_time",
    "countrate_correction_applied",
    "data_collection_date",
    "description",
    "detector_number",
    "detector_readout_time",
    "eiger_fw_version",
    "flatfield_correction_applied",
    "frame_time",
    "nimages",
    "ntrigger",
    "number_of_excluded_pixels",
    "photon_energy",
    "pixel_mask_applied",
    "sensor_material",
    "sensor_thickness",
    "software_version",
    "threshold_energy",
    "trigger_mode",
    "virtual_pixel_correction_applied",
    "wavelength",
    "x_pixel_size",
    "x_pixels_in_detector",
    "y_pixel_size",
    "y_pixels_in_detector",
];

/// What the parts say; all of them, the first included.
pub(super) fn read(parts: &[&[u8]]) -> More {
    let config: Value = parts.get(1).and_then(|part| serde_json::from_slice(part).ok()).unwrap_or_default();
    let number = |name: &str| config.get(name).and_then(Value::as_f64);
    let text = |name: &str| config.get(name).and_then(Value::as_str).map(shortened);
    let flag = |name: &str| {
        let value = config.get(name)?;
        value.as_bool().or(value.as_f64().map(|value| value != 0.0))
    };
    let mut more = More {
        threshold_ev: number("threshold_energy"),
        sensor_material: text("sensor_material"),
        sensor_thickness_m: number("sensor_thickness"),
        trigger_mode: text("trigger_mode"),
        firmware: text("eiger_fw_version"),
        software: text("software_version"),
        mask_applied: flag("pixel_mask_applied"),
        images_per_trigger: config.get("nimages").and_then(Value::as_u64),
        flat_field_applied: flag("flatfield_correction_applied").unwrap_or(false),
        countrate_applied: flag("countrate_correction_applied").unwrap_or(false),
        virtual_pixels_applied: flag("virtual_pixel_correction_applied").unwrap_or(false),
        readout_time_secs: number("detector_readout_time"),
        ..More::default()
    };
    let others = config.as_object().into_iter().flatten().filter_map(|(name, value)| {
        let value = match value {
            Value::Bool(flag) => MasterValue::Flag(*flag),
            Value::String(text) => MasterValue::Text(shortened(text)),
            Value::Number(number) => match number.as_u64() {
                Some(whole) => MasterValue::Whole(whole),
                None => MasterValue::Number(number.as_f64()?),
            },
            _ => return None,
        };
        (is_name(name) && !ELSEWHERE.contains(&name.as_str())).then(|| (name.clone(), value))
    });
    more.others = others.take(MOST_OTHERS).collect();
    if let [_, _, flat_field, flat_blob, _, _, table, table_blob, ..] = parts {
        more.flat_field = array(flat_field, flat_blob).map(|table| table.numbers).unwrap_or_default();
        more.countrate_table = array(table, table_blob).unwrap_or_default();
    }
    more
}

/// An array of single precision: its header, `shape` `[cols, rows]`, and its bytes.
fn array(header: &[u8], bytes: &[u8]) -> Option<MasterTable> {
    let header: Value = serde_json::from_slice(header).ok()?;
    let extent = |at| usize::try_from(header["shape"].get(at)?.as_u64()?).ok();
    let shape = [extent(1)?, extent(0)?];
    let is_float = header["type"].as_str() == Some("float32");
    let packed = Packed { encoding: Encoding::Raw, bytes };
    let numbers = floats(packed, shape).filter(|_| is_float)?;
    Some(MasterTable { shape, numbers })
}
