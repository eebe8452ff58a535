//! Patterns over the detector: the total, the mean, the sum over a region of the scan.

use std::ops::Range;
use std::sync::Arc;

use encoder::Block;
use kernels::types::Count;
use rayon::prelude::*;

use super::{IMAGES, Part, filled, for_each_image, with_count_type};
use crate::coverage::{Answer, Missing, PositionSet};
use crate::error::ResidentError;
use crate::snapshot::Snapshot;

/// A region of the scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roi<'a> {
    /// A rectangle, half-open.
    Rect {
        /// Scan rows.
        scan_rows: Range<usize>,
        /// Scan columns.
        scan_cols: Range<usize>,
    },
    /// A range of positions in raster order.
    Positions(Range<u64>),
    /// Any positions, `[scan_row][scan_col]`.
    Mask(&'a [bool]),
}

impl Snapshot {
    /// Sum of every detector pixel over all frames, `[det_row][det_col]`. Costs nothing.
    ///
    /// # Errors
    /// [`ResidentError::Missing`] under [`Missing::Fail`].
    pub fn detector_total(&self, missing: Missing) -> Result<Answer<Arc<Vec<u64>>>, ResidentError> {
        let coverage = missing.allow(self.coverage(self.positions())?)?;
        Ok(Answer { value: Arc::clone(&self.state.detector_total), coverage })
    }

    /// How often every pixel showed the marker of its count type (masked or saturated), `[det_row][det_col]`. Costs
    /// nothing.
    ///
    /// # Errors
    /// [`ResidentError::Missing`] under [`Missing::Fail`].
    pub fn marker_hits(&self, missing: Missing) -> Result<Answer<Arc<Vec<u64>>>, ResidentError> {
        let coverage = missing.allow(self.coverage(self.positions())?)?;
        Ok(Answer { value: Arc::clone(&self.state.marker_hits), coverage })
    }

    /// Mean pattern, `[det_row][det_col]`: the total over the number of frames that are there; NaN when none is.
    ///
    /// # Errors
    /// [`ResidentError::Missing`] under [`Missing::Fail`].
    pub fn mean_pattern(&self, missing: Missing) -> Result<Answer<Vec<f64>>, ResidentError> {
        let total = self.detector_total(missing)?;
        let frames = self.state.totals.frames as f64; // 0 / 0 is NaN
        Ok(total.map(|total| total.iter().map(|&sum| sum as f64 / frames).collect()))
    }

    /// Sum of every detector pixel over a region of the scan, `[det_row][det_col]`. Exact. Blocks that lie whole in the
    /// region cost nothing; the others are decoded.
    ///
    /// # Errors
    /// [`ResidentError`]: outside the scan, a mask of another length, missing under [`Missing::Fail`].
    pub fn roi_sum(&self, roi: &Roi<'_>, missing: Missing) -> Result<Answer<Vec<u64>>, ResidentError> {
        let asked = self.roi_positions(roi)?;
        let coverage = missing.allow(self.state.covered.coverage_of(&asked))?;
        let pixels = self.detector().pixels();
        let all: Vec<u32> = (0..pixels as u32).collect();
        let mut value = filled("a region sum", 1, pixels, 0u64)?;
        for part in self.parts(self.positions()) {
            let Some((block, _)) = part.held() else { continue };
            let chosen = chosen(block, &part, &asked);
            if chosen.is_empty() {
                continue;
            }
            let covered = block.coverage().count();
            if chosen.len() == covered {
                block.pixel_sums().for_each(|pixel, sum| value[pixel] += sum);
                continue;
            }
            value.par_chunks_mut(IMAGES).zip(all.par_chunks(IMAGES)).try_for_each(|(sums, pixels)| {
                with_count_type!(self.count_type(), C => add_chosen::<C>(block, pixels, &chosen, sums))
            })?;
        }
        Ok(Answer { value, coverage })
    }

    /// The positions of a region.
    fn roi_positions(&self, roi: &Roi<'_>) -> Result<PositionSet, ResidentError> {
        let (scan, len) = (self.scan(), self.state.positions());
        match roi {
            Roi::Rect { scan_rows, scan_cols } => {
                for (what, got, len) in
                    [("scan rows", scan_rows, scan.rows), ("scan columns", scan_cols, scan.cols)]
                {
                    if got.start > got.end || got.end > len {
                        return Err(ResidentError::OutsideAxis { what, got: got.clone(), len });
                    }
                }
                let mut set = PositionSet::empty(len);
                for row in scan_rows.clone() {
                    let first = (row * scan.cols) as u64;
                    set.insert_range(first + scan_cols.start as u64..first + scan_cols.end as u64);
                }
                Ok(set)
            }
            Roi::Positions(positions) => {
                self.check_positions(positions)?;
                Ok(PositionSet::from_range(len, positions.clone()))
            }
            Roi::Mask(mask) => {
                if mask.len() as u64 != len {
                    let (what, expected) = ("a scan mask", len as usize);
                    return Err(ResidentError::WrongElements { what, got: mask.len(), expected });
                }
                let mut set = PositionSet::empty(len);
                for (position, _) in (0..len).zip(*mask).filter(|(_, inside)| **inside) {
                    set.insert(position);
                }
                Ok(set)
            }
        }
    }
}

/// The covered positions of a block that are asked for, ascending.
fn chosen(block: &Block, part: &Part<'_>, asked: &PositionSet) -> Vec<usize> {
    let span = part.first..part.first + block.positions() as u64;
    if asked.count(span) == 0 {
        return Vec::new();
    }
    block.coverage().present().filter(|&position| asked.contains(part.first + position as u64)).collect()
}

/// Adds the counts of pixels at chosen positions of a block to their sums.
fn add_chosen<C: Count>(
    block: &Block,
    pixels: &[u32],
    chosen: &[usize],
    sums: &mut [u64],
) -> Result<(), ResidentError> {
    let (Some(&first), Some(&last)) = (chosen.first(), chosen.last()) else { return Ok(()) };
    let every = last + 1 - first == chosen.len();
    for_each_image::<C>(block, pixels, first..last + 1, |index, image| {
        let sum: u64 = if every {
            image.iter().map(|&count| Into::<u64>::into(count)).sum()
        } else {
            chosen.iter().map(|&position| Into::<u64>::into(image[position - first])).sum()
        };
        sums[index] += sum;
    })
}
