//! What the simulator refuses, and what it leaves alone.

use std::path::Path;

use super::program::{code, sideband, simulated, simulated_with, stderr};

fn simulate(out: &Path, flags: &[&str]) -> (i32, String) {
    let tiny = ["--scan-shape=2x2", "--detector-shape=32x32", "--detector-sampling-mrad=3"];
    let place = ["simulate", "--out", out.to_str().unwrap()];
    let own = |given: &&&str| !flags.iter().any(|flag| flag.split('=').next() == given.split('=').next());
    let tiny: Vec<&str> = tiny.iter().filter(own).copied().collect();
    let output = sideband(&[&place[..], &tiny, flags].concat());
    (code(&output), stderr(&output))
}

#[test]
fn a_wrong_value_ends_with_2_and_makes_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new");
    for (flag, said) in [
        ("--semi-angle-mrad=0.025", "did you mean 25 mrad?"),
        ("--bf-centre=200,200", "a point of the 32x32 detector"),
        ("--voltage-kv=300000", "10 to 1000 kV; did you mean 300 kV?"),
        ("--voltage-kv=1500", "10 to 1000 kV"),
        ("--tilt-mrad=5000,1", "at most 200 mrad"),
        ("--tilt-mrad=5", "ROW,COL such as 5,0"),
        ("--name=a/b", "a file name without folders"),
        ("--images-per-file=0", "at least 1"),
        ("--aberration=C10=-6.3e-9", "did you mean -6.3 nm?"),
        ("--aberration=C10=-1e6", "smaller aberrations"),
        ("--scan-step-nm=0,024", "did you mean 0.024?"),
    ] {
        let (code, text) = simulate(&out, &[flag]);
        assert_eq!(code, 2, "{flag}: {text}");
        assert!(text.contains(said) && !text.contains("--force"), "{flag}: {text}");
        assert!(!out.exists(), "{flag}");
    }
    let map = ["--phase-map=map.npy", "--phase-map-pixel-nm=0.01", "--specimen=sto"];
    let (code, text) = simulate(&out, &map);
    assert!(code == 2 && text.contains("cannot be used with"), "{text}");
}

/// `--force` is for the set of the same name; it once took the truth of another away and left its counts without one.
#[test]
fn the_truth_of_another_set_is_kept_with_force_too() {
    let dir = tempfile::tempdir().unwrap();
    simulated_with(dir.path(), &["--name=a"]);
    let truth = std::fs::read(dir.path().join("truth.json")).unwrap();
    for force in [&["--name=b"][..], &["--name=b", "--force"]] {
        let (code, text) = simulate(dir.path(), force);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("truth.json belongs to the set 'a'"), "{text}");
        assert!(!dir.path().join("b_master.h5").exists());
        assert_eq!(std::fs::read(dir.path().join("truth.json")).unwrap(), truth);
    }
    let (code, text) = simulate(dir.path(), &["--name=a"]);
    assert!(code == 1 && text.contains("give --force to replace it"), "{text}");
    let (code, text) = simulate(dir.path(), &["--name=a", "--force"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn force_is_advised_only_where_it_helps() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a file");
    std::fs::write(&file, "").unwrap();
    let output = sideband(&["demo", "--out", file.to_str().unwrap()]);
    assert!(code(&output) == 1 && !stderr(&output).contains("--force"), "{}", stderr(&output));
    simulated(dir.path());
    for name in ["truth.json", "truth_phase.npy"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let (code, text) = simulate(dir.path(), &[]);
    assert!(code == 1 && text.contains("_master.h5 exists already; give --force to replace it"), "{text}");
}

#[test]
fn what_a_simulation_does_otherwise_than_one_may_think_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let (code, text) = simulate(&dir.path().join("a"), &["--tilt-mrad=5,0"]);
    assert!(code == 0 && text.contains("a specimen of one slice is not tilted"), "{text}");
    let bright = ["--count-type=u8", "--electrons-per-frame=200000"];
    let (code, text) = simulate(&dir.path().join("b"), &bright);
    assert!(code == 0 && text.contains("counts did not fit u8 and are stored as 255"), "{text}");
    let (code, text) = simulate(&dir.path().join("c"), &[]);
    assert!(code == 0 && !text.contains("slice") && !text.contains("stored as"), "{text}");
}
