//! A series as the API tells it.

use std::sync::PoisonError;

use serde_json::{Value, json};

use super::{SHARED, Series};
use crate::optics::ResolvedOptics;
use crate::output::Quantity;
use crate::pipeline::{square, still_holds};
use crate::report::utc;
use crate::serve::asked::rings_json;
use crate::serve::hub::seconds_since;
use crate::serve::jobs::Progress;

impl Series {
    /// As the API tells it.
    pub(in crate::serve) fn json(&self) -> Value {
        let inner = self.inner();
        let ended = inner.ended.as_ref();
        let live = || *self.live_counts.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = ended.map_or_else(live, |ended| ended.counts);
        let totals = inner.running.as_ref().map(|running| running.resident.snapshot().totals());
        let ingested = inner.running.as_ref().map(|running| &running.counters);
        let so_far = ingested.map_or((0, 0), |all| (all.frames_missing.get(), all.frames_corrupt.get()));
        let (missing, corrupt) = ended.map_or(so_far, |ended| (ended.missing, ended.corrupt));
        let seconds = ended.map_or_else(|| seconds_since(self.started.1), |ended| ended.seconds);
        let mut warnings = Vec::new();
        if counts.is_shared() {
            warnings.push(SHARED.to_owned());
        }
        if let Some(why) = &inner.not_written {
            warnings.push(format!("results NOT WRITTEN: {why}"));
        }
        let phase = &inner.phase;
        let chosen = inner.choices.as_ref();
        let holds = |said: &&String| chosen.is_none_or(|chosen| still_holds(said, &chosen.optics));
        warnings.extend(inner.warnings.iter().chain(&inner.observed).filter(holds).cloned());
        let measured = inner.finished.as_ref().map(|finished| &finished.report.optics);
        let optics = measured.or(chosen.map(|chosen| &chosen.optics));
        let scan = inner.geometry(self.begun).scan();
        let names: Vec<&str> = match (&inner.running, totals.is_some_and(|totals| totals.frames > 0)) {
            (Some(_), true) => Quantity::ALL
                .into_iter()
                .filter(|quantity| phase.has(*quantity))
                .map(Quantity::stem)
                .collect(),
            _ => Vec::new(),
        };
        json!({
            "number": self.number,
            "id": self.announced.key.id,
            "unique_id": self.announced.key.unique_id,
            "channel": self.announced.channel(),
            "state": inner.state(self.frames).word(),
            "started_utc": utc(self.started.0),
            "frames": {
                "expected": self.frames,
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
            "scan_shape": [scan.rows, scan.cols],
            "detector_shape": self.announced.detector.map(|detector| [detector.rows, detector.cols]),
            "count_type": self.announced.count_type.map(|count_type| format!("uint{}", 8 * count_type.bytes())),
            "ending": ended.map(|ended| ended.why.clone()),
            "problem": inner.problem,
            "warnings": warnings,
            "folder": ended.and_then(|ended| Some(ended.folder.as_ref()?.display().to_string())),
            "not_written": inner.not_written,
            "export": inner.export.as_ref().map(Progress::json),
            "bright_field": phase.bright_field().map(|field| json!({
                "centre_px": field.centre,
                "radius_px": field.radius.0,
                "sampling_mrad": optics.and_then(|optics| sampling_mrad(optics, field.edge_radius.0)),
            })),
            "optics": optics.map(optics_json),
            "calibration": optics.map(|optics| json!({
                "missing": optics.unknown().into_iter().map(|unknown| unknown.key()).collect::<Vec<_>>(),
                "text": optics.unknown_text(),
                "hints": self.hints(),
            })),
            "masks": chosen.map(|chosen| rings_json(&chosen.rings)),
            "phase": phase.json(),
            "images": names,
        })
    }

    /// What something that is not known could be: shown, never used.
    pub(super) fn hints(&self) -> Value {
        let square = self.announced.num_images.and_then(square);
        json!({ "scan_shape": square.map(|scan| [scan.rows, scan.cols]) })
    }
}

/// Scattering angle of a pixel: pinned, or the semi-angle over the edge of the disk.
fn sampling_mrad(optics: &ResolvedOptics, edge_radius_px: f64) -> Option<[f64; 2]> {
    let pinned = optics.detector_sampling.as_ref().map(|sampling| sampling.value.map(|mrad| mrad.0));
    let by_edge = || Some([optics.semi_angle.as_ref()?.value.0 / edge_radius_px; 2]);
    pinned.or_else(by_edge)
}

/// What the sliders stand at.
fn optics_json(optics: &ResolvedOptics) -> Value {
    let term = |name: &str| optics.aberrations.iter().map(|term| term.value).find(|term| term.name() == name);
    let size = |name| term(name).map_or(0.0, |term| term.size.0);
    json!({
        "voltage_kv": optics.voltage.as_ref().map(|voltage| voltage.value.0),
        "semi_angle_mrad": optics.semi_angle.as_ref().map(|angle| angle.value.0),
        "scan_step_nm": optics.step().map(|step| step.map(|step| step.0)),
        "rotation_deg": optics.rotation.as_ref().map(|rotation| rotation.value.0),
        "c10_nm": size("C10"),
        "c12_nm": size("C12"),
        "phi12_deg": term("C12").map_or(0.0, |term| term.angle.0),
    })
}
