//! The command line as a person or a script meets it: the built program, its words, its exit codes.

use std::process::{Command, Output};

fn sideband(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sideband")).args(args).output().expect("the program starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("ended by itself")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let output = sideband(&["--help"]);
    assert_eq!(code(&output), 0);
    for word in ["run", "doctor", "130 interrupted"] {
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
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
