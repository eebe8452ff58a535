//! Files that are either whole or not there.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A whole, durable file that waits for its name, `.NAME.PID.part` beside the final one. Dropped before
/// [`publish`](Self::publish), it is removed.
#[derive(Debug)]
pub struct PendingFile {
    temporary: PathBuf,
    path: PathBuf,
    is_published: bool,
}

impl PendingFile {
    /// Writes `bytes` under the temporary name and makes them durable.
    ///
    /// # Errors
    /// The file cannot be written; the text names the final path. Nothing is left behind then.
    pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<Self> {
        let name = path.file_name().with_context(|| format!("{}: not a file name", path.display()))?;
        let mut temporary_name = std::ffi::OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(".{}.part", std::process::id()));
        let pending = Self {
            temporary: path.with_file_name(temporary_name),
            path: path.to_owned(),
            is_published: false,
        };
        File::create(&pending.temporary)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(pending)
    }

    /// Gives the file its name, in place of one that has it.
    ///
    /// # Errors
    /// It cannot be renamed and goes on waiting; the text names the final path.
    pub fn publish(&mut self) -> anyhow::Result<()> {
        std::fs::rename(&self.temporary, &self.path)
            .with_context(|| format!("{}: cannot be written", self.path.display()))?;
        self.is_published = true;
        Ok(())
    }

    /// Has the file in another folder too, under its final name, whether it was published or not.
    ///
    /// # Errors
    /// It can be neither linked nor copied.
    pub fn keep_in(&self, folder: &Path) -> std::io::Result<()> {
        let from = if self.is_published { &self.path } else { &self.temporary };
        let kept = folder.join(self.path.file_name().unwrap_or_default());
        std::fs::hard_link(from, &kept).or_else(|_| std::fs::copy(from, &kept).map(drop))
    }

    /// The final name and the process of a temporary name, where it is one.
    pub fn of_temporary(name: &str) -> Option<(&str, u32)> {
        let (of, process) = name.strip_prefix('.')?.strip_suffix(".part")?.rsplit_once('.')?;
        Some((of, process.parse().ok()?))
    }

    /// The name it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.is_published {
            // The error that matters is the one that kept it from its name.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Writes `bytes` to a temporary file in the same folder, makes it durable, and gives it its name: a reader sees
/// the old file or the whole new one, whenever it looks and whatever happens to the machine.
///
/// # Errors
/// The file cannot be written or renamed; the text names it. Nothing is left behind then.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    PendingFile::write(path, bytes)?.publish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        write_atomically(&path, b"first, and longer").unwrap();
        write_atomically(&path, b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_not_published_leaves_the_old_one_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("phase.npy");
        write_atomically(&path, b"old").unwrap();
        drop(PendingFile::write(&path, b"new").unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_and_no_part_stays() {
        let dir = tempfile::tempdir().unwrap();
        let refused = write_atomically(&dir.path().join("none/phase.npy"), b"x").unwrap_err();
        assert!(refused.to_string().contains("none/phase.npy"));
        std::fs::create_dir(dir.path().join("phase.npy")).unwrap();
        assert!(write_atomically(&dir.path().join("phase.npy"), b"x").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
