//! Series of one name in one log are told apart: listed, exported and read each on its own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::slice::from_ref;
use std::sync::atomic::AtomicBool;

use kernels::bslz4_encode::encode_bslz4;
use kernels::types::Item;

use super::*;
use crate::dectris::FileSet;
use crate::stream::message::Message;
use crate::stream::series::{Ending, SeriesSettings};
use crate::stream::source::StreamSource;

const CHILD: &str = "SIDEBAND_TEST_KILLED_IN_A_SERIES";
const TEST: &str =
    "record::tests::acquisitions::a_series_that_a_kill_cut_off_and_the_next_of_its_number_are_two";

/// The frame of an image of one of the series, packed; no other has the same bytes.
fn frame(series: u64, number: u64) -> Vec<u8> {
    let mut chunk = Vec::new();
    encode_bslz4(&[(100 * series + number) as u16; 512], &mut chunk);
    chunk
}

fn images(series: u64, numbers: std::ops::Range<u64>, version: Version) -> Vec<WireMessage> {
    let facts = facts(7, 40);
    numbers.map(|number| facts.image(version, number, &frame(series, number))).collect()
}

/// The frames of a series of a log, as a reader of the stream has them; nothing where one is missing.
fn read_back(log: &Path, key: LogKey) -> (Vec<Option<Vec<u8>>>, Ending) {
    let settings = LogSourceSettings { series: Some(key), ..LogSourceSettings::default() };
    let stop = Arc::new(AtomicBool::new(false));
    let (log, received) = LogSource::new(LogReader::open(log).unwrap(), settings, stop.clone());
    let mut source = StreamSource::new(received, stop);
    std::thread::scope(|scope| {
        scope.spawn(|| log.run().unwrap());
        let announced = source.next_series(|_| ()).unwrap();
        let (frames, frames_in) = bounded(1000);
        let silence = Duration::from_millis(300);
        let settings = SeriesSettings { silence, ..announced.reading(announced.num_images.unwrap_or(40)) };
        let end = source.read_series(settings, &frames).unwrap();
        drop((frames, source));
        let mut came = Vec::new();
        for item in frames_in {
            match item {
                Item::Data(batch) => came.extend(batch.frames().map(|frame| Some(frame.to_vec()))),
                Item::Gap(gap) => came.resize(came.len() + gap.count as usize, None),
            }
        }
        (came, end.ending)
    })
}

/// Of each series of the log its label, and the numbers of its images, in words.
fn listed(log: &Path) -> Vec<(String, String)> {
    let (series, _) = list_series(log).unwrap();
    series.iter().map(|series| (series.name(), format!("{:?}", series.frames.ranges()))).collect()
}

/// Exports a series and reads the numbers of its frames and what they hold.
fn exported(log: &Path, key: &LogKey, out: &Path) -> Vec<Option<Vec<u8>>> {
    let summary = export_series(log, key, out, &ExportSettings::new("set")).unwrap();
    let set = FileSet::open(&summary.set.master).unwrap();
    let (raw, raw_in) = bounded(1000);
    crate::source::FileSource::new(set.runs(), 1, Arc::new(AtomicBool::new(false))).run(raw);
    let mut came = Vec::new();
    for item in raw_in {
        match item {
            Item::Data(batch) => came.extend(batch.frames().map(|frame| Some(frame.to_vec()))),
            Item::Gap(gap) => came.resize(came.len() + gap.count as usize, None),
        }
    }
    came
}

/// A detector that was restarted counts its series from 1 again, and stream v1 has no other name for them.
#[test]
fn two_series_of_one_name_are_listed_exported_and_read_each_on_its_own() {
    for version in [Version::V1, Version::V2] {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let facts = facts(7, 40);
        let other = series(8, 5, version);
        let first = [vec![facts.start(version)], images(1, 0..40, version), vec![facts.end(version)]];
        // the second lacks an image in between, and a late one of the first comes before it
        let mut second = vec![facts.start(version)];
        second.extend(images(2, 0..10, version));
        second.extend(images(2, 11..40, version));
        let late = images(1, 3..4, version);
        let messages = [first.concat(), other, late, second].concat();
        record(settings(&log), slabs(&messages, 3000), &Arc::default());

        let (series, _) = list_series(&log).unwrap();
        let labels: Vec<String> = series.iter().map(SeriesInLog::label).collect();
        assert_eq!(labels, ["7.1", "8", "7.2"], "{version}");
        let [one, _, two] = &series[..] else { panic!() };
        assert_eq!(
            [one.is_complete(), two.is_complete(), one.end_seen, two.end_seen],
            [true, false, true, false]
        );
        assert_eq!((one.frames.count(), one.doubled), (40, 1));
        assert_eq!((two.frames.ranges(), two.doubled), (&[0..10, 11..40][..], 0));
        for (asked, called) in
            [("7", [true, true]), ("7.1", [true, false]), ("7.2", [false, true]), ("8", [false; 2])]
        {
            assert_eq!([one.is_called(asked), two.is_called(asked)], called, "{asked}");
        }

        let of_first: Vec<_> = (0..40).map(|number| Some(frame(1, number))).collect();
        let of_second: Vec<_> = (0..40).map(|number| (number != 10).then(|| frame(2, number))).collect();
        for (series, frames) in [(one, &of_first), (two, &of_second)] {
            let name = series.label();
            assert!(
                exported(&log, &series.log_key(), &dir.path().join(&name)) == *frames,
                "{version}: {name}"
            );
            assert!(read_back(&log, series.log_key()).0 == *frames, "{version}: {name}");
        }
        // by the message that came when they had begun, though both lie in one slab with one time of arrival
        let begins = begins_of(&log);
        for (number, frames) in [
            (0, &of_first),
            (begins[1] - 1, &of_first),
            (begins[1], &of_second),
            (begins[1] + 5, &of_second),
            (u64::MAX, &of_second),
        ] {
            let key = LogKey { key: two.key.clone(), which: Which::BegunBy(number) };
            let out = dir.path().join(format!("by {number}"));
            assert!(exported(&log, &key, &out) == *frames, "{version}: by message {number}");
        }
        let none = LogKey { key: two.key.clone(), which: Which::Place(3) };
        let why = export_series(&log, &none, dir.path(), &ExportSettings::new("none")).unwrap_err();
        assert!(why.to_string().contains("no frame"), "{why}");
    }
}

/// A detector that is armed again before an image came says another number of images; the first one stood in the list and in
/// the set.
#[test]
fn of_two_starts_before_the_first_image_the_last_counts() {
    for version in [Version::V1, Version::V2] {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let (before, facts) = (facts(7, 100), facts(7, 40));
        let mut messages = vec![before.start(version), facts.start(version)];
        messages.extend(images(1, 0..40, version));
        messages.push(facts.end(version));
        record(settings(&log), slabs(&messages, 3000), &Arc::default());

        let (series, _) = list_series(&log).unwrap();
        assert_eq!(series[0].num_images, Some(40), "{version}");
        assert!(series[0].is_complete());
        let frames: Vec<_> = (0..40).map(|number| Some(frame(1, number))).collect();
        assert!(exported(&log, &series[0].log_key(), &dir.path().join("set")) == frames, "{version}");
    }
}

/// Numbers of the messages that are starts.
fn begins_of(log: &Path) -> Vec<u64> {
    let mut reader = LogReader::open(log).unwrap();
    let mut begins = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        if record.series == Some(7) && matches!(record.message(), Ok(Message::Start(_))) {
            begins.push(record.number);
        }
    }
    begins
}

/// Records the beginning of a series, and waits.
fn record_until_killed(folder: &Path) {
    let log = RecordLog::open(settings(folder)).unwrap();
    let counters = Arc::new(RecordCounters::default());
    let (send, slabs_in) = bounded(4);
    let (spent, _spent) = bounded(4);
    let (stage, received) = RecordStage::new(Received { slabs: slabs_in, spent }, log, counters.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| stage.run());
        scope.spawn(move || received.slabs.iter().for_each(drop));
        let messages = [vec![facts(7, 40).start(Version::V1)], images(1, 0..25, Version::V1)].concat();
        slabs(&messages, 3000).into_iter().for_each(|slab| send.send(slab).unwrap());
        while counters.durable.get() < 26 {
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("durable");
        std::io::stdout().flush().unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
}

#[test]
fn a_series_that_a_kill_cut_off_and_the_next_of_its_number_are_two() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return record_until_killed(Path::new(&folder));
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(CHILD, &log)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("durable")));
    child.kill().unwrap();
    child.wait().unwrap();
    // what the kill left half written
    let last = segment_files(&log).pop().unwrap();
    let torn = std::fs::read(&last).unwrap()[64..200].to_vec();
    std::fs::OpenOptions::new().append(true).open(&last).unwrap().write_all(&torn).unwrap();

    let facts = facts(7, 40);
    let messages =
        [vec![facts.start(Version::V1)], images(2, 0..40, Version::V1), vec![facts.end(Version::V1)]]
            .concat();
    record(settings(&log), slabs(&messages, 3000), &Arc::default());
    assert_eq!(
        listed(&log),
        [("7.1", "[0..25]"), ("7.2", "[0..40]")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    let (series, _) = list_series(&log).unwrap();
    let of_first: Vec<_> = (0..40).map(|number| (number < 25).then(|| frame(1, number))).collect();
    let of_second: Vec<_> = (0..40).map(|number| Some(frame(2, number))).collect();
    assert!(read_back(&log, series[0].log_key()) == (of_first.clone(), Ending::Silence));
    assert!(read_back(&log, series[1].log_key()) == (of_second.clone(), Ending::Complete));
    for (series, frames) in series.iter().zip([of_first, of_second]) {
        assert!(exported(&log, &series.log_key(), &dir.path().join(series.label())) == frames);
    }
}

#[test]
fn channels_are_listed_in_the_order_of_the_start_once_a_frame_of_them_came() {
    let dir = tempfile::tempdir().unwrap();
    let facts = facts(7, 3);
    let names = ["b", "never", "a"].map(str::to_owned);
    let contents = crate::stream::compose::StartContents {
        detail: crate::stream::compose::HeaderDetail::Basic,
        appendix: None,
        config: &serde_json::Map::new(),
        channels: &names,
        arm_date: "2026-01-01T00:00:00Z",
        pixel_mask: &[],
    };
    let bytes = frame(1, 1);
    let image = |number, names: &[&'static str]| {
        let channels: Vec<(&str, &[u8])> = names.iter().map(|&name| (name, &bytes[..])).collect();
        facts.image_of_channels(number, &channels)
    };
    let messages = [
        facts.full_start(Version::V2, &contents),
        image(0, &["odd", "a"]),
        image(1, &["a"]),
        image(2, &["a", "b"]),
    ];
    record(settings(dir.path()), slabs(&messages, 3000), &Arc::default());
    let (series, _) = list_series(dir.path()).unwrap();
    assert_eq!(series[0].channels, ["b", "a", "odd"]);
    assert_eq!(series[0].announced_channels, names);
}

/// Frames of two acquisitions were exported as one set.
#[test]
fn a_unique_name_that_begins_again_without_an_end_is_two_series_and_a_start_that_comes_twice_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let facts = facts(7, 40);
    let start = || vec![facts.start(Version::V2)];
    let messages = [
        start(),
        images(1, 0..10, Version::V2),
        // twice, and nothing of another series between it and its images is in the way
        start(),
        series(8, 5, Version::V2),
        start(),
        images(1, 10..30, Version::V2),
        start(),
        images(2, 0..40, Version::V2),
        // nothing comes behind it
        start(),
    ];
    record(settings(&log), slabs(&messages.concat(), 3000), &Arc::default());
    let (series, _) = list_series(&log).unwrap();
    let labels: Vec<String> = series.iter().map(SeriesInLog::label).collect();
    assert_eq!(labels, ["7.1", "8", "7.2"]);
    let [one, _, two] = &series[..] else { panic!() };
    assert_eq!((one.frames.ranges(), one.doubled, one.start_seen), (from_ref(&(0..30)), 0, true));
    // what it has came between starts; the other's second start has nothing behind it
    assert_eq!((one.second_starts, two.second_starts), (1, 0));
    assert!(one.doubt().is_some_and(|doubt| doubt.contains("two acquisitions")) && two.doubt().is_none());
    assert_eq!((two.frames.ranges(), two.doubled, two.num_images), (from_ref(&(0..40)), 0, Some(40)));
    let of_first: Vec<_> = (0..40).map(|number| (number < 30).then(|| frame(1, number))).collect();
    let of_second: Vec<_> = (0..40).map(|number| Some(frame(2, number))).collect();
    for (series, frames) in [(one, &of_first), (two, &of_second)] {
        let name = series.label();
        assert!(exported(&log, &series.log_key(), &dir.path().join(&name)) == *frames, "{name}");
        assert!(read_back(&log, series.log_key()).0 == *frames, "{name}");
    }
    // by the message by which the receiver knew it: that of its first image
    let mut reader = LogReader::open(&log).unwrap();
    let mut last_zero = 0;
    while let Some(record) = reader.next_record().unwrap() {
        let is_zero = record.series == Some(7) && record.frame == Some(0);
        last_zero = if is_zero { record.number } else { last_zero };
    }
    let begun_by = |number| LogKey { which: Which::BegunBy(number), ..two.log_key() };
    assert!(exported(&log, &begun_by(last_zero), &dir.path().join("second")) == of_second);
    assert!(exported(&log, &begun_by(1), &dir.path().join("first")) == of_first);
    // all of it as a source: every message once, in an order that says the same
    let mut all = SeriesRecords::all(LogReader::open(&log).unwrap());
    let mut numbers = Vec::new();
    while let Some(found) = all.next_record().unwrap() {
        numbers.push(found.record.number);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(numbers.len(), messages.concat().len());
}
