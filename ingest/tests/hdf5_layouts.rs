//! Files h5py made, in every layout it offers: what we read must be what it reads.
//!
//! `fixtures/make.py` makes the files and `expected.json`; files with thousands of chunks are made when `SIDEBAND_PYTHON` is set.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::path::{Path, PathBuf};
use std::process::Command;

use ingest::hdf5::{File, Found, Hdf5Error, LinkTarget, Value};
use serde_json::Value as Json;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Unsigned { elements, .. } => elements.iter().map(|&number| number as f64).collect(),
        Value::Signed { elements, .. } => elements.iter().map(|&number| number as f64).collect(),
        Value::Float { elements, .. } => elements.clone(),
        Value::Text { .. } => Vec::new(),
    }
}

/// Compares one file with what h5py said about it; returns the number of facts compared.
fn compare(file: &File, expected: &Json) -> usize {
    let mut compared = 0;
    for (path, fact) in expected["datasets"].as_object().unwrap() {
        let context = format!("{} {path}", file.path().display());
        let dataset = file.dataset(path).unwrap_or_else(|error| panic!("{context}: {error}"));
        let shape: Vec<u64> =
            fact["shape"].as_array().unwrap().iter().map(|axis| axis.as_u64().unwrap()).collect();
        assert_eq!(dataset.shape(), shape, "{context}");
        let value = dataset.read_all().unwrap_or_else(|error| panic!("{context}: {error}"));
        if let Some(text) = fact.get("text") {
            assert_eq!(value.text(), text.as_str(), "{context}");
        }
        if let Some(values) = fact.get("values") {
            let values: Vec<f64> =
                values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
            assert_eq!(numbers(&value), values, "{context}");
        }
        if let Some(weighted) = fact.get("weighted") {
            let sum: f64 =
                numbers(&value).iter().enumerate().map(|(at, value)| (at + 1) as f64 * value).sum();
            assert_eq!(sum, weighted.as_f64().unwrap(), "{context}");
        }
        if let Some(chunks) = fact.get("chunks") {
            let mut found: Vec<_> = dataset.chunk_index().unwrap();
            found.retain(|chunk| chunk.bytes > 0);
            let mut found: Vec<_> =
                found.iter().map(|chunk| (chunk.offset, chunk.bytes, chunk.filter_mask)).collect();
            found.sort_unstable();
            let number = |value: &Json| value.as_u64().unwrap();
            let mut expected: Vec<_> = chunks
                .as_array()
                .unwrap()
                .iter()
                .map(|chunk| (number(&chunk[1]), number(&chunk[2]), number(&chunk[3]) as u32))
                .collect();
            expected.sort_unstable();
            assert_eq!(found, expected, "{context}");
        }
        if let Some(count) = fact.get("num_chunks") {
            let found = dataset.chunk_index().unwrap();
            assert_eq!(
                found.iter().filter(|chunk| chunk.bytes > 0).count() as u64,
                count.as_u64().unwrap(),
                "{context}"
            );
            let sum: u64 = found.iter().map(|chunk| chunk.offset).sum();
            assert_eq!(sum, fact["offset_sum"].as_u64().unwrap(), "{context}");
        }
        compared += 1;
    }
    for (group, links) in expected["links"].as_object().unwrap() {
        let found = file.links(group).unwrap();
        for (name, target) in links.as_object().unwrap() {
            let link = found
                .iter()
                .find(|link| link.name == *name)
                .unwrap_or_else(|| panic!("{group} has no {name}"));
            let (target_file, path) = (target[0].as_str().unwrap(), target[1].as_str().unwrap());
            assert_eq!(
                link.target,
                LinkTarget::External { file: target_file.to_owned(), path: path.to_owned() }
            );
            compared += 1;
        }
    }
    for (name, expected) in expected["attributes"].as_object().unwrap() {
        let (path, attribute) = name.split_once('@').unwrap();
        let value = file.attribute(path, attribute).unwrap().unwrap_or_else(|| panic!("{name} is not there"));
        match expected.as_str() {
            Some(text) => assert_eq!(value.text(), Some(text), "{name}"),
            None => assert_eq!(value.number(), expected.as_f64(), "{name}"),
        }
        compared += 1;
    }
    compared
}

#[test]
fn every_layout_reads_as_h5py_reads_it() {
    let text = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    let expected: Json = serde_json::from_str(&text).unwrap();
    let mut compared = 0;
    for (name, expected) in expected.as_object().unwrap() {
        compared += compare(&File::open(&fixtures().join(name)).unwrap(), expected);
    }
    assert!(compared > 390, "only {compared} facts compared");
}

/// Writes past the capture of the test harness, which hides what `println!` prints in a test that passes.
fn not_run(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "not run: {why}");
}

#[test]
fn every_kind_of_chunk_index_reads_through_all_its_levels() {
    let Some(python) = std::env::var_os("SIDEBAND_PYTHON") else {
        not_run("SIDEBAND_PYTHON is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(python)
        .arg(fixtures().join("make.py"))
        .arg("--many")
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let expected: Json = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(expected.as_object().unwrap().len(), 4);
    for (name, expected) in expected.as_object().unwrap() {
        compare(&File::open(&folder.path().join(name)).unwrap(), expected);
    }
}

#[test]
fn soft_links_are_followed_and_circles_are_not() {
    let file = File::open(&fixtures().join("layouts_latest.h5")).unwrap();
    let direct = file.dataset("/entry/data/fixed").unwrap().chunk_index().unwrap();
    for path in ["/entry/soft", "entry/relative"] {
        assert_eq!(file.dataset(path).unwrap().chunk_index().unwrap(), direct, "{path}");
    }
    let refused = file.dataset("/entry/circle").unwrap_err();
    assert!(matches!(refused, Hdf5Error::NotFound { .. }), "{refused}");
}

#[test]
fn an_external_link_is_reported_as_the_file_gives_it() {
    for name in ["layouts_earliest.h5", "layouts_latest.h5"] {
        let file = File::open(&fixtures().join(name)).unwrap();
        let Found::External { file: other, path } = file.find("/entry/out/c").unwrap() else {
            panic!("/entry/out is an external link");
        };
        assert_eq!((other.as_str(), path.as_str()), ("other.h5", "/a/b/c"));
    }
}

#[test]
fn what_is_no_hdf5_file_is_refused_by_name() {
    let mut folder = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut folder, b"TIFF or something else, long enough to look").unwrap();
    let refused = File::open(folder.path()).unwrap_err();
    assert!(matches!(refused, Hdf5Error::NotHdf5 { bytes: 43, .. }), "{refused}");
    assert!(matches!(File::open(&fixtures()).unwrap_err(), Hdf5Error::Io { .. }));
}
