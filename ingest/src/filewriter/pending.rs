//! A file that gets its name only when it is whole.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::FilewriterError;
use super::object::{Metadata, Node, SUPERBLOCK_BYTES, superblock};

/// An HDF5 file under a temporary name, `.NAME.partial` beside the final one. Dropped unfinished, it is removed;
/// killed unfinished, it stays behind without a superblock, so that nothing takes it for a file.
#[derive(Debug)]
pub(super) struct PendingFile {
    file: BufWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
    /// Bytes written.
    end: u64,
    keep: bool,
}

impl PendingFile {
    /// Starts the file that will be called `path`.
    pub(super) fn create(path: PathBuf) -> Result<Self, FilewriterError> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let temporary = path.with_file_name(format!(".{name}.partial"));
        let file = File::create(&temporary).map_err(io("creating", &temporary))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        let mut pending = Self { file, temporary, path, end: 0, keep: false };
        pending.append(&[0; SUPERBLOCK_BYTES])?;
        Ok(pending)
    }

    /// Appends raw bytes; returns their address.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<u64, FilewriterError> {
        self.file.write_all(bytes).map_err(io("writing", &self.temporary))?;
        let address = self.end;
        self.end += bytes.len() as u64;
        Ok(address)
    }

    /// Empty metadata that will lie behind all that was appended so far.
    pub(super) fn metadata(&self) -> Metadata {
        Metadata::at(self.end.next_multiple_of(8))
    }

    /// Writes the metadata with `root` as the root group, then the superblock, and syncs. The name stays temporary.
    pub(super) fn complete(
        mut self,
        mut metadata: Metadata,
        root: &Node,
    ) -> Result<CompleteFile, FilewriterError> {
        let root = root.place(&mut metadata)?;
        let (bytes, end) = metadata.finish();
        self.append(&[0; 8][..(self.end.next_multiple_of(8) - self.end) as usize])?;
        self.append(&bytes)?;
        let failed = io("writing", &self.temporary);
        self.file.flush().map_err(&failed)?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(0)).map_err(&failed)?;
        file.write_all(&superblock(root, end)).map_err(&failed)?;
        file.sync_all().map_err(&failed)?;
        Ok(CompleteFile { pending: self, bytes: end })
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.keep {
            // Nobody is left to tell: a file that stays is named .partial and is overwritten by the next attempt.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// A whole, synced file that waits for its name.
#[derive(Debug)]
pub(super) struct CompleteFile {
    pending: PendingFile,
    /// Size of the file.
    pub(super) bytes: u64,
}

impl CompleteFile {
    /// Gives the file its name, in place of one that has it.
    pub(super) fn publish(mut self) -> Result<PathBuf, FilewriterError> {
        std::fs::rename(&self.pending.temporary, &self.pending.path)
            .map_err(io("naming", &self.pending.path))?;
        self.pending.keep = true;
        Ok(self.pending.path.clone())
    }
}

/// Makes the names in `folder` durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), FilewriterError> {
    #[cfg(unix)]
    File::open(folder).and_then(|opened| opened.sync_all()).map_err(io("syncing", folder))?;
    Ok(())
}

/// Turns the system's error into ours.
pub(super) fn io(doing: &'static str, path: &Path) -> impl Fn(std::io::Error) -> FilewriterError + use<> {
    let path = path.to_owned();
    move |source| FilewriterError::Io { doing, path: path.clone(), source }
}
