//! Ctrl-C: the first asks for an end in good order, the second ends at once.

use anyhow::Context;

use super::tell;
use crate::request::StopFlag;

/// A stop flag that Ctrl-C raises; one a process. The second Ctrl-C ends the process with code 130.
///
/// # Errors
/// The system refuses the handler.
pub(super) fn stop_on_ctrl_c() -> anyhow::Result<StopFlag> {
    let stop = StopFlag::default();
    let raised = stop.clone();
    ctrlc::set_handler(move || {
        if raised.is_raised() {
            std::process::exit(130);
        }
        raised.raise();
        tell("\nstopping in good order (again Ctrl-C ends at once)");
    })
    .context("Ctrl-C cannot be handled")?;
    Ok(stop)
}
