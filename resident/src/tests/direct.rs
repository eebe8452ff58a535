//! Every query, computed with plain loops over dense counts.

use std::ops::Range;

use super::dense::Dense;
use crate::{CentreOfMass, Moments};

impl Dense {
    pub(crate) fn missing(&self, positions: impl Iterator<Item = u64>) -> Vec<u64> {
        positions.filter(|&position| !self.covered[position as usize]).collect()
    }

    pub(crate) fn weighted(&self, weights: &[i64], positions: Range<u64>) -> Vec<i128> {
        positions
            .map(|position| {
                let products = self.frame(position).iter().zip(weights);
                products.map(|(&count, &weight)| i128::from(count) * i128::from(weight)).sum()
            })
            .collect()
    }

    /// Weighted sums, and sums of |weight| x count; the latter bound the error.
    pub(crate) fn weighted_f64(&self, weights: &[f64], positions: Range<u64>) -> Vec<(f64, f64)> {
        positions
            .map(|position| {
                let (mut sum, mut size) = (0.0, 0.0);
                for (&count, &weight) in self.frame(position).iter().zip(weights) {
                    sum += f64::from(count) * weight;
                    size += f64::from(count) * weight.abs();
                }
                (sum, size)
            })
            .collect()
    }

    pub(crate) fn moments(&self, excluded: Option<&[bool]>, positions: Range<u64>) -> Moments {
        let mut moments = Moments::default();
        for position in positions {
            let (mut total, mut row, mut col) = (0, 0, 0);
            for (pixel, &count) in self.frame(position).iter().enumerate() {
                if excluded.is_none_or(|excluded| !excluded[pixel]) {
                    total += u64::from(count);
                    row += u64::from(count) * (pixel / self.detector.cols) as u64;
                    col += u64::from(count) * (pixel % self.detector.cols) as u64;
                }
            }
            moments.total.push(total);
            moments.row.push(row);
            moments.col.push(col);
        }
        moments
    }

    pub(crate) fn com(&self, excluded: Option<&[bool]>, positions: Range<u64>) -> CentreOfMass {
        let moments = self.moments(excluded, positions);
        let ratio = |(&moment, &total): (&u64, &u64)| moment as f64 / total as f64; // 0 / 0 is NaN
        CentreOfMass {
            row: moments.row.iter().zip(&moments.total).map(ratio).collect(),
            col: moments.col.iter().zip(&moments.total).map(ratio).collect(),
        }
    }

    pub(crate) fn pattern(&self, positions: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut sums = vec![0; self.detector.pixels()];
        for position in positions {
            for (sum, &count) in sums.iter_mut().zip(self.frame(position)) {
                *sum += u64::from(count);
            }
        }
        sums
    }

    pub(crate) fn region(&self, positions: Range<u64>, rows: Range<usize>, cols: Range<usize>) -> Vec<u32> {
        let mut counts = Vec::new();
        for position in positions {
            for row in rows.clone() {
                counts.extend(&self.frame(position)[row * self.detector.cols..][cols.clone()]);
            }
        }
        counts
    }

    pub(crate) fn images(&self, pixels: &[u32], positions: Range<u64>) -> Vec<u32> {
        let image =
            |&pixel: &u32| positions.clone().map(move |position| self.frame(position)[pixel as usize]);
        pixels.iter().flat_map(image).collect()
    }
}
