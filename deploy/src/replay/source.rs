//! What is replayed: a file set, a recording or a simulation, and what a detector would say of it.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use ingest::dectris::{FileSet, Metadata};
use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape, Pixels};

use super::ReplaySettings;
use super::frames::Frames;
use super::recording::Recording;
use crate::open::open_set;
use crate::simulate::{OnTheFly, SimulateArgs};

/// Time of a simulated frame where nothing else is asked for \[s\]: slow enough to be made meanwhile.
const SIMULATED_FRAME_SECS: f64 = 1e-3;
/// Width of a simulated pixel, as in the files of a simulation \[m\].
const SIMULATED_PIXEL_METRES: f64 = 1e-4;

/// What every series of a replay is taken from.
#[derive(Debug)]
pub struct Source {
    /// What it is called when something is wrong with it.
    pub name: String,
    /// What a master says of it, or the start of a recording.
    pub metadata: Metadata,
    /// Shape of each frame.
    pub detector: DetectorShape,
    /// The type of its counts.
    pub count_type: CountType,
    /// How frames are compressed.
    pub encoding: Encoding,
    /// Frames of a series, those that are not there included.
    pub frames_expected: u64,
    /// Files that the filewriter of a detector would hand out.
    pub files: Vec<PathBuf>,
    /// Names of the channels in stream v2.
    pub channels: Vec<String>,
    /// Its frames.
    pub frames: Frames,
    /// The recording, where it is one.
    pub recording: Option<Arc<Recording>>,
}

impl Source {
    /// Opens a master file, or the folder of a recording.
    ///
    /// # Errors
    /// It cannot be opened, has no frame, or holds several series and none is named.
    pub fn open(settings: &ReplaySettings) -> anyhow::Result<Self> {
        if let Some(args) = &settings.simulation {
            return Self::of_simulation(args, named(settings));
        }
        if settings.source.is_dir() {
            return Self::of_recording(settings);
        }
        let set = open_set(&settings.source)?;
        let frames = Frames::of(&set)?;
        Ok(Self {
            name: set.master.display().to_string(),
            files: files(&set),
            metadata: set.metadata,
            detector: set.detector,
            count_type: set.count_type,
            encoding: set.encoding,
            frames_expected: set.frames_expected,
            channels: named(settings),
            frames,
            recording: None,
        })
    }

    /// A simulation whose frames are made when they are to be sent. Its truth goes to `args.out`, where that is named.
    fn of_simulation(args: &SimulateArgs, channels: Vec<String>) -> anyhow::Result<Self> {
        let simulation = Arc::new(OnTheFly::new(args.clone())?);
        let mut files = Vec::new();
        if !args.out.as_os_str().is_empty() {
            simulation.write_truth(&args.out).with_context(|| args.out.display().to_string())?;
            files.extend(["truth.json", "truth_phase.npy"].map(|name| args.out.join(name)));
        }
        let detector = simulation.detector();
        let metadata = Metadata {
            incident_energy_ev: Some(simulation.incident_energy_ev()),
            count_time_secs: Some(SIMULATED_FRAME_SECS),
            frame_time_secs: Some(SIMULATED_FRAME_SECS),
            saturation_value: Some(u64::from(simulation.count_type().marker())),
            pixel_mask: Some(([detector.rows, detector.cols], simulation.pixel_mask().to_vec())),
            beam_centre: Some(simulation.beam_centre().map(Pixels)),
            pixel_metres: Some(SIMULATED_PIXEL_METRES),
            description: Some("Simulated by sideband, not a real detector".to_owned()),
            serial: Some("SIM-0001".to_owned()),
            ..Metadata::default()
        };
        Ok(Self {
            name: "the simulation".to_owned(),
            metadata,
            detector,
            count_type: simulation.count_type(),
            encoding: Encoding::Bslz4,
            frames_expected: simulation.scan().positions() as u64,
            files,
            frames: Frames::of_simulation(simulation, &channels),
            channels,
            recording: None,
        })
    }

    fn of_recording(settings: &ReplaySettings) -> anyhow::Result<Self> {
        let (recording, metadata) = Recording::open(&settings.source, settings.log_series.as_deref())
            .with_context(|| settings.source.display().to_string())?;
        let recording = Arc::new(recording);
        let has_names = recording.channels.iter().any(|name| !name.is_empty());
        let channels = match settings.channels.is_empty() && has_names {
            true => recording.channels.clone(),
            false => named(settings),
        };
        Ok(Self {
            name: settings.source.display().to_string(),
            metadata,
            detector: recording.kind.detector,
            count_type: recording.kind.count_type,
            encoding: recording.kind.encoding,
            frames_expected: recording.num_frames,
            files: Vec::new(),
            frames: Frames::of_recording(Arc::clone(&recording), &channels),
            channels,
            recording: Some(recording),
        })
    }
}

/// The channels that are asked for; the first threshold where none is.
fn named(settings: &ReplaySettings) -> Vec<String> {
    match settings.channels.is_empty() {
        true => vec!["threshold_1".to_owned()],
        false => settings.channels.clone(),
    }
}

/// The master of a set, and its data files.
fn files(set: &FileSet) -> Vec<PathBuf> {
    [&set.master].into_iter().chain(set.files.iter().map(|file| &file.path)).cloned().collect()
}
