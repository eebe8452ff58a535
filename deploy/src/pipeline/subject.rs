//! What is acquired, wherever its frames come from: all that the pipeline has to know before the first of them.

use std::path::Path;

use ingest::dectris::FileSet;
use kernels::types::{CountType, DetectorShape};

use crate::report::{AcquiredWith, Input};

/// An acquisition, without its frames.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Frames it should have, received or not.
    pub frames_expected: u64,
    /// Shape of a frame.
    pub detector: DetectorShape,
    /// The type of the counts.
    pub count_type: CountType,
    /// Bytes its frames take as they are stored or sent; an estimate where it is not known beforehand.
    pub compressed_bytes: u64,
    /// The detector's own mask, 0 is good: its shape (rows, cols) and its values, `[det_row][det_col]`.
    pub pixel_mask: Option<([usize; 2], Vec<u32>)>,
    /// What is read, in the words of the report.
    pub input: Input,
    /// What is wrong with what is read, one sentence each.
    pub problems: Vec<String>,
}

impl Subject {
    /// A file set; `master` is its name as the user gave it.
    pub fn of_files(set: &FileSet, master: &Path) -> Self {
        Self {
            frames_expected: set.frames_expected,
            detector: set.detector,
            count_type: set.count_type,
            compressed_bytes: set.compressed_bytes(),
            pixel_mask: set.metadata.pixel_mask.clone(),
            input: input(set, master),
            problems: problems(set),
        }
    }
}

fn input(set: &FileSet, master: &Path) -> Input {
    let data_files = set.files.iter().filter(|file| file.frames_present() > 0).map(|file| file.path.clone());
    let side_cars = set.side_cars.iter().filter(|file| file.problem.is_none()).map(|file| file.path.clone());
    let said = &set.metadata;
    Input {
        master: master.to_owned(),
        // The folder one is in can be gone.
        master_absolute: std::path::absolute(master).unwrap_or_else(|_| master.to_owned()),
        acquisition: AcquiredWith {
            detector: said.description.clone(),
            serial: said.serial.clone(),
            date: said.date.clone(),
        },
        files: data_files.chain(side_cars).collect(),
        compressed_bytes: 0,
    }
}

/// What is wrong with the files, one sentence each.
fn problems(set: &FileSet) -> Vec<String> {
    let files = set.files.iter().filter_map(|file| Some((&file.path, file.problem.as_ref()?)));
    let side_cars = set.side_cars.iter().filter_map(|file| Some((&file.path, file.problem.as_ref()?)));
    let unreadable = set.metadata.unreadable.iter().map(|what| format!("cannot be read: {what}"));
    files
        .chain(side_cars)
        .map(|(path, problem)| format!("{}: {problem}", path.display()))
        .chain(unreadable)
        .collect()
}
