//! After the last frame: the images, and the account of how they came about.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use ingest::dectris::FileSet;
use kernels::types::Pixels;
use ssb::LiveResult;

use super::prepare::Prepared;
use super::{Filled, Streamed, images};
use crate::doctor::peak_memory_bytes;
use crate::optics::MeasuredBrightField;
use crate::output::Image;
use crate::report::{Encoded, Frames, Input, MissingFrames, RunReport, Software, Status};
use crate::request::RunRequest;

/// Computes the images and draws up the report of a run of which at least one frame came.
pub(super) fn settle(
    device: String,
    request: &RunRequest,
    prepared: Prepared,
    streamed: Streamed,
) -> anyhow::Result<(Vec<Image>, RunReport)> {
    let Prepared { set, mut optics, pixel_mask, resident, elapsed: open_time, .. } = prepared;
    let Streamed { filled, live } = streamed;
    let mut warnings = problems(&set);
    let live = live.map_err(|error| warnings.push(format!("no phase image: {error:#}"))).ok();
    if let Some(live) = &live {
        warnings.extend(live.reconstruction.warnings.iter().map(ToString::to_string));
        optics.fill_measured(measured(live));
    }

    let snapshot = resident.snapshot();
    let imaging = Instant::now();
    let found = images::compute(&snapshot, live.as_ref(), &optics, request.rings, &pixel_mask)?;
    let images_time = imaging.elapsed();
    let empty = found.masks.iter().filter(|(_, mask)| mask.pixels == 0);
    warnings.extend(empty.map(|(name, mask)| format!("{name} is all 0: no pixel is in it ({})", mask.rule)));

    let totals = snapshot.totals();
    let missing = set.frames_expected.saturating_sub(totals.frames);
    let has_phase = live.as_ref().is_some_and(|live| live.reconstruction.has_phase());
    let notes = optics.notes.clone();
    let report = RunReport {
        software: Software::default(),
        status: if missing > 0 || !has_phase { Status::Partial } else { Status::Complete },
        interrupted: missing > 0 && request.stop.is_raised(),
        device,
        input: input(request, &set, &filled),
        frames: Frames {
            expected: set.frames_expected,
            received: totals.frames,
            missing,
            gaps: filled.gaps.iter().map(MissingFrames::from).collect(),
        },
        seconds: seconds(open_time, &filled, live.as_ref(), images_time),
        optics,
        bright_field: found.bright_field,
        masks: found.masks,
        encoded: Some(Encoded {
            bytes: totals.held_bytes,
            dense_bytes: totals.frames * (set.detector.pixels() * set.count_type.bytes()) as u64,
            spectra_bytes: live.as_ref().map_or(0, |live| live.spectra_bytes),
            peak_memory_bytes: peak_memory_bytes(),
        }),
        loss_rad2: live.as_ref().and_then(|live| live.reconstruction.loss),
        images: Vec::new(),
        warnings,
        notes,
        folder: std::path::PathBuf::new(),
    };
    Ok((found.images, report))
}

fn input(request: &RunRequest, set: &FileSet, filled: &Filled) -> Input {
    let data_files = set.files.iter().map(|file| file.path.clone());
    let side_cars = set.side_cars.iter().map(|file| file.path.clone());
    Input {
        master: request.master.clone(),
        files: data_files.chain(side_cars).collect(),
        compressed_bytes: filled.counters.bytes.get(),
    }
}

fn measured(live: &LiveResult) -> MeasuredBrightField {
    MeasuredBrightField {
        centre: live.bright_field.centre.map(Pixels),
        radius: live.bright_field.radius,
        sampling: live.bright_field.sampling,
    }
}

/// What is wrong with the files, one sentence each.
fn problems(set: &FileSet) -> Vec<String> {
    let files = set.files.iter().filter_map(|file| Some((&file.path, file.problem.as_ref()?)));
    let side_cars = set.side_cars.iter().filter_map(|file| Some((&file.path, file.problem.as_ref()?)));
    let unreadable = set.metadata.unreadable.iter().map(|what| format!("cannot be read: {what}"));
    files
        .chain(side_cars)
        .map(|(path, problem)| format!("{}: {problem}", path.display()))
        .chain(unreadable)
        .collect()
}

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
        let timings = live.reconstruction.timings;
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
