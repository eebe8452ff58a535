//! Several thresholds at once: each is an acquisition of its own, from one reading of the stream and again from the log.

use std::path::Path;
use std::time::{Duration, Instant};

use ingest::dectris::FileSet;
use ingest::stream::compose::{HeaderDetail, StartContents, Version};
use ingest::stream::push::Sent;
use serde_json::Value;

use super::program::{code, result, sideband, stderr};
use super::run::{run_demo, true_optics};
use super::serve::{Daemon, Detector, EXACT, folders, voltage_kv};

const NAMES: [&str; 3] = ["threshold_1", "threshold_2", "difference"];
/// The image that comes without its second threshold.
const WITHOUT: usize = 1234;

/// Bytes of each value of an array, without the header of the file.
fn values(folder: &Path, name: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(folder.join(format!("{name}.npy"))).unwrap();
    let data = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let of_value = (bytes.len() - data) / 4096;
    bytes[data..].chunks(of_value).map(<[u8]>::to_vec).collect()
}

#[test]
fn every_threshold_is_acquired_as_its_own_source_and_again_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (expected, out, log) = (dir.path().join("files"), dir.path().join("results"), dir.path().join("log"));
    run_demo(&expected, true_optics(-12.5));
    let mut detector = Detector::new();
    let more = ["--threshold", "all", "--series", "1", "--record", log.to_str().unwrap()];
    let mut daemon = Daemon::start(&detector, &out, &more);
    detector.wait_for_reader();
    let names = NAMES.map(str::to_owned);
    let contents = StartContents {
        detail: HeaderDetail::All,
        appendix: None,
        config: &serde_json::Map::new(),
        channels: &names,
        arm_date: "2026-01-01T00:00:00Z",
        pixel_mask: &[],
    };
    detector.socket.send(&detector.facts.full_start(Version::V2, &contents));
    let frames: Vec<&[u8]> = detector.batches.iter().flat_map(|batch| batch.frames()).collect();
    let last = frames.len() - 1;
    for number in 0..frames.len() {
        // the second threshold sees the scan backwards, the difference 100 positions on
        let mut channels = vec![
            (NAMES[0], frames[number]),
            (NAMES[1], frames[last - number]),
            (NAMES[2], frames[(number + 100) % 4096]),
        ];
        if number == WITHOUT {
            channels.remove(1);
        }
        let image = detector.facts.image_of_channels(number as u64, &channels);
        assert_eq!(detector.socket.send(&image), Sent::Yes);
    }
    detector.socket.send(&detector.facts.end(Version::V2));
    let mut said: Vec<String> = (0..6).map(|_| daemon.next_line()).collect();
    said.sort();
    for (name, what) in [
        ("threshold_1", "complete: 4096"),
        ("threshold_2", "PARTIAL: 4095"),
        ("difference", "complete: 4096"),
    ] {
        let found =
            said.iter().any(|line| line.starts_with(&format!("series 41 {name}: {what} of 4096 frames")));
        assert!(found, "{name}: {said:?}");
    }
    assert!(daemon.end().success());

    let folder = folders(&out).remove(0);
    for name in EXACT {
        let read = |folder: &Path| std::fs::read(folder.join(format!("{name}.npy"))).unwrap();
        assert!(read(&folder.join(NAMES[0])) == read(&expected), "{name}");
    }
    let mut sums = values(&expected, "frame_sum");
    assert_eq!(values(&folder.join(NAMES[2]), "frame_sum"), [&sums[100..], &sums[..100]].concat());
    sums.reverse();
    let mut backwards = values(&folder.join(NAMES[1]), "frame_sum");
    // not a number where the frame is missing
    drop((backwards.remove(WITHOUT), sums.remove(WITHOUT)));
    assert_eq!(backwards, sums);
    let partial = &result(&folder.join(NAMES[1]))["frames"];
    assert_eq!((&partial["missing"], &partial["gaps"][0]["first"]), (&Value::from(1), &Value::from(WITHOUT)));
    assert_eq!(partial["gaps"][0]["kind"], "unlike");
    assert_eq!(partial["gaps"][0]["reason"], "the image came without threshold_2");

    // the same from the log, each channel on its own, by a daemon that was started again
    let daemon = Daemon::start(
        &Detector::new(),
        &out,
        &more[..2].iter().chain(&more[4..]).copied().collect::<Vec<_>>(),
    );
    let recorded = |at: usize| daemon.json("/api/v1/series")["recorded"]["series"][at].clone();
    let wait = |what: &str, is_so: &dyn Fn() -> bool| {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < until, "{what}: {}", daemon.json("/api/v1/series"));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("the list", &|| recorded(2)["number"] == "r1");
    for (at, (name, number)) in NAMES.into_iter().zip(["r3", "r2", "r1"]).enumerate() {
        let entry = recorded(at);
        assert_eq!([&entry["channel"], &entry["number"], &entry["label"]], [name, number, "41"]);
        assert_eq!(entry["folder"], folder.join(name).to_str().unwrap());
        for job in ["finish", "export"] {
            let (code, answer) =
                daemon.post(&format!("/api/v1/series/{number}/{job}"), &Value::Object(Default::default()));
            assert_eq!(code, 202, "{answer}");
        }
    }
    for (at, channel) in NAMES.into_iter().enumerate() {
        wait(channel, &|| {
            recorded(at)["finish"]["state"] == "done" && recorded(at)["export"]["state"] == "done"
        });
        let entry = recorded(at);
        let path = |job: &str| std::path::PathBuf::from(entry[job]["path"].as_str().unwrap());
        assert!(path("finish").ends_with(channel) && path("finish") != folder.join(channel));
        for name in EXACT {
            let read = |out: &Path| std::fs::read(out.join(format!("{name}.npy"))).unwrap();
            assert!(read(&path("finish")) == read(&folder.join(channel)), "{channel} {name}");
        }
        let set = FileSet::open(&path("export")).unwrap();
        assert_eq!(set.frames_present(), 4096 - u64::from(channel == "threshold_2"));
    }
    drop(daemon);

    let again = dir.path().join("again");
    let (optics, kv) = (true_optics(-12.5), voltage_kv());
    let mut args =
        vec!["run", log.to_str().unwrap(), "--threshold", "all", "--series", "01KB0000000000000000000041"];
    args.extend(["--out", again.to_str().unwrap(), "--quiet", "--voltage-kv", &kv]);
    args.extend(optics.iter().map(String::as_str));
    let output = sideband(&args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for channel in NAMES {
        for name in EXACT {
            let read = |out: &Path| std::fs::read(out.join(channel).join(format!("{name}.npy"))).unwrap();
            assert!(read(&again) == read(&folder), "{channel} {name}");
        }
    }
    args[3] = "3";
    let output = sideband(&args);
    assert!(
        stderr(&output)
            .contains("got threshold threshold_3, expected one of threshold_1, threshold_2, difference")
    );
}

#[test]
fn a_channel_that_never_comes_is_listed_as_failed_and_one_that_nobody_knew_of_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut daemon = Daemon::start(&detector, dir.path(), &["--threshold", "all"]);
    detector.wait_for_reader();
    let names = ["threshold_1", "threshold_2"].map(str::to_owned);
    let contents = StartContents {
        detail: HeaderDetail::Basic,
        appendix: None,
        config: &serde_json::Map::new(),
        channels: &names,
        arm_date: "2026-01-01T00:00:00Z",
        pixel_mask: &[],
    };
    // the name is used again behind the end
    for _ in 0..2 {
        detector.socket.send(&detector.facts.full_start(Version::V2, &contents));
        let frames = detector.batches.iter().flat_map(|batch| batch.frames());
        for (number, frame) in (0..).zip(frames) {
            let channels = [("threshold_1", frame), ("odd", frame)];
            let image = detector.facts.image_of_channels(number, &channels[..1 + usize::from(number == 100)]);
            assert_eq!(detector.socket.send(&image), Sent::Yes);
        }
        detector.socket.send(&detector.facts.end(Version::V2));
        let mut said: Vec<String> = (0..4).map(|_| daemon.next_line()).collect();
        said.sort();
        assert!(said[0].starts_with("series 41 threshold_1: complete: 4096 of 4096 frames"), "{said:?}");
        let failed = "series 41 threshold_2: failed: no frame of ";
        assert!(said[2].starts_with(failed) && said[2].ends_with("came without threshold_2"), "{said:?}");
    }
    // late images of it begin nothing
    let image = detector.facts.image(Version::V2, 5, detector.batches[0].frames().next().unwrap());
    detector.socket.send(&image);
    let is_told =
        |status: &Value| status["series"]["warnings"].to_string().contains("got image 5 of series 41 (");
    let status = daemon.wait_for("the late image", is_told);
    let warnings = status["series"]["warnings"].to_string();
    assert_eq!(warnings.matches("in image 100 of series 41").count(), 1, "{warnings}");
    let list = daemon.json("/api/v1/series");
    let of = |at: usize| ["number", "channel", "state"].map(|key| list["series"][at][key].to_string());
    assert_eq!(of(0), ["4", "\"threshold_1\"", "\"complete\""]);
    assert_eq!(of(1), ["3", "\"threshold_2\"", "\"failed\""]);
    let warnings = list["series"][1]["warnings"].to_string();
    assert!(
        warnings.contains("the start announced threshold_2, of which the first 8 images have no frame"),
        "{warnings}"
    );
}
