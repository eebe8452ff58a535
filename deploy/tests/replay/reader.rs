//! A reader of the stream, and what the files hold to compare with.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use ingest::dectris::FileSet;
use ingest::raw::RawBatch;
use ingest::record::{RecordCounters, RecordLog, RecordSettings, RecordStage};
use ingest::source::FileSource;
use ingest::stream::receive::{ReceiveCounters, ReceiveSettings, ReceiveStage};
use ingest::stream::series::SeriesSettings;
use ingest::stream::source::{Announced, SeriesEnd, StreamSource};
use kernels::bslz4_decode::decode_frame;
use kernels::types::{CountType, Item};

/// A series as it came.
pub(crate) struct Came {
    pub(crate) announced: Announced,
    /// Every frame by its number; none where there is a hole, or where it does not decode.
    pub(crate) frames: Vec<Option<Vec<u8>>>,
    pub(crate) end: SeriesEnd,
    /// Messages so far that were not understood.
    pub(crate) garbage: u64,
}

impl Came {
    /// Numbers of the frames that are not there, as half-open ranges.
    pub(crate) fn holes(&self) -> Vec<[u64; 2]> {
        let mut holes: Vec<[u64; 2]> = Vec::new();
        for (number, _) in (0..).zip(&self.frames).filter(|(_, frame)| frame.is_none()) {
            match holes.last_mut() {
                Some([_, end]) if *end == number => *end += 1,
                _ => holes.push([number, number + 1]),
            }
        }
        holes
    }
}

/// Reads so many series from an address.
pub(crate) fn read(address: &str, num_series: usize, num_frames: u64) -> Vec<Came> {
    read_and(address, num_series, num_frames, None)
}

/// Reads so many series from an address, and records every message into a folder.
pub(crate) fn record(address: &str, num_series: usize, num_frames: u64, log: &Path) -> Vec<Came> {
    read_and(address, num_series, num_frames, Some(log))
}

fn read_and(address: &str, num_series: usize, num_frames: u64, log: Option<&Path>) -> Vec<Came> {
    let stop = Arc::new(AtomicBool::new(false));
    let settings = ReceiveSettings { slabs: 16, ..ReceiveSettings::new(address) };
    let (stage, received) = ReceiveStage::new(settings, Arc::new(ReceiveCounters::default()), stop.clone());
    let counters = Arc::new(RecordCounters::default());
    let (recorder, received) = match log {
        None => (None, received),
        Some(log) => {
            let log = RecordLog::open(RecordSettings::new(log)).unwrap();
            let (stage, received) = RecordStage::new(received, log, counters.clone());
            (Some(stage), received)
        }
    };
    let mut source = StreamSource::new(received, stop.clone());
    let series = std::thread::scope(|scope| {
        scope.spawn(|| stage.run());
        if let Some(recorder) = recorder {
            scope.spawn(|| recorder.run());
        }
        let series = (0..num_series).map(|_| {
            let announced = source.next_series(|_| ()).unwrap();
            let (frames, frames_in) = bounded(100_000);
            let settings =
                SeriesSettings { silence: Duration::from_secs(3), ..announced.reading(num_frames) };
            let end = source.read_series(settings, &frames).unwrap();
            drop(frames);
            let frames = frames_in.iter().flat_map(decoded).collect();
            Came { announced, frames, end, garbage: source.garbage().get() }
        });
        let series: Vec<Came> = series.collect();
        stop.store(true, Relaxed);
        drop(source);
        series
    });
    assert_eq!(counters.durable.get(), counters.received.get());
    series
}

/// The frames of an item, those that decode.
fn decoded(item: Item<RawBatch>) -> Vec<Option<Vec<u8>>> {
    match item {
        Item::Gap(gap) => vec![None; gap.count as usize],
        Item::Data(batch) => {
            let decodes = |frame: &[u8]| match batch.count_type {
                CountType::U8 => decode_frame(batch.encoding, frame, &mut vec![0u8; batch.detector.pixels()]),
                CountType::U16 => {
                    decode_frame(batch.encoding, frame, &mut vec![0u16; batch.detector.pixels()])
                }
                CountType::U32 => {
                    decode_frame(batch.encoding, frame, &mut vec![0u32; batch.detector.pixels()])
                }
            };
            batch.frames().map(|frame| decodes(frame).is_ok().then(|| frame.to_vec())).collect()
        }
    }
}

/// Simulates a set into a folder; its frames as they are stored.
pub(crate) fn simulated(flags: &[&str], folder: &Path) -> Vec<Option<Vec<u8>>> {
    let mut simulate = Command::new(env!("CARGO_BIN_EXE_sideband"));
    let made = simulate.arg("simulate").args(flags).args(["--quiet", "--out"]).arg(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    stored(&folder.join("simulated_master.h5"))
}

/// Every frame of a set as it is stored.
pub(crate) fn stored(master: &Path) -> Vec<Option<Vec<u8>>> {
    let set = FileSet::open(master).unwrap();
    let (raw, raw_in): (Sender<Item<RawBatch>>, _) = bounded(10_000);
    FileSource::new(set.runs(), 1, Arc::new(AtomicBool::new(false))).run(raw);
    raw_in.iter().flat_map(decoded).collect()
}
