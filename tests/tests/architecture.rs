//! The walls of the architecture: who may depend on whom, and how long a file may be.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

const CRATES: [&str; 7] = ["kernels", "ingest", "encoder", "resident", "ssb", "deploy", "tests"];

/// What each crate may name of ours, in any kind of dependency.
fn allowed(krate: &str) -> &'static [&'static str] {
    match krate {
        "kernels" => &[],
        "ingest" | "encoder" => &["kernels"],
        "resident" => &["encoder", "kernels"],
        "ssb" => &["resident", "kernels"],
        "deploy" => &["encoder", "ingest", "kernels", "resident", "ssb"],
        "tests" => &["deploy", "encoder", "ingest", "kernels", "resident", "ssb"],
        other => panic!("crate {other} has no place in the architecture"),
    }
}

fn ours_in(manifest: &toml::Table) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else { continue };
        for (name, value) in table {
            let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(name);
            if CRATES.contains(&package) {
                found.insert(package.to_owned());
            }
        }
    }
    found
}

#[test]
fn no_crate_depends_against_the_arrows() {
    for krate in CRATES {
        let text = std::fs::read_to_string(root().join(krate).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let found = ours_in(&manifest);
        let allowed: BTreeSet<String> = allowed(krate).iter().map(|name| (*name).to_owned()).collect();
        let against: Vec<_> = found.difference(&allowed).collect();
        assert!(against.is_empty(), "{krate} depends on {against:?}, allowed are {allowed:?}");
    }
}

#[test]
fn the_workspace_is_exactly_the_crates_of_the_design() {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let members: BTreeSet<&str> = manifest["workspace"]["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| member.as_str().unwrap())
        .collect();
    assert_eq!(members, BTreeSet::from(CRATES));
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, into);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "cu") {
            into.push(path);
        }
    }
}

#[test]
fn no_file_is_longer_than_500_lines() {
    let mut files = Vec::new();
    for krate in CRATES {
        rust_files(&root().join(krate), &mut files);
    }
    assert!(files.len() > 20, "found only {} source files", files.len());
    let long: Vec<_> = files
        .iter()
        .map(|path| (std::fs::read_to_string(path).unwrap().lines().count(), path))
        .filter(|(lines, _)| *lines > 500)
        .collect();
    assert!(long.is_empty(), "split these: {long:?}");
}

#[test]
fn only_kernels_and_deploy_name_cuda() {
    let mut files = Vec::new();
    for krate in ["ingest", "encoder", "resident", "ssb"] {
        rust_files(&root().join(krate).join("src"), &mut files);
    }
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let named = text.lines().find(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.to_lowercase().contains("cuda")
        });
        assert!(named.is_none(), "{} names CUDA: {named:?}", path.display());
    }
}
