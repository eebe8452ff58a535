//! Whole files get their names: old ones are replaced one by one, and nothing new is lost when one cannot be.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{OLDER_ACCOUNT, RESULT_FILE, result_paths};
use crate::output::PendingFile;

/// Gives the images their names, then the account, in place of what an older run left under them; what it left under other
/// names goes. Meanwhile the older account is set aside, so that no mixture ever looks whole.
///
/// # Errors
/// A file cannot be replaced or removed. All of the new is kept in a folder of its own then, which the text names; the
/// older result is untouched when it was the first file.
pub(in crate::report) fn publish(
    out: &Path,
    images: Vec<PendingFile>,
    account: PendingFile,
) -> anyhow::Result<()> {
    let mut files = images;
    files.push(account);
    let account = out.join(RESULT_FILE);
    let aside = out.join(format!(".{OLDER_ACCOUNT}.{}.part", std::process::id()));
    let mut num_placed = 0;
    let placed = set_aside(&account, &aside).and_then(|()| place(out, &mut files, &mut num_placed));
    match placed {
        Ok(removed) => {
            let _ = std::fs::remove_file(&aside);
            removed
        }
        Err(error) => {
            let kept = keep(out, &files);
            // With a new file among its images the older account is wrong.
            let _ = match num_placed {
                0 => std::fs::rename(&aside, &account),
                _ => std::fs::remove_file(&aside),
            };
            Err(error.context(match kept {
                Some(kept) => format!("the new results are kept in {}", kept.display()),
                None => "the new results could be kept nowhere".to_owned(),
            }))
        }
    }
}

fn set_aside(account: &Path, aside: &Path) -> anyhow::Result<()> {
    match std::fs::rename(account, aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}: cannot be replaced", account.display()))
        }
        _ => Ok(()),
    }
}

/// Names every file, the last one after the older files of other names are gone; what became of those.
fn place(
    out: &Path,
    files: &mut [PendingFile],
    num_placed: &mut usize,
) -> anyhow::Result<anyhow::Result<()>> {
    let Some((account, images)) = files.split_last_mut() else { return Ok(Ok(())) };
    for image in images.iter_mut() {
        image.publish()?;
        *num_placed += 1;
    }
    let is_new = |path: &PathBuf| images.iter().any(|image| image.path() == path) || path == account.path();
    let mut removed = Ok(());
    for surplus in result_paths(out).filter(|path| !is_new(path)) {
        if let Err(error) = std::fs::remove_file(&surplus)
            && error.kind() != ErrorKind::NotFound
        {
            removed = Err(error).with_context(|| {
                format!(
                    "{}: of an older run, cannot be removed; the new results are there",
                    surplus.display()
                )
            });
        }
    }
    account.publish()?;
    Ok(removed)
}

/// Puts all files, placed or not, into a new folder: in `out`, else the current directory, else the temporary one.
fn keep(out: &Path, files: &[PendingFile]) -> Option<PathBuf> {
    let places = [out.to_owned(), std::env::current_dir().unwrap_or_default(), std::env::temp_dir()];
    places.into_iter().map(|place| place.join(format!("sideband-unplaced-{}", std::process::id()))).find(
        |folder| std::fs::create_dir(folder).is_ok() && files.iter().all(|file| file.keep_in(folder).is_ok()),
    )
}
