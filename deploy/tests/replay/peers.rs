//! Readers that others have built understand what is sent.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::detector::{Detector, golden};

/// A Python that has these modules.
pub(super) fn python(modules: &str) -> Option<std::ffi::OsString> {
    let why = match std::env::var_os("SIDEBAND_PYTHON") {
        None => "SIDEBAND_PYTHON is not set".to_owned(),
        Some(python) => {
            let has = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
            if has.is_ok_and(|output| output.status.success()) {
                return Some(python);
            }
            format!("SIDEBAND_PYTHON has not all of {modules} (tests/peers/requirements-stream.txt)")
        }
    };
    let _ = writeln!(std::io::stderr(), "not run: {why}");
    None
}

/// Replays to a script, which compares what comes with the files.
fn read_by(script: &str, modules: &str, args: &[&str]) {
    let (Some(master), Some(python)) = (golden(), python(modules)) else { return };
    let mut detector = Detector::start(&master, &[&["--arm", "--series=1", "--rate=5000"], args].concat());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/peers").join(script);
    let address = format!("tcp://{}", detector.stream);
    let output = Command::new(python).arg(script).arg(address).arg(&master).output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("4096 frames identical"), "{said}\n{complained}");
    let line = detector.line();
    assert!(line.starts_with("series 1: 4096 frames sent, 0 messages dropped"), "{line}");
    assert_eq!(detector.ends(), 0);
}

#[test]
fn a_client_of_pyzmq_and_cbor2_reads_v2_byte_for_byte() {
    read_by("stream_v2_cbor2.py", "cbor2, h5py, zmq", &["--stream=v2"]);
}

#[test]
fn the_published_libertem_dectris_reads_v1_to_the_last_count() {
    read_by("stream_v1_libertem.py", "h5py, hdf5plugin, libertem_dectris, numpy", &["--stream=v1"]);
}
