//! Stage: frames in order, losses as data.
//!
//! Whatever order batches arrive in, what leaves is strictly rising in frame number, and every frame up to the expected end
//! is either in a batch or in a [`Gap`], exactly once.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use kernels::types::{Gap, GapReason, Item};

use crate::counters::IngestCounters;
use crate::raw::RawBatch;

/// The stage: moves batches through a [`Sequencer`].
#[derive(Debug)]
pub struct SequenceStage {
    sequencer: Sequencer,
    counters: Arc<IngestCounters>,
}

impl SequenceStage {
    /// A stage for an acquisition of `num_frames` frames.
    pub fn new(num_frames: u64, counters: Arc<IngestCounters>) -> Self {
        Self { sequencer: Sequencer::new(num_frames), counters }
    }

    /// Runs until the input closes, then accounts for the frames that never came. A closed output is an orderly stop.
    pub fn run(mut self, raw: Receiver<Item<RawBatch>>, ordered: Sender<Item<RawBatch>>) {
        for item in raw {
            if let Item::Data(batch) = &item {
                self.counters.frames_received.add(batch.num_frames() as u64);
                self.counters.bytes.add(batch.num_bytes());
            }
            if !self.forward(item, &ordered) {
                return;
            }
        }
        if let Some(gap) = self.sequencer.end() {
            self.send(Item::Gap(gap), &ordered);
        }
    }

    fn forward(&mut self, item: Item<RawBatch>, ordered: &Sender<Item<RawBatch>>) -> bool {
        let step = self.sequencer.step(item);
        self.counters.frames_surplus.add(step.surplus);
        step.items.into_iter().flatten().all(|item| self.send(item, ordered))
    }

    fn send(&self, item: Item<RawBatch>, ordered: &Sender<Item<RawBatch>>) -> bool {
        if let Item::Gap(gap) = &item {
            self.counters.frames_missing.add(gap.count);
        }
        ordered.send(item).is_ok()
    }
}

/// The state: the next frame number that is due.
#[derive(Clone, Copy, Debug)]
pub struct Sequencer {
    next: u64,
    num_frames: u64,
}

/// What one arrival turned into.
#[derive(Debug, Default)]
pub struct Step {
    /// At most a gap and what came after it.
    pub items: [Option<Item<RawBatch>>; 2],
    /// Frames of the arrival that are not used: doubled, late, or beyond the expected end.
    pub surplus: u64,
}

impl Sequencer {
    /// Waits for frame 0 of `num_frames`.
    pub fn new(num_frames: u64) -> Self {
        Self { next: 0, num_frames }
    }

    /// Places one arrival.
    pub fn step(&mut self, item: Item<RawBatch>) -> Step {
        match item {
            Item::Data(batch) => self.place(batch),
            Item::Gap(gap) => self.place_gap(gap),
        }
    }

    /// The frames that never came, once nothing more can.
    pub fn end(&mut self) -> Option<Gap> {
        let first = self.next;
        self.next = self.num_frames.max(first);
        (first < self.num_frames).then(|| Gap {
            first,
            count: self.num_frames - first,
            reason: GapReason::NotReceived("the source ended before".to_owned()),
        })
    }

    fn gap_before(&mut self, first: u64) -> Option<Item<RawBatch>> {
        let missing = first.saturating_sub(self.next);
        (missing > 0).then(|| {
            Item::Gap(Gap {
                first: self.next,
                count: missing,
                reason: GapReason::NotReceived("later frames came instead".to_owned()),
            })
        })
    }

    fn place(&mut self, batch: RawBatch) -> Step {
        let arrived = batch.num_frames() as u64;
        let end = batch.end().min(self.num_frames);
        if arrived == 0 || end <= self.next || batch.first >= end {
            return Step { surplus: arrived, ..Step::default() };
        }
        let before = self.gap_before(batch.first);
        let late = self.next.saturating_sub(batch.first);
        let beyond = batch.end() - end;
        let batch = batch.without_first(late as usize).without_last(beyond as usize);
        self.next = end;
        Step { items: [before, Some(Item::Data(batch))], surplus: late + beyond }
    }

    fn place_gap(&mut self, gap: Gap) -> Step {
        let end = gap.first.saturating_add(gap.count).min(self.num_frames);
        if gap.count == 0 || end <= self.next || gap.first >= end {
            return Step::default();
        }
        let before = self.gap_before(gap.first);
        let first = gap.first.max(self.next);
        self.next = end;
        Step { items: [before, Some(Item::Gap(Gap { first, count: end - first, ..gap }))], surplus: 0 }
    }
}

#[cfg(test)]
mod tests;
