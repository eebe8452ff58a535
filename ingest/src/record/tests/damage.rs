//! Files that were cut short, changed or never finished.

use std::path::{Path, PathBuf};

use super::*;

/// A log of one segment and the offsets of its records.
fn log_of(num_images: u64) -> (tempfile::TempDir, PathBuf, Vec<(u64, Parts)>, Vec<Place>) {
    let dir = tempfile::tempdir().unwrap();
    let settings = RecordSettings { segment_bytes: 1 << 30, ..settings(dir.path()) };
    record(settings, slabs(&series(1, num_images, Version::V1), 10_000), &Arc::default());
    let (messages, _) = read(dir.path());
    let mut reader = LogReader::open(dir.path()).unwrap();
    let mut places = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        places.push(record.place);
    }
    let [file] = segment_files(dir.path()).try_into().unwrap();
    (dir, file, messages, places)
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn a_tail_torn_at_any_byte_leaves_all_before_it_and_recording_goes_on() {
    let (dir, file, messages, places) = log_of(10);
    let bytes = std::fs::read(&file).unwrap();
    let third_last = places[places.len() - 3].offset as usize;
    for len in third_last..bytes.len() {
        std::fs::write(&file, &bytes[..len]).unwrap();
        let whole = places.iter().filter(|place| place.offset + place.bytes <= len as u64).count();
        let (held, report) = read(dir.path());
        assert!(held == messages[..whole], "{len}");
        let torn = len as u64 - places.get(whole).map_or(0, |place| place.offset);
        match report.damages.as_slice() {
            [] => assert_eq!(torn, 0),
            [damage] => {
                assert!(damage.is_tail && torn > 0);
                assert_eq!((damage.offset, damage.bytes), (places[whole].offset, torn));
            }
            other => panic!("{len}: {other:?}"),
        }
        assert_eq!(report.next_number, Some(whole as u64));
        if len % 97 == 0 {
            let log = RecordLog::open(settings(dir.path())).unwrap();
            assert_eq!((log.next_record, log.next_segment), (whole as u64, 1));
            assert_eq!(log.recovered().damages.len(), usize::from(torn > 0));
        }
    }
}

#[test]
fn what_follows_a_torn_segment_is_numbered_behind_it() {
    let (dir, file, messages, places) = log_of(10);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..places[7].offset as usize + 100]).unwrap();
    record(settings(dir.path()), slabs(&series(2, 3, Version::V2), 10_000), &Arc::default());
    let (held, report) = read(dir.path());
    assert!(held[..7] == messages[..7]);
    let numbers: Vec<u64> = held.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..12).collect::<Vec<_>>());
    assert_eq!((report.num_damages, report.missing, report.damages[0].is_tail), (1, 0, true));
}

/// Reads a changed log: what comes must be records of `messages` as they were, in order, and what is lost is reported.
fn only_sound_records(folder: &Path, messages: &[(u64, Parts)], what: &str) -> usize {
    let (held, report) = read(folder);
    let mut rest = messages.iter();
    for message in &held {
        assert!(rest.any(|expected| expected == message), "{what}: {} is not as it was", message.0);
    }
    if held.len() < messages.len() {
        assert!(report.num_damages > 0, "{what}: {} lost without a word", messages.len() - held.len());
    }
    messages.len() - held.len()
}

#[test]
fn a_flipped_bit_loses_one_record_and_says_where() {
    let (dir, file, messages, places) = log_of(20);
    let bytes = std::fs::read(&file).unwrap();
    let mut seed = 0x5eed;
    let (mut lost, mut changed) = (0, bytes.clone());
    for round in 0..5000 {
        let at = random(&mut seed) as usize % bytes.len();
        changed[at] ^= 1 << (random(&mut seed) % 8);
        std::fs::write(&file, &changed).unwrap();
        let (held, report) = read(dir.path());
        let hit =
            places.iter().position(|place| (place.offset..place.offset + place.bytes).contains(&(at as u64)));
        let expected: Vec<_> = messages
            .iter()
            .enumerate()
            .filter(|&(index, _)| Some(index) != hit)
            .map(|(_, kept)| kept)
            .collect();
        assert!(held.iter().eq(expected), "round {round}, byte {at}");
        let [damage] = report.damages.as_slice() else { panic!("{at}: {:?}", report.damages) };
        match hit {
            Some(hit) => {
                assert_eq!((damage.offset, damage.bytes), (places[hit].offset, places[hit].bytes));
                assert_eq!(report.missing, u64::from(hit + 1 < places.len()));
                lost += 1;
            }
            None => assert_eq!((damage.offset, damage.bytes), (0, 64)),
        }
        changed[at] = bytes[at];
    }
    assert!(lost > 4000);
}

#[test]
fn many_changes_cuts_and_repeats_leave_sound_records_alone() {
    let (dir, file, messages, _) = log_of(20);
    let bytes = std::fs::read(&file).unwrap();
    let (mut seed, mut lost) = (0xfeed, 0);
    for round in 0..2000 {
        let mut changed = bytes.clone();
        for _ in 0..1 + random(&mut seed) % 5 {
            let at = random(&mut seed) as usize % changed.len();
            let until = changed.len().min(at + random(&mut seed) as usize % 300);
            match random(&mut seed) % 4 {
                0 => changed[at] ^= 1 << (random(&mut seed) % 8),
                1 => drop(changed.drain(at..until)),
                2 => changed[at..until].fill(0),
                _ => drop(changed.splice(at..at, bytes[..until - at].to_vec())),
            }
        }
        std::fs::write(&file, &changed).unwrap();
        lost += only_sound_records(dir.path(), &messages, &format!("round {round}"));
    }
    assert!(lost > 2000, "{lost}");
}

#[test]
fn a_length_that_no_file_holds_takes_no_memory() {
    let (dir, file, messages, places) = log_of(4);
    let mut bytes = std::fs::read(&file).unwrap();
    let at = places[2].offset as usize;
    let head = format::Head::parse(bytes[at..at + 64].first_chunk().unwrap(), 0).unwrap();
    for payload_bytes in [head.payload_bytes + 100_000, 1 << 29, MOST_RECORD_BYTES, u64::MAX - 63, u64::MAX] {
        let forged = format::Head { payload_bytes, ..head }.to_bytes();
        bytes[at..at + 64].copy_from_slice(&forged);
        std::fs::write(&file, &bytes).unwrap();
        let (held, report) = read(dir.path());
        assert_eq!((held.len(), report.num_damages, report.missing), (messages.len() - 1, 1, 1));
    }
}

#[test]
fn segments_that_were_only_just_begun_are_no_obstacle() {
    for len in [0, 1, 63] {
        let (dir, file, messages, _) = log_of(4);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(dir.path().join("00000001.sbl"), &bytes[..len]).unwrap();
        // an empty one that is the newest was begun a moment ago
        assert_eq!(read(dir.path()).1.num_damages, u64::from(len > 0));
        let log = RecordLog::open(settings(dir.path())).unwrap();
        assert_eq!((log.next_segment, log.next_record), (2, messages.len() as u64));
        drop(log);
        record(settings(dir.path()), slabs(&series(2, 3, Version::V2), 10_000), &Arc::default());
        let (held, report) = read(dir.path());
        assert_eq!((held.len(), report.missing), (messages.len() + 5, 0));
        let [damage] = &report.damages[..] else { panic!("{:?}", report.damages) };
        assert_eq!((damage.segment, damage.bytes, damage.is_tail), (1, len as u64, true));
        assert_eq!(damage.why, "the segment ends before its header does");
    }
}

#[test]
fn a_segment_without_its_header_is_read_and_reported() {
    let (dir, file, messages, _) = log_of(20);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[64..]).unwrap();
    let (held, report) = read(dir.path());
    assert_eq!((held, report.num_damages), (messages, 1));
}

/// A record whose kind was changed to that of a hole, its checksums made sound again, was passed over without a word: its
/// payload is no hole's, and nothing was noted.
#[test]
fn the_mark_of_a_hole_that_is_none_is_reported() {
    let (dir, file, messages, places) = log_of(4);
    let mut bytes = std::fs::read(&file).unwrap();
    let at = places[2].offset as usize;
    let head = format::Head::parse(bytes[at..at + 64].first_chunk().unwrap(), 0).unwrap();
    let forged = format::Head { kind: RecordKind::Hole, ..head }.to_bytes();
    bytes[at..at + 64].copy_from_slice(&forged);
    std::fs::write(&file, &bytes).unwrap();
    let (held, report) = read(dir.path());
    assert_eq!((held.len(), report.num_damages, report.missing), (messages.len() - 1, 1, 1));
    let damage = &report.damages[0];
    assert_eq!((damage.offset, damage.bytes), (places[2].offset, places[2].bytes));
}
