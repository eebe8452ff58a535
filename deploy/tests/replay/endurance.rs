//! A short version of the long runs (`docs/measure endurance`): the daemon is killed under load, and its disk is full.

use std::path::Path;
use std::process::Command;

use super::detector::golden;
use super::peers::python;

#[test]
fn durable_frames_outlive_kills_and_full_disks_and_live_images_go_on() {
    let (Some(master), Some(python)) = (golden(), python("h5py, hdf5plugin")) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/peers/endurance.py");
    let mut command = Command::new(python);
    command.arg(script).args(["--run=kills", "--run=full", "--kills=2", "--fills=2", "--rate=2000"]);
    command.arg(env!("CARGO_BIN_EXE_sideband")).arg(master);
    command.args(["--voltage-kv=300", "--semi-angle-mrad=30", "--scan-step-nm=0.016"]);
    let output = command.args(["--rotation-deg=-12.5", "--scan-shape=64x64"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("kills: PASS: ") && said.contains("full: PASS: "), "{said}");
}
