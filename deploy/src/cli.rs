//! The command line: what is asked, and with which exit code it ends.
//!
//! Exit codes: 0 done, 1 failed, 2 asked in a way that cannot be done (flags, optics), 130 interrupted by Ctrl-C, 143 by
//! SIGTERM, 129 by SIGHUP, with partial results saved if there were any.

mod config;
mod control;
mod demo;
mod doctor;
mod export;
mod inspect;
mod optics_args;
mod replay;
mod run;
mod run_args;
mod serve;
mod signals;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::optics::OpticsError;
use crate::request::{Interrupted, WrongFlags};
use crate::simulate::SimulateArgs;

pub use config::ConfigArgs;
pub use control::ControlArgs;
pub use demo::DemoArgs;
pub use doctor::DoctorArgs;
pub use export::ExportArgs;
pub(crate) use export::choose_series;
pub use inspect::InspectArgs;
pub use optics_args::OpticsArgs;
pub use replay::{ReplayArgs, StreamVersion};
pub use run_args::RunArgs;
pub use serve::ServeArgs;

const ABOUT: &str = "From the counts of a DECTRIS detector to a single-sideband ptychography phase image";
const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong or missing flags, 130 interrupted, 143 by SIGTERM, 129 by SIGHUP (partial results saved).";

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
    /// Say what is in a file set, what is missing, and what a run would ask for.
    Inspect(Box<InspectArgs>),
    /// Make an acquisition with known truth, as the detector would write it.
    Simulate(Box<SimulateArgs>),
    /// Make a DECTRIS file set of a recorded series, or say which series a recording holds.
    Export(Box<ExportArgs>),
    /// Simulate a small acquisition, run it, say where the pictures are.
    Demo(DemoArgs),
    /// Listen to a detector: reconstruct series after series while they come, and show them on a page.
    Serve(Box<ServeArgs>),
    /// Arm the detector.
    Arm(ControlArgs),
    /// Trigger the detector.
    Trigger(ControlArgs),
    /// End the series after the image that is being taken.
    Cancel(ControlArgs),
    /// End the series at once.
    Abort(ControlArgs),
    /// End a series that is complete.
    Disarm(ControlArgs),
    /// Check or print a file of settings of the daemon.
    Config(ConfigArgs),
    /// Be a detector to test against: send a file set over the wire, with faults if wanted.
    Replay(Box<ReplayArgs>),
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
    /// There is no phase image; what could be computed is saved.
    NoPhase,
}

/// Reads the command line, does what it says, says what went wrong on stderr.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(cli.command) {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Interrupted) => ExitCode::from(signals::exit_code()),
        Ok(Ending::NoPhase) => ExitCode::FAILURE,
        Err(error) if error.is::<Interrupted>() => {
            tell(&error.to_string());
            ExitCode::from(signals::exit_code())
        }
        Err(error) => {
            tell(&format!("error: {}", described(&error)));
            exit_code(&error)
        }
    }
}

/// The error and its causes, each said once: some errors quote their cause in their own text.
fn described(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // an error of flags within flags says so itself
        let cause = cause.trim_start_matches("error: ").trim_end().to_owned();
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// 2 where other flags would help, 1 otherwise.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.is::<OpticsError>() || error.is::<WrongFlags>() {
        true => ExitCode::from(2),
        false => ExitCode::from(1),
    }
}

fn dispatch(command: Command) -> anyhow::Result<Ending> {
    match command {
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Simulate(args) => {
            let truth = crate::simulate::run(&args, &signals::stop_on_signal()?)?;
            say(&truth.master.display().to_string())?;
            Ok(Ending::Done)
        }
        Command::Serve(args) => serve::serve(&args, signals::stop_on_signal()?),
        Command::Arm(args) => control::control(&args, "arm"),
        Command::Trigger(args) => control::control(&args, "trigger"),
        Command::Cancel(args) => control::control(&args, "cancel"),
        Command::Abort(args) => control::control(&args, "abort"),
        Command::Disarm(args) => control::control(&args, "disarm"),
        Command::Config(args) => config::config(&args),
        Command::Export(args) => export::export(&args, &signals::stop_on_signal()?),
        Command::Demo(args) => demo::demo(&args),
        Command::Replay(args) => replay::replay(*args),
        Command::Run(args) => run::run(&args.request(signals::stop_on_signal()?)?),
    }
}

/// Writes a line to stdout. A reader that went away (`| head`) has seen enough: that is no failure.
fn say(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(error).context("stdout cannot be written to"))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr. A stderr that is closed is no reason to lose a result.
fn tell(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_said_once_even_when_the_error_quotes_it() {
        let quoting = anyhow::anyhow!("no such file").context("x.h5: no such file");
        assert_eq!(described(&quoting), "x.h5: no such file");
        let plain = Err::<(), _>(anyhow::anyhow!("disk full")).context("phase.npy").unwrap_err();
        assert_eq!(described(&plain), "phase.npy: disk full");
        let twice = anyhow::anyhow!("error: unexpected argument\n");
        assert_eq!(described(&twice), "unexpected argument");
    }
}
