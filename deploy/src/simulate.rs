//! Makes an acquisition: electrons through a specimen onto a pixelated detector, written as the detector writes files.
//!
//! In: [`SimulateArgs`], the flags of `sideband simulate`. Out: a DECTRIS filewriter set of Poisson counts, `truth.json`
//! with every parameter in SI units, and `truth_phase.npy`, the specimen's phase at the scan positions.
//!
//! The physics: a convergent probe with aberrations up to fifth order; the specimen as one phase object or as slices
//! with Fresnel propagation between them, tilted if asked; detector pixels that integrate; any beam centre, rotation
//! and transposition between detector and scan. Not in it: partial coherence, inelastic scattering, a detector point
//! spread, scan distortion. Read [`run`] first, then `wave.rs`.

mod args;
mod bad_pixels;
mod counts;
mod elements;
mod fourier;
mod geometry;
mod on_the_fly;
mod produce;
mod settings;
mod specimen;
#[cfg(test)]
mod tests;
mod thresholds;
mod transmission;
mod truth;
mod wave;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, anyhow, bail, ensure};
use ingest::filewriter::{Existing, FilewriterError, FilewriterSet, FilewriterSettings, MasterMetadata};
use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, Kilovolts};

pub use args::{RowCol, SimulateArgs, SpecimenName};
pub use bad_pixels::{DeadPixel, HotPixel};
pub use on_the_fly::OnTheFly;
pub use specimen::Defect;
pub use thresholds::SimulatedChannel;
pub use truth::{MadeWith, Truth};

use crate::optics::disk_note;
use crate::output::{npy_bytes, write_atomically};
use crate::progress::{Progress, Voice};
use crate::request::{StopFlag, WrongFlags};
use crate::room::gathered;
use bad_pixels::BadPixels;
use geometry::{Geometry, GeometryRequest};
use produce::{Exposure, write_frames};
use settings::Settings;
use specimen::Specimen;
use transmission::{MapPlan, Transmission};
use wave::Beam;

/// Simulates an acquisition and writes it to `args.out`: the set, `truth.json`, `truth_phase.npy`.
///
/// Nothing has its name before all frames are made; the master file is named last.
///
/// # Errors
/// A flag out of range, by its name; a set that is there already without `--force`; files that cannot be written;
/// [`Interrupted`](crate::request::Interrupted) once `stop` is raised: nothing is left of the set then.
pub fn run(args: &SimulateArgs, stop: &StopFlag) -> anyhow::Result<Truth> {
    let settings = Settings::from_args(args).map_err(WrongFlags::because)?;
    let mut threads = rayon::ThreadPoolBuilder::new().thread_name(|index| format!("simulate-{index}"));
    if let Some(asked) = args.threads {
        threads = threads.num_threads(asked);
    }
    let threads = threads.build().context("no threads for the simulation")?;
    // The folder and those above it that are not there yet, the innermost first.
    let to_be_made: Vec<_> = args
        .out
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .collect();
    let outcome = threads.install(|| simulate(args, &settings, stop));
    if outcome.is_err() {
        for folder in to_be_made {
            // One that is not empty stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
    outcome
}

fn simulate(args: &SimulateArgs, settings: &Settings, stop: &StopFlag) -> anyhow::Result<Truth> {
    let started = Instant::now();
    let bad = BadPixels::place(args);
    let truth_path = args.out.join("truth.json");
    let phase_path = args.out.join("truth_phase.npy");
    spare_other_sets(&truth_path, &args.name)?;
    for path in [&truth_path, &phase_path] {
        ensure!(args.force || !path.exists(), "{}", already_there(path));
    }
    let mut set =
        FilewriterSet::create(&args.out, files(args, settings, &bad)).map_err(|error| match error {
            FilewriterError::Exists { path } => anyhow!(already_there(&path)),
            wrong @ (FilewriterError::BadName { .. } | FilewriterError::BadSetting { .. }) => {
                WrongFlags::because(wrong)
            }
            other => other.into(),
        })?;

    let (beam, specimen) = prepare(args, settings)?;
    let voice = Voice::for_stderr(args.quiet);
    let progress = Progress::new(args.scan_shape.positions() as u64, voice);
    let (step, complete) = (args.scan_step_nm, ssb::complete_step(&settings.optics).0);
    if step > complete {
        progress.note(&format!(
            "note: a scan step of {step} nm is more than lambda / (4 semi-angle) = {complete:.4} nm: the finest detail \
             will fold back, as it does in a microscope"
        ));
    }
    let radius_px = args.semi_angle_mrad / args.detector_sampling_mrad;
    if let Some(note) = disk_note(radius_px, args.detector_shape) {
        progress.note(&format!("warning: {note}"));
    }
    if settings.num_slices == 1 && settings.stack.tilt_rad != [0.0; 2] {
        progress.note(
            "note: a specimen of one slice is not tilted: --tilt-mrad needs --slices 2 or more, or a thickness above 1 nm",
        );
    }
    let exposure = Exposure {
        beam: &beam,
        bad: &bad,
        electrons_per_frame: args.electrons_per_frame,
        seed: args.seed,
        stop,
    };
    let totals = match args.count_type {
        CountType::U8 => write_frames::<u8>(&exposure, &mut set, &progress),
        CountType::U16 => write_frames::<u16>(&exposure, &mut set, &progress),
        CountType::U32 => write_frames::<u32>(&exposure, &mut set, &progress),
    }?;
    progress.finish();
    if totals.saturated_counts > 0 {
        progress.note(&format!(
            "note: {} counts did not fit {} and are stored as {}, as a saturated pixel's are; a run leaves those pixels out",
            totals.saturated_counts,
            args.count_type,
            args.count_type.marker()
        ));
    }

    let geometry = beam.geometry();
    write_truth_phase(&phase_path, geometry, &specimen)?;
    let seconds = started.elapsed().as_secs_f64();
    let mut truth = Truth::new(args, settings, &beam, &specimen, &bad, totals, seconds);
    write_atomically(&truth_path, &serde_json::to_vec_pretty(&truth)?)?;
    truth.master = set.finish()?.master;
    Ok(truth)
}

fn already_there(path: &Path) -> String {
    format!("{} exists already; give --force to replace it", path.display())
}

/// Refuses to write the truth of one set over that of another, whose counts would then have none.
fn spare_other_sets(truth: &Path, name: &str) -> anyhow::Result<()> {
    const MOST_BYTES: u64 = 64 << 20;
    let text = ingest::read_small_file(truth, MOST_BYTES).unwrap_or_default();
    let said: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    match said.get("set").and_then(serde_json::Value::as_str) {
        Some(other) if other != name => {
            bail!("{} belongs to the set '{other}'; give another folder for '{name}'", truth.display())
        }
        _ => Ok(()),
    }
}

/// The grid, the specimen on it, and the beam through both.
fn prepare(args: &SimulateArgs, settings: &Settings) -> anyhow::Result<(Beam, Specimen)> {
    let geometry = Geometry::plan(&GeometryRequest {
        optics: &settings.optics,
        scan: args.scan_shape,
        detector: args.detector_shape,
        centre: settings.centre,
        pixel_samples: args.pixel_samples,
        probe_radius_m: settings.probe_radius_m(),
        num_slices: settings.num_slices,
    })
    .map_err(WrongFlags::because)?;
    let plan = MapPlan::new(&geometry, settings.num_slices)?;
    let specimen = settings.build_specimen(args, plan.extent(&geometry))?;
    let transmission = Transmission::new(&specimen, &geometry, plan, settings.num_slices)?;
    Ok((Beam::new(&settings.optics, geometry, transmission, settings.stack), specimen))
}

fn files(args: &SimulateArgs, settings: &Settings, bad: &BadPixels) -> FilewriterSettings {
    FilewriterSettings {
        name: args.name.clone(),
        detector: args.detector_shape,
        count_type: args.count_type,
        encoding: Encoding::Bslz4,
        images_per_file: args.images_per_file,
        existing: if args.force { Existing::Replace } else { Existing::Refuse },
        metadata: MasterMetadata {
            voltage: settings.optics.voltage,
            beam_centre: settings.centre,
            pixel_mask: bad.mask(),
            saturation_value: args.count_type.marker(),
            description: "Simulated by sideband, not a real detector".to_owned(),
            detector_number: "SIM-0001".to_owned(),
            firmware: "simulation".to_owned(),
            software: concat!("sideband ", env!("CARGO_PKG_VERSION")).to_owned(),
            // The same flags give the same bytes, so no clock is read.
            date: "2000-01-01T00:00:00.000".to_owned(),
            threshold: Kilovolts(settings.optics.voltage.0 / 4.0),
            ..MasterMetadata::default()
        },
    }
}

/// `truth_phase.npy`: f64 radians, `[scan_row][scan_col]`, projected along the beam of the untilted specimen.
fn write_truth_phase(path: &Path, geometry: &Geometry, specimen: &Specimen) -> anyhow::Result<()> {
    let what = "the true phase";
    let positions = (0..geometry.scan.positions()).map(|frame| geometry.position_m(frame));
    let phase = specimen.projected_phase(&gathered(positions, what)?)?;
    let shape = [geometry.scan.rows, geometry.scan.cols];
    write_atomically(path, &npy_bytes(&phase, &shape).context(what)?)
}
