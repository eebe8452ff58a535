use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};
use proptest::prelude::*;

use super::*;

/// A batch whose frame `n` is the one byte `n`.
fn batch(first: u64, frames: u64) -> Item<RawBatch> {
    let bytes: Vec<u8> = (first..first + frames).map(|frame| frame as u8).collect();
    let ranges = (0..frames as usize).map(|at| at..at + 1).collect();
    let detector = DetectorShape { rows: 1, cols: 1 };
    Item::Data(RawBatch::new(first, Encoding::Raw, CountType::U8, detector, bytes, ranges))
}

/// Runs arrivals through; one entry a frame: its byte, or None where it is missing.
fn placed(num_frames: u64, arrivals: Vec<Item<RawBatch>>) -> (Vec<Option<u8>>, u64) {
    let mut sequencer = Sequencer::new(num_frames);
    let mut frames = Vec::new();
    let mut surplus = 0;
    let mut take = |item: Item<RawBatch>| match item {
        Item::Data(batch) => {
            assert_eq!(batch.first, frames.len() as u64, "a batch starts where the last item ended");
            frames.extend(batch.frames().map(|bytes| Some(bytes[0])));
        }
        Item::Gap(gap) => {
            assert_eq!(gap.first, frames.len() as u64, "a gap starts where the last item ended");
            assert!(gap.count > 0);
            frames.extend((0..gap.count).map(|_| None));
        }
    };
    for arrival in arrivals {
        let step = sequencer.step(arrival);
        surplus += step.surplus;
        step.items.into_iter().flatten().for_each(&mut take);
    }
    sequencer.end().into_iter().map(Item::Gap).for_each(&mut take);
    (frames, surplus)
}

#[test]
fn frames_in_order_pass_untouched() {
    let (frames, surplus) = placed(5, vec![batch(0, 2), batch(2, 3)]);
    assert_eq!(frames, [0, 1, 2, 3, 4].map(Some));
    assert_eq!(surplus, 0);
}

#[test]
fn a_lost_batch_becomes_a_gap_of_its_size() {
    let (frames, surplus) = placed(6, vec![batch(0, 2), batch(4, 2)]);
    assert_eq!(frames, [Some(0), Some(1), None, None, Some(4), Some(5)]);
    assert_eq!(surplus, 0);
}

#[test]
fn a_doubled_frame_is_used_once_and_counted() {
    let (frames, surplus) = placed(4, vec![batch(0, 2), batch(1, 3), batch(0, 4)]);
    assert_eq!(frames, [0, 1, 2, 3].map(Some));
    assert_eq!(surplus, 1 + 4);
}

#[test]
fn an_early_end_is_a_gap_to_the_expected_end() {
    let (frames, _) = placed(4, vec![batch(0, 1)]);
    assert_eq!(frames, [Some(0), None, None, None]);
    assert_eq!(placed(3, vec![]).0, [None, None, None]);
}

#[test]
fn frames_beyond_the_expected_end_are_surplus() {
    let (frames, surplus) = placed(3, vec![batch(2, 4), batch(9, 1)]);
    assert_eq!(frames, [None, None, Some(2)]);
    assert_eq!(surplus, 3 + 1);
}

proptest! {
    #[test]
    fn every_frame_is_there_or_missing_exactly_once(
        arrivals in prop::collection::vec((0u64..60, 0u64..12, any::<bool>()), 0..30),
        num_frames in 0u64..60,
    ) {
        let delivered: u64 = arrivals.iter().filter(|(.., is_gap)| !is_gap).map(|(_, count, _)| count).sum();
        let items = arrivals.iter().map(|&(first, count, is_gap)| match is_gap {
            true => Item::Gap(Gap { first, count, reason: GapReason::Unreadable(String::new()) }),
            false => batch(first, count),
        });
        let (frames, surplus) = placed(num_frames, items.collect());
        prop_assert_eq!(frames.len() as u64, num_frames);
        let present = frames.iter().flatten().count() as u64;
        prop_assert_eq!(present + surplus, delivered);
        for (at, frame) in frames.iter().enumerate() {
            prop_assert!(frame.is_none_or(|byte| usize::from(byte) == at));
        }
    }
}
