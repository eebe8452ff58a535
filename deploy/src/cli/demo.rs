//! `sideband demo`.

use std::path::PathBuf;

use clap::Args;

use super::{Ending, run, signals, tell};
use crate::demo::{prepare, run_command};

/// What `sideband demo` takes.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Folder for the acquisition and its results; made when it does not exist.
    #[arg(long, value_name = "DIR", default_value = "sideband-demo")]
    pub out: PathBuf,
    /// Say nothing on stderr but errors and warnings.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Simulates, runs, says where the pictures are and which command did it.
///
/// # Errors
/// Those of the simulation and of the run.
pub(super) fn demo(args: &DemoArgs) -> anyhow::Result<Ending> {
    let (_, request) = prepare(&args.out, args.quiet, signals::stop_on_signal()?)?;
    if !args.quiet {
        let program = std::env::args_os().next().map_or_else(|| "sideband".into(), PathBuf::from);
        tell(&format!("simulated; the same run by hand: {}", run_command(&program, &request)));
    }
    run::run(&request)
}
