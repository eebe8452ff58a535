//! The search for the next sound head, and its cost.

use super::*;

/// A segment of nothing but marks of records, none of which is one.
fn of_false_marks(marks: usize) -> (tempfile::TempDir, Open) {
    let dir = tempfile::tempdir().unwrap();
    let path = segment_path(dir.path(), 0);
    std::fs::write(&path, RECORD_MAGIC.repeat(marks)).unwrap();
    let window = Window::open(&path).unwrap();
    (dir, Open { number: 0, window, at: 0 })
}

/// Behind each false mark the reader asked for another 1 MiB: a segment of 8 MB took more than a minute.
#[test]
fn false_marks_of_records_cost_no_reading() {
    let (_dir, mut open) = of_false_marks(600_000);
    let len = open.window.len;
    assert_eq!(open.search(0, &AtomicBool::new(false)).unwrap(), len);
    // what a head may reach into is read twice
    let most = len + 64 * len.div_ceil(1 << 20);
    assert!(open.window.bytes_read <= most, "{} of {len}", open.window.bytes_read);
}

#[test]
fn a_search_ends_when_the_flag_is_raised() {
    let (_dir, mut open) = of_false_marks(100);
    let found = open.search(0, &AtomicBool::new(true));
    assert_eq!(found.unwrap_err().kind(), std::io::ErrorKind::Interrupted);
}
