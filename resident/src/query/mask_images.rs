//! Images of masks that follow each other, as when a ring is dragged or the scan still comes: each from one before where
//! that reads less.
//!
//! image(new) = image(old) + pixels that came in - pixels that went out, in integers, block by block: the same as
//! [`Snapshot::mask_sum`] to the last bit.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use encoder::Block;
use rayon::prelude::*;

use super::sums::add_part;
use crate::coverage::{Answer, Missing};
use crate::error::ResidentError;
use crate::plan::Plan;
use crate::snapshot::Snapshot;

/// Images that are kept, at most: three rings of a page, each with the one before.
const MOST_KEPT: usize = 6;
/// And at most in so many bytes, but one always.
const MOST_BYTES: usize = 64 << 20;

/// The last images of masks over a whole scan, to make the next from. For one acquisition; holds none of its blocks.
#[derive(Debug, Default)]
pub struct MaskImages {
    /// The newest first.
    kept: Mutex<Vec<Arc<Kept>>>,
}

/// An image, block by block.
#[derive(Debug)]
struct Kept {
    mask: Vec<bool>,
    /// By interval: the block, and the sums over its positions.
    parts: Vec<Option<(Weak<Block>, Vec<u64>)>>,
}

impl Kept {
    /// The sums over a block; nothing where it has changed.
    fn sums(&self, index: usize, block: &Arc<Block>) -> Option<&[u64]> {
        let (of, sums) = self.parts.get(index)?.as_ref()?;
        // the address stays taken as long as somebody points to it, so that it names one block
        std::ptr::eq(of.as_ptr(), Arc::as_ptr(block)).then_some(sums)
    }

    fn bytes(&self) -> usize {
        self.mask.len()
            + self.parts.iter().flatten().map(|(_, sums)| size_of_val(sums.as_slice())).sum::<usize>()
    }
}

impl MaskImages {
    /// As [`Snapshot::mask_sum`] over all positions; snapshots must be of one acquisition.
    ///
    /// # Errors
    /// As [`Snapshot::mask_sum`].
    pub fn mask_sum(
        &self,
        snapshot: &Snapshot,
        mask: &[bool],
        missing: Missing,
    ) -> Result<Answer<Vec<u64>>, ResidentError> {
        snapshot.check_per_pixel("a detector mask", mask.len())?;
        let positions = snapshot.positions();
        let coverage = missing.allow(snapshot.coverage(positions.clone())?)?;
        let detector = snapshot.detector();
        let anew = Plan::new(detector, &mask.iter().map(|&inside| i64::from(inside)).collect::<Vec<_>>());
        let before = self.nearest(mask);
        let change = before.and_then(|before| {
            let weight = |(&new, &old): (&bool, &bool)| i64::from(new) - i64::from(old);
            let plan = Plan::new(detector, &mask.iter().zip(&before.mask).map(weight).collect::<Vec<_>>());
            (plan.cost() < anew.cost()).then_some((before, plan))
        });
        let pixels_of = |plan: &Plan<i64>| plan.pixels.iter().map(|&(pixel, _)| pixel).collect::<Vec<u32>>();
        let anew_pixels = pixels_of(&anew);
        let change = change.map(|(before, plan)| (before, pixels_of(&plan), plan));
        let parts = snapshot.parts(positions).into_par_iter().zip(&snapshot.state.blocks).enumerate();
        let parts = parts.map(|(index, (part, block))| {
            let Some(block) = block else { return Ok(None) };
            let old = change.as_ref().and_then(|(before, ..)| before.sums(index, block));
            let mut sums = old.map_or_else(|| vec![0; block.positions()], <[u64]>::to_vec);
            let (plan, pixels) = match (&change, old) {
                (Some((_, pixels, plan)), Some(_)) => (plan, pixels),
                _ => (&anew, &anew_pixels),
            };
            add_part(snapshot.count_type(), plan, pixels, &part, &mut sums)?;
            Ok(Some((Arc::downgrade(block), sums)))
        });
        let kept = Kept { mask: mask.to_vec(), parts: parts.collect::<Result<_, ResidentError>>()? };
        let mut value = super::filled("a mask sum", snapshot.state.positions(), 1, 0)?;
        for (index, part) in kept.parts.iter().enumerate() {
            if let Some((_, sums)) = part {
                let first = snapshot.state.interval(index).start as usize;
                value[first..first + sums.len()].copy_from_slice(sums);
            }
        }
        self.keep(kept);
        Ok(Answer { value, coverage })
    }

    /// The image whose mask differs in the fewest pixels.
    fn nearest(&self, mask: &[bool]) -> Option<Arc<Kept>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let differing = |kept: &Arc<Kept>| kept.mask.iter().zip(mask).filter(|(old, new)| old != new).count();
        kept.into_iter().filter(|kept| kept.mask.len() == mask.len()).min_by_key(differing)
    }

    fn keep(&self, new: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|old| old.mask != new.mask);
        let most = (MOST_BYTES / new.bytes().max(1)).clamp(1, MOST_KEPT);
        kept.insert(0, Arc::new(new));
        kept.truncate(most);
    }
}
