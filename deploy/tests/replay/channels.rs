//! Several thresholds: a simulation counts each, and a recording carries all of them in whatever it is sent as.

use std::collections::BTreeMap;
use std::path::Path;

use ingest::record::LogReader;
use ingest::stream::message::Message;
use kernels::bslz4_decode::decode_frame;

use super::detector::Detector;
use super::reader::{read, record, simulated};

const FLAGS: [&str; 5] = [
    "--scan-shape=5x6",
    "--detector-shape=32x32",
    "--detector-sampling-mrad=2",
    "--seed=5",
    "--hot-pixels=1",
];
const NAMES: [&str; 3] = ["threshold_1", "threshold_2", "difference"];

/// The frames of a series of a log, as they are packed, by number and channel.
fn frames(log: &Path, series: u64) -> Vec<BTreeMap<String, Vec<u8>>> {
    let mut reader = LogReader::open(log).unwrap();
    let mut frames = BTreeMap::new();
    while let Some(record) = reader.next_record().unwrap() {
        if let (Some(number), Message::Image(image)) = (record.frame, record.message().unwrap())
            && record.series == Some(series)
        {
            let channels =
                image.channels().map(|channel| (channel.name.to_owned(), channel.packed.bytes.to_vec()));
            frames.insert(number, channels.collect());
        }
    }
    assert_eq!(frames.keys().copied().collect::<Vec<_>>(), (0..30).collect::<Vec<_>>());
    frames.into_values().collect()
}

#[test]
fn a_simulation_counts_every_threshold_and_a_recording_of_it_carries_them_all() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set");
    let stored = simulated(&FLAGS, &set);

    let (log, again) = (folder.path().join("log"), folder.path().join("again"));
    let channels = format!("--channels={}", NAMES.join(","));
    let args = [&[&*channels, "--arm", "--series=2", "--rate=max", "--"], &FLAGS[..]].concat();
    let detector = Detector::start(Path::new("simulate"), &args);
    record(&detector.stream, 2, 30, &log);
    assert_eq!(detector.ends(), 0);
    let first = frames(&log, 1);
    assert!(first == frames(&log, 2));
    let mut different = 0;
    for (channels, stored) in first.iter().zip(&stored) {
        assert!(channels["threshold_1"] == *stored.as_ref().unwrap());
        let counts = NAMES.map(|name| {
            let mut counts = vec![0_u16; 32 * 32];
            decode_frame(kernels::bslz4_decode::Encoding::Bslz4, &channels[name], &mut counts).unwrap();
            counts
        });
        let [one, two, difference] = &counts;
        different += u32::from(one != two);
        assert!((0..one.len()).all(|pixel| one[pixel] == two[pixel] + difference[pixel]));
    }
    assert!(different > 25, "{different}");

    // the second series of a recording is made anew
    let args = ["--log-series=1", "--arm", "--series=2", "--rate=max"];
    let detector = Detector::start(&log, &args);
    record(&detector.stream, 2, 30, &again);
    assert_eq!(detector.ends(), 0);
    assert!(frames(&again, 1) == first && frames(&again, 2) == first);

    // stream v1 has one channel: the one that is named, else the first
    for (named, name) in [("--channels=threshold_2", NAMES[1]), ("--patience=1", NAMES[0])] {
        let args = ["--log-series=1", "--stream=v1", "--arm", "--series=1", "--rate=max", named];
        let detector = Detector::start(&log, &args);
        let came = read(&detector.stream, 1, 30).remove(0);
        assert_eq!(detector.ends(), 0);
        let is_same =
            |(came, first): (&Option<Vec<u8>>, &BTreeMap<String, Vec<u8>>)| came.as_ref() == first.get(name);
        assert!(came.frames.len() == 30 && came.frames.iter().zip(&first).all(is_same), "{name}");
    }
}
