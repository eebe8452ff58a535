#[path = "../../../../ingest/tests/support/recording.rs"]
mod recording;

use std::path::Path;

use clap::Parser;
use ingest::dectris::FileSet;
use ingest::record::list_series;
use ingest::stream::compose::{SeriesFacts, Version};
use ingest::stream::push::WireMessage;
use kernels::bslz4_decode::Encoding;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{CountType, DetectorShape};

use recording::recorded;

use super::*;
use crate::cli::{Cli, Command};
use crate::replay::recording::Recording;
use crate::request::StopFlag;

fn facts(id: u64, unique_id: &str) -> SeriesFacts {
    SeriesFacts {
        id,
        unique_id: unique_id.to_owned(),
        num_images: 6,
        detector: DetectorShape { rows: 8, cols: 16 },
        count_type: CountType::U16,
        encoding: Encoding::Bslz4,
        incident_energy_ev: 300_000.0,
        frame_time_s: 1e-4,
    }
}

fn image(facts: &SeriesFacts, version: Version, number: u64) -> WireMessage {
    let mut chunk = Vec::new();
    encode_bslz4(&[number as u16; 128], &mut chunk);
    facts.image(version, number, &chunk)
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ExportArgs,
}

fn asked(words: &[&str]) -> anyhow::Result<Ending> {
    asked_until(words, &StopFlag::default())
}

fn asked_until(words: &[&str], stop: &StopFlag) -> anyhow::Result<Ending> {
    let words = [&["export"], words].concat();
    export(&Line::try_parse_from(words).map_err(WrongFlags::because)?.args, stop)
}

/// A signal ended it without a word, and half a set stayed.
#[test]
fn an_export_that_is_asked_to_stop_ends_in_good_order_and_one_of_two_starts_is_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let facts = facts(1, "A");
    let mut messages = Vec::new();
    for numbers in [0..2, 2..6] {
        messages.push(facts.start(Version::V2));
        messages.extend(numbers.map(|number| image(&facts, Version::V2, number)));
    }
    recorded(&log, &messages);
    let (series, _) = list_series(&log).unwrap();
    assert!(listed(&series).contains("6 of 6 frames, complete, of two starts, 8x16"), "{}", listed(&series));
    assert!(series[0].doubt().is_some());
    let [log, out] = [log, dir.path().join("out")].map(|path| path.to_str().unwrap().to_owned());
    let stop = StopFlag::default();
    stop.raise();
    for words in [&[&*log, "--out", &out, "--series", "A"][..], &[&*log, "--list"]] {
        assert_eq!(asked_until(words, &stop).unwrap(), Ending::Interrupted);
    }
    assert!(!Path::new(&out).exists());
    assert_eq!(asked(&[&log, "--out", &out, "--series", "A"]).unwrap(), Ending::Done);
}

#[test]
fn a_recording_of_the_loopback_becomes_a_set_by_one_command() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let (one, two, anew) = (facts(1, "A"), facts(2, "B"), facts(2, "C"));
    let mut messages = vec![one.start(Version::V1)];
    messages.extend((0..6).map(|number| image(&one, Version::V1, number)));
    for (facts, numbers) in [(&two, 0..6), (&anew, 3..5)] {
        messages.push(facts.start(Version::V2));
        messages.extend(numbers.map(|number| image(facts, Version::V2, number)));
    }
    messages.push(anew.end(Version::V2));
    recorded(&log, &messages);
    let [log, out] = [log, dir.path().join("out")].map(|path| path.to_str().unwrap().to_owned());

    assert_eq!(asked(&[&log, "--list"]).unwrap(), Ending::Done);
    let (series, _) = list_series(Path::new(&log)).unwrap();
    let lines: Vec<String> = listed(&series).lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("series 1: 6 of 6 frames, complete, 8x16, 0.0 MB, 20"), "{lines:?}");
    assert!(lines[1].starts_with("series 2 (B): 6 of 6 frames, complete, 8x16, threshold_1"), "{lines:?}");
    assert!(lines[2].starts_with("series 2 (C): 2 of 6 frames, ended, "), "{lines:?}");

    for wrong in [
        &[&log, "--out", &out][..],
        &[&log, "--out", &out, "--series", "2"],
        &[&log, "--out", &out, "--series", "9"],
    ] {
        let error = asked(wrong).unwrap_err();
        assert!(error.is::<WrongFlags>() && error.to_string().contains("series 2 (C)"), "{error}");
    }
    // as a run refuses them
    for series in ["2", "9"] {
        let words = ["sideband", "run", &log, "--out", &out, "--series", series];
        let Command::Run(run) = Cli::try_parse_from(words).unwrap().command else { panic!() };
        let output = crate::pipeline::run(run.request(StopFlag::default()).unwrap());
        let error = output.unwrap_err();
        assert!(error.is::<WrongFlags>() && error.to_string().contains("2 (C)"), "{error}");
    }
    for wrong in
        [&[&*log][..], &[&log, "--out", &out, "--list"], &[&log, "--out", &out, "--voltage-kv", "300000"]]
    {
        assert!(asked(wrong).unwrap_err().is::<WrongFlags>());
    }
    assert!(!Path::new(&out).exists());

    asked(&[&log, "--out", &out, "--series", "1", "--scan-shape", "2x3"]).unwrap();
    let set = FileSet::open(&Path::new(&out).join("series_1_master.h5")).unwrap();
    assert_eq!((set.frames_expected, set.frames_present()), (6, 6));
    assert_eq!(set.side_cars[0].scan_shape, Some(ScanShape { rows: 2, cols: 3 }));
    asked(&[&log, "--out", &out, "--series", "B", "--name", "other", "--voltage-kv", "80"]).unwrap();
    let set = FileSet::open(&Path::new(&out).join("other_master.h5")).unwrap();
    assert_eq!(set.metadata.incident_energy_ev, Some(80_000.0));
    asked(&[&log, "--out", &out, "--series", "C", "--missing", "refuse"]).unwrap_err();
    asked(&[&log, "--out", &out, "--series", "C"]).unwrap();
    asked(&[&log, "--out", &out, "--series", "C"]).unwrap_err();
    asked(&[&log, "--out", &out, "--series", "C", "--overwrite"]).unwrap();
}

#[test]
fn two_series_of_one_number_are_named_by_their_places_and_each_is_exported_and_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let facts = facts(7, "");
    let mut messages = Vec::new();
    // the detector was restarted after the first, and lost an image of the second
    for numbers in [0..6, 1..6] {
        messages.push(facts.start(Version::V1));
        messages.extend(numbers.map(|number| image(&facts, Version::V1, number)));
    }
    recorded(&log, &messages);
    let [log, out] = [log, dir.path().join("out")].map(|path| path.to_str().unwrap().to_owned());
    let error = asked(&[&log, "--out", &out, "--series", "7"]).unwrap_err();
    let text = error.to_string();
    assert!(error.is::<WrongFlags>() && text.contains("series 7.1: 6 of 6 frames, complete"), "{text}");
    assert!(text.contains("series 7.2: 5 of 6 frames, not ended"), "{text}");
    for (name, present) in [("7.1", 6), ("7.2", 5)] {
        asked(&[&log, "--out", &out, "--series", name]).unwrap();
        let set = FileSet::open(&Path::new(&out).join(format!("series_{name}_master.h5"))).unwrap();
        assert_eq!((set.frames_expected, set.frames_present()), (6, present));
        let (recording, _) = Recording::open(Path::new(&log), Some(name)).unwrap();
        let has_first = recording.image(0).is_some();
        assert_eq!((recording.images.len() as u64, has_first), (present, name == "7.1"));
    }
}

#[test]
fn a_folder_without_a_recording_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let error = asked(&[dir.path().to_str().unwrap(), "--list"]).unwrap_err();
    assert!(error.to_string().ends_with("the folder holds no recording"), "{error}");
}

#[test]
fn missing_frames_are_told_as_ranges() {
    let missing = [0..1, 3..7, 9..10, 12..14, 20..21, 30..31];
    assert_eq!(ranges(&missing), "0, 3 to 6, 9, 12 to 13, 20, ...");
    assert_eq!(ranges(&missing[1..2]), "3 to 6");
}

#[test]
fn a_set_is_written_for_each_threshold_that_is_asked_for() {
    let both = ["threshold_1".to_owned(), "../odd".to_owned()];
    let three = ["threshold_1", "threshold_2", "difference"].map(str::to_owned);
    let of = |asked: &str, channels: &[String]| -> Vec<(Option<String>, String)> {
        sets(Some(&asked.parse().unwrap()), channels, "s").unwrap()
    };
    let set = |channel: Option<&str>, name: &str| (channel.map(str::to_owned), name.to_owned());
    assert_eq!(sets(None, &both, "s").unwrap(), [set(None, "s")]);
    assert_eq!(of("first", &both), [set(None, "s")]);
    assert_eq!(of("2", &three), [set(Some("threshold_2"), "s")]);
    assert_eq!(of("difference", &three), [set(Some("difference"), "s")]);
    let all = [set(Some("threshold_1"), "s_threshold_1"), set(Some("../odd"), "s_channel_1")];
    assert_eq!(of("all", &both), all);
    let of_v1 = [String::new()];
    assert_eq!([of("all", &of_v1), of("1", &of_v1)], [[set(None, "s")], [set(None, "s")]]);
    for (asked, channels, there) in [
        ("4", &three[..], "threshold_4, expected one of the series: threshold_1, threshold_2, difference"),
        ("sum", &three, "sum, expected one of the series: threshold_1, threshold_2, difference"),
        ("difference", &of_v1, "difference, expected one of the series: threshold_1"),
    ] {
        let why = sets(Some(&asked.parse().unwrap()), channels, "s").unwrap_err();
        assert!(why.is::<WrongFlags>() && why.to_string().ends_with(there), "{why}");
    }
}
