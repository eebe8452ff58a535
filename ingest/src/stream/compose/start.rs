//! The start of a series with all that a detector says of itself.

use kernels::types::DetectorShape;
use minicbor::data::Tag;
use minicbor::encode::Encoder;
use serde_json::{Map, Value, json};

use super::{SeriesFacts, Version, Written, cbor};
use crate::stream::push::WireMessage;

/// Entries of the countrate tables.
const TABLE_ENTRIES: u32 = 1024;

/// How much a start says: `stream/config/header_detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderDetail {
    /// Stream v1: the header alone. Stream v2: as `Basic`.
    None,
    /// The configuration.
    Basic,
    /// The configuration, flat field, pixel mask and countrate table.
    All,
}

/// What a start says beyond [`SeriesFacts`].
#[derive(Clone, Copy, Debug)]
pub struct StartContents<'a> {
    /// How much.
    pub detail: HeaderDetail,
    /// `header_appendix`, as given.
    pub appendix: Option<&'a str>,
    /// The detector's configuration by SIMPLON's names; what is not in it is sent as 0 or empty.
    pub config: &'a Map<String, Value>,
    /// Names of the channels, in stream v2.
    pub channels: &'a [String],
    /// When the series was armed, RFC 3339.
    pub arm_date: &'a str,
    /// Bad pixels, row-major; none are where this has another length than the detector.
    pub pixel_mask: &'a [u32],
}

impl StartContents<'_> {
    fn number(&self, name: &str) -> f64 {
        self.config.get(name).and_then(Value::as_f64).unwrap_or(0.0)
    }

    fn whole(&self, name: &str) -> u64 {
        self.config.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    fn text(&self, name: &str) -> &str {
        self.config.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn is_on(&self, name: &str) -> bool {
        self.config.get(name).is_some_and(|value| value.as_bool().unwrap_or(value.as_u64() == Some(1)))
    }

    fn mask_bytes(&self, detector: DetectorShape) -> Vec<u8> {
        match self.pixel_mask.len() == detector.pixels() {
            true => self.pixel_mask.iter().flat_map(|flags| flags.to_le_bytes()).collect(),
            false => vec![0; 4 * detector.pixels()],
        }
    }
}

/// A flat field that changes nothing.
fn flatfield_bytes(detector: DetectorShape) -> Vec<u8> {
    1f32.to_le_bytes().repeat(detector.pixels())
}

impl SeriesFacts {
    /// The message that a series begins with, as full as `contents` ask for.
    ///
    /// The countrate table is the identity; the flat field is 1 everywhere.
    pub fn full_start(&self, version: Version, contents: &StartContents<'_>) -> WireMessage {
        match version {
            Version::V1 => self.full_start_v1(contents),
            Version::V2 => self.full_start_v2(contents),
        }
    }

    fn full_start_v1(&self, contents: &StartContents<'_>) -> WireMessage {
        let detail = match contents.detail {
            HeaderDetail::None => "none",
            HeaderDetail::Basic => "basic",
            HeaderDetail::All => "all",
        };
        let shape = [self.detector.cols, self.detector.rows];
        let text = |json: Value| json.to_string().into_bytes();
        let head = json!({ "header_detail": detail, "htype": "dheader-1.0", "series": self.id });
        let mut parts = vec![text(head)];
        if contents.detail != HeaderDetail::None {
            parts.push(text(Value::Object(contents.config.clone())));
        }
        if contents.detail == HeaderDetail::All {
            // two columns: what is counted, and what that means
            let table = (0..TABLE_ENTRIES).flat_map(|entry| (entry as f32).to_le_bytes());
            let table = table.collect::<Vec<u8>>().repeat(2);
            parts.extend([
                text(json!({ "htype": "dflatfield-1.0", "shape": shape, "type": "float32" })),
                flatfield_bytes(self.detector),
                text(json!({ "htype": "dpixelmask-1.0", "shape": shape, "type": "uint32" })),
                contents.mask_bytes(self.detector),
                text(json!({ "htype": "dcountrate_table-1.0", "shape": [2, TABLE_ENTRIES], "type": "float32" })),
                table,
            ]);
        }
        parts.extend(contents.appendix.map(|appendix| appendix.as_bytes().to_vec()));
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        WireMessage::new(&parts)
    }

    fn full_start_v2(&self, contents: &StartContents<'_>) -> WireMessage {
        let has_arrays = contents.detail == HeaderDetail::All;
        let pairs = 27 + if has_arrays { 3 } else { 0 } + u64::from(contents.appendix.is_some());
        let threshold = contents.number("threshold_energy");
        let per_channel = |encoder: &mut Encoder<Vec<u8>>, name: &str, tag: u64, bytes: &[u8]| -> Written {
            encoder.str(name)?.map(contents.channels.len() as u64)?;
            for channel in contents.channels {
                encoder.str(channel)?.tag(Tag::new(40))?.array(2)?.array(2)?;
                encoder.u64(self.detector.rows as u64)?.u64(self.detector.cols as u64)?;
                encoder.tag(Tag::new(tag))?.bytes(bytes)?;
            }
            Ok(())
        };
        cbor(12 * self.detector.pixels() + 8192, |encoder| {
            encoder.map(pairs)?.str("type")?.str("start")?;
            self.key_v2(encoder)?;
            encoder.str("arm_date")?.tag(Tag::new(0))?.str(contents.arm_date)?;
            encoder.str("beam_center_x")?.f64(contents.number("beam_center_x"))?;
            encoder.str("beam_center_y")?.f64(contents.number("beam_center_y"))?;
            encoder.str("channels")?.array(contents.channels.len() as u64)?;
            contents.channels.iter().try_for_each(|name| encoder.str(name)?.ok())?;
            encoder.str("count_time")?.f64(contents.number("count_time"))?;
            let corrected = contents.is_on("countrate_correction_applied");
            encoder.str("countrate_correction_enabled")?.bool(corrected)?;
            if has_arrays {
                let table: Vec<u8> = (0..TABLE_ENTRIES).flat_map(u32::to_le_bytes).collect();
                encoder.str("countrate_correction_lookup_table")?.tag(Tag::new(70))?.bytes(&table)?;
            }
            encoder.str("detector_description")?.str(contents.text("description"))?;
            encoder.str("detector_serial_number")?.str(contents.text("detector_number"))?;
            encoder.str("detector_translation")?.array(3)?.f64(0.0)?.f64(0.0)?.f64(0.0)?;
            if has_arrays {
                per_channel(encoder, "flatfield", 85, &flatfield_bytes(self.detector))?;
            }
            encoder.str("flatfield_enabled")?.bool(contents.is_on("flatfield_correction_applied"))?;
            encoder.str("frame_time")?.f64(contents.number("frame_time"))?;
            encoder.str("image_size_x")?.u64(self.detector.cols as u64)?;
            encoder.str("image_size_y")?.u64(self.detector.rows as u64)?;
            encoder.str("incident_energy")?.f64(self.incident_energy_ev)?;
            encoder.str("incident_wavelength")?.f64(contents.number("wavelength"))?;
            encoder.str("number_of_images")?.u64(self.num_images)?;
            if has_arrays {
                per_channel(encoder, "pixel_mask", 70, &contents.mask_bytes(self.detector))?;
            }
            encoder.str("pixel_mask_enabled")?.bool(contents.is_on("pixel_mask_applied"))?;
            encoder.str("pixel_size_x")?.f64(contents.number("x_pixel_size"))?;
            encoder.str("pixel_size_y")?.f64(contents.number("y_pixel_size"))?;
            encoder.str("saturation_value")?.u64(contents.whole("countrate_correction_count_cutoff"))?;
            encoder.str("sensor_material")?.str(contents.text("sensor_material"))?;
            encoder.str("sensor_thickness")?.f64(contents.number("sensor_thickness"))?;
            encoder.str("threshold_energy")?.map(1)?.str("threshold_1")?.f64(threshold)?;
            let interpolated = contents.is_on("virtual_pixel_correction_applied");
            encoder.str("virtual_pixel_interpolation_enabled")?.bool(interpolated)?;
            if let Some(appendix) = contents.appendix {
                encoder.str("user_data")?.str(appendix)?;
            }
            Ok(())
        })
    }
}
