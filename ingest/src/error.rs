//! What opening an acquisition can fail with.

use std::path::{Path, PathBuf};

use crate::hdf5::Hdf5Error;

/// Why an acquisition cannot be read at all. Single frames that cannot are gaps, not errors.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The file could not be read as HDF5.
    #[error("{}: {source}", path.display())]
    Hdf5 {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Hdf5Error,
    },
    /// No data file could be used.
    #[error("{}: none of its data files can be read: {problems}", master.display())]
    NoFrames {
        /// The master file.
        master: PathBuf,
        /// Each data file and what is wrong with it.
        problems: String,
    },
}

impl IngestError {
    pub(crate) fn hdf5(path: &Path, source: Hdf5Error) -> Self {
        Self::Hdf5 { path: path.to_path_buf(), source }
    }
}
