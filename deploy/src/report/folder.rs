//! The folder results go to: fit to be written to before anything is computed, and never a mixture of two runs.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use kernels::types::{DetectorShape, ScanShape};

use super::RESULT_FILE;
use crate::doctor::free_bytes;
use crate::output::{EXTENSIONS, PendingFile, Quantity};

/// Most bytes a scan position takes in all files together: eleven images at most, each three times.
const BYTES_A_POSITION: u64 = 128;
/// The same for a detector pixel, of which there are two images.
const BYTES_A_PIXEL: u64 = 40;

/// Most bytes of an account that is believed to be one of ours: ten thousand gaps take three megabytes.
const MOST_ACCOUNT_BYTES: u64 = 64 << 20;

/// A folder that results can be written into. Dropped while it is empty, it goes again, with the folders above it that
/// were made for it.
#[derive(Debug)]
#[must_use = "a folder that was made and is empty goes when this is dropped"]
pub struct ResultFolder {
    /// The innermost first.
    made: Vec<PathBuf>,
}

impl Drop for ResultFolder {
    fn drop(&mut self) {
        for folder in &self.made {
            // One that is not empty stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Makes the folder when it is missing, makes sure that results can be written into it, and takes away the unfinished
/// files of runs that were killed.
///
/// # Errors
/// It cannot be made, no file can be made in it, or its disk is too full for the results; it holds files that have the
/// names of results and are those of no run. The text names it.
pub fn prepare_folder(out: &Path, scan: ScanShape, detector: DetectorShape) -> anyhow::Result<ResultFolder> {
    ensure!(
        !out.exists() || out.is_dir(),
        "{}: is a file, not a folder; --out takes the result folder, which is made when it is missing",
        out.display()
    );
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let made = ResultFolder { made: out.ancestors().take_while(is_missing).map(Path::to_owned).collect() };
    std::fs::create_dir_all(out)
        .with_context(|| format!("{}: the result folder cannot be made", out.display()))?;
    let trial = out.join(format!(".sideband-trial.{}.part", std::process::id()));
    File::create(&trial)
        .and_then(|_| std::fs::remove_file(&trial))
        .with_context(|| format!("{}: the result folder cannot be written to", out.display()))?;
    let of = |number: usize, bytes: u64| (number as u64).saturating_mul(bytes);
    let needed = of(scan.positions(), BYTES_A_POSITION).saturating_add(of(detector.pixels(), BYTES_A_PIXEL));
    if let Some(free) = free_bytes(out) {
        ensure!(
            free >= needed,
            "{}: the disk of the result folder has {free} bytes free, expected at least {needed} for the results",
            out.display()
        );
    }
    // A run that was killed between taking the older account away and writing its own has left unfinished files.
    let was_killed_here = remove_unfinished(out);
    let foreign = older_files(out).filter(|_| !was_killed_here && !out.join(RESULT_FILE).exists());
    if let Some(names) = foreign {
        bail!(
            "{}: holds {names} and no {RESULT_FILE}, so these are not the results of a run; move them away or give \
             another --out",
            out.display()
        );
    }
    Ok(made)
}

/// Removes the unfinished files of processes that are no more; whether there were any.
fn remove_unfinished(out: &Path) -> bool {
    let mut were_there = false;
    for entry in std::fs::read_dir(out).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((of, process)) = name.to_str().and_then(PendingFile::of_temporary) else { continue };
        let is_ours = of == "sideband-trial" || result_paths(out).any(|path| path.ends_with(of));
        if is_ours && !is_alive(process) {
            were_there |= std::fs::remove_file(entry.path()).is_ok();
        }
    }
    were_there
}

/// Whether a process of this machine has the number.
fn is_alive(process: u32) -> bool {
    let Some(process) = libc::pid_t::try_from(process).ok().filter(|&process| process > 0) else {
        return false;
    };
    // SAFETY: signal 0 is sent to nobody: the call only says whether the process is there.
    let is_there = unsafe { libc::kill(process, 0) } == 0;
    is_there || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Everything a run may write: its account first, then every image.
fn result_paths(out: &Path) -> impl Iterator<Item = PathBuf> {
    let images = Quantity::ALL.iter().flat_map(move |quantity| {
        EXTENSIONS.map(|extension| out.join(format!("{}.{extension}", quantity.stem())))
    });
    std::iter::once(out.join(RESULT_FILE)).chain(images)
}

/// The first file of those that a run may write and how many more there are, where there are any.
fn older_files(out: &Path) -> Option<String> {
    let mut older = result_paths(out).filter(|path| path.exists());
    let first = older.next()?;
    let name = first.file_name().unwrap_or(first.as_os_str()).to_string_lossy().into_owned();
    Some(match older.count() {
        0 => name,
        some => format!("{name} and {some} files more"),
    })
}

/// A sentence about the results that lie in the folder already, which [`super::write_results`] will replace.
pub fn older_results(out: &Path) -> Option<String> {
    let unless = match holds_complete(out) {
        true => ", unless this one gives no phase image or is interrupted",
        false => "",
    };
    let names = older_files(out)?;
    Some(format!("{}: results of an older run will be replaced{unless}: {names}", out.display()))
}

/// What a run came to, as far as an older result is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has a phase image and was not interrupted.
    Phase,
    /// It was interrupted.
    Interrupted,
    /// It has no phase image.
    NoPhase,
}

/// Where the results go: `out`, but for a run that was interrupted or gave no phase image beside it (`OUT-partial`,
/// `OUT-partial-2`, ...) when `out` holds a complete result, which is worth more.
pub fn folder_for(out: &Path, outcome: Outcome) -> PathBuf {
    if outcome == Outcome::Phase || !holds_complete(out) {
        return out.to_owned();
    }
    // "." has no name of its own.
    let named = match out.file_name() {
        Some(_) => out.to_owned(),
        None => std::fs::canonicalize(out).unwrap_or_else(|_| out.to_owned()),
    };
    let mut name = named.file_name().map_or_else(|| "sideband".into(), std::ffi::OsStr::to_owned);
    name.push("-partial");
    let first = named.with_file_name(&name);
    let numbered = (2..1000).map(|number| {
        let mut name = name.clone();
        name.push(format!("-{number}"));
        named.with_file_name(name)
    });
    std::iter::once(first.clone()).chain(numbered).find(|folder| !holds_complete(folder)).unwrap_or(first)
}

/// Whether the account in a folder says that its results are complete.
fn holds_complete(out: &Path) -> bool {
    let text = ingest::read_small_file(&out.join(RESULT_FILE), MOST_ACCOUNT_BYTES).unwrap_or_default();
    let account: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    account.get("status").and_then(serde_json::Value::as_str) == Some("complete")
}

/// Removes what an older run left: its account first, so that no mixture ever looks whole, then every image.
pub(super) fn remove_older(out: &Path) -> anyhow::Result<()> {
    for path in result_paths(out) {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{}: cannot be replaced", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}
