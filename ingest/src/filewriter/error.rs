//! What writing a set of files can fail with.

use std::path::PathBuf;

/// Why a set was not written.
#[derive(Debug, thiserror::Error)]
pub enum FilewriterError {
    /// A set of this name is there already and may not be replaced.
    #[error("{} exists already; give another name or allow it to be overwritten", path.display())]
    Exists {
        /// The file that is in the way.
        path: PathBuf,
    },
    /// A name that cannot be the start of a file name.
    #[error("got set name '{got}', expected a file name without folders, not empty, at most 200 bytes")]
    BadName {
        /// The name given.
        got: String,
    },
    /// A setting that no detector has.
    #[error("{what}: got {got}, expected {expected}")]
    BadSetting {
        /// The setting.
        what: &'static str,
        /// The value given.
        got: String,
        /// The values allowed.
        expected: String,
    },
    /// A compressed image that is no bitshuffle/LZ4 chunk of this detector.
    #[error(
        "image {image}: the chunk ({got_bytes} bytes) announces {got_total} bytes of counts, expected {expected_total}"
    )]
    WrongChunk {
        /// Number of the image, from 1.
        image: u64,
        /// Bytes of the chunk.
        got_bytes: usize,
        /// Uncompressed bytes its header announces, 0 when it has no header.
        got_total: u64,
        /// Uncompressed bytes of an image.
        expected_total: u64,
    },
    /// `finish` before the first image.
    #[error("the set {name} has no image, expected at least one")]
    Empty {
        /// Name of the set.
        name: String,
    },
    /// A structure that the file format cannot hold.
    #[error("{what}: got {got} bytes, the format holds at most {limit}")]
    TooLarge {
        /// The structure.
        what: String,
        /// Its size.
        got: usize,
        /// The largest possible size.
        limit: usize,
    },
    /// The operating system refused.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
}
