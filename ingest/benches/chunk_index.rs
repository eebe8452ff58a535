//! How long it takes to open a file set and know where every frame lies, beside h5py, warm.
//!
//! A set of 262,144 tiny frames is written twice, 1,000 images a file and all in one. First every location must be that of
//! the bytes that were written. Then rounds follow, each reader once a round in turn; only ratios within a round are to be
//! trusted on a shared machine. With `SIDEBAND_PYTHON` set, its h5py is measured as well. `--check` times nothing.

#[path = "chunk_index/h5py.rs"]
mod h5py;

use std::path::{Path, PathBuf};
use std::time::Instant;

use h5py::H5py;
use ingest::dectris::FileSet;
use ingest::filewriter::{Existing, FilewriterSet, FilewriterSettings, MasterMetadata};
use kernels::bslz4_decode::Encoding;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{CountType, DetectorShape};

const FRAMES: u64 = 512 * 512;
const IMAGES_PER_FILE: [u64; 2] = [1_000, FRAMES];
const DETECTOR: DetectorShape = DetectorShape { rows: 4, cols: 8 };
const ROUNDS: usize = 15;

/// Frames with different lengths, `frame % KINDS` after another.
const KINDS: u64 = 251;

fn main() {
    let check_only = std::env::args().any(|argument| argument == "--check");
    let chunks = chunks();
    let folder = tempfile::tempdir().expect("a temporary folder");
    for images_per_file in IMAGES_PER_FILE {
        let master = write(folder.path(), images_per_file, &chunks);
        let located = check(&master, &chunks);
        let num_files = FRAMES.div_ceil(images_per_file);
        println!("{FRAMES} frames in {num_files} data files: all locations are right");
        let mut peer = H5py::start(&master);
        if let Some(peer) = &mut peer {
            assert_eq!(peer.ask().1, located, "h5py finds other locations");
            println!("h5py finds the same");
        }
        if !check_only {
            measure(&master, peer.as_mut());
        }
    }
}

/// Compressed frames, `KINDS` of them.
fn chunks() -> Vec<Vec<u8>> {
    (0..KINDS)
        .map(|kind| {
            let counts: Vec<u16> = (0..DETECTOR.pixels() as u64)
                .map(|pixel| (pixel * kind * kind % 97 / (1 + kind % 5)) as u16)
                .collect();
            let mut chunk = Vec::new();
            encode_bslz4(&counts, &mut chunk);
            chunk
        })
        .collect()
}

fn write(folder: &Path, images_per_file: u64, chunks: &[Vec<u8>]) -> PathBuf {
    let settings = FilewriterSettings {
        name: format!("by_{images_per_file}"),
        detector: DETECTOR,
        count_type: CountType::U16,
        encoding: Encoding::Bslz4,
        images_per_file,
        existing: Existing::Refuse,
        metadata: MasterMetadata::default(),
    };
    let mut set = FilewriterSet::create(folder, settings).expect("a set is begun");
    for frame in 0..FRAMES {
        set.append_chunk(&chunks[(frame % KINDS) as usize]).expect("a frame is written");
    }
    set.finish().expect("the set is finished").master
}

/// Frames, and sums of their first bytes and of their lengths: the same of every reader.
type Located = (u64, u64, u64);

/// Compares the bytes at every location with those that were written.
fn check(master: &Path, chunks: &[Vec<u8>]) -> Located {
    let set = FileSet::open(master).expect("the set opens");
    assert!(set.files.iter().all(|file| file.problem.is_none()));
    let mut located = (0, 0, 0);
    for file in &set.files {
        assert_eq!(file.first, located.0, "files follow each other");
        let bytes = std::fs::read(&file.path).expect("a data file");
        for frame in &file.frames {
            let at = frame.offset as usize..(frame.offset + frame.bytes) as usize;
            assert_eq!(bytes[at], chunks[(located.0 % KINDS) as usize], "frame {}", located.0);
            located = (located.0 + 1, located.1 + frame.offset, located.2 + frame.bytes);
        }
    }
    assert_eq!(located.0, FRAMES);
    located
}

fn measure(master: &Path, mut peer: Option<&mut H5py>) {
    let mut secs = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let set = FileSet::open(master).expect("the set opens");
        assert_eq!(std::hint::black_box(&set).frames_present(), FRAMES);
        secs[0].push(start.elapsed().as_secs_f64());
        secs[1].extend(peer.as_mut().map(|peer| peer.ask().0));
    }
    println!("\n| reader | ms | best ms | frames/s | time of sideband x |");
    println!("|---|---|---|---|---|");
    for (name, times) in ["sideband", "h5py"].into_iter().zip(&secs) {
        if times.is_empty() {
            println!("| {name} | not run | | | |");
            continue;
        }
        let (middle, best) = (median(times.iter().copied()), times.iter().copied().fold(f64::MAX, f64::min));
        let ratio = median(times.iter().zip(&secs[0]).map(|(peer, own)| peer / own));
        println!(
            "| {name} | {:.1} | {:.1} | {:.2e} | {ratio:.2} |",
            middle * 1e3,
            best * 1e3,
            FRAMES as f64 / middle
        );
    }
    println!();
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
