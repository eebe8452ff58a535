//! A machine with too little memory, which a limit on the address space stands for: said in words and bytes, never an
//! abort.

use std::process::{Command, Output};

use super::program::{TINY_OPTICS, code, result, simulated, stderr};

/// The built program with so many megabytes of address space.
fn limited(megabytes: u32, args: &[&str]) -> Output {
    let limit = format!(r#"ulimit -v {megabytes}000; exec "$0" "$@""#);
    Command::new("sh").args(["-c", &limit, env!("CARGO_BIN_EXE_sideband")]).args(args).output().unwrap()
}

#[test]
fn a_run_that_the_memory_does_not_suffice_for_is_refused_before_it_reads() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    let run = [&["run", &master, "--threads=2", "--out", out.to_str().unwrap()][..], &TINY_OPTICS].concat();
    for megabytes in [200, 400, 600, 800] {
        let output = limited(megabytes, &run);
        let text = stderr(&output);
        assert_eq!(code(&output), 1, "{megabytes} MB: {text}");
        assert!(text.contains("needs at least") && text.contains("GB of memory beside its counts"), "{text}");
        assert!(text.contains("ulimit -v") && !text.contains("of 16 frames") && !out.exists(), "{text}");
    }
    let output = limited(1500, &run);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(result(&out)["status"], "complete");
}

#[test]
fn more_memory_for_the_counts_than_is_free_is_refused_by_its_flag() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    let run = ["run", &master, "--memory-gb=900000", "--out", out.to_str().unwrap()];
    let output = limited(4000, &[&run[..], &TINY_OPTICS].concat());
    let text = stderr(&output);
    assert_eq!(code(&output), 2, "{text}");
    assert!(text.contains("--memory-gb: got 900000, expected at most the "), "{text}");
    assert!(!out.exists());
}

#[test]
fn a_simulation_whose_maps_cannot_be_had_says_how_many_bytes_it_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("simulated");
    let simulate =
        ["simulate", "--specimen=vacuum", "--threads=2", "--scan-shape=1024x1024", "--scan-step-nm=0.06"];
    let output = limited(1000, &[&simulate[..], &["--out", out.to_str().unwrap()]].concat());
    let text = stderr(&output);
    assert_eq!(code(&output), 1, "{text}");
    assert!(text.contains("bytes of memory wanted, which cannot be had"), "{text}");
    assert!(!out.exists());
}
