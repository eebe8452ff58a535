//! A log as a source: the series come out of it as they went in.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use kernels::types::Item;

use super::*;
use crate::stream::series::{Ending, SeriesSettings};
use crate::stream::source::StreamSource;

#[test]
fn a_source_reads_the_series_of_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut messages = series(1, 50, Version::V1);
    messages.extend(series(2, 300, Version::V2));
    // the third has no end, and its last image is missing
    messages.extend(series(3, 20, Version::V2).into_iter().take(20));
    record(settings(dir.path()), slabs(&messages, 3000), &Arc::default());
    let stop = Arc::new(AtomicBool::new(false));
    let small = LogSourceSettings { slab_bytes: 700, slabs: 3, ..LogSourceSettings::default() };
    let (log, received) = LogSource::new(LogReader::open(dir.path()).unwrap(), small, stop.clone());
    let mut source = StreamSource::new(received, stop.clone());
    std::thread::scope(|scope| {
        let log = scope.spawn(|| log.run().unwrap());
        for (id, images, came, ending) in
            [(1, 50, 50, Ending::Complete), (2, 300, 300, Ending::Complete), (3, 20, 19, Ending::Silence)]
        {
            let announced = source.next_series(|_| ()).unwrap();
            assert_eq!((announced.key.id, announced.num_images), (id, Some(images)));
            let silence = Duration::from_millis(200);
            let settings = SeriesSettings { silence, ..announced.reading(images) };
            let (frames, frames_in) = bounded(1000);
            let end = source.read_series(settings, &frames).unwrap();
            drop(frames);
            assert_eq!((end.ending, end.counts.frames), (ending, came));
            let mut number = 0;
            for item in frames_in {
                let Item::Data(batch) = item else { continue };
                for frame in batch.frames() {
                    assert_eq!(frame, frame_bytes(number));
                    number += 1;
                }
            }
            assert_eq!(number, came);
        }
        stop.store(true, Relaxed);
        assert_eq!(log.join().unwrap().records, 52 + 302 + 20);
    });
}

#[test]
fn one_series_alone_is_handed_on_when_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut messages = series(1, 50, Version::V1);
    messages.extend(series(2, 30, Version::V2));
    record(settings(dir.path()), slabs(&messages, 3000), &Arc::default());
    let two = list_series(dir.path()).unwrap().0[1].log_key();
    let only = LogSourceSettings { series: Some(two), ..LogSourceSettings::default() };
    let (log, received) = LogSource::new(LogReader::open(dir.path()).unwrap(), only, Arc::default());
    let expected: Vec<Parts> =
        slabs(&series(2, 30, Version::V2), 1 << 20).iter().flat_map(parts_of).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| log.run().unwrap());
        let slab = received.slabs.recv().unwrap();
        assert!(parts_of(&slab) == expected);
        drop(received);
    });
}

#[test]
fn the_pauses_of_a_recording_are_kept_when_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let slabs = slabs(&series(1, 3, Version::V1), 900);
    let log = RecordLog::open(settings(dir.path())).unwrap();
    let (send, slabs_in) = bounded(4);
    let (spent, _spent) = bounded(4);
    let (stage, received) = RecordStage::new(Received { slabs: slabs_in, spent }, log, Arc::default());
    std::thread::scope(|scope| {
        scope.spawn(|| stage.run());
        scope.spawn(move || {
            for slab in slabs {
                send.send(slab).unwrap();
                std::thread::sleep(Duration::from_millis(60));
            }
        });
        received.slabs.iter().for_each(drop);
    });
    let mut reader = LogReader::open(dir.path()).unwrap();
    let mut arrivals = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        arrivals.push(record.arrival_nanos);
    }
    let spread = Duration::from_nanos(arrivals[arrivals.len() - 1] - arrivals[0]);
    assert!(spread > Duration::from_millis(100), "{spread:?}");
    let paced = LogSourceSettings { pace: Pace::AsRecorded, ..LogSourceSettings::default() };
    let (log, received) = LogSource::new(LogReader::open(dir.path()).unwrap(), paced, Arc::default());
    std::thread::scope(|scope| {
        scope.spawn(|| log.run().unwrap());
        let (start, mut came) = (Instant::now(), 0);
        while came < arrivals.len() {
            came += received.slabs.recv().unwrap().num_messages();
        }
        assert!(start.elapsed() >= spread, "{:?}", start.elapsed());
        drop(received);
    });
}

#[test]
fn the_series_of_a_log_are_listed_with_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (facts, version) = (facts(8, 10), Version::V2);
    let mut messages = series(1, 50, Version::V1);
    // without its start, in disorder, one doubled, one missing
    for number in [3, 1, 2, 2, 0, 6, 5, 9, 8, 7] {
        messages.push(facts.image(version, number, &frame_bytes(number)));
    }
    messages.push(facts.end(version));
    // the same number under another name: the detector was started anew
    let anew = SeriesFacts { unique_id: "01KB0000000000000000000000".to_owned(), ..facts.clone() };
    messages.push(anew.start(version));
    messages.push(WireMessage::new(&[b"garbage"]));
    record(settings(dir.path()), slabs(&messages, 3000), &Arc::default());
    let (series, report) = list_series(dir.path()).unwrap();
    assert_eq!((series.len(), report.records), (3, messages.len() as u64));
    let [one, two, three] = series.try_into().unwrap();
    assert!(one.is_complete() && one.start_seen && one.end_seen);
    assert_eq!((one.key.id, one.num_images, one.channels), (1, Some(50), vec![String::new()]));
    assert!(!two.is_complete() && !two.start_seen && two.end_seen);
    assert_eq!((two.frames.ranges(), two.doubled), ([0..4, 5..10].as_slice(), 1));
    assert_eq!((two.frames.count(), two.frames.end()), (9, 10));
    assert_eq!((two.detector, two.count_type), (Some(facts.detector), Some(CountType::U16)));
    assert_eq!(two.channels, ["threshold_1"]);
    assert_eq!((three.key.id, three.num_images, three.frames.count()), (8, Some(10), 0));
    assert!(one.last < two.first && two.last < three.first);
    assert!(one.first_arrival_nanos <= one.last_arrival_nanos);
}

#[test]
fn a_raised_flag_ends_reading_at_the_next_record_whatever_is_read_for() {
    let dir = tempfile::tempdir().unwrap();
    record(settings(dir.path()), slabs(&series(1, 50, Version::V2), 3000), &Arc::default());
    let stop = Arc::new(AtomicBool::new(false));
    let mut reader = LogReader::open(dir.path()).unwrap().until(stop.clone());
    assert!(reader.next_record().unwrap().is_some());
    let (listed, _) = list_series_until(dir.path(), stop.clone()).unwrap();
    stop.store(true, Relaxed);
    assert!(matches!(reader.next_record(), Err(RecordError::Stopped)));
    assert!(matches!(list_series_until(dir.path(), stop.clone()), Err(RecordError::Stopped)));
    let opened = RecordLog::open_until(RecordSettings::new(dir.path()), &stop);
    assert!(matches!(opened, Err(RecordError::Stopped)));
    let settings = ExportSettings { stop, ..ExportSettings::new("set") };
    let out = dir.path().join("out");
    let exported = export_series(dir.path(), &listed[0].log_key(), &out, &settings);
    assert!(matches!(exported, Err(RecordError::Stopped)) && !out.exists());
}

#[test]
fn numbers_in_any_order_become_ranges() {
    let mut seed = 77_u64;
    let mut numbers: Vec<u64> = (0..500).filter(|number| number % 61 != 0).collect();
    for at in (1..numbers.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        numbers.swap(at, (seed >> 33) as usize % (at + 1));
    }
    let mut ranges = FrameRanges::default();
    assert!(numbers.iter().all(|&number| ranges.insert(number)));
    assert!(!numbers.iter().any(|&number| ranges.insert(number)));
    let expected: Vec<_> = (0..9).map(|at| at * 61 + 1..500.min(at * 61 + 61)).collect();
    assert_eq!(ranges.ranges(), expected);
    assert!(!ranges.insert(u64::MAX));
}
