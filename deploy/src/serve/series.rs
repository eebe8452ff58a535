//! One series: how far it is, and what it holds for those who look.

mod json;
mod line;
mod results;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use ingest::record::{LogKey, Which};
use ingest::stream::series::{OwnedKey, SeriesCounts};
use ingest::stream::source::Announced;
use kernels::Processor;
use kernels::types::ScanGeometry;
use resident::{MaskImages, Snapshot};
use ssb::{BrightField, LiveResult, Preview};

use super::asked::Asked;
use super::images::Stamp;
use super::jobs::Progress;
use super::phase::Phase;
use super::warnings;
use crate::optics::{OpticsRequest, ResolvedOptics};
use crate::output::Quantity;
use crate::pipeline::{Choices, Finished, Running, Said, SeriesOptics};
use crate::rings::Rings;

use line::InWords;

/// How far a series is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeriesState {
    /// Frames come.
    Receiving,
    /// Every frame has come or will not come; the phase is being made of them.
    Reconstructing,
    /// Everything came, and there is a phase.
    Complete,
    /// Something is missing.
    Partial,
    /// Nothing came of it.
    Failed,
}

/// Scan rows of which fewer say nothing of descan.
const FEWEST_ROWS_LOOKED_AT: usize = 4;

/// A series of the detector.
#[derive(Debug)]
pub(super) struct Series {
    /// Counts up in this daemon.
    pub(super) number: u64,
    announced: Announced,
    /// What it began with.
    begun: ScanGeometry,
    /// Frames it should have.
    frames: u64,
    started: (SystemTime, Instant),
    /// What its optics are joined from; none where it could not begin.
    setup: Option<Setup>,
    /// What its reader has counted so far.
    live_counts: Arc<Mutex<SeriesCounts>>,
    /// What was said of its frames while they came.
    said_of_frames: Said,
    inner: Mutex<Inner>,
    /// Held while its results are made again.
    remaking: Mutex<()>,
    /// The last line that said what came of it.
    said: Mutex<String>,
}

/// What the choices of a series are joined from.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// What it says itself.
    pub(super) optics: SeriesOptics,
    /// What flags and files say.
    pub(super) request: OpticsRequest,
    /// The virtual detectors where nothing is asked for.
    pub(super) rings: Rings,
}

impl Setup {
    /// What this comes to.
    ///
    /// # Errors
    /// A value that cannot be, in the keys of the API.
    pub(super) fn choices(&self, asked: &Asked) -> anyhow::Result<Choices> {
        let request = OpticsRequest { asked: asked.optics()?, ..self.request.clone() };
        let optics = self.optics.resolve(&request)?;
        Ok(Choices { optics, rings: asked.rings(self.rings)?, moments: asked.moments() })
    }
}

/// What changes.
#[derive(Debug)]
struct Inner {
    state: SeriesState,
    asked: Asked,
    /// The resident and what belongs to it; gone once the next series begins.
    running: Option<Running>,
    /// The last images of rings, to make the next from.
    ring_images: Arc<MaskImages>,
    phase: Phase,
    choices: Option<Choices>,
    /// Counts up with every choice.
    revision: u64,
    /// The results, as long as they are in memory.
    finished: Option<Arc<Finished<Processor>>>,
    ended: Option<Ended>,
    /// What its results come to.
    in_words: Option<InWords>,
    problem: Option<String>,
    /// What was said of it, once and for all.
    warnings: Vec<String>,
    /// What is seen in the frames so far.
    observed: Vec<String>,
    /// Why its results are not on the disk.
    not_written: Option<String>,
    /// Its export.
    export: Option<Progress>,
    /// Scan rows of which descan was looked at.
    rows_looked_at: usize,
}

/// How it ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) why: String,
    pub(super) counts: SeriesCounts,
    pub(super) missing: u64,
    pub(super) corrupt: u64,
    /// Where its results are, once they are written.
    pub(super) folder: Option<PathBuf>,
    /// Where they belong.
    pub(super) belongs: Option<PathBuf>,
    pub(super) seconds: f64,
}

impl Inner {
    /// What is chosen by now.
    fn geometry(&self, begun: ScanGeometry) -> ScanGeometry {
        self.choices.as_ref().map_or(begun, |choices| choices.optics.geometry)
    }

    fn state(&self, frames: u64) -> SeriesState {
        let (SeriesState::Receiving, Some(running)) = (self.state, &self.running) else { return self.state };
        let counters = &running.counters;
        let settled = counters.frames_decoded.get() + counters.frames_missing.get();
        if settled < frames { SeriesState::Receiving } else { SeriesState::Reconstructing }
    }
}

impl Series {
    /// A series that begins; `scan` is its geometry and the frames it should have, `setup` has what is asked for of it, too.
    pub(super) fn new(
        number: u64,
        announced: Announced,
        scan: (ScanGeometry, u64),
        setup: Option<(Setup, Asked)>,
    ) -> Self {
        let (begun, frames) = scan;
        let (setup, asked) = setup.unzip();
        Self {
            number,
            announced,
            begun,
            frames,
            started: (SystemTime::now(), Instant::now()),
            setup,
            live_counts: Arc::default(),
            said_of_frames: Said::default(),
            inner: Mutex::new(Inner {
                state: SeriesState::Receiving,
                asked: asked.unwrap_or_default(),
                running: None,
                ring_images: Arc::default(),
                phase: Phase::default(),
                choices: None,
                revision: 0,
                finished: None,
                ended: None,
                in_words: None,
                problem: None,
                warnings: Vec::new(),
                observed: Vec::new(),
                not_written: None,
                export: None,
                rows_looked_at: 0,
            }),
            remaking: Mutex::default(),
            said: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // nothing is left half done where a thread panicked: every change is one assignment
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is called: the detector's number, and the channel where the detector has several.
    pub(super) fn name(&self) -> String {
        match self.announced.has_others {
            true => format!("series {} {}", self.announced.key.id, self.announced.channel()),
            false => format!("series {}", self.announced.key.id),
        }
    }

    /// The channel as the stream names it, also without a name beside others; none where a series has one alone, without a name.
    pub(super) fn channel(&self) -> Option<String> {
        let first = self.announced.channels.first()?;
        Some(first.name.clone()).filter(|name| !name.is_empty() || self.announced.has_others)
    }

    /// Whether this is another channel of a series that begins; one that is over is of an older series of the same name.
    pub(super) fn is_beside(&self, other: &Announced) -> bool {
        let name = |announced: &Announced| announced.channels.first().map(|channel| channel.name.clone());
        let is_of_it = self.announced.key == other.key && name(&self.announced) != name(other);
        is_of_it && self.inner().ended.is_none()
    }

    /// Where its reader counts.
    pub(super) fn live_counts(&self) -> Arc<Mutex<SeriesCounts>> {
        Arc::clone(&self.live_counts)
    }

    pub(super) fn state(&self) -> SeriesState {
        self.inner().state(self.frames)
    }

    /// The stages are at work on it. What was asked for while they were started counts.
    pub(super) fn running(&self, running: Running) {
        let mut inner = self.inner();
        match inner.choices.clone() {
            Some(choices) => running.chosen.choose(choices),
            None => inner.choices = Some(running.chosen.current()),
        }
        inner.running = Some(running);
    }

    /// Something a person should know, said while the series runs.
    pub(super) fn warn(&self, warning: String) {
        self.inner().warnings.push(warning);
    }

    /// The same of its frames while they come: it stands in its report, too.
    pub(super) fn warn_of_frames(&self, warning: String) {
        self.said_of_frames.say(warning.clone());
        let mut inner = self.inner();
        if !inner.warnings.contains(&warning) {
            inner.warnings.push(warning);
        }
    }

    /// What was said of its frames so far.
    pub(super) fn said_of_frames(&self) -> Said {
        self.said_of_frames.clone()
    }

    /// Whether frames of this series come, or may.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.inner().state, SeriesState::Receiving | SeriesState::Reconstructing)
    }

    /// Whether this is a series of this key.
    pub(super) fn is_of(&self, key: &OwnedKey) -> bool {
        self.announced.key == *key
    }

    /// Sees what there is to be warned of in the frames so far, as soon as the bright field is known; `rows` scan rows are
    /// whole. The beam is followed whenever twice as many rows have come.
    pub(super) fn look(&self, field: &BrightField, rows: usize) {
        let Some(View { snapshot, optics, pixel_mask, .. }) = self.view() else { return };
        let due = {
            let mut inner = self.inner();
            let due = rows >= FEWEST_ROWS_LOOKED_AT && rows >= 2 * inner.rows_looked_at;
            inner.rows_looked_at = if due { rows } else { inner.rows_looked_at };
            due
        };
        let mut observed = warnings::of(&optics, field);
        let moved = |warning: &&String| warning.starts_with(warnings::DESCAN);
        match due {
            true => observed.extend(warnings::descan(&snapshot, field, &pixel_mask, rows)),
            false => observed.extend(self.inner().observed.iter().find(moved).cloned()),
        }
        let mut inner = self.inner();
        if inner.ended.is_none() {
            inner.observed = observed;
        }
    }

    /// What is known to be warned of before the first frame is looked at.
    pub(super) fn expect(&self, warnings: Vec<String>) {
        self.inner().observed = warnings;
    }

    /// Lets go of what takes much memory.
    pub(super) fn release(&self) {
        let mut inner = self.inner();
        (inner.running, inner.finished) = (None, None);
        inner.ring_images = Arc::default();
        inner.phase.release();
    }

    /// Takes the phase of the rows so far. That of another geometry than the one that is chosen by now is not shown.
    pub(super) fn preview(&self, preview: Preview) {
        let mut inner = self.inner();
        let is_of_now = inner.geometry(self.begun) == self.begun;
        let reconstruction = preview.reconstruction.filter(|_| is_of_now);
        inner.phase.preview(Preview { reconstruction, ..preview });
    }

    /// Takes the phase of everything, before its results are written; as [`Self::preview`].
    pub(super) fn reconstructed(&self, live: &LiveResult) {
        let mut inner = self.inner();
        let is_of_now = inner.geometry(self.begun) == self.begun;
        let made = live.reconstruction.clone().filter(|_| is_of_now);
        inner.phase.finish(live.bright_field.clone(), made);
    }

    /// Reads the phase.
    pub(super) fn phase<R>(&self, read: impl FnOnce(&Phase) -> R) -> R {
        read(&self.inner().phase)
    }

    /// It is over, without results.
    pub(super) fn failed(&self, problem: String, ended: Option<Ended>) {
        let mut inner = self.inner();
        inner.state = SeriesState::Failed;
        inner.problem = Some(problem);
        inner.ended = ended;
        inner.running = None;
    }

    /// What has been kept so far, with what is chosen and the mask; nothing once the memory was let go.
    pub(super) fn view(&self) -> Option<View> {
        let inner = self.inner();
        let running = inner.running.as_ref()?;
        let Choices { optics, rings, .. } = running.chosen.current();
        let snapshot = running.resident.snapshot();
        // it fits: otherwise it would not have been taken
        let snapshot = snapshot.with_geometry(optics.geometry).unwrap_or(snapshot);
        let measured = inner.finished.as_ref().map(|finished| finished.report.optics.clone());
        Some(View {
            snapshot,
            optics: measured.unwrap_or(optics),
            rings,
            pixel_mask: running.pixel_mask.clone(),
        })
    }

    /// What an image of it would be made of now; nothing before the first frame is kept, and once the memory was let go.
    pub(super) fn stamp(&self, quantity: Quantity) -> Option<Stamp> {
        let inner = self.inner();
        let frames = inner.running.as_ref()?.resident.snapshot().totals().frames;
        if frames == 0 || !inner.phase.has(quantity) {
            return None;
        }
        let of_phase = matches!(quantity, Quantity::Phase | Quantity::Amplitude | Quantity::MeanPhase);
        Some(Stamp {
            series: self.number,
            frames: if of_phase { 0 } else { frames },
            phase: inner.phase.version(),
            choices: inner.revision,
        })
    }

    /// Its key in the log: of the series of this name, the last that had begun when its first image came.
    pub(super) fn key(&self) -> LogKey {
        let which = Which::BegunBy(self.announced.first_message);
        LogKey { key: self.announced.key.clone(), which }
    }

    /// An export of it is under way, or was.
    pub(super) fn set_export(&self, progress: Progress) {
        self.inner().export = Some(progress);
    }

    /// Its export, if one was asked for.
    pub(super) fn export(&self) -> Option<Progress> {
        self.inner().export.clone()
    }

    /// What is chosen for it.
    pub(super) fn choices(&self) -> Option<Choices> {
        self.inner().choices.clone()
    }

    /// Where its results belong; they have the name of the series.
    pub(super) fn belongs(&self) -> Option<PathBuf> {
        self.inner().ended.as_ref()?.belongs.clone()
    }

    /// The last images of rings, for its snapshots alone.
    pub(super) fn ring_images(&self) -> Arc<MaskImages> {
        self.inner().ring_images.clone()
    }

    /// Where its results are.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.inner().ended.as_ref()?.folder.clone()
    }

    /// Bytes of its encoded resident.
    pub(super) fn held_bytes(&self) -> Option<u64> {
        Some(self.inner().running.as_ref()?.resident.snapshot().totals().held_bytes)
    }
}

/// What an image is computed from.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) snapshot: Snapshot,
    /// With what was measured, once it was.
    pub(super) optics: ResolvedOptics,
    pub(super) rings: Rings,
    /// The detector's own mask, 0 is good.
    pub(super) pixel_mask: Vec<u32>,
}

/// What to say when a second reader takes its turns.
pub(super) const SHARED: &str =
    "every other frame is missing: a SECOND READER is connected to the detector and takes them";
