//! What is exported are the bytes of the stream, and what is missing is seen to be missing.

use std::process::Command;
use std::sync::atomic::AtomicBool;

use kernels::Cpu;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{FrameBatch, GapReason, Item, Kilovolts, ScanShape};

use super::*;
use crate::counters::IngestCounters;
use crate::decode::DecodeStage;
use crate::dectris::FileSet;
use crate::filewriter::{Existing, FilewriterError};
use crate::raw::RawBatch;
use crate::source::FileSource;
use crate::stream::series::OwnedKey;

/// Writes past the capture of the test harness, which hides what a test prints that passes.
fn not_run(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "not run: {why}");
}

/// Runs a python script with arguments, where there is a python to run it.
fn python(script: &str, arguments: &[&str]) {
    let Some(python) = std::env::var_os("SIDEBAND_PYTHON") else {
        return not_run("SIDEBAND_PYTHON is not set");
    };
    let output = Command::new(python).arg("-c").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The counts of a frame of 16 x 32 pixels.
fn counts(number: u64) -> Vec<u16> {
    (0..512).map(|pixel| ((pixel * pixel + 31 * number) % 1009) as u16).collect()
}

fn chunk(number: u64) -> Vec<u8> {
    let mut chunk = Vec::new();
    encode_bslz4(&counts(number), &mut chunk);
    chunk
}

fn image(facts: &SeriesFacts, version: Version, number: u64) -> WireMessage {
    facts.image(version, number, &chunk(number))
}

fn key(facts: &SeriesFacts, version: Version) -> LogKey {
    let unique_id = (version == Version::V2).then(|| facts.unique_id.clone());
    OwnedKey { id: facts.id, unique_id }.into()
}

/// Records messages into `log` below a folder.
fn log_of(folder: &Path, messages: &[WireMessage]) -> std::path::PathBuf {
    let log = folder.join("log");
    record(settings(&log), slabs(messages, 20_000), &Arc::default());
    log
}

/// The chunks of a set, in the order of its frames.
fn chunks(set: &FileSet) -> Vec<Vec<u8>> {
    let (raw, raw_in) = bounded(10_000);
    FileSource::new(set.runs(), 1, Arc::new(AtomicBool::new(false))).run(raw);
    let batches = raw_in.iter().map(|item| match item {
        Item::Data(batch) => batch,
        Item::Gap(gap) => panic!("{gap:?}"),
    });
    batches.flat_map(|batch: RawBatch| batch.frames().map(<[u8]>::to_vec).collect::<Vec<_>>()).collect()
}

#[test]
fn the_chunks_of_a_set_are_the_frames_of_the_stream_in_order() {
    for version in [Version::V1, Version::V2] {
        let dir = tempfile::tempdir().unwrap();
        let (facts, other) = (facts(4, 40), facts(5, 3));
        let mut messages = vec![facts.start(version)];
        // in disorder, one doubled, another series in between
        messages.extend((0..40).map(|at| image(&facts, version, at * 7 % 40)));
        messages.insert(9, image(&other, version, 1));
        messages.insert(30, image(&facts, version, 7));
        messages.push(image(&facts, version, 40));
        let log = log_of(dir.path(), &messages);
        let out = dir.path().join("out");
        let scan = Some(ScanShape { rows: 5, cols: 8 });
        let settings = ExportSettings { images_per_file: 16, scan, ..ExportSettings::new("scan_1") };
        let summary = export_series(&log, &key(&facts, version), &out, &settings).unwrap();
        assert_eq!((summary.frames, summary.doubled, summary.unfit), (40, 1, 1));
        assert_eq!((summary.num_images, summary.missing.len()), (Some(40), 0));
        assert_eq!(summary.set.data_files.len(), 3);
        let set = FileSet::open(&summary.set.master).unwrap();
        assert_eq!((set.detector, set.count_type), (facts.detector, facts.count_type));
        assert_eq!((set.frames_expected, set.frames_present()), (40, 40));
        assert_eq!(set.side_cars.len(), 1);
        assert_eq!((set.side_cars[0].scan_shape, &set.side_cars[0].problem), (scan, &None));
        assert!(chunks(&set) == (0..40).map(chunk).collect::<Vec<_>>());
        let script = r#"
import sys, numpy as np, h5py, hdf5plugin
pixel = np.arange(512, dtype=np.int64)
with h5py.File(sys.argv[1], "r") as h:
    frames = np.concatenate([h["entry/data"][key][...] for key in sorted(h["entry/data"])])
    assert frames.dtype == np.uint16 and frames.shape == (40, 16, 32)
    for number, frame in enumerate(frames):
        assert (frame.ravel() == (pixel * pixel + 31 * number) % 1009).all(), number
with h5py.File(sys.argv[2], "r") as h:
    scan = h["electron_microscope/scan_controller/regular_scan"]
    assert (scan["n_pixels_y"][()], scan["n_pixels_x"][()]) == (5, 8)
"#;
        let side_car = summary.side_car.unwrap();
        python(script, &[summary.set.master.to_str().unwrap(), side_car.to_str().unwrap()]);
        let again = export_series(&log, &key(&facts, version), &out, &settings).unwrap_err();
        assert!(matches!(again, RecordError::Filewriter(FilewriterError::Exists { .. })), "{again}");
        let settings = ExportSettings { existing: Existing::Replace, ..settings };
        export_series(&log, &key(&facts, version), &out, &settings).unwrap();
    }
}

/// Frames that a set gives, and the numbers of those that are gaps in it.
fn decoded(set: &FileSet) -> (Vec<Option<Vec<u16>>>, Vec<GapReason>) {
    let (raw, raw_in) = bounded(1000);
    let (frames, frames_in) = bounded(1000);
    FileSource::new(set.runs(), 1, Arc::new(AtomicBool::new(false))).run(raw);
    let counters = Arc::new(IngestCounters::default());
    DecodeStage::<FrameBatch<Cpu>>::new(Cpu, counters).run(raw_in, frames).unwrap();
    let (mut came, mut reasons) = (Vec::new(), Vec::new());
    for item in frames_in {
        match item {
            Item::Data(batch) => {
                assert_eq!(batch.first, came.len() as u64);
                let kernels::types::CountBuffer::U16(counts) = &batch.counts else { panic!() };
                came.extend(counts.chunks(512).map(|frame| Some(frame.to_vec())));
            }
            Item::Gap(gap) => {
                assert_eq!(gap.first, came.len() as u64);
                came.resize(came.len() + gap.count as usize, None);
                reasons.push(gap.reason);
            }
        }
    }
    (came, reasons)
}

#[test]
fn missing_frames_are_gaps_of_the_set_or_zeros_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let facts = facts(4, 50);
    // the first two, some in the middle; the series was not finished
    let is_there = |number: &u64| !(0..2).contains(number) && !(10..13).contains(number) && *number != 30;
    let mut messages = vec![facts.start(Version::V1)];
    messages.extend((0..45).filter(is_there).map(|number| image(&facts, Version::V1, number)));
    let log = log_of(dir.path(), &messages);
    let key = key(&facts, Version::V1);
    let export = |name: &str, missing| {
        let settings = ExportSettings { missing, images_per_file: 20, ..ExportSettings::new(name) };
        export_series(&log, &key, dir.path(), &settings)
    };
    let refused = export("none", MissingFrames::Refuse).unwrap_err().to_string();
    assert_eq!(refused, "series 4: 11 frames are missing, the first is 0");

    let missing = [0..2, 10..13, 30..31, 45..50];
    let summary = export("holes", MissingFrames::Hole).unwrap();
    assert_eq!((&summary.missing[..], &summary.set.missing[..]), (&missing[..], &missing[..]));
    assert_eq!((summary.frames, summary.num_images, summary.set.num_images), (39, Some(50), 50));
    let set = FileSet::open(&summary.set.master).unwrap();
    assert_eq!((set.frames_expected, set.frames_present(), set.side_cars.len()), (50, 39, 0));
    let problems: Vec<_> = set.files.iter().map(|file| file.problem.as_deref().unwrap_or_default()).collect();
    let never = |so_many, of| format!("{so_many} of {of} frames were never written");
    assert_eq!(problems, [never(5, 20), never(1, 20), never(5, 10)]);
    let (came, reasons) = decoded(&set);
    let is_there = |number: &u64| *number < 45 && is_there(number);
    let expected: Vec<_> = (0..50).map(|number| is_there(&number).then(|| counts(number))).collect();
    assert!(came == expected);
    assert!(reasons.len() >= 4, "{reasons:?}");
    let script = r#"
import sys, numpy as np, h5py, hdf5plugin
missing = [0, 1, 10, 11, 12, 30, 45, 46, 47, 48, 49]
listed = [[0, 2], [10, 13], [30, 31], [45, 50]]
with h5py.File(sys.argv[1], "r") as h:
    keys = sorted(h["entry/data"])
    frames = np.concatenate([h["entry/data"][key][...] for key in keys])
    assert frames.shape == (50, 16, 32) and not frames[missing].any()
    pixel = np.arange(512, dtype=np.int64)
    for number in set(range(50)) - set(missing):
        assert (frames[number].ravel() == (pixel * pixel + 31 * number) % 1009).all(), number
    assert sum(h["entry/data"][key].id.get_num_chunks() for key in keys) == 39
    assert h["entry/sideband/missing_frames"][...].tolist() == listed
    assert h["entry/sideband/missing_frames"].attrs["num_missing"] == 11
with h5py.File(sys.argv[2], "r") as h:
    assert list(h) == ["sideband"] and h["sideband/missing_frames"][...].tolist() == listed
"#;
    let side_car = summary.side_car.unwrap();
    python(script, &[summary.set.master.to_str().unwrap(), side_car.to_str().unwrap()]);

    let summary = export("zeros", MissingFrames::Zeros).unwrap();
    assert_eq!((&summary.missing[..], summary.set.missing.len()), (&missing[..], 0));
    let (came, reasons) = decoded(&FileSet::open(&summary.set.master).unwrap());
    let expected: Vec<_> = expected.into_iter().map(|frame| frame.or_else(|| Some(vec![0; 512]))).collect();
    assert!(came == expected && reasons.is_empty());
}

#[test]
fn what_cannot_be_a_set_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (v1, v2) = (Version::V1, Version::V2);
    let mut messages = vec![facts(1, 5).start(v1)];
    let raw = SeriesFacts { encoding: Encoding::Raw, ..facts(2, 5) };
    messages.extend([raw.start(v1), raw.image(v1, 0, &[7; 1023])]);
    messages.extend([image(&facts(3, 5), v2, 1 << 40)]);
    // one frame that is fit among others that are not
    let unlike = SeriesFacts { count_type: CountType::U32, ..facts(4, 5) };
    messages.extend([image(&facts(4, 5), v1, 0), image(&unlike, v1, 1), facts(4, 5).image(v1, 2, &[0; 40])]);
    let log = log_of(dir.path(), &messages);
    let out = dir.path().join("out");
    let export =
        |id, version| export_series(&log, &key(&facts(id, 5), version), &out, &ExportSettings::new("set"));
    for (id, version, why) in [
        (1, v1, "the log has no frame of it"),
        (9, v1, "the log has no frame of it"),
        (2, v1, "the log has no frame of it"),
        (3, v2, "1099511627776 frames are missing, expected at most 65552"),
    ] {
        let refused = export(id, version).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
        assert!(!out.exists());
    }
    let summary = export(4, v1).unwrap();
    assert_eq!((summary.frames, summary.unfit, summary.missing.len()), (1, 2, 0));
}

#[test]
fn a_series_armed_for_far_more_than_came_ends_with_the_last_that_came() {
    let dir = tempfile::tempdir().unwrap();
    let facts = facts(4, 2_000_000_000);
    let mut messages = vec![facts.start(Version::V2)];
    messages.extend([0, 1, 3].map(|number| image(&facts, Version::V2, number)));
    let log = log_of(dir.path(), &messages);
    let settings = ExportSettings::new("set");
    let summary = export_series(&log, &key(&facts, Version::V2), dir.path(), &settings).unwrap();
    assert_eq!((summary.set.num_images, &summary.missing[..]), (4, std::slice::from_ref(&(2..3))));
    assert_eq!(summary.num_images, Some(2_000_000_000));
}

mod packings;

/// A start of stream v1 with everything, and one of stream v2.
fn full_starts() -> [WireMessage; 2] {
    let config = serde_json::json!({
        "nimages": 1, "ntrigger": 6, "x_pixels_in_detector": 32, "y_pixels_in_detector": 16,
        "photon_energy": 200_000.0, "frame_time": 1e-4, "count_time": 9e-5, "beam_center_x": 15.5,
        "beam_center_y": 7.25, "x_pixel_size": 1e-4, "y_pixel_size": 1e-4, "threshold_energy": 17_500.0,
        "countrate_correction_count_cutoff": 8352, "detector_number": "E-08-0111", "description": "ARINA CZT",
        "sensor_material": "CdTe", "sensor_thickness": 1.5e-3, "trigger_mode": "exts",
        "pixel_mask_applied": true, "eiger_fw_version": "release-2024.1", "software_version": "1.8.0",
        "auto_summation": true, "flatfield_correction_applied": true, "frame_count_time": 4.5e-5, "element": "",
        "detector_readout_time": 1e-7, "roi_mode": "disabled", "detector_translation": [0, 0, 1], "no name": 1,
    });
    let mask: Vec<u8> = (0..512_u32).flat_map(|pixel| (u32::from(pixel == 77) * 2).to_le_bytes()).collect();
    let blob = r#"{"htype":"dblob","shape":[32,16],"type":"uint32"}"#;
    let float = blob.replace("uint32", "float32");
    let flat: Vec<u8> = (0..512_u16).flat_map(|pixel| (1.0 + f32::from(pixel)).to_le_bytes()).collect();
    let v1 = WireMessage::new(&[
        br#"{"htype":"dheader-1.0","series":6,"header_detail":"all"}"#,
        config.to_string().as_bytes(),
        float.as_bytes(),
        &flat,
        blob.as_bytes(),
        &mask,
        br#"{"htype":"dcountrate_table-1.0","shape":[2,3],"type":"float32"}"#,
        &flat[..24],
        br#"{"sample": "STO"}"#,
    ]);
    let mut encoder = minicbor::Encoder::new(Vec::new());
    let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
        encoder.map(25)?.str("type")?.str("start")?.str("series_id")?.u64(6)?;
        encoder.str("series_unique_id")?.str(&facts(6, 6).unique_id)?;
        encoder
            .str("number_of_images")?
            .u64(6)?
            .str("image_size_x")?
            .u64(32)?
            .str("image_size_y")?
            .u64(16)?;
        encoder.str("incident_energy")?.f64(200_000.0)?.str("frame_time")?.f64(1e-4)?;
        encoder
            .str("count_time")?
            .f64(9e-5)?
            .str("beam_center_x")?
            .f64(15.5)?
            .str("beam_center_y")?
            .f64(7.25)?;
        encoder
            .str("pixel_size_x")?
            .f64(1e-4)?
            .str("pixel_size_y")?
            .f64(1e-4)?
            .str("saturation_value")?
            .u64(8352)?;
        encoder
            .str("detector_serial_number")?
            .str("E-08-0111")?
            .str("detector_description")?
            .str("ARINA CZT")?;
        encoder
            .str("threshold_energy")?
            .map(2)?
            .str("threshold_1")?
            .f64(17_500.0)?
            .str("threshold_2")?
            .f64(4e4)?;
        encoder.str("pixel_mask")?.map(1)?.str("threshold_1")?.tag(minicbor::data::Tag::new(40))?.array(2)?;
        encoder.array(2)?.u64(16)?.u64(32)?.tag(minicbor::data::Tag::new(70))?.bytes(&mask)?;
        encoder.str("flatfield")?.map(2)?.str("threshold_2")?.null()?.str("threshold_1")?;
        encoder.tag(minicbor::data::Tag::new(40))?.array(2)?.array(2)?.u64(16)?.u64(32)?;
        encoder.tag(minicbor::data::Tag::new(85))?.bytes(&flat)?.str("flatfield_enabled")?.bool(true)?;
        encoder.str("countrate_correction_lookup_table")?.tag(minicbor::data::Tag::new(70))?.bytes(&mask)?;
        encoder.str("arm_date")?.tag(minicbor::data::Tag::new(0))?.str("2023-10-03T17:47:49.434+02:00")?;
        encoder.str("detector_translation")?.array(1)?.f64(0.5)?.str("element")?.str("")?;
        encoder.str("user_data")?.str(r#"{"sample": "STO"}"#)?;
        Ok(())
    };
    write().unwrap();
    [v1, WireMessage::new(&[&encoder.into_writer()])]
}

#[test]
fn the_master_says_what_the_start_said_and_nothing_that_was_not_said() {
    for (start, version) in full_starts().into_iter().zip([Version::V1, Version::V2]) {
        let dir = tempfile::tempdir().unwrap();
        let facts = facts(6, 6);
        let mut messages = vec![start];
        messages.extend((0..6).map(|number| image(&facts, version, number)));
        let log = log_of(dir.path(), &messages);
        let export = |settings: &ExportSettings| {
            let summary = export_series(&log, &key(&facts, version), dir.path(), settings).unwrap();
            FileSet::open(&summary.set.master).unwrap().metadata
        };
        let told = export(&ExportSettings::new("set"));
        let near = |value: Option<f64>, expected: f64| (value.unwrap() / expected - 1.0).abs() < 1e-6;
        assert!(near(told.incident_energy_ev, 200_000.0) && near(told.threshold_energy_ev, 17_500.0));
        assert!(near(told.frame_time_secs, 1e-4) && near(told.count_time_secs, 9e-5));
        assert!(near(told.pixel_metres, 1e-4));
        let centre = told.beam_centre.unwrap();
        assert_eq!((centre[0].0, centre[1].0), (7.25, 15.5));
        assert_eq!((told.nimages, told.ntrigger, told.saturation_value), (Some(1), Some(6), Some(8352)));
        assert_eq!(
            (told.serial.unwrap(), told.description.unwrap()),
            ("E-08-0111".into(), "ARINA CZT".into())
        );
        let (shape, mask) = told.pixel_mask.unwrap();
        let bad: Vec<_> = (0..512).filter(|&pixel| mask[pixel] != 0).collect();
        assert_eq!((shape, bad), ([16, 32], vec![77]));
        let date = told.date.unwrap();
        assert!(date.len() == 23 && date.as_str() > "2020", "{date}");
        if version == Version::V1 {
            assert_eq!(
                (told.sensor_material.as_deref(), told.pixel_mask_applied),
                (Some("CdTe"), Some(true))
            );
            assert_eq!(told.trigger_mode.as_deref(), Some("exts"));
        }
        let script = r#"
import sys, numpy as np, h5py
with h5py.File(sys.argv[1], "r") as h:
    d = h["entry/instrument/detector"]
    s = d["detectorSpecific"]
    assert (s["flatfield"][...] == 1 + np.arange(512, dtype="f4").reshape(16, 32)).all() and s["flatfield"].dtype == "f4"
    assert d["flatfield_correction_applied"][()] == 1 and s["header_appendix"][()] == b'{"sample": "STO"}'
    assert s["element"][()] == b"" and "detector_translation" not in s and "no name" not in s
    if sys.argv[2] == "V1":
        assert s["countrate_correction_table"][...].tolist() == [[1, 2], [3, 4], [5, 6]]
        assert s["frame_count_time"][()] == 4.5e-5 and s["roi_mode"][()] == b"disabled"
        assert s["software_version"][()] == b"1.8.0" and d["detector_readout_time"][()] == np.float32(1e-7)
    else:
        lookup = s["countrate_correction_lookup_table"]
        assert lookup.shape == (512,) and lookup[77] == 2 and lookup[...].sum() == 2
        assert s["arm_date"][()] == b"2023-10-03T17:47:49.434+02:00"
"#;
        python(script, &[dir.path().join("set_master.h5").to_str().unwrap(), &format!("{version:?}")]);
        let voltage = Some(Kilovolts(80.0));
        let told = export(&ExportSettings { voltage, ..ExportSettings::new("better") });
        assert_eq!(told.incident_energy_ev, Some(80_000.0));
    }
    let dir = tempfile::tempdir().unwrap();
    let facts = facts(6, 6);
    let log = log_of(dir.path(), &[image(&facts, Version::V1, 0)]);
    let summary =
        export_series(&log, &key(&facts, Version::V1), dir.path(), &ExportSettings::new("late")).unwrap();
    let told = FileSet::open(&summary.set.master).unwrap().metadata;
    assert_eq!((told.incident_energy_ev, told.trigger_mode.as_deref()), (None, Some("unknown")));
    assert_eq!((summary.num_images, told.saturation_value), (None, Some(65_535)));
}

#[test]
fn the_golden_acquisition_comes_out_of_a_log_byte_for_byte() {
    let Some(data) = std::env::var_os("SIDEBAND_GOLDENS") else {
        return not_run("SIDEBAND_GOLDENS is not set");
    };
    let golden = FileSet::open(&Path::new(&data).join("sto-small/sto-small_master.h5")).unwrap();
    let stored = chunks(&golden);
    assert_eq!(stored.len(), 4096);
    for version in [Version::V1, Version::V2] {
        let dir = tempfile::tempdir().unwrap();
        let facts = SeriesFacts {
            num_images: 4096,
            detector: golden.detector,
            count_type: golden.count_type,
            encoding: golden.encoding,
            ..facts(17, 4096)
        };
        let mut messages = vec![facts.start(version)];
        messages.extend((0..).zip(&stored).map(|(number, chunk)| facts.image(version, number, chunk)));
        messages.push(facts.end(version));
        let log = dir.path().join("log");
        let settings = RecordSettings { segment_bytes: 4 << 20, ..settings(&log) };
        record(settings, slabs(&messages, 1 << 20), &Arc::default());
        let (listed, _) = list_series(&log).unwrap();
        assert!(listed.len() == 1 && listed[0].is_complete() && listed[0].end_seen);
        let settings =
            ExportSettings { scan: Some(ScanShape { rows: 64, cols: 64 }), ..ExportSettings::new("sto") };
        let summary = export_series(&log, &listed[0].log_key(), dir.path(), &settings).unwrap();
        let set = FileSet::open(&summary.set.master).unwrap();
        assert!(chunks(&set) == stored, "{version:?}");
        let script = r#"
import sys, h5py, hdf5plugin
with h5py.File(sys.argv[1], "r") as ours, h5py.File(sys.argv[2], "r") as theirs:
    keys = sorted(theirs["entry/data"])
    assert keys == sorted(ours["entry/data"])
    assert sum(len(ours["entry/data"][key]) for key in keys) == 4096
    assert all((ours["entry/data"][key][...] == theirs["entry/data"][key][...]).all() for key in keys)
"#;
        python(script, &[summary.set.master.to_str().unwrap(), golden.master.to_str().unwrap()]);
    }
}

#[test]
fn a_data_file_without_a_frame_says_so_and_one_opened_alone_misses_what_comes_before() {
    let dir = tempfile::tempdir().unwrap();
    let facts = facts(4, 40);
    let mut messages = vec![facts.start(Version::V2)];
    messages.extend((0..20).map(|number| image(&facts, Version::V2, number)));
    let log = log_of(dir.path(), &messages);
    let settings = ExportSettings { images_per_file: 20, ..ExportSettings::new("half") };
    let summary = export_series(&log, &key(&facts, Version::V2), dir.path(), &settings).unwrap();
    let set = FileSet::open(&summary.set.master).unwrap();
    let problems: Vec<_> = set.files.iter().map(|file| file.problem.as_deref().unwrap_or_default()).collect();
    assert_eq!(problems, ["", "none of its 20 frames was ever written"]);
    let alone = FileSet::open(&summary.set.data_files[1]).unwrap();
    let Some(Item::Gap(gap)) = alone.runs().into_iter().next() else { panic!("{alone:?}") };
    assert_eq!((gap.first, gap.count), (0, 20));
    assert!(gap.reason.to_string().contains("no data file holds what comes before the first"), "{gap:?}");
}

/// The receiver takes frames of the announced type; the set took those of the type that the first frame had, and had not one
/// frame of what was shown live.
#[test]
fn the_set_has_the_frames_that_the_receiver_takes_whatever_the_first_is() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let facts = facts(7, 10);
    let wide = SeriesFacts { count_type: CountType::U32, ..facts.clone() };
    let image = |number: u64| {
        let mut chunk = Vec::new();
        match number {
            0 | 4 => {
                encode_bslz4(&counts(number).into_iter().map(u32::from).collect::<Vec<_>>(), &mut chunk);
                wide.image(Version::V1, number, &chunk)
            }
            _ => {
                encode_bslz4(&counts(number), &mut chunk);
                facts.image(Version::V1, number, &chunk)
            }
        }
    };
    for with_start in [true, false] {
        let folder = log.join(with_start.to_string());
        let mut messages = if with_start { vec![facts.start(Version::V1)] } else { Vec::new() };
        messages.extend((0..10).map(image));
        messages.push(facts.end(Version::V1));
        record(settings(&folder), slabs(&messages, 3000), &Arc::default());
        let out = dir.path().join(format!("set {with_start}"));
        let key = list_series(&folder).unwrap().0[0].log_key();
        let summary = export_series(&folder, &key, &out, &ExportSettings::new("set")).unwrap();
        assert_eq!((summary.frames, summary.unfit, &summary.missing[..]), (8, 2, &[0..1, 4..5][..]));
    }
}
