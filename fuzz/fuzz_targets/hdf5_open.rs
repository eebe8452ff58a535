//! Any bytes as an HDF5 file, read in every way there is: no panic, and memory and time bounded by the size of the file.
//!
//! Byte 0 chooses where the file comes from: the bytes behind it as they are, or a sound file of h5py with the changes that
//! those bytes say, four bytes a change. So the fuzzer starts inside structures that fit together, with no corpus to keep.

#![no_main]

#[path = "../../ingest/tests/damage/walk.rs"]
mod walk;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::LazyLock;

use ingest::dectris::FileSet;
use libfuzzer_sys::fuzz_target;

macro_rules! fixtures {
    ($($name:literal),*) => { [$(include_bytes!(concat!("../../ingest/tests/fixtures/", $name)).as_slice()),*] };
}

/// Old and new groups, heaps, attributes, and every kind of chunk index.
const FIXTURES: [&[u8]; 10] = fixtures!(
    "set_earliest_master.h5",
    "set_earliest_data_000001.h5",
    "set_latest_master.h5",
    "set_latest_data_000001.h5",
    "links_few.h5",
    "links_dense_latest.h5",
    "user_block.h5",
    "layouts_earliest.h5",
    "layouts_v110.h5",
    "layouts_latest.h5"
);

/// A file without a name, so that none stays behind, and the path of the process's own handle of it.
static CASE: LazyLock<(File, PathBuf)> = LazyLock::new(|| {
    // Memory rather than a disk where the system has it: a file is written for every case.
    let shared = PathBuf::from("/dev/shm");
    let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
    let path = folder.join(format!("sideband-fuzz-{}.h5", std::process::id()));
    let file = File::create(&path).expect("a file can be made");
    std::fs::remove_file(&path).expect("a file can be removed");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    (file, path)
});

fn edit(file: &mut Vec<u8>, [low, high, kind, value]: [u8; 4]) {
    if file.is_empty() {
        return;
    }
    let at = usize::from(u16::from_le_bytes([low, high])) % file.len();
    let put = |file: &mut Vec<u8>, at: usize, number: &[u8]| {
        let end = (at + number.len()).min(file.len());
        file[at..end].copy_from_slice(&number[..end - at]);
    };
    match kind % 7 {
        0 => file[at] ^= 1 << (value & 7),
        1 => file[at] = value,
        2 => file[at] = file[at].wrapping_add(value),
        // Where a number stands: none, its own place, the end of the file, a power of two.
        3 => {
            let number = match value % 4 {
                0 => u64::MAX,
                1 => at as u64,
                2 => file.len() as u64 - u64::from(value >> 2),
                _ => 1 << (value >> 2),
            };
            put(file, at, &number.to_le_bytes());
        }
        // A piece of the file in another place.
        4 => {
            let from = usize::from(value) * file.len() / 256;
            let piece = file[from..file.len().min(from + 32)].to_vec();
            put(file, at, &piece);
        }
        5 => {
            let piece = file[at..file.len().min(at + usize::from(value))].to_vec();
            file.splice(at..at, piece);
        }
        _ => file.truncate(file.len() - usize::from(value).min(file.len())),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let fixture = FIXTURES.get(usize::from(choice) % (FIXTURES.len() + 1));
    let file = match fixture {
        None => bytes.to_vec(),
        Some(sound) => {
            let mut file = sound.to_vec();
            let (changes, _) = bytes.as_chunks::<4>();
            changes.iter().take(64).for_each(|&change| edit(&mut file, change));
            file
        }
    };
    let (case, path) = &*CASE;
    case.set_len(0).and_then(|()| case.write_all_at(&file, 0)).expect("a file can be written");
    let answers = walk::walk(path);
    assert!(answers > 0 || fixture.is_none() || bytes.len() >= 4, "a sound file is not read");
    if let Ok(set) = FileSet::open(path) {
        let mut next = 0;
        for run in set.runs() {
            let (first, count) = match run {
                kernels::types::Item::Data(run) => (run.first, run.frames.len() as u64),
                kernels::types::Item::Gap(gap) => (gap.first, gap.count),
            };
            assert_eq!(first, next, "runs and gaps follow each other");
            next = first + count;
        }
        assert_eq!(next, set.frames_expected);
    }
});
