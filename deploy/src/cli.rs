//! The command line: what is asked, and with which exit code it ends.
//!
//! Exit codes: 0 done, 1 failed, 2 asked in a way that cannot be done (flags, optics), 130 interrupted with
//! partial results saved.

mod doctor;
mod optics_args;
mod run;
mod run_args;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::optics::OpticsError;

pub use doctor::DoctorArgs;
pub use optics_args::OpticsArgs;
pub use run::{conclude, stop_on_ctrl_c};
pub use run_args::RunArgs;

const ABOUT: &str = "From the counts of a DECTRIS detector to a single-sideband ptychography phase image";
const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 failed, 2 wrong or missing flags, 130 interrupted (partial results saved).";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "sideband", version, about = ABOUT, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What sideband can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Reconstruct the phase image of an acquisition.
    Run(Box<RunArgs>),
    /// Examine this machine: processor, memory, disk, CUDA, and what each limits.
    Doctor(DoctorArgs),
}

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All done.
    Done,
    /// Stopped on request; what there was is saved.
    Interrupted,
}

/// Reads the command line, does what it says, says what went wrong on stderr.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(cli.command) {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Err(error) => {
            eprintln!("error: {error:#}");
            exit_code(&error)
        }
    }
}

/// 2 where other flags would help, 1 otherwise.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<OpticsError>() {
        Some(_) => ExitCode::from(2),
        None => ExitCode::from(1),
    }
}

fn dispatch(command: Command) -> anyhow::Result<Ending> {
    match command {
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Run(args) => {
            let request = args.request()?;
            anyhow::bail!("{}: the pipeline is not part of this build", request.master.display())
        }
    }
}

/// Writes a line to stdout. A reader that went away (`| head`) has seen enough: that is no failure.
fn say(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
