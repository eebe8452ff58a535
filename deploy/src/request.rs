//! What a run is asked to do.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::optics::OpticsRequest;

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

/// The one stop flag of a run: raised by Ctrl-C, read by every stage.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks the run to end in good order.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// True once the run has been asked to end.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A ring about the beam centre, in units of the bright-field radius R: a pixel belongs to it when
/// inner R <= distance <= outer R.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ring {
    /// Inner radius in units of R; 0 for a disk.
    pub inner: f64,
    /// Outer radius in units of R; infinity reaches to the corners.
    pub outer: f64,
}

/// The three virtual detectors of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rings {
    /// Bright field.
    pub bf: Ring,
    /// Annular dark field.
    pub adf: Ring,
    /// Dark field: everything outside the disk.
    pub df: Ring,
}

impl Default for Rings {
    /// bf r <= 0.9 R; adf 1.2 R <= r <= 1.85 R; df 1.1 R <= r.
    fn default() -> Self {
        Self {
            bf: Ring { inner: 0.0, outer: 0.9 },
            adf: Ring { inner: 1.2, outer: 1.85 },
            df: Ring { inner: 1.1, outer: f64::INFINITY },
        }
    }
}

impl std::str::FromStr for Ring {
    type Err = String;

    /// Reads `IN,OUT` in units of the bright-field radius; `inf` is allowed as OUT.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once(',')
            .and_then(|(inner, outer)| Some((inner.trim().parse().ok()?, outer.trim().parse().ok()?)));
        match parsed {
            Some((inner, outer)) if 0.0 <= inner && inner < outer && f64::is_finite(inner) => {
                Ok(Self { inner, outer })
            }
            _ => Err(format!(
                "got ring '{text}', expected IN,OUT with 0 <= IN < OUT in units of the bright-field radius, such as 1.2,1.85 or 1.1,inf"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_read_from_text_and_nonsense_is_refused_by_its_text() {
        assert_eq!("1.2, 1.85".parse(), Ok(Ring { inner: 1.2, outer: 1.85 }));
        assert_eq!("1.1,inf".parse(), Ok(Ring { inner: 1.1, outer: f64::INFINITY }));
        for nonsense in ["", "1", "2,1", "-1,2", "nan,2", "1,nan", "inf,inf", "1,1"] {
            let refused = nonsense.parse::<Ring>().unwrap_err();
            assert!(refused.contains(&format!("'{nonsense}'")), "{refused}");
        }
    }

    #[test]
    fn every_copy_of_a_stop_flag_sees_it_raised() {
        let flag = StopFlag::default();
        let copy = flag.clone();
        assert!(!copy.is_raised());
        flag.raise();
        assert!(copy.is_raised());
    }
}
