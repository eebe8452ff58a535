//! The sums of a frame from its counts that are not 0: for frames with few of them.

use crate::encode_counts::SPAN_PIXELS;
use crate::sum_counts::{TILE, tile_shape};
use crate::types::{Count, DetectorShape};

/// Events side by side.
const LANES: usize = 16;

/// Sums events; finds their rows by multiplication.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventSummer {
    cols: u32,
    tile_cols: u32,
    /// `ceil(2^32 / cols)`.
    reciprocal: u64,
}

/// Room that [`EventSummer::sum`] needs behind the last event.
pub(super) const SLACK: usize = LANES;

impl EventSummer {
    /// A summer for this detector; `None` where rows are not found by multiplication.
    pub(super) fn new(detector: DetectorShape) -> Option<Self> {
        let (pixels, cols) = (detector.pixels() as u64, detector.cols as u64);
        // reciprocal x cols is at most cols - 1 above 2^32, so that pixel x reciprocal / 2^32 is less than
        // pixel (cols - 1) / (2^32 cols) above the row: less than 1 / cols, which changes no whole part, below 2^32
        let exact = pixels.checked_mul(cols).is_some_and(|product| product < 1 << 32);
        (exact && pixels > 0).then(|| Self {
            cols: cols as u32,
            tile_cols: tile_shape(detector).1 as u32,
            reciprocal: (1_u64 << 32).div_ceil(cols),
        })
    }

    /// Total, row moment and column moment of counts that lie in spans of 256 pixels, `ends[span]` after the last of each;
    /// adds to the sums of the small tiles. There are [`SLACK`] more places and values than counts, of no meaning.
    ///
    /// # Panics
    /// Where there are fewer, or a place lies outside the detector.
    pub(super) fn sum<T: Count>(
        &self,
        places: &[u8],
        values: &[T],
        ends: &[u32],
        tiles: &mut [u64],
    ) -> [u64; 3] {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the processor has AVX-512 BW and DQ, just asked.
            return unsafe { self.sum_avx512(places, values, ends, tiles) };
        }
        self.sum_lanes(places, values, ends, tiles)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    fn sum_avx512<T: Count>(&self, places: &[u8], values: &[T], ends: &[u32], tiles: &mut [u64]) -> [u64; 3] {
        self.sum_lanes(places, values, ends, tiles)
    }

    #[inline(always)]
    fn sum_lanes<T: Count>(&self, places: &[u8], values: &[T], ends: &[u32], tiles: &mut [u64]) -> [u64; 3] {
        let (mut total, mut row_moment, mut col_moment) = ([0_u64; LANES], [0_u64; LANES], [0_u64; LANES]);
        let mut start = 0;
        for (span, &end) in ends.iter().enumerate() {
            let (first_pixel, end) = (span as u64 * SPAN_PIXELS as u64, end as usize);
            while start < end {
                let num = (end - start).min(LANES);
                let mut place = [0_u8; LANES];
                place.copy_from_slice(&places[start..start + LANES]);
                let mut value = [T::default(); LANES];
                value.copy_from_slice(&values[start..start + LANES]);
                start += num;
                let mut tile = [0_u32; LANES];
                let mut counts = [0_u64; LANES];
                for lane in 0..LANES {
                    // what lies behind the span's last event counts nothing
                    let count: u64 = value[lane].into();
                    counts[lane] = if lane < num { count } else { 0 };
                    let pixel = first_pixel + u64::from(place[lane]);
                    let row = ((pixel * self.reciprocal) >> 32) as u32;
                    let col = (pixel as u32).wrapping_sub(row.wrapping_mul(self.cols));
                    tile[lane] =
                        (row / TILE as u32).wrapping_mul(self.tile_cols).wrapping_add(col / TILE as u32);
                    // fewer than 2^32 pixels of at most 2^32 - 1: a total fits, moments wrap as everywhere
                    total[lane] += counts[lane];
                    row_moment[lane] =
                        row_moment[lane].wrapping_add(counts[lane].wrapping_mul(u64::from(row)));
                    col_moment[lane] =
                        col_moment[lane].wrapping_add(counts[lane].wrapping_mul(u64::from(col)));
                }
                for (&tile, &count) in tile.iter().zip(&counts).take(num) {
                    tiles[tile as usize] += count;
                }
            }
        }
        [total, row_moment, col_moment].map(|lanes| lanes.into_iter().fold(0, u64::wrapping_add))
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
