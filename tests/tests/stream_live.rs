//! The golden acquisition, sent as a detector sends it over the loopback, in both versions of the stream: what is held
//! afterwards is what is held when the files are read.
#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crossbeam_channel::bounded;
use deploy::pipeline::fill;
use deploy::request::StopFlag;
use encoder::EncodeStage;
use ingest::counters::IngestCounters;
use ingest::decode::DecodeStage;
use ingest::dectris::FileSet;
use ingest::raw::RawBatch;
use ingest::source::FileSource;
use ingest::stream::compose::{SeriesFacts, Version};
use ingest::stream::push::{PushSocket, Sent};
use ingest::stream::receive::{ReceiveCounters, ReceiveSettings, ReceiveStage};
use ingest::stream::series::Ending;
use ingest::stream::source::{SeriesEnd, StreamSource};
use kernels::Cpu;
use kernels::reduce_frames::ReducedBatch;
use kernels::types::{Item, ScanShape};
use resident::{AppendStage, Budget, Missing, Resident};
use tests::not_run;

const SCAN: ScanShape = ScanShape { rows: 64, cols: 64 };

fn empty(set: &FileSet) -> Arc<Resident> {
    Arc::new(Resident::new(SCAN, set.detector, set.count_type, Budget { bytes: 1 << 30 }).unwrap())
}

/// Every frame of a set, compressed as it is stored.
fn stored_frames(set: &FileSet) -> Vec<RawBatch> {
    let (raw, raw_in) = bounded(10_000);
    FileSource::new(set.runs(), 1, Arc::new(AtomicBool::new(false))).run(raw);
    raw_in
        .iter()
        .map(|item| match item {
            Item::Data(batch) => batch,
            Item::Gap(gap) => panic!("{gap:?}"),
        })
        .collect()
}

/// Sends the frames of a set that `keep` lets through, and fills a resident from what comes.
fn over_the_wire(set: &FileSet, version: Version, keep: fn(u64) -> bool) -> (Arc<Resident>, SeriesEnd) {
    let batches = stored_frames(set);
    let facts = SeriesFacts {
        id: 17,
        unique_id: "01KB0000000000000000000017".to_owned(),
        num_images: set.frames_expected,
        detector: set.detector,
        count_type: set.count_type,
        encoding: batches[0].encoding,
        incident_energy_ev: 300_000.0,
        frame_time_s: 50e-6,
    };
    let mut socket = PushSocket::bind("127.0.0.1:0", Duration::from_secs(20)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let settings =
        ReceiveSettings { slabs: 8, ..ReceiveSettings::new(socket.address().unwrap().to_string()) };
    let (receive, received) = ReceiveStage::new(settings, Arc::new(ReceiveCounters::default()), stop.clone());
    let mut source = StreamSource::new(received, stop.clone());
    let resident = empty(set);
    let end = std::thread::scope(|scope| {
        let (raw, raw_in) = bounded(4);
        let (decoded, decoded_in) = bounded(4);
        let (blocks, blocks_in) = bounded(4);
        let (events, events_in) = bounded(10_000);
        scope.spawn(|| receive.run());
        scope.spawn(move || {
            while socket.num_readers() == 0 {
                socket.accept();
            }
            socket.send(&facts.start(version));
            let numbered = batches.iter().flat_map(|batch| (batch.first..).zip(batch.frames()));
            for (number, frame) in numbered.filter(|&(number, _)| keep(number)) {
                assert_eq!(socket.send(&facts.image(version, number, frame)), Sent::Yes);
            }
            socket.send(&facts.end(version));
        });
        let decode = DecodeStage::<ReducedBatch<Cpu>>::new(Cpu, Arc::new(IngestCounters::default()));
        scope.spawn(move || decode.run(raw_in, decoded).unwrap());
        let encode = EncodeStage::new(Cpu).with_positions(set.frames_expected);
        scope.spawn(move || encode.run(decoded_in, blocks).unwrap());
        let append = AppendStage::new(resident.clone());
        let appending = scope.spawn(move || append.run(blocks_in, events).unwrap());
        scope.spawn(move || events_in.iter().for_each(drop));
        let announced = source.next_series(|_| ()).unwrap();
        assert_eq!(announced.num_images, Some(set.frames_expected));
        let end = source.read_series(announced.reading(set.frames_expected), &raw).unwrap();
        drop(raw);
        appending.join().unwrap();
        stop.store(true, Relaxed);
        end
    });
    (resident, end)
}

fn golden_set() -> Option<FileSet> {
    let Some(data) = std::env::var_os("SIDEBAND_GOLDENS") else {
        not_run("SIDEBAND_GOLDENS is not set");
        return None;
    };
    Some(FileSet::open(&Path::new(&data).join("sto-small/sto-small_master.h5")).unwrap())
}

#[test]
fn a_series_over_the_wire_is_held_as_the_files_are() {
    let Some(set) = golden_set() else { return };
    let from_files = empty(&set);
    fill(Cpu, &set, &from_files, &StopFlag::default()).unwrap();
    let expected = from_files.snapshot();
    for version in [Version::V1, Version::V2] {
        let (resident, end) = over_the_wire(&set, version, |_| true);
        assert_eq!((end.ending, end.counts.frames), (Ending::Complete, 4096));
        // the streams too are byte for byte the same
        assert!(resident.snapshot().blocks().eq(expected.blocks()), "{version:?}");
    }
}

#[test]
fn frames_that_are_lost_on_the_way_are_holes_and_no_others() {
    let Some(set) = golden_set() else { return };
    let keep = |number: u64| !number.is_multiple_of(97) && !(1020..1030).contains(&number);
    let (resident, end) = over_the_wire(&set, Version::V2, keep);
    assert_eq!(end.ending, Ending::EndOfSeries);
    let snapshot = resident.snapshot();
    let kept = (0..4096).filter(|&number| keep(number)).count() as u64;
    assert_eq!((end.counts.frames, snapshot.totals().frames), (kept, kept));
    let from_files = empty(&set);
    fill(Cpu, &set, &from_files, &StopFlag::default()).unwrap();
    let expected = from_files.snapshot().frame_sums(0..4096, Missing::Fail).unwrap().value;
    let sums = snapshot.frame_sums(0..4096, Missing::Report).unwrap().value;
    for (number, (sum, expected)) in (0..).zip(sums.into_iter().zip(expected)) {
        assert_eq!(sum, if keep(number) { expected } else { 0 }, "frame {number}");
    }
}
