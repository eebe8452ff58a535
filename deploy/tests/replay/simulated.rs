//! A simulation is sent while it is made.

use std::path::Path;
use std::process::Command;

use ingest::stream::series::Ending;

use super::detector::Detector;
use super::reader::{read, simulated};

/// 9 x 7 positions: several batches on one core, one on many.
const FLAGS: [&str; 5] = [
    "--scan-shape=9x7",
    "--detector-shape=32x32",
    "--detector-sampling-mrad=2",
    "--seed=5",
    "--count-type=u16",
];

#[test]
fn frames_of_a_simulation_that_are_made_while_they_are_sent_are_those_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let (set, truth) = (folder.path().join("set"), folder.path().join("truth"));
    let stored = simulated(&FLAGS, &set);
    assert_eq!(stored.len(), 63);

    for version in ["--stream=v1", "--stream=v2"] {
        let out = format!("--out={}", truth.display());
        let args =
            [&[version, "--arm", "--series=2", "--rate=max", "--fault=lost=@20", "--"], &FLAGS[..], &[&out]];
        let detector = Detector::start(Path::new("simulate"), &args.concat());
        let came = read(&detector.stream, 2, 63);
        for came in &came {
            assert_ne!(came.end.ending, Ending::Silence);
            assert_eq!(came.holes(), [[20, 21]]);
            let is_same = |(came, stored): (&Option<Vec<u8>>, _)| came.is_none() || came == stored;
            assert!(came.frames.iter().zip(&stored).all(is_same), "{version}");
        }
        assert_eq!(detector.ends(), 0);
    }

    let same = |name| std::fs::read(truth.join(name)).unwrap() == std::fs::read(set.join(name)).unwrap();
    assert!(same("truth_phase.npy"));
    let json = |folder: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.join("truth.json")).unwrap()).unwrap()
    };
    let (ours, theirs) = (json(&truth), json(&set));
    for (name, value) in ours.as_object().unwrap() {
        assert!(name == "made_with" || theirs[name] == *value, "{name}: {value}, not {}", theirs[name]);
    }
    assert!(ours.get("saturated_counts").is_none() && theirs.get("saturated_counts").is_some());
}

#[test]
fn flags_of_a_simulation_are_checked_before_anything_listens() {
    let refused = |args: &[&str]| {
        let ran = Command::new(env!("CARGO_BIN_EXE_sideband")).arg("replay").args(args).output().unwrap();
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{args:?}");
        String::from_utf8_lossy(&ran.stderr).into_owned()
    };
    assert!(refused(&["simulate", "--", "--specimen=cheese"]).contains("cheese"));
    assert!(refused(&["simulate", "--", "--semi-angle-mrad=-3"]).contains("semi-angle"));
    assert!(refused(&["some_master.h5", "--", "--seed=3"]).contains("some_master.h5"));
}

/// Whatever it was at, it said that it had stayed for the next series.
#[test]
fn a_replay_that_is_told_to_stop_says_what_it_was_at() {
    let simulate = Path::new("simulate");
    let detector = Detector::start_heard(simulate, &[&["--"], &FLAGS[..]].concat());
    let (code, said) = detector.terminated();
    assert!(code == 143 && said.ends_with("interrupted before the first series\n"), "{code} {said}");

    let detector = Detector::start_heard(simulate, &[&["--arm", "--"], &FLAGS[..]].concat());
    let (code, said) = detector.terminated();
    assert!(code == 143 && said.ends_with("interrupted while it waited for a reader\n"), "{code} {said}");

    // armed, and not triggered
    let detector = Detector::start_heard(simulate, &[&["--"], &FLAGS[..]].concat());
    assert_eq!(detector.put("/detector/api/1.8.0/command/arm", serde_json::json!(null)).0, 200);
    let (code, said) = detector.terminated();
    assert!(code == 143 && said.ends_with("interrupted in the middle of series 1\n"), "{code} {said}");

    let mut detector = Detector::start_heard(simulate, &[&["--patience=0", "--"], &FLAGS[..]].concat());
    for command in ["arm", "trigger"] {
        let path = format!("/detector/api/1.8.0/command/{command}");
        assert_eq!(detector.put(&path, serde_json::json!(null)).0, 200);
    }
    assert!(detector.line().starts_with("series 1: 0 frames sent, "), "nobody takes them");
    let (code, said) = detector.terminated();
    assert!(
        code == 143 && said.ends_with("interrupted while it stayed for the next series\n"),
        "{code} {said}"
    );
}
