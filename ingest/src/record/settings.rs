//! Where and how to record.

use std::path::PathBuf;
use std::time::Duration;

use super::error::RecordError;

/// What becomes of the oldest segments when the quota is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// They stay: what comes now is not saved.
    Keep,
    /// The oldest finished segment is removed, with a word in the log of the program and a count.
    RemoveOldest,
}

/// Where and how to record.
#[derive(Clone, Debug)]
pub struct RecordSettings {
    /// The folder of the log; made when it is missing.
    pub folder: PathBuf,
    /// Bytes after which the next segment begins; below what the file system takes as one file.
    pub segment_bytes: u64,
    /// Most bytes that wait for the disk; what comes beyond is not saved.
    pub queue_bytes: u64,
    /// How long what is written may wait for its sync.
    pub sync_every: Duration,
    /// Bytes that may wait for their sync.
    pub sync_bytes: u64,
    /// Most bytes of all segments together; none where the disk is the limit.
    pub most_bytes: Option<u64>,
    /// What to do when they are reached.
    pub retention: Retention,
    /// How long a disk that fails is tried at the end of a recording before the rest is given up.
    pub last_tries: Duration,
}

impl RecordSettings {
    /// Segments of 1 GiB, 256 MiB waiting for the disk, a sync every 100 ms or 64 MiB, no quota, nothing removed.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            segment_bytes: 1 << 30,
            queue_bytes: 256 << 20,
            sync_every: Duration::from_millis(100),
            sync_bytes: 64 << 20,
            most_bytes: None,
            retention: Retention::Keep,
            last_tries: Duration::from_secs(2),
        }
    }

    pub(super) fn check(&self) -> Result<(), RecordError> {
        for (what, got) in [("segment bytes", self.segment_bytes), ("queue bytes", self.queue_bytes)] {
            if got < 1 << 10 {
                let expected = "at least 1024 bytes";
                return Err(RecordError::BadSetting { what, got: got.to_string(), expected });
            }
        }
        Ok(())
    }
}
