//! Which file it was, and whether it still is: opening regular files alone, and telling one state of a file from another.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A file at one moment. Two that are equal hold the same bytes, as far as a file system tells.
///
/// A file written over in place keeps its number; its time of change tells. File systems advance that time by the tick of
/// a clock (milliseconds): of two changes within one tick the second cannot be told, unless it changes the size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileIdentity {
    /// The file system.
    pub device: u64,
    /// The file's number there.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// When its bytes were changed last: whole seconds since 1970 and nanoseconds.
    pub modified: (i64, i64),
}

impl FileIdentity {
    /// The identity of an open file now.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::from(&metadata))
    }
}

impl From<&Metadata> for FileIdentity {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// Opens a regular file for reading; anything else is refused at once: opening a pipe waits for a writer, and opening a
/// device can do anything.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, FileIdentity)> {
    regular(&std::fs::metadata(path)?)?;
    // What stands at the path can have changed meanwhile: opening waits for nobody, and what was opened is looked at again.
    // On a regular file the flag has no effect.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    regular(&metadata)?;
    Ok((file, FileIdentity::from(&metadata)))
}

fn regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}
