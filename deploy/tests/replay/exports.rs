//! What is exported opens in the readers that others have built, and is what was live.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::detector::{Detector, golden};
use super::reader::record;

/// A Python of `SIDEBAND_READERS` (several, with colons between them) that has a package.
fn python(package: &str) -> Option<PathBuf> {
    let pythons = std::env::var_os("SIDEBAND_READERS");
    let has = |python: &PathBuf| {
        let output =
            Command::new(python).args(["-c", &format!("import h5py, hdf5plugin, {package}")]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = pythons.iter().flat_map(|pythons| std::env::split_paths(pythons)).find(has);
    if found.is_none() {
        let what =
            format!("no Python of SIDEBAND_READERS has {package} (tests/peers/requirements-readers.txt)");
        let _ = writeln!(std::io::stderr(), "not run: {what}");
    }
    found
}

fn sideband(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sideband")).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        [Some(0), Some(3)].contains(&output.status.code()),
        "{args:?}: {:?} {said} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// Records a replay of the golden acquisition and exports it. Returns the log, the master, and the holes.
fn exported(folder: &Path, master: &Path, args: &[&str]) -> (PathBuf, PathBuf, Vec<[u64; 2]>) {
    let detector = Detector::start(master, &[&["--arm", "--series=1", "--rate=20000"], args].concat());
    let log = folder.join("log");
    let came = record(&detector.stream, 1, 4096, &log);
    assert_eq!(detector.ends(), 0);
    let out = folder.join("set");
    let [log_text, out] = [&log, &out].map(|path| path.to_str().unwrap());
    let said = sideband(&["export", log_text, "--out", out, "--scan-shape=64x64"]);
    (log, PathBuf::from(said.trim_end()), came[0].holes())
}

#[test]
fn readers_of_others_find_every_count_of_a_set_with_and_without_holes() {
    let Some(master) = golden() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/peers/read_export.py");
    let holes = ["--stream=v1", "--fault=lost=37", "--fault=lost=@0,1,4094,4095", "--seed=3"];
    for (args, num_holes) in [(&["--stream=v2"][..], 0), (&holes[..], 41)] {
        let folder = tempfile::tempdir().unwrap();
        let (_, set, holes) = exported(folder.path(), &master, args);
        assert_eq!(holes.iter().map(|[first, end]| end - first).sum::<u64>(), num_holes);
        for package in ["h5py", "py4DSTEM", "libertem", "rsciio", "ncempy"] {
            let Some(python) = python(package) else { continue };
            let mut command = Command::new(python);
            command.arg(&script).arg(package).arg(&set).arg(&master).args(["64", "64"]);
            let output = command.env("NUMBA_CACHE_DIR", folder.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let complained = String::from_utf8_lossy(&output.stderr);
            let expected = format!(": 4096 frames identical, {num_holes} of them holes");
            assert!(output.status.success() && said.contains(&expected), "{said}\n{complained}");
            let _ = writeln!(std::io::stderr(), "{}", said.lines().last().unwrap_or_default());
        }
    }
}

#[test]
fn a_run_of_an_export_has_the_holes_and_images_of_a_run_of_its_log() {
    let Some(master) = golden() else { return };
    let folder = tempfile::tempdir().unwrap();
    let args = ["--fault=lost=25", "--fault=lost=@0,4095", "--fault=corrupted=@100", "--seed=5"];
    let (log, set, holes) = exported(folder.path(), &master, &args);
    let results = [("log", &log), ("set", &set)].map(|(name, source)| {
        let out = folder.path().join(format!("out-{name}"));
        let mut args = vec!["run", source.to_str().unwrap(), "--out", out.to_str().unwrap()];
        args.extend([
            "--voltage-kv=300",
            "--semi-angle-mrad=30",
            "--scan-step-nm=0.016",
            "--scan-shape=64x64",
        ]);
        args.push("--rotation-deg=-12.5");
        sideband(&args);
        let result: serde_json::Value =
            serde_json::from_slice(&std::fs::read(out.join("result.json")).unwrap()).unwrap();
        (out, result)
    });
    let gaps = results.each_ref().map(|(_, result)| {
        let gaps = result["frames"]["gaps"].as_array().unwrap().iter();
        let numbers = gaps.flat_map(|gap| {
            let first = gap["first"].as_u64().unwrap();
            first..first + gap["count"].as_u64().unwrap()
        });
        numbers.collect::<Vec<u64>>()
    });
    let holes: Vec<u64> = holes.into_iter().flat_map(|[first, end]| first..end).collect();
    assert_eq!((holes.len(), &gaps[0], &gaps[1]), (28, &holes, &holes));
    for image in ["bf.npy", "adf.npy", "frame_sum.npy", "com_row.npy", "phase.npy"] {
        let bytes = results.each_ref().map(|(out, _)| std::fs::read(out.join(image)).unwrap());
        assert!(bytes[0] == bytes[1], "{image}");
    }
}
