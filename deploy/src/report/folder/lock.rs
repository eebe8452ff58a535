//! One run at a time into a folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The file that is locked, for as long as a run writes into the folder.
pub(super) const LOCK_FILE: &str = ".sideband.lock";

/// The lock of a folder. Dropped, its file goes; of a process that is killed the system takes the lock away, and the file
/// is used by the next.
#[derive(Debug)]
pub(super) struct FolderLock {
    path: PathBuf,
    file: File,
}

impl FolderLock {
    /// Locks a folder; none where the file system knows no locks.
    ///
    /// # Errors
    /// Another run has the lock, or its file cannot be opened. The text names the folder.
    pub(super) fn take(folder: &Path) -> anyhow::Result<Option<Self>> {
        let path = folder.join(LOCK_FILE);
        loop {
            let file =
                open(&path).with_context(|| format!("{}: cannot be opened for its lock", path.display()))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => bail!(
                    "{}: another run is writing into this result folder; wait for its end or give another --out",
                    folder.display()
                ),
                Err(TryLockError::Error(_)) => return Ok(None),
            }
            let lock = Self { path: path.clone(), file };
            // The run before may have taken the file away between the two steps: a lock on it would keep nobody out.
            if lock.is_in_place() {
                return Ok(Some(lock));
            }
        }
    }

    /// Whether the file that is locked is the one that others find.
    fn is_in_place(&self) -> bool {
        let (Ok(found), Ok(locked)) = (self.path.symlink_metadata(), self.file.metadata()) else {
            return false;
        };
        (found.dev(), found.ino()) == (locked.dev(), locked.ino())
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if self.is_in_place() {
            // One that stays is used by the next run.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens the file, made when it is missing; one of another user may be readable only. What stands in its place is neither
/// followed nor waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let made = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path);
    made.or_else(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => OpenOptions::new().read(true).custom_flags(flags).open(path),
        _ => Err(error),
    })
}
