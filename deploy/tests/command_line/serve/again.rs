//! Acquisitions one behind the other under one name, and channels that nobody expects: what is of which, and what is said of it.

use ingest::stream::compose::{HeaderDetail, StartContents};
use serde_json::json;

use super::super::program::{code, sideband, stderr};
use super::*;

/// The frames of the demonstration, each in the place of the one that is so many before it.
fn shifted(batches: &[RawBatch], shift: usize) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> =
        batches.iter().flat_map(|batch| batch.frames().map(<[u8]>::to_vec).collect::<Vec<_>>()).collect();
    frames.rotate_left(shift);
    frames
}

impl Detector {
    /// Sends a start and these images, in which the scan is shifted.
    fn acquisition(&mut self, version: Version, images: std::ops::Range<usize>, shift: usize) {
        self.socket.send(&self.facts.start(version));
        let frames = shifted(&self.batches, shift);
        for number in images {
            let image = self.facts.image(version, number as u64, &frames[number]);
            assert_eq!(self.socket.send(&image), Sent::Yes);
        }
    }

    /// A start that announces these channels.
    fn announce(&mut self, channels: &[&str]) {
        let channels: Vec<String> = channels.iter().map(|&name| name.to_owned()).collect();
        let contents = StartContents {
            detail: HeaderDetail::Basic,
            appendix: None,
            config: &serde_json::Map::new(),
            channels: &channels,
            arm_date: "2026-01-01T00:00:00Z",
            pixel_mask: &[],
        };
        self.socket.send(&self.facts.full_start(Version::V2, &contents));
    }
}

/// The frames of a set, as they are stored.
fn stored(master: &str) -> Vec<Vec<u8>> {
    let set = FileSet::open(Path::new(master)).unwrap();
    let (raw, raw_in) = bounded(10_000);
    FileSource::new(set.runs(), 1, Arc::new(AtomicBool::new(false))).run(raw);
    let frames = |item: Item<RawBatch>| match item {
        Item::Data(batch) => batch.frames().map(<[u8]>::to_vec).collect::<Vec<_>>(),
        Item::Gap(gap) => vec![Vec::new(); usize::try_from(gap.count).unwrap()],
    };
    raw_in.iter().flat_map(frames).collect()
}

/// The list of series once it is so.
fn wait_for_list(daemon: &Daemon, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let list = daemon.json("/api/v1/series");
        if is_so(&list) {
            return list;
        }
        assert!(Instant::now() < until, "{what}: {list}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn same_results(one: &Path, other: &Path) {
    for name in EXACT {
        let read = |folder: &Path| std::fs::read(folder.join(format!("{name}.npy"))).unwrap();
        assert!(read(one) == read(other), "{name}: {} {}", one.display(), other.display());
    }
}

/// A series of which another acquisition of the same unique name began without an end of the first was filled up with the
/// frames of the second, and called complete.
#[test]
fn frames_of_two_acquisitions_are_never_in_one_series_and_a_second_start_stands_in_the_results() {
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut daemon = Daemon::start(&detector, dir.path(), &[]);
    detector.wait_for_reader();
    detector.acquisition(Version::V2, 0..1500, 0);
    detector.acquisition(Version::V2, 0..4096, 100);
    detector.socket.send(&detector.facts.end(Version::V2));
    let lines: Vec<String> = (0..4).map(|_| daemon.next_line()).collect();
    let partial = "PARTIAL: 1500 of 4096 frames, 2596 missing (the next series began)";
    assert!(lines[1].contains(partial) && lines[3].contains("complete: 4096 of 4096"), "{lines:?}");
    // a start that comes twice, while images count on
    detector.facts.unique_id = "01KB0000000000000000000042".to_owned();
    detector.acquisition(Version::V2, 0..2000, 0);
    detector.acquisition(Version::V2, 2000..4096, 0);
    detector.socket.send(&detector.facts.end(Version::V2));
    let lines: Vec<String> = (0..2).map(|_| daemon.next_line()).collect();
    assert!(lines[1].contains("complete: 4096 of 4096"), "{lines:?}");

    let list = daemon.json("/api/v1/series");
    let said = |at: usize| {
        let series = &list["series"][at];
        let report = result(Path::new(series["folder"].as_str().unwrap()));
        let what = "got a second start of 4096 images of series 41 (";
        [
            series["warnings"].to_string().matches(what).count(),
            report["warnings"].to_string().matches(what).count(),
        ]
    };
    assert_eq!([said(0), said(1), said(2)], [[1, 1], [0, 0], [1, 1]]);
}

#[test]
fn acquisitions_of_one_name_in_quick_succession_are_exported_and_finished_again_each_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (out, log) = (dir.path().join("results"), dir.path().join("log"));
    let more = ["--record", log.to_str().unwrap(), "--export-on-completion"];
    let mut detector = Detector::new();
    let daemon = Daemon::start(&detector, &out, &more);
    detector.wait_for_reader();
    // nothing is waited for in between; the third has no end, and the fourth begins without one
    let sent =
        [(Version::V1, 7, true), (Version::V1, 7, true), (Version::V2, 8, false), (Version::V2, 8, true)];
    let shift = |at: usize| 100 * (at + 1);
    for (at, (version, id, has_end)) in sent.into_iter().enumerate() {
        detector.facts.id = id;
        detector.acquisition(version, 0..4096, shift(at));
        if has_end {
            detector.socket.send(&detector.facts.end(version));
        }
    }
    let list = wait_for_list(&daemon, "four exports", |list| {
        let all = list["series"].as_array().unwrap();
        all.len() == 4 && all.iter().all(|series| series["export"]["state"] == "done")
    });
    let series = |at: usize| &list["series"][3 - at];
    for (at, (_, id, _)) in sent.into_iter().enumerate() {
        assert_eq!((&series(at)["id"], &series(at)["state"]), (&json!(id), &json!("complete")));
        let exported = stored(series(at)["export"]["path"].as_str().unwrap());
        assert!(exported == shifted(&detector.batches, shift(at)), "{at}");
    }
    let folder = |at: usize| PathBuf::from(series(at)["folder"].as_str().unwrap());
    drop(daemon);

    let again = dir.path().join("again");
    let (optics, kv) = (true_optics(-12.5), voltage_kv());
    let mut args = vec!["run", log.to_str().unwrap(), "--series", "7.2", "--quiet", "--voltage-kv", &kv];
    args.extend(["--out", again.to_str().unwrap()]);
    args.extend(optics.iter().map(String::as_str));
    let output = sideband(&args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    same_results(&again, &folder(1));

    let daemon = Daemon::start(&Detector::new(), &out, &more[..2]);
    let recorded = |list: &Value| list["recorded"]["series"].as_array().unwrap_or(&Vec::new()).clone();
    let list = wait_for_list(&daemon, "the recording", |list| recorded(list).len() == 4);
    let labels: Vec<Value> = recorded(&list).iter().map(|series| series["label"].clone()).collect();
    assert_eq!(labels, ["8.2", "8.1", "7.2", "7.1"]);
    for label in ["7.2", "8.1"] {
        let is_it = |series: &Value| series["label"] == label;
        let number = recorded(&list).into_iter().find(is_it).unwrap()["number"].as_str().unwrap().to_owned();
        let (code, answer) = daemon.post(&format!("/api/v1/series/{number}/finish"), &json!({}));
        assert_eq!(code, 202, "{answer}");
        let list = wait_for_list(&daemon, label, |list| {
            recorded(list).into_iter().find(is_it).unwrap()["finish"]["state"] == "done"
        });
        let made = recorded(&list).into_iter().find(is_it).unwrap()["finish"]["path"].clone();
        same_results(Path::new(made.as_str().unwrap()), &folder(if label == "7.2" { 1 } else { 2 }));
    }
}

/// Of two channels, one without a name, the export of that had the frames of the other.
#[test]
fn a_channel_without_a_name_beside_another_is_exported_and_finished_with_its_own_frames() {
    let dir = tempfile::tempdir().unwrap();
    let (out, log) = (dir.path().join("results"), dir.path().join("log"));
    let more = ["--record", log.to_str().unwrap(), "--threshold", "all", "--export-on-completion"];
    let mut detector = Detector::new();
    let daemon = Daemon::start(&detector, &out, &more);
    detector.wait_for_reader();
    let names = ["../../x", ""];
    detector.announce(&names);
    let frames = [100, 200].map(|shift| shifted(&detector.batches, shift));
    for (number, (one, other)) in (0..).zip(frames[0].iter().zip(&frames[1])) {
        let channels = [(names[0], one.as_slice()), (names[1], other.as_slice())];
        let image = detector.facts.image_of_channels(number, &channels);
        assert_eq!(detector.socket.send(&image), Sent::Yes);
    }
    detector.socket.send(&detector.facts.end(Version::V2));
    let list = wait_for_list(&daemon, "both exports", |list| {
        let all = list["series"].as_array().unwrap();
        all.len() == 2 && all.iter().all(|series| series["export"]["state"] == "done")
    });
    let mut folders = Vec::new();
    for (at, (frames, channel)) in frames.iter().zip(["../../x", "threshold_1"]).enumerate() {
        let series = &list["series"][at];
        assert_eq!((&series["channel"], &series["state"]), (&json!(channel), &json!("complete")));
        assert!(stored(series["export"]["path"].as_str().unwrap()) == *frames, "{channel}");
        folders.push(PathBuf::from(series["folder"].as_str().unwrap()));
        assert!(folders[at].ends_with(format!("channel_{at}")), "{series}");
    }
    drop(daemon);

    let exported = dir.path().join("by hand");
    let args = ["export", log.to_str().unwrap(), "--threshold", "1", "--name", "set", "--out"];
    let output = sideband(&[&args[..], &[exported.to_str().unwrap()]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stored(exported.join("set_master.h5").to_str().unwrap()) == frames[1]);

    let daemon = Daemon::start(&Detector::new(), &out, &more[..4]);
    let of = |list: &Value| list["recorded"]["series"].as_array().unwrap_or(&Vec::new()).clone();
    let list = wait_for_list(&daemon, "the recording", |list| of(list).len() == 2);
    let unnamed = of(&list).into_iter().find(|series| series["channel"] == "").unwrap();
    assert_eq!(unnamed["folder"], folders[1].to_str().unwrap());
    let number = unnamed["number"].as_str().unwrap();
    assert_eq!(daemon.post(&format!("/api/v1/series/{number}/finish"), &json!({})).0, 202);
    let is_it = |series: &Value| series["number"] == number;
    let list = wait_for_list(&daemon, "it is finished", |list| {
        of(list).into_iter().find(is_it).unwrap()["finish"]["state"] == "done"
    });
    let made = of(&list).into_iter().find(is_it).unwrap()["finish"]["path"].clone();
    same_results(Path::new(made.as_str().unwrap()), &folders[1]);
}

/// Images of twenty channels were counted as garbage without a word; a late channel of another type failed for the
/// reason that its first images came without it.
#[test]
fn more_channels_than_an_image_has_and_a_late_one_of_another_type_are_said_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut daemon = Daemon::start(&detector, dir.path(), &["--threshold", "all"]);
    detector.wait_for_reader();
    let many: Vec<String> = (0..20).map(|channel| format!("c{channel}")).collect();
    detector.announce(&["c0"]);
    let channels: Vec<(&str, &[u8])> = many.iter().map(|name| (&**name, &[0; 40][..])).collect();
    for number in 0..3 {
        detector.socket.send(&detector.facts.image_of_channels(number, &channels));
    }
    let is_told = |status: &Value| {
        let what = "got 20 channels in an image, expected at most 4";
        status["armed"]["warnings"].to_string().matches(what).count() == 1 && status["stream"]["garbage"] == 3
    };
    daemon.wait_for("images of too many channels", is_told);
    detector.socket.send(&detector.facts.end(Version::V2));

    detector.facts.unique_id = "01KB0000000000000000000042".to_owned();
    detector.announce(&["threshold_1", "threshold_2"]);
    let frames = shifted(&detector.batches, 0);
    // a frame of counts twice as wide, nothing of it decoded
    let wide = SeriesFacts { count_type: kernels::types::CountType::U32, ..detector.facts.clone() };
    for (number, frame) in frames.iter().enumerate() {
        let image = match number {
            0..20 => detector.facts.image_of_channels(number as u64, &[("threshold_1", frame)]),
            _ => wide.image_of_channels(number as u64, &[("threshold_2", frame)]),
        };
        assert_eq!(detector.socket.send(&image), Sent::Yes);
    }
    detector.socket.send(&detector.facts.end(Version::V2));
    let lines: Vec<String> = (0..4).map(|_| daemon.next_line()).collect();
    let failed = lines.iter().find(|line| line.contains("threshold_2: failed: ")).unwrap();
    for words in [
        "the image came without threshold_2 (20 frames)",
        "u32, Bslz4, expected 96x96 u16, Bslz4 (4076 frames)",
    ] {
        assert!(failed.contains(words), "{failed}");
    }
}
