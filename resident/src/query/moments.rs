//! First moments and the centre of mass, with or without excluded pixels.

use std::ops::Range;

use encoder::Block;
use rayon::prelude::*;

use super::{filled, for_each_image, split, with_count_type};
use crate::coverage::{Answer, Missing};
use crate::error::ResidentError;
use crate::plan::num_groups;
use crate::snapshot::Snapshot;

/// Zeroth and first moments of every frame, `[position]`; 0 where the frame is missing. Exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// Sum of count.
    pub total: Vec<u64>,
    /// Sum of count x detector row.
    pub row: Vec<u64>,
    /// Sum of count x detector column.
    pub col: Vec<u64>,
}

/// Centre of mass of every frame \[px\], `[position]`: 0 is the centre of the first pixel. NaN where a frame has no
/// counts, or is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CentreOfMass {
    /// Along detector rows.
    pub row: Vec<f64>,
    /// Along detector columns.
    pub col: Vec<f64>,
}

/// The three moments of one frame. Modulo 2^64, as those the encoder keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moment {
    total: u64,
    row: u64,
    col: u64,
}

impl Moment {
    fn add(&mut self, count: u64, row: u64, col: u64) {
        self.total = self.total.wrapping_add(count);
        self.row = self.row.wrapping_add(count.wrapping_mul(row));
        self.col = self.col.wrapping_add(count.wrapping_mul(col));
    }

    fn without(self, excluded: Self) -> Self {
        Self {
            total: self.total.wrapping_sub(excluded.total),
            row: self.row.wrapping_sub(excluded.row),
            col: self.col.wrapping_sub(excluded.col),
        }
    }
}

/// A moment over the total of counts; NaN where there are none.
pub(super) fn ratio(moment: u64, total: u64) -> f64 {
    if total == 0 { f64::NAN } else { moment as f64 / total as f64 }
}

/// Which pixels are decoded, and whether they are what is asked for or what is taken off.
struct Side {
    pixels: Vec<u32>,
    from_all: bool,
}

impl Snapshot {
    /// Moments of every frame over all pixels but those `excluded`, `[det_row][det_col]`.
    ///
    /// Without exclusion the encoder's sums are the answer; with it, the side that is cheaper to decode is decoded.
    ///
    /// # Errors
    /// [`ResidentError`]: outside the scan, missing under [`Missing::Fail`], a mask of another length.
    pub fn moments(
        &self,
        excluded: Option<&[bool]>,
        positions: Range<u64>,
        missing: Missing,
    ) -> Result<Answer<Moments>, ResidentError> {
        let moments = self.moment_list(excluded, positions, missing)?;
        Ok(moments.map(|list| Moments {
            total: list.iter().map(|moment| moment.total).collect(),
            row: list.iter().map(|moment| moment.row).collect(),
            col: list.iter().map(|moment| moment.col).collect(),
        }))
    }

    /// Centre of mass of every frame over all pixels but those `excluded`, `[det_row][det_col]`.
    ///
    /// Each is one division of exact sums.
    ///
    /// # Errors
    /// As [`Self::moments`].
    pub fn com(
        &self,
        excluded: Option<&[bool]>,
        positions: Range<u64>,
        missing: Missing,
    ) -> Result<Answer<CentreOfMass>, ResidentError> {
        let moments = self.moment_list(excluded, positions, missing)?;
        Ok(moments.map(|list| CentreOfMass {
            row: list.iter().map(|moment| ratio(moment.row, moment.total)).collect(),
            col: list.iter().map(|moment| ratio(moment.col, moment.total)).collect(),
        }))
    }

    fn moment_list(
        &self,
        excluded: Option<&[bool]>,
        positions: Range<u64>,
        missing: Missing,
    ) -> Result<Answer<Vec<Moment>>, ResidentError> {
        let side = self.side(excluded)?;
        let coverage = missing.allow(self.coverage(positions.clone())?)?;
        let mut value = filled("moments", positions.end - positions.start, 1, Moment::default())?;
        split(self.parts(positions), &mut value).into_par_iter().try_for_each(|(part, moments)| {
            part.held().map_or(Ok(()), |(block, within)| self.add_moments(block, within, &side, moments))
        })?;
        Ok(Answer { value, coverage })
    }

    /// The cheaper side to decode.
    fn side(&self, excluded: Option<&[bool]>) -> Result<Side, ResidentError> {
        let Some(excluded) = excluded else { return Ok(Side { pixels: Vec::new(), from_all: true }) };
        self.check_per_pixel("a mask of excluded pixels", excluded.len())?;
        let pixels = |side: bool| -> Vec<u32> {
            (0u32..).zip(excluded).filter(|(_, pixel)| **pixel == side).map(|(pixel, _)| pixel).collect()
        };
        let (left_out, kept) = (pixels(true), pixels(false));
        let groups = |pixels: &[u32]| num_groups(pixels.iter().copied());
        Ok(if groups(&left_out) <= groups(&kept) {
            Side { pixels: left_out, from_all: true }
        } else {
            Side { pixels: kept, from_all: false }
        })
    }

    fn add_moments(
        &self,
        block: &Block,
        within: Range<usize>,
        side: &Side,
        moments: &mut [Moment],
    ) -> Result<(), ResidentError> {
        let cols = self.detector().cols as u64;
        with_count_type!(self.count_type(), C => for_each_image::<C>(
            block, &side.pixels, within.clone(), |index, image| {
                let pixel = u64::from(side.pixels[index]);
                let (row, col) = (pixel / cols, pixel % cols);
                for (moment, &count) in moments.iter_mut().zip(image) {
                    moment.add(count.into(), row, col);
                }
            }
        ))?;
        if side.from_all {
            let sums = block.totals().iter().zip(block.row_moments()).zip(block.col_moments());
            for (moment, ((&total, &row), &col)) in moments.iter_mut().zip(sums.skip(within.start)) {
                *moment = Moment { total, row, col }.without(*moment);
            }
        }
        Ok(())
    }
}
