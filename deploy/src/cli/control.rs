//! `sideband arm`, `trigger`, `abort` and their like: commands for the detector. The daemon itself never gives any.

use clap::Args;

use super::{Ending, say};
use crate::simplon::Simplon;

/// What a command to the detector takes.
#[derive(Args, Clone, Debug)]
pub struct ControlArgs {
    /// The detector's SIMPLON interface; port 80 when none is given.
    #[arg(long, value_name = "HOST[:PORT]", env = "SIDEBAND_API")]
    pub api: String,
}

/// Gives the command, and says what the detector answered: for `arm` the number of the series.
///
/// # Errors
/// The detector is not there, or refuses, with its words.
pub(super) fn control(args: &ControlArgs, command: &str) -> anyhow::Result<Ending> {
    let answer = Simplon::new(&args.api).command(command)?;
    match answer.get("sequence id") {
        Some(id) => say(&format!("{command}: series {id}"))?,
        None => say(&format!("{command}: done"))?,
    }
    Ok(Ending::Done)
}
