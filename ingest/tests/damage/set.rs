//! A set of files in a folder of its own, and what comes out of it through all three stages.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::unbounded;
use ingest::counters::IngestCounters;
use ingest::decode::DecodeStage;
use ingest::dectris::FileSet;
use ingest::sequence::SequenceStage;
use ingest::source::FileSource;
use kernels::Cpu;
use kernels::types::{CountBuffer, FrameBatch, Item};

/// Counts of a frame, widened; None where a gap stands.
pub type Delivered = Vec<Option<Vec<u32>>>;

/// A copy of a set that may be damaged.
pub struct Set {
    /// Removed with the set.
    _folder: tempfile::TempDir,
    pub master: PathBuf,
    /// Every file of the set with its sound bytes.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// For every file, which frame's bytes lie where, of frames of the acquisition.
    pub frame_bytes: Vec<Vec<(std::ops::Range<usize>, usize)>>,
    /// What the sound set delivers.
    pub sound: Delivered,
}

impl Set {
    /// Copies the files whose names begin with `name` and reads them once.
    pub fn copy(from: &Path, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let file_name = entry.file_name().into_string().unwrap();
            if file_name.starts_with(name) && file_name.ends_with(".h5") {
                let path = folder.path().join(&file_name);
                let bytes = std::fs::read(entry.path()).unwrap();
                std::fs::write(&path, &bytes).unwrap();
                files.push((path, bytes));
            }
        }
        files.sort();
        let master = folder.path().join(format!("{name}_master.h5"));
        let set = FileSet::open(&master).unwrap();
        let frame_bytes = files
            .iter()
            .map(|(path, _)| {
                let file = set.files.iter().find(|file| file.path == *path);
                file.map_or(Vec::new(), |file| {
                    let range = |at: usize| {
                        let frame = file.frames[at];
                        let start = frame.offset as usize;
                        (start..start + frame.bytes as usize, file.first as usize + at)
                    };
                    (0..file.frames.len()).map(range).collect()
                })
            })
            .collect();
        let sound = deliver(&set);
        assert!(sound.iter().all(Option::is_some), "the sound set has gaps");
        Self { _folder: folder, master, files, frame_bytes, sound }
    }

    /// Numbers of the files that hold frames, in their order.
    pub fn data_files(&self) -> Vec<usize> {
        (0..self.files.len()).filter(|&file| !self.frame_bytes[file].is_empty()).collect()
    }

    /// The frame whose bytes include a byte of a file.
    pub fn frame_at(&self, file: usize, byte: usize) -> Option<usize> {
        self.frame_bytes[file].iter().find(|(range, _)| range.contains(&byte)).map(|&(_, frame)| frame)
    }

    /// Writes other bytes for one file.
    pub fn damage(&self, file: usize, bytes: &[u8]) {
        overwrite(&self.files[file].0, bytes);
    }

    /// Puts the sound bytes of one file back.
    pub fn restore(&self, file: usize) {
        self.damage(file, &self.files[file].1);
    }

    /// Reads the set as it is now and compares it with the sound one.
    pub fn check(&self) -> Checked {
        let all = 0..self.sound.len();
        let set = match FileSet::open(&self.master) {
            Ok(set) => set,
            Err(error) => {
                let problems = vec![error.to_string()];
                return Checked { lost: all.collect(), wrong: Vec::new(), unmentioned: 0, problems };
            }
        };
        let delivered = deliver_until(&set, self.sound.len());
        let wrong =
            |&frame: &usize| delivered[frame].is_some() && Some(&delivered[frame]) != self.sound.get(frame);
        Checked {
            lost: all.filter(|&frame| delivered.get(frame).is_none_or(Option::is_none)).collect(),
            unmentioned: self.sound.len().saturating_sub(delivered.len()),
            wrong: (0..delivered.len()).filter(wrong).collect(),
            problems: set.files.into_iter().filter_map(|file| file.problem).collect(),
        }
    }
}

/// Writes a file over itself. Not emptied first: some file systems wait for the disk when a file that was is closed.
pub fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

/// What came of a damaged set.
#[derive(Debug)]
pub struct Checked {
    /// Frames that did not come, all of them when the set cannot be opened.
    pub lost: Vec<usize>,
    /// Of those, the ones that are not even a gap.
    pub unmentioned: usize,
    /// Frames delivered with other counts than they should have.
    pub wrong: Vec<usize>,
    /// What the set says is wrong with it.
    pub problems: Vec<String>,
}

/// Everything a set delivers.
pub fn deliver(set: &FileSet) -> Delivered {
    deliver_until(set, usize::try_from(set.frames_expected).unwrap())
}

/// Everything a set delivers; gaps behind `most` frames are not counted out one by one.
///
/// The stages run one after the other: thousands of sets are read, and starting threads would take most of the time.
fn deliver_until(set: &FileSet, most: usize) -> Delivered {
    let counters = Arc::new(IngestCounters::default());
    let (raw, raw_in) = unbounded();
    let (ordered, ordered_in) = unbounded();
    let (frames, frames_in) = unbounded::<Item<FrameBatch<Cpu>>>();
    FileSource::new(set.runs(), 1, Arc::default()).run(raw);
    SequenceStage::new(set.frames_expected, counters.clone()).run(raw_in, ordered);
    DecodeStage::new(Cpu, counters).run(ordered_in, frames).unwrap();
    let mut delivered = Vec::new();
    for item in frames_in {
        match item {
            Item::Data(batch) => {
                let pixels = batch.shape.detector.pixels();
                assert!(
                    delivered.len() as u64 == batch.first || delivered.len() >= most,
                    "frames out of order"
                );
                let counts: Vec<u32> = match batch.counts {
                    CountBuffer::U8(counts) => counts.into_iter().map(u32::from).collect(),
                    CountBuffer::U16(counts) => counts.into_iter().map(u32::from).collect(),
                    CountBuffer::U32(counts) => counts,
                };
                delivered.extend(counts.chunks(pixels).map(|frame| Some(frame.to_vec())));
            }
            Item::Gap(gap) => {
                let room = (most + 1).saturating_sub(delivered.len()) as u64;
                delivered.extend((0..gap.count.min(room)).map(|_| None));
            }
        }
    }
    delivered
}

/// Numbers that look random and are the same every time (SplitMix64; Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) % limit.max(1) as u64) as usize
    }
}
