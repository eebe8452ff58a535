//! What the detector says of itself while the daemon listens: asked once a second, never told anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kernels::types::{DetectorShape, ScanShape};
use serde_json::Value;

use crate::request::StopFlag;
use crate::simplon::Simplon;

/// From one question to the next.
const EVERY: Duration = Duration::from_secs(1);
/// How often the stop flag is looked at meanwhile.
const TICK: Duration = Duration::from_millis(50);

/// The last answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// `detector/status/state`.
    pub(super) state: Option<String>,
    /// `stream/status/dropped`: messages that nobody took.
    pub(super) dropped: Option<u64>,
    /// Images a trigger, triggers a series.
    pub(super) images: Option<(u64, u64)>,
    /// Its own mask, 0 is good, with its shape; asked whenever its state has changed.
    pub(super) pixel_mask: Option<Arc<([usize; 2], Vec<u32>)>>,
    /// Why there is no answer.
    pub(super) problem: Option<String>,
}

impl Said {
    /// Its mask, where it is of a detector of this shape.
    pub(super) fn mask_of(&self, detector: DetectorShape) -> Option<Vec<u32>> {
        let (shape, mask) = &**self.pixel_mask.as_ref()?;
        let DetectorShape { rows, cols } = detector;
        // told as [x, y] by some
        (*shape == [rows, cols] || *shape == [cols, rows]).then(|| mask.clone())
    }

    /// Lines x points a line, where the detector is set so: a trigger a line.
    pub(super) fn scan(&self) -> Option<ScanShape> {
        let (nimages, ntrigger) = self.images?;
        let more_than_one = |number: u64| usize::try_from(number).ok().filter(|&number| number > 1);
        Some(ScanShape { rows: more_than_one(ntrigger)?, cols: more_than_one(nimages)? })
    }
}

/// Asks the detector.
#[derive(Debug)]
pub(super) struct Watch {
    said: Mutex<Said>,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { said: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last answers.
    pub(super) fn said(&self) -> Said {
        self.lock().clone()
    }

    /// Asks until the stop flag is raised.
    pub(super) fn run(&self, detector: &Simplon, stop: &StopFlag) {
        while !stop.is_raised() {
            self.look(detector);
            for _ in 0..EVERY.as_millis() / TICK.as_millis() {
                if !stop.is_raised() {
                    std::thread::sleep(TICK);
                }
            }
        }
    }

    /// Asks once; also where an answer is wanted that is not a second old.
    pub(super) fn look(&self, detector: &Simplon) {
        let number = |module, kind, name| anyhow::Ok(detector.value(module, kind, name)?.as_u64());
        let asked = || {
            let state = detector.value("detector", "status", "state")?;
            let state = state.as_str().map(str::to_owned);
            let dropped = detector.value("stream", "status", "dropped")?;
            // a list, one a channel, in some versions
            let dropped = match &dropped {
                Value::Array(all) => Some(all.iter().filter_map(Value::as_u64).sum()),
                one => one.as_u64(),
            };
            let nimages = number("detector", "config", "nimages")?;
            let ntrigger = number("detector", "config", "ntrigger")?;
            let before = self.said();
            let pixel_mask = match before.pixel_mask.filter(|_| before.state == state) {
                Some(mask) => Some(mask),
                // one that does not tell its mask is no reason to know nothing of it
                None => detector.pixel_mask().ok().map(Arc::new),
            };
            anyhow::Ok(Said { state, dropped, images: nimages.zip(ntrigger), pixel_mask, problem: None })
        };
        match asked() {
            Ok(said) => *self.lock() = said,
            Err(error) => {
                let mut said = self.lock();
                (said.state, said.problem) = (None, Some(format!("{error:#}")));
            }
        }
    }
}
