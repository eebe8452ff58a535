//! A thousand random combinations of faults, planned as `sideband replay` plans them and read as the daemon reads: the holes
//! are those frames that were hit, exactly, and the series ends for the right reason.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use deploy::replay::fault::{Amount, EndFault, FaultSwitch, FrameFault};
use deploy::replay::plan::{Step, plan};
use ingest::raw::RawBatch;
use ingest::stream::compose::{SeriesFacts, Version};
use ingest::stream::kind::{Kind, Kinds};
use ingest::stream::message::{Message, parse};
use ingest::stream::over::Over;
use ingest::stream::push::WireMessage;
use ingest::stream::series::{Ending, SeriesReader, SeriesSettings};
use kernels::bslz4_decode::{Encoding, decode_frame};
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{CountType, DetectorShape, Gap, GapReason, Item};

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

/// What the frames of a series are like, as the daemon finds it out before it reads them; and its messages with their times.
fn settled(messages: &[(WireMessage, Instant)]) -> Option<Kind> {
    let mut kinds = Kinds::default();
    for (message, at) in messages {
        match parse(message.parts()) {
            Ok(Message::Start(start)) => kinds = Kinds::of_start(&start),
            Ok(Message::Image(image)) => kinds.take(&image, *at),
            _ => {}
        }
        if kinds.is_settled(*at) {
            break;
        }
    }
    kinds.channels().first().map(|channel| channel.kind)
}

/// What came of a series.
struct Read {
    /// Frames that decode to what was sent.
    sound: BTreeSet<u64>,
    /// Holes because a frame was unlike the others.
    unlike: BTreeSet<u64>,
    ended: Ending,
    /// Whether its own end was sent.
    own_end: bool,
}

fn read(version: Version, seed: u64) -> Read {
    let (own, other) = (facts(1, DETECTOR, CountType::U16), facts(2, DETECTOR, CountType::U16));
    let wide = facts(1, DetectorShape { rows: 8, cols: 24 }, CountType::U16);
    let long = facts(1, DETECTOR, CountType::U32);
    let settings = SeriesSettings::new(FRAMES);
    let (grace, silence) = (settings.grace, settings.silence);
    let mut now = Instant::now();
    let mut messages = Vec::new();
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
                continue;
            }
            Step::Restart | Step::AbortNext => unreachable!("not among the faults"),
        };
        now += Duration::from_micros(50);
        messages.push((message, now));
    }
    let kind = settled(&messages);
    assert_eq!(
        kind.map(|kind| (kind.count_type, kind.detector)),
        Some((CountType::U16, DETECTOR)),
        "seed {seed}"
    );
    let mut reader = SeriesReader::new(SeriesSettings { kind, ..settings }, Over::default());
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
    let mut unlike = BTreeSet::new();
    let mut out = |item| match item {
        Item::Data(data) => batch(data),
        Item::Gap(Gap { first, count, reason: GapReason::Unlike(_) }) => unlike.extend(first..first + count),
        Item::Gap(_) => {}
    };
    let mut ended = None;
    for (message, at) in &messages {
        ended = ended.or_else(|| reader.look(*at, &mut out));
        if let Ok(message) = parse(message.parts())
            && ended.is_none()
        {
            ended = reader.take(&message, *at, &mut out);
        }
    }
    let ended = ended
        .or_else(|| reader.look(now + grace, &mut out))
        .or_else(|| reader.look(now + silence, &mut out))
        .unwrap();
    Read { sound, unlike, ended, own_end }
}

#[test]
fn a_thousand_combinations_leave_exactly_the_holes_that_were_made() {
    let (mut with_holes, mut complete, mut odd_first) = (0, 0, 0);
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
        odd_first += u64::from(first.is_some_and(|first| unlike.contains(&first)));
        let never = hit(&[FrameFault::Lost]);
        let holes = &(&never | &unlike) | &hit(&[FrameFault::Truncated, FrameFault::Corrupted]);
        for version in [Version::V1, Version::V2] {
            let read = read(version, seed);
            let expected: BTreeSet<u64> = (0..FRAMES).filter(|number| !holes.contains(number)).collect();
            assert!(read.sound == expected, "seed {seed}, {version:?}: {:?}", &read.sound ^ &expected);
            // told as what they are, and not as never having come
            assert!(read.unlike == unlike, "seed {seed}, {version:?}: {:?}", &read.unlike ^ &unlike);
            let right = match (never.is_empty(), unlike.is_empty(), read.own_end) {
                (true, true, _) => Ending::Complete,
                (true, false, _) => Ending::LastFrame,
                (false, _, true) => Ending::EndOfSeries,
                (false, _, false) => Ending::Silence,
            };
            let ended = read.ended;
            assert_eq!(ended, right, "seed {seed}, {version:?}");
            with_holes += u64::from(!holes.is_empty());
            complete += u64::from(ended == Ending::Complete);
        }
    }
    assert!(with_holes > 1000 && complete > 50 && odd_first > 20, "{with_holes}, {complete}, {odd_first}");
}
