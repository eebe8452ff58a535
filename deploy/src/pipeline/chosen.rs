//! How an acquisition is looked at: chosen at its beginning, and changed by whoever knows better while it comes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kernels::types::ScanGeometry;
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
            // the first is the one that the stages began with
            all.remove(1);
        }
        all.push(choices);
    }

    /// What is chosen now.
    pub fn current(&self) -> Choices {
        let all = self.all();
        all[all.len().saturating_sub(1)].clone()
    }

    /// The last choice of a geometry by which this was known; where there is none, the last of the geometry.
    pub(super) fn of(&self, known: Option<&Known>, geometry: &ScanGeometry) -> Choices {
        let is_of = |choices: &Choices| choices.optics.geometry == *geometry;
        let is_it =
            |choices: &Choices| is_of(choices) && known.is_none_or(|known| choices.optics.known() == *known);
        let all = self.all();
        let at = all.iter().rposition(is_it).or_else(|| all.iter().rposition(is_of));
        all[at.unwrap_or(all.len().saturating_sub(1))].clone()
    }

    /// For the stage that reconstructs.
    pub(super) fn microscope(&self) -> Microscope {
        self.microscope.clone()
    }
}
