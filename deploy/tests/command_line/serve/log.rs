//! What is made of the log: exports when a series is over, and series that an earlier run did not finish.

use serde_json::json;

use super::*;

impl Daemon {
    /// The first series of the log of earlier runs, once it is so.
    fn wait_for_recorded(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let list = self.json("/api/v1/series");
            let entry = &list["recorded"]["series"][0];
            if is_so(entry) {
                return entry.clone();
            }
            assert!(Instant::now() < until, "{what}: {list}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let json = "Content-Type: application/json\r\n";
        let (code, answer) = self.ask("POST", path, json, &body.to_string());
        (code, serde_json::from_slice(&answer).unwrap())
    }
}

#[test]
fn a_series_is_exported_when_it_is_over_and_one_that_was_cut_off_can_be_finished_after_a_restart() {
    let (_dir, expected) = from_files();
    let dir = tempfile::tempdir().unwrap();
    let (out, log) = (dir.path().join("results"), dir.path().join("log"));
    let more = ["--record", log.to_str().unwrap(), "--export-on-completion"];
    let mut detector = Detector::new();
    let mut daemon = Daemon::start(&detector, &out, &more);
    detector.wait_for_reader();
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.complete(Version::V2, 0, &mut daemon);
    let status = daemon.wait_for("the export", |status| status["series"]["export"]["state"] == "done");
    let master = PathBuf::from(status["series"]["export"]["path"].as_str().unwrap());
    let set = FileSet::open(&master).unwrap();
    assert_eq!(set.frames_expected, 4096);
    // it is not made twice
    let (code, answer) = daemon.post("/api/v1/series/1/export", &json!({}));
    assert_eq!(code, 202, "{answer}");
    daemon.wait_for("it is there", |status| status["series"]["export"]["state"] == "failed");
    let status = daemon.json("/api/v1/status");
    assert!(status["series"]["export"]["problem"].as_str().unwrap().contains("series_41"), "{status}");
    // the power goes in the next one
    detector.facts.id = 42;
    detector.facts.unique_id = "01KB0000000000000000000042".to_owned();
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.send(Version::V2, 0..4096, |number| number != 4095);
    daemon.wait_for("everything is durable", |status| status["recording"]["durable"] == 4098 + 4096);
    drop(daemon);

    let daemon = Daemon::start(&Detector::new(), &out, &more[..2]);
    let entry = daemon.wait_for_recorded("the one that was cut off", |entry| entry["id"] == 42);
    assert_eq!(
        (&entry["number"], &entry["state"], &entry["frames"]["durable"], &entry["folder"]),
        (&json!("r2"), &json!("unfinished"), &json!(4095), &Value::Null)
    );
    let first = daemon.json("/api/v1/series/r1");
    assert_eq!((&first["state"], &first["id"]), (&json!("complete"), &json!(41)));
    let png = daemon.get("/api/v1/series/r1/images/bf?format=png");
    assert!(png == std::fs::read(expected.join("bf.png")).unwrap());
    let (code, answer) = daemon.post("/api/v1/series/r2/finish", &json!({ "voltage_kv": 3 }));
    assert_eq!((code, answer["error"].as_str().unwrap().contains("got 3 kV")), (422, true));
    let (code, _) = daemon.post("/api/v1/series/r2/finish", &json!({}));
    assert_eq!(code, 202);
    let (code, _) = daemon.post("/api/v1/series/r2/export", &json!({}));
    assert_eq!(code, 202);
    let entry = daemon.wait_for_recorded("its results and its set", |entry| {
        entry["finish"]["state"] == "done" && entry["export"]["state"] == "done"
    });
    let folder = PathBuf::from(entry["folder"].as_str().unwrap());
    let report = result(&folder);
    assert_eq!((&report["status"], &report["frames"]["missing"]), (&json!("partial"), &json!(1)));
    assert!(folder.join("phase.npy").exists() && entry["images"].to_string().contains("phase"));
    assert!(
        daemon.get("/api/v1/series/r2/images/phase?format=npy")
            == std::fs::read(folder.join("phase.npy")).unwrap()
    );
    // the shape of the scan is in it
    let shape = |entry: &Value| {
        FileSet::open(Path::new(entry["export"]["path"].as_str().unwrap())).unwrap().side_cars[0].scan_shape
    };
    let expected = Some(kernels::types::ScanShape { rows: 64, cols: 64 });
    assert_eq!(shape(&entry), expected);
    assert_eq!(daemon.post("/api/v1/series/r9/finish", &json!({})).0, 404);
}

#[test]
fn results_that_cannot_be_written_are_shown_and_written_when_they_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("results");
    let mut detector = Detector::new();
    let mut daemon = Daemon::start(&detector, &out, &[]);
    // in the place of the folder stands a file: whoever runs this may write where others may not
    std::fs::remove_dir(&out).unwrap();
    std::fs::write(&out, "").unwrap();
    detector.wait_for_reader();
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.rest(Version::V2, 0);
    daemon.next_line();
    let line = daemon.next_line();
    assert!(
        line.contains("complete: 4096 of 4096 frames") && line.contains("results NOT WRITTEN ("),
        "{line}"
    );
    let status = daemon.wait_for("it is over", |status| status["state"] == "complete");
    assert!(status["series"]["warnings"].to_string().contains("results NOT WRITTEN"), "{status}");
    assert_eq!((&status["series"]["folder"], daemon.raw("phase").1.len()), (&Value::Null, 4096));
    std::fs::remove_file(&out).unwrap();
    let status = daemon.wait_for("they are written", |status| status["series"]["folder"].is_string());
    assert_eq!(status["series"]["not_written"], Value::Null);
    let line = daemon.next_line();
    assert!(line.contains("complete: 4096 of 4096 frames") && !line.contains("NOT WRITTEN"), "{line}");
    assert_eq!(result(Path::new(status["series"]["folder"].as_str().unwrap()))["status"], "complete");
}

#[test]
fn a_port_that_is_taken_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let [out, log] = ["out", "log"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    let output = super::super::program::sideband(&[
        "serve",
        "--stream",
        "127.0.0.1:1",
        "--listen",
        &listen,
        "--out",
        &out,
        "--record",
        &log,
    ]);
    assert_eq!(super::super::program::code(&output), 1);
    assert!(super::super::program::stderr(&output).contains(&listen));
    assert_eq!(folders(dir.path()), Vec::<PathBuf>::new());
}

/// What was recorded with a name that came again, or with a shape that was not known then, is told apart and exported as it
/// is: two series showed one label, and a row of all images that stood for a shape would be no scan.
#[test]
fn older_series_of_one_number_have_labels_of_their_own_and_the_shape_of_their_results() {
    let dir = tempfile::tempdir().unwrap();
    let (out, log) = (dir.path().join("results"), dir.path().join("log"));
    let optics: Vec<String> =
        true_optics(-12.5).into_iter().filter(|flag| !flag.starts_with("--scan-shape")).collect();
    let more = ["--record", log.to_str().unwrap()];
    let mut detector = Detector::new();
    let mut daemon = Daemon::start_with(&detector, &out, &optics, &more);
    daemon.next_line();
    detector.wait_for_reader();
    for (number, version) in [(1, Version::V2), (2, Version::V1)] {
        detector.socket.send(&detector.facts.start(version));
        detector.rest(version, 0);
        assert!(daemon.next_line().contains(": receiving 4096 frames, 1x4096"));
        daemon.next_line();
        daemon.wait_for("it is over", |status| {
            status["series"]["number"] == number && status["state"] == "partial"
        });
    }
    let (code, _) = daemon.ask(
        "PUT",
        "/api/v1/series/2/geometry",
        "Content-Type: application/json\r\n",
        "{\"scan_shape\": [32, 128]}",
    );
    assert_eq!(code, 200);
    daemon.wait_for("everything is durable", |status| status["recording"]["durable"] == 2 * 4098);
    drop(daemon);

    let daemon = Daemon::start_with(&Detector::new(), &out, &optics, &more);
    daemon.wait_for_recorded("the log is read", |entry| entry["number"] == "r2");
    let scan =
        |shape: Option<(usize, usize)>| shape.map(|(rows, cols)| kernels::types::ScanShape { rows, cols });
    for (number, label, shape) in
        [("r2", "41.1", scan(Some((32, 128)))), ("r1", "01KB0000000000000000000041", scan(None))]
    {
        let entry = daemon.json(&format!("/api/v1/series/{number}"));
        assert_eq!((&entry["id"], &entry["label"]), (&json!(41), &json!(label)), "{number}");
        // by that name and no other
        let set = dir.path().join(number);
        let args = ["export", log.to_str().unwrap(), "--series", label, "--out", set.to_str().unwrap()];
        let exported = super::super::program::sideband(&args);
        assert_eq!(super::super::program::code(&exported), 0, "{}", super::super::program::stderr(&exported));

        assert_eq!(daemon.post(&format!("/api/v1/series/{number}/export"), &json!({})).0, 202);
        let path = format!("/api/v1/series/{number}");
        let until = Instant::now() + Duration::from_secs(60);
        while daemon.json(&path)["export"]["state"] != "done" {
            assert!(Instant::now() < until, "{}", daemon.json(&path)["export"]);
            std::thread::sleep(Duration::from_millis(20));
        }
        let master = daemon.json(&path)["export"]["path"].as_str().unwrap().to_owned();
        let cars = FileSet::open(Path::new(&master)).unwrap().side_cars;
        assert_eq!(cars.first().and_then(|car| car.scan_shape), shape, "{number}");
    }
}
