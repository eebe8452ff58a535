//! What a master says of its acquisition. Firmware versions differ: every field is optional.

use kernels::types::{Kilovolts, Pixels};

use crate::hdf5::{File, Value};

const DETECTOR: &str = "/entry/instrument/detector";
const SPECIFIC: &str = "/entry/instrument/detector/detectorSpecific";
const BEAM: &str = "/entry/instrument/beam";

/// What a master says. Times in seconds, energies in eV, lengths in metres, as the filewriter writes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Energy of the incident beam, from `incident_energy` or `photon_energy` \[eV\].
    pub incident_energy_ev: Option<f64>,
    /// Counting time of a frame \[s\].
    pub count_time_secs: Option<f64>,
    /// From frame to frame \[s\].
    pub frame_time_secs: Option<f64>,
    /// Images a trigger.
    pub nimages: Option<u64>,
    /// Triggers.
    pub ntrigger: Option<u64>,
    /// `exts`, `ints`, ...
    pub trigger_mode: Option<String>,
    /// Bits of an image count.
    pub bit_depth_image: Option<u64>,
    /// Largest count that is not saturated.
    pub saturation_value: Option<u64>,
    /// Bad pixels, row-major, non-zero is bad, with its shape (rows, cols).
    pub pixel_mask: Option<([usize; 2], Vec<u32>)>,
    /// Whether the detector replaced masked pixels by the largest count.
    pub pixel_mask_applied: Option<bool>,
    /// Beam centre the operator set, (row, col).
    pub beam_centre: Option<[Pixels; 2]>,
    /// Width of a pixel \[m\].
    pub pixel_metres: Option<f64>,
    /// The detector's own description.
    pub description: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Version of the detector's software.
    pub software_version: Option<String>,
    /// Sensor material.
    pub sensor_material: Option<String>,
    /// Lower energy threshold \[eV\].
    pub threshold_energy_ev: Option<f64>,
    /// Date of the acquisition.
    pub date: Option<String>,
    /// Fields that are there and could not be read, and why.
    pub unreadable: Vec<String>,
}

/// Looks fields up, remembering what could not be read.
struct Fields<'a> {
    file: &'a File,
    unreadable: Vec<String>,
}

impl Fields<'_> {
    fn first(&mut self, places: &[(&str, &str)]) -> Option<Value> {
        self.first_as(places, Ok)
    }

    /// The first value that is there and that `convert` takes; why it does not take one is remembered.
    fn first_as<T>(
        &mut self,
        places: &[(&str, &str)],
        convert: impl Fn(Value) -> Result<T, String>,
    ) -> Option<T> {
        for (group, name) in places {
            let path = format!("{group}/{name}");
            let why = match self.file.value(&path) {
                Ok(Some(value)) => match convert(value) {
                    Ok(converted) => return Some(converted),
                    Err(why) => why,
                },
                Ok(None) => continue,
                Err(error) => error.to_string(),
            };
            self.unreadable.push(format!("{path}: {why}"));
        }
        None
    }

    fn number(&mut self, places: &[(&str, &str)]) -> Option<f64> {
        self.first(places)?.number().filter(|number| number.is_finite())
    }

    fn unsigned(&mut self, places: &[(&str, &str)]) -> Option<u64> {
        self.first(places)?.unsigned()
    }

    fn text(&mut self, places: &[(&str, &str)]) -> Option<String> {
        self.first(places)?.text().map(str::to_owned).filter(|text| !text.is_empty())
    }
}

impl Metadata {
    pub(super) fn read(file: &File) -> Self {
        let mut fields = Fields { file, unreadable: Vec::new() };
        let energy = [
            (BEAM, "incident_energy"),
            (SPECIFIC, "incident_energy"),
            (SPECIFIC, "photon_energy"),
            (DETECTOR, "photon_energy"),
        ];
        let beam_row = fields.number(&[(DETECTOR, "beam_center_y")]);
        let beam_col = fields.number(&[(DETECTOR, "beam_center_x")]);
        Self {
            incident_energy_ev: fields.number(&energy).filter(|&ev| ev > 0.0),
            count_time_secs: fields.number(&[(DETECTOR, "count_time")]),
            frame_time_secs: fields.number(&[(DETECTOR, "frame_time")]),
            nimages: fields.unsigned(&[(SPECIFIC, "nimages")]),
            ntrigger: fields.unsigned(&[(SPECIFIC, "ntrigger")]),
            trigger_mode: fields.text(&[(SPECIFIC, "trigger_mode"), (DETECTOR, "trigger_mode")]),
            bit_depth_image: fields.unsigned(&[(DETECTOR, "bit_depth_image"), (SPECIFIC, "bit_depth_image")]),
            saturation_value: fields
                .unsigned(&[(DETECTOR, "saturation_value"), (SPECIFIC, "countrate_correction_count_cutoff")]),
            pixel_mask: fields
                .first_as(&[(SPECIFIC, "pixel_mask"), (DETECTOR, "pixel_mask")], |value| pixel_mask(&value)),
            pixel_mask_applied: fields
                .unsigned(&[(DETECTOR, "pixel_mask_applied"), (SPECIFIC, "pixel_mask_applied")])
                .map(|applied| applied != 0),
            beam_centre: beam_row.zip(beam_col).map(|(row, col)| [Pixels(row), Pixels(col)]),
            pixel_metres: fields.number(&[(DETECTOR, "x_pixel_size")]),
            description: fields.text(&[(DETECTOR, "description")]),
            serial: fields.text(&[(DETECTOR, "detector_number"), (DETECTOR, "serial_number")]),
            software_version: fields.text(&[(SPECIFIC, "software_version"), (SPECIFIC, "eiger_fw_version")]),
            sensor_material: fields.text(&[(DETECTOR, "sensor_material")]),
            threshold_energy_ev: fields.number(&[(DETECTOR, "threshold_energy")]),
            date: fields.text(&[(SPECIFIC, "data_collection_date")]),
            unreadable: fields.unreadable,
        }
    }

    /// Frames the detector was armed for: images x triggers.
    pub fn frames(&self) -> Option<u64> {
        let frames = self.nimages?.checked_mul(self.ntrigger.unwrap_or(1))?;
        // "Continuous" series are armed for thousands of millions and aborted; that says nothing of this one.
        (frames > 0 && frames < 1 << 31).then_some(frames)
    }

    /// The accelerating voltage: electrons carry the beam's energy.
    pub fn voltage(&self) -> Option<Kilovolts> {
        self.incident_energy_ev.map(|ev| Kilovolts(ev * 1e-3))
    }

    /// Number of pixels the mask names.
    pub fn masked_pixels(&self) -> Option<u64> {
        self.pixel_mask.as_ref().map(|(_, mask)| mask.iter().filter(|&&value| value != 0).count() as u64)
    }
}

fn pixel_mask(value: &Value) -> Result<([usize; 2], Vec<u32>), String> {
    let axis = |axis: u64| usize::try_from(axis).ok();
    let shape = match *value.shape() {
        [rows, cols] => axis(rows).zip(axis(cols)).map(|(rows, cols)| [rows, cols]),
        _ => None,
    };
    let (kind, mask) = match value {
        Value::Unsigned { elements, .. } => {
            ("whole numbers", Some(elements.iter().map(|&value| flags(value)).collect()))
        }
        Value::Signed { elements, .. } => {
            ("whole numbers", Some(elements.iter().map(|&value| flags(value)).collect()))
        }
        Value::Float { .. } => ("floating point", None),
        Value::Text { .. } => ("text", None),
    };
    shape
        .zip(mask)
        .ok_or_else(|| format!("{kind} of shape {:?}, expected whole numbers, rows x cols", value.shape()))
}

/// What the mask says of a pixel; a value that 32 bits do not hold is not zero: bad.
fn flags(value: impl TryInto<u32>) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
