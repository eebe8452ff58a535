//! The pixel mask that the stream does not bring: asked of the detector, which is the product's own replay here.

use super::*;

/// The word behind `start` in the next line of a program.
fn after(lines: &mut impl Iterator<Item = std::io::Result<String>>, start: &str) -> String {
    let line = lines.next().unwrap().unwrap();
    let rest = line.strip_prefix(start).unwrap_or_else(|| panic!("got {line}, expected {start}"));
    rest.split_whitespace().next().unwrap().to_owned()
}

/// A replay that is ended when it goes out of use.
struct Replay(Child);

impl Drop for Replay {
    fn drop(&mut self) {
        // already ended where a test went well
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_mask_of_a_detector_whose_stream_brings_none_comes_over_rest() {
    for asks in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        // the start of `header_detail` basic has no mask
        let child = Command::new(env!("CARGO_BIN_EXE_sideband"))
            .args([
                "replay",
                "simulate",
                "--stream-port=0",
                "--api-port=0",
                "--arm",
                "--series=1",
                "--rate=max",
            ])
            .args(["--", "--scan-shape=16x16", "--detector-shape=48x48", "--detector-sampling-mrad=1.5"])
            .args(["--hot-pixels=3", "--dead-pixels=2"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut replay = Replay(child);
        let mut lines = BufReader::new(replay.0.stdout.take().unwrap()).lines();
        let stream = after(&mut lines, "stream tcp://");
        let api = after(&mut lines, "api http://");
        let mut more = vec!["--series", "1", "--scan-shape=16x16"];
        if asks {
            more.extend(["--api", &api]);
        }
        let mut daemon = Daemon::listening(&stream, dir.path(), &[], &more);
        assert!(daemon.next_line().starts_with("calibration unknown: "));
        assert!(daemon.next_line().contains("receiving 256 frames"));
        assert!(daemon.next_line().contains("256 of 256 frames, 0 missing"));
        assert!(daemon.end().success());
        let report = result(&folders(dir.path())[0]);
        let (masked, warnings) = (&report["bright_field"]["masked_pixels"], report["warnings"].to_string());
        let expected = if asks { 5 } else { 0 };
        assert_eq!((masked, warnings.contains("no pixel mask")), (&Value::from(expected), !asks), "{report}");
    }
}
