//! A recording is replayed: the same messages, and what they say in the other version.

use std::path::{Path, PathBuf};
use std::process::Command;

use ingest::record::LogReader;
use ingest::stream::series::Ending;

use super::detector::{Detector, golden};
use super::reader::{read, record, stored};

/// The messages of a series of a log, part by part, in the order in which they came.
fn messages(log: &Path, series: u64) -> Vec<Vec<Vec<u8>>> {
    let mut reader = LogReader::open(log).unwrap();
    let mut messages = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        if record.series == Some(series) {
            messages.push(record.parts().map(<[u8]>::to_vec).collect());
        }
    }
    messages
}

/// Seconds from the first image of a log to its last, as they were recorded.
fn recorded_secs(log: &Path) -> f64 {
    let mut reader = LogReader::open(log).unwrap();
    let mut came = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        came.extend(record.frame.map(|_| record.arrival_nanos));
    }
    (came.iter().max().unwrap() - came.iter().min().unwrap()) as f64 * 1e-9
}

/// Replays a source into a log.
fn recorded(source: &Path, log: PathBuf, num_series: usize, args: &[&str]) -> PathBuf {
    let series = format!("--series={num_series}");
    let detector = Detector::start(source, &[&["--arm", &series, "--rate=max"], args].concat());
    record(&detector.stream, num_series, 4096, &log);
    assert_eq!(detector.ends(), 0);
    log
}

#[test]
fn a_recording_is_replayed_message_by_message_in_the_order_in_which_it_came() {
    let Some(master) = golden() else { return };
    let stored = stored(&master);
    for (version, other) in [("v1", "v2"), ("v2", "v1")] {
        let folder = tempfile::tempdir().unwrap();
        let of_version = format!("--stream={version}");
        let faults = ["--fault=lost=9", "--fault=doubled=9", "--fault=late=9", "--fault=swapped=9"];
        let args = [&[&*of_version][..], &faults].concat();
        let log = recorded(&master, folder.path().join("log"), 2, &args);
        let refused = Command::new(env!("CARGO_BIN_EXE_sideband")).arg("replay").arg(&log).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains("--log-series"), "{said}");

        let again = recorded(&log, folder.path().join("again"), 1, &[&of_version, "--log-series=2"]);
        let (first, second) = (messages(&log, 2), messages(&again, 2));
        // 4096 frames, nine lost, nine doubled, start and end
        assert_eq!((first.len(), second.len()), (4098, 4098), "{version}");
        assert!(first == second, "{version}");

        let of_other = format!("--stream={other}");
        let args = ["--arm", "--series=2", "--rate=max", "--log-series=2", &of_other];
        let detector = Detector::start(&log, &args);
        let came = read(&detector.stream, 2, 4096);
        for (id, came) in (2..).zip(&came) {
            assert_eq!((came.announced.key.id, came.announced.num_images), (id, Some(4096)), "{other}");
            assert_eq!(came.holes().iter().map(|[first, end]| end - first).sum::<u64>(), 9);
            let is_same =
                |(came, stored): (&Option<Vec<u8>>, &Option<Vec<u8>>)| came.is_none() || came == stored;
            assert!(came.frames.iter().zip(&stored).all(is_same), "{other}");
        }
        assert!(came[0].holes() == came[1].holes());
        assert_eq!(detector.ends(), 0);
    }
}

#[test]
fn a_recording_keeps_its_pauses_and_takes_faults() {
    let Some(master) = golden() else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let detector = Detector::start(&master, &["--arm", "--series=1", "--rate=max", "--fault=stall=0.7@1000"]);
    record(&detector.stream, 1, 4096, &log);
    assert_eq!(detector.ends(), 0);

    let mut detector =
        Detector::start(&log, &["--arm", "--series=1", "--fault=lost=@3,4", "--fault=wrong-size=@9"]);
    let came = read(&detector.stream, 1, 4096);
    assert_eq!(came[0].holes(), [[3, 5], [9, 10]]);
    assert_ne!(came[0].end.ending, Ending::Complete);
    let stored = stored(&master);
    assert!(came[0].frames.iter().zip(&stored).all(|(came, stored)| came.is_none() || came == stored));
    let line = detector.line();
    let secs: f64 = line.split(", ").nth(2).unwrap().trim_end_matches(" s").parse().unwrap();
    // a machine under load records the pause shorter than it was sent
    let recorded = recorded_secs(&log);
    assert!(recorded > 0.1 && secs >= 0.99 * recorded, "{line}, recorded {recorded} s");
    assert_eq!(detector.ends(), 0);
}
