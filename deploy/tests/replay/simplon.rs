//! The REST interface: what can be set when, and what the commands do.

use std::time::{Duration, Instant};

use ingest::stream::series::Ending;
use serde_json::{Value, json};

use super::detector::{Detector, golden};
use super::reader::{read, stored};

const CONFIG: &str = "/detector/api/1.8.0/config/";
const COMMAND: &str = "/detector/api/1.8.0/command/";
const STATE: &str = "/detector/api/1.8.0/status/state";

fn names(answer: &Value) -> Vec<&str> {
    answer.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

fn config(name: &str) -> String {
    format!("{CONFIG}{name}")
}

fn command(detector: &Detector, name: &str) -> (u16, Value) {
    let (code, body) = detector.ask("PUT", &format!("{COMMAND}{name}"), "");
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

fn wait_for(detector: &Detector, state: &str) {
    let start = Instant::now();
    while detector.get(STATE)["value"] != state {
        assert!(start.elapsed() < Duration::from_secs(10), "the state is not {state}");
    }
}

#[test]
fn values_have_envelopes_and_setting_one_names_all_that_change() {
    let Some(master) = golden() else { return };
    let detector = Detector::start(&master, &[]);
    let count_time = detector.get(&config("count_time"));
    assert_eq!((&count_time["value_type"], &count_time["access_mode"]), (&json!("float"), &json!("rw")));
    assert_eq!((&count_time["unit"], &count_time["min"]), (&json!("s"), &json!(1e-6)));
    assert_eq!(detector.get(&config("x_pixels_in_detector"))["value"], 192);
    assert_eq!(detector.get(&config("photon_energy"))["value"], 300_000.0);
    assert_eq!(detector.get(&config("ntrigger"))["value"], 4096);
    let modes = detector.get(&config("trigger_mode"));
    assert!(modes["allowed_values"].as_array().unwrap().contains(&json!("ints")), "{modes}");
    // the mask in an array of SIMPLON, as the set has it; nothing else is among what a start says
    let mask = detector.get(&config("pixel_mask"));
    assert_eq!((&mask["access_mode"], &mask["value"]["type"]), (&json!("r"), &json!("<u4")));
    let set = ingest::dectris::FileSet::open(&master).unwrap();
    assert_eq!(Some(deploy::simplon::darray(&mask["value"]).unwrap()), set.metadata.pixel_mask);
    assert_eq!(detector.put(&config("pixel_mask"), json!(0)).0, 403);
    let keys = detector.get("/stream/api/1.8.0/status/keys");
    assert_eq!(names(&keys), ["state", "error", "dropped"]);
    assert_eq!(detector.get("/detector/api/version")["value"], "1.8.0");
    // first the region, then the times: it takes them back
    let (code, changed) = detector.put(&config("roi_mode"), json!("merge2x2"));
    assert!(
        code == 200
            && ["count_time", "frame_time", "roi_mode"].iter().all(|name| names(&changed).contains(name))
    );
    let (code, changed) = detector.put(&config("count_time"), json!(2e-4));
    assert_eq!(code, 200);
    for name in ["bit_depth_image", "count_time", "countrate_correction_count_cutoff", "frame_time"] {
        assert!(names(&changed).contains(&name), "{changed}");
    }
    assert!(detector.get(&config("frame_time"))["value"].as_f64().unwrap() >= 2e-4);
    assert_eq!(detector.get(&config("countrate_correction_count_cutoff"))["value"], 16780);
    for (name, wrong) in [
        ("count_time", json!("long")),
        ("count_time", json!(-1)),
        ("nimages", json!(1.5)),
        ("nimages", json!(0)),
        ("trigger_mode", json!("now")),
        ("roi_mode", json!(null)),
    ] {
        assert_eq!(detector.put(&config(name), wrong).0, 400, "{name}");
    }
    assert_eq!(detector.ask("PUT", &config("nimages"), "{\"value\"").0, 400);
    assert_eq!(detector.ask("PUT", &config("nimages"), &" ".repeat(2 << 20)).0, 413);
    assert_eq!(detector.put(&config("description"), json!("mine")).0, 403);
    assert_eq!(detector.put(&config("colour"), json!("red")).0, 404);
    assert_eq!(detector.ask("POST", &config("nimages"), "").0, 405);
    for nowhere in [
        "/",
        "/x/api/1.8.0/config/y",
        "/detector/api/9.9.9/config/nimages",
        "/detector/api/1.8.0/status/colour",
    ] {
        assert_eq!(detector.ask("GET", nowhere, "").0, 404, "{nowhere}");
    }
}

#[test]
fn armed_it_cannot_be_set_and_aborted_it_can_and_its_frames_are_dropped_and_counted() {
    let Some(master) = golden() else { return };
    let mut detector = Detector::start(&master, &["--rate=1000", "--patience=0.05"]);
    assert_eq!(detector.get(STATE)["value"], "idle");
    assert_eq!(command(&detector, "trigger").0, 400);
    assert_eq!(command(&detector, "arm"), (200, json!({ "sequence id": 1 })));
    assert_eq!(command(&detector, "arm").0, 400);
    assert_eq!(detector.put(&config("count_time"), json!(1e-3)).0, 403);
    wait_for(&detector, "acquire");
    // nobody reads: the start and frames are dropped
    let start = Instant::now();
    let dropped = || detector.get("/stream/api/1.8.0/status/dropped")["value"].as_u64().unwrap();
    while dropped() < 100 {
        assert!(start.elapsed() < Duration::from_secs(10), "{}", dropped());
    }
    let unique_id = detector.get("/detector/api/1.8.0/status/series_unique_id");
    assert_eq!(unique_id["value"].as_str().unwrap().len(), 26);
    assert_eq!(command(&detector, "abort"), (200, json!({ "sequence id": 1 })));
    assert_eq!(detector.get(STATE)["value"], "idle");
    assert_eq!(detector.put(&config("count_time"), json!(1e-3)).0, 200);
    assert!(detector.line().ends_with("aborted"));
}

#[test]
fn triggers_release_their_images_and_the_format_moves_to_the_next_series() {
    let Some(master) = golden() else { return };
    let stored = stored(&master);
    let detector = Detector::start(&master, &["--rate=max", "--stream=v2", "--series=2"]);
    let address = detector.stream.clone();
    let reading = std::thread::spawn(move || read(&address, 2, 12));
    for (name, value) in [("trigger_mode", json!("ints")), ("nimages", json!(4)), ("ntrigger", json!(3))] {
        assert_eq!(detector.put(&config(name), value).0, 200);
    }
    let stream = |name: &str| format!("/stream/api/1.8.0/config/{name}");
    assert_eq!(detector.put(&stream("header_detail"), json!("all")).0, 200);
    assert_eq!(detector.put(&stream("header_appendix"), json!("{\"scan\":[3,4]}")).0, 200);
    assert_eq!(detector.put(&stream("image_appendix"), json!("lamp on")).0, 200);
    std::thread::sleep(Duration::from_millis(300)); // a reader is there before it is armed
    for format in ["cbor", "legacy"] {
        assert_eq!(detector.put(&stream("format"), json!(format)).0, 200);
        assert_eq!(command(&detector, "arm").0, 200);
        for _ in 0..3 {
            wait_for(&detector, "ready");
            assert_eq!(command(&detector, "trigger").0, 200);
        }
        if format == "cbor" {
            wait_for(&detector, "idle");
        }
    }
    for came in reading.join().unwrap() {
        assert_eq!((came.announced.num_images, &came.end.ending), (Some(12), &Ending::Complete));
        assert!(came.frames == stored[..12] && came.garbage == 0);
        // the mask of the set came along
        assert!(came.announced.pixel_mask.is_some_and(|mask| mask.len() == 192 * 192));
    }
}

#[test]
fn cancelled_between_triggers_it_sends_the_end() {
    let Some(master) = golden() else { return };
    let detector = Detector::start(&master, &["--rate=max", "--series=1"]);
    let address = detector.stream.clone();
    let reading = std::thread::spawn(move || read(&address, 1, 8));
    for (name, value) in [("trigger_mode", json!("ints")), ("nimages", json!(4)), ("ntrigger", json!(2))] {
        assert_eq!(detector.put(&config(name), value).0, 200);
    }
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(command(&detector, "arm").0, 200);
    assert_eq!(command(&detector, "trigger").0, 200);
    std::thread::sleep(Duration::from_millis(300)); // four frames are long gone
    wait_for(&detector, "ready");
    assert_eq!(command(&detector, "cancel").0, 200);
    let came = reading.join().unwrap();
    assert_eq!(came[0].end.ending, Ending::EndOfSeries);
    assert_eq!(came[0].holes(), [[4, 8]]);
}

#[test]
fn the_files_of_the_set_can_be_had_and_no_others() {
    let Some(master) = golden() else { return };
    let detector = Detector::start(&master, &[]);
    let files = detector.get("/filewriter/api/1.8.0/status/files")["value"].clone();
    assert_eq!(files.as_array().unwrap().len(), 6);
    assert_eq!(detector.get("/filewriter/api/1.8.0/files"), files);
    for name in names(&files) {
        let (code, bytes) = detector.ask("GET", &format!("/data/{name}"), "");
        assert!(code == 200 && bytes == std::fs::read(master.with_file_name(name)).unwrap(), "{name}");
    }
    for elsewhere in
        ["/data/", "/data/README.md", "/data/../sto-small_master.h5", "/data/%2e%2e/x", "/data//etc/passwd"]
    {
        assert_eq!(detector.ask("GET", elsewhere, "").0, 404, "{elsewhere}");
    }
}

/// The counts of a TIFF of 16 bits.
fn counts_of(tiff: &[u8]) -> Vec<u16> {
    let mut decoder = tiff::decoder::Decoder::new(std::io::Cursor::new(tiff)).unwrap();
    assert_eq!(decoder.dimensions().unwrap(), (192, 192));
    match decoder.read_image().unwrap() {
        tiff::decoder::DecodingResult::U16(counts) => counts,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_monitor_shows_the_frames_that_were_sent() {
    let Some(master) = golden() else { return };
    let detector = Detector::start(&master, &["--rate=max"]);
    let image = |which: &str| detector.ask("GET", &format!("/monitor/api/1.8.0/images/{which}"), "");
    let status = |name: &str| detector.get(&format!("/monitor/api/1.8.0/status/{name}"))["value"].clone();
    assert_eq!((image("next").0, image("monitor").0, image("1/0").0), (408, 408, 408));
    for (name, value) in [("mode", serde_json::json!("enabled")), ("buffer_size", serde_json::json!(100))] {
        assert_eq!(detector.put(&format!("/monitor/api/1.8.0/config/{name}"), value).0, 200);
    }
    assert_eq!(status("buffer_free"), 100);
    let came = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(&detector.stream, 1, 4096));
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(detector.put("/detector/api/1.8.0/command/arm", serde_json::json!(null)).0, 200);
        reading.join().unwrap()
    });
    let counts = |number: usize| {
        let mut counts = vec![0_u16; 192 * 192];
        let packed = came[0].frames[number].as_ref().unwrap();
        kernels::bslz4_decode::decode_frame(kernels::bslz4_decode::Encoding::Bslz4, packed, &mut counts)
            .unwrap();
        counts
    };
    assert_eq!(
        (status("dropped"), status("buffer_free"), status("state")),
        (3996.into(), 0.into(), "overflow".into())
    );
    for (which, number) in
        [("monitor", 4095), ("1/4000", 4000), ("next", 3996), ("next", 3997), ("monitor", 4095)]
    {
        let (code, tiff) = image(which);
        assert!(code == 200 && counts_of(&tiff) == counts(number), "{which} {number}");
    }
    assert_eq!((image("1/3996").0, image("1/x").0, status("buffer_free")), (408, 404, 2.into()));
    detector.put("/monitor/api/1.8.0/command/clear", serde_json::json!(null));
    assert_eq!((image("monitor").0, status("dropped")), (408, 0.into()));
}
