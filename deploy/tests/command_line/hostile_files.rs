//! Files that are no files: devices without an end, pipes nobody writes into, megabytes where a page was expected.
//! Every program here has seconds and a few gigabytes, which reading without an end would overrun.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::program::{TINY_OPTICS, code, simulated, stderr};

/// The built program with 20 s and 4 GB of address space.
fn held_short(args: &[&str]) -> Output {
    Command::new("timeout")
        .args(["20", "sh", "-c", r#"ulimit -v 4000000; exec "$0" "$@""#, env!("CARGO_BIN_EXE_sideband")])
        .args(args)
        .output()
        .unwrap()
}

/// A pipe at a path.
fn pipe(path: PathBuf) -> PathBuf {
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// A name in place of a device that never ends.
fn endless(path: PathBuf) -> PathBuf {
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    path
}

/// A file of zeros that take no space.
fn sparse(path: PathBuf, bytes: u64) -> PathBuf {
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    path
}

#[test]
fn an_optics_file_is_a_regular_file_of_a_megabyte_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("result");
    let irregular = "not a regular file";
    for (optics, said) in [
        ("/dev/zero".into(), irregular),
        (endless(dir.path().join("endless.toml")), irregular),
        (pipe(dir.path().join("pipe.toml")), irregular),
        (dir.path().to_owned(), irregular),
        (sparse(dir.path().join("a.toml"), (1 << 20) + 1), "got 1048577 bytes, expected at most 1048576"),
        (sparse(dir.path().join("b.toml"), 1 << 40), "got 1099511627776 bytes, expected at most 1048576"),
        (sparse(dir.path().join("c.toml"), 1 << 20), "line 1"),
    ] {
        let optics = optics.to_str().unwrap();
        for command in [&["inspect", &master][..], &["run", &master, "--out", out.to_str().unwrap()]] {
            let output = held_short(&[command, &["--optics", optics]].concat());
            let text = stderr(&output);
            assert_eq!(code(&output), 2, "{optics}: {text}");
            assert!(text.contains(said) && text.contains(optics), "{text}");
        }
    }
    assert!(!out.exists());
}

#[test]
fn a_phase_map_is_a_regular_file_no_longer_than_its_header_says() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("simulated");
    for ending in ["npy", "png"] {
        let map = |name: &str| dir.path().join(format!("{name}.{ending}"));
        for (map, said) in [
            (endless(map("endless")), "not a regular file"),
            (pipe(map("pipe")), "not a regular file"),
            (sparse(map("zeros"), 1 << 40), if ending == "npy" { "is no .npy file" } else { "is no PNG" }),
        ] {
            let map = map.to_str().unwrap();
            let args = ["simulate", "--phase-map", map, "--phase-map-pixel-nm=0.01", "--out"];
            let output = held_short(&[&args[..], &[out.to_str().unwrap()]].concat());
            let text = stderr(&output);
            assert_eq!(code(&output), 1, "{map}: {text}");
            assert!(text.contains(said) && text.contains(map), "{text}");
        }
    }
    assert!(!out.exists());
}

#[test]
fn what_stands_where_a_side_car_or_an_older_account_would_holds_up_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    pipe(PathBuf::from(master.replace("_master.h5", ".h5")));
    endless(PathBuf::from(master.replace("_master.h5", "_em_metadata.h5")));
    let out = dir.path().join("result");
    let run = || held_short(&[&["run", &master, "--out", out.to_str().unwrap()][..], &TINY_OPTICS].concat());
    let output = run();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("not a regular file").count(), 2, "{}", stderr(&output));
    let account = out.join("result.json");
    std::fs::remove_file(&account).unwrap();
    pipe(account.clone());
    let output = run();
    assert_eq!(code(&output), 1);
    let said = format!("{}: is not a regular file", account.display());
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
}
