//! The sums of a frame from its counts that are not 0: for frames with few of them.

use crate::sum_counts::{TILE, tile_shape};
use crate::types::{Count, DetectorShape};

/// Rows and columns of pixels by multiplication.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventSummer {
    cols: u64,
    tile_cols: usize,
    /// `ceil(2^32 / cols)`.
    reciprocal: u64,
}

impl EventSummer {
    /// A summer for this detector; `None` where rows are not found by multiplication.
    pub(super) fn new(detector: DetectorShape) -> Option<Self> {
        let (pixels, cols) = (detector.pixels() as u64, detector.cols as u64);
        // reciprocal x cols is at most cols - 1 above 2^32, so that pixel x reciprocal / 2^32 is less than
        // pixel (cols - 1) / (2^32 cols) above the row: less than 1 / cols, which changes no whole part, below 2^32
        let exact = pixels.checked_mul(cols).is_some_and(|product| product < 1 << 32);
        (exact && pixels > 0).then(|| Self {
            cols,
            tile_cols: tile_shape(detector).1,
            reciprocal: (1_u64 << 32).div_ceil(cols),
        })
    }

    /// Total, row moment and column moment of counts that lie in spans of 256 pixels, `ends[span]` after the last of each;
    /// adds to the sums of the small tiles.
    pub(super) fn sum<T: Count>(
        &self,
        places: &[u8],
        values: &[T],
        ends: &[u32],
        tiles: &mut [u64],
    ) -> [u64; 3] {
        let [mut total, mut row_moment, mut col_moment] = [0_u64; 3];
        let mut start = 0;
        for (span, &end) in ends.iter().enumerate() {
            let range = start..end as usize;
            start = end as usize;
            for (&place, &value) in places[range.clone()].iter().zip(&values[range]) {
                let (pixel, value): (_, u64) = ((span as u64) << 8 | u64::from(place), value.into());
                let row = (pixel * self.reciprocal) >> 32;
                let col = pixel - row * self.cols;
                // fewer than 2^32 pixels of at most 2^32 - 1: a total fits, moments wrap as everywhere
                total += value;
                row_moment = row_moment.wrapping_add(value.wrapping_mul(row));
                col_moment = col_moment.wrapping_add(value.wrapping_mul(col));
                tiles[row as usize / TILE * self.tile_cols + col as usize / TILE] += value;
            }
        }
        [total, row_moment, col_moment]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_found_by_multiplication_are_those_of_division() {
        for (rows, cols) in [(1, 1), (3, 7), (192, 192), (1, 4096), (1030, 1065), (60_000, 1)] {
            let detector = DetectorShape { rows, cols };
            let summer = EventSummer::new(detector).unwrap();
            for pixel in
                (0..detector.pixels()).step_by(1 + detector.pixels() / 5000).chain([detector.pixels() - 1])
            {
                assert_eq!((pixel as u64 * summer.reciprocal) >> 32, (pixel / cols) as u64);
            }
        }
        assert!(EventSummer::new(DetectorShape { rows: 4096, cols: 4096 }).is_none());
        assert!(EventSummer::new(DetectorShape { rows: 0, cols: 4 }).is_none());
    }
}
