//! A thousand random combinations of faults, planned as `sideband replay` plans them and read as the daemon reads: the holes
//! are those frames that were hit, exactly, and the series ends for the right reason.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use deploy::replay::fault::{Amount, EndFault, FaultSwitch, FrameFault};
use deploy::replay::plan::{Step, plan};
use ingest::raw::RawBatch;
use ingest::stream::compose::{SeriesFacts, Version};
use ingest::stream::message::parse;
use ingest::stream::push::WireMessage;
use ingest::stream::series::{Ending, SeriesReader, SeriesSettings};
use kernels::bslz4_decode::{Encoding, decode_frame};
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{CountType, DetectorShape, Item};

const FRAMES: u64 = 300;
const DETECTOR: DetectorShape = DetectorShape { rows: 8, cols: 16 };

fn facts(id: u64, detector: DetectorShape, count_type: CountType) -> SeriesFacts {
    SeriesFacts {
        id,
        unique_id: format!("{id:026}"),
        num_images: FRAMES,
        detector,
        count_type,
        encoding: Encoding::Bslz4,
        incident_energy_ev: 300_000.0,
        frame_time_s: 1e-4,
    }
}

/// Counts of a frame: each is the frame's number, so that one in the wrong place is seen.
fn counts(number: u64) -> Vec<u16> {
    vec![number as u16; DETECTOR.pixels()]
}

fn parts_of(message: &WireMessage) -> Vec<Vec<u8>> {
    let (mut wire, mut parts) = (message.bytes(), Vec::new());
    while let Some((&flags, rest)) = wire.split_first() {
        let (len, rest) = match flags & 2 {
            0 => (usize::from(rest[0]), &rest[1..]),
            _ => (u64::from_be_bytes(rest[..8].try_into().unwrap()) as usize, &rest[8..]),
        };
        parts.push(rest[..len].to_vec());
        wire = &rest[len..];
    }
    parts
}

/// Some of the faults, by a seed.
fn some_faults(seed: u64) -> Vec<FaultSwitch> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let mut faults = Vec::new();
    for kind in FrameFault::ALL {
        match below(4) {
            0 => faults.push(FaultSwitch::Frames(kind, Amount::Count(1 + below(20)))),
            1 => faults.push(FaultSwitch::Frames(kind, Amount::Rate(below(100) as f64 / 1000.0))),
            _ => {}
        }
    }
    if below(2) == 0 {
        faults.push(FaultSwitch::Garbage(Amount::Count(1 + below(30))));
    }
    if below(4) == 0 {
        faults.push(FaultSwitch::NoStart);
    }
    match below(6) {
        0 => faults.push(FaultSwitch::End(EndFault::Missing)),
        1 => faults.push(FaultSwitch::End(EndFault::Early)),
        2 => faults.push(FaultSwitch::End(EndFault::Other)),
        3 => faults.push(FaultSwitch::End(EndFault::Late(Duration::from_millis(100)))),
        _ => {}
    }
    if below(4) == 0 {
        faults.push(FaultSwitch::Stall(Duration::from_millis(below(400)), None));
    }
    faults
}

/// What came of a series: frames that decode to what was sent, by number; the reason of its end.
fn read(version: Version, seed: u64) -> (BTreeSet<u64>, Ending, bool) {
    let (own, other) = (facts(1, DETECTOR, CountType::U16), facts(2, DETECTOR, CountType::U16));
    let wide = facts(1, DetectorShape { rows: 8, cols: 24 }, CountType::U16);
    let long = facts(1, DETECTOR, CountType::U32);
    let settings = SeriesSettings::new(FRAMES);
    let (grace, silence) = (settings.grace, settings.silence);
    let mut reader = SeriesReader::new(settings, Vec::new());
    let mut now = Instant::now();
    let mut sound = BTreeSet::new();
    let mut batch = |batch: RawBatch| {
        for (number, bytes) in (batch.first..).zip(batch.frames()) {
            let mut got = vec![0_u16; DETECTOR.pixels()];
            if decode_frame(batch.encoding, bytes, &mut got).is_ok() {
                assert_eq!(got, counts(number), "frame {number}, seed {seed}, {version:?}");
                assert!(sound.insert(number));
            }
        }
    };
    let mut out = |item| {
        if let Item::Data(data) = item {
            batch(data);
        }
    };
    let mut ended = None;
    let mut own_end = false;
    for step in plan(seed, &some_faults(seed), FRAMES).steps() {
        let message = match step {
            Step::Start => own.start(version),
            Step::Frame { number, damage } => {
                let mut bytes = Vec::new();
                encode_bslz4(&counts(number), &mut bytes);
                match damage {
                    Some(FrameFault::Truncated) => bytes.truncate(bytes.len() / 2),
                    Some(FrameFault::Corrupted) => bytes[8..12].fill(0),
                    _ => {}
                }
                match damage {
                    Some(FrameFault::WrongSize) => wide.image(version, number, &bytes),
                    Some(FrameFault::WrongType) => long.image(version, number, &bytes),
                    _ => own.image(version, number, &bytes),
                }
            }
            Step::Garbage { seed } => {
                WireMessage::new(&[&seed.to_le_bytes(), b"{\"htype\":", &[0xd9, 0xd9, 0xf7]])
            }
            Step::End { is_own: true } => {
                own_end = true;
                own.end(version)
            }
            Step::End { is_own: false } => other.end(version),
            Step::Pause(time) => {
                now += time;
                ended = ended.or_else(|| reader.look(now, &mut out));
                continue;
            }
            Step::Restart | Step::AbortNext => unreachable!("not among the faults"),
        };
        now += Duration::from_micros(50);
        let parts = parts_of(&message);
        if let Ok(message) = parse(parts.iter().map(Vec::as_slice))
            && ended.is_none()
        {
            ended = reader.take(&message, now, &mut out);
        }
    }
    let ended = ended
        .or_else(|| reader.look(now + grace, &mut out))
        .or_else(|| reader.look(now + silence, &mut out))
        .unwrap();
    (sound, ended, own_end)
}

#[test]
fn a_thousand_combinations_leave_exactly_the_holes_that_were_made() {
    let (mut with_holes, mut complete, mut skipped) = (0, 0, 0);
    for seed in 0..1000 {
        let planned = plan(seed, &some_faults(seed), FRAMES);
        let hit = |kinds: &[FrameFault]| -> BTreeSet<u64> {
            planned
                .hits
                .iter()
                .filter(|(kind, _)| kinds.contains(kind))
                .flat_map(|(_, hit)| hit)
                .copied()
                .collect()
        };
        let unlike = hit(&[FrameFault::WrongSize, FrameFault::WrongType]);
        let first = planned.steps().find_map(|step| match step {
            Step::Frame { number, .. } => Some(number),
            _ => None,
        });
        if first.is_some_and(|first| unlike.contains(&first)) {
            skipped += 1; // the first frame that comes says what the others are like
            continue;
        }
        let never = &hit(&[FrameFault::Lost]) | &unlike;
        let holes = &never | &hit(&[FrameFault::Truncated, FrameFault::Corrupted]);
        for version in [Version::V1, Version::V2] {
            let (sound, ended, own_end) = read(version, seed);
            let expected: BTreeSet<u64> = (0..FRAMES).filter(|number| !holes.contains(number)).collect();
            assert!(sound == expected, "seed {seed}, {version:?}: {:?}", &sound ^ &expected);
            let right = match (never.is_empty(), own_end) {
                (true, _) => Ending::Complete,
                (false, true) => Ending::EndOfSeries,
                (false, false) => Ending::Silence,
            };
            assert_eq!(ended, right, "seed {seed}, {version:?}");
            with_holes += u64::from(!holes.is_empty());
            complete += u64::from(ended == Ending::Complete);
        }
    }
    assert!(with_holes > 1000 && complete > 50 && skipped < 100, "{with_holes}, {complete}, {skipped}");
}
