//! Files cut short, with flipped bits, exchanged, mutated: no panic, and no frame whose counts are wrong without a gap or a problem named.
//!
//! Two kinds of damage no reader can see, because the format has nothing to see them by; here they are counted, exactly:
//! - HDF5 chunks carry no checksum. A bit flipped inside the compressed bytes of a frame may decode to other counts: LZ4
//!   notices a length or an offset that cannot be, not a literal byte or a shorter offset. It changes that one frame, no other.
//! - Data files do not say which acquisition they belong to. One with the same name, shape, type and image numbers is taken.
//!
//! `SIDEBAND_DAMAGE_SWEEP=20` flips twenty times as many bits and cuts at twenty times as many places.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

#[path = "damage/set.rs"]
mod set;
#[path = "damage/walk.rs"]
mod walk;

use std::path::{Path, PathBuf};

use set::{Random, Set, deliver, overwrite};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Writes past the capture of the test harness, which hides what `println!` prints in a test that passes.
fn not_run(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "not run: {why}");
}

fn goldens() -> Option<PathBuf> {
    let goldens = std::env::var_os("SIDEBAND_GOLDENS");
    if goldens.is_none() {
        not_run("SIDEBAND_GOLDENS is not set");
    }
    goldens.map(|folder| Path::new(&folder).join("sto-small"))
}

/// How many times the usual number of cases is tried.
fn sweep() -> usize {
    std::env::var("SIDEBAND_DAMAGE_SWEEP").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

const SETS: [&str; 2] = ["set_earliest", "set_latest"];

#[test]
fn a_set_of_h5py_delivers_the_counts_that_h5py_reads() {
    let text = std::fs::read_to_string(fixtures().join("expected_sets.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    for name in SETS {
        let set = Set::copy(&fixtures(), name);
        let weighted: Vec<u64> = set
            .sound
            .iter()
            .flatten()
            .map(|frame| frame.iter().zip(1u64..).map(|(&count, place)| u64::from(count) * place).sum())
            .collect();
        let expected: Vec<u64> =
            expected[name].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect();
        assert_eq!(weighted, expected, "{name}");
    }
}

/// Cuts every file of a set at `cuts` places.
fn cut(set: &Set, cuts: usize) {
    let mut came = 0;
    for file in 0..set.files.len() {
        let bytes = &set.files[file].1;
        for cut in 0..cuts {
            let keep = bytes.len() * (2 * cut + 1) / (2 * cuts);
            set.damage(file, &bytes[..keep]);
            let checked = set.check();
            assert_eq!(
                (checked.wrong.as_slice(), checked.unmentioned),
                (&[][..], 0),
                "{} cut at {keep}",
                set.files[file].0.display()
            );
            came += set.sound.len() - checked.lost.len();
        }
        set.restore(file);
    }
    let cuts = cuts * set.files.len();
    println!("{cuts} cuts: {came} of {} frames still came", cuts * set.sound.len());
}

#[test]
fn a_file_cut_short_anywhere_gives_gaps_and_no_wrong_frame() {
    for name in SETS {
        cut(&Set::copy(&fixtures(), name), 70 * sweep());
    }
}

#[test]
fn a_golden_file_cut_short_anywhere_gives_gaps_and_no_wrong_frame() {
    let Some(folder) = goldens() else { return };
    cut(&Set::copy(&folder, "sto-small"), 2 * sweep());
}

/// What flipped bits did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flips {
    /// In the structures of the files, and those after which nothing could be read.
    in_structures: usize,
    refused: usize,
    /// In the compressed bytes of a frame; those that made it a gap; those that changed its counts and nobody can tell.
    in_frames: usize,
    noticed: usize,
    unseen: usize,
}

/// Flips single bits, of which three in four lie outside the frames' bytes.
fn flip(set: &Set, flips: usize, seed: u64) -> Flips {
    let mut random = Random(seed);
    let mut found = Flips::default();
    for flip in 0..flips {
        let file = random.below(set.files.len());
        let mut bytes = set.files[file].1.clone();
        let mut byte = random.below(bytes.len());
        while (flip % 4 == 0) != set.frame_at(file, byte).is_some() {
            // The master has no frames: another byte of it.
            if flip % 4 == 0 && set.frame_bytes[file].is_empty() {
                break;
            }
            byte = random.below(bytes.len());
        }
        let bit = random.below(8);
        bytes[byte] ^= 1 << bit;
        set.damage(file, &bytes);
        let checked = set.check();
        set.restore(file);
        let place = format!("{} bit {bit} of byte {byte}", set.files[file].0.display());
        assert_eq!(checked.unmentioned, 0, "{place}: {checked:?}");
        match set.frame_at(file, byte) {
            None => {
                assert_eq!(checked.wrong, [0; 0], "{place}: {:?}", checked.problems);
                found.in_structures += 1;
                found.refused += usize::from(checked.lost.len() == set.sound.len());
            }
            Some(own) => {
                let mut touched = checked.wrong.iter().chain(&checked.lost);
                assert!(touched.all(|&frame| frame == own), "{place}, in frame {own}: {checked:?}");
                found.in_frames += 1;
                found.noticed += checked.lost.len();
                found.unseen += checked.wrong.len();
            }
        }
    }
    println!("{found:?}");
    found
}

/// Bits flipped in each set of fixtures.
const FLIPS: usize = 5_200;

#[test]
fn a_flipped_bit_changes_no_frame_but_the_one_whose_compressed_bytes_it_lies_in() {
    // The numbers stand in docs/src/explanation/checks.md as well.
    let expected = [
        Flips { in_structures: 4332, refused: 43, in_frames: 868, noticed: 378, unseen: 408 },
        Flips { in_structures: 4325, refused: 186, in_frames: 875, noticed: 358, unseen: 433 },
    ];
    for ((seed, name), expected) in SETS.into_iter().enumerate().zip(expected) {
        let found = flip(&Set::copy(&fixtures(), name), FLIPS * sweep(), seed as u64);
        assert!(sweep() > 1 || found == expected, "{name}: {found:?}, expected {expected:?}");
    }
}

#[test]
fn a_flipped_bit_in_a_golden_file_changes_no_frame_but_the_one_it_lies_in() {
    let Some(folder) = goldens() else { return };
    flip(&Set::copy(&folder, "sto-small"), 12 * sweep(), 99);
}

#[test]
fn swapped_data_files_of_one_set_come_in_the_order_of_their_image_numbers() {
    for name in SETS {
        let set = Set::copy(&fixtures(), name);
        let data = set.data_files();
        set.damage(data[0], &set.files[data[1]].1);
        set.damage(data[1], &set.files[data[0]].1);
        let checked = set.check();
        assert_eq!((checked.lost, checked.wrong), (vec![], vec![]));
        assert!(!checked.problems.is_empty(), "the swap is not mentioned");
    }
}

#[test]
fn any_file_in_the_place_of_a_data_file_gives_no_wrong_frame_without_a_word() {
    let mut strangers: Vec<(String, Vec<u8>)> = ["", "not HDF5 at all", "\u{89}HDF\r\n\u{1a}\n"]
        .map(|text| (format!("{text:?}"), text.as_bytes().to_vec()))
        .into();
    let folders = [Some(fixtures()), goldens()];
    for entry in folders.iter().flatten().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "h5") {
            strangers.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    let mut taken = Vec::new();
    for name in SETS {
        let set = Set::copy(&fixtures(), name);
        for file in set.data_files() {
            for (stranger, bytes) in strangers.iter().filter(|(_, bytes)| *bytes != set.files[file].1) {
                set.damage(file, bytes);
                let checked = set.check();
                assert_eq!(checked.unmentioned, 0, "{stranger} as file {file} of {name}");
                if !checked.wrong.is_empty() && checked.problems.is_empty() {
                    taken.push((file, stranger.rsplit('/').next().unwrap_or_default().to_owned()));
                } else {
                    assert_eq!(checked.wrong, [0; 0], "{stranger} as file {file} of {name}: {checked:?}");
                }
            }
            std::fs::remove_file(&set.files[file].0).unwrap();
            let checked = set.check();
            assert_eq!((checked.wrong.len(), checked.lost.len(), checked.unmentioned), (0, 12, 0));
            set.restore(file);
        }
    }
    // The same shape, type and image numbers: only these four, and nothing in them says whose they are.
    let expected = ["set_latest", "set_earliest"]
        .map(|other| [0, 1].map(|file| (file, format!("{other}_data_00000{}.h5", file + 1))));
    assert_eq!(taken, expected.concat());
}

#[test]
fn the_second_file_of_another_set_in_the_place_of_the_first_is_noticed() {
    // Both call themselves images 13 to 24: one of them must go, and no frame may stand in another's place.
    let (set, other) = (Set::copy(&fixtures(), SETS[0]), Set::copy(&fixtures(), SETS[1]));
    set.damage(0, &other.files[1].1);
    let opened = ingest::dectris::FileSet::open(&set.master).unwrap();
    assert!(opened.files.iter().any(|file| file.problem.is_some()), "{:?}", opened.files);
    let delivered = deliver(&opened);
    assert!(delivered[..12].iter().all(Option::is_none));
}

#[test]
fn files_with_many_changes_are_read_without_a_panic() {
    let mut random = Random(5);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mutated.h5");
    let mut answers = 0;
    let mut names: Vec<_> =
        std::fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|name| name.extension().is_some_and(|extension| extension == "h5"));
    names.sort();
    for name in &names {
        let sound = std::fs::read(name).unwrap();
        overwrite(&path, &sound);
        assert!(walk::walk(&path) > 4, "{} sound", name.display());
        for _ in 0..60 {
            let mut bytes = sound.clone();
            for _ in 0..1 + random.below(6) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
                    2 => {
                        // A piece of the file over another: structures of the right kind in the wrong place.
                        let from = random.below(bytes.len());
                        let len = random.below(64).min(bytes.len() - at).min(bytes.len() - from);
                        bytes.copy_within(from..from + len, at);
                    }
                    _ => bytes.truncate(at.max(64)),
                }
            }
            overwrite(&path, &bytes);
            answers += walk::walk(&path);
        }
    }
    assert!(answers > 10_000, "only {answers} questions were answered: the mutations reach nothing");
}
