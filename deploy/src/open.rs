//! The first step of a run: open the acquisition, settle the optics, before anything is read in earnest.

use std::path::Path;

use ingest::IngestError;
use ingest::dectris::FileSet;

use crate::inspect::recorded_sources;
use crate::optics::{Acquisition, OpticsError, OpticsRequest, ResolvedOptics, check_settled, resolve};
use crate::request::RunRequest;

/// Opens the file set of a request and resolves its optics.
///
/// # Errors
/// [`IngestError`] when the set cannot be opened; [`OpticsError`] when a parameter is missing or cannot be (the command
/// line ends with code 2 on it).
pub fn open(request: &RunRequest) -> anyhow::Result<(FileSet, ResolvedOptics)> {
    let set = open_set(&request.master)?;
    let note = data_file_note(&request.master);
    let mut optics = resolve_for(&set, &request.optics).map_err(|error| match &note {
        Some(note) => anyhow::Error::from(error).context(note.clone()),
        None => error.into(),
    })?;
    optics.notes.splice(0..0, note);
    Ok((set, optics))
}

/// What to say of a master that is named like a data file, `NAME_data_000001.h5`: it is read, but it knows only itself.
pub fn data_file_note(master: &Path) -> Option<String> {
    let name = master.file_name()?.to_str()?;
    let (set, number) = name.strip_suffix(".h5")?.rsplit_once("_data_")?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let meant = master.with_file_name(format!("{set}_master.h5"));
    let is_there = if meant.is_file() { "" } else { " (there is none beside it)" };
    Some(format!("{name} looks like a data file; did you mean {}?{is_there}", meant.display()))
}

/// Opens a file set.
///
/// # Errors
/// Those of [`FileSet::open`]; the master is named once. A folder is answered with the masters in it.
pub fn open_set(master: &Path) -> anyhow::Result<FileSet> {
    if master.is_dir() {
        return Err(masters_of(master));
    }
    FileSet::open(master).map_err(|error| match error {
        // The cause names the file already.
        IngestError::Hdf5 { path, source } if source.to_string().starts_with(&*path.to_string_lossy()) => {
            source.into()
        }
        error => error.into(),
    })
}

/// Why a folder is no master, and which masters are in it.
fn masters_of(folder: &Path) -> anyhow::Error {
    const MOST_NAMED: usize = 3;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut masters: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with("_master.h5"))
        .collect();
    masters.sort();
    let found = match masters.len() {
        0 => "there is none in it".to_owned(),
        1..=MOST_NAMED => format!("there is {}", masters.join(", ")),
        many => format!("there are {many}: {}, ...", masters[..MOST_NAMED].join(", ")),
    };
    anyhow::anyhow!("{}: is a folder; give the NAME_master.h5 in it ({found})", folder.display())
}

/// The optics of an opened set: what the user says, joined with what the files say.
///
/// # Errors
/// Those of [`resolve`]; a bright field that is not on the detector, aberrations nobody could follow.
pub fn resolve_for(set: &FileSet, request: &OpticsRequest) -> Result<ResolvedOptics, OpticsError> {
    let acquisition = Acquisition { frames_expected: set.frames_expected };
    let optics = resolve(request, &recorded_sources(set), acquisition)?;
    check_settled(&optics, set.detector)?;
    Ok(optics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_file_is_told_from_a_master_by_its_name_and_the_master_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let note = |name: &str| data_file_note(&dir.path().join(name));
        assert!(note("a_data_000001.h5").unwrap().ends_with("a_master.h5? (there is none beside it)"));
        std::fs::write(dir.path().join("a_master.h5"), "").unwrap();
        let meant = dir.path().join("a_master.h5");
        let said = format!("a_data_000001.h5 looks like a data file; did you mean {}?", meant.display());
        assert_eq!(note("a_data_000001.h5"), Some(said));
        for master in ["a_master.h5", "my_data_master.h5", "a_data_.h5", "a_data_1.txt"] {
            assert_eq!(note(master), None, "{master}");
        }
    }
}
