//! `sideband inspect`.

use std::path::PathBuf;

use clap::Args;

use super::{Ending, OpticsArgs, say};
use crate::inspect::Inspection;
use crate::open::open_set;

/// What `sideband inspect` takes.
#[derive(Args, Clone, Debug)]
pub struct InspectArgs {
    /// The DECTRIS master file (NAME_master.h5).
    #[arg(value_name = "MASTER.h5")]
    pub master: PathBuf,
    /// For machines: one JSON object on stdout.
    #[arg(long)]
    pub json: bool,
    /// The microscope, as a run would be given it.
    #[command(flatten)]
    pub optics: OpticsArgs,
}

/// Opens the set and says what was found on stdout.
///
/// # Errors
/// The master cannot be read, no data file can be used, or the optics file cannot be used.
pub(super) fn inspect(args: &InspectArgs) -> anyhow::Result<Ending> {
    let request = args.optics.request()?;
    let inspection = Inspection::of(&open_set(&args.master)?, &request);
    say(&match args.json {
        true => serde_json::to_string_pretty(&inspection)?,
        false => inspection.text(),
    })?;
    Ok(Ending::Done)
}
