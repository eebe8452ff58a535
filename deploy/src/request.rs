//! What a run is asked to do.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::optics::OpticsRequest;
use crate::rings::Rings;

/// Everything a run is told: the acquisition, where results go, the microscope, the limits.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The DECTRIS master file.
    pub master: PathBuf,
    /// The folder for images and `result.json`; made when it does not exist.
    pub out: PathBuf,
    /// What flags and the optics file say, not yet joined with what the files say.
    pub optics: OpticsRequest,
    /// Most bytes the encoded resident may take; none: chosen from the memory that is free.
    pub memory_budget_bytes: Option<u64>,
    /// Worker threads; none: one a core.
    pub threads: Option<usize>,
    /// Also compute the mean phase and the phase-variance loss (one inverse transform a bright-field pixel).
    pub loss: bool,
    /// Say nothing on stderr but errors.
    pub quiet: bool,
    /// The virtual detectors.
    pub rings: Rings,
    /// Raised to end the run in good order, with partial results saved.
    pub stop: StopFlag,
}

/// Ended on request with nothing to show for it; the command line ends with code 130 on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted {what}")]
pub struct Interrupted {
    /// When it was, and what has become of the work.
    pub what: String,
}

/// The one stop flag of a run or a simulation: raised by Ctrl-C, read by whatever takes long.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks for an end in good order.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// The flag itself, as stages of other crates read it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// True once an end was asked for.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_of_a_stop_flag_sees_it_raised() {
        let flag = StopFlag::default();
        let copy = flag.clone();
        assert!(!copy.is_raised());
        flag.raise();
        assert!(copy.is_raised());
    }
}
