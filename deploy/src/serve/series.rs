//! One series: how far it is, and what it holds for those who look.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use ingest::stream::series::SeriesCounts;
use ingest::stream::source::Announced;
use kernels::types::ScanShape;
use resident::Snapshot;
use serde_json::{Value, json};

use super::hub::seconds_since;
use super::phase::Phase;
use crate::optics::ResolvedOptics;
use crate::output::Quantity;
use crate::pipeline::Running;
use crate::report::{Status, utc};

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

/// A series of the detector.
#[derive(Debug)]
pub(super) struct Series {
    /// Counts up in this daemon.
    pub(super) number: u64,
    announced: Announced,
    pub(super) scan: ScanShape,
    started: (SystemTime, Instant),
    inner: Mutex<Inner>,
}

/// What changes.
#[derive(Debug)]
struct Inner {
    state: SeriesState,
    /// The resident and what belongs to it; gone once the next series begins.
    running: Option<Running>,
    phase: Phase,
    optics: Option<ResolvedOptics>,
    ended: Option<Ended>,
    problem: Option<String>,
    warnings: Vec<String>,
}

/// How it ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) why: String,
    pub(super) counts: SeriesCounts,
    pub(super) missing: u64,
    pub(super) corrupt: u64,
    pub(super) folder: Option<PathBuf>,
    pub(super) seconds: f64,
}

impl Inner {
    fn state(&self, scan: ScanShape) -> SeriesState {
        let (SeriesState::Receiving, Some(running)) = (self.state, &self.running) else { return self.state };
        let counters = &running.counters;
        let settled = counters.frames_decoded.get() + counters.frames_missing.get();
        if settled < scan.positions() as u64 { SeriesState::Receiving } else { SeriesState::Reconstructing }
    }
}

impl Series {
    pub(super) fn new(number: u64, announced: Announced, scan: ScanShape) -> Self {
        Self {
            number,
            announced,
            scan,
            started: (SystemTime::now(), Instant::now()),
            inner: Mutex::new(Inner {
                state: SeriesState::Receiving,
                running: None,
                phase: Phase::default(),
                optics: None,
                ended: None,
                problem: None,
                warnings: Vec::new(),
            }),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // nothing is left half done where a thread panicked: every change is one assignment
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> SeriesState {
        self.inner().state(self.scan)
    }

    /// The stages are at work on it.
    pub(super) fn running(&self, running: Running) {
        let mut inner = self.inner();
        inner.optics = Some(running.optics.clone());
        inner.running = Some(running);
    }

    /// Something a person should know, said while the series runs.
    pub(super) fn warn(&self, warning: String) {
        self.inner().warnings.push(warning);
    }

    /// Lets go of what takes much memory.
    pub(super) fn release(&self) {
        let mut inner = self.inner();
        inner.running = None;
        inner.phase.release();
    }

    /// Changes the phase.
    pub(super) fn set_phase(&self, change: impl FnOnce(&mut Phase)) {
        change(&mut self.inner().phase);
    }

    /// Reads the phase.
    pub(super) fn phase<R>(&self, read: impl FnOnce(&Phase) -> R) -> R {
        read(&self.inner().phase)
    }

    /// It is over, with results.
    pub(super) fn finished(&self, status: Status, optics: ResolvedOptics, warnings: &[String], ended: Ended) {
        let mut inner = self.inner();
        inner.state = if status == Status::Complete { SeriesState::Complete } else { SeriesState::Partial };
        inner.optics = Some(optics);
        // what was said at the beginning is among them
        inner.warnings.retain(|warning| !warnings.contains(warning));
        inner.warnings.extend_from_slice(warnings);
        inner.ended = Some(ended);
    }

    /// It is over, without results.
    pub(super) fn failed(&self, problem: String, ended: Option<Ended>) {
        let mut inner = self.inner();
        inner.state = SeriesState::Failed;
        inner.problem = Some(problem);
        inner.ended = ended;
        inner.running = None;
    }

    /// What has been kept so far, with the microscope and the mask; nothing once the memory was let go.
    pub(super) fn view(&self) -> Option<(Snapshot, ResolvedOptics, Vec<u32>)> {
        let inner = self.inner();
        let running = inner.running.as_ref()?;
        let optics = inner.optics.clone().unwrap_or_else(|| running.optics.clone());
        Some((running.resident.snapshot(), optics, running.pixel_mask.clone()))
    }

    /// Where its results are.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.inner().ended.as_ref()?.folder.clone()
    }

    /// Bytes of its encoded resident.
    pub(super) fn held_bytes(&self) -> Option<u64> {
        Some(self.inner().running.as_ref()?.resident.snapshot().totals().held_bytes)
    }

    /// As the API tells it; `live` is what its reader has counted, while it reads.
    pub(super) fn json(&self, live: Option<&SeriesCounts>) -> Value {
        let inner = self.inner();
        let ended = inner.ended.as_ref();
        let counts = ended.map(|ended| ended.counts).or(live.copied()).unwrap_or_default();
        let totals = inner.running.as_ref().map(|running| running.resident.snapshot().totals());
        let ingested = inner.running.as_ref().map(|running| &running.counters);
        let so_far = ingested.map_or((0, 0), |all| (all.frames_missing.get(), all.frames_corrupt.get()));
        let (missing, corrupt) = ended.map_or(so_far, |ended| (ended.missing, ended.corrupt));
        let seconds = ended.map_or_else(|| seconds_since(self.started.1), |ended| ended.seconds);
        let mut warnings = inner.warnings.clone();
        if counts.is_shared() {
            warnings.insert(0, SHARED.to_owned());
        }
        let phase = &inner.phase;
        let field = phase.bright_field();
        let names: Vec<&str> = match (&inner.running, totals.is_some_and(|totals| totals.frames > 0)) {
            (Some(_), true) => Quantity::ALL
                .into_iter()
                .filter(|quantity| *quantity != Quantity::MeanPhase)
                .filter(|quantity| {
                    phase.is_there() || !matches!(quantity, Quantity::Phase | Quantity::Amplitude)
                })
                .map(Quantity::stem)
                .collect(),
            _ => Vec::new(),
        };
        json!({
            "number": self.number,
            "id": self.announced.key.id,
            "unique_id": self.announced.key.unique_id,
            "state": inner.state(self.scan).word(),
            "started_utc": utc(self.started.0),
            "frames": {
                "expected": self.scan.positions(),
                "announced": self.announced.num_images,
                "received": counts.frames,
                "kept": totals.map(|totals| totals.frames),
                "missing": missing,
                "doubled": counts.doubled,
                "late": counts.late,
                "beyond": counts.beyond,
                "unlike": counts.unlike,
                "corrupt": corrupt,
            },
            "frames_per_s": counts.frames as f64 / seconds,
            "scan_shape": [self.scan.rows, self.scan.cols],
            "detector_shape": self.announced.detector.map(|detector| [detector.rows, detector.cols]),
            "count_type": self.announced.count_type.map(|count_type| format!("uint{}", 8 * count_type.bytes())),
            "ending": ended.map(|ended| ended.why.clone()),
            "problem": inner.problem,
            "warnings": warnings,
            "folder": ended.and_then(|ended| Some(ended.folder.as_ref()?.display().to_string())),
            "bright_field": field.map(|field| json!({
                "centre_px": field.centre,
                "radius_px": field.radius.0,
                "sampling_mrad": field.sampling.map(|sampling| sampling.0),
            })),
            "optics": inner.optics.as_ref().map(optics_json),
            "phase": phase.json(),
            "images": names,
        })
    }
}

/// What to say when a second reader takes its turns.
pub(super) const SHARED: &str =
    "every other frame is missing: a SECOND READER is connected to the detector and takes them";

/// What the sliders stand at.
fn optics_json(optics: &ResolvedOptics) -> Value {
    let term = |name: &str| optics.aberrations.iter().map(|term| term.value).find(|term| term.name() == name);
    let size = |name| term(name).map_or(0.0, |term| term.size.0);
    json!({
        "voltage_kv": optics.voltage.value.0,
        "semi_angle_mrad": optics.semi_angle.value.0,
        "scan_step_nm": optics.scan_step.value.map(|step| step.0),
        "rotation_deg": optics.rotation.value.0,
        "c10_nm": size("C10"),
        "c12_nm": size("C12"),
        "phi12_deg": term("C12").map_or(0.0, |term| term.angle.0),
    })
}
