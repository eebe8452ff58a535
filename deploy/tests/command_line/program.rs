//! The built program and what it leaves behind.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

pub(crate) fn sideband<S: AsRef<OsStr>>(args: &[S]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sideband")).args(args).output().expect("the program starts")
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().expect("ended by itself")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A tiny simulated set in `dir`: 4 x 4 positions, 32 x 32 pixels, 4 images a file. Returns its master file.
pub(crate) fn simulated(dir: &Path) -> String {
    simulated_with(dir, &[])
}

/// As [`simulated`], with more flags.
pub(crate) fn simulated_with(dir: &Path, more: &[&str]) -> String {
    let mut args = vec!["simulate", "--out", dir.to_str().expect("a plain path")];
    args.extend(["--scan-shape", "4x4", "--detector-shape", "32x32", "--detector-sampling-mrad", "3"]);
    args.extend(["--images-per-file", "4", "--quiet"]);
    args.extend(more);
    let output = sideband(&args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    stdout(&output).trim().to_owned()
}

/// The microscope of [`simulated`], as flags of a run.
pub(crate) const TINY_OPTICS: [&str; 8] =
    ["--semi-angle-mrad", "25", "--scan-step-nm", "0.024", "--rotation-deg", "-12.5", "--scan-shape", "4x4"];

/// Runs a set with the optics of [`simulated`] and more flags.
pub(crate) fn run_tiny(master: &str, out: &Path, more: &[&str]) -> Output {
    let mut args = vec!["run", master, "--out", out.to_str().expect("a plain path")];
    args.extend(TINY_OPTICS);
    args.extend(more);
    sideband(&args)
}

/// `result.json` of a result folder.
pub(crate) fn result(out: &Path) -> serde_json::Value {
    let path = out.join("result.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// An array of two axes as numpy finds it.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) descr: String,
    pub(crate) shape: [usize; 2],
    bytes: Vec<u8>,
}

impl Array {
    /// Reads an `.npy` file of version 1.0 in C order.
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "{}", path.display());
        let data = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let header = std::str::from_utf8(&bytes[10..data]).expect("text");
        assert!(header.contains("'fortran_order': False"), "{header}");
        let between = |start: &str, end: &str| {
            let (_, rest) = header.split_once(start).expect(header);
            rest.split_once(end).expect(header).0.to_owned()
        };
        let lengths: Vec<usize> = between("'shape': (", ")")
            .split(',')
            .map(str::trim)
            .filter(|length| !length.is_empty())
            .map(|length| length.parse().expect("a length"))
            .collect();
        let array = Self {
            descr: between("'descr': '", "'"),
            shape: lengths.try_into().expect("two axes"),
            bytes: bytes[data..].to_vec(),
        };
        assert_eq!(array.bytes.len(), array.shape[0] * array.shape[1] * array.width(), "{}", path.display());
        array
    }

    fn width(&self) -> usize {
        self.descr[2..].parse().expect("a width")
    }

    pub(crate) fn f64(&self) -> Vec<f64> {
        let values = self.bytes.chunks_exact(self.width());
        match self.descr.as_str() {
            "<f4" => values.map(|value| f32::from_le_bytes(value.try_into().unwrap()).into()).collect(),
            "<f8" => values.map(|value| f64::from_le_bytes(value.try_into().unwrap())).collect(),
            other => panic!("{other} holds no floating-point numbers"),
        }
    }

    pub(crate) fn u64(&self) -> Vec<u64> {
        assert_eq!(self.descr, "<u8");
        self.bytes.chunks_exact(8).map(|value| u64::from_le_bytes(value.try_into().unwrap())).collect()
    }
}
