//! A frame from its bit planes: counts below 16 stay planes, larger ones are taken out, the sums come from the planes.

use crate::encode_counts::{FramePlanes, PlanePair, SPAN_PIXELS, SPAN_WORDS};
use crate::sum_counts::{TILE, tile_shape};
use crate::types::{Count, DetectorShape};

/// Puts the planes of a block into a frame, and its counts of 16 or more, with their pixels, into `large`.
///
/// `block` holds `8 * size_of::<T>()` planes of a multiple of 8 bytes each; its first pixel is the first of `span`.
pub(super) fn keep_block<T: Count>(
    block: &[u8],
    span: usize,
    planes: &mut FramePlanes,
    large: &mut Vec<(u32, T)>,
) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, just asked.
            return unsafe { keep_block_avx512(block, span, planes, large) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, just asked.
            return unsafe { keep_block_avx2(block, span, planes, large) };
        }
    }
    keep_block_by_words(block, span, planes, large);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn keep_block_avx512<T: Count>(
    block: &[u8],
    span: usize,
    planes: &mut FramePlanes,
    large: &mut Vec<(u32, T)>,
) {
    keep_block_by_words(block, span, planes, large);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn keep_block_avx2<T: Count>(block: &[u8], span: usize, planes: &mut FramePlanes, large: &mut Vec<(u32, T)>) {
    keep_block_by_words(block, span, planes, large);
}

/// Bytes of a plane of a span.
const SPAN_BYTES: usize = 8 * SPAN_WORDS;

#[inline(always)]
fn keep_block_by_words<T: Count>(
    block: &[u8],
    first_span: usize,
    planes: &mut FramePlanes,
    large: &mut Vec<(u32, T)>,
) {
    let plane_bytes = block.len() / (8 * size_of::<T>());
    let plane = |plane: usize| &block[plane * plane_bytes..][..plane_bytes];
    let low = planes.low_mut(first_span);
    for_each_span(plane(0), plane(1), |span, pair| low[span] = pair);
    if is_any_set(&block[2 * plane_bytes..4 * plane_bytes]) {
        for_each_span(plane(2), plane(3), |span, pair| {
            if pair.0 != [0; 2 * SPAN_WORDS] {
                planes.set_high(first_span + span, pair);
            }
        });
    }
    if is_any_set(&block[4 * plane_bytes..]) {
        take_large(block, first_span, planes, large);
    }
}

/// Calls `each` with the spans of two planes, counted from 0; the last may be shorter than others, and is filled with zeros.
#[inline(always)]
fn for_each_span(one: &[u8], other: &[u8], mut each: impl FnMut(usize, PlanePair)) {
    let ((one, one_rest), (other, other_rest)) = (one.as_chunks(), other.as_chunks());
    for (span, (one, other)) in one.iter().zip(other).enumerate() {
        each(span, pair(one, other));
    }
    if !one_rest.is_empty() {
        let fill = |rest: &[u8]| {
            let mut bytes = [0; SPAN_BYTES];
            bytes[..rest.len()].copy_from_slice(rest);
            bytes
        };
        each(one.len(), pair(&fill(one_rest), &fill(other_rest)));
    }
}

#[inline(always)]
fn pair(one: &[u8; SPAN_BYTES], other: &[u8; SPAN_BYTES]) -> PlanePair {
    let mut pair = PlanePair::default();
    let (low, high) = pair.0.split_at_mut(SPAN_WORDS);
    for (words, bytes) in [(low, one), (high, other)] {
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
    }
    pair
}

/// Takes the counts of 16 or more out of the planes that are kept.
#[cold]
fn take_large<T: Count>(
    block: &[u8],
    first_span: usize,
    planes: &mut FramePlanes,
    large: &mut Vec<(u32, T)>,
) {
    let num_planes = 8 * size_of::<T>();
    let plane_bytes = block.len() / num_planes;
    for byte in 0..plane_bytes {
        let at = |plane: usize| block[plane * plane_bytes + byte];
        let above = (4..num_planes).fold(0, |above, plane| above | at(plane));
        for bit in (0..8).filter(|bit| above >> bit & 1 == 1) {
            let value =
                (0..num_planes).fold(0, |value, plane| value | u32::from(at(plane) >> bit & 1) << plane);
            let place = byte * 8 + bit;
            planes.take(first_span + place / SPAN_PIXELS, place % SPAN_PIXELS);
            // pixels fit 32 bits; as many planes as the type has bits
            let pixel = (first_span * SPAN_PIXELS + place) as u32;
            large.push((pixel, T::try_from(value).unwrap_or_default()));
        }
    }
}

#[inline(always)]
fn is_any_set(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    // a kilobyte at a time, side by side
    words.chunks(128).any(|words| words.iter().fold(0, |any, &word| any | u64::from_ne_bytes(word)) != 0)
        || rest.iter().any(|&byte| byte != 0)
}

/// Sums frames whose small counts are planes; holds the work space.
#[derive(Debug)]
pub(super) struct PlaneSummer {
    detector: DetectorShape,
    /// Sums of eight pixels, a byte each, lowest first; eight in a word.
    eights: Vec<u64>,
    /// Sums of the tiles of eight rows.
    tiles: Vec<u16>,
    /// Sums of their partial sums.
    rising: Vec<u16>,
}

/// Total, row moment and column moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) total: u64,
    pub(super) row_moment: u64,
    pub(super) col_moment: u64,
}

impl PlaneSummer {
    pub(super) fn new(detector: DetectorShape) -> Self {
        Self {
            detector,
            eights: vec![0; detector.pixels().div_ceil(SPAN_PIXELS) * SPAN_WORDS],
            tiles: vec![0; tile_shape(detector).1],
            rising: vec![0; tile_shape(detector).1],
        }
    }

    /// Sums a frame of small counts, and writes the sums of its small tiles.
    pub(super) fn sum(&mut self, planes: &FramePlanes, tiles: &mut Vec<u64>) -> Sums {
        let (tile_rows, tile_cols) = tile_shape(self.detector);
        tiles.resize(tile_rows * tile_cols, 0);
        if !self.detector.cols.is_multiple_of(TILE) {
            // eight pixels of a byte are not of one row: one by one
            tiles.fill(0);
            let mut sums = Sums::default();
            for span in 0..planes.low().len() {
                planes.for_each(span, |place, value| {
                    self.add(span * SPAN_PIXELS + place, value.into(), &mut sums, tiles);
                });
            }
            return sums;
        }
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vpopcntdq") {
                // SAFETY: the processor has AVX-512 BW and VPOPCNTDQ, just asked; the others come with them.
                return unsafe { self.sum_avx512(planes, tiles) };
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2, just asked.
                return unsafe { self.sum_avx2(planes, tiles) };
            }
        }
        self.sum_bytes(planes, tiles)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq")]
    fn sum_avx512(&mut self, planes: &FramePlanes, tiles: &mut [u64]) -> Sums {
        self.sum_bytes(planes, tiles)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt")]
    fn sum_avx2(&mut self, planes: &FramePlanes, tiles: &mut [u64]) -> Sums {
        self.sum_bytes(planes, tiles)
    }

    #[inline(always)]
    fn sum_bytes(&mut self, planes: &FramePlanes, tiles: &mut [u64]) -> Sums {
        let within = sum_eights(planes, &mut self.eights);
        let eights: &[u8] = bytemuck::cast_slice(&self.eights);
        let mut sums = Sums { col_moment: within, ..Sums::default() };
        let (rows, tile_cols) = (self.detector.rows, self.tiles.len());
        let (columns, rising) = (&mut self.tiles, &mut self.rising);
        for (first, tiles) in (0..rows).step_by(TILE).zip(tiles.chunks_exact_mut(tile_cols)) {
            let num_rows = TILE.min(rows - first);
            columns.fill(0);
            rising.fill(0);
            for eights in eights[first * tile_cols..][..num_rows * tile_cols].chunks_exact(tile_cols) {
                // of eight rows of bytes of at most 120: the sum, and the sum of all partial sums
                for ((column, rising), &eight) in columns.iter_mut().zip(rising.iter_mut()).zip(eights) {
                    *column += u16::from(eight);
                    *rising += *column;
                }
            }
            let (mut total, mut all_rising, mut col_moment) = (0_u32, 0_u32, 0_u64);
            for (col, ((tile, &column), &rising)) in
                (0_u32..).zip(tiles.iter_mut().zip(columns.iter()).zip(rising.iter()))
            {
                *tile = column.into();
                total += u32::from(column);
                all_rising += u32::from(rising);
                col_moment += u64::from(u32::from(column) * col);
            }
            sums.total += u64::from(total);
            // the row of number r was counted num_rows - r times
            let within_rows = num_rows as u64 * u64::from(total) - u64::from(all_rising);
            sums.row_moment += first as u64 * u64::from(total) + within_rows;
            sums.col_moment += TILE as u64 * col_moment;
        }
        sums
    }

    /// Adds a count to the sums of its frame.
    pub(super) fn add(&self, pixel: usize, count: u64, sums: &mut Sums, tiles: &mut [u64]) {
        let (row, col) = (pixel / self.detector.cols, pixel % self.detector.cols);
        sums.total = sums.total.wrapping_add(count);
        sums.row_moment = sums.row_moment.wrapping_add(count.wrapping_mul(row as u64));
        sums.col_moment = sums.col_moment.wrapping_add(count.wrapping_mul(col as u64));
        tiles[row / TILE * self.tiles.len() + col / TILE] += count;
    }
}

/// Fills `eights`; returns the sum of count x place among the eight.
#[inline(always)]
fn sum_eights(planes: &FramePlanes, eights: &mut [u64]) -> u64 {
    let mut moment = [0; 2 * SPAN_WORDS];
    for (pair, eights) in planes.low().iter().zip(eights.as_chunks_mut::<SPAN_WORDS>().0) {
        let bytes = sum_bytes(pair, &mut moment);
        (0..SPAN_WORDS).for_each(|word| eights[word] = bytes[word].to_le());
    }
    let mut high_moment = [0; 2 * SPAN_WORDS];
    for (span, pair) in planes.high() {
        let bytes = sum_bytes(pair, &mut high_moment);
        // a byte is at most 8 * 15
        for (eight, bytes) in eights[span * SPAN_WORDS..][..SPAN_WORDS].iter_mut().zip(bytes) {
            *eight = (u64::from_le(*eight) + 4 * bytes).to_le();
        }
    }
    let plane = |plane: usize, moment: &[u64; 2 * SPAN_WORDS]| {
        moment[plane * SPAN_WORDS..][..SPAN_WORDS].iter().sum::<u64>()
    };
    plane(0, &moment) + 2 * plane(1, &moment) + 4 * plane(0, &high_moment) + 8 * plane(1, &high_moment)
}

/// The sums of eight pixels each, of two planes; adds to `moment`, by word, the places of the bits among their eight.
#[inline(always)]
fn sum_bytes(pair: &PlanePair, moment: &mut [u64; 2 * SPAN_WORDS]) -> [u64; SPAN_WORDS] {
    const TWO: u64 = 0x5555_5555_5555_5555;
    const FOUR: u64 = 0x3333_3333_3333_3333;
    const EIGHT: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    for (moment, &bits) in moment.iter_mut().zip(&pair.0) {
        // a place is a number of three bits
        let with = |places: u64| u64::from((bits & places).count_ones());
        *moment += with(!TWO) + 2 * with(!FOUR) + 4 * with(!EIGHT);
    }
    let ones = pair.0.map(|bits| {
        let twos = bits - (bits >> 1 & TWO);
        let fours = (twos & FOUR) + (twos >> 2 & FOUR);
        (fours + (fours >> 4)) & EIGHT
    });
    std::array::from_fn(|word| ones[word] + 2 * ones[SPAN_WORDS + word])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_planes_sum_to_counts_and_places() {
        let pair = PlanePair([u64::MAX, 0, 0x8001_1234_90ab_cdef, 3, u64::MAX, u64::MAX, 0x77, 1 << 63]);
        let mut moment = [0; 2 * SPAN_WORDS];
        let bytes = sum_bytes(&pair, &mut moment);
        for (bits, moment) in pair.0.into_iter().zip(moment) {
            assert_eq!(moment, (0..64).map(|bit| (bits >> bit & 1) * (bit % 8)).sum::<u64>());
        }
        for (word, bytes) in bytes.into_iter().enumerate() {
            for byte in 0..8 {
                let ones = |lane: usize| u64::from((pair.0[lane] >> (8 * byte) & 0xff).count_ones());
                assert_eq!(bytes >> (8 * byte) & 0xff, ones(word) + 2 * ones(SPAN_WORDS + word));
            }
        }
    }

    #[test]
    fn a_frame_full_of_fifteens_does_not_overflow() {
        for (rows, cols) in [(512, 512), (192, 192), (40, 40), (64, 5)] {
            let detector = DetectorShape { rows, cols };
            let full = PlanePair([u64::MAX; 2 * SPAN_WORDS]);
            let mut planes = FramePlanes::default();
            planes.start(detector.pixels().div_ceil(SPAN_PIXELS));
            for span in 0..planes.low().len() {
                let words = ((detector.pixels() - span * SPAN_PIXELS) / 64).min(SPAN_WORDS);
                let mut pair = full;
                (words..SPAN_WORDS).for_each(|word| (pair.0[word], pair.0[SPAN_WORDS + word]) = (0, 0));
                planes.low_mut(span)[0] = pair;
                planes.set_high(span, pair);
            }
            let mut tiles = Vec::new();
            let sums = PlaneSummer::new(detector).sum(&planes, &mut tiles);
            let sum_to = |end: usize| (end * (end - 1) / 2) as u64;
            assert_eq!(sums.total, 15 * detector.pixels() as u64);
            assert_eq!(sums.row_moment, 15 * cols as u64 * sum_to(rows));
            assert_eq!(sums.col_moment, 15 * rows as u64 * sum_to(cols));
            assert_eq!(tiles[0], 15 * 8 * cols.min(8) as u64);
            assert_eq!(tiles.iter().sum::<u64>(), sums.total);
        }
    }
}
