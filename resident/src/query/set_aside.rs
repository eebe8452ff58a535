//! Frames that are kept and belong to no position: before the first row, fly-back, after the last row. What the running
//! totals have too much of.

use std::sync::{Mutex, PoisonError};

use super::patterns::PatternSums;
use crate::coverage::PositionSet;
use crate::error::ResidentError;
use crate::snapshot::Snapshot;

/// Sums over such frames, of one geometry, shared by the snapshots of an acquisition: each block is decoded for them once.
#[derive(Debug, Default)]
pub(crate) struct SetAside {
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    /// The frames.
    frames: PositionSet,
    /// By interval: its whole block is in the sums.
    added: Vec<bool>,
    sums: PatternSums,
}

impl Snapshot {
    /// Whether there are frames that belong to no position, come or not.
    fn has_set_aside(&self) -> bool {
        let (geometry, order) = (self.geometry(), self.geometry().order());
        order.skip_frames > 0 || order.flyback_frames > 0 || geometry.num_frames() < self.positions().end
    }

    /// Those frames.
    fn set_aside_frames(&self) -> PositionSet {
        let (geometry, all) = (self.geometry(), self.positions().end);
        let mut frames = PositionSet::empty(all);
        let mut end = 0;
        for row in 0..geometry.scan().rows {
            let of_row = geometry.frames_of_row(row);
            frames.insert_range(end..of_row.start);
            end = of_row.end;
        }
        frames.insert_range(end..all);
        frames
    }

    /// Sums over the frames that are there and belong to no position; none where there cannot be any.
    pub(super) fn set_aside_sums(&self) -> Result<Option<PatternSums>, ResidentError> {
        if !self.has_set_aside() {
            return Ok(None);
        }
        let mut held = self.state.set_aside.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match held.take() {
            Some(known) => known,
            None => Known {
                frames: self.set_aside_frames(),
                added: vec![false; self.state.blocks.len()],
                sums: self.no_sums()?,
            },
        };
        // put back only when nothing went wrong half way
        let (known, sums) = self.add_new(known)?;
        *held = Some(known);
        Ok(Some(sums))
    }

    /// Adds the blocks that have come whole since; the sums of this snapshot.
    fn add_new(&self, mut known: Known) -> Result<(Known, PatternSums), ResidentError> {
        let parts = self.parts(self.positions());
        let is_whole = |index: usize| {
            let part = parts.get(index);
            part.and_then(|part| Some((part, part.block?)))
                .is_some_and(|(part, block)| block.positions() == part.within.len())
        };
        if known.added.iter().enumerate().any(|(index, &added)| added && !is_whole(index)) {
            // an older snapshot than the newest that asked
            let mut sums = self.no_sums()?;
            for part in &parts {
                self.add_part_of(part, &known.frames, &mut sums)?;
            }
            return Ok((known, sums));
        }
        let mut not_whole = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            match known.added.get_mut(index) {
                Some(added) if is_whole(index) => {
                    if !std::mem::replace(added, true) {
                        self.add_part_of(part, &known.frames, &mut known.sums)?;
                    }
                }
                _ => not_whole.push(part),
            }
        }
        let mut sums = known.sums.clone();
        for part in not_whole {
            self.add_part_of(part, &known.frames, &mut sums)?;
        }
        Ok((known, sums))
    }
}
