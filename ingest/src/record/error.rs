//! What writing or reading a log can fail with.

use std::path::{Path, PathBuf};

use crate::filewriter::FilewriterError;

/// Why a log cannot be written, or not be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Somebody else writes into the folder.
    #[error("{}: another recorder writes into this folder", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds as much as it may.
    #[error("{}: the log holds {got_bytes} bytes, expected at most {expected_bytes} with the next message of {next_bytes}", folder.display())]
    Quota {
        /// The folder.
        folder: PathBuf,
        /// Bytes of all its segments.
        got_bytes: u64,
        /// Bytes that the next message takes.
        next_bytes: u64,
        /// The quota.
        expected_bytes: u64,
    },
    /// There is no sound record at the place.
    #[error("segment {segment}, offset {offset}: {why}")]
    Damaged {
        /// Number of the segment.
        segment: u64,
        /// Offset in its file.
        offset: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The log has no such series, or none of its frames can be stored.
    #[error("series {series}: {why}")]
    Series {
        /// The number of the series.
        series: u64,
        /// What is missing.
        why: String,
    },
    /// The files could not be written.
    #[error(transparent)]
    Filewriter(#[from] FilewriterError),
    /// A setting that no recorder can have.
    #[error("{what}: got {got}, expected {expected}")]
    BadSetting {
        /// The setting.
        what: &'static str,
        /// The value given.
        got: String,
        /// The values allowed.
        expected: &'static str,
    },
    /// The stop flag was raised while the log was read.
    #[error("stopped on request")]
    Stopped,
    /// The operating system refused.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
}

impl RecordError {
    /// Whether a file of the name is there already.
    pub(super) fn is_in_the_way(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists)
    }
}

/// Says what was attempted on which file.
pub(super) fn io(doing: &'static str, path: &Path) -> impl Fn(std::io::Error) -> RecordError {
    move |source| RecordError::Io { doing, path: path.to_path_buf(), source }
}
