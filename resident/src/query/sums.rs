//! Sums over detector pixels, by scan position: frame sums, masks, weights.

use std::ops::Range;

use encoder::{Block, TileSize};
use kernels::types::CountType;
use rayon::prelude::*;

use super::{Part, filled, for_each_image, mark_missing, split, with_count_type};
use crate::coverage::{Answer, Missing};
use crate::error::ResidentError;
use crate::plan::{Plan, Weight};
use crate::snapshot::Snapshot;

/// What a weighted sum adds up in. Integers are modulo 2^64 or 2^128, which is exact where the result fits.
pub(super) trait Sum<W>: Copy + Default + Send {
    /// Adds `weight` times `counts`.
    fn add(&mut self, weight: W, counts: u64);
}

impl Sum<i64> for i64 {
    fn add(&mut self, weight: i64, counts: u64) {
        *self = self.wrapping_add(weight.wrapping_mul(counts as i64)); // `as`: modulo 2^64, as the rest
    }
}

impl Sum<i64> for u64 {
    fn add(&mut self, weight: i64, counts: u64) {
        *self = self.wrapping_add((weight as u64).wrapping_mul(counts));
    }
}

impl Sum<i128> for i128 {
    fn add(&mut self, weight: i128, counts: u64) {
        *self = self.wrapping_add(weight.wrapping_mul(counts.into()));
    }
}

impl Sum<f64> for f64 {
    fn add(&mut self, weight: f64, counts: u64) {
        *self += weight * counts as f64;
    }
}

impl Snapshot {
    /// Sum of all counts of every frame, `[position]`.
    ///
    /// # Errors
    /// [`ResidentError`]: outside the scan, missing under [`Missing::Fail`].
    pub fn frame_sums(
        &self,
        positions: Range<u64>,
        missing: Missing,
    ) -> Result<Answer<Vec<u64>>, ResidentError> {
        self.planned("frame sums", &Plan::total(1i64), positions, missing)
    }

    /// Sum of the counts of every frame inside a mask, `[position]`; `mask` is `[det_row][det_col]`. Exact.
    ///
    /// # Errors
    /// [`ResidentError`]: outside the scan, missing under [`Missing::Fail`], a mask of another length.
    pub fn mask_sum(
        &self,
        mask: &[bool],
        positions: Range<u64>,
        missing: Missing,
    ) -> Result<Answer<Vec<u64>>, ResidentError> {
        self.check_per_pixel("a detector mask", mask.len())?;
        let weights: Vec<i64> = mask.iter().map(|&inside| inside.into()).collect();
        self.planned("a mask sum", &Plan::new(self.detector(), &weights), positions, missing)
    }

    /// Sum of weight x count of every frame, `[position]`; `weights` is `[det_row][det_col]`. Exact.
    ///
    /// # Errors
    /// [`ResidentError`]: outside the scan, missing under [`Missing::Fail`], weights of another length, a sum that 64
    /// bits cannot hold (named with its scan position, never wrapped).
    pub fn weighted_sum(
        &self,
        weights: &[i64],
        positions: Range<u64>,
        missing: Missing,
    ) -> Result<Answer<Vec<i64>>, ResidentError> {
        self.check_per_pixel("detector weights", weights.len())?;
        let all: u128 = weights.iter().map(|weight| u128::from(weight.unsigned_abs())).sum();
        if all.saturating_mul(self.count_type().marker().into()) <= i64::MAX as u128 {
            let plan = Plan::new(self.detector(), weights);
            return self.planned("a weighted sum", &plan, positions, missing);
        }
        let wide: Vec<i128> = weights.iter().map(|&weight| weight.into()).collect();
        let plan = Plan::new(self.detector(), &wide);
        let first = positions.start;
        let sums: Answer<Vec<i128>> = self.planned("a weighted sum", &plan, positions, missing)?;
        let narrowed = sums.value.iter().zip(first..).map(|(&got, position)| {
            i64::try_from(got).map_err(|_| ResidentError::Overflow { position, got })
        });
        Ok(Answer { value: narrowed.collect::<Result<_, _>>()?, coverage: sums.coverage })
    }

    /// Sum of weight x count of every frame, `[position]`; NaN where the frame is missing. `weights` is
    /// `[det_row][det_col]`.
    ///
    /// Summed in a fixed order (large tiles of one weight, small tiles of one weight, single pixels, each ascending), so a
    /// result repeats bit for bit. With n terms the error is at most (n + 1) 2^-53 / (1 - (n + 1) 2^-53) times the sum
    /// of |weight| x count over the frame, n never above the number of pixels; barring sums of counts in a tile above 2^53.
    ///
    /// # Errors
    /// [`ResidentError`]: outside the scan, missing under [`Missing::Fail`], weights of another length or not finite.
    pub fn weighted_sum_f64(
        &self,
        weights: &[f64],
        positions: Range<u64>,
        missing: Missing,
    ) -> Result<Answer<Vec<f64>>, ResidentError> {
        self.check_per_pixel("detector weights", weights.len())?;
        if let Some((pixel, &got)) = weights.iter().enumerate().find(|(_, weight)| !weight.is_finite()) {
            return Err(ResidentError::NotFinite { pixel, got });
        }
        let first = positions.start;
        let plan = Plan::new(self.detector(), weights);
        let mut sums: Answer<Vec<f64>> = self.planned("a weighted sum", &plan, positions, missing)?;
        mark_missing(&mut sums.value, &sums.coverage, first, f64::NAN);
        Ok(sums)
    }

    /// Carries out a plan over a range of scan positions; 0 where there is no frame.
    fn planned<W: Weight, S: Sum<W>>(
        &self,
        what: &'static str,
        plan: &Plan<W>,
        positions: Range<u64>,
        missing: Missing,
    ) -> Result<Answer<Vec<S>>, ResidentError> {
        let coverage = missing.allow(self.coverage(positions.clone())?)?;
        let mut value = filled(what, positions.end - positions.start, 1, S::default())?;
        let pixels: Vec<u32> = plan.pixels.iter().map(|&(pixel, _)| pixel).collect();
        split(self.parts(positions), &mut value)
            .into_par_iter()
            .try_for_each(|(part, sums)| add_part(self.count_type(), plan, &pixels, &part, sums))?;
        Ok(Answer { value, coverage })
    }
}

/// Carries out a plan over one block; `pixels` are those of the plan.
pub(super) fn add_part<W: Weight, S: Sum<W>>(
    count_type: CountType,
    plan: &Plan<W>,
    pixels: &[u32],
    part: &Part<'_>,
    sums: &mut [S],
) -> Result<(), ResidentError> {
    let Some((block, within)) = part.held() else { return Ok(()) };
    if let (Some(weight), Some(totals)) = (plan.total, block.totals().get(within.clone())) {
        for (sum, &total) in sums.iter_mut().zip(totals) {
            sum.add(weight, total);
        }
    }
    add_tiles(block, TileSize::Large, &plan.tiles32, &within, sums);
    add_tiles(block, TileSize::Small, &plan.tiles8, &within, sums);
    with_count_type!(count_type, C => for_each_image::<C>(block, pixels, within, |index, image| {
        let weight = plan.pixels[index].1;
        for (sum, &count) in sums.iter_mut().zip(image) {
            sum.add(weight, count.into());
        }
    }))
}

fn add_tiles<W: Weight, S: Sum<W>>(
    block: &Block,
    size: TileSize,
    tiles: &[(usize, W)],
    within: &Range<usize>,
    sums: &mut [S],
) {
    let (_, tile_cols) = size.tiles(block.detector());
    for &(tile, weight) in tiles {
        let mut sums = sums.iter_mut();
        block.tiles().for_each(size, tile / tile_cols, tile % tile_cols, within.clone(), |counts| {
            if let Some(sum) = sums.next() {
                sum.add(weight, counts);
            }
        });
    }
}
