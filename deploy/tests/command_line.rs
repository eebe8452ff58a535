//! The command line as a person or a script meets it: the built program, its words, its exit codes.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

#[cfg(target_os = "linux")]
#[path = "command_line/hostile_files.rs"]
mod hostile_files;
#[path = "command_line/interrupt.rs"]
mod interrupt;
#[cfg(target_os = "linux")]
#[path = "command_line/little_memory.rs"]
mod little_memory;
#[path = "command_line/program.rs"]
mod program;
#[path = "command_line/refusals.rs"]
mod refusals;
#[path = "command_line/run.rs"]
mod run;
#[path = "command_line/serve.rs"]
mod serve;
#[path = "command_line/simulate.rs"]
mod simulate;
#[path = "command_line/thresholds.rs"]
mod thresholds;

use program::{code, sideband, simulated, stderr, stdout};

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let output = sideband(&["--help"]);
    assert_eq!(code(&output), 0);
    for word in ["run", "inspect", "simulate", "demo", "doctor", "serve", "130 interrupted", "129 by SIGHUP"]
    {
        assert!(stdout(&output).contains(word), "{word}");
    }
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2() {
    for args in [
        &[][..],
        &["fly"],
        &["run"],
        &["run", "x_master.h5"],
        &["run", "x_master.h5", "--out", "y", "--voltage", "300"],
        &["run", "x_master.h5", "--out", "y", "--scan-shape", "64"],
        &["run", "x_master.h5", "--out", "y", "--memory-gb", "-1"],
        &["run", "x_master.h5", "--out", "y", "--aberration", "C99=1"],
    ] {
        let output = sideband(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).is_empty());
    }
}

#[test]
fn a_number_of_threads_that_no_machine_has_is_refused_with_what_is_expected() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let out = out.to_str().unwrap();
    for command in [&["run", "x_master.h5"][..], &["simulate"]] {
        for got in ["0", "1025", "1000000", "99999999999999999999", "-1", "two"] {
            let output = sideband(&[command, &["--out", out, &format!("--threads={got}")]].concat());
            let text = stderr(&output);
            assert_eq!(code(&output), 2, "{command:?} {got}: {text}");
            assert!(text.contains(&format!("got '{got}', expected 1 to 1024 threads")), "{text}");
        }
    }
    assert!(!std::path::Path::new(out).exists());
}

#[test]
fn negative_numbers_are_values_not_flags() {
    let output = sideband(&[
        "run",
        "not_there_master.h5",
        "--out",
        "not_made",
        "--rotation-deg",
        "-12.5",
        "--aberration",
        "C10=-6.3",
        "--aberration",
        "C12=1.8,-11.6",
        "--bf-centre",
        "-1,2",
    ]);
    // The flags are understood; the file is what is missing.
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("not_there_master.h5"), "{}", stderr(&output));
    assert!(!std::path::Path::new("not_made").exists());
}

#[test]
fn an_unknown_key_of_an_optics_file_is_refused_by_name_and_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("optics.toml");
    std::fs::write(&path, "voltage_kv = 300\nsemiangle = 30\n").unwrap();
    let path = path.to_str().unwrap();
    let output = sideband(&["run", "x_master.h5", "--out", "y", "--optics", path]);
    assert_eq!(code(&output), 2);
    let text = stderr(&output);
    assert!(text.contains("semiangle") && text.contains("optics.toml") && text.contains("line 2"), "{text}");
}

#[test]
fn doctor_speaks_to_machines() {
    let dir = tempfile::tempdir().unwrap();
    let output = sideband(&["doctor", "--json", "--size-mb", "2", "--dir", dir.path().to_str().unwrap()]);
    assert_eq!(code(&output), 0);
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(report["cpu"]["cores"].as_u64().unwrap() >= 1);
    assert!(report["disk"]["write_mb_a_second"].as_f64().unwrap() > 0.0);
    assert!(report["limits"].as_array().unwrap().len() >= 3);
    let nowhere = sideband(&["doctor", "--dir", "/nonexistent"]);
    assert_eq!(code(&nowhere), 2);
    assert!(stderr(&nowhere).contains("--dir: got /nonexistent, expected a folder"), "{}", stderr(&nowhere));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn inspect_says_what_is_there_and_what_a_run_needs() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let output = sideband(&["inspect", &master]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for words in ["16 frames of 32 x 32 pixels, all there", "200 keV", "--rotation-deg DEG", "could be 4x4"] {
        assert!(stdout(&output).contains(words), "'{words}' not in {}", stdout(&output));
    }
    let flags = ["--semi-angle-mrad", "25", "--scan-step-nm", "0.024", "--rotation-deg", "-12.5"];
    let mut args = vec!["inspect", &master, "--json", "--scan-shape", "4x4"];
    args.extend(flags);
    let json: serde_json::Value = serde_json::from_str(&stdout(&sideband(&args))).unwrap();
    assert_eq!(json["run"]["would_succeed"], true, "{json}");
    let of =
        |key: &str| json["run"]["values"].as_array().unwrap().iter().find(|used| used["key"] == key).cloned();
    let step = of("scan_step_nm").unwrap();
    assert_eq!(
        (&step["value"], &step["from"]),
        (&"[0.024,0.024] nm, (row, col)".into(), &"--scan-step-nm".into())
    );
    assert!(of("voltage_kv").unwrap()["from"].as_str().unwrap().contains("simulated_master.h5"));
    assert!(of("c10_nm").is_none() && of("bf_radius_px").unwrap()["value"] == "to be measured");
    assert!(json["run"]["warnings"].as_array().unwrap().is_empty());
    let coarse = ["--semi-angle-mrad=25", "--scan-step-nm=0.2", "--rotation-deg=-12.5", "--scan-shape=4x4"];
    let text = stdout(&sideband(&[&["inspect", &master][..], &coarse].concat()));
    assert!(text.contains("nothing is missing for a run; the counts were not looked at"), "{text}");
    assert!(text.contains("warning: scan step along rows is 0.2000 nm"), "{text}");
    assert_eq!((&json["frames_present"], &json["energy_kev"]), (&16.into(), &200.0.into()));

    let text = stdout(&sideband(&["inspect", &master, "--scan-shape", "5x4"]));
    assert!(text.contains("needs 20 frames") && text.contains("--rotation-deg DEG"), "{text}");
    let mut args = vec!["inspect", &master, "--scan-shape", "5x4"];
    args.extend(flags);
    let text = stdout(&sideband(&args));
    assert!(
        text.contains("needs 20 frames") && text.contains("16 frames") && text.contains("NOT succeed"),
        "{text}"
    );
}

#[test]
fn inspect_names_the_file_that_is_missing_and_its_frames() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    std::fs::remove_file(master.replace("_master.h5", "_data_000002.h5")).unwrap();
    let text = stdout(&sideband(&["inspect", &master]));
    assert!(text.contains("4 MISSING") && text.contains("frames 4 to 7"), "{text}");
    assert_eq!(text.matches("_data_000002.h5").count(), 1, "{text}");
}

#[test]
fn inspect_of_what_is_no_set_fails_with_1_and_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text_master.h5");
    std::fs::write(&path, "not HDF5").unwrap();
    for path in [path.to_str().unwrap(), "not_there_master.h5"] {
        let output = sideband(&["inspect", path]);
        assert_eq!(code(&output), 1);
        assert!(stderr(&output).contains(path) && stdout(&output).is_empty(), "{}", stderr(&output));
    }
}

#[test]
fn a_run_without_optics_asks_for_all_of_them_and_ends_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    let output = sideband(&["run", &master, "--out", out.to_str().unwrap(), "--semi-angle-mrad", "25"]);
    assert_eq!(code(&output), 2);
    let text = stderr(&output);
    for flag in ["3 parameters", "--scan-step-nm", "--rotation-deg", "--scan-shape", "--optics"] {
        assert!(text.contains(flag), "{flag} not in {text}");
    }
    assert!(!text.contains("--semi-angle-mrad") && !out.exists(), "{text}");
}

#[test]
fn a_simulation_that_fails_leaves_no_folder_and_may_be_quiet_in_short() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new");
    let map = dir.path().join("not_there.npy");
    let place = ["simulate", "-q", "--out", out.to_str().unwrap()];
    let flags = ["--phase-map", map.to_str().unwrap(), "--phase-map-pixel-nm=0.01"];
    let output = sideband(&[&place[..], &flags].concat());
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("not_there.npy") && !out.exists(), "{}", stderr(&output));
}

#[test]
fn a_file_of_settings_that_is_not_there_is_told_with_the_variable_that_names_it() {
    for (command, names) in [(&["serve"][..], true), (&["serve", "--config", "other.toml"], false)] {
        let mut daemon = std::process::Command::new(env!("CARGO_BIN_EXE_sideband"));
        let output = daemon.args(command).env("SIDEBAND_CONFIG", "not_there.toml").output().unwrap();
        let text = stderr(&output);
        assert_eq!(code(&output), 2, "{text}");
        assert_eq!(text.contains("SIDEBAND_CONFIG: not_there.toml: "), names, "{text}");
    }
}

#[test]
fn help_is_plain_text() {
    for command in ["run", "inspect", "simulate", "demo", "doctor"] {
        for flag in ["-h", "--help"] {
            let help = stdout(&sideband(&[command, flag]));
            assert!(help.contains("Usage") && !help.contains('`') && !help.contains('\\'), "{help}");
        }
    }
}
