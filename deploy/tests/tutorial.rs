//! The tutorial, followed to the letter: every command of the page in its order, and the picture it ends with.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::path::Path;
use std::process::{Command, Output};

const PAGE: &str = include_str!("../../docs/src/tutorial/first-phase-image.md");

/// The text of the page's code blocks in `language`, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let starts = format!("{language}\n");
    // Fences alternate: what lies between an odd one and the next is a block.
    PAGE.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix(&starts)).collect()
}

/// The flags of the page's commands, each without the program's name.
fn commands() -> Vec<Vec<&'static str>> {
    let of_line = |line: &'static str| {
        let flags =
            line.strip_prefix("cargo run --release -- ").or(line.strip_prefix("target/release/sideband "));
        let flags = flags.unwrap_or_else(|| panic!("not a command of sideband: {line}"));
        flags.split_whitespace().collect()
    };
    blocks("sh").into_iter().flat_map(str::lines).map(of_line).collect()
}

fn sideband(folder: &Path, flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sideband")).current_dir(folder).args(flags).output().unwrap()
}

#[test]
fn the_tutorial_reconstructs_the_demonstration_bit_for_bit() {
    let commands = commands();
    let verbs: Vec<&str> = commands.iter().map(|flags| flags[0]).collect();
    assert_eq!(verbs, ["demo", "inspect", "run", "run"]);
    let [optics] = blocks("toml")[..] else { panic!("one optics file") };
    let (name, _) = optics.strip_prefix("# ").unwrap().split_once('\n').unwrap();

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), optics).unwrap();
    for (flags, expected) in commands.iter().zip([0, 0, 2, 0]) {
        let output = sideband(folder.path(), flags);
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{flags:?}: {words}");
    }
    let read = |path: &str| std::fs::read(folder.path().join(path)).unwrap();
    assert!(
        read("again/phase.npy") == read("demo/result/phase.npy"),
        "another phase than the demonstration's"
    );
}
