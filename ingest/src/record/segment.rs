//! A segment that is being written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::{RecordError, io};
use super::folder::{segment_path, sync_folder};
use super::format::{SEGMENT_HEADER_BYTES, SegmentHeader};

/// An open segment; only whole records lie before its end.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// Bytes of the header and of the whole records.
    pub(super) end: u64,
    pub(super) path: PathBuf,
    file: File,
}

/// What became of bytes that were to be written.
pub(super) struct Written {
    /// Bytes that the system has taken.
    pub(super) bytes: u64,
    /// Why not all of them.
    pub(super) failure: Option<io::Error>,
}

impl Segment {
    /// Begins a segment and makes its name durable. One that cannot be begun leaves nothing behind.
    pub(super) fn create(folder: &Path, header: SegmentHeader) -> Result<Self, RecordError> {
        let path = segment_path(folder, header.segment);
        let file =
            OpenOptions::new().write(true).create_new(true).open(&path).map_err(io("creating", &path))?;
        let begun = (|| {
            file.write_all_at(&header.to_bytes(), 0).map_err(io("writing", &path))?;
            file.sync_data().map_err(io("syncing", &path))?;
            sync_folder(folder)
        })();
        match begun {
            Ok(()) => Ok(Self { number: header.segment, end: SEGMENT_HEADER_BYTES as u64, path, file }),
            Err(error) => {
                // where it cannot be removed, it is a segment without a header, and reading says so
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Whether a record has been written.
    pub(super) fn has_records(&self) -> bool {
        self.end > SEGMENT_HEADER_BYTES as u64
    }

    /// Writes behind the end, which stays where it is.
    pub(super) fn write(&self, bytes: &[u8]) -> Written {
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write_at(&bytes[written..], self.end + written as u64) {
                Ok(0) => {
                    let failure = Some(io::ErrorKind::WriteZero.into());
                    return Written { bytes: written as u64, failure };
                }
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Written { bytes: written as u64, failure: Some(error) },
            }
        }
        Written { bytes: written as u64, failure: None }
    }

    /// Moves the end behind whole records.
    pub(super) fn accept(&mut self, bytes: u64) {
        self.end += bytes;
    }

    /// Takes what lies behind the end away. Where that fails, the next record is written over it.
    pub(super) fn cut_off_rest(&self) {
        if let Err(error) = self.file.set_len(self.end) {
            tracing::warn!("{}: part of a record stays behind its end: {error}", self.path.display());
        }
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self) -> Result<(), RecordError> {
        self.file.sync_data().map_err(io("syncing", &self.path))
    }
}
