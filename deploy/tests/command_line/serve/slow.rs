//! A scan so slow that a block takes long to fill.

use std::path::Path;

use ingest::stream::compose::Version;

use super::{Daemon, Detector, EXACT, folders, from_files};

#[test]
fn a_slow_scan_is_seen_frame_by_frame_and_row_by_row_and_comes_to_the_same_files() {
    let (_dir, expected) = from_files();
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut daemon = Daemon::start(&detector, dir.path(), &["--series", "1"]);
    detector.wait_for_reader();
    detector.socket.send(&detector.facts.start(Version::V2));
    let mut sent = 0;
    for frames in [1, 2, 30, 130, 600, 1023] {
        // nothing more is sent until these are to be seen
        detector.send(Version::V2, sent..frames, |_| true);
        sent = frames;
        daemon.wait_for("every frame so far", |status| status["series"]["frames"]["kept"] == frames);
        let (header, sums) = daemon.raw("frame_sum");
        assert_eq!(header["missing"], serde_json::json!([[frames, 4096]]));
        assert_eq!(sums.iter().filter(|sum| **sum > 0.0).count() as u64, frames);
        if frames >= 512 {
            let rows = frames / 64;
            daemon.wait_for("every whole row", |status| status["series"]["phase"]["rows_final"] == rows);
        }
    }
    detector.rest(Version::V2, sent);
    daemon.next_line();
    assert!(daemon.next_line().starts_with("series 41: complete: 4096 of 4096 frames"));
    let folder = folders(dir.path()).remove(0);
    for name in EXACT {
        let read = |folder: &Path| std::fs::read(folder.join(format!("{name}.npy"))).unwrap();
        assert!(read(&folder) == read(&expected), "{name}");
    }
}
