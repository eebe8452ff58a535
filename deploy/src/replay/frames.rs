//! Frames by number, compressed as they are stored: those of a file set, of a recording, or of a simulation.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use anyhow::ensure;
use ingest::dectris::FileSet;
use ingest::open_regular;
use ingest::record::{Place, RecordFinder};
use ingest::source::StoredRun;
use ingest::stream::push::WireMessage;
use kernels::types::{CountType, DetectorShape, Item};

use super::recording::Recording;
use crate::simulate::{OnTheFly, SimulatedChannel};

/// Simulated frames that are made at once, for every thread.
const SIMULATED_PER_THREAD: u64 = 16;

/// The channels of a frame, compressed: one that stands for all, or one each in the order in which they were asked for. Of a
/// channel that did not come there are no bytes.
pub type Channels = Vec<Vec<u8>>;

/// Fetches frames. Clones share the index and have files of their own open.
#[derive(Debug)]
pub struct Frames {
    store: Store,
    num_frames: u64,
    most_bytes: u64,
}

/// Where frames lie.
#[derive(Debug)]
enum Store {
    Set {
        runs: Arc<Vec<StoredRun>>,
        /// The run that was read from last, and its file.
        open: Option<(usize, File)>,
    },
    Recording {
        recording: Arc<Recording>,
        /// Places of its channels.
        channels: Arc<[usize]>,
        finder: RecordFinder,
    },
    Simulation {
        simulation: Arc<OnTheFly>,
        channels: Arc<[SimulatedChannel]>,
        /// Frames that were made last, and the number of the first.
        made: (u64, Vec<Channels>),
    },
}

impl Clone for Frames {
    fn clone(&self) -> Self {
        let store = match &self.store {
            Store::Set { runs, .. } => Store::Set { runs: Arc::clone(runs), open: None },
            Store::Recording { recording, channels, .. } => Store::Recording {
                finder: recording.finder(),
                recording: Arc::clone(recording),
                channels: Arc::clone(channels),
            },
            Store::Simulation { simulation, channels, .. } => Store::Simulation {
                simulation: Arc::clone(simulation),
                channels: Arc::clone(channels),
                made: Default::default(),
            },
        };
        Self { store, ..*self }
    }
}

impl Frames {
    /// The frames of a set.
    ///
    /// # Errors
    /// There are none.
    pub fn of(set: &FileSet) -> anyhow::Result<Self> {
        let runs: Vec<StoredRun> = set
            .runs()
            .into_iter()
            .filter_map(|item| match item {
                Item::Data(run) => Some(run),
                Item::Gap(_) => None,
            })
            .collect();
        ensure!(set.frames_present() > 0, "{}: no frame of it can be read", set.master.display());
        let most_bytes = most_bytes(set.detector, set.count_type);
        let store = Store::Set { runs: Arc::new(runs), open: None };
        Ok(Self { store, num_frames: set.frames_expected, most_bytes })
    }

    /// The frames of a recording, of each the channels of these names; a name that it does not know is its first channel.
    pub fn of_recording(recording: Arc<Recording>, names: &[String]) -> Self {
        let (num_frames, most_bytes) = (recording.num_frames, recording.largest_bytes);
        let channels = names.iter().map(|name| recording.place_of(name)).collect();
        let store = Store::Recording { finder: recording.finder(), recording, channels };
        Self { store, num_frames, most_bytes }
    }

    /// The frames of a simulation, made ahead in batches, of each the channels of these names.
    pub fn of_simulation(simulation: Arc<OnTheFly>, names: &[String]) -> Self {
        let num_frames = simulation.scan().positions() as u64;
        let most_bytes = most_bytes(simulation.detector(), simulation.count_type());
        let channels = names.iter().map(|name| SimulatedChannel::named(name)).collect();
        let store = Store::Simulation { simulation, channels, made: Default::default() };
        Self { store, num_frames, most_bytes }
    }

    /// Frames of the set, whether or not they are there.
    pub fn num_frames(&self) -> u64 {
        self.num_frames
    }

    /// Bytes of the largest frame.
    pub fn largest_bytes(&self) -> u64 {
        let Store::Set { runs, .. } = &self.store else { return self.most_bytes };
        let stored = runs.iter().flat_map(|run| &run.frames).map(|frame| frame.bytes);
        stored.filter(|&bytes| bytes <= self.most_bytes).max().unwrap_or(0)
    }

    /// Reads a frame into `channels`, replacing what was there. A number beyond the set's begins at the first again. False
    /// where the set does not have the frame, in any channel.
    ///
    /// # Errors
    /// The system's; a file that is not what it was when its index was read.
    pub fn read(&mut self, number: u64, channels: &mut Channels) -> io::Result<bool> {
        let number = number.checked_rem(self.num_frames).unwrap_or(0);
        let (runs, open) = match &mut self.store {
            Store::Set { runs, open } => (runs, open),
            Store::Recording { recording, channels: of, finder } => {
                return recording.frame(finder, number, of, channels);
            }
            Store::Simulation { simulation, channels: of, made } => {
                let (first, frames) = made;
                if !(*first..*first + frames.len() as u64).contains(&number) {
                    let batch = SIMULATED_PER_THREAD * rayon::current_num_threads() as u64;
                    let numbers = number..self.num_frames.min(number.saturating_add(batch));
                    *made = (number, simulation.frames(numbers, of).map_err(io::Error::other)?);
                }
                let (first, frames) = made;
                let Some(frame) = frames.get((number - *first) as usize) else { return Ok(false) };
                channels.clone_from(frame);
                return Ok(true);
            }
        };
        let Some(at) = runs.partition_point(|run| run.first <= number).checked_sub(1) else {
            return Ok(false);
        };
        let run = &runs[at];
        let place = usize::try_from(number - run.first).unwrap_or(usize::MAX);
        let Some(stored) = run.frames.get(place) else { return Ok(false) };
        let end = stored.offset.checked_add(stored.bytes);
        let is_inside = end.is_some_and(|end| end <= run.identity.bytes);
        if stored.bytes == 0 || stored.bytes > self.most_bytes || !is_inside {
            return Ok(false);
        }
        if open.as_ref().is_none_or(|(open, _)| *open != at) {
            let (file, identity) = open_regular(&run.path)?;
            if identity != run.identity {
                let what = format!("{}: changed since its index was read", run.path.display());
                return Err(io::Error::other(what));
            }
            *open = Some((at, file));
        }
        let Some((_, file)) = open else { return Ok(false) };
        channels.resize_with(1, Vec::new);
        let Some(bytes) = channels.first_mut() else { return Ok(false) };
        // at most `most_bytes`
        bytes.resize(stored.bytes as usize, 0);
        file.read_exact_at(bytes, stored.offset)?;
        Ok(true)
    }

    /// The message at a place of the recording, as it was received.
    ///
    /// # Errors
    /// The log is not what it was; this is no recording.
    pub fn message(&mut self, place: Place) -> io::Result<WireMessage> {
        match &mut self.store {
            Store::Recording { recording, finder, .. } => recording.message(finder, place),
            Store::Set { .. } | Store::Simulation { .. } => {
                Err(io::Error::other("there are no messages but those of a recording"))
            }
        }
    }
}

/// Most bytes of a compressed frame: one that does not compress is a little larger than its counts.
fn most_bytes(detector: DetectorShape, count_type: CountType) -> u64 {
    let raw = detector.pixels().saturating_mul(count_type.bytes()) as u64;
    raw.saturating_add(raw / 4).saturating_add(1 << 16)
}
