//! `sideband doctor`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use super::Ending;
use crate::doctor::examine;
use crate::request::WrongFlags;

/// What `sideband doctor` takes.
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// Folder whose disk is measured, with a temporary file.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Most megabytes (10^6 bytes) of that file.
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub size_mb: u64,
    /// For machines: one JSON object on stdout.
    #[arg(long)]
    pub json: bool,
}

/// Examines the machine and says what it found on stdout.
///
/// # Errors
/// A folder that is not there; none of the findings; that they cannot be written out.
pub(super) fn doctor(args: &DoctorArgs) -> anyhow::Result<Ending> {
    if !args.dir.is_dir() {
        return Err(WrongFlags::because(anyhow!("--dir: got {}, expected a folder", args.dir.display())));
    }
    let report = examine(&args.dir, args.size_mb * 1_000_000);
    super::say(&match args.json {
        true => serde_json::to_string_pretty(&report)?,
        false => report.text(),
    })?;
    Ok(Ending::Done)
}
