//! Sets on disk, read back with h5py where `SIDEBAND_PYTHON` names a python that has it.

use std::path::Path;
use std::process::Command;

use kernels::types::CountType;

use crate::request::StopFlag;
use crate::simulate::args::{RowCol, SimulateArgs, SpecimenName};
use crate::simulate::{Truth, run};

fn small(folder: &Path) -> SimulateArgs {
    let mut args = SimulateArgs::demo(folder.to_owned());
    args.quiet = true;
    args.scan_shape = "6x5".parse().unwrap();
    args.images_per_file = 13;
    args
}

/// What a python script prints, None and a line that says so when there is no python.
fn python(script: &str, arguments: &[&str]) -> Option<Vec<f64>> {
    let Some(python) = std::env::var_os("SIDEBAND_PYTHON") else {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"not run: SIDEBAND_PYTHON is not set\n");
        return None;
    };
    let output = Command::new(python).arg("-c").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    Some(printed.split_whitespace().map(|number| number.parse().unwrap()).collect())
}

/// Reads all counts into `c`, `[frame][row][col]`, and the mask into `good`.
const READ: &str = r#"
import sys, numpy as np, h5py, hdf5plugin
with h5py.File(sys.argv[1], "r") as h:
    c = np.concatenate([h["entry/data"][key][()] for key in sorted(h["entry/data"])])
    mask = h["entry/instrument/detector/detectorSpecific/pixel_mask"][()]
good = mask == 0
"#;

fn statistics(truth: &Truth, script: &str) -> Option<Vec<f64>> {
    python(&format!("{READ}{script}"), &[truth.master.to_str().unwrap()])
}

#[test]
fn the_disk_lies_where_it_was_asked_for_and_holds_the_dose() {
    let folder = tempfile::tempdir().unwrap();
    let mut args = small(folder.path());
    args.specimen = SpecimenName::Vacuum;
    args.bf_centre = Some(RowCol([43.3, 51.85]));
    args.electrons_per_frame = 20_000.0;
    (args.hot_pixels, args.unlisted_hot_pixels, args.dead_pixels) = (0, 0, 0);
    let truth = run(&args, &StopFlag::default()).unwrap();
    let script = r#"
m = c.mean(0); r, k = np.mgrid[:m.shape[0], :m.shape[1]]
plateau = np.median(m[m > m.max() / 2])
print(c.shape[0], (m * r).sum() / m.sum(), (m * k).sum() / m.sum(), np.sqrt(m.sum() / plateau / np.pi), c.sum())
"#;
    let Some(seen) = statistics(&truth, script) else { return };
    let electrons = 30.0 * 20_000.0_f64;
    assert_eq!(seen[0], 30.0);
    // A disk of radius 25 px: its centroid is known to 12.5 px / sqrt(electrons).
    assert!((seen[1] - 43.3).abs() < 6.0 * 12.5 / electrons.sqrt(), "{seen:?}");
    assert!((seen[2] - 51.85).abs() < 6.0 * 12.5 / electrons.sqrt(), "{seen:?}");
    assert!((seen[3] - 25.0).abs() < 0.1, "{seen:?}");
    assert!((seen[4] - electrons).abs() < 6.0 * electrons.sqrt(), "{seen:?}");
    assert_eq!(truth.mean_counts_per_frame_good_pixels, seen[4] / 30.0);
}

#[test]
fn hot_dead_and_listed_pixels_are_what_the_truth_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut args = small(folder.path());
    (args.hot_pixels, args.unlisted_hot_pixels, args.dead_pixels) = (2, 3, 2);
    let truth = run(&args, &StopFlag::default()).unwrap();
    let Some(means) = statistics(&truth, "print(*c.mean(0).ravel(), *mask.ravel())") else { return };
    let (means, mask) = means.split_at(96 * 96);
    assert_eq!(truth.hot_pixels.iter().filter(|pixel| pixel.in_pixel_mask).count(), 2);
    assert_eq!((truth.hot_pixels.len(), truth.dead_pixels.len()), (5, 2));
    for pixel in &truth.hot_pixels {
        let at = pixel.row * 96 + pixel.col;
        // The pixel's own electrons come on top: less than 3 a frame here.
        assert!(
            means[at] > pixel.mean_counts - 6.0 && means[at] < pixel.mean_counts + 10.0,
            "{pixel:?} {}",
            means[at]
        );
        assert_eq!(mask[at], if pixel.in_pixel_mask { 8.0 } else { 0.0 });
    }
    for pixel in &truth.dead_pixels {
        assert_eq!((means[pixel.row * 96 + pixel.col], mask[pixel.row * 96 + pixel.col]), (0.0, 2.0));
    }
    assert_eq!(mask.iter().filter(|&&flags| flags != 0.0).count(), 4);
}

/// Name and bytes of every file but `truth.json`, which tells the time it took.
fn bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| !path.ends_with("truth.json"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_same_seed_gives_the_same_files_whatever_the_threads() {
    let made = |threads, seed| {
        let folder = tempfile::tempdir().unwrap();
        let mut args = small(folder.path());
        args.specimen = SpecimenName::GoldParticle;
        args.slices = Some(3);
        (args.threads, args.seed) = (Some(threads), seed);
        run(&args, &StopFlag::default()).unwrap();
        bytes(folder.path())
    };
    let once = made(1, 5);
    assert_eq!(once.len(), 5, "three data files, a master, the phase");
    assert!(made(2, 5) == once, "two threads made other files than one");
    assert!(made(1, 6) != once);
}

#[test]
fn counts_beyond_the_type_are_stored_as_its_largest_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut args = small(folder.path());
    args.count_type = CountType::U8;
    args.electrons_per_frame = 1e6;
    let truth = run(&args, &StopFlag::default()).unwrap();
    assert!(truth.saturated_counts > 1000);
    let Some(seen) = statistics(&truth, "print(c.max(), (c == 255).sum(), c.dtype.itemsize)") else { return };
    assert!(seen[0] == 255.0 && seen[1] >= truth.saturated_counts as f64 && seen[2] == 1.0, "{seen:?}");
}

#[test]
fn a_set_is_replaced_only_by_force_and_a_failed_one_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut args = small(folder.path());
    args.scan_shape = "2x2".parse().unwrap();
    run(&args, &StopFlag::default()).unwrap();
    let before = bytes(folder.path());
    assert!(run(&args, &StopFlag::default()).unwrap_err().to_string().contains("--force"));
    args.name = "other".to_owned();
    assert!(run(&args, &StopFlag::default()).unwrap_err().to_string().contains("truth.json"));
    assert!(bytes(folder.path()) == before);
    args.name = "simulated".to_owned();
    args.force = true;
    args.seed = 2;
    run(&args, &StopFlag::default()).unwrap();
    assert!(bytes(folder.path()) != before);
}

#[test]
fn the_truth_reads_back_and_has_the_keys_of_other_sets() {
    let folder = tempfile::tempdir().unwrap();
    let mut args = small(folder.path());
    args.transpose = true;
    let truth = run(&args, &StopFlag::default()).unwrap();
    let text = std::fs::read_to_string(folder.path().join("truth.json")).unwrap();
    let back: Truth = serde_json::from_str(&text).unwrap();
    assert_eq!(back.aberrations.len(), truth.aberrations.len());
    for (name, value) in &truth.aberrations {
        assert!((back.aberrations[name] / value - 1.0).abs() < 1e-15, "{name}");
    }
    assert!((back.aberrations["C10_at_mid_depth_m"] + 12e-9 - 0.5 * 3.905e-10).abs() < 1e-15);
    // Transposed: phi_scan = 90 degrees - phi_detector + rotation.
    let detector = back.aberrations["phi12_detector_frame_rad"];
    assert!((detector - (90.0_f64 - 12.5 - 20.0).to_radians()).abs() < 1e-12);
    let Ok(goldens) = std::env::var("SIDEBAND_GOLDENS") else {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"not run: keys of another set: SIDEBAND_GOLDENS is not set\n",
        );
        return;
    };
    let theirs = std::fs::read_to_string(format!("{goldens}/sto-small/truth.json")).unwrap();
    let theirs: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&theirs).unwrap();
    let ours: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    let missing: Vec<_> = theirs.keys().filter(|key| !ours.contains_key(*key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
