//! Which file it was, and whether it still is: opening regular files alone, and telling one state of a file from another.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
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
///
/// # Errors
/// What the operating system says; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn open_regular(path: &Path) -> io::Result<(File, FileIdentity)> {
    regular(&std::fs::metadata(path)?)?;
    // What stands at the path can have changed meanwhile: opening waits for nobody, and what was opened is looked at again.
    // On a regular file the flag has no effect.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    regular(&metadata)?;
    Ok((file, FileIdentity::from(&metadata)))
}

/// Reads a regular file that is expected to be small, whole.
///
/// # Errors
/// As [`open_regular`]; [`io::ErrorKind::FileTooLarge`] for more than `most_bytes`, with the number there are.
pub fn read_small_file(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let (file, identity) = open_regular(path)?;
    let too_large = |got: String| {
        io::Error::new(io::ErrorKind::FileTooLarge, format!("got {got} bytes, expected at most {most_bytes}"))
    };
    if identity.bytes > most_bytes {
        return Err(too_large(identity.bytes.to_string()));
    }
    // It can have grown meanwhile, and some file systems tell no length.
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(too_large(format!("more than {most_bytes}")));
    }
    Ok(bytes)
}

fn regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_is_read_up_to_the_limit_and_refused_beyond_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        for bytes in [0, 1, 7, 8] {
            std::fs::write(&path, vec![7; bytes]).unwrap();
            assert_eq!(read_small_file(&path, 8).unwrap(), vec![7; bytes]);
        }
        std::fs::write(&path, [7; 9]).unwrap();
        let refused = read_small_file(&path, 8).unwrap_err();
        assert_eq!(refused.to_string(), "got 9 bytes, expected at most 8");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_whose_length_is_not_told_is_held_to_the_limit_too() {
        let whole = read_small_file(Path::new("/proc/self/status"), 1 << 20).unwrap();
        assert!(whole.len() > 100);
        let refused = read_small_file(Path::new("/proc/self/status"), 100).unwrap_err();
        assert_eq!(refused.to_string(), "got more than 100 bytes, expected at most 100");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        for path in ["/dev/zero", "/"] {
            let refused = read_small_file(Path::new(path), 8).unwrap_err();
            assert_eq!(refused.to_string(), "not a regular file", "{path}");
        }
    }
}
