//! A disk that is full: what happens beyond the limit that a process may write a file to is what happens on a full disk.
//! The limit is the whole process's: the test runs itself again as a child.

use std::process::Command;
use std::time::Instant;

use super::*;

const CHILD: &str = "SIDEBAND_TEST_FULL_DISK";

/// Runs a test of this file again in a process of its own, where `CHILD` is set.
fn in_a_child(test: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("record::tests::full::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Lets no file of this process grow beyond so many bytes.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: both calls read their arguments alone; ignoring a signal runs no code of ours.
    let failed = unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::setrlimit(libc::RLIMIT_FSIZE, &limit)
    };
    assert_eq!(failed, 0);
}

#[test]
fn a_disk_that_is_full_at_any_byte_harms_nothing_that_is_durable() {
    if !is_child() {
        return in_a_child("a_disk_that_is_full_at_any_byte_harms_nothing_that_is_durable");
    }
    let messages = series(1, 60, Version::V1);
    let mut seed = 0xd15c_u64;
    for round in 0..100 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let limit = (seed >> 33) % 60_000;
        let dir = tempfile::tempdir().unwrap();
        let counters = Arc::new(RecordCounters::default());
        let slabs = slabs(&messages, 4000);
        let expected: Vec<Parts> = slabs.iter().flat_map(parts_of).collect();
        let settings = RecordSettings {
            segment_bytes: 1 << 30,
            last_tries: Duration::from_millis(5),
            ..settings(dir.path())
        };
        limit_files(limit);
        let passed = record(settings, slabs, &counters);
        limit_files(libc::RLIM_INFINITY);
        assert!(passed == expected, "round {round}: the live way is held up");
        let (held, report) = read(dir.path());
        assert!(held.iter().all(|(number, parts)| expected[*number as usize] == *parts), "round {round}");
        let (durable, not_saved) = (counters.durable.get(), counters.not_saved.get());
        assert_eq!((durable, durable + not_saved), (held.len() as u64, expected.len() as u64));
        assert_eq!(report.num_damages, 0, "round {round}: {:?}", report.damages);
        if limit < 30_000 {
            assert!(not_saved > 0 && counters.failures.get() > 0, "round {round}");
            assert!(counters.last_error().unwrap().contains("File too large"), "{:?}", counters.last_error());
        }
    }
}

#[test]
fn a_disk_that_has_room_again_is_written_to_with_a_hole_for_what_is_lost() {
    if !is_child() {
        return in_a_child("a_disk_that_has_room_again_is_written_to_with_a_hole_for_what_is_lost");
    }
    let dir = tempfile::tempdir().unwrap();
    let counters = Arc::new(RecordCounters::default());
    let slabs = slabs(&series(1, 200, Version::V2), 4000);
    let expected: Vec<Parts> = slabs.iter().flat_map(parts_of).collect();
    let settings = RecordSettings { queue_bytes: 20_000, segment_bytes: 1 << 30, ..settings(dir.path()) };
    let log = RecordLog::open(settings).unwrap();
    let (send, slabs_in) = bounded(4);
    let (spent, _spent) = bounded(4);
    let (stage, received) = RecordStage::new(Received { slabs: slabs_in, spent }, log, counters.clone());
    let wait = |what: &str, until: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !until() {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    limit_files(10_000);
    let passed: Vec<Parts> = std::thread::scope(|scope| {
        scope.spawn(|| stage.run());
        let passed = scope.spawn(|| received.slabs.iter().flat_map(|slab| parts_of(&slab)).collect());
        let num_slabs = slabs.len();
        for (at, slab) in slabs.into_iter().enumerate() {
            if at == num_slabs - 5 {
                // everything has passed; the first are durable, and some are lost for good
                wait("the live way", &|| counters.received.get() > 150);
                wait("the limit", &|| counters.failures.get() > 0 && counters.not_saved.get() > 20);
                assert!(counters.is_failing());
                wait("durable", &|| counters.durable.get() == counters.written.get());
                assert!(counters.durable.get() > 5);
                limit_files(libc::RLIM_INFINITY);
                wait("the queue", &|| {
                    counters.written.get() + counters.not_saved.get() == counters.received.get()
                });
            }
            send.send(slab).unwrap();
        }
        drop(send);
        passed.join().unwrap()
    });
    assert!(passed == expected);
    let (held, report) = read(dir.path());
    assert!(held.iter().all(|(number, parts)| expected[*number as usize] == *parts));
    assert_eq!((report.num_damages, report.missing), (0, 0));
    assert!(!report.holes.is_empty());
    assert_eq!(report.next_number, Some(expected.len() as u64));
    assert_eq!(report.not_saved, counters.not_saved.get());
    assert_eq!(held.len() as u64 + report.not_saved, expected.len() as u64);
    for hole in &report.holes {
        assert!(held.iter().all(|(number, _)| !(hole.first..hole.first + hole.count).contains(number)));
        assert!(hole.from_nanos <= hole.until_nanos && hole.bytes > 0);
    }
    assert!(!counters.is_failing());
}
