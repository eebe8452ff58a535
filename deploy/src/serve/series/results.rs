//! What is chosen for a series, and its results: made, made again by other choices, written, written later.

use std::sync::{Arc, PoisonError};

use anyhow::{Context, anyhow, ensure};
use kernels::Processor;
use serde_json::{Value, json};

use super::{Ended, InWords, Series, SeriesState};
use crate::optics::{OpticsError, in_keys};
use crate::pipeline::Finished;
use crate::report::Status;
use crate::serve::asked::{Resource, geometry_json, rings_json};

impl Series {
    /// Takes what is asked for: it counts from the next preview on, and for the results. Results that are there already are
    /// made again by [`Self::remake`].
    ///
    /// # Errors
    /// Something that cannot be, with what was got and expected; the series is no longer in memory.
    pub(in crate::serve) fn ask(&self, resource: Resource, body: &Value) -> anyhow::Result<()> {
        let setup = self.setup.as_ref().context("the series could not begin")?;
        let mut inner = self.inner();
        let is_over = !matches!(inner.state, SeriesState::Receiving | SeriesState::Reconstructing);
        ensure!(
            inner.running.is_some() || !is_over,
            "series {} is no longer in memory; from a recording it can be finished again",
            self.number
        );
        let asked = inner.asked.with(resource, body)?;
        let choices = setup.choices(&asked).map_err(|error| match error.downcast_ref::<OpticsError>() {
            Some(of_optics) => anyhow!(resource.in_its_keys(in_keys(of_optics))),
            None => error,
        })?;
        if choices.optics.geometry != inner.geometry(self.begun) {
            // of another scan
            inner.phase.release();
        }
        inner.asked = asked;
        if let Some(running) = &inner.running {
            running.chosen.choose(choices.clone());
        }
        inner.choices = Some(choices);
        inner.revision += 1;
        Ok(())
    }

    /// What is chosen, and what is asked for of it; none where the series could not begin.
    pub(in crate::serve) fn chosen_json(&self, resource: Resource) -> Option<Value> {
        let setup = self.setup.as_ref()?;
        let inner = self.inner();
        let choices = match &inner.choices {
            Some(choices) => choices.clone(),
            None => setup.choices(&inner.asked).ok()?,
        };
        Some(match resource {
            Resource::Optics => {
                let keys: Vec<_> =
                    choices.optics.unknown().into_iter().map(|unknown| unknown.key()).collect();
                let asked = inner.asked.optics_json();
                json!({ "values": choices.optics.table(), "asked": asked, "missing": keys, "hints": self.hints() })
            }
            Resource::Geometry => geometry_json(&choices.optics.table()),
            Resource::Masks => {
                let mut masks = rings_json(&choices.rings);
                let field = inner.phase.bright_field();
                let pinned = (&choices.optics.bf_centre, &choices.optics.bf_radius);
                let centre = pinned.0.as_ref().map(|centre| centre.value.map(|px| px.0));
                masks["centre_px"] = json!(centre.or(field.map(|field| field.centre)));
                let radius = pinned.1.as_ref().map(|radius| radius.value.0);
                masks["radius_px"] = json!(radius.or(field.map(|field| field.radius.0)));
                masks
            }
            Resource::Reconstruction => json!({ "mean_phase": choices.moments == ssb::Moments::Compute }),
        })
    }

    /// It is over, with results.
    pub(in crate::serve) fn finished(&self, finished: Finished<Processor>, ended: Ended) {
        let mut inner = self.inner();
        inner.ended = Some(ended);
        drop(inner);
        self.take(finished);
    }

    /// Shows results.
    fn take(&self, finished: Finished<Processor>) {
        let mut inner = self.inner();
        let report = &finished.report;
        let is_complete = report.status == Status::Complete;
        inner.state = if is_complete { SeriesState::Complete } else { SeriesState::Partial };
        // what was said at the beginning is among them
        let lasting = finished.lasting_warnings();
        inner.warnings.retain(|warning| !lasting.contains(warning));
        inner.observed = report.warnings.clone();
        inner.not_written = finished.not_written.clone();
        inner.in_words = Some(InWords::of(&finished));
        if let Some(live) = &finished.live {
            let optics = report.optics.optics_at(live.bright_field.sampling);
            // of another scan than the one that is chosen by now: it is about to be made again
            let is_of_now = finished.choices.optics.geometry == inner.geometry(self.begun);
            let made = live.reconstruction.clone().filter(|_| is_of_now);
            inner.phase.finish(live.bright_field.clone(), made);
            if let Some((spectra, optics)) = finished.spectra.clone().zip(optics).filter(|_| is_of_now) {
                inner.phase.keep(spectra, optics);
            }
        }
        // one whose memory was let go meanwhile keeps its files alone
        if inner.running.is_some() {
            inner.finished = Some(Arc::new(finished));
        }
    }

    /// Makes the results again, where something else is chosen by now, and writes them; true where it did.
    ///
    /// # Errors
    /// An image cannot be computed. Results that cannot be written are shown, and said to be not written.
    pub(in crate::serve) fn remake(&self) -> anyhow::Result<bool> {
        let _alone = self.remaking.lock().unwrap_or_else(PoisonError::into_inner);
        let (finished, snapshot, pixel_mask, choices) = {
            let inner = self.inner();
            let (Some(finished), Some(running)) = (&inner.finished, &inner.running) else { return Ok(false) };
            let choices = running.chosen.current();
            if finished.choices == choices {
                return Ok(false);
            }
            (finished.clone(), running.resident.snapshot(), running.pixel_mask.clone(), choices)
        };
        let mut again = finished.again(&snapshot, &pixel_mask, choices)?;
        if let Some(folder) = self.belongs() {
            let written = again.write(&folder);
            again.not_written = written.as_ref().err().map(|error| format!("{error:#}"));
            // those before may not have been written
            if let Some(ended) = self.inner().ended.as_mut().filter(|_| written.is_ok()) {
                ended.folder = Some(folder);
            }
        }
        self.take(again);
        Ok(true)
    }

    /// Tries once more to write results that could not be written; true where that went well.
    pub(in crate::serve) fn write_again(&self) -> bool {
        let _alone = self.remaking.lock().unwrap_or_else(PoisonError::into_inner);
        let finished = {
            let inner = self.inner();
            inner.finished.clone().filter(|_| inner.not_written.is_some())
        };
        let Some((finished, folder)) = finished.zip(self.belongs()) else { return false };
        let mut finished = Finished::clone(&finished);
        let written = finished.write(&folder);
        finished.not_written = written.as_ref().err().map(|error| format!("{error:#}"));
        let mut inner = self.inner();
        inner.not_written = finished.not_written.clone();
        if let Some(ended) = inner.ended.as_mut().filter(|_| written.is_ok()) {
            ended.folder = Some(folder);
        }
        if inner.finished.is_some() {
            inner.finished = Some(Arc::new(finished));
        }
        written.is_ok()
    }
}
