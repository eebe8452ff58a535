//! Both versions of the stream carry what the files hold.

use ingest::stream::series::Ending;

use super::detector::{Detector, golden};
use super::reader::{read, stored};

#[test]
fn every_frame_of_both_versions_is_byte_for_byte_that_of_the_files() {
    let Some(master) = golden() else { return };
    let stored = stored(&master);
    assert!(stored.len() == 4096 && stored.iter().all(Option::is_some));
    for version in ["v1", "v2"] {
        let args = ["--stream", version, "--arm", "--series=2", "--rate=max"];
        let mut detector = Detector::start(&master, &args);
        let came = read(&detector.stream, 2, 4096);
        for (id, came) in (1..).zip(&came) {
            assert_eq!((came.announced.key.id, came.announced.num_images), (id, Some(4096)), "{version}");
            assert_eq!((&came.end.ending, came.garbage), (&Ending::Complete, 0), "{version}");
            assert!(came.frames == stored, "{version}");
        }
        for id in 1..=2 {
            let line = detector.line();
            let expected = format!("series {id}: 4096 frames sent, 0 messages dropped, ");
            assert!(line.starts_with(&expected) && line.ends_with("frames/s, sent"), "{line}");
        }
        assert_eq!(detector.ends(), 0);
    }
}

#[test]
fn frames_come_at_the_rate_that_was_asked_for() {
    let Some(master) = golden() else { return };
    let mut detector = Detector::start(&master, &["--arm", "--series=1", "--rate=8192"]);
    let start = std::time::Instant::now();
    let came = read(&detector.stream, 1, 4096);
    assert_eq!(came[0].end.ending, Ending::Complete);
    assert!(start.elapsed().as_secs_f64() >= 0.49, "{:?}", start.elapsed());
    let line = detector.line();
    let secs: f64 = line.split(", ").nth(2).unwrap().trim_end_matches(" s").parse().unwrap();
    assert!((0.49..2.0).contains(&secs), "{line}");
}
