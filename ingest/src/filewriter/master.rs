//! The master file: what the detector was, how it counted, and links to the data files.

use std::ops::Range;

use kernels::bslz4_decode::Encoding;
use kernels::types::{Kilovolts, Metres, electron_wavelength};

use super::FilewriterSettings;
use super::object::Node;
use super::value::Value;

/// A table of numbers, row-major.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MasterTable {
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Rows x columns numbers.
    pub numbers: Vec<f32>,
}

/// A value of the master that has no field of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum MasterValue {
    /// Written as u8, 0 or 1.
    Flag(bool),
    /// Written as u64.
    Whole(u64),
    /// Written as f64.
    Number(f64),
    /// Written as text of a fixed length.
    Text(String),
}

impl From<&MasterValue> for Value {
    fn from(value: &MasterValue) -> Self {
        match value {
            MasterValue::Flag(flag) => u8::from(*flag).into(),
            MasterValue::Whole(number) => (*number).into(),
            MasterValue::Number(number) => (*number).into(),
            MasterValue::Text(text) => text.as_str().into(),
        }
    }
}

/// What the master file says of the detector and the acquisition. The default is an ARINA that was never asked.
#[derive(Clone, Debug)]
pub struct MasterMetadata {
    /// Accelerating voltage; written as `incident_energy` (eV) and `incident_wavelength` (angstrom).
    pub voltage: Kilovolts,
    /// Centre of the direct beam, (row, col) in pixels.
    pub beam_centre: [f64; 2],
    /// `pixel_mask`, `[det_row][det_col]`: 0 good, 1 gap, 2 dead, 4 under-, 8 over-responding (bits). Empty means all good.
    pub pixel_mask: Vec<u32>,
    /// Whether masked pixels were replaced by the largest count.
    pub pixel_mask_applied: bool,
    /// Largest count that is not saturated.
    pub saturation_value: u32,
    /// Exposure of an image, in seconds.
    pub count_time_secs: f64,
    /// From image to image, in seconds.
    pub frame_time_secs: f64,
    /// `description`: the detector in words.
    pub description: String,
    /// `detector_number`: the serial number.
    pub detector_number: String,
    /// `eiger_fw_version`.
    pub firmware: String,
    /// `software_version` of whatever took the data.
    pub software: String,
    /// `data_collection_date`, as the detector writes it: `2026-11-01T00:00:00.000`.
    pub date: String,
    /// `trigger_mode`: `exts` is one trigger an image.
    pub trigger_mode: String,
    /// Images of a trigger; `ntrigger` is the number of images divided by it.
    pub images_per_trigger: u64,
    /// `sensor_material`.
    pub sensor_material: String,
    /// Thickness of the sensor.
    pub sensor_thickness: Metres,
    /// Width and height of a pixel.
    pub pixel_size: Metres,
    /// `threshold_energy`.
    pub threshold: Kilovolts,
    /// `flatfield`, `[det_row][det_col]`. Empty where it is not known: none is written then.
    pub flat_field: Vec<f32>,
    /// `flatfield_correction_applied`.
    pub flat_field_applied: bool,
    /// `countrate_correction_table`: observed and true rates.
    pub countrate_table: MasterTable,
    /// `countrate_correction_lookup_table`: the corrected count by the one that was counted.
    pub countrate_lookup: Vec<u32>,
    /// `countrate_correction_applied`.
    pub countrate_applied: bool,
    /// `virtual_pixel_correction_applied`.
    pub virtual_pixels_applied: bool,
    /// `detector_readout_time`, in seconds.
    pub readout_time_secs: f64,
    /// Members of `detectorSpecific` beyond those that are always there; one of a name that is there is left out.
    pub more: Vec<(String, MasterValue)>,
}

impl Default for MasterMetadata {
    fn default() -> Self {
        Self {
            voltage: Kilovolts(300.0),
            beam_centre: [0.0, 0.0],
            pixel_mask: Vec::new(),
            pixel_mask_applied: false,
            saturation_value: u32::from(u16::MAX),
            count_time_secs: 1e-5,
            frame_time_secs: 1e-5,
            description: "unknown".to_owned(),
            detector_number: "unknown".to_owned(),
            firmware: "unknown".to_owned(),
            software: concat!("sideband ", env!("CARGO_PKG_VERSION")).to_owned(),
            date: "1970-01-01T00:00:00.000".to_owned(),
            trigger_mode: "exts".to_owned(),
            images_per_trigger: 1,
            sensor_material: "Si".to_owned(),
            sensor_thickness: Metres(4.5e-4),
            pixel_size: Metres(1e-4),
            threshold: Kilovolts(75.0),
            flat_field: Vec::new(),
            flat_field_applied: false,
            countrate_table: MasterTable::default(),
            countrate_lookup: Vec::new(),
            countrate_applied: false,
            virtual_pixels_applied: false,
            readout_time_secs: 0.0,
            more: Vec::new(),
        }
    }
}

/// The root group of a master file: names and types of the detector's own `hdf5 nexus legacy nxmx` format.
pub(super) fn master(
    settings: &FilewriterSettings,
    num_images: u64,
    missing: &[Range<u64>],
    data_files: &[String],
) -> Node {
    let links = data_files
        .iter()
        .enumerate()
        .map(|(index, file)| Node::external(&format!("data_{:06}", index + 1), file, "/entry/data/data"))
        .collect();
    let mut entry = vec![
        Node::dataset("definition", "NXmx"),
        Node::group("data", "NXdata", links),
        Node::group(
            "instrument",
            "NXinstrument",
            vec![beam(&settings.metadata), detector_group(settings, num_images)],
        ),
    ];
    if !missing.is_empty() {
        entry.push(missing_images(missing));
    }
    Node::group("", "", vec![Node::group("entry", "NXentry", entry)]).with("default", "entry")
}

/// The group that says which images did not come: `missing_frames`, `[range][first, end]`, counted from 0, the end not
/// among them.
pub(super) fn missing_images(missing: &[Range<u64>]) -> Node {
    let num_missing: u64 = missing.iter().map(|range| range.end - range.start).sum();
    let list = Node::dataset("missing_frames", Value::ranges(missing)).with("num_missing", num_missing);
    Node::group("sideband", "NXcollection", vec![list])
}

fn beam(metadata: &MasterMetadata) -> Node {
    let wavelength_angstrom = electron_wavelength(metadata.voltage).0 * 1e10;
    let members = vec![
        Node::dataset("incident_energy", metadata.voltage.volts() as f32).with("units", "eV"),
        Node::dataset("incident_wavelength", wavelength_angstrom as f32).with("units", "angstrom"),
    ];
    Node::group("beam", "NXbeam", members)
}

fn detector_group(settings: &FilewriterSettings, num_images: u64) -> Node {
    let metadata = &settings.metadata;
    let in_unit =
        |name, value: f64, unit: &'static str| Node::dataset(name, value as f32).with("units", unit);
    let bits = settings.count_type.bytes() as u32 * 8;
    let excluded = metadata.pixel_mask.iter().filter(|&&flags| flags != 0).count();
    let members = vec![
        in_unit("beam_center_x", metadata.beam_centre[1], "pixel"),
        in_unit("beam_center_y", metadata.beam_centre[0], "pixel"),
        Node::dataset("bit_depth_image", bits),
        Node::dataset("bit_depth_readout", bits.min(16)),
        in_unit("count_time", metadata.count_time_secs, "s"),
        Node::dataset("countrate_correction_applied", u8::from(metadata.countrate_applied)),
        Node::dataset("description", metadata.description.as_str()),
        Node::dataset("detector_number", metadata.detector_number.as_str()),
        in_unit("detector_readout_time", metadata.readout_time_secs, "s"),
        Node::dataset("eiger_fw_version", metadata.firmware.as_str()),
        Node::dataset("flatfield_correction_applied", u8::from(metadata.flat_field_applied)),
        in_unit("frame_time", metadata.frame_time_secs, "s"),
        Node::dataset("number_of_excluded_pixels", u32::try_from(excluded).unwrap_or(u32::MAX)),
        Node::dataset("pixel_mask_applied", u8::from(metadata.pixel_mask_applied)),
        Node::dataset("saturation_value", metadata.saturation_value),
        Node::dataset("sensor_material", metadata.sensor_material.as_str()),
        in_unit("sensor_thickness", metadata.sensor_thickness.0, "m"),
        in_unit("threshold_energy", metadata.threshold.volts(), "eV"),
        Node::dataset("virtual_pixel_correction_applied", u8::from(metadata.virtual_pixels_applied)),
        in_unit("x_pixel_size", metadata.pixel_size.0, "m"),
        in_unit("y_pixel_size", metadata.pixel_size.0, "m"),
        detector_specific(settings, num_images),
    ];
    Node::group("detector", "NXdetector", members)
}

fn detector_specific(settings: &FilewriterSettings, num_images: u64) -> Node {
    let FilewriterSettings { metadata, detector, .. } = settings;
    let compression = match settings.encoding {
        Encoding::Bslz4 => "bslz4",
        Encoding::Lz4Framed | Encoding::Lz4Block => "lz4",
        Encoding::Raw => "none",
    };
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let no_mask = vec![0; detector.pixels()];
    let mask = if metadata.pixel_mask.is_empty() { &no_mask } else { &metadata.pixel_mask };
    let mut members = vec![
        Node::dataset("auto_summation", 0_u8),
        Node::dataset("compression", compression),
        Node::dataset("data_collection_date", metadata.date.as_str()),
        Node::dataset("incident_energy", metadata.voltage.volts() as f32),
        Node::dataset("nframes_sum", 1_u32),
        Node::dataset("nimages", small(metadata.images_per_trigger)),
        Node::dataset("nsequences", 1_u32),
        Node::dataset("ntrigger", small(num_images / metadata.images_per_trigger.max(1))),
        Node::dataset("pixel_mask", Value::image(mask, detector.rows, detector.cols)),
        Node::dataset("software_version", metadata.software.as_str()),
        Node::dataset("trigger_mode", metadata.trigger_mode.as_str()),
        Node::dataset("x_pixels_in_detector", small(detector.cols as u64)),
        Node::dataset("y_pixels_in_detector", small(detector.rows as u64)),
    ];
    if !metadata.flat_field.is_empty() {
        let dims = [detector.rows as u64, detector.cols as u64];
        members.push(Node::dataset("flatfield", Value::floats(&metadata.flat_field, &dims)));
    }
    let MasterTable { shape, numbers } = &metadata.countrate_table;
    if !numbers.is_empty() && shape[0].checked_mul(shape[1]) == Some(numbers.len()) {
        let dims = shape.map(|extent| extent as u64);
        members.push(Node::dataset("countrate_correction_table", Value::floats(numbers, &dims)));
    }
    if !metadata.countrate_lookup.is_empty() {
        let lookup = Value::row(&metadata.countrate_lookup);
        members.push(Node::dataset("countrate_correction_lookup_table", lookup));
    }
    for (name, value) in &metadata.more {
        if members.iter().all(|member| member.name() != name) {
            members.push(Node::dataset(name, value));
        }
    }
    Node::group("detectorSpecific", "NXcollection", members)
}
