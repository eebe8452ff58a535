//! What a microscopist gets wrong, and what a machine runs out of: said in words, at once, and nothing spoilt.

use std::path::Path;
use std::process::{Command, Output};

use super::program::{
    Array, TINY_OPTICS, code, result, run_tiny, sideband, simulated, simulated_with, stderr, stdout,
};

/// Runs a tiny set with flags of one's own in place of those of the same name.
fn run_with(master: &str, out: &Path, flags: &[&str]) -> Output {
    let mut args = vec!["run", master, "--out", out.to_str().unwrap()];
    for pair in TINY_OPTICS.chunks_exact(2) {
        if !flags.iter().any(|flag| flag.starts_with(pair[0])) {
            args.extend(pair);
        }
    }
    args.extend(flags);
    sideband(&args)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_no_microscope_is_set_to_is_refused_by_its_flag_before_anything_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    for (flag, got, expected) in [
        ("--scan-step-nm=-0.02", "-0.02 nm", "0.0001 to 1000 nm"),
        ("--scan-step-nm=0.02,0", "0 nm", "0.0001 to 1000 nm"),
        ("--scan-step-nm=1.6e-11", "got 1.6e-11 nm, expected", "did you mean 0.016 nm?"),
        ("--scan-step-nm=0,016", "0 nm, 16 nm", "a decimal point is written as a point"),
        ("--scan-step-nm=0.00009", "0.00009 nm", "0.0001 to 1000 nm"),
        ("--scan-step-nm=1001", "1001 nm", "0.0001 to 1000 nm"),
        ("--scan-step-nm=nan", "nan", "one number or ROW,COL"),
        ("--semi-angle-mrad=0", "0 mrad", "0.5 to 200 mrad"),
        ("--semi-angle-mrad=nan", "NaN mrad", "0.5 to 200 mrad"),
        ("--semi-angle-mrad=0.03", "0.03 mrad", "did you mean 30 mrad?"),
        ("--semi-angle-mrad=0.49", "0.49 mrad", "0.5 to 200 mrad"),
        ("--semi-angle-mrad=201", "201 mrad", "0.5 to 200 mrad"),
        ("--voltage-kv=300000", "300000 kV", "10 to 1000 kV; did you mean 300 kV?"),
        ("--semi-angle-mrad=30mrad", "'30mrad'", "a number without its unit; did you mean 30?"),
        ("--rotation-deg=-12,5", "'-12,5'", "did you mean -12.5?"),
        ("--rotation-deg=nan", "NaN deg", "-360 to 360 deg"),
        ("--scan-shape=4x5", "needs 20 frames", "16 frames"),
        (
            "--skip-frames=1",
            "1 frames skipped before the first row",
            "needs 17 frames, but the acquisition has 16",
        ),
        ("--frames-per-position=0", "got 0 frames", "1 to 65536 frames"),
        ("--frames-per-position=4294967295", "got 4294967295 frames", "1 to 65536 frames"),
        ("--flyback-frames=4294967295", "got 4294967295 frames", "0 to 1000000 frames"),
        ("--scan-path=zigzag", "'zigzag'", "raster or snake"),
        ("--bf-centre=40,3", "40, 3 px", "32x32 detector"),
        ("--bf-centre=3,-0.6", "3, -0.6 px", "32x32 detector"),
        ("--bf-radius-px=0.5", "0.5 px", "16 pixels"),
        ("--bf-radius-px=1000", "1000 px", "45.3 px"),
        ("--detector-sampling-mrad=0", "0 mrad", "more than 0"),
        ("--aberration=C10=1e300", "1e300 nm", "1e10 nm"),
        ("--aberration=C10=1e9", "turns", "10000"),
        ("--aberration=C12=3", "C12", "C12=3,DEG"),
        ("--aberration=C10=-6.3e-9", "C10 = -6.3e-9 nm", "did you mean -6.3 nm?"),
        ("--aberration=C12=1.8e-9,11.6", "C12 = 1.8e-9 nm", "did you mean 1.8 nm?"),
        ("--aberration=C30=0.00009", "C30 = 0.00009 nm", "0 or at least 0.0001 nm"),
        ("--aberration=C10=-6,3", "C10", "has no angle"),
        ("--memory-gb=1000000", "got 1000000", "at most the"),
    ] {
        let output = run_with(&master, &out, &[flag]);
        let text = stderr(&output);
        assert_eq!(code(&output), 2, "{flag}: {text}");
        assert!(text.contains(got) && text.contains(expected), "{flag}: {text}");
        assert!(!out.exists(), "{flag}");
    }
    let twice = run_with(&master, &out, &["--aberration=C10=1", "--aberration=c10=2"]);
    assert!(code(&twice) == 2 && stderr(&twice).contains("C10: given twice"), "{}", stderr(&twice));
}

#[test]
fn a_value_of_an_optics_file_that_cannot_be_is_refused_with_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let optics = dir.path().join("optics.toml");
    for (text, said) in [
        ("bf_centre = [40, 3]", "40, 3 px"),
        ("voltage_kv = nan", "NaN kV"),
        ("scan_shape = [-4, 4]", "256x256"),
        ("bf_radius = 3", "bf_radius"),
        ("voltage_kv = \"300\"", "a number without quotes and unit"),
        ("C10 = -6.3", "below a line [aberrations]"),
        ("[aberrations]\nC10 = -6.3e-9", "did you mean -6.3 nm?"),
        ("[aberrations]\nC21 = [1e-9, 3]", "did you mean 1 nm?"),
    ] {
        std::fs::write(&optics, text).unwrap();
        let output = run_tiny(&master, &dir.path().join("result"), &["--optics", optics.to_str().unwrap()]);
        assert_eq!(code(&output), 2);
        let words = stderr(&output);
        assert!(words.contains(said) && words.contains("optics.toml"), "{words}");
    }
}

#[test]
fn a_result_folder_that_cannot_be_written_to_ends_a_run_before_it_reads() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    for out in [Path::new(&master).to_owned(), Path::new(&master).join("below")] {
        let output = run_tiny(&master, &out, &[]);
        let text = stderr(&output);
        assert_eq!(code(&output), 1);
        assert!(text.contains(out.to_str().unwrap()) && text.contains("result folder"), "{text}");
        assert!(!text.contains("of 16 frames"), "{text}");
    }
    assert!(stderr(&run_tiny(&master, Path::new(&master), &[])).contains("is a file, not a folder"));
}

#[test]
fn results_of_an_older_run_are_replaced_as_a_whole_and_with_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    let first = run_tiny(&master, &out, &["--loss"]);
    assert!(code(&first) == 0 && !stderr(&first).contains("older"), "{}", stderr(&first));
    assert!(out.join("mean_phase.npy").exists());
    std::fs::write(out.join("notes.txt"), "mine").unwrap();
    let second = run_tiny(&master, &out, &[]);
    assert!(stderr(&second).contains("results of an older run will be replaced"), "{}", stderr(&second));
    assert!(names(&out).iter().all(|name| !name.starts_with("mean_phase")), "{:?}", names(&out));
    assert!(out.join("notes.txt").exists() && result(&out)["images"].as_array().unwrap().len() == 10);
}

/// A limit on the size of a file stands for a full disk: the same call fails in the same place. Its signal once ended the
/// run without a word.
#[test]
fn a_disk_that_fills_up_spoils_no_older_result_and_leaves_no_part() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    assert_eq!(code(&run_tiny(&master, &out, &[])), 0);
    let (files, account) = (names(&out), std::fs::read(out.join("result.json")).unwrap());
    let output = Command::new("sh")
        .args(["-c", r#"ulimit -f 8; exec "$0" "$@""#, env!("CARGO_BIN_EXE_sideband")])
        .args(["run", &master, "--out", out.to_str().unwrap()])
        .args(TINY_OPTICS)
        .output()
        .unwrap();
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("phase.png: cannot be written"), "{}", stderr(&output));
    assert_eq!((names(&out), std::fs::read(out.join("result.json")).unwrap()), (files, account));
}

#[cfg(target_os = "linux")]
#[test]
fn paths_with_spaces_and_bytes_that_are_no_unicode_are_as_good_as_others() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let dir = tempfile::tempdir().unwrap();
    let plain = simulated(&dir.path().join("plain"));
    let odd = dir.path().join(OsStr::from_bytes(b"a set \xff"));
    std::fs::rename(Path::new(&plain).parent().unwrap(), &odd).unwrap();
    let master = odd.join("simulated_master.h5");
    let out = dir.path().join(OsStr::from_bytes(b"a result \xff"));
    let mut args = vec![OsStr::new("run"), master.as_os_str(), OsStr::new("--out"), out.as_os_str()];
    args.extend(TINY_OPTICS.map(OsStr::new));
    let output = sideband(&args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(result(&out)["input"]["master"].as_str().unwrap().contains("a set \u{fffd}/simulated_master.h5"));
    let output = sideband(&[OsStr::new("inspect"), master.as_os_str(), OsStr::new("--json")]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let folder = [OsStr::new("--dir"), odd.as_os_str(), OsStr::new("--size-mb=1")];
    let output = sideband(&[&[OsStr::new("doctor"), OsStr::new("--json")][..], &folder].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn one_row_one_column_one_position_and_wide_counts_are_scans_too() {
    for (shape, count_type, has_phase) in [("1x40", "u32", true), ("40x1", "u8", true), ("1x1", "u32", false)]
    {
        let dir = tempfile::tempdir().unwrap();
        let simulate =
            ["--detector-shape=33x31", "--detector-sampling-mrad=3", "--images-per-file=7", "--quiet"];
        let place = ["simulate", "--out", dir.path().to_str().unwrap()];
        let shapes = ["--scan-shape", shape, "--count-type", count_type];
        let made = sideband(&[&place[..], &shapes, &simulate].concat());
        assert_eq!(code(&made), 0, "{}", stderr(&made));
        let out = dir.path().join("result");
        let output = run_with(stdout(&made).trim(), &out, &["--scan-shape", shape]);
        // One position has no spatial frequency, hence no phase; everything else it has.
        assert_eq!(code(&output), if has_phase { 0 } else { 1 }, "{}", stderr(&output));
        let read = |stem: &str| Array::read(&out.join(format!("{stem}.npy")));
        let image = read(if has_phase { "phase" } else { "com_row" });
        assert_eq!(format!("{}x{}", image.shape[0], image.shape[1]), shape);
        assert!(image.f64().iter().all(|value| value.is_finite()));
        let (scan, detector) = (read("frame_sum").u64(), read("detector_total").u64());
        assert!(scan.iter().sum::<u64>() == detector.iter().sum::<u64>() && detector.len() == 33 * 31);
    }
}

#[test]
fn a_set_that_was_cut_short_is_partial_and_says_where_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let last = master.replace("_master.h5", "_data_000004.h5");
    let whole = std::fs::read(&last).unwrap();
    std::fs::write(&last, &whole[..whole.len() / 3]).unwrap();
    let out = dir.path().join("result");
    let output = run_tiny(&master, &out, &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("_data_000004.h5") && stderr(&output).contains("cut short"));
    let report = result(&out);
    assert_eq!((&report["status"], &report["interrupted"]), (&"partial".into(), &false.into()));
    let gap = &report["frames"]["gaps"][0];
    assert_eq!((&gap["first"], &gap["count"]), (&12.into(), &4.into()), "{gap}");
}

#[test]
fn a_run_without_a_phase_image_fails_and_saves_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let dark =
        ["--specimen=vacuum", "--electrons-per-frame=1e-9", "--hot-pixels=0", "--unlisted-hot-pixels=0"];
    let master = simulated_with(dir.path(), &dark);
    let out = dir.path().join("result");
    let output = run_tiny(&master, &out, &[]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("PARTIAL, no phase image: 16 of 16 frames"), "{}", stdout(&output));
    assert!(stderr(&output).contains("is the beam blanked?"), "{}", stderr(&output));
    assert_eq!(result(&out)["status"], "partial");
    assert!(out.join("frame_sum.npy").is_file() && !out.join("phase.npy").exists());
}

/// It once took the place of a complete result: a wrong semi-angle of a second run cost the images of the first.
#[test]
fn a_run_without_a_phase_image_keeps_a_complete_result_and_saves_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    assert_eq!(code(&run_tiny(&master, &out, &[])), 0);
    let (files, account) = (names(&out), std::fs::read(out.join("result.json")).unwrap());
    let failing = run_with(&master, &out, &["--scan-step-nm=0.002"]);
    assert_eq!(code(&failing), 1);
    assert_eq!((names(&out), std::fs::read(out.join("result.json")).unwrap()), (files, account));
    let beside = dir.path().join("result-partial");
    let said = format!("the complete result in {} is kept, what could be computed is in", out.display());
    assert!(stderr(&failing).contains(&said), "{}", stderr(&failing));
    assert!(stdout(&failing).contains(beside.join("bf.png").to_str().unwrap()), "{}", stdout(&failing));
    assert!(result(&beside)["warnings"].to_string().contains("is kept"));
}

#[test]
fn files_of_ones_own_with_the_names_of_results_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("phase.npy"), "mine").unwrap();
    let output = run_tiny(&master, &out, &[]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("phase.npy") && stderr(&output).contains("no result.json"));
    assert_eq!(std::fs::read(out.join("phase.npy")).unwrap(), b"mine");
    assert_eq!(names(&out), ["phase.npy"]);
}

/// Any `result.json` once made a folder that of a run, and its files were overwritten.
#[test]
fn an_account_that_is_not_ours_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    std::fs::create_dir(&out).unwrap();
    let mine = [("result.json", r#"{"mine": 1}"#), ("phase.npy", "mine")];
    for (name, text) in mine {
        std::fs::write(out.join(name), text).unwrap();
    }
    let output = run_tiny(&master, &out, &[]);
    assert_eq!(code(&output), 1);
    let said = format!("{}: was not written by sideband", out.join("result.json").display());
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    for (name, text) in mine {
        assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), text);
    }
    assert_eq!(names(&out).len(), 2);
}

/// It was noticed after everything was computed, when the older result was gone and the new one went too.
#[test]
fn what_no_result_can_replace_is_refused_before_anything_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    assert_eq!(code(&run_tiny(&master, &out, &[])), 0);
    std::fs::create_dir(out.join("mean_phase.tiff")).unwrap();
    let (files, account) = (names(&out), std::fs::read(out.join("result.json")).unwrap());
    let output = run_tiny(&master, &out, &[]);
    assert_eq!(code(&output), 1);
    let said = format!("{}: is not a regular file", out.join("mean_phase.tiff").display());
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    assert!(!stderr(&output).contains("of 16 frames"), "{}", stderr(&output));
    assert_eq!((names(&out), std::fs::read(out.join("result.json")).unwrap()), (files, account));
}

/// The last resorts of a result that may not replace a complete one.
#[test]
fn what_could_be_computed_goes_to_the_current_or_the_temporary_directory_when_all_else_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    assert_eq!(code(&run_tiny(&master, &out, &[])), 0);
    for taken in [dir.path().join("result-partial"), out.join("partial")] {
        std::fs::write(taken, "no folder").unwrap();
    }
    let failing = |current: &Path| {
        let mut args = TINY_OPTICS;
        args[3] = "0.002";
        let mut command = Command::new(env!("CARGO_BIN_EXE_sideband"));
        command.args(["run", &master, "--out", out.to_str().unwrap()]).args(args);
        command.current_dir(current).env("TMPDIR", dir.path().join("temporary")).output().unwrap()
    };
    for folder in ["current", "temporary"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
    }
    for (current, expected) in [(dir.path().join("current"), "current"), ("/proc".into(), "temporary")] {
        let output = failing(&current);
        assert_eq!(code(&output), 1);
        let place = dir.path().join(expected).join("sideband-partial-");
        let said = format!("what could be computed is in {}", place.display());
        assert!(stderr(&output).contains(&said), "{}", stderr(&output));
        assert_eq!(std::fs::read_dir(dir.path().join(expected)).unwrap().count(), 1);
    }
}

/// A run that is killed while it writes cannot take its unfinished files away.
#[test]
fn unfinished_files_of_a_run_that_was_killed_go_with_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    std::fs::create_dir(&out).unwrap();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let parts = [ended.id(), std::process::id()].map(|process| format!(".phase.npy.{process}.part"));
    let [dead, alive] = &parts;
    for name in [dead, alive, ".phase.npy.part", "phase.npy", ".mine.npy.1.part"] {
        std::fs::write(out.join(name), "part").unwrap();
    }
    assert_eq!(code(&run_tiny(&master, &out, &[])), 0);
    let left = names(&out);
    assert!(!left.contains(dead), "{left:?}");
    assert!(left.contains(alive) && left.contains(&".phase.npy.part".to_owned()), "{left:?}");
    assert!(left.contains(&".mine.npy.1.part".to_owned()), "{left:?}");
    assert_ne!(std::fs::read(out.join("phase.npy")).unwrap(), b"part");
}

#[test]
fn a_scan_too_small_for_any_overlap_has_no_phase_image_and_is_partial() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    // 4 positions of 0.002 nm are 0.008 nm; nothing finer than 0.05 nm passes.
    let output = run_with(&master, &out, &["--scan-step-nm=0.002"]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("PARTIAL, no phase image"), "{}", stdout(&output));
    assert!(stderr(&output).contains("at no spatial frequency"), "{}", stderr(&output));
    let report = result(&out);
    assert_eq!((&report["status"], &report["interrupted"]), (&"partial".into(), &false.into()));
    assert!(report["warnings"].to_string().contains("no phase image"), "{report}");
    assert!(out.join("bf.npy").is_file() && !out.join("phase.npy").exists());
}

#[test]
fn limits_that_leave_nothing_are_said_by_their_flag() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    let output = run_tiny(&master, &out, &["--memory-gb=0.000001"]);
    assert_eq!(code(&output), 2);
    let text = stderr(&output);
    assert!(text.contains("0.000001 GB of --memory-gb") && text.contains("it needs about 0.0"), "{text}");
    let (_, advised) = text.split_once("give --memory-gb ").unwrap();
    let (advised, _) = advised.split_once(' ').unwrap();
    let output = run_tiny(&master, &out, &["--memory-gb", advised]);
    assert_eq!(code(&output), 0, "{advised}: {}", stderr(&output));
    let output = run_tiny(&master, &out, &["--adf-ring=7,8"]);
    assert_eq!(code(&output), 0);
    assert!(
        stderr(&output).contains("adf is all 0: no pixel is in it (7 R <= r <= 8 R"),
        "{}",
        stderr(&output)
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_stdout_that_takes_nothing_loses_no_result() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    let output = Command::new(env!("CARGO_BIN_EXE_sideband"))
        .args(["run", &master, "--out", out.to_str().unwrap()])
        .args(TINY_OPTICS)
        .stdout(std::fs::File::options().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("stdout cannot be written to"), "{}", stderr(&output));
    assert_eq!(result(&out)["status"], "complete");
}

#[test]
fn a_data_file_given_as_master_is_noticed_and_the_master_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let data = master.replace("_master.h5", "_data_000001.h5");
    let out = dir.path().join("result");
    let asked = format!("looks like a data file; did you mean {master}?");
    // A data file says no voltage: the question comes with what is missing.
    let output = run_with(&data, &out, &["--scan-shape=1x4"]);
    assert!(code(&output) == 2 && stderr(&output).contains(&asked), "{}", stderr(&output));
    assert!(stderr(&output).contains("--voltage-kv KV"), "{}", stderr(&output));
    let output = run_with(&data, &out, &["--scan-shape=1x4", "--voltage-kv=200"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(result(&out)["notes"].to_string().contains(&asked), "{}", result(&out)["notes"]);
    assert!(stdout(&sideband(&["inspect", &data])).contains(&asked));
}
