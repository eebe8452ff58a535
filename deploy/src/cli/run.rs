//! `sideband run`: starts it, lets Ctrl-C end it, says how it went.

use std::path::Path;

use anyhow::Context;

use super::{Ending, say};
use crate::report::{RESULT_FILE, RunReport, Status};
use crate::request::{RunRequest, StopFlag};

/// Runs a request to its end and says how it went.
///
/// # Errors
/// Those of the run.
pub(super) fn run(request: &RunRequest) -> anyhow::Result<Ending> {
    stop_on_ctrl_c(&request.stop)?;
    let report = crate::pipeline::run(request.clone())?;
    conclude(&report, &request.out)
}

/// Lets the first Ctrl-C ask for an orderly end, and the second end at once.
///
/// # Errors
/// The system refuses the handler.
pub fn stop_on_ctrl_c(stop: &StopFlag) -> anyhow::Result<()> {
    let stop = stop.clone();
    ctrlc::set_handler(move || {
        if stop.is_raised() {
            std::process::exit(130);
        }
        eprintln!("\nstopping; what has arrived will be saved (again Ctrl-C ends at once)");
        stop.raise();
    })
    .context("Ctrl-C cannot be handled")
}

/// Says where the results are and what is to be known of them: the place on stdout, warnings on stderr.
///
/// # Errors
/// Stdout cannot be written to.
pub fn conclude(report: &RunReport, out: &Path) -> anyhow::Result<Ending> {
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    say(&conclusion(report, out))?;
    Ok(match report.status {
        Status::Interrupted => Ending::Interrupted,
        Status::Complete | Status::Partial => Ending::Done,
    })
}

fn conclusion(report: &RunReport, out: &Path) -> String {
    let frames = &report.frames;
    let mut lines = vec![match report.status {
        Status::Complete => format!("complete: {} frames", frames.received),
        Status::Partial => {
            format!("PARTIAL: {} of {} frames, {} missing", frames.received, frames.expected, frames.missing)
        }
        Status::Interrupted => format!("INTERRUPTED: {} of {} frames", frames.received, frames.expected),
    }];
    for image in &report.images {
        lines.extend(
            image
                .files
                .iter()
                .filter(|file| file.ends_with(".png"))
                .map(|file| out.join(file).display().to_string()),
        );
    }
    lines.push(out.join(RESULT_FILE).display().to_string());
    lines.join("\n")
}
