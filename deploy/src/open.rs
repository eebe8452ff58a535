//! The first step of a run: open the acquisition, settle the optics, before anything is read in earnest.

use ingest::dectris::FileSet;

use crate::inspect::recorded_sources;
use crate::optics::{Acquisition, ResolvedOptics, resolve};
use crate::request::RunRequest;

/// Opens the file set of a request and resolves its optics.
///
/// # Errors
/// [`ingest::IngestError`] when the set cannot be opened; [`crate::optics::OpticsError`] when a parameter is missing or
/// cannot be (the command line ends with code 2 on it).
pub fn open(request: &RunRequest) -> anyhow::Result<(FileSet, ResolvedOptics)> {
    let set = FileSet::open(&request.master)?;
    let acquisition = Acquisition { frames_expected: set.frames_expected };
    let optics = resolve(&request.optics, &recorded_sources(&set), acquisition)?;
    Ok((set, optics))
}
