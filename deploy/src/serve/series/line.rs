//! The line that says what came of a series, and says it anew once something else has come of it.

use std::sync::PoisonError;

use kernels::Processor;

use super::{SHARED, Series};
use crate::output::Quantity;
use crate::pipeline::Finished;

/// What results come to, in words.
#[derive(Clone, Debug)]
pub(super) struct InWords {
    /// `complete: 4096 of 4096 frames, 0 missing`
    frames: String,
    /// That there is no phase, and why; empty where there is one.
    no_phase: String,
}

impl InWords {
    pub(super) fn of(finished: &Finished<Processor>) -> Self {
        let (report, frames) = (&finished.report, &finished.report.frames);
        let has_phase = finished.images.iter().any(|image| image.quantity() == Quantity::Phase);
        let no_phase = match (has_phase, report.optics.unknown_text()) {
            (true, _) => String::new(),
            (false, Some(unknown)) => format!(", no phase image ({unknown})"),
            (false, None) => ", no phase image".to_owned(),
        };
        let state = if frames.missing == 0 && has_phase { "complete" } else { "PARTIAL" };
        let frames =
            format!("{state}: {} of {} frames, {} missing", frames.received, frames.expected, frames.missing);
        Self { frames, no_phase }
    }
}

impl Series {
    /// Says what has come of it by now; nothing where that was said already, or nothing has.
    pub(in crate::serve) fn say_outcome(&self, say: &dyn Fn(&str)) {
        // held while it is said: the last line is of the last results
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = self.line().filter(|line| *line != *said) {
            say(&line);
            *said = line;
        }
    }

    fn line(&self) -> Option<String> {
        let inner = self.inner();
        let (words, ended) = (inner.in_words.as_ref()?, inner.ended.as_ref()?);
        let shared = if ended.counts.is_shared() { format!("; {SHARED}") } else { String::new() };
        let place = match (&inner.not_written, &ended.folder) {
            (Some(why), _) => format!("results NOT WRITTEN ({why})"),
            (None, Some(folder)) => folder.display().to_string(),
            (None, None) => "results NOT WRITTEN".to_owned(),
        };
        let InWords { frames, no_phase } = words;
        Some(format!("{}: {frames} ({}{shared}){no_phase}, {place}", self.name(), ended.why))
    }
}
