//! Files that are either whole or not there.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

/// Writes `bytes` to a temporary file in the same folder, makes it durable, and gives it its name: a reader sees
/// the old file or the whole new one, whenever it looks and whatever happens to the machine.
///
/// # Errors
/// The file cannot be written or renamed; the text names it. Nothing is left behind then.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let name = path.file_name().with_context(|| format!("{}: not a file name", path.display()))?;
    let mut temporary_name = std::ffi::OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(format!(".{}.part", std::process::id()));
    let temporary = path.with_file_name(temporary_name);
    let written = File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // The error that matters is the one above.
        let _ = std::fs::remove_file(&temporary);
    }
    written.with_context(|| format!("{}: cannot be written", path.display()))
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
    fn a_folder_that_is_not_there_is_named_and_no_part_stays() {
        let dir = tempfile::tempdir().unwrap();
        let refused = write_atomically(&dir.path().join("none/phase.npy"), b"x").unwrap_err();
        assert!(refused.to_string().contains("none/phase.npy"));
        std::fs::create_dir(dir.path().join("phase.npy")).unwrap();
        assert!(write_atomically(&dir.path().join("phase.npy"), b"x").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
