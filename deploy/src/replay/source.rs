//! What is replayed: a file set or a recording, and what a detector would say of it.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use ingest::dectris::{FileSet, Metadata};
use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};

use super::ReplaySettings;
use super::frames::Frames;
use super::recording::Recording;
use crate::open::open_set;

/// What every series of a replay is taken from.
#[derive(Debug)]
pub struct Source {
    /// What it is called when something is wrong with it.
    pub name: String,
    /// What a master says of it, or the start of a recording.
    pub metadata: Metadata,
    /// Shape of each frame.
    pub detector: DetectorShape,
    /// The type of its counts.
    pub count_type: CountType,
    /// How frames are compressed.
    pub encoding: Encoding,
    /// Frames of a series, those that are not there included.
    pub frames_expected: u64,
    /// Files that the filewriter of a detector would hand out.
    pub files: Vec<PathBuf>,
    /// Its frames.
    pub frames: Frames,
    /// The recording, where it is one.
    pub recording: Option<Arc<Recording>>,
}

impl Source {
    /// Opens a master file, or the folder of a recording.
    ///
    /// # Errors
    /// It cannot be opened, has no frame, or holds several series and none is named.
    pub fn open(settings: &ReplaySettings) -> anyhow::Result<Self> {
        if settings.source.is_dir() {
            return Self::of_recording(settings);
        }
        let set = open_set(&settings.source)?;
        let frames = Frames::of(&set)?;
        Ok(Self {
            name: set.master.display().to_string(),
            files: files(&set),
            metadata: set.metadata,
            detector: set.detector,
            count_type: set.count_type,
            encoding: set.encoding,
            frames_expected: set.frames_expected,
            frames,
            recording: None,
        })
    }

    fn of_recording(settings: &ReplaySettings) -> anyhow::Result<Self> {
        let (recording, metadata) = Recording::open(&settings.source, settings.log_series.as_deref())
            .with_context(|| settings.source.display().to_string())?;
        let recording = Arc::new(recording);
        Ok(Self {
            name: settings.source.display().to_string(),
            metadata,
            detector: recording.kind.detector,
            count_type: recording.kind.count_type,
            encoding: recording.kind.encoding,
            frames_expected: recording.num_frames,
            files: Vec::new(),
            frames: Frames::of_recording(Arc::clone(&recording)),
            recording: Some(recording),
        })
    }
}

/// The master of a set, and its data files.
fn files(set: &FileSet) -> Vec<PathBuf> {
    [&set.master].into_iter().chain(set.files.iter().map(|file| &file.path)).cloned().collect()
}
