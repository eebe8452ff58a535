//! The folder results go to: fit to be written to before anything is computed, and never a mixture of two runs.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use kernels::types::{DetectorShape, ScanShape};

use super::RESULT_FILE;
use crate::doctor::free_bytes;
use crate::output::{EXTENSIONS, Quantity};

/// Most bytes a scan position takes in all files together: eleven images at most, each three times.
const BYTES_A_POSITION: u64 = 128;
/// The same for a detector pixel, of which there are two images.
const BYTES_A_PIXEL: u64 = 40;

/// Most bytes of an account that is believed to be one of ours: ten thousand gaps take three megabytes.
const MOST_ACCOUNT_BYTES: u64 = 64 << 20;

/// Makes the folder when it is missing, and makes sure that results can be written into it.
///
/// # Errors
/// It cannot be made, no file can be made in it, or its disk is too full for the results; the text names it.
pub fn prepare_folder(out: &Path, scan: ScanShape, detector: DetectorShape) -> anyhow::Result<()> {
    ensure!(
        !out.exists() || out.is_dir(),
        "{}: is a file, not a folder; --out takes the result folder, which is made when it is missing",
        out.display()
    );
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
    Ok(())
}

/// Everything a run may write: its account first, then every image.
fn result_paths(out: &Path) -> impl Iterator<Item = PathBuf> {
    let images = Quantity::ALL.iter().flat_map(move |quantity| {
        EXTENSIONS.map(|extension| out.join(format!("{}.{extension}", quantity.stem())))
    });
    std::iter::once(out.join(RESULT_FILE)).chain(images)
}

/// A sentence about the results that lie in the folder already, which [`super::write_results`] will replace.
pub fn older_results(out: &Path) -> Option<String> {
    let mut older = result_paths(out).filter(|path| path.exists());
    let first = older.next()?;
    let name = first.file_name().unwrap_or(first.as_os_str()).to_string_lossy().into_owned();
    let more = match older.count() {
        0 => String::new(),
        some => format!(" and {some} files more"),
    };
    Some(format!("{}: results of an older run will be replaced: {name}{more}", out.display()))
}

/// Where the results go: `out`, but for an interrupted run beside it (`OUT-partial`, `OUT-partial-2`, ...) when `out`
/// holds a complete result, which is worth more.
pub fn folder_for(out: &Path, interrupted: bool) -> PathBuf {
    if !interrupted || !holds_complete(out) {
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
