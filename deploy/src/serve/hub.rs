//! What everybody may know: the state of the daemon and of every series, behind one lock that is held for moments.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ingest::counters::Counter;
use ingest::record::RecordCounters;
use ingest::stream::over::Notice;
use ingest::stream::receive::ReceiveCounters;
use ingest::stream::series::{OwnedKey, SeriesCounts};
use ingest::stream::source::{Announced, StreamSource};
use kernels::types::ScanGeometry;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::ServeRequest;
use super::asked::{Asked, Resource, geometry_json, rings_json};
use super::detector::Watch;
use super::jobs::Jobs;
use super::recorded::Recorded;
use super::series::{Series, SeriesState, Setup};
use crate::doctor::{MemoryReport, free_bytes};
use crate::optics::OpticsRequest;
use crate::rings::Rings;
use crate::simplon::Simplon;

/// Series that are listed; older ones are forgotten, their folders stay.
const MOST_SERIES: usize = 100;
/// How old a status may be that is sent as an event.
const STATUS_AGE: Duration = Duration::from_millis(50);

/// Takes the lines that a person or a script waits for.
#[derive(Clone)]
pub(super) struct Say(pub(super) Arc<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for Say {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Say")
    }
}

/// Shared by the daemon and all who look.
#[derive(Debug)]
pub(super) struct Hub {
    inner: Mutex<Inner>,
    say: Say,
    /// Counts up with every change.
    changed: watch::Sender<u64>,
    pub(super) receive: Arc<ReceiveCounters>,
    pub(super) garbage: Arc<Counter>,
    /// Of the recorder; 0 where nothing is recorded.
    pub(super) recorded: Arc<RecordCounters>,
    /// Where it records.
    log: Option<PathBuf>,
    /// `HOST:PORT` of the stream.
    address: String,
    pub(super) out: PathBuf,
    /// The virtual detectors where nothing is asked for.
    rings: Rings,
    /// The microscope where nothing is asked for.
    optics: OpticsRequest,
    /// The detector's own interface, where it is known.
    pub(super) detector: Option<Simplon>,
    /// What it said last.
    pub(super) watch: Watch,
    /// The last status as text: when it was made, of which change.
    last_status: Mutex<Option<(Instant, u64, Arc<str>)>>,
    /// Series of earlier runs.
    pub(super) recorded_before: Recorded,
    /// Exports, and series of the log that are finished again.
    pub(super) jobs: Jobs,
    /// Where exports go.
    pub(super) exports: PathBuf,
}

/// A series of which no image has come.
#[derive(Clone, Debug)]
struct Armed {
    announced: Announced,
    /// What there is to be warned of before it comes.
    warnings: Vec<String>,
}

#[derive(Debug, Default)]
struct Inner {
    /// A series is armed and no image has come; what is known of it.
    armed: Option<Armed>,
    /// What was not understood while a series was armed, one sentence each, and which series.
    not_understood: Vec<(OwnedKey, String)>,
    is_stopping: bool,
    /// Oldest first; the last is the newest.
    series: Vec<Arc<Series>>,
    begun: u64,
    /// What is asked for of the next series.
    asked: Asked,
}

impl Hub {
    pub(super) fn new(
        request: &ServeRequest,
        receive: Arc<ReceiveCounters>,
        recorded: Arc<RecordCounters>,
        source: &StreamSource,
        say: Say,
    ) -> Self {
        Self {
            inner: Mutex::default(),
            say,
            changed: watch::Sender::new(0),
            receive,
            garbage: source.garbage(),
            recorded,
            log: request.record.as_ref().map(|settings| settings.folder.clone()),
            address: request.stream.clone(),
            out: request.out.clone(),
            rings: request.rings,
            optics: request.optics.clone(),
            detector: request.api.as_deref().map(Simplon::new),
            watch: Watch::new(),
            last_status: Mutex::default(),
            recorded_before: Recorded::default(),
            jobs: Jobs::new(request.record.as_ref().map(|settings| settings.folder.clone())),
            exports: request.export.folder.clone(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // nothing is left half done where a thread panicked: every change is one assignment
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says a line.
    pub(super) fn say(&self, line: &str) {
        (self.say.0)(line);
    }

    /// Tells everybody who waits that there is something new.
    pub(super) fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Changes as they come.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The detector is armed.
    pub(super) fn armed(&self, announced: &Announced, warnings: Vec<String>) {
        let mut inner = self.inner();
        inner.armed = Some(Armed { announced: announced.clone(), warnings });
        inner.not_understood.clear();
        drop(inner);
        self.tell();
    }

    /// Warns anew of a series that is armed, of which there is more to be known by now.
    pub(super) fn warn_armed(&self, of: impl FnOnce(&Announced) -> Vec<String>) {
        let Some(Armed { announced, .. }) = self.inner().armed.clone() else { return };
        let warnings = of(&announced);
        if let Some(armed) = self.inner().armed.as_mut().filter(|armed| armed.announced.key == announced.key)
        {
            armed.warnings = warnings;
        }
        self.tell();
    }

    /// A series begins, with what it is made of and what is asked for of it where it can begin; what older ones hold in
    /// memory is let go.
    pub(super) fn begin(
        &self,
        announced: Announced,
        geometry: ScanGeometry,
        frames: u64,
        setup: Option<(Setup, Asked)>,
    ) -> Arc<Series> {
        self.jobs.make_way();
        let series = {
            let mut inner = self.inner();
            inner.armed = None;
            inner.begun += 1;
            let older = inner.series.iter().filter(|series| !series.is_beside(&announced));
            older.for_each(|series| series.release());
            let series = Arc::new(Series::new(inner.begun, announced, (geometry, frames), setup));
            inner.series.push(series.clone());
            let surplus = inner.series.len().saturating_sub(MOST_SERIES);
            inner.series.drain(..surplus);
            series
        };
        self.tell();
        series
    }

    /// What is asked for of the next series.
    pub(super) fn asked(&self) -> Asked {
        self.inner().asked.clone()
    }

    /// Asks for something of the next series.
    ///
    /// # Errors
    /// Something that cannot be, with what was got and expected.
    pub(super) fn ask(&self, resource: Resource, body: &Value) -> anyhow::Result<()> {
        {
            let mut inner = self.inner();
            inner.asked = inner.asked.with(resource, body)?;
        }
        self.tell();
        Ok(())
    }

    /// What the next series is taken with, as far as it is known before it begins.
    ///
    /// # Errors
    /// None: what was taken was checked.
    pub(super) fn defaults_json(&self, resource: Resource) -> anyhow::Result<Value> {
        let asked = self.asked();
        Ok(match resource {
            Resource::Optics => {
                let request = OpticsRequest { asked: asked.optics()?, ..self.optics.clone() };
                json!({ "values": request.table(), "asked": asked.optics_json() })
            }
            Resource::Geometry => {
                let request = OpticsRequest { asked: asked.optics()?, ..self.optics.clone() };
                geometry_json(&request.table())
            }
            Resource::Masks => {
                let mut masks = rings_json(&asked.rings(self.rings)?);
                let said = asked.optics()?;
                masks["centre_px"] = json!(said.bf_centre.map(|centre| centre.map(|px| px.0)));
                masks["radius_px"] = json!(said.bf_radius.map(|radius| radius.0));
                masks
            }
            Resource::Reconstruction => json!({ "mean_phase": asked.moments() == ssb::Moments::Compute }),
        })
    }

    /// Says what a person should know of the stream: with every channel of the series that it is about where that is under
    /// way, so that it stands in their results; else with the newest series, which is what everybody looks at.
    pub(super) fn notice(&self, notice: &Notice) {
        let is_about = |series: &&Arc<Series>| {
            series.is_under_way() && notice.series().is_none_or(|key| series.is_of(key))
        };
        let about: Vec<_> = self.inner().series.iter().filter(is_about).cloned().collect();
        let text = notice.to_string();
        about.iter().for_each(|series| series.warn_of_frames(text.clone()));
        if about.is_empty() && !self.armed_is_told(notice) {
            self.newest().into_iter().for_each(|newest| newest.warn(text.clone()));
        }
        self.tell();
    }

    /// Says with the series of which no image has come that a message is not understood: none of it may ever be. False where
    /// there is no such series, or something else is to be said.
    fn armed_is_told(&self, notice: &Notice) -> bool {
        let mut inner = self.inner();
        let armed = inner.armed.as_ref().map(|armed| armed.announced.key.clone());
        match (armed, notice) {
            (Some(key), Notice::NotUnderstood { .. }) => {
                inner.not_understood.push((key, notice.to_string()));
                true
            }
            _ => false,
        }
    }

    /// The daemon ends.
    pub(super) fn stopping(&self) {
        self.inner().is_stopping = true;
        self.tell();
    }

    /// The newest series.
    pub(super) fn newest(&self) -> Option<Arc<Series>> {
        self.inner().series.last().cloned()
    }

    /// The series of this number.
    pub(super) fn series(&self, number: u64) -> Option<Arc<Series>> {
        self.inner().series.iter().find(|series| series.number == number).cloned()
    }

    /// Every series that is listed, newest first.
    pub(super) fn all(&self) -> Vec<Arc<Series>> {
        self.inner().series.iter().rev().cloned().collect()
    }

    /// What the reader of the newest series has counted.
    pub(super) fn live_counts(&self) -> SeriesCounts {
        let Some(newest) = self.newest() else { return SeriesCounts::default() };
        *newest.live_counts().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One word for what is going on.
    pub(super) fn state(&self) -> &'static str {
        let inner = self.inner();
        match (inner.is_stopping, &inner.armed, inner.series.last()) {
            (true, ..) => "stopping",
            (_, Some(_), _) => "armed",
            (_, None, None) => "listening",
            (_, None, Some(series)) => series.state().word(),
        }
    }

    /// The status as text, at most a moment old: many who look cost no more than one.
    pub(super) fn status_text(&self) -> Arc<str> {
        let mut last = self.last_status.lock().unwrap_or_else(PoisonError::into_inner);
        let version = *self.changed.borrow();
        match &*last {
            Some((made, of, text)) if *of == version && made.elapsed() < STATUS_AGE => text.clone(),
            _ => {
                let text: Arc<str> = self.status().to_string().into();
                *last = Some((Instant::now(), version, text.clone()));
                text
            }
        }
    }

    /// Everything the page's state line needs.
    pub(super) fn status(&self) -> Value {
        let newest = self.newest();
        let mut armed = self.inner().armed.clone();
        if let Some(armed) = &mut armed {
            armed.warnings.extend(self.inner().not_understood.iter().map(|(_, warning)| warning.clone()));
        }
        let (receive, said) = (&self.receive, self.watch.said());
        let (connections, failures) = (receive.connections.get(), receive.failures.get());
        let resident = newest.as_ref().and_then(|series| series.held_bytes()).unwrap_or(0);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "state": self.state(),
            "stream": {
                "address": self.address,
                "connected": receive.is_connected(),
                "connections": connections,
                "failures": failures,
                "messages": receive.messages.get(),
                "bytes": receive.bytes.get(),
                "ring_full": receive.ring_full.get(),
                "garbage": self.garbage.get(),
                "last_error": receive.last_error(),
            },
            "recording": self.recording(),
            "armed": armed.map(|armed| json!({
                "id": armed.announced.key.id,
                "images": armed.announced.num_images,
                "warnings": armed.warnings,
            })),
            "events": { "images": true },
            "series": newest.map(|series| series.json()),
            "memory": { "resident_bytes": resident, "free_bytes": MemoryReport::examine().usable_bytes() },
            "disk_free_bytes": free_bytes(self.log.as_ref().unwrap_or(&self.out)),
            "detector_dropped": said.dropped,
            "detector": self.detector.as_ref().map(|_| json!({ "state": said.state, "problem": said.problem })),
        })
    }

    /// What the recorder has done.
    fn recording(&self) -> Option<Value> {
        let folder = self.log.as_ref()?;
        let recorded = &self.recorded;
        Some(json!({
            "folder": folder.display().to_string(),
            "received": recorded.received.get(),
            "durable": recorded.durable.get(),
            "not_saved": self.not_saved(),
            "removed_segments": recorded.removed_segments.get(),
            "failing": recorded.is_failing(),
            "last_error": recorded.is_failing().then(|| self.record_error()),
        }))
    }

    /// Whether frames come, or the last phase of them is made.
    pub(super) fn is_receiving(&self) -> bool {
        let newest = self.newest();
        newest.is_some_and(|series| {
            matches!(series.state(), SeriesState::Receiving | SeriesState::Reconstructing)
        })
    }

    /// Messages of which it is known what became of them: synced, or lost.
    pub(super) fn settled_on_disk(&self) -> u64 {
        self.recorded.durable.get() + self.not_saved()
    }

    /// Messages that are not in the log, or may not be; 0 where nothing is recorded.
    pub(super) fn not_saved(&self) -> u64 {
        self.recorded.not_saved.get() + self.recorded.uncertain.get()
    }

    /// What was wrong with the disk last.
    pub(super) fn record_error(&self) -> String {
        self.recorded.last_error().unwrap_or_else(|| "the disk".to_owned())
    }

    /// The list of series.
    pub(super) fn list(&self) -> Value {
        let series: Vec<_> = self.all().iter().map(|series| series.json()).collect();
        let recorded = self.log.is_some().then(|| self.recorded_before.json());
        json!({ "series": series, "recorded": recorded })
    }
}

/// Seconds since a moment, never 0.
pub(super) fn seconds_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64().max(1e-6)
}

impl SeriesState {
    /// The word of the API.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Receiving => "receiving",
            Self::Reconstructing => "reconstructing",
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }
}
