//! The master file: what the detector was, how it counted, and links to the data files.

use kernels::types::{CountType, DetectorShape, Kilovolts, Metres, electron_wavelength};

use super::object::Node;
use super::value::Value;

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
        }
    }
}

/// The root group of a master file: names and types of the detector's own `hdf5 nexus legacy nxmx` format.
pub(super) fn master(
    metadata: &MasterMetadata,
    detector: DetectorShape,
    count_type: CountType,
    num_images: u64,
    data_files: &[String],
) -> Node {
    let links = data_files
        .iter()
        .enumerate()
        .map(|(index, file)| Node::external(&format!("data_{:06}", index + 1), file, "/entry/data/data"))
        .collect();
    let entry = vec![
        Node::dataset("definition", "NXmx"),
        Node::group("data", "NXdata", links),
        Node::group(
            "instrument",
            "NXinstrument",
            vec![beam(metadata), detector_group(metadata, detector, count_type, num_images)],
        ),
    ];
    Node::group("", "", vec![Node::group("entry", "NXentry", entry)]).with("default", "entry")
}

fn beam(metadata: &MasterMetadata) -> Node {
    let wavelength_angstrom = electron_wavelength(metadata.voltage).0 * 1e10;
    let members = vec![
        Node::dataset("incident_energy", metadata.voltage.volts() as f32).with("units", "eV"),
        Node::dataset("incident_wavelength", wavelength_angstrom as f32).with("units", "angstrom"),
    ];
    Node::group("beam", "NXbeam", members)
}

fn detector_group(
    metadata: &MasterMetadata,
    detector: DetectorShape,
    count_type: CountType,
    num_images: u64,
) -> Node {
    let in_unit =
        |name, value: f64, unit: &'static str| Node::dataset(name, value as f32).with("units", unit);
    let bits = count_type.bytes() as u32 * 8;
    let excluded = metadata.pixel_mask.iter().filter(|&&flags| flags != 0).count();
    let members = vec![
        in_unit("beam_center_x", metadata.beam_centre[1], "pixel"),
        in_unit("beam_center_y", metadata.beam_centre[0], "pixel"),
        Node::dataset("bit_depth_image", bits),
        Node::dataset("bit_depth_readout", bits.min(16)),
        in_unit("count_time", metadata.count_time_secs, "s"),
        Node::dataset("countrate_correction_applied", 0_u8),
        Node::dataset("description", metadata.description.as_str()),
        Node::dataset("detector_number", metadata.detector_number.as_str()),
        in_unit("detector_readout_time", 0.0, "s"),
        Node::dataset("eiger_fw_version", metadata.firmware.as_str()),
        Node::dataset("flatfield_correction_applied", 0_u8),
        in_unit("frame_time", metadata.frame_time_secs, "s"),
        Node::dataset("number_of_excluded_pixels", u32::try_from(excluded).unwrap_or(u32::MAX)),
        Node::dataset("pixel_mask_applied", u8::from(metadata.pixel_mask_applied)),
        Node::dataset("saturation_value", metadata.saturation_value),
        Node::dataset("sensor_material", metadata.sensor_material.as_str()),
        in_unit("sensor_thickness", metadata.sensor_thickness.0, "m"),
        in_unit("threshold_energy", metadata.threshold.volts(), "eV"),
        Node::dataset("virtual_pixel_correction_applied", 0_u8),
        in_unit("x_pixel_size", metadata.pixel_size.0, "m"),
        in_unit("y_pixel_size", metadata.pixel_size.0, "m"),
        detector_specific(metadata, detector, num_images),
    ];
    Node::group("detector", "NXdetector", members)
}

fn detector_specific(metadata: &MasterMetadata, detector: DetectorShape, num_images: u64) -> Node {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let no_mask = vec![0; detector.pixels()];
    let mask = if metadata.pixel_mask.is_empty() { &no_mask } else { &metadata.pixel_mask };
    let members = vec![
        Node::dataset("auto_summation", 0_u8),
        Node::dataset("compression", "bslz4"),
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
    Node::group("detectorSpecific", "NXcollection", members)
}
