use std::io::Write;

use crossbeam_channel::bounded;

use super::*;

const DETECTOR: DetectorShape = DetectorShape { rows: 4, cols: 4 };

/// A file in which frame n is 16 + n % 3 bytes of value n, with `hole` bytes of 0xEE between frames.
fn file_of(frames: usize, hole: usize) -> (tempfile::NamedTempFile, Vec<StoredFrame>) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut stored = Vec::new();
    let mut offset = 0;
    for frame in 0..frames {
        let bytes = 16 + frame % 3;
        file.write_all(&vec![frame as u8; bytes]).unwrap();
        file.write_all(&vec![0xEE; hole]).unwrap();
        stored.push(StoredFrame { offset, bytes: bytes as u64 });
        offset += (bytes + hole) as u64;
    }
    file.flush().unwrap();
    (file, stored)
}

fn run_of(path: &std::path::Path, frames: Vec<StoredFrame>) -> StoredRun {
    StoredRun {
        first: 0,
        path: path.to_path_buf(),
        identity: std::fs::File::open(path).and_then(|file| FileIdentity::of(&file)).unwrap_or_default(),
        frames,
        encoding: Encoding::Raw,
        count_type: CountType::U8,
        detector: DETECTOR,
    }
}

/// Every frame's bytes, None where missing; checks the order.
fn delivered(runs: Vec<Item<StoredRun>>, readers: usize) -> Vec<Option<Vec<u8>>> {
    let (raw, raw_in) = bounded(2);
    let source = FileSource::new(runs, readers, Arc::default());
    let thread = std::thread::spawn(move || source.run(raw));
    let mut frames = Vec::new();
    for item in raw_in {
        match item {
            Item::Data(batch) => {
                assert_eq!(batch.first, frames.len() as u64);
                frames.extend(batch.frames().map(|bytes| Some(bytes.to_vec())));
            }
            Item::Gap(gap) => {
                assert_eq!(gap.first, frames.len() as u64);
                frames.extend((0..gap.count).map(|_| None));
            }
        }
    }
    thread.join().unwrap();
    frames
}

#[test]
fn every_frame_comes_once_and_in_order_whatever_the_number_of_readers() {
    for hole in [0, 7, 100_000] {
        let (file, stored) = file_of(150, hole);
        for readers in [1, 2, 5] {
            let frames = delivered(vec![Item::Data(run_of(file.path(), stored.clone()))], readers);
            assert_eq!(frames.len(), 150);
            for (n, bytes) in frames.iter().enumerate() {
                assert_eq!(bytes.as_deref(), Some(&*vec![n as u8; 16 + n % 3]));
            }
        }
    }
}

#[test]
fn frames_beyond_the_end_of_a_cut_file_are_gaps_and_the_others_come() {
    let (file, stored) = file_of(100, 0);
    let keep = stored[70].offset + 5;
    file.as_file().set_len(keep).unwrap();
    let frames = delivered(vec![Item::Data(run_of(file.path(), stored))], 2);
    assert!(frames[..70].iter().all(Option::is_some) && frames[70..].iter().all(Option::is_none));
    assert_eq!(frames.len(), 100);
}

#[test]
fn positions_that_cannot_be_are_gaps() {
    let (file, mut stored) = file_of(5, 0);
    stored[1] = StoredFrame { offset: u64::MAX - 3, bytes: 16 };
    stored[2].bytes = 0;
    stored[3].bytes = u64::MAX;
    let frames = delivered(vec![Item::Data(run_of(file.path(), stored))], 1);
    let missing: Vec<_> = frames.iter().map(Option::is_none).collect();
    assert_eq!(missing, [false, true, true, true, false]);
}

#[test]
fn a_file_that_is_not_there_is_a_gap_of_all_its_frames() {
    let stored = vec![StoredFrame { offset: 0, bytes: 16 }; 130];
    let frames = delivered(vec![Item::Data(run_of(std::path::Path::new("not there.h5"), stored))], 2);
    assert_eq!(frames, vec![None; 130]);
}

#[test]
fn a_receiver_that_leaves_ends_the_source() {
    let (file, stored) = file_of(1000, 0);
    let (raw, raw_in) = bounded(1);
    let source = FileSource::new(vec![Item::Data(run_of(file.path(), stored))], 2, Arc::default());
    let thread = std::thread::spawn(move || source.run(raw));
    assert!(raw_in.recv().is_ok());
    drop(raw_in);
    thread.join().unwrap();
}

#[test]
fn a_raised_stop_flag_ends_the_source_before_the_next_batch() {
    let (file, stored) = file_of(1000, 0);
    let (raw, raw_in) = bounded(1);
    let stop = Arc::new(AtomicBool::new(true));
    FileSource::new(vec![Item::Data(run_of(file.path(), stored))], 1, stop).run(raw);
    assert!(raw_in.recv().is_err());
}

#[test]
fn frames_of_a_file_written_over_while_a_reader_has_it_open_are_a_gap() {
    let (file, stored) = file_of(4, 0);
    let run = run_of(file.path(), stored);
    let mut files = OpenFiles::default();
    assert!(matches!(&read_batch(&mut files, &run, 0..2)[..], [Item::Data(_)]));
    // Longer than the clock tick by which file systems tell one write from the next.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mut other = std::fs::OpenOptions::new().write(true).open(file.path()).unwrap();
    other.write_all(&[0x55; 66]).unwrap();
    let read = read_batch(&mut files, &run, 2..4);
    let [Item::Gap(gap)] = &read[..] else { panic!("{} items, expected a gap", read.len()) };
    assert_eq!((gap.first, gap.count), (2, 2));
    assert!(gap.reason.to_string().contains("changed since its index was read"), "{gap:?}");
}
