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
    let optics = resolve_for(&set, &request.optics)?;
    Ok((set, optics))
}

/// Opens a file set.
///
/// # Errors
/// Those of [`FileSet::open`]; the master is named once.
pub fn open_set(master: &Path) -> anyhow::Result<FileSet> {
    FileSet::open(master).map_err(|error| match error {
        // The cause names the file already.
        IngestError::Hdf5 { path, source } if source.to_string().starts_with(&*path.to_string_lossy()) => {
            source.into()
        }
        error => error.into(),
    })
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
