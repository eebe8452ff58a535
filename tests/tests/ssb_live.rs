//! The live stage behind the real encoder and resident: what it sends equals a reconstruction from the counts themselves.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, unbounded};
use encoder::{EncodeStage, Encoded, Showing};
use kernels::Cpu;
use kernels::types::{
    Aberration, Aberrations, BatchShape, CountBuffer, CountType, Degrees, DetectorShape, FrameBatch, Gap,
    GapReason, Item, Kilovolts, Milliradians, Nanometres, Optics, ScanShape,
};
use rand::{Rng, SeedableRng};
use resident::{AppendStage, Budget, Resident};
use ssb::bright_field::bright_field;
use ssb::live::{Known, LiveResult, LiveSettings, LiveSsb, Microscope, Rows};
use ssb::reconstruct::reconstruct;
use ssb::{LiveSpectra, Options, Pattern, Pins, Reconstruction, SsbError};

const DETECTOR: DetectorShape = DetectorShape { rows: 32, cols: 32 };

fn optics() -> Optics {
    Optics {
        voltage: Kilovolts(300.0),
        semi_angle: Milliradians(30.0),
        scan_step: [Nanometres(0.016); 2],
        detector_sampling: [Milliradians(f64::NAN); 2],
        rotation: Degrees(10.0),
        transpose: false,
        aberrations: Aberrations(vec![Aberration::named("C10", Nanometres(6.0), Degrees(0.0)).unwrap()]),
    }
}

/// Frames with a disk of radius 9.4 whose centre is `centre(frame)`, about 2 counts a pixel.
fn frames(scan: ScanShape, centre: impl Fn(usize) -> [f64; 2]) -> Vec<Vec<u16>> {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(21);
    (0..scan.positions())
        .map(|frame| {
            let [row, col] = centre(frame);
            (0..DETECTOR.pixels())
                .map(|pixel| {
                    let from = ((pixel / 32) as f64 - row).hypot((pixel % 32) as f64 - col);
                    let share = (9.9 - from).clamp(0.0, 1.0);
                    if rng.random_bool(share) {
                        rng.random_range(0..5)
                    } else {
                        u16::from(rng.random_bool(0.01))
                    }
                })
                .collect()
        })
        .collect()
}

/// Whether the frames come so slowly that blocks are shown before they are whole.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    AtOnce,
    Slowly,
}

/// Runs the stages one after the other; frames that `lost` names do not come.
fn live(
    scan: ScanShape,
    frames: &[Vec<u16>],
    lost: impl Fn(usize) -> bool,
    batch: usize,
    most_bytes: u64,
) -> Result<Option<LiveResult>, SsbError> {
    live_at(Pace::AtOnce, scan, frames, lost, batch, most_bytes)
}

fn live_at(
    pace: Pace,
    scan: ScanShape,
    frames: &[Vec<u16>],
    lost: impl Fn(usize) -> bool,
    batch: usize,
    most_bytes: u64,
) -> Result<Option<LiveResult>, SsbError> {
    let (items, items_in) = unbounded();
    let mut first = 0;
    while first < frames.len() {
        let is_lost = lost(first);
        let count = (first..frames.len()).take(batch).take_while(|&frame| lost(frame) == is_lost).count();
        let item = if is_lost {
            let reason = GapReason::NotReceived("test".into());
            Item::Gap(Gap { first: first as u64, count: count as u64, reason })
        } else {
            let shape = BatchShape { frames: count, detector: DETECTOR };
            let counts = CountBuffer::<Cpu>::U16(frames[first..first + count].concat());
            Item::Data(FrameBatch { first: first as u64, shape, counts })
        };
        items.send(item).unwrap();
        first += count;
    }
    drop(items);
    let blocks_in = encoded(pace, scan, items_in);
    let resident = Resident::new(scan, DETECTOR, CountType::U16, Budget::UNLIMITED).unwrap();
    let (events, events_in) = unbounded();
    AppendStage::new(Arc::new(resident)).run(blocks_in, events).unwrap();
    let (results, results_in) = unbounded();
    let settings = LiveSettings {
        microscope: Microscope::new(Known { optics: Some(optics()), pins: Pins::default() }),
        rows: Rows::Transform,
        pixel_mask: vec![0; DETECTOR.pixels()],
        options: Options::default(),
        most_bytes,
        previews: None,
    };
    LiveSsb::new(Cpu, settings).run(events_in, results)?;
    Ok(results_in.try_recv().ok())
}

/// What the encode stage makes of it.
fn encoded(pace: Pace, scan: ScanShape, items: Receiver<Item<FrameBatch<Cpu>>>) -> Receiver<Item<Encoded>> {
    let stage = EncodeStage::new(Cpu).with_positions(scan.positions() as u64);
    let (blocks, blocks_in) = unbounded();
    if pace == Pace::AtOnce {
        stage.run(items, blocks).unwrap();
        return blocks_in;
    }
    let stage = stage.showing(Showing { first: Duration::ZERO, every: Duration::ZERO });
    let (slow, slow_in) = bounded(0);
    let (looked_at, looked_at_in) = unbounded();
    std::thread::scope(|scope| {
        scope.spawn(move || stage.run(slow_in, blocks).unwrap());
        for item in items {
            let end = match &item {
                Item::Data(batch) => Some(batch.first + batch.shape.frames as u64),
                Item::Gap(_) => None,
            };
            slow.send(item).unwrap();
            // the next frames come when these are to be seen
            let mut seen = end.map_or(u64::MAX, |_| 0);
            while seen < end.unwrap_or(0) {
                let sent = blocks_in.recv().unwrap();
                if let Item::Data(Encoded::Whole(block) | Encoded::SoFar(block)) = &sent {
                    seen = block.first() + block.positions() as u64;
                }
                looked_at.send(sent).unwrap();
            }
        }
        drop(slow);
        blocks_in.iter().for_each(|sent| looked_at.send(sent).unwrap());
    });
    looked_at_in
}

/// The same from the counts, without encoder, resident or early start.
fn direct(scan: ScanShape, frames: &[Vec<u16>], lost: impl Fn(usize) -> bool) -> (Vec<u32>, Reconstruction) {
    let mut totals = vec![0u64; DETECTOR.pixels()];
    for (at, frame) in frames.iter().enumerate().filter(|&(at, _)| !lost(at)) {
        assert_eq!(frame.len(), totals.len(), "frame {at}");
        totals.iter_mut().zip(frame).for_each(|(total, &count)| *total += u64::from(count));
    }
    let pattern = Pattern {
        detector: DETECTOR,
        totals: &totals,
        frames: (0..frames.len()).filter(|&at| !lost(at)).count() as u64,
        pixel_mask: &vec![0; DETECTOR.pixels()],
        marker_hits: None,
    };
    let field = bright_field(&pattern, optics().semi_angle, &Pins::default()).unwrap();
    let mut spectra = LiveSpectra::new(Cpu, scan, field.pixels.clone()).unwrap();
    for row in 0..scan.rows {
        let positions = row * scan.cols..(row + 1) * scan.cols;
        let covered: Vec<bool> = positions.clone().map(|at| !lost(at)).collect();
        let image = |&pixel: &u32| {
            let at = |position: usize| u32::from(frames[position][pixel as usize]);
            positions.clone().map(at).collect::<Vec<u32>>()
        };
        let counts: Vec<u32> = field.pixels.iter().flat_map(image).collect();
        spectra.add_row(row, &counts, &covered).unwrap();
    }
    (field.pixels.clone(), reconstruct(&spectra, &field, &optics(), &Options::default()).unwrap())
}

fn equals(result: &LiveResult, expected: &(Vec<u32>, Reconstruction)) {
    assert!(result.bright_field.pixels == expected.0);
    let made = result.reconstruction.as_ref().unwrap();
    assert_eq!(made.num_covered, expected.1.num_covered);
    let difference = |(a, b): (&f32, &f32)| (a - b).abs();
    let worst = made.phase.iter().zip(&expected.1.phase).map(difference).fold(0.0, f32::max);
    assert!(worst < 1e-6, "phase differs by {worst:e} rad"); // other blocks of pixels, another order of summation
    assert!(expected.1.phase.iter().any(|phase| phase.abs() > 1e-3));
}

#[test]
fn a_whole_scan_gives_what_its_counts_give() {
    let scan = ScanShape { rows: 45, cols: 50 };
    let frames = frames(scan, |_| [15.3, 16.1]);
    let expected = direct(scan, &frames, |_| false);
    for batch in [7, 600] {
        let result = live(scan, &frames, |_| false, batch, u64::MAX).unwrap().unwrap();
        equals(&result, &expected);
        assert!(result.spectra_bytes > 0);
    }
}

#[test]
fn lost_frames_and_rows_count_as_the_mean() {
    let scan = ScanShape { rows: 45, cols: 50 };
    let frames = frames(scan, |_| [15.3, 16.1]);
    let lost = |at: usize| (1010..1130).contains(&at) || at == 3;
    let result = live(scan, &frames, lost, 100, u64::MAX).unwrap().unwrap();
    equals(&result, &direct(scan, &frames, lost));
    assert_eq!(result.reconstruction.unwrap().num_covered, scan.positions() - 121);
}

#[test]
fn a_beam_that_moves_after_the_first_rows_is_followed() {
    let scan = ScanShape { rows: 45, cols: 50 };
    let frames = frames(scan, |frame| if frame < 1024 { [13.0, 14.0] } else { [17.5, 18.0] });
    let result = live(scan, &frames, |_| false, 100, u64::MAX).unwrap().unwrap();
    equals(&result, &direct(scan, &frames, |_| false));
}

#[test]
fn the_phase_does_not_depend_on_what_was_shown_meanwhile_to_the_last_bit() {
    let scan = ScanShape { rows: 45, cols: 50 };
    let lost = |at: usize| (700..760).contains(&at) || at == 3;
    for moves in [false, true] {
        let centre = |frame| if moves && frame < 300 { [13.0, 14.0] } else { [15.3, 16.1] };
        let frames = frames(scan, centre);
        let expected = live(scan, &frames, lost, 600, u64::MAX).unwrap().unwrap();
        let shown = live_at(Pace::Slowly, scan, &frames, lost, 90, u64::MAX).unwrap().unwrap();
        assert!(shown.bright_field == expected.bright_field);
        let (shown, expected) = (shown.reconstruction.unwrap(), expected.reconstruction.unwrap());
        assert!(shown.imaginary == expected.imaginary && shown.phase == expected.phase, "moves: {moves}");
    }
}

#[test]
fn a_blank_beam_ends_in_an_error_that_says_so() {
    let scan = ScanShape { rows: 3, cols: 5 };
    let blank = vec![vec![0; DETECTOR.pixels()]; scan.positions()];
    let refused = live(scan, &blank, |_| false, 4, u64::MAX).unwrap_err();
    assert!(matches!(refused, SsbError::NoDisk { .. }), "{refused}");
}

#[test]
fn spectra_beyond_the_budget_are_refused_with_both_sizes() {
    let scan = ScanShape { rows: 45, cols: 50 };
    let frames = frames(scan, |_| [15.3, 16.1]);
    let refused = live(scan, &frames, |_| false, 600, 1000).unwrap_err();
    assert!(matches!(refused, SsbError::SpectraTooLarge { most: 1000, .. }), "{refused}");
}
