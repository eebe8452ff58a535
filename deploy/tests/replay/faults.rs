//! Faults: what a reader misses is what was taken from it, to the frame.

use std::path::Path;

use ingest::stream::series::Ending;
use serde_json::Value;

use super::detector::{Detector, golden};
use super::reader::{Came, read, stored};

/// Replays with faults. What came, and what the log says was done, series by series.
fn with_faults(master: &Path, faults: &[&str], num_series: usize, more: &[&str]) -> (Vec<Came>, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("faults.json");
    let series = format!("--series={num_series}");
    let mut args = vec!["--arm", &series, "--rate=20000", "--fault-log", log.to_str().unwrap()];
    args.extend(faults.iter().flat_map(|fault| ["--fault", fault]));
    args.extend(more);
    let detector = Detector::start(master, &args);
    let came = read(&detector.stream, num_series, 4096);
    assert_eq!(detector.ends(), 0);
    let text = std::fs::read_to_string(&log).unwrap();
    (came, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn holes(log: &Value) -> Vec<[u64; 2]> {
    serde_json::from_value(log["holes"].clone()).unwrap()
}

fn hits(log: &Value, fault: &str) -> Vec<u64> {
    serde_json::from_value(log["hits"][fault].clone()).unwrap_or_default()
}

/// The frames that came are those of the files, the others the holes of the log.
fn check(came: &Came, stored: &[Option<Vec<u8>>], log: &Value, what: &str) {
    assert_eq!(came.holes(), holes(log), "{what}");
    assert_eq!(came.frames.len(), stored.len(), "{what}");
    for (number, (came, stored)) in came.frames.iter().zip(stored).enumerate() {
        assert!(came.is_none() || came == stored, "{what}: frame {number}");
    }
}

#[test]
fn each_fault_of_frames_makes_exactly_the_holes_that_the_log_names() {
    let Some(master) = golden() else { return };
    let stored = stored(&master);
    for version in ["--stream=v1", "--stream=v2"] {
        for (fault, num_holes) in [
            ("lost=40", 40),
            ("lost=@0,7,4095", 3),
            ("doubled=30", 0),
            ("swapped=30", 0),
            ("late=10", 0),
            ("truncated=20", 20),
            ("corrupted=20", 20),
            ("wrong-size=@5,600", 2),
            ("wrong-type=@5,600", 2),
            ("garbage=50", 0),
            ("no-start", 0),
            ("end=early", 0),
            ("end=missing", 0),
            ("end=late:0.2", 0),
        ] {
            let (came, log) = with_faults(&master, &[fault], 1, &[version]);
            let what = format!("{version} {fault}");
            check(&came[0], &stored, &log[0], &what);
            let counted: u64 = came[0].holes().iter().map(|[start, end]| end - start).sum();
            assert_eq!(counted, num_holes, "{what}");
            let counts = &came[0].end.counts;
            match fault {
                "doubled=30" => assert_eq!((counts.doubled, hits(&log[0], "doubled").len()), (30, 30)),
                "wrong-size=@5,600" | "wrong-type=@5,600" => assert_eq!(counts.unlike, 2, "{what}"),
                "garbage=50" => assert!(came[0].garbage > 40, "{what}: {}", came[0].garbage),
                "no-start" => assert_eq!(came[0].announced.num_images, None),
                _ => {}
            }
        }
    }
}

#[test]
fn faults_add_up_and_the_seed_decides() {
    let Some(master) = golden() else { return };
    let stored = stored(&master);
    let faults =
        ["lost=0.01", "doubled=5", "swapped=0.02", "late=9", "truncated=4", "corrupted=0.002", "garbage=10"];
    let mut all = Vec::new();
    for seed in ["--seed=5", "--seed=5", "--seed=6"] {
        let (came, log) = with_faults(&master, &faults, 1, &[seed]);
        check(&came[0], &stored, &log[0], seed);
        all.push(log[0]["hits"].clone());
    }
    assert!(all[0] == all[1] && all[0] != all[2]);
}

#[test]
fn nothing_is_lost_when_it_stalls_or_starts_again() {
    let Some(master) = golden() else { return };
    let stored = stored(&master);
    for fault in ["stall=0.5@1000", "restart@2000"] {
        let (came, log) = with_faults(&master, &[fault], 1, &["--patience=5"]);
        check(&came[0], &stored, &log[0], fault);
        assert_eq!(came[0].end.ending, Ending::Complete, "{fault}");
    }
}

#[test]
fn an_aborted_series_ends_and_the_next_is_whole() {
    let Some(master) = golden() else { return };
    let stored = stored(&master);
    let (came, log) = with_faults(&master, &["abort-next@1500"], 2, &[]);
    assert_eq!((came[0].announced.key.id, came[1].announced.key.id), (1, 2));
    assert_eq!(came[0].holes(), [[1500, 4096]]);
    check(&came[0], &stored, &log[0], "aborted");
    assert_eq!(log[0]["ending"], "aborted for the next");
    check(&came[1], &stored, &log[1], "next");
    assert_eq!(came[1].end.ending, Ending::Complete);
}

#[test]
fn what_a_second_reader_takes_is_named() {
    let Some(master) = golden() else { return };
    let stored = stored(&master);
    let (came, log) = with_faults(&master, &["thief"], 1, &[]);
    check(&came[0], &stored, &log[0], "thief");
    let stolen: Vec<[u64; 2]> = serde_json::from_value(log[0]["stolen"].clone()).unwrap();
    let stolen: u64 = stolen.iter().map(|[start, end]| end - start).sum();
    assert!((1000..3000).contains(&stolen), "{stolen}");
}
