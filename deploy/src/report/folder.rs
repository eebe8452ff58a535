//! The folder results go to: fit to be written to before anything is computed, and never a mixture of two runs.

mod lock;
mod publish;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use kernels::types::{DetectorShape, ScanShape};

use super::{RESULT_FILE, SOFTWARE_NAME};
use crate::doctor::free_bytes;
use crate::optics::Provenance;
use crate::output::{EXTENSIONS, PendingFile, Quantity};

use lock::FolderLock;
pub(super) use publish::publish;

/// Most bytes a scan position takes in all files together: eleven images at most, each three times.
const BYTES_A_POSITION: u64 = 128;
/// The same for a detector pixel, of which there are two images.
const BYTES_A_PIXEL: u64 = 40;

/// Most bytes of an account that is believed to be one of ours: ten thousand gaps take three megabytes.
const MOST_ACCOUNT_BYTES: u64 = 64 << 20;

/// The account of an older run while the images are replaced.
const OLDER_ACCOUNT: &str = "older-result.json";

/// A folder that results can be written into, by this run alone. Dropped while it is empty, it goes again, with the
/// folders above it that were made for it.
#[derive(Debug)]
#[must_use = "a folder that was made and is empty goes when this is dropped"]
pub struct ResultFolder {
    /// The innermost first.
    made: Vec<PathBuf>,
    lock: Option<FolderLock>,
}

impl Drop for ResultFolder {
    fn drop(&mut self) {
        // Its file would keep the folder.
        drop(self.lock.take());
        for folder in &self.made {
            // One that is not empty stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Makes the folder when it is missing, locks it, makes sure that results can be written into it and take the place of
/// older ones, and takes away the unfinished files of runs that were killed.
///
/// # Errors
/// It cannot be made, no file can be made in it, another run has it, or its disk is too full for the results; it holds
/// something that has the name of a result and cannot be replaced, or is that of no run. The text names it.
pub fn prepare_folder(out: &Path, scan: ScanShape, detector: DetectorShape) -> anyhow::Result<ResultFolder> {
    ensure!(
        !out.exists() || out.is_dir(),
        "{}: is a file, not a folder; --out takes the result folder, which is made when it is missing",
        out.display()
    );
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let mut made = ResultFolder {
        lock: None,
        made: out.ancestors().take_while(is_missing).map(Path::to_owned).collect(),
    };
    std::fs::create_dir_all(out)
        .with_context(|| format!("{}: the result folder cannot be made", out.display()))?;
    let trial = out.join(format!(".sideband-trial.{}.part", std::process::id()));
    File::create(&trial)
        .and_then(|_| std::fs::remove_file(&trial))
        .with_context(|| format!("{}: the result folder cannot be written to", out.display()))?;
    made.lock = FolderLock::take(out)?;
    for path in result_paths(out) {
        check_replaceable(out, &path)?;
    }
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
    let account = out.join(RESULT_FILE);
    ensure!(
        !account.exists() || account_of(out).is_some(),
        "{}: was not written by sideband, so a run does not overwrite it; move it away or give another --out",
        account.display()
    );
    let foreign = older_files(out).filter(|_| !was_killed_here && !account.exists());
    if let Some(names) = foreign {
        bail!(
            "{}: holds {names} and no {RESULT_FILE}, so these are not the results of a run; move them away or give \
             another --out",
            out.display()
        );
    }
    Ok(made)
}

/// Whether a file of a run can take the place of what stands at the path, if anything does.
fn check_replaceable(out: &Path, path: &Path) -> anyhow::Result<()> {
    let Ok(file) = path.symlink_metadata() else { return Ok(()) };
    ensure!(
        file.is_file(),
        "{}: is not a regular file, so no result can take its place; move it away or give another --out",
        path.display()
    );
    let folder = out.metadata().with_context(|| format!("{}: cannot be examined", out.display()))?;
    // SAFETY: geteuid takes nothing and cannot fail.
    let me = unsafe { libc::geteuid() };
    ensure!(
        lets_replace(folder.mode(), &[folder.uid(), file.uid()], me),
        "{}: belongs to another user, and the sticky bit of the folder keeps it; give another --out",
        path.display()
    );
    Ok(())
}

/// Whether a user may replace a file in a folder that can be written to; in a sticky one, root and the owners may.
fn lets_replace(folder_mode: u32, owners: &[u32], user: u32) -> bool {
    const STICKY: u32 = 0o1000;
    folder_mode & STICKY == 0 || user == 0 || owners.contains(&user)
}

/// Removes the unfinished files of processes that are no more; whether there were any.
fn remove_unfinished(out: &Path) -> bool {
    let mut were_there = false;
    for entry in std::fs::read_dir(out).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((of, process)) = name.to_str().and_then(PendingFile::of_temporary) else { continue };
        let is_ours = ["sideband-trial", OLDER_ACCOUNT].contains(&of)
            || result_paths(out).any(|path| path.ends_with(of));
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

/// Takes away the folders of series below `out` in which nothing is but a lock that nobody holds: what is left where a daemon
/// was killed before it wrote anything. One of several channels has folders within.
pub fn remove_abandoned(out: &Path) {
    let folders = |of: &Path| {
        let entries = std::fs::read_dir(of).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let is_series =
        |folder: &PathBuf| folder.file_name().is_some_and(|name| name.to_string_lossy().contains("-series-"));
    for series in folders(out).into_iter().filter(is_series) {
        let were_within = folders(&series).iter().filter(|channel| remove_if_abandoned(channel)).count() > 0;
        if !remove_if_abandoned(&series) && were_within {
            // one that is not empty stays
            let _ = std::fs::remove_dir(&series);
        }
    }
}

/// Takes a folder away that holds a free lock and nothing else; whether it did.
fn remove_if_abandoned(folder: &Path) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten();
    let first = entries.next().and_then(Result::ok);
    let is_lock_alone = first.is_some_and(|entry| entry.file_name() == lock::LOCK_FILE);
    if !is_lock_alone || entries.next().is_some() {
        return false;
    }
    // the file goes with the lock; where the file system knows no locks nobody can tell who holds it
    let is_free = matches!(FolderLock::take(folder), Ok(Some(_)));
    is_free && std::fs::remove_dir(folder).is_ok()
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

/// Where the results go, the place to be tried first first: `out`; but for a run that was interrupted or gave no phase
/// image, while `out` holds a complete result, which is worth more, beside it (`OUT-partial`, `OUT-partial-2`, ...), in it
/// (`OUT/partial`, ...), or in a new folder of the current directory or the temporary one.
pub fn folders_for(out: &Path, outcome: Outcome) -> Vec<PathBuf> {
    if outcome == Outcome::Phase || !holds_complete(out) {
        return vec![out.to_owned()];
    }
    // "." has no name of its own.
    let named = match out.file_name() {
        Some(_) => out.to_owned(),
        None => std::fs::canonicalize(out).unwrap_or_else(|_| out.to_owned()),
    };
    let mut name = named.file_name().map_or_else(|| "sideband".into(), std::ffi::OsStr::to_owned);
    name.push("-partial");
    let elsewhere = [std::env::current_dir().unwrap_or_default(), std::env::temp_dir()]
        .map(|folder| folder.join(format!("sideband-partial-{}", std::process::id())));
    // Nobody else has made these and waits for what is written into them.
    let elsewhere = elsewhere.into_iter().filter(|folder| folder.symlink_metadata().is_err());
    [named.with_file_name(name), named.join("partial")]
        .iter()
        .map(|first| numbered(first))
        .chain(elsewhere)
        .collect()
}

/// The folder, or that with `-2`, `-3`, ... at its end: the first that holds no complete result.
fn numbered(first: &Path) -> PathBuf {
    let with = |number: u32| {
        let mut name = first.file_name().unwrap_or_default().to_owned();
        name.push(format!("-{number}"));
        first.with_file_name(name)
    };
    let mut folders = std::iter::once(first.to_owned()).chain((2..1000).map(with));
    folders.find(|folder| !holds_complete(folder)).unwrap_or_else(|| first.to_owned())
}

/// The shape of the scan that the results in a folder were made with, where it was known.
pub fn scan_shape_in(folder: &Path) -> Option<ScanShape> {
    let account = account_of(folder)?;
    let is_known = account["optics_provenance"]["scan_shape"] != Provenance::StandIn.to_string();
    let side = |place: usize| usize::try_from(account["optics"]["scan_shape"][place].as_u64()?).ok();
    Some(ScanShape { rows: side(0)?, cols: side(1)? }).filter(|_| is_known)
}

/// Whether the account in a folder says that its results are complete.
fn holds_complete(out: &Path) -> bool {
    account_of(out).is_some_and(|account| account["status"] == "complete")
}

/// The account in a folder, if it is one of ours.
fn account_of(out: &Path) -> Option<serde_json::Value> {
    let text = ingest::read_small_file(&out.join(RESULT_FILE), MOST_ACCOUNT_BYTES).ok()?;
    let account: serde_json::Value = serde_json::from_slice(&text).ok()?;
    (account["software"]["name"] == SOFTWARE_NAME).then_some(account)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A daemon that was killed while a series came left its folder behind, with nothing but a lock in it.
    #[test]
    fn folders_that_hold_nothing_but_a_free_lock_go_and_all_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, file: &str| {
            let folder = dir.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            if !file.is_empty() {
                std::fs::write(folder.join(file), "").unwrap();
            }
            folder
        };
        let gone = [
            make("1-series-000001", lock::LOCK_FILE),
            make("2-series-000001/threshold_1", lock::LOCK_FILE),
            make("2-series-000001/threshold_2", lock::LOCK_FILE),
        ];
        let stays = [
            make("3-series-000001", "bf.npy"),
            make("4-series-000001/threshold_1", "bf.npy"),
            make("5-series-000001", ""),
            make("exports", lock::LOCK_FILE),
            make("6-series-000001", ""),
            make("7-series-000001", lock::LOCK_FILE),
        ];
        std::fs::write(stays[0].join(lock::LOCK_FILE), "").unwrap();
        let _held = FolderLock::take(&stays[4]).unwrap().unwrap();
        std::fs::write(stays[5].join("notes"), "").unwrap();
        remove_abandoned(dir.path());
        assert!(gone.iter().all(|folder| !folder.exists()) && !dir.path().join("2-series-000001").exists());
        assert!(stays.iter().all(|folder| folder.exists()));
    }

    #[test]
    fn a_sticky_folder_lets_only_owners_and_root_replace() {
        let (folder, file) = (5, 6);
        let may = |mode, user| lets_replace(mode, &[folder, file], user);
        assert!(may(0o40777, 7) && !may(0o41777, 7));
        assert!([0, folder, file].iter().all(|&user| may(0o41777, user)));
    }
}
