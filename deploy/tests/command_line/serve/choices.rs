//! What can be chosen over the API: a microscope that nobody described at first, rings, and what becomes of the results.

use serde_json::json;

use super::*;
use crate::program::Array;

const JSON: &str = "Content-Type: application/json\r\n";

impl Daemon {
    /// The answer to a PUT that is taken.
    fn put(&self, path: &str, body: &Value) -> Value {
        let (code, answer) = self.ask("PUT", path, JSON, &body.to_string());
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert_eq!(code, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Why a PUT is refused.
    fn refused(&self, path: &str, body: &Value) -> (u16, String) {
        let (code, answer) = self.ask("PUT", path, JSON, &body.to_string());
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        (code, answer["error"].as_str().unwrap().to_owned())
    }
}

/// The flags of the true optics that begin so.
fn flags(beginning: &[&str]) -> Vec<String> {
    true_optics(-12.5)
        .into_iter()
        .filter(|flag| beginning.iter().any(|start| flag.starts_with(start)))
        .collect()
}

/// The true optics as the API takes them, without the shape of the scan.
fn as_json() -> Value {
    let mut body = json!({ "voltage_kv": voltage_kv().parse::<f64>().unwrap(), "aberrations": {} });
    for flag in true_optics(-12.5) {
        let (name, value) = flag.strip_prefix("--").unwrap().split_once('=').unwrap();
        let number = |text: &str| text.parse::<f64>().unwrap();
        match name {
            "aberration" => {
                let (term, numbers) = value.split_once('=').unwrap();
                let numbers: Vec<f64> = numbers.split(',').map(number).collect();
                body["aberrations"][term] = json!(numbers);
            }
            "scan-shape" => {}
            name => body[name.replace('-', "_")] = json!(number(value)),
        }
    }
    body
}

fn same_files(folder: &Path, expected: &Path) {
    for name in EXACT {
        let read = |folder: &Path| std::fs::read(folder.join(format!("{name}.npy"))).unwrap();
        assert!(read(folder) == read(expected), "{name}");
    }
}

#[test]
fn optics_that_come_during_the_scan_give_the_phase_of_those_that_were_there_before() {
    let (_dir, expected) = from_files();
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    detector.facts.incident_energy_ev = 0.0;
    let mut daemon = Daemon::start_with(
        &detector,
        dir.path(),
        &flags(&["--scan-shape"]),
        &["--series", "1", "--silence-s", "300"],
    );
    assert!(daemon.next_line().starts_with(
        "calibration unknown: voltage_kv, semi_angle_mrad, scan_step_nm, rotation_deg: there is no phase until"
    ));
    detector.wait_for_reader();
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.send(Version::V2, 0..2500, |_| true);
    let status = daemon.wait_for("rings without optics", |status| {
        status["series"]["frames"]["kept"] == 2500 && !status["series"]["bright_field"].is_null()
    });
    let series = &status["series"];
    assert_eq!(
        series["calibration"]["missing"],
        json!(["voltage_kv", "semi_angle_mrad", "scan_step_nm", "rotation_deg"])
    );
    assert_eq!((&series["phase"], &series["bright_field"]["sampling_mrad"]), (&Value::Null, &Value::Null));
    let (header, bf) = daemon.raw("bf");
    assert_eq!((&header["pixel_unit"], &header["pixel_size"]), (&json!("px"), &Value::Null));
    assert!(bf[..2500].iter().all(|value| *value > 0.0));
    daemon.raw("adf");
    daemon.raw("mean_pattern");
    let (code, why) = daemon.refused("/api/v1/series/current/optics", &json!({ "voltage_kv": 3 }));
    assert_eq!((code, why.as_str()), (422, "voltage_kv: got 3 kV, expected 10 to 1000 kV"));

    let answer = daemon.put("/api/v1/series/current/optics", &as_json());
    assert_eq!(answer["missing"], json!([]));
    let status = daemon.wait_for("the first phase", |status| status["series"]["phase"]["badge"] == "preview");
    assert_eq!(status["series"]["calibration"]["text"], Value::Null);
    detector.complete(Version::V2, 2500, &mut daemon);
    assert!(daemon.end().success());
    let folder = folders(dir.path()).remove(0);
    same_files(&folder, &expected);
    let report = result(&folder);
    assert_eq!(
        (&report["status"], &report["optics_provenance"]["voltage_kv"]),
        (&json!("complete"), &json!("api"))
    );
}

#[test]
fn optics_and_rings_that_come_after_the_scan_make_its_results_again() {
    let (_dir, expected) = from_files();
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut daemon = Daemon::start_with(&detector, dir.path(), &flags(&["--scan-shape", "--rot"]), &[]);
    daemon.next_line();
    detector.wait_for_reader();
    detector.socket.send(&detector.facts.start(Version::V1));
    detector.rest(Version::V1, 0);
    daemon.next_line();
    let line = daemon.next_line();
    let unknown = "no phase image (calibration unknown: semi_angle_mrad, scan_step_nm)";
    assert!(line.contains("PARTIAL: 4096 of 4096 frames") && line.contains(unknown), "{line}");
    let folder = folders(dir.path()).remove(0);
    assert!(!folder.join("phase.npy").exists() && folder.join("adf.npy").exists());
    assert_eq!(result(&folder)["optics"]["scan_step_nm"], Value::Null);

    daemon.put("/api/v1/series/1/optics", &as_json());
    let status = daemon.json("/api/v1/status");
    assert_eq!(
        (&status["state"], &status["series"]["phase"]["badge"]),
        (&json!("complete"), &json!("final"))
    );
    same_files(&folder, &expected);
    // what was said of it is said anew, once
    let written = folder.display();
    let line = daemon.next_line();
    let corrected =
        format!("series 41: complete: 4096 of 4096 frames, 0 missing (every frame came), {written}");
    assert_eq!(line, corrected);
    // a narrower disk, for this series and for the next
    let masks = daemon.put("/api/v1/series/current/masks", &json!({ "bf": [0, 0.3] }));
    assert_eq!((&masks["bf"], &masks["df"]), (&json!([0.0, 0.3]), &json!([1.1, null])));
    let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(read(&folder, "bf.npy") != read(&expected, "bf.npy"));
    assert!(read(&folder, "phase.npy") == read(&expected, "phase.npy"));
    assert_eq!(daemon.put("/api/v1/reconstruction", &json!({ "mean_phase": true }))["mean_phase"], true);
    assert_eq!(daemon.json("/api/v1/optics")["values"]["rotation_deg"], -12.5);
    assert_eq!(daemon.json("/api/v1/series/current/reconstruction")["mean_phase"], false);
    let (code, why) = daemon.refused("/api/v1/masks", &json!({ "bf": [1, 0.5] }));
    assert!(code == 422 && why.starts_with("bf: got [1,0.5], expected [inner, outer]"), "{code} {why}");
    let (code, why) = daemon.refused("/api/v1/series/1/optics", &json!({ "scan_shape": "64x65" }));
    assert!(code == 422 && why.contains("needs 4160 frames, but the acquisition has 4096"), "{code} {why}");
}

#[test]
fn a_scan_of_unknown_shape_is_one_row_and_a_square_is_a_hint_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut optics = flags(&["--semi", "--scan-step", "--rot"]);
    optics.push(format!("--voltage-kv={}", voltage_kv()));
    let mut daemon = Daemon::start_with(&detector, dir.path(), &optics, &[]);
    assert!(daemon.next_line().starts_with("calibration unknown: scan_shape: there is no phase until"));
    detector.wait_for_reader();
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.rest(Version::V2, 0);
    assert!(daemon.next_line().starts_with("series 41: receiving 4096 frames, 1x4096"));
    let line = daemon.next_line();
    assert!(line.contains("no phase image (calibration unknown: scan_shape)"), "{line}");
    let status = daemon.wait_for("it is over", |status| status["state"] == "partial");
    let series = &status["series"];
    assert_eq!(series["calibration"]["hints"]["scan_shape"], json!([64, 64]));
    let warnings = series["warnings"].to_string();
    assert!(warnings.contains("4096 images are shown as one row") && warnings.contains("could be 64x64"));
    assert_eq!(daemon.raw("bf").0["shape"], json!([1, 4096]));

    // a shape that leaves some out, then the right one: what is there is what it would have been from the beginning
    let body = json!({ "scan_shape": [60, 60], "scan_path": "snake", "flyback_frames": 4, "skip_frames": 7 });
    daemon.put("/api/v1/series/1/geometry", &body);
    let (header, _) = daemon.raw("phase");
    assert_eq!(header["shape"], json!([60, 60]));
    let warnings = daemon.json("/api/v1/series/1")["warnings"].to_string();
    assert!(
        warnings.contains("the last 253 belong to no position") && !warnings.contains("one row"),
        "{warnings}"
    );
    let terms = as_json()["aberrations"].clone();
    daemon.put("/api/v1/series/1/optics", &json!({ "aberrations": terms }));
    let back =
        json!({ "scan_shape": "64x64", "scan_path": null, "flyback_frames": null, "skip_frames": null });
    let answer = daemon.put("/api/v1/series/1/geometry", &back);
    assert_eq!((&answer["scan_shape"], &answer["scan_path"]), (&json!([64, 64]), &json!("raster")));
    assert_eq!(daemon.json("/api/v1/status")["state"], "complete");
    assert!(daemon.next_line().starts_with("series 41: complete: 4096 of 4096 frames, 0 missing ("));
    let (_dir, expected) = from_files();
    let folder = folders(dir.path()).remove(0);
    // the pixels that are transformed early are others than those of a shape that is known from the first frame
    for name in EXACT.iter().filter(|name| !["phase", "amplitude"].contains(*name)) {
        let read = |folder: &Path| std::fs::read(folder.join(format!("{name}.npy"))).unwrap();
        assert!(read(&folder) == read(&expected), "{name}");
    }
    let phase = |folder: &Path| Array::read(&folder.join("phase.npy")).f64();
    let near = phase(&folder).iter().zip(phase(&expected)).all(|(a, b)| (a - b).abs() < 5e-6);
    assert!(near, "the phase differs");
    let (code, why) = daemon.refused("/api/v1/series/1/geometry", &json!({ "flyback_frames": u32::MAX }));
    assert!(code == 422 && why.contains("flyback_frames: got 4294967295 frames"), "{code} {why}");
    let (code, why) = daemon.refused("/api/v1/series/1/geometry", &json!({ "frames_per_position": 0 }));
    assert!(code == 422 && why.contains("expected 1 to 65536 frames"), "{code} {why}");
    let (code, why) = daemon.refused("/api/v1/series/1/geometry", &json!({ "voltage_kv": 300 }));
    assert!(code == 422 && why.contains("voltage_kv"), "{code} {why}");
}

#[test]
fn a_shape_that_comes_during_the_scan_shows_in_the_next_image() {
    let (_dir, expected) = from_files();
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut optics = flags(&["--semi", "--scan-step", "--rot", "--aberration"]);
    optics.push(format!("--voltage-kv={}", voltage_kv()));
    let mut daemon =
        Daemon::start_with(&detector, dir.path(), &optics, &["--series", "1", "--scan-shape=32x128"]);
    detector.wait_for_reader();
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.send(Version::V2, 0..2500, |_| true);
    daemon.wait_for("the first phase", |status| status["series"]["phase"]["badge"] == "preview");
    daemon.put("/api/v1/series/current/geometry", &json!({ "scan_shape": [64, 64] }));
    assert_eq!(daemon.raw("bf").0["shape"], json!([64, 64]));
    assert_eq!(daemon.json("/api/v1/status")["series"]["phase"], Value::Null);
    detector.complete(Version::V2, 2500, &mut daemon);
    assert!(daemon.end().success());
    let folder = folders(dir.path()).remove(0);
    assert_eq!(result(&folder)["optics"]["scan_shape"], json!([64, 64]));
    let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(read(&folder, "bf.npy") == read(&expected, "bf.npy"));
    let phase = |folder: &Path| Array::read(&folder.join("phase.npy")).f64();
    let near = phase(&folder).iter().zip(phase(&expected)).all(|(a, b)| (a - b).abs() < 5e-6);
    assert!(near, "the phase differs");
}

/// A shape that was given stood in the warnings as not known until the series was over, and a ring could be asked for about
/// a place that no detector has; such a place among the flags was the end of every series.
#[test]
fn what_is_known_by_now_is_not_warned_of_and_a_centre_off_the_detector_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut optics = flags(&["--semi", "--scan-step", "--rot"]);
    optics.push(format!("--voltage-kv={}", voltage_kv()));
    optics.push("--bf-centre=900,5".to_owned());
    let mut daemon = Daemon::start_with(&detector, dir.path(), &optics, &[]);
    assert!(daemon.next_line().starts_with("calibration unknown: scan_shape: there is no phase until"));
    daemon.put("/api/v1/masks", &json!({ "radius_px": 4000 }));
    detector.wait_for_reader();
    detector.socket.send(&detector.facts.start(Version::V2));
    let shape = json!({ "scan_shape": [64, 64] });
    let unknown = json!({ "scan_shape": null });
    let armed = daemon.wait_for("armed", |status| status["state"] == "armed")["armed"].clone();
    assert!(armed["warnings"].to_string().contains("calibration unknown: scan_shape"), "{armed}");
    daemon.put("/api/v1/geometry", &shape);
    let armed = daemon.json("/api/v1/status")["armed"].clone();
    assert!(!armed["warnings"].to_string().contains("unknown"), "{armed}");
    daemon.put("/api/v1/geometry", &unknown);

    detector.send(Version::V2, 0..2500, |_| true);
    let status = daemon.wait_for("frames", |status| {
        status["series"]["frames"]["kept"] == 2500 && !status["series"]["bright_field"].is_null()
    });
    let detector_shape = status["series"]["detector_shape"].clone();
    let warnings = |daemon: &Daemon| daemon.json("/api/v1/status")["series"]["warnings"].to_string();
    let [rows, cols] = [0, 1].map(|axis| detector_shape[axis].as_u64().unwrap());
    let (most_row, most_col) = (rows as f64 - 0.5, cols as f64 - 0.5);
    let allowed =
        format!("row -0.5 to {most_row} px and col -0.5 to {most_col} px (the {rows}x{cols} detector)");
    let said = warnings(&daemon);
    assert!(
        said.contains(&format!("bf_centre (flag): got 900, 5 px, expected {allowed}: not used")),
        "{said}"
    );
    assert!(said.contains("bf_radius_px (the API): got 4000 px, expected"), "{said}");
    for (asked, got) in [("row=900", "900, "), ("col=-1", ", -1 px"), ("row=2&col=1e300", "2, 1e300 px")] {
        let path = format!("/api/v1/series/current/images/bf?{asked}");
        let (code, answer) = daemon.ask("GET", &path, "", "");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(
            code == 409 && answer.contains(got) && answer.contains(&format!("expected {allowed}")),
            "{asked}: {code} {answer}"
        );
    }
    daemon.get("/api/v1/series/current/images/bf?row=5&col=-0.5");
    let (code, why) = daemon.refused("/api/v1/series/current/masks", &json!({ "centre_px": [2, 900] }));
    assert_eq!((code, why), (422, format!("centre_px: got 2, 900 px, expected {allowed}")));
    daemon.put("/api/v1/series/current/masks", &json!({ "centre_px": [5, 5] }));
    daemon.put("/api/v1/series/current/masks", &json!({ "centre_px": null }));

    for (body, is_warned_of) in [(&shape, false), (&unknown, true), (&shape, false)] {
        daemon.put("/api/v1/series/current/geometry", body);
        let said = warnings(&daemon);
        assert_eq!(said.contains("the scan shape is not known"), is_warned_of, "{body}: {said}");
    }
    detector.complete(Version::V2, 2500, &mut daemon);
}

#[test]
fn a_query_that_makes_no_sense_is_refused_by_the_name_of_the_parameter() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&Detector::new(), dir.path(), &[]);
    for (query, said) in [
        ("inner=wide", "inner: got 'wide', expected a number"),
        ("row=NaN", "row: got 'NaN', expected a number"),
        ("format=jpg", "format: got 'jpg', expected raw, npy, tiff or png"),
        ("Outer=2", "got the parameter 'Outer', expected format, inner, outer, row, col or token"),
        ("inner=0&inner=1", "inner: got it twice, expected it once"),
    ] {
        let (code, answer) = daemon.ask("GET", &format!("/api/v1/series/1/images/bf?{query}"), "", "");
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!((code, answer["error"].as_str().unwrap()), (400, said));
    }
    for (method, path, body, said) in [
        (
            "POST",
            "series/1/reconstruct",
            json!({ "c10_nm": "far" }),
            "c10_nm: invalid type: string \"far\", expected a number",
        ),
        (
            "PUT",
            "masks",
            json!({ "radius_px": "wide" }),
            "radius_px: invalid type: string \"wide\", expected a number",
        ),
        ("PUT", "geometry", json!({ "skip_frames": 1.5 }), "expected a whole number"),
    ] {
        let (code, answer) = daemon.ask(method, &format!("/api/v1/{path}"), JSON, &body.to_string());
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let why = answer["error"].as_str().unwrap();
        assert!(code == 422 && why.contains(said) && !why.contains("deserialize"), "{code} {why}");
    }
}
