//! A simulation is sent while it is made.

use std::path::Path;
use std::process::Command;

use ingest::stream::series::Ending;

use super::detector::Detector;
use super::reader::{read, stored};

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
    let made = Command::new(env!("CARGO_BIN_EXE_sideband"))
        .arg("simulate")
        .args(FLAGS)
        .args(["--quiet", "--out", set.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let stored = stored(&set.join("simulated_master.h5"));
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
