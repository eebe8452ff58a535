//! What other programs do to a set: files replaced, grown, moved behind links, or no files at all.

use std::io::Write;
use std::time::Duration;

use super::*;

/// Nothing but the frames 10..20 is missing, because their file changed.
fn expect_second_file_changed(set: &FileSet) {
    let (found, gaps) = delivered(set);
    assert_eq!(found.len(), 37);
    expect_frames(&found, 10..20);
    assert!(gaps.iter().all(|gap| gap.reason.to_string().contains(CHANGED)), "{gaps:?}");
}

#[test]
fn a_data_file_replaced_by_another_after_it_was_indexed_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 37);
    write(folder.path(), "b", 3, 37);
    let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
    std::fs::rename(folder.path().join("b_data_000002.h5"), &set.files[1].path).unwrap();
    expect_second_file_changed(&set);
}

#[test]
fn a_data_file_written_over_after_it_was_indexed_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 37);
    write(folder.path(), "b", 3, 37);
    let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
    let other = std::fs::read(folder.path().join("b_data_000002.h5")).unwrap();
    // Longer than the clock tick by which file systems tell one write from the next.
    std::thread::sleep(Duration::from_millis(50));
    let mut own = std::fs::OpenOptions::new().write(true).open(&set.files[1].path).unwrap();
    own.write_all(&other).unwrap();
    drop(own);
    expect_second_file_changed(&set);
}

#[test]
fn a_data_file_that_grew_after_it_was_indexed_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 37);
    let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
    let mut own = std::fs::OpenOptions::new().append(true).open(&set.files[1].path).unwrap();
    own.write_all(b"more").unwrap();
    drop(own);
    expect_second_file_changed(&set);
}

/// What opening says, within ten seconds; a pipe that nobody writes to would hold it for ever.
fn opened(master: &Path) -> Result<FileSet, IngestError> {
    let (answer, answered) = bounded(1);
    let master = master.to_path_buf();
    std::thread::spawn(move || answer.send(FileSet::open(&master)).is_ok());
    answered.recv_timeout(Duration::from_secs(10)).expect("opening hangs")
}

fn make_pipe(path: &Path) {
    let _ = std::fs::remove_file(path);
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_pipe_in_the_place_of_a_master_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let master = folder.path().join("a_master.h5");
    make_pipe(&master);
    let refused = opened(&master).unwrap_err();
    assert!(refused.to_string().contains("not a regular file"), "{refused}");
}

#[test]
fn a_pipe_in_the_place_of_a_data_file_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 37);
    make_pipe(&folder.path().join("a_data_000002.h5"));
    let set = opened(&folder.path().join("a_master.h5")).unwrap();
    assert_eq!(set.files[1].problem.as_deref(), Some("not a regular file"));
    expect_frames(&delivered(&set).0, 10..20);
}

#[test]
fn a_pipe_in_the_place_of_an_indexed_data_file_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 37);
    let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
    make_pipe(&set.files[1].path);
    let (answer, answered) = bounded(1);
    std::thread::spawn(move || answer.send(delivered(&set)));
    let (found, gaps) = answered.recv_timeout(Duration::from_secs(10)).expect("reading hangs");
    expect_frames(&found, 10..20);
    assert!(gaps[0].reason.to_string().contains("not a regular file"), "{gaps:?}");
}

#[test]
fn a_pipe_in_the_place_of_a_side_car_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 1, 5);
    make_pipe(&folder.path().join("a.h5"));
    let set = opened(&folder.path().join("a_master.h5")).unwrap();
    let problem = set.side_cars.first().and_then(|side_car| side_car.problem.as_deref());
    assert!(problem.is_some_and(|problem| problem.contains("not a regular file")), "{:?}", set.side_cars);
}

#[test]
fn data_files_are_found_beside_the_file_that_a_link_to_a_master_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let [own, elsewhere] = ["set", "elsewhere"].map(|name| folder.path().join(name));
    std::fs::create_dir(&own).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    write(&own, "s", 1, 15);
    let link = elsewhere.join("link.h5");
    std::os::unix::fs::symlink("../set/s_master.h5", &link).unwrap();
    assert_eq!(FileSet::open(&link).unwrap().frames_present(), 15);
    // A file beside the link itself comes first, as in HDF5's own library.
    std::fs::copy(own.join("s_data_000001.h5"), elsewhere.join("s_data_000001.h5")).unwrap();
    assert_eq!(FileSet::open(&link).unwrap().files[0].path, elsewhere.join("s_data_000001.h5"));
}

#[test]
fn a_master_that_announces_fewer_frames_than_the_files_hold_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let settings = FilewriterSettings {
        name: "a".to_owned(),
        detector: DETECTOR,
        count_type: CountType::U16,
        encoding: Encoding::Bslz4,
        images_per_file: 10,
        existing: Existing::Refuse,
        // 15 images in triggers of 8: one whole trigger is announced.
        metadata: MasterMetadata { images_per_trigger: 8, ..MasterMetadata::default() },
    };
    let mut files = FilewriterSet::create(folder.path(), settings).unwrap();
    for n in 0..15 {
        let mut chunk = Vec::new();
        encode_bslz4(&frame(1, n), &mut chunk);
        files.append_chunk(&chunk).unwrap();
    }
    files.finish().unwrap();
    let set = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
    assert_eq!((set.frames_expected, set.frames_present()), (15, 15));
    let problems: Vec<_> = set.files.iter().filter_map(|file| file.problem.as_deref()).collect();
    assert_eq!(problems, ["the master announces 8 frames (nimages 8 x ntrigger 1), the data files hold 15"]);
    expect_frames(&delivered(&set).0, 0..0);
}
