//! From an opened file set to the findings, and to the sources a run's optics are resolved from.

use ingest::dectris::{FileSet, SideCar};
use kernels::types::{Item, ScanShape};

use super::{DataFile, Detector, Exposure, Inspection, Triggers, Verdict};
use crate::open::{data_file_note, resolve_for};
use crate::optics::{OpticsRequest, OpticsValues, Provenance, Source, line_note};
use crate::report::MissingFrames;

/// What the files of a set say of the microscope: the master, then each side-car.
///
/// Triggers x images a trigger are scan lines x positions a line when both are more than one. A side-car's scan
/// rotation turns the scan on the sample, not the detector to the scan: it is not used.
pub fn recorded_sources(set: &FileSet) -> Vec<Source> {
    let mut sources = vec![Source {
        provenance: Provenance::File,
        place: file_name(&set.master),
        values: OpticsValues {
            voltage: set.metadata.voltage(),
            scan_shape: lines_and_points(set.metadata.ntrigger, set.metadata.nimages),
            ..OpticsValues::default()
        },
    }];
    sources.extend(set.side_cars.iter().map(|side_car| Source {
        provenance: Provenance::SideCar,
        place: file_name(&side_car.path),
        values: OpticsValues {
            voltage: side_car.voltage,
            scan_step: side_car.scan_step.map(|step| [step; 2]),
            scan_shape: side_car.scan_shape,
            ..OpticsValues::default()
        },
    }));
    sources
}

fn lines_and_points(triggers: Option<u64>, images: Option<u64>) -> Option<ScanShape> {
    let more_than_one = |number: Option<u64>| usize::try_from(number?).ok().filter(|number| *number > 1);
    Some(ScanShape { rows: more_than_one(triggers)?, cols: more_than_one(images)? })
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl Inspection {
    /// Inspects an opened set; `request` is what a run would be told.
    pub fn of(set: &FileSet, request: &OpticsRequest) -> Self {
        let said = &set.metadata;
        let frames_present = set.frames_present();
        let resolution = resolve_for(set, request);
        let mut run = Verdict::of(&resolution, set.frames_expected, frames_present);
        run.notes.splice(0..0, data_file_note(&set.master));
        if let Ok(optics) = &resolution {
            run.notes.extend(line_note(&optics.geometry, said.ntrigger, said.nimages));
        }
        run.notes.extend(said.unreadable.iter().map(|what| format!("cannot be read: {what}")));
        let gaps = set
            .runs()
            .iter()
            .filter_map(|item| match item {
                Item::Gap(gap) => Some(MissingFrames::from(gap)),
                Item::Data(_) => None,
            })
            .collect();
        Self {
            master: set.master.clone(),
            detector: Detector {
                description: said.description.clone(),
                serial: said.serial.clone(),
                shape: [set.detector.rows, set.detector.cols],
                count_type: set.count_type.to_string(),
                encoding: set.encoding.to_string(),
                pixel_um: said.pixel_metres.map(|metres| metres * 1e6),
            },
            exposure: Exposure {
                count_time_secs: said.count_time_secs,
                frame_time_secs: said.frame_time_secs,
            },
            energy_kev: said.incident_energy_ev.map(|ev| ev * 1e-3),
            beam_centre_px: said.beam_centre.map(|centre| centre.map(|px| px.0)),
            triggers: Triggers { triggers: said.ntrigger, images_a_trigger: said.nimages },
            masked_pixels: said.masked_pixels(),
            pixel_mask_applied: said.pixel_mask_applied,
            frames_expected: set.frames_expected,
            frames_present,
            compressed_bytes: set.compressed_bytes(),
            gaps,
            data_files: set
                .files
                .iter()
                .map(|file| DataFile {
                    path: file.path.clone(),
                    first: file.first,
                    frames: file.num_frames,
                    frames_present: file.frames_present(),
                    problem: file.problem.clone(),
                })
                .collect(),
            side_cars: set.side_cars.iter().map(told).collect(),
            run,
        }
    }
}

/// A side-car as it is shown.
fn told(side_car: &SideCar) -> super::SideCar {
    let mut says = Vec::new();
    says.extend(side_car.scan_shape.map(|shape| format!("scan shape {shape}")));
    says.extend(side_car.scan_step.map(|step| format!("scan step {step}")));
    says.extend(side_car.voltage.map(|voltage| format!("voltage {voltage}")));
    says.extend(side_car.dwell.map(|dwell| format!("dwell time {dwell} (unit not stated)")));
    says.extend(side_car.scan_rotation.map(|rotation| format!("scan rotation {rotation} (not used)")));
    says.extend(side_car.camera_length.map(|length| format!("camera length {length} (unit not stated)")));
    super::SideCar { path: side_car.path.clone(), says, problem: side_car.problem.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_and_images_are_a_scan_shape_only_when_both_are_more_than_one() {
        assert_eq!(lines_and_points(Some(64), Some(48)), Some(ScanShape { rows: 64, cols: 48 }));
        for (triggers, images) in
            [(Some(4096), Some(1)), (Some(1), Some(4096)), (None, Some(64)), (Some(0), Some(2))]
        {
            assert_eq!(lines_and_points(triggers, images), None);
        }
    }
}
