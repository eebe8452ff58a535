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

impl EventSummer {
    /// A summer for this detector; `None` where rows are not found by multiplication.
    pub(super) fn new(detector: DetectorShape) -> Option<Self> {
        let (pixels, cols) = (detector.pixels() as u64, detector.cols as u64);
        // reciprocal x cols is at most cols - 1 above 2^32, so that pixel x reciprocal / 2^32 is less than
        // pixel (cols - 1) / (2^32 cols) above the row: less than 1 / cols, which changes no whole part, below 2^32
        let exact = pixels.checked_mul(cols).is_some_and(|product| product < 1 << 32);
        // a span's number is kept in 16 bits
        let exact = exact && pixels <= SPAN_PIXELS as u64 * u64::from(u16::MAX);
        (exact && pixels > 0).then(|| Self {
            cols: cols as u32,
            tile_cols: tile_shape(detector).1 as u32,
            reciprocal: (1_u64 << 32).div_ceil(cols),
        })
    }

    /// Total, row moment and column moment of counts at these places of spans of 256 pixels; adds to the sums of the small
    /// tiles.
    ///
    /// # Panics
    /// Where a place lies outside the detector.
    pub(super) fn sum<T: Count>(
        &self,
        spans: &[u16],
        places: &[u8],
        values: &[T],
        tiles: &mut [u64],
    ) -> [u64; 3] {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the processor has AVX-512 BW and DQ, just asked; the others come with them.
            return unsafe { self.sum_avx512(spans, places, values, tiles) };
        }
        self.sum_lanes(spans, places, values, tiles)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    fn sum_avx512<T: Count>(
        &self,
        spans: &[u16],
        places: &[u8],
        values: &[T],
        tiles: &mut [u64],
    ) -> [u64; 3] {
        self.sum_lanes(spans, places, values, tiles)
    }

    #[inline(always)]
    fn sum_lanes<T: Count>(&self, spans: &[u16], places: &[u8], values: &[T], tiles: &mut [u64]) -> [u64; 3] {
        let (spans, last_spans) = spans.as_chunks::<LANES>();
        let (places, last_places) = places.as_chunks::<LANES>();
        let (values, last_values) = values.as_chunks::<LANES>();
        let mut sums = LaneSums::default();
        for ((spans, places), values) in spans.iter().zip(places).zip(values) {
            self.add_16(spans, places, values, &mut sums, tiles);
        }
        let num = last_values.len();
        if num > 0 {
            // filled up with counts of 0 at the first pixel
            let (mut spans, mut places, mut values) = ([0; LANES], [0; LANES], [T::default(); LANES]);
            spans[..num].copy_from_slice(last_spans);
            places[..num].copy_from_slice(last_places);
            values[..num].copy_from_slice(last_values);
            self.add_16(&spans, &places, &values, &mut sums, tiles);
        }
        [sums.total, sums.row_moment, sums.col_moment]
            .map(|lanes| lanes.into_iter().fold(0, u64::wrapping_add))
    }

    /// Adds sixteen counts to the sums and to their tiles.
    #[inline(always)]
    fn add_16<T: Count>(
        &self,
        spans: &[u16; LANES],
        places: &[u8; LANES],
        values: &[T; LANES],
        sums: &mut LaneSums,
        tiles: &mut [u64],
    ) {
        let mut tile = [0; LANES];
        for lane in 0..LANES {
            let count: u64 = values[lane].into();
            let pixel = u32::from(spans[lane]) * SPAN_PIXELS as u32 + u32::from(places[lane]);
            let row = ((u64::from(pixel) * self.reciprocal) >> 32) as u32;
            let col = pixel.wrapping_sub(row.wrapping_mul(self.cols));
            tile[lane] = (row / TILE as u32).wrapping_mul(self.tile_cols).wrapping_add(col / TILE as u32);
            // fewer than 2^32 pixels of at most 2^32 - 1: a total fits, moments wrap as everywhere
            sums.total[lane] += count;
            sums.row_moment[lane] = sums.row_moment[lane].wrapping_add(count.wrapping_mul(u64::from(row)));
            sums.col_moment[lane] = sums.col_moment[lane].wrapping_add(count.wrapping_mul(u64::from(col)));
        }
        for (&tile, &value) in tile.iter().zip(values) {
            let value: u64 = value.into();
            tiles[tile as usize] += value;
        }
    }
}

/// Sums of every sixteenth count.
#[derive(Default)]
struct LaneSums {
    total: [u64; LANES],
    row_moment: [u64; LANES],
    col_moment: [u64; LANES],
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
