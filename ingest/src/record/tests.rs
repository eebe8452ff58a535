//! What is recorded is read back, whatever happens to the disk, the file or the program in between.

mod acquisitions;
mod damage;
mod export;
mod full;
mod kill;
mod replay;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};

use super::source::{HANDSHAKE, Wire};
use super::*;
use crate::stream::compose::{SeriesFacts, Version};
use crate::stream::push::WireMessage;
use crate::stream::receive::Received;
use crate::stream::slab::Slab;
use crate::stream::zmtp::{Filled, PullReader};

/// A message as its parts.
type Parts = Vec<Vec<u8>>;

fn facts(id: u64, num_images: u64) -> SeriesFacts {
    SeriesFacts {
        id,
        unique_id: format!("{id:026}"),
        num_images,
        detector: DetectorShape { rows: 16, cols: 32 },
        count_type: CountType::U16,
        encoding: Encoding::Bslz4,
        incident_energy_ev: 300_000.0,
        frame_time_s: 1e-5,
    }
}

/// Bytes of a frame: between 200 and 1000, each frame its own.
fn frame_bytes(number: u64) -> Vec<u8> {
    let len = 200 + number * 7919 % 800;
    (0..len).map(|at| (at.wrapping_mul(number + 3) >> 2) as u8).collect()
}

/// A whole series on the wire.
fn series(id: u64, num_images: u64, version: Version) -> Vec<WireMessage> {
    let facts = facts(id, num_images);
    let images = (0..num_images).map(|number| facts.image(version, number, &frame_bytes(number)));
    [facts.start(version)].into_iter().chain(images).chain([facts.end(version)]).collect()
}

fn parts_of(slab: &Slab) -> Vec<Parts> {
    slab.messages().map(|parts| parts.map(<[u8]>::to_vec).collect()).collect()
}

/// The messages as a receiver lays them into slabs of so many bytes.
fn slabs(messages: &[WireMessage], slab_bytes: usize) -> Vec<Slab> {
    let wire = Wire::default();
    wire.put(HANDSHAKE);
    let mut reader = PullReader::connect(&wire, 1 << 30).unwrap();
    let (mut full, mut slab) = (Vec::new(), Slab::new(slab_bytes));
    for message in messages {
        wire.put(message.bytes());
        loop {
            if reader.wants_slab(&slab) {
                let mut next = Slab::new(slab_bytes);
                reader.change_slab(&mut slab, &mut next);
                full.push(std::mem::replace(&mut slab, next));
            }
            if reader.fill(&mut slab).unwrap() == Filled::Nothing {
                break;
            }
        }
    }
    full.push(slab);
    full
}

fn settings(folder: &Path) -> RecordSettings {
    RecordSettings {
        segment_bytes: 20_000,
        sync_every: Duration::from_millis(5),
        last_tries: Duration::from_millis(50),
        ..RecordSettings::new(folder)
    }
}

/// Records slabs; returns the messages that came out at the other side.
fn record(settings: RecordSettings, slabs: Vec<Slab>, counters: &Arc<RecordCounters>) -> Vec<Parts> {
    let log = RecordLog::open(settings).unwrap();
    let (send, slabs_in) = bounded(4);
    let (spent, _spent) = bounded(4);
    let received = Received { slabs: slabs_in, spent };
    let (stage, received) = RecordStage::new(received, log, counters.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| stage.run());
        scope.spawn(move || slabs.into_iter().for_each(|slab| send.send(slab).unwrap()));
        received.slabs.iter().flat_map(|slab| parts_of(&slab)).collect()
    })
}

/// All messages of a log with their numbers, and what was found.
fn read(folder: &Path) -> (Vec<(u64, Parts)>, LogReport) {
    let mut reader = LogReader::open(folder).unwrap();
    let mut messages = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        messages.push((record.number, record.parts().map(<[u8]>::to_vec).collect()));
    }
    (messages, reader.into_report())
}

/// The files of the segments in order.
fn segment_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sbl"))
        .collect();
    files.sort();
    files
}

fn numbered(messages: &[Parts]) -> Vec<(u64, Parts)> {
    (0..).zip(messages.iter().cloned()).collect()
}

/// An image of stream v2 with two thresholds.
fn two_channels(id: u64, number: u64) -> WireMessage {
    let mut encoder = minicbor::Encoder::new(Vec::new());
    let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
        encoder.map(4)?.str("type")?.str("image")?.str("series_id")?.u64(id)?.str("image_id")?.u64(number)?;
        encoder.str("data")?.map(2)?;
        for name in ["threshold_1", "threshold_2"] {
            encoder.str(name)?.tag(minicbor::data::Tag::new(40))?.array(2)?.array(2)?.u64(16)?.u64(32)?;
            encoder.tag(minicbor::data::Tag::new(69))?.bytes(&vec![name.len() as u8; 1024])?;
        }
        Ok(())
    };
    write().unwrap();
    WireMessage::new(&[&encoder.into_writer()])
}

/// Messages of every kind: two versions, several channels, garbage, an empty part, one longer than a slab and a segment.
fn all_sorts() -> Vec<WireMessage> {
    let mut messages = series(1, 60, Version::V1);
    messages.extend(series(2, 40, Version::V2));
    let long: Vec<u8> = (0..70_000_u32).map(|at| (at.wrapping_mul(at) >> 5) as u8).collect();
    messages.push(facts(3, 9).image(Version::V2, 4, &long));
    messages.push(facts(4, 9).image(Version::V1, 4, &long));
    messages.push(WireMessage::new(&[b"garbage", b"", b"\x00", &long]));
    messages.push(WireMessage::new(&[b""]));
    messages.push(two_channels(7, 5));
    messages
}

#[test]
fn every_message_passes_and_is_read_back_as_it_came() {
    for slab_bytes in [500, 10_000, 1 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let counters = Arc::new(RecordCounters::default());
        let slabs = slabs(&all_sorts(), slab_bytes);
        let expected: Vec<Parts> = slabs.iter().flat_map(parts_of).collect();
        assert_eq!(expected.len(), all_sorts().len());
        let passed = record(settings(dir.path()), slabs, &counters);
        assert!(passed == expected, "{slab_bytes}");
        let (messages, report) = read(dir.path());
        assert!(messages == numbered(&expected), "{slab_bytes}");
        assert_eq!(report.num_damages + report.not_saved + report.missing, 0);
        let all = expected.len() as u64;
        assert_eq!(
            (counters.received.get(), counters.written.get(), counters.durable.get()),
            (all, all, all)
        );
        assert_eq!((counters.not_saved.get(), counters.failures.get()), (0, 0));
        assert_eq!((report.records, report.next_number), (all, Some(all)));
        let on_disk: u64 = segment_files(dir.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
        assert_eq!(on_disk, report.bytes + 64 * report.segments);
        assert_eq!(report.bytes, counters.durable_bytes.get());
        assert!(report.segments > 5, "{}", report.segments);
    }
}

#[test]
fn recording_goes_on_in_a_new_segment_with_the_next_number() {
    let dir = tempfile::tempdir().unwrap();
    let messages = series(5, 30, Version::V1);
    let mut expected = Vec::new();
    for round in 0..3 {
        let slabs = slabs(&messages, 5000);
        expected.extend(slabs.iter().flat_map(parts_of));
        let before = segment_files(dir.path());
        record(settings(dir.path()), slabs, &Arc::default());
        let after = segment_files(dir.path());
        assert!(after.len() > before.len() && after.starts_with(&before), "round {round}");
        assert!(read(dir.path()).0 == numbered(&expected), "round {round}");
    }
}

#[test]
fn two_recorders_cannot_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let one = RecordLog::open(settings(dir.path())).unwrap();
    let refused = RecordLog::open(settings(dir.path())).unwrap_err();
    assert!(matches!(refused, RecordError::Locked { .. }), "{refused}");
    drop(one);
    RecordLog::open(settings(dir.path())).unwrap();
}

#[test]
fn files_that_are_no_segments_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["notes.txt", "1.sbl", "0000000x.sbl", ".00000001.sbl.swp", "00000001.sbl.old"] {
        std::fs::write(dir.path().join(name), b"mine").unwrap();
    }
    std::fs::create_dir(dir.path().join("00000003.sbl")).unwrap();
    record(settings(dir.path()), slabs(&series(1, 3, Version::V1), 5000), &Arc::default());
    assert_eq!(read(dir.path()).0.len(), 5);
    assert_eq!(std::fs::read(dir.path().join("notes.txt")).unwrap(), b"mine");
}

#[test]
fn the_oldest_segments_go_when_that_is_agreed_and_only_then() {
    let messages = series(1, 300, Version::V1);
    for retention in [Retention::Keep, Retention::RemoveOldest] {
        let dir = tempfile::tempdir().unwrap();
        let counters = Arc::new(RecordCounters::default());
        let settings = RecordSettings { most_bytes: Some(70_000), retention, ..settings(dir.path()) };
        let slabs = slabs(&messages, 5000);
        let expected: Vec<Parts> = slabs.iter().flat_map(parts_of).collect();
        assert!(record(settings, slabs, &counters) == expected);
        let on_disk: u64 = segment_files(dir.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(on_disk <= 70_000, "{on_disk}");
        let (held, report) = read(dir.path());
        let first = held[0].0 as usize;
        match retention {
            Retention::Keep => {
                assert_eq!((first, counters.removed_segments.get()), (0, 0));
                assert!(held.iter().all(|(number, parts)| expected[*number as usize] == *parts));
                assert_eq!(counters.not_saved.get(), (expected.len() - held.len()) as u64);
                assert_eq!(counters.durable.get(), held.len() as u64);
                // what is known to be missing lies in holes, but for the end
                let told = held.len() as u64 + report.not_saved;
                assert_eq!((report.missing, report.next_number), (0, Some(told)));
                let error = counters.last_error().unwrap();
                assert!(error.contains("expected at most 70000"), "{error}");
            }
            Retention::RemoveOldest => {
                assert!(counters.removed_segments.get() > 3 && first > 0);
                assert!(held == numbered(&expected)[first..]);
                assert_eq!((counters.not_saved.get(), counters.is_failing()), (0, false));
                assert_eq!(report.missing, 0);
            }
        }
    }
}

#[test]
fn no_quota_is_exceeded_by_a_byte() {
    let messages = series(1, 30, Version::V2);
    for most_bytes in (1100..9000).step_by(83) {
        let dir = tempfile::tempdir().unwrap();
        let counters = Arc::new(RecordCounters::default());
        let settings = RecordSettings {
            most_bytes: Some(most_bytes),
            segment_bytes: 3000,
            last_tries: Duration::ZERO,
            ..settings(dir.path())
        };
        record(settings, slabs(&messages, 2000), &counters);
        let on_disk: u64 = segment_files(dir.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(on_disk <= most_bytes, "{on_disk} of {most_bytes}");
        assert_eq!(counters.durable.get() + counters.not_saved.get(), messages.len() as u64);
        assert_eq!(read(dir.path()).0.len() as u64, counters.durable.get());
    }
}

#[test]
fn a_file_in_the_way_of_a_segment_is_passed_by() {
    let dir = tempfile::tempdir().unwrap();
    let log = RecordLog::open(settings(dir.path())).unwrap();
    std::fs::write(dir.path().join("00000000.sbl"), b"mine").unwrap();
    let (send, slabs_in) = bounded(4);
    let (spent, _spent) = bounded(4);
    let (stage, received) = RecordStage::new(Received { slabs: slabs_in, spent }, log, Arc::default());
    std::thread::scope(|scope| {
        scope.spawn(|| stage.run());
        scope.spawn(move || {
            slabs(&series(1, 3, Version::V1), 5000).into_iter().for_each(|slab| send.send(slab).unwrap());
        });
        received.slabs.iter().for_each(drop);
    });
    assert_eq!(read(dir.path()).0.len(), 5);
    assert_eq!(std::fs::read(dir.path().join("00000000.sbl")).unwrap(), b"mine");
}

#[test]
fn behind_the_last_number_there_is_nothing_is_saved_and_nothing_harmed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("18446744073709551615.sbl"), b"mine").unwrap();
    let counters = Arc::new(RecordCounters::default());
    let quota = RecordSettings { most_bytes: Some(1 << 20), ..settings(dir.path()) };
    let slabs = slabs(&series(1, 3, Version::V1), 5000);
    let expected: Vec<Parts> = slabs.iter().flat_map(parts_of).collect();
    assert!(record(quota, slabs, &counters) == expected);
    assert_eq!((counters.not_saved.get(), counters.durable.get()), (5, 0));
    assert_eq!(segment_files(dir.path()).len(), 1);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let settings = RecordSettings { segment_bytes: 1023, ..settings(dir.path()) };
    let refused = RecordLog::open(settings).unwrap_err().to_string();
    assert_eq!(refused, "segment bytes: got 1023, expected at least 1024 bytes");
}
