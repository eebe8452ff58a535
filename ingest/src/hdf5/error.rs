//! What reading an HDF5 file can fail with.

use std::path::PathBuf;

/// Why an HDF5 file, or an object in it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Hdf5Error {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its words.
        source: std::io::Error,
    },
    /// The file is no HDF5 file.
    #[error("{}: not an HDF5 file: no superblock in {bytes} bytes", path.display())]
    NotHdf5 {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// An address or length points outside the file.
    #[error(
        "{what}: {bytes} bytes at {address} lie outside the file of {file_bytes} bytes (cut short or damaged)"
    )]
    Outside {
        /// What was to be read.
        what: &'static str,
        /// Where.
        address: u64,
        /// How much.
        bytes: u64,
        /// Length of the file.
        file_bytes: u64,
    },
    /// A structure is not what the format says.
    #[error("{what} at {address}: {why}")]
    Damaged {
        /// Which structure.
        what: &'static str,
        /// Where it was expected.
        address: u64,
        /// Got and expected.
        why: String,
    },
    /// The format allows it, this reader does not read it.
    #[error("{what} is not supported: {got}")]
    Unsupported {
        /// Which feature.
        what: &'static str,
        /// What the file has.
        got: String,
    },
    /// There is no such object.
    #[error("{path} not found: {why}")]
    NotFound {
        /// The path asked for.
        path: String,
        /// Which part is missing.
        why: String,
    },
}
