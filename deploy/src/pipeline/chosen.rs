//! How an acquisition is looked at: chosen at its beginning, and changed by whoever knows better while it comes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ssb::{Known, Microscope, Moments};

use crate::optics::ResolvedOptics;
use crate::rings::Rings;

/// Choices that are remembered: results are told with those they were made by.
const MOST_REMEMBERED: usize = 32;

/// What can be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Choices {
    /// The microscope.
    pub optics: ResolvedOptics,
    /// The virtual detectors.
    pub rings: Rings,
    /// Whether the mean phase is computed.
    pub moments: Moments,
}

/// The choices of an acquisition, shared by its stages and all who may change them.
#[derive(Clone, Debug)]
pub struct Chosen {
    microscope: Microscope,
    /// Never empty; the last counts.
    all: Arc<Mutex<Vec<Choices>>>,
}

impl Chosen {
    /// The first choice.
    pub fn new(choices: Choices) -> Self {
        let microscope = Microscope::new(choices.optics.known());
        Self { microscope, all: Arc::new(Mutex::new(vec![choices])) }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Choices>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes effect from the next preview on, and for the results.
    pub fn choose(&self, choices: Choices) {
        let mut all = self.all();
        self.microscope.set(choices.optics.known());
        if all.len() >= MOST_REMEMBERED {
            all.remove(0);
        }
        all.push(choices);
    }

    /// What is chosen now.
    pub fn current(&self) -> Choices {
        self.by(|_| true)
    }

    /// The last choice by which this was known.
    pub(super) fn of(&self, known: &Known) -> Choices {
        self.by(|choices| choices.optics.known() == *known)
    }

    fn by(&self, is_it: impl Fn(&Choices) -> bool) -> Choices {
        let all = self.all();
        let at = all.iter().rposition(is_it).unwrap_or(all.len().saturating_sub(1));
        all[at].clone()
    }

    /// For the stage that reconstructs.
    pub(super) fn microscope(&self) -> Microscope {
        self.microscope.clone()
    }
}
