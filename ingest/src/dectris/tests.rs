mod outside_changes;

use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::bounded;
use kernels::Cpu;
use kernels::bslz4_decode::Encoding;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{CountBuffer, FrameBatch, Kilovolts};

use super::*;
use crate::counters::IngestCounters;
use crate::decode::DecodeStage;
use crate::filewriter::{Existing, FilewriterSet, FilewriterSettings, MasterMetadata};
use crate::sequence::SequenceStage;
use crate::source::FileSource;

const DETECTOR: DetectorShape = DetectorShape { rows: 8, cols: 16 };
const CHANGED: &str = "changed since its index was read";

/// Frame `n` of the test sets: small counts that differ from frame to frame and set to set.
fn frame(set: u16, n: u64) -> Vec<u16> {
    (0..DETECTOR.pixels() as u64).map(|pixel| set + ((pixel * 31 + n * 17) % 11) as u16).collect()
}

fn write(folder: &Path, name: &str, set: u16, frames: u64) {
    let mut pixel_mask = vec![0; DETECTOR.pixels()];
    pixel_mask[5] = 8;
    let settings = FilewriterSettings {
        name: name.to_owned(),
        detector: DETECTOR,
        count_type: CountType::U16,
        encoding: Encoding::Bslz4,
        images_per_file: 10,
        existing: Existing::Refuse,
        metadata: MasterMetadata { voltage: Kilovolts(200.0), pixel_mask, ..MasterMetadata::default() },
    };
    let mut files = FilewriterSet::create(folder, settings).unwrap();
    for n in 0..frames {
        let mut chunk = Vec::new();
        encode_bslz4(&frame(set, n), &mut chunk);
        files.append_chunk(&chunk).unwrap();
    }
    files.finish().unwrap();
}

/// Everything a set delivers through all three stages: None where a frame is missing, with the reasons.
fn delivered(set: &FileSet) -> (Vec<Option<Vec<u16>>>, Vec<Gap>) {
    let counters = Arc::new(IngestCounters::default());
    let (raw, raw_in) = bounded(2);
    let (ordered, ordered_in) = bounded(2);
    let (frames, frames_in) = bounded::<Item<FrameBatch<Cpu>>>(2);
    let source = FileSource::new(set.runs(), 2, Arc::default());
    let sequence = SequenceStage::new(set.frames_expected, counters.clone());
    let decode = DecodeStage::new(Cpu, counters);
    let mut found = Vec::new();
    let mut gaps = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || source.run(raw));
        scope.spawn(move || sequence.run(raw_in, ordered));
        scope.spawn(move || decode.run(ordered_in, frames).unwrap());
        for item in frames_in {
            match item {
                Item::Data(batch) => {
                    assert_eq!(batch.first, found.len() as u64);
                    let CountBuffer::U16(counts) = batch.counts else { panic!("u16 stays u16") };
                    found.extend(counts.chunks(DETECTOR.pixels()).map(|frame| Some(frame.to_vec())));
                }
                Item::Gap(gap) => {
                    assert_eq!(gap.first, found.len() as u64);
                    found.extend((0..gap.count).map(|_| None));
                    gaps.push(gap);
                }
            }
        }
    });
    (found, gaps)
}

fn expect_frames(found: &[Option<Vec<u16>>], missing: std::ops::Range<usize>) {
    for (n, frame_found) in found.iter().enumerate() {
        let expected = (!missing.contains(&n)).then(|| frame(1, n as u64));
        assert_eq!(*frame_found, expected, "frame {n}");
    }
}

#[test]
fn a_whole_set_delivers_every_frame() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 37);
    let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
    assert_eq!((set.frames_expected, set.frames_present(), set.files.len()), (37, 37, 4));
    assert_eq!(set.metadata.voltage(), Some(Kilovolts(200.0)));
    assert_eq!(set.metadata.masked_pixels(), Some(1));
    assert!(set.files.iter().all(|file| file.problem.is_none()), "{:?}", set.files);
    let (found, gaps) = delivered(&set);
    assert_eq!((found.len(), gaps.len()), (37, 0));
    expect_frames(&found, 0..0);
}

#[test]
fn a_missing_data_file_is_a_gap_of_its_frames_wherever_it_stands() {
    for (gone, missing) in [(1, 0..10), (2, 10..20), (4, 30..37)] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", 1, 37);
        std::fs::remove_file(folder.path().join(format!("a_data_00000{gone}.h5"))).unwrap();
        let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
        assert_eq!(set.frames_present(), 37 - missing.len() as u64);
        let (found, gaps) = delivered(&set);
        assert_eq!((found.len(), gaps.len()), (37, 1), "file {gone}");
        assert!(gaps[0].reason.to_string().contains("not found"), "{:?}", gaps[0]);
        expect_frames(&found, missing);
    }
}

#[test]
fn a_link_is_followed_by_the_name_it_has_not_by_a_computed_one() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 5);
    std::fs::rename(folder.path().join("a_master.h5"), folder.path().join("renamed by the user.h5")).unwrap();
    let set = FileSet::open(&folder.path().join("renamed by the user.h5")).unwrap();
    assert_eq!(set.frames_present(), 5);
}

#[test]
fn a_data_file_by_itself_can_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 20);
    let set = FileSet::open(&folder.path().join("a_data_000002.h5")).unwrap();
    let (found, gaps) = delivered(&set);
    let expected: Vec<_> = (10..20).map(|n| Some(frame(1, n))).collect();
    assert_eq!(found, [vec![None; 10], expected].concat());
    assert_eq!(gaps.len(), 1);
}

#[test]
fn a_master_without_any_data_file_says_so() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 5);
    std::fs::remove_file(folder.path().join("a_data_000001.h5")).unwrap();
    let refused = FileSet::open(&folder.path().join("a_master.h5")).unwrap_err();
    assert!(refused.to_string().contains("a_data_000001.h5: not found"), "{refused}");
}

#[test]
fn a_data_file_cut_short_after_it_was_indexed_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 37);
    let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
    let cut = set.files[1].frames[6].offset + 1;
    // Cut after it was opened, as by a hasty copy: what the index said of the file is no longer to be believed.
    std::fs::OpenOptions::new().write(true).open(&set.files[1].path).unwrap().set_len(cut).unwrap();
    let (found, gaps) = delivered(&set);
    expect_frames(&found, 10..20);
    assert!(gaps[0].reason.to_string().contains(CHANGED), "{:?}", gaps[0]);
    let again = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
    assert!(again.files[1].problem.is_some());
    expect_frames(&delivered(&again).0, 10..20);
}

#[test]
fn a_data_file_of_another_shape_is_refused_and_named_wherever_it_stands() {
    for foreign in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", 1, 20);
        let settings = FilewriterSettings {
            name: "b".to_owned(),
            detector: DetectorShape { rows: 16, cols: 8 },
            count_type: CountType::U16,
            encoding: Encoding::Bslz4,
            images_per_file: 10,
            existing: Existing::Refuse,
            metadata: MasterMetadata::default(),
        };
        let mut files = FilewriterSet::create(folder.path(), settings).unwrap();
        let mut chunk = Vec::new();
        encode_bslz4(&frame(1, 0), &mut chunk);
        (0..10).for_each(|_| files.append_chunk(&chunk).unwrap());
        files.finish().unwrap();
        let own = folder.path().join(format!("a_data_00000{foreign}.h5"));
        std::fs::rename(folder.path().join("b_data_000001.h5"), &own).unwrap();
        let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
        let refused = set.files.iter().find(|file| file.path == own).unwrap();
        let problem = refused.problem.as_deref().unwrap();
        assert!(problem.contains("16x8") && problem.contains("8x16"), "{problem}");
        expect_frames(&delivered(&set).0, if foreign == 1 { 0..10 } else { 10..20 });
    }
}

#[test]
fn data_files_swapped_within_a_set_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 30);
    let name = |n| folder.path().join(format!("a_data_00000{n}.h5"));
    std::fs::rename(name(1), folder.path().join("x")).unwrap();
    std::fs::rename(name(2), name(1)).unwrap();
    std::fs::rename(folder.path().join("x"), name(2)).unwrap();
    let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
    let (found, _) = delivered(&set);
    for (n, frame_found) in found.iter().enumerate().filter(|(_, frame_found)| frame_found.is_some()) {
        assert_eq!(*frame_found, Some(frame(1, n as u64)), "frame {n} holds another frame's counts");
    }
    assert!(set.files.iter().any(|file| file.problem.is_some()));
}

/// Where files of these link numbers, frames and first image numbers are put: the first frame of each.
fn places_of(files: &[(u64, u64, Option<u64>)], expected: Option<u64>) -> Vec<(u64, u64)> {
    let mut files: Vec<DataFile> = files
        .iter()
        .map(|&(link, num_frames, low)| {
            let mut file = DataFile::numbered(link, num_frames, low);
            file.problem = (num_frames == 0).then(|| "not found".to_owned());
            file
        })
        .collect();
    place(&mut files, expected);
    files.iter().map(|file| (file.first, file.num_frames)).collect()
}

#[test]
fn image_numbers_count_from_whatever_all_files_agree_on() {
    // three files of forty frames, the first of which may be gone, numbered from 0, 1 and `image_nr_start`
    for first in [0, 1, 1001] {
        let whole = [(1, 40, Some(first)), (2, 40, Some(first + 40)), (3, 40, Some(first + 80))];
        assert_eq!(places_of(&whole, Some(120)), [(0, 40), (40, 40), (80, 40)], "from {first}");
        let gone = [(1, 0, None), whole[1], whole[2]];
        assert_eq!(
            places_of(&gone, Some(120)),
            [(0, 40), (40, 40), (80, 40)],
            "from {first}, the first gone"
        );
        assert_eq!(places_of(&gone, None), [(0, 40), (40, 40), (80, 40)], "from {first}, nothing expected");
    }
    // only a last file, shorter than the others, is left
    for first in [0, 1] {
        let last = [(1, 0, None), (2, 0, None), (3, 10, Some(first + 80))];
        assert_eq!(places_of(&last, Some(90))[2], (80, 10), "from {first}");
    }
}

#[test]
fn a_link_that_the_master_has_lost_leaves_room_for_its_frames() {
    let files = [(1, 40, None), (3, 40, None), (5, 7, None)];
    assert_eq!(places_of(&files, None), [(0, 40), (80, 40), (160, 7)]);
    assert_eq!(places_of(&[(0, 40, None), (1, 40, None)], None), [(0, 40), (40, 40)]);
}

#[test]
fn files_swapped_before_they_were_linked_keep_their_images() {
    for first in [0, 1] {
        let swapped = [(1, 40, Some(first + 40)), (2, 40, Some(first)), (3, 40, Some(first + 80))];
        assert_eq!(places_of(&swapped, Some(120)), [(0, 40), (40, 40), (80, 40)], "from {first}");
    }
}

#[test]
fn a_file_behind_two_links_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 30);
    let name = |n| folder.path().join(format!("a_data_00000{n}.h5"));
    for double in [
        |from: &Path, to: &Path| std::os::unix::fs::symlink(from, to),
        |from: &Path, to: &Path| std::fs::hard_link(from, to),
    ] {
        std::fs::remove_file(name(2)).unwrap();
        double(&name(1), &name(2)).unwrap();
        let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
        let (found, gaps) = delivered(&set);
        expect_frames(&found, 10..20);
        assert!(gaps[0].reason.to_string().contains("the same file"), "{gaps:?}");
    }
}
