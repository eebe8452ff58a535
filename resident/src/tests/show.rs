//! Blocks that are shown before they are whole.

use std::sync::Arc;

use crossbeam_channel::unbounded;
use encoder::{Encoded, INTERVAL};
use kernels::types::{CountType, DetectorShape, Item, ScanShape};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::dense::Dense;
use crate::{AppendStage, Basis, Budget, Event, Missing, Resident, ResidentError, Signal, Snapshot};

const SCAN: ScanShape = ScanShape { rows: 30, cols: 70 }; // 2100 positions: 1024, 1024, 52
const DETECTOR: DetectorShape = DetectorShape { rows: 9, cols: 10 };

/// What comes of an acquisition, with showings of random lengths strewn in where they may come.
fn with_showings(dense: &Dense, random: &mut Pcg64) -> Vec<Item<Encoded>> {
    let (mut items, mut shown) = (Vec::new(), 0);
    for item in dense.encode(512) {
        let (first, end) = match &item {
            Item::Data(block) => (block.first(), block.first() + block.positions() as u64),
            Item::Gap(gap) => (gap.first - gap.first % INTERVAL as u64, gap.first),
        };
        for _ in 0..random.random_range(0..4) {
            shown = random.random_range(shown.clamp(first, end)..=end);
            items.extend(dense.block_so_far(first, shown).map(|block| Item::Data(Encoded::SoFar(block))));
        }
        items.push(match item {
            Item::Data(block) => Item::Data(Encoded::Whole(block)),
            Item::Gap(gap) => Item::Gap(gap),
        });
    }
    items
}

/// All events that the stage makes of it.
fn events(resident: &Arc<Resident>, items: Vec<Item<Encoded>>) -> Vec<Event> {
    let (to_stage, blocks) = unbounded();
    let (events, received) = unbounded();
    items.into_iter().for_each(|item| to_stage.send(item).unwrap());
    drop(to_stage);
    AppendStage::new(Arc::clone(resident)).run(blocks, events).unwrap();
    received.iter().collect()
}

fn totals(snapshot: &Snapshot) -> (Vec<u64>, Vec<u64>) {
    let pattern = snapshot.detector_total(Missing::Report).unwrap().value;
    (pattern.to_vec(), snapshot.marker_hits(Missing::Report).unwrap().value.to_vec())
}

#[test]
fn what_is_held_in_the_end_does_not_depend_on_what_was_shown() {
    let mut early = [0; 2];
    for (seed, gaps) in (0..).zip([vec![], vec![71..74, 1000..2050], vec![0..130, 1030..1031, 2090..2100]]) {
        let dense = Dense::new(SCAN, DETECTOR, CountType::U16, &gaps, seed);
        let expected = dense.resident(512).snapshot();
        let mut random = Pcg64::seed_from_u64(seed);
        for _ in 0..8 {
            let resident = dense.empty_resident(Budget::UNLIMITED);
            let events = events(&resident, with_showings(&dense, &mut random));
            let snapshot = resident.snapshot();
            assert!(snapshot.blocks().eq(expected.blocks()));
            assert_eq!(totals(&snapshot), totals(&expected));
            assert_eq!(snapshot.totals(), expected.totals());
            // a row that was signalled was what it is in the end
            let mut rows = Vec::new();
            for event in &events {
                if let Signal::RowComplete(row) = event.signal {
                    let span = event.snapshot.row(row.row);
                    let then = event.snapshot.frame_sums(span.clone(), Missing::Report).unwrap();
                    assert_eq!(then, expected.frame_sums(span, Missing::Report).unwrap());
                    assert_eq!(row.missing, then.coverage.num_missing());
                    early[0] += usize::from(event.snapshot.totals().frames % INTERVAL as u64 != 0);
                    rows.push(row.row);
                }
            }
            assert_eq!(rows, (0..SCAN.rows).collect::<Vec<_>>());
            assert!(matches!(events.last().unwrap().signal, Signal::Complete { .. }));
            // the geometry is settled on what it is settled on without showings
            let bases: Vec<Basis> = events
                .iter()
                .filter_map(
                    |event| if let Signal::Geometry(basis) = event.signal { Some(basis) } else { None },
                )
                .collect();
            assert!(bases.is_sorted() && bases.last() == Some(&Basis::Settled), "{bases:?}");
            early[1] += bases.len() - 1;
            let settled = |events: &[Event]| {
                let event = events.iter().find(|event| event.signal == Signal::Geometry(Basis::Settled));
                totals(&event.unwrap().snapshot)
            };
            let whole = dense.encode(512).into_iter().map(|item| match item {
                Item::Data(block) => Item::Data(Encoded::Whole(block)),
                Item::Gap(gap) => Item::Gap(gap),
            });
            let unshown = self::events(&dense.empty_resident(Budget::UNLIMITED), whole.collect());
            assert_eq!(settled(&events), settled(&unshown));
        }
    }
    assert!(early.iter().all(|&times| times > 0), "{early:?}");
}

#[test]
fn questions_see_a_block_that_fills_as_far_as_it_is_shown() {
    let dense = Dense::new(SCAN, DETECTOR, CountType::U16, &[1030..1034, 2099..2099], 3);
    let resident = dense.empty_resident(Budget::UNLIMITED);
    let mut blocks = dense.encode(512).into_iter().filter_map(|item| match item {
        Item::Data(block) => Some(block),
        Item::Gap(_) => None,
    });
    resident.append(blocks.next().unwrap()).unwrap();
    let mask: Vec<bool> = (0..DETECTOR.pixels()).map(|pixel| pixel % 3 == 0).collect();
    let weights: Vec<i64> = mask.iter().map(|&inside| inside.into()).collect();
    for end in [1028, 1500, 1900] {
        let arrival = resident.show(dense.block_so_far(1024, end).unwrap()).unwrap();
        let frames = end - if end > 1034 { 4 } else { 0 };
        assert_eq!((arrival.totals.frames, arrival.whole_frames), (frames, 1024));
        let snapshot = resident.snapshot();
        let image = snapshot.mask_sum(&mask, 1000..2000, Missing::Report).unwrap();
        assert_eq!(image.coverage.covered(), frames - 1000);
        let direct = dense.weighted(&weights, 1000..end);
        assert!(image.value[..(end - 1000) as usize].iter().map(|&sum| i128::from(sum)).eq(direct));
        let pattern = dense.pattern(0..end);
        assert_eq!(snapshot.detector_total(Missing::Report).unwrap().value.to_vec(), pattern);
        let images = snapshot.pixel_images::<u32>(&[4, 50], 1020..1100, Missing::Report).unwrap();
        let missing = |at: u64| at >= end || (1030..1034).contains(&at);
        let covered = (1020..1100).filter(|&at| !missing(at)).count() as u64;
        assert_eq!(images.coverage.covered(), covered);
        let whole = dense.images(&[4, 50], 1020..1100);
        let expected =
            whole.iter().zip((1020..1100).cycle()).map(|(&count, at)| if missing(at) { 0 } else { count });
        assert!(images.value.iter().copied().eq(expected));
    }
    assert_eq!(resident.append(blocks.next().unwrap()).unwrap().totals.frames, 2044);
}

#[test]
fn what_is_over_the_budget_is_not_shown_and_what_is_held_is_not_shown_again() {
    let dense = Dense::new(SCAN, DETECTOR, CountType::U16, &[], 4);
    let resident = dense.empty_resident(Budget { bytes: 1000 });
    let shown = resident.show(dense.block_so_far(0, 600).unwrap()).unwrap();
    assert_eq!((shown.totals.frames, shown.totals.held_bytes, shown.rows.len()), (0, 0, 0));
    let resident = dense.resident(512);
    let refused = resident.show(dense.block_so_far(0, 600).unwrap()).unwrap_err();
    assert!(matches!(refused, ResidentError::AlreadyHeld { first: 0 }), "{refused}");
}
