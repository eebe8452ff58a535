//! `sideband run`: runs, and says how it went.

use std::path::Path;

use super::{Ending, say, tell};
use crate::output::Quantity;
use crate::report::{RESULT_FILE, RunReport, Status};
use crate::request::RunRequest;

/// Runs a request to its end and says how it went.
///
/// # Errors
/// Those of the run.
pub(super) fn run(request: &RunRequest) -> anyhow::Result<Ending> {
    let mut ending = Ending::Done;
    for report in crate::pipeline::run(request.clone())? {
        match conclude(&report, &report.folder)? {
            Ending::Done => {}
            worse => ending = worse,
        }
    }
    Ok(ending)
}

/// Says where the results are and what is to be known of them: the place on stdout, warnings on stderr.
///
/// # Errors
/// Stdout cannot be written to at the end of a run that was not interrupted.
fn conclude(report: &RunReport, out: &Path) -> anyhow::Result<Ending> {
    for warning in &report.warnings {
        tell(&format!("warning: {warning}"));
    }
    let said = say(&conclusion(report, out));
    // A terminal that went away takes no words, and what it sent says how the run ended.
    if !report.interrupted {
        said?;
    }
    Ok(match (report.interrupted, has_phase(report)) {
        (true, _) => Ending::Interrupted,
        (false, true) => Ending::Done,
        (false, false) => Ending::NoPhase,
    })
}

fn has_phase(report: &RunReport) -> bool {
    report.images.iter().any(|image| image.name == Quantity::Phase.stem())
}

fn conclusion(report: &RunReport, out: &Path) -> String {
    let frames = &report.frames;
    let counts = format!("{} of {} frames, {} missing", frames.received, frames.expected, frames.missing);
    let interrupted = if report.interrupted { ", interrupted" } else { "" };
    let no_phase = if has_phase(report) { "" } else { ", no phase image" };
    let mut lines = vec![match report.status {
        Status::Complete => format!("complete: {} frames", frames.received),
        Status::Partial => format!("PARTIAL{interrupted}{no_phase}: {counts}"),
    }];
    let pictures = report.images.iter().flat_map(|image| &image.files).filter(|file| file.ends_with(".png"));
    lines.extend(pictures.map(|file| out.join(file).display().to_string()));
    lines.push(out.join(RESULT_FILE).display().to_string());
    lines.join("\n")
}
