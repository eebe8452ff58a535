//! What a run is asked to do.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::ensure;
use ingest::stream::threshold::Threshold;
use kernels::Processor;

use crate::optics::OpticsRequest;
use crate::rings::Rings;

/// Everything a run is told: the acquisition, where results go, the microscope, the limits.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The DECTRIS master file, or the folder of a recorder's log.
    pub master: PathBuf,
    /// Which series of a log, by its number or its unique name; the last where none is named.
    pub series: Option<String>,
    /// Which channels of a series of a log.
    pub threshold: Threshold,
    /// The folder for images and `result.json`; made when it does not exist.
    pub out: PathBuf,
    /// What flags and the optics file say, not yet joined with what the files say.
    pub optics: OpticsRequest,
    /// Most bytes the encoded resident may take; none: chosen from the memory that is free.
    pub memory_budget_bytes: Option<u64>,
    /// Runs that share the memory: this one and those beside it.
    pub at_once: u64,
    /// Worker threads, at most [`MOST_THREADS`]; none: one a core.
    pub threads: Option<usize>,
    /// What computes phases.
    pub processor: Processor,
    /// Also compute the mean phase and the phase-variance loss (one inverse transform a bright-field pixel).
    pub loss: bool,
    /// Say nothing on stderr but errors.
    pub quiet: bool,
    /// The virtual detectors.
    pub rings: Rings,
    /// Raised to end the run in good order, with partial results saved.
    pub stop: StopFlag,
}

/// Most worker threads a run or a simulation can be given: more than any machine gains from.
pub const MOST_THREADS: usize = 1024;

/// Reads the value of `--threads`.
///
/// # Errors
/// The text, and what was expected.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    let refused = || format!("got '{text}', expected 1 to {MOST_THREADS} threads");
    text.parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads)).ok_or_else(refused)
}

/// Refuses a number of threads that [`parse_threads`] would refuse.
///
/// # Errors
/// The number, and what was expected.
pub(crate) fn check_threads(asked: Option<usize>) -> anyhow::Result<()> {
    if let Some(threads) = asked {
        ensure!(
            (1..=MOST_THREADS).contains(&threads),
            "--threads: got {threads}, expected 1 to {MOST_THREADS} threads"
        );
    }
    Ok(())
}

/// Ended on request with nothing to show for it; the command line ends with the code of the signal on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted {what}")]
pub struct Interrupted {
    /// When it was, and what has become of the work.
    pub what: String,
}

/// Asked in a way that cannot be done, whatever is on the disk; the command line ends with 2 on it.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct WrongFlags(pub anyhow::Error);

impl WrongFlags {
    /// The same words, as what is wrong with the flags.
    pub(crate) fn because(error: impl Into<anyhow::Error>) -> anyhow::Error {
        Self(error.into()).into()
    }
}

/// The one stop flag of a run or a simulation: raised by Ctrl-C and its like, read by whatever takes long.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    raised: Arc<AtomicBool>,
    cause: Arc<OnceLock<String>>,
}

impl StopFlag {
    /// Asks for an end in good order.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::SeqCst);
    }

    /// As [`raise`](Self::raise), with the name of what asks; of several the first counts.
    pub fn raise_for(&self, cause: &str) {
        self.cause.get_or_init(|| cause.to_owned());
        self.raise();
    }

    /// What asked for the end.
    pub fn cause(&self) -> &str {
        self.cause.get().map_or("request", String::as_str)
    }

    /// The flag itself, as stages of other crates read it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.raised)
    }

    /// True once an end was asked for.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
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
