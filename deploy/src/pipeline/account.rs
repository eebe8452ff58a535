//! After the last frame: the images, and the account of how they came about.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use kernels::Processor;
use kernels::types::{Gap, GapReason, Milliradians, Pixels};
use resident::Snapshot;
use ssb::{LiveResult, LiveSpectra, Reconstruction};

use super::again::{Finished, Lasting};
use super::chosen::Choices;
use super::of_series::still_holds;
use super::prepare::Prepared;
use super::{Filled, Streamed, final_images};
use crate::device::described;
use crate::doctor::peak_memory_bytes;
use crate::optics::{MeasuredBrightField, ResolvedOptics, surplus};
use crate::output::Image;
use crate::report::{
    BrightField, Encoded, Frames, Input, Mask, MissingFrames, RunReport, Software, Status, command_line, utc,
};
use crate::request::RunRequest;

/// What an acquisition comes to by some choices.
pub(super) struct Account {
    pub(super) images: Vec<Image>,
    pub(super) masks: Vec<(String, Mask)>,
    pub(super) bright_field: Option<BrightField>,
    pub(super) warnings: Vec<String>,
    pub(super) live: Option<LiveResult>,
    /// With what was measured.
    pub(super) optics: ResolvedOptics,
    pub(super) status: Status,
}

/// Computes the images; `lasting` is what there is to be said whatever is chosen.
pub(super) fn of_choices(
    snapshot: &Snapshot,
    live: anyhow::Result<LiveResult>,
    choices: &Choices,
    pixel_mask: &[u32],
    lasting: &[String],
) -> anyhow::Result<Account> {
    let mut optics = choices.optics.clone();
    let mut warnings: Vec<String> =
        lasting.iter().filter(|said| still_holds(said, &optics)).cloned().collect();
    warnings.extend(surplus(&optics.geometry, snapshot.positions().end));
    let live = live.map_err(|error| warnings.push(format!("no phase image: {error:#}"))).ok();
    if let Some(live) = &live {
        let made = live.reconstruction.as_ref();
        warnings.extend(made.into_iter().flat_map(|made| &made.warnings).map(ToString::to_string));
        optics.fill_measured(measured(live, &optics));
    }
    if let Some(unknown) = optics.unknown_text() {
        warnings.push(format!("no phase image: {unknown}"));
    }
    let found = final_images::compute(snapshot, live.as_ref(), &optics, choices.rings, pixel_mask)?;
    warnings.extend(found.bright_field.as_ref().and_then(many_dead));
    let empty = found.masks.iter().filter(|(_, mask)| mask.pixels == 0);
    warnings.extend(empty.map(|(name, mask)| format!("{name} is all 0: no pixel is in it ({})", mask.rule)));
    let made = live.as_ref().and_then(|live| live.reconstruction.as_ref());
    let is_whole =
        snapshot.over_scan().coverage().missing().is_empty() && made.is_some_and(Reconstruction::has_phase);
    let status = if is_whole { Status::Complete } else { Status::Partial };
    let final_images::Found { images, masks, bright_field } = found;
    Ok(Account { images, masks, bright_field, warnings, live, optics, status })
}

/// Computes the images and draws up the report of a run of which at least one frame came.
pub(super) fn settle(
    request: &RunRequest,
    prepared: Prepared,
    streamed: Streamed,
    spectra: Option<LiveSpectra<Processor>>,
) -> anyhow::Result<Finished<Processor>> {
    let spectra_bytes = prepared.spectra_bytes;
    let Prepared { subject, chosen, pixel_mask, resident, started, elapsed: open_time, .. } = prepared;
    let Streamed { filled, live } = streamed;
    let mut lasting_warnings = subject.problems;
    lasting_warnings.extend(corrupt(&filled.gaps));
    let snapshot = resident.snapshot();
    // another geometry that was chosen meanwhile is for making the results again
    let choices = chosen.of(live.as_ref().ok().map(|live| &live.known), &snapshot.geometry());
    let imaging = Instant::now();
    let Account { images, masks, bright_field, warnings, live, optics, status } =
        of_choices(&snapshot, live, &choices, &pixel_mask, &lasting_warnings)?;
    let images_time = imaging.elapsed();

    let totals = snapshot.totals();
    let missing = subject.frames_expected.saturating_sub(totals.frames);
    let notes = optics.notes.clone();
    let report = RunReport {
        software: Software::default(),
        command: command_line(),
        started_utc: utc(started),
        status,
        interrupted: missing > 0 && request.stop.is_raised(),
        device: described(&request.processor),
        input: Input { compressed_bytes: filled.counters.bytes.get(), ..subject.input },
        frames: Frames {
            expected: subject.frames_expected,
            received: totals.frames,
            missing,
            gaps: gaps(&filled.gaps, request),
        },
        seconds: seconds(open_time, &filled, live.as_ref(), images_time),
        optics,
        bright_field,
        masks,
        encoded: Some(Encoded {
            bytes: totals.held_bytes,
            dense_bytes: totals.frames * (subject.detector.pixels() * subject.count_type.bytes()) as u64,
            spectra_bytes: live.as_ref().map_or(0, |live| live.spectra_bytes),
            peak_memory_bytes: peak_memory_bytes(),
        }),
        loss_rad2: live.as_ref().and_then(|live| live.reconstruction.as_ref()?.loss),
        images: Vec::new(),
        warnings,
        notes,
        folder: std::path::PathBuf::new(),
    };
    let lasting = Lasting { device: request.processor.clone(), warnings: lasting_warnings, spectra_bytes };
    let spectra = spectra.map(Arc::new);
    Ok(Finished { report, images, live, spectra, choices, not_written: None, lasting })
}

fn measured(live: &LiveResult, optics: &ResolvedOptics) -> MeasuredBrightField {
    let sampling = optics.semi_angle.as_ref().map(|angle| match &live.known.optics {
        Some(_) => live.bright_field.sampling,
        None => [Milliradians(angle.value.0 / live.bright_field.edge_radius.0); 2],
    });
    MeasuredBrightField {
        centre: live.bright_field.centre.map(Pixels),
        radius: live.bright_field.radius,
        sampling,
    }
}

/// What did not come, an interruption named by what caused it.
fn gaps(gaps: &[Gap], request: &RunRequest) -> Vec<MissingFrames> {
    let was_stopped = request.stop.is_raised();
    let mut missing: Vec<_> = gaps.iter().map(MissingFrames::from).collect();
    for (gap, told) in gaps.iter().zip(&mut missing) {
        if was_stopped && matches!(gap.reason, GapReason::NotReceived(_)) {
            told.reason = format!("interrupted by {} before these frames were read", request.stop.cause());
        }
    }
    missing
}

/// A sentence about frames whose bytes are there and make no sense: how many, and the first.
fn corrupt(gaps: &[Gap]) -> Option<String> {
    let corrupt = |gap: &&Gap| matches!(gap.reason, GapReason::Corrupt(_));
    let first = gaps.iter().find(corrupt)?;
    let frames: u64 = gaps.iter().filter(corrupt).map(|gap| gap.count).sum();
    let are = if frames == 1 { "1 frame is" } else { &format!("{frames} frames are") };
    let which = if frames == 1 { "it is frame" } else { "the first is frame" };
    let GapReason::Corrupt(why) = &first.reason else { return None };
    Some(format!("{are} corrupt and left out; {which} {} (counted from 0): {why}", first.first))
}

/// A sentence about a disk of which more than one pixel in a hundred never counted.
fn many_dead(field: &BrightField) -> Option<String> {
    let (dead, used) = (field.num_dead_pixels, field.pixels_used);
    (dead > (used / 100).max(MOST_DEAD_UNSAID)).then(|| {
        format!(
            "{dead} of {used} pixels within the bright-field radius never counted an electron: are the centre and the \
             radius of the disk right, or were there very few electrons?"
        )
    })
}

/// So many dead pixels are said by `result.json` alone, whatever part of the disk they are.
const MOST_DEAD_UNSAID: u64 = 16;

fn seconds(
    open: Duration,
    filled: &Filled,
    live: Option<&LiveResult>,
    images: Duration,
) -> Vec<(String, f64)> {
    let mut seconds = vec![
        ("open", open),
        ("read", Duration::from_nanos(filled.counters.read_ns.get())),
        ("decode", Duration::from_nanos(filled.counters.decode_ns.get())),
        ("encode", Duration::from_nanos(filled.encode.encode_ns.load(Relaxed))),
        ("read_decode_encode", filled.elapsed),
    ];
    if let Some(live) = live {
        let timings = live.reconstruction.as_ref().map(|made| made.timings).unwrap_or_default();
        seconds.extend([
            ("ssb_rows", live.rows),
            ("ssb_columns", timings.columns),
            ("ssb_images", timings.images),
            ("ssb_moments", timings.moments),
        ]);
    }
    seconds.push(("virtual_images", images));
    seconds.into_iter().map(|(stage, time)| (stage.to_owned(), time.as_secs_f64())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_pixels_are_a_warning_when_they_are_many() {
        let of = |num_dead_pixels, pixels_used| {
            many_dead(&BrightField {
                pixels_used,
                pixels_in_disk: pixels_used,
                masked_pixels: 0,
                hot_pixels: vec![],
                num_dead_pixels,
                dead_pixels: vec![],
            })
        };
        assert_eq!([of(0, 7850), of(16, 20), of(78, 7850)], [None, None, None]);
        assert!(
            of(4000, 7850).unwrap().starts_with("4000 of 7850 pixels within the bright-field radius never")
        );
    }
}
