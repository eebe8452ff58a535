use kernels::types::{Degrees, DetectorShape, Kilovolts, Nanometres, ScanShape};
use serde_json::Value;

use super::*;
use crate::optics::{
    Acquisition, MeasuredBrightField, OpticsRequest, OpticsValues, Provenance, Source, parse_aberration,
    resolve,
};
use crate::output::{Quantity, Values};

fn report() -> RunReport {
    let flags = OpticsValues {
        semi_angle: Some(Milliradians(30.0)),
        scan_step: Some([Nanometres(0.016); 2]),
        rotation: Some(Degrees(-12.5)),
        scan_shape: Some(ScanShape { rows: 2, cols: 3 }),
        aberrations: vec![parse_aberration("C10=-6.3").unwrap(), parse_aberration("C12=1.8,11.6").unwrap()],
        ..Default::default()
    };
    let file = Source {
        provenance: Provenance::File,
        place: "set_master.h5".to_owned(),
        values: OpticsValues { voltage: Some(Kilovolts(300.0)), ..Default::default() },
    };
    let request = OpticsRequest { flags, optics_file: None, ..Default::default() };
    let optics = resolve(&request, &[file], Acquisition { frames_expected: 6 }).unwrap();
    RunReport {
        software: Software::default(),
        command: vec!["sideband".to_owned()],
        started_utc: "2026-01-31T23:59:59Z".to_owned(),
        status: Status::Partial,
        interrupted: false,
        device: "CPU".to_owned(),
        input: Input {
            master: "set_master.h5".into(),
            master_absolute: "/data/set_master.h5".into(),
            acquisition: AcquiredWith::default(),
            files: vec![],
            compressed_bytes: 7,
        },
        frames: Frames {
            expected: 6,
            received: 5,
            missing: 1,
            gaps: vec![MissingFrames::from(&Gap {
                first: 3,
                count: 1,
                reason: GapReason::Corrupt("frame 3: got 2 bytes, expected 4".to_owned()),
            })],
        },
        seconds: vec![("read".to_owned(), 0.5), ("correct".to_owned(), 0.25)],
        optics,
        bright_field: None,
        masks: vec![],
        encoded: None,
        loss_rad2: None,
        images: vec![],
        warnings: vec![],
        notes: vec![],
        folder: PathBuf::new(),
    }
}

fn written(report: &mut RunReport, images: &[Image]) -> (tempfile::TempDir, Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("deep/out");
    let made = prepare_folder(&out, ScanShape { rows: 2, cols: 3 }, DetectorShape { rows: 2, cols: 2 });
    let path = write_results(&out, images, report).unwrap();
    drop(made.unwrap());
    let text = std::fs::read_to_string(path).unwrap();
    (dir, serde_json::from_str(&text).unwrap(), text)
}

#[test]
fn optics_are_plain_numbers_with_origin_detail_and_unit_under_the_same_keys() {
    let mut report = report();
    report.optics.fill_measured(MeasuredBrightField {
        centre: [Pixels(95.3), Pixels(96.85)],
        radius: Pixels(50.0),
        sampling: Some([Milliradians(0.6); 2]),
    });
    let (_dir, json, _) = written(&mut report, &[]);
    assert_eq!(json["optics"]["voltage_kv"], 300.0);
    assert_eq!(json["optics"]["scan_step_nm"], serde_json::json!([0.016, 0.016]));
    assert_eq!(json["optics"]["bf_centre_px"], serde_json::json!([95.3, 96.85]));
    assert_eq!(json["optics"]["c10_nm"], -6.3);
    assert_eq!((&json["optics"]["c12_nm"], &json["optics"]["phi12_deg"]), (&1.8.into(), &11.6.into()));
    assert_eq!(json["optics"]["c56_nm"], 0.0);
    let from = &json["optics_provenance"];
    assert_eq!([&from["voltage_kv"], &from["c10_nm"], &from["c21_nm"]], ["file", "flag", "default"]);
    assert_eq!(from["detector_sampling_mrad"], "fitted");
    let keys = |name: &str| json[name].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for column in ["optics_provenance", "optics_detail", "optics_unit"] {
        assert_eq!(keys(column), keys("optics"), "{column}");
    }
}

#[test]
fn what_was_not_measured_is_null() {
    let (_dir, json, _) = written(&mut report(), &[]);
    assert!(json["optics"]["bf_centre_px"].is_null() && json["optics_provenance"]["bf_centre_px"].is_null());
}

#[test]
fn status_frames_and_stages_read_as_written() {
    let (_dir, json, text) = written(&mut report(), &[]);
    assert_eq!((&json["status"], &json["frames"]["missing"]), (&"partial".into(), &1.into()));
    assert_eq!(json["frames"]["gaps"][0]["kind"], "corrupt");
    assert_eq!(json["seconds"]["read"], 0.5);
    let place = |word: &str| text.find(word).unwrap();
    assert!(place("\"read\"") < place("\"correct\""), "stages keep their order");
    assert_eq!(json["software"]["name"], "sideband");
}

#[test]
fn images_are_listed_with_their_files_and_the_files_are_there() {
    let scan = ScanShape { rows: 2, cols: 3 };
    let image =
        Image::over_scan(Quantity::FrameSum, scan, [Nanometres(1.0); 2], Values::U64(vec![1; 6])).unwrap();
    let (dir, json, _) = written(&mut report(), &[image]);
    let listed = &json["images"][0];
    assert_eq!((&listed["name"], &listed["dtype"]), (&"frame_sum".into(), &"uint64".into()));
    for file in listed["files"].as_array().unwrap() {
        assert!(dir.path().join("deep/out").join(file.as_str().unwrap()).is_file());
    }
    let left: Vec<_> = std::fs::read_dir(dir.path().join("deep/out")).unwrap().collect();
    assert_eq!(left.len(), 4);
}

#[test]
fn images_of_an_older_run_go_and_what_is_not_ours_stays() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["mean_phase.npy", "phase.png", "notes.txt", "phase_of_friday.npy", RESULT_FILE] {
        std::fs::write(dir.path().join(name), "older").unwrap();
    }
    let scan = ScanShape { rows: 1, cols: 1 };
    let image = Image::over_scan(Quantity::Phase, scan, [Nanometres(1.0); 2], Values::F32(vec![1.0]));
    write_results(dir.path(), &[image.unwrap()], &mut report()).unwrap();
    let mut left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let expected =
        ["notes.txt", "phase.npy", "phase.png", "phase.tiff", "phase_of_friday.npy", "result.json"];
    assert_eq!(left, expected);
    assert_ne!(std::fs::read(dir.path().join("phase.png")).unwrap(), b"older");
}

/// Something that could not be replaced once cost the older result and the new one: all of the older was removed first.
#[test]
fn a_file_that_cannot_be_replaced_costs_no_result() {
    let scan = ScanShape { rows: 1, cols: 1 };
    let image =
        Image::over_scan(Quantity::Phase, scan, [Nanometres(1.0); 2], Values::F32(vec![1.0])).unwrap();
    for (first, older_account_stays) in [("phase.npy", true), ("phase.tiff", false)] {
        let dir = tempfile::tempdir().unwrap();
        for name in ["mean_phase.npy", RESULT_FILE] {
            std::fs::write(dir.path().join(name), "older").unwrap();
        }
        std::fs::create_dir(dir.path().join(first)).unwrap();
        let refused = write_results(dir.path(), std::slice::from_ref(&image), &mut report()).unwrap_err();
        let kept = dir.path().join(format!("sideband-unplaced-{}", std::process::id()));
        let text = format!("{refused:#}");
        assert!(text.contains(first) && text.contains(kept.to_str().unwrap()), "{text}");
        for name in ["phase.npy", "phase.tiff", "phase.png", RESULT_FILE] {
            assert!(kept.join(name).is_file(), "{name}");
        }
        assert_eq!(std::fs::read(dir.path().join("mean_phase.npy")).unwrap(), b"older");
        let account = std::fs::read(dir.path().join(RESULT_FILE)).ok();
        assert_eq!(account.as_deref(), older_account_stays.then_some(&b"older"[..]));
        let names = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name());
        assert!(names.into_iter().all(|name| !name.to_str().unwrap().ends_with(".part")));
    }
}

#[test]
fn an_endless_ring_has_no_outer_radius() {
    let ring = Ring { inner: 1.1, outer: f64::INFINITY };
    let mask = Mask::of(ring, Pixels(50.0), Some([Milliradians(0.6); 2]), 9);
    assert!((mask.inner_px - 55.0).abs() < 1e-9 && (mask.inner_mrad.unwrap() - 33.0).abs() < 1e-9);
    assert_eq!((mask.outer_px, mask.outer_mrad), (None, None));
    assert!(mask.rule.starts_with("1.1 R <= r,"), "{}", mask.rule);
}

#[test]
fn a_run_that_was_interrupted_or_has_no_phase_goes_beside_a_complete_result() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("result");
    let account = |status: &str| format!(r#"{{"software": {{"name": "sideband"}}, "status": "{status}"}}"#);
    let with = |name: &str, status: &str| {
        let folder = dir.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(RESULT_FILE), account(status)).unwrap();
    };
    let interrupted = || folders_for(&out, Outcome::Interrupted)[0].clone();
    assert_eq!(interrupted(), out);
    with("result", "partial");
    assert_eq!(interrupted(), out);
    with("result", "complete");
    assert_eq!(folders_for(&out, Outcome::Phase), [out.as_path()]);
    assert_eq!(interrupted(), dir.path().join("result-partial"));
    assert_eq!(folders_for(&out, Outcome::NoPhase)[..2], [interrupted(), out.join("partial")]);
    with("result-partial", "complete");
    assert_eq!(interrupted(), dir.path().join("result-partial-2"));
}

#[test]
fn a_folder_that_gets_no_results_goes_again_with_those_made_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let prepare = |name: &str| {
        prepare_folder(
            &dir.path().join(name),
            ScanShape { rows: 2, cols: 3 },
            DetectorShape { rows: 2, cols: 2 },
        )
        .unwrap()
    };
    drop(prepare("a/b"));
    assert!(!dir.path().join("a").exists());
    let made = prepare("a/b");
    std::fs::write(dir.path().join("a/notes.txt"), "mine").unwrap();
    drop(made);
    assert!(dir.path().join("a/notes.txt").exists() && !dir.path().join("a/b").exists());
    std::fs::create_dir(dir.path().join("a/b")).unwrap();
    drop(prepare("a/b"));
    assert!(dir.path().join("a/b").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_in_place_of_an_older_account_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(dir.path().join(RESULT_FILE)).status();
    assert!(pipe.unwrap().success());
    assert_eq!(folders_for(dir.path(), Outcome::Interrupted), [dir.path()]);
}
