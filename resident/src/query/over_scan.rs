//! Questions by place in the image: the frames of each position are one.

use std::sync::Arc;

use super::mask_images::MaskImages;
use super::moments::{CentreOfMass, ratio};
use super::patterns::PatternSums;
use crate::coverage::{Answer, Coverage, Missing, PositionSet};
use crate::error::ResidentError;
use crate::snapshot::Snapshot;

/// The acquisition as its scan: one value a position, `[scan_row][scan_col]`, from all its frames together.
///
/// A position of which any frame is missing is missing. Frames that belong to no position, and those of missing
/// positions, are in no answer. Of a plain scan every answer is that of the [`Snapshot`] itself, at the same cost.
#[derive(Clone, Copy, Debug)]
pub struct OverScan<'a>(&'a Snapshot);

impl Snapshot {
    /// Answers by place in the image.
    pub fn over_scan(&self) -> OverScan<'_> {
        OverScan(self)
    }
}

impl OverScan<'_> {
    /// Which positions are there, counted row by row.
    pub fn coverage(&self) -> Coverage {
        let (geometry, covered) = (self.0.geometry(), &self.0.state.covered);
        if geometry.is_plain() {
            return covered.coverage_of_range(0..geometry.num_frames());
        }
        let frames = geometry.order().frames_per_position;
        Coverage::of((0..geometry.scan().rows).flat_map(|row| {
            let of_row = geometry.frames_of_row(row);
            let is_whole = covered.count(of_row.clone()) == of_row.end - of_row.start;
            (0..geometry.scan().cols)
                .map(move |col| is_whole || covered.count(geometry.frames_of_position(row, col)) == frames)
        }))
    }

    /// Sum of the counts of every position inside a mask, `[det_row][det_col]`; 0 where it is missing.
    ///
    /// # Errors
    /// [`ResidentError`]: missing under [`Missing::Fail`], a mask of another length.
    pub fn mask_sum(&self, mask: &[bool], missing: Missing) -> Result<Answer<Vec<u64>>, ResidentError> {
        let coverage = missing.allow(self.coverage())?;
        let sums = self.0.mask_sum(mask, self.frames(), Missing::Report)?;
        Ok(self.gathered(sums.value, coverage))
    }

    /// As [`Self::mask_sum`], from the last of `images`, which must be of this acquisition, where that reads less.
    ///
    /// # Errors
    /// As [`Self::mask_sum`].
    pub fn mask_sum_from(
        &self,
        images: &MaskImages,
        mask: &[bool],
        missing: Missing,
    ) -> Result<Answer<Vec<u64>>, ResidentError> {
        let coverage = missing.allow(self.coverage())?;
        let mut sums = images.mask_sum(self.0, mask, Missing::Report)?.value;
        let frames = self.frames();
        sums.truncate(frames.end as usize);
        sums.drain(..(frames.start as usize).min(sums.len()));
        Ok(self.gathered(sums, coverage))
    }

    /// Sum of all counts of every position; 0 where it is missing.
    ///
    /// # Errors
    /// [`ResidentError::Missing`] under [`Missing::Fail`].
    pub fn frame_sums(&self, missing: Missing) -> Result<Answer<Vec<u64>>, ResidentError> {
        let coverage = missing.allow(self.coverage())?;
        let sums = self.0.frame_sums(self.frames(), Missing::Report)?;
        Ok(self.gathered(sums.value, coverage))
    }

    /// Centre of mass of every position over all pixels but those `excluded`, `[det_row][det_col]`: one division of exact
    /// sums. NaN where it is missing or has no counts.
    ///
    /// # Errors
    /// [`ResidentError`]: missing under [`Missing::Fail`], a mask of another length.
    pub fn com(
        &self,
        excluded: Option<&[bool]>,
        missing: Missing,
    ) -> Result<Answer<CentreOfMass>, ResidentError> {
        let coverage = missing.allow(self.coverage())?;
        let moments = self.0.moments(excluded, self.frames(), Missing::Report)?.value;
        let gather = |values| self.gathered(values, coverage.clone()).value;
        let total = gather(moments.total);
        let divided =
            |moment: Vec<u64>| moment.iter().zip(&total).map(|(&moment, &all)| ratio(moment, all)).collect();
        let value = CentreOfMass { row: divided(gather(moments.row)), col: divided(gather(moments.col)) };
        Ok(Answer { value, coverage })
    }

    /// Sum of every detector pixel over the positions that are there, `[det_row][det_col]`. Exact. Where there are frames
    /// that belong to no position, they are decoded, once.
    ///
    /// # Errors
    /// [`ResidentError`]: missing under [`Missing::Fail`], no memory.
    pub fn detector_total(&self, missing: Missing) -> Result<Answer<Arc<Vec<u64>>>, ResidentError> {
        self.total(missing, &self.0.state.detector_total, |sums| &sums.counts)
    }

    /// How often every pixel showed the marker of its count type in them.
    ///
    /// # Errors
    /// As [`Self::detector_total`].
    pub fn marker_hits(&self, missing: Missing) -> Result<Answer<Arc<Vec<u64>>>, ResidentError> {
        let all = &self.0.state.marker_hits;
        if all.iter().all(|&hits| hits == 0) {
            let coverage = missing.allow(self.coverage())?;
            return Ok(Answer { value: Arc::clone(all), coverage });
        }
        self.total(missing, all, |sums| &sums.hits)
    }

    /// Mean pattern, `[det_row][det_col]`: the total over the number of positions that are there; NaN when none is.
    ///
    /// # Errors
    /// As [`Self::detector_total`].
    pub fn mean_pattern(&self, missing: Missing) -> Result<Answer<Vec<f64>>, ResidentError> {
        let total = self.detector_total(missing)?;
        let positions = total.coverage.covered() as f64; // 0 / 0 is NaN
        Ok(total.map(|total| total.iter().map(|&sum| sum as f64 / positions).collect()))
    }

    /// The frames that every position's are among.
    fn frames(&self) -> std::ops::Range<u64> {
        let geometry = self.0.geometry();
        geometry.frames_of_row(0).start..geometry.num_frames()
    }

    /// The values of [`Self::frames`], summed by position; 0 where that is missing. Modulo 2^64.
    fn gathered(&self, values: Vec<u64>, coverage: Coverage) -> Answer<Vec<u64>> {
        let geometry = self.0.geometry();
        if geometry.is_plain() {
            return Answer { value: values, coverage };
        }
        let first = self.frames().start;
        let frames = usize::try_from(geometry.order().frames_per_position).unwrap_or(usize::MAX).max(1);
        let mut gathered = Vec::with_capacity(geometry.scan().positions().min(values.len()));
        for row in 0..geometry.scan().rows {
            let of_row = geometry.frames_of_row(row);
            let of_row = (of_row.start - first) as usize..(of_row.end - first) as usize;
            let sum = |frames: &[u64]| frames.iter().fold(0u64, |sum, &value| sum.wrapping_add(value));
            let sums = values.get(of_row).unwrap_or(&[]).chunks_exact(frames).map(sum);
            match geometry.is_reversed(row) {
                true => gathered.extend(sums.rev()),
                false => gathered.extend(sums),
            }
        }
        super::mark_missing(&mut gathered, &coverage, 0, 0);
        Answer { value: gathered, coverage }
    }

    /// A running total, less what belongs to no position that is there.
    fn total(
        &self,
        missing: Missing,
        all: &Arc<Vec<u64>>,
        of: impl Fn(&PatternSums) -> &Vec<u64>,
    ) -> Result<Answer<Arc<Vec<u64>>>, ResidentError> {
        let coverage = missing.allow(self.coverage())?;
        let surplus = [self.0.set_aside_sums()?, self.of_missing_positions(&coverage)?];
        let mut value = Arc::clone(all);
        for sums in surplus.iter().flatten() {
            for (total, &sum) in Arc::make_mut(&mut value).iter_mut().zip(of(sums)) {
                *total = total.saturating_sub(sum);
            }
        }
        Ok(Answer { value, coverage })
    }

    /// Sums over frames that are there, of positions that are not.
    fn of_missing_positions(&self, coverage: &Coverage) -> Result<Option<PatternSums>, ResidentError> {
        let geometry = self.0.geometry();
        if geometry.order().frames_per_position == 1 {
            return Ok(None);
        }
        let covered = &self.0.state.covered;
        let mut there = PositionSet::empty(self.0.positions().end);
        let cols = geometry.scan().cols.max(1) as u64;
        let mut any = false;
        for position in coverage.missing().iter().cloned().flatten() {
            let frames = geometry.frames_of_position((position / cols) as usize, (position % cols) as usize);
            if covered.count(frames.clone()) > 0 {
                there.insert_range(frames);
                any = true;
            }
        }
        if !any {
            return Ok(None);
        }
        let mut sums = self.0.no_sums()?;
        for part in self.0.parts(self.0.positions()) {
            self.0.add_part_of(&part, &there, &mut sums)?;
        }
        Ok(Some(sums))
    }
}
