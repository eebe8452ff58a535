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
    /// A range of frames.
    Positions(Range<u64>),
    /// Any positions, `[scan_row][scan_col]`.
    Mask(&'a [bool]),
}

/// Sums over frames, `[det_row][det_col]`.
#[derive(Clone, Debug)]
pub(super) struct PatternSums {
    /// Of the counts.
    pub(super) counts: Vec<u64>,
    /// How often the count was the marker of its type.
    pub(super) hits: Vec<u64>,
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
        let mut sums = self.no_sums()?;
        for part in self.parts(self.positions()) {
            self.add_part_of(&part, &asked, &mut sums)?;
        }
        Ok(Answer { value: sums.counts, coverage })
    }

    /// Sums over no frames.
    pub(super) fn no_sums(&self) -> Result<PatternSums, ResidentError> {
        let pixels = self.detector().pixels();
        let zeros = || filled("a region sum", 1, pixels, 0u64);
        Ok(PatternSums { counts: zeros()?, hits: zeros()? })
    }

    /// Adds the frames of a part that are there and asked for.
    pub(super) fn add_part_of(
        &self,
        part: &Part<'_>,
        asked: &PositionSet,
        sums: &mut PatternSums,
    ) -> Result<(), ResidentError> {
        let Some((block, _)) = part.held() else { return Ok(()) };
        let chosen = chosen(block, part, asked);
        if chosen.is_empty() {
            return Ok(());
        }
        let PatternSums { counts, hits } = sums;
        if chosen.len() == block.coverage().count() {
            block.pixel_sums().for_each(|pixel, sum| counts[pixel] += sum);
            for marked in block.pixel_sums().marked() {
                if let Some(hits) = hits.get_mut(marked.pixel as usize) {
                    *hits += u64::from(marked.hits);
                }
            }
            return Ok(());
        }
        let all: Vec<u32> = (0..self.detector().pixels() as u32).collect();
        let pieces = counts.par_chunks_mut(IMAGES).zip(hits.par_chunks_mut(IMAGES));
        pieces.zip(all.par_chunks(IMAGES)).try_for_each(|((counts, hits), pixels)| {
            with_count_type!(self.count_type(), C => add_chosen::<C>(block, pixels, &chosen, counts, hits))
        })
    }

    /// The positions of a region.
    fn roi_positions(&self, roi: &Roi<'_>) -> Result<PositionSet, ResidentError> {
        let (scan, geometry, len) = (self.scan(), self.geometry(), self.state.positions());
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
                    // neighbours in the image are neighbours in time, whichever way the beam goes
                    let ends = [scan_cols.start, scan_cols.end.saturating_sub(1)];
                    let [first, last] = ends.map(|col| geometry.frames_of_position(row, col));
                    if !scan_cols.is_empty() {
                        set.insert_range(first.start.min(last.start)..first.end.max(last.end));
                    }
                }
                Ok(set)
            }
            Roi::Positions(positions) => {
                self.check_positions(positions)?;
                Ok(PositionSet::from_range(len, positions.clone()))
            }
            Roi::Mask(mask) => {
                if mask.len() != scan.positions() {
                    let (what, expected) = ("a scan mask", scan.positions());
                    return Err(ResidentError::WrongElements { what, got: mask.len(), expected });
                }
                let mut set = PositionSet::empty(len);
                for (position, _) in mask.iter().enumerate().filter(|(_, inside)| **inside) {
                    let (row, col) = (position / scan.cols, position % scan.cols);
                    set.insert_range(geometry.frames_of_position(row, col));
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

/// Adds the counts of pixels at chosen positions of a block to their sums, and how often they are the marker.
fn add_chosen<C: Count>(
    block: &Block,
    pixels: &[u32],
    chosen: &[usize],
    counts: &mut [u64],
    hits: &mut [u64],
) -> Result<(), ResidentError> {
    let (Some(&first), Some(&last)) = (chosen.first(), chosen.last()) else { return Ok(()) };
    let every = last + 1 - first == chosen.len();
    let marker = u64::from(block.count_type().marker());
    for_each_image::<C>(block, pixels, first..last + 1, |index, image| {
        let mut add = |count: C| {
            let count = Into::<u64>::into(count);
            counts[index] += count;
            hits[index] += u64::from(count == marker);
        };
        match every {
            true => image.iter().for_each(|&count| add(count)),
            false => chosen.iter().for_each(|&position| add(image[position - first])),
        }
    })
}
