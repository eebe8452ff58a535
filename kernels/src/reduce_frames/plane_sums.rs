//! The sums of a frame from its bit planes: eight pixels of a row are a byte, whose bits are counted.

use crate::encode_counts::{FramePlanes, FrameTiles, PlanePair, SPAN_PIXELS, SPAN_WORDS};
use crate::sum_counts::{TILE, tile_shape};
use crate::types::DetectorShape;

/// Sums frames whose small counts are planes; holds the work space.
#[derive(Debug)]
pub(super) struct PlaneSummer {
    detector: DetectorShape,
    /// Sums of eight pixels, a byte each, lowest first; eight in a word.
    eights: Vec<u64>,
    tile_cols: usize,
}

/// Tiles side by side.
const LANES: usize = 8;

/// Sums of every eighth column of tiles.
#[derive(Default)]
struct LaneSums {
    total: [u64; LANES],
    row_moment: [u64; LANES],
    /// Of tile columns, not of pixels.
    col_moment: [u64; LANES],
}

impl LaneSums {
    /// Adds the tiles from column `col` on, of rows that end at `end`: their sums, and the sums of the partial sums.
    #[inline(always)]
    fn add(&mut self, end: usize, col: usize, columns: &[u16; LANES], rising: &[u16; LANES]) {
        for lane in 0..LANES {
            let column = u64::from(columns[lane]);
            self.total[lane] += column;
            // the row before the end was counted once in the partial sums, the one before that twice
            self.row_moment[lane] += column * end as u64 - u64::from(rising[lane]);
            self.col_moment[lane] += column * (col + lane) as u64;
        }
    }
}

/// Adds a row of bytes of at most 120, one of eight, to the sums of columns, and these to the sums of partial sums.
#[inline(always)]
fn add_row(row: &[u8; LANES], columns: &mut [u16; LANES], rising: &mut [u16; LANES]) {
    for lane in 0..LANES {
        columns[lane] += u16::from(row[lane]);
        rising[lane] += columns[lane];
    }
}

/// Total, row moment and column moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
            tile_cols: tile_shape(detector).1,
        }
    }

    /// Sums a frame of small counts, and writes the sums of its small tiles.
    pub(super) fn sum(&mut self, planes: &FramePlanes, tiles: &mut FrameTiles) -> Sums {
        let (tile_rows, tile_cols) = tile_shape(self.detector);
        if !self.detector.cols.is_multiple_of(TILE) {
            // eight pixels of a byte are not of one row: one by one
            tiles.narrow(tile_rows * tile_cols).fill(0);
            let mut sums = Sums::default();
            for span in 0..planes.low().len() {
                planes.for_each(span, |place, value| {
                    self.add(span * SPAN_PIXELS + place, value.into(), &mut sums, tiles);
                });
            }
            return sums;
        }
        let tiles = tiles.narrow(tile_rows * tile_cols);
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bitalg")
                && is_x86_feature_detected!("avx512vpopcntdq")
            {
                // SAFETY: the processor has AVX-512 F, BW, VL, BITALG and VPOPCNTDQ, just asked.
                return unsafe {
                    avx512::sum(planes, self.detector.rows, self.tile_cols, &mut self.eights, tiles)
                };
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2, just asked; every processor with it has POPCNT.
                return unsafe { self.sum_avx2(planes, tiles) };
            }
        }
        self.sum_bytes(planes, tiles)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt")]
    fn sum_avx2(&mut self, planes: &FramePlanes, tiles: &mut [u32]) -> Sums {
        self.sum_bytes(planes, tiles)
    }

    #[inline(always)]
    fn sum_bytes(&mut self, planes: &FramePlanes, tiles: &mut [u32]) -> Sums {
        let within = sum_eights(planes, &mut self.eights);
        let eights: &[u8] = bytemuck::cast_slice(&self.eights);
        let (rows, tile_cols) = (self.detector.rows, self.tile_cols);
        let mut lanes = LaneSums::default();
        for (first, tiles) in (0..rows).step_by(TILE).zip(tiles.chunks_exact_mut(tile_cols)) {
            let num_rows = TILE.min(rows - first);
            let eights = &eights[first * tile_cols..][..num_rows * tile_cols];
            for (col, tiles) in (0..tile_cols).step_by(LANES).zip(tiles.chunks_mut(LANES)) {
                let (mut columns, mut rising) = ([0; LANES], [0; LANES]);
                for row in eights.chunks_exact(tile_cols) {
                    match row[col..].first_chunk::<LANES>() {
                        Some(row) => add_row(row, &mut columns, &mut rising),
                        None => {
                            let mut filled = [0; LANES];
                            filled[..tile_cols - col].copy_from_slice(&row[col..]);
                            add_row(&filled, &mut columns, &mut rising);
                        }
                    }
                }
                tiles.iter_mut().zip(columns).for_each(|(tile, column)| *tile = column.into());
                lanes.add(first + num_rows, col, &columns, &rising);
            }
        }
        let [total, row_moment, col_moment] =
            [lanes.total, lanes.row_moment, lanes.col_moment].map(|lanes| lanes.iter().sum::<u64>());
        Sums { total, row_moment, col_moment: within + TILE as u64 * col_moment }
    }

    /// Adds a count to the sums of its frame.
    pub(super) fn add(&self, pixel: usize, count: u32, sums: &mut Sums, tiles: &mut FrameTiles) {
        let (row, col) = (pixel / self.detector.cols, pixel % self.detector.cols);
        tiles.add(row / TILE * self.tile_cols + col / TILE, count);
        let count = u64::from(count);
        sums.total = sums.total.wrapping_add(count);
        sums.row_moment = sums.row_moment.wrapping_add(count.wrapping_mul(row as u64));
        sums.col_moment = sums.col_moment.wrapping_add(count.wrapping_mul(col as u64));
    }
}

/// Fills `eights`; returns the sum of count x place among the eight.
#[inline(always)]
fn sum_eights(planes: &FramePlanes, eights: &mut [u64]) -> u64 {
    let mut moments = [[0; SPAN_WORDS]; 4];
    let [one, two, four, eight] = &mut moments;
    for (pair, eights) in planes.low().iter().zip(eights.as_chunks_mut::<SPAN_WORDS>().0) {
        let bytes = sum_bytes(pair, one, two);
        (0..SPAN_WORDS).for_each(|word| eights[word] = bytes[word].to_le());
    }
    for (span, pair) in planes.high() {
        let bytes = sum_bytes(pair, four, eight);
        // a byte is at most 8 * 15
        for (eight, bytes) in eights[span * SPAN_WORDS..][..SPAN_WORDS].iter_mut().zip(bytes) {
            *eight = (u64::from_le(*eight) + 4 * bytes).to_le();
        }
    }
    (0..).zip(&moments).map(|(plane, moments)| moments.iter().sum::<u64>() << plane).sum()
}

/// The sums of eight pixels each, of two planes; adds to the moments of the planes, by word, the places of the bits among
/// their eight.
#[inline(always)]
fn sum_bytes(
    pair: &PlanePair,
    one_moment: &mut [u64; SPAN_WORDS],
    other_moment: &mut [u64; SPAN_WORDS],
) -> [u64; SPAN_WORDS] {
    // half by half: what is done with both and then taken apart goes through memory
    let (mut one, mut other) = ([0; SPAN_WORDS], [0; SPAN_WORDS]);
    one.copy_from_slice(&pair.0[..SPAN_WORDS]);
    other.copy_from_slice(&pair.0[SPAN_WORDS..]);
    for word in 0..SPAN_WORDS {
        one_moment[word] += sum_places(one[word]);
        other_moment[word] += sum_places(other[word]);
    }
    std::array::from_fn(|word| count_ones(one[word]) + 2 * count_ones(other[word]))
}

const TWO: u64 = 0x5555_5555_5555_5555;
const FOUR: u64 = 0x3333_3333_3333_3333;
const EIGHT: u64 = 0x0f0f_0f0f_0f0f_0f0f;

/// The sum of the places of the bits, each among the eight of its byte.
#[inline(always)]
fn sum_places(bits: u64) -> u64 {
    // a place is a number of three bits
    let with = |places: u64| u64::from((bits & places).count_ones());
    with(!TWO) + 2 * with(!FOUR) + 4 * with(!EIGHT)
}

/// The number of bits in each byte.
#[inline(always)]
fn count_ones(bits: u64) -> u64 {
    let twos = bits - (bits >> 1 & TWO);
    let fours = (twos & FOUR) + (twos >> 2 & FOUR);
    (fours + (fours >> 4)) & EIGHT
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{EIGHT, FOUR, FramePlanes, LANES, SPAN_WORDS, Sums, TILE, TWO};

    /// As [`sum_bytes`](super::PlaneSummer::sum_bytes).
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bitalg,avx512vpopcntdq")]
    pub(super) fn sum(
        planes: &FramePlanes,
        rows: usize,
        tile_cols: usize,
        eights: &mut [u64],
        tiles: &mut [u32],
    ) -> Sums {
        let within = sum_eights(planes, eights);
        let eights: &[u8] = bytemuck::cast_slice(eights);
        let (mut total, mut row_moment, mut col_moment) =
            (_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512());
        let lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
        for (first, tiles) in (0..rows).step_by(TILE).zip(tiles.chunks_exact_mut(tile_cols)) {
            let num_rows = TILE.min(rows - first);
            let end = _mm512_set1_epi64((first + num_rows) as i64);
            let eights = &eights[first * tile_cols..][..num_rows * tile_cols];
            for (col, tiles) in (0..tile_cols).step_by(LANES).zip(tiles.chunks_mut(LANES)) {
                let used = u8::MAX >> (LANES - tiles.len());
                let (mut columns, mut rising) = (_mm_setzero_si128(), _mm_setzero_si128());
                for row in eights.chunks_exact(tile_cols) {
                    let row = &row[col..col + tiles.len()];
                    // SAFETY: only the bytes of `row` are read, as many as bits in `used`.
                    let row = unsafe { _mm_maskz_loadu_epi8(used.into(), row.as_ptr().cast()) };
                    columns = _mm_add_epi16(columns, _mm_cvtepu8_epi16(row));
                    rising = _mm_add_epi16(rising, columns);
                }
                let sums = _mm256_cvtepu16_epi32(columns);
                // SAFETY: only `tiles` are written, as many as bits in `used`.
                unsafe { _mm256_mask_storeu_epi32(tiles.as_mut_ptr().cast(), used, sums) };
                let (columns, rising) = (_mm512_cvtepu16_epi64(columns), _mm512_cvtepu16_epi64(rising));
                total = _mm512_add_epi64(total, columns);
                // the row before the end was counted once in the partial sums, the one before that twice
                row_moment = _mm512_add_epi64(row_moment, _mm512_mul_epu32(columns, end));
                row_moment = _mm512_sub_epi64(row_moment, rising);
                let cols = _mm512_add_epi64(lanes, _mm512_set1_epi64(col as i64));
                col_moment = _mm512_add_epi64(col_moment, _mm512_mul_epu32(columns, cols));
            }
        }
        let [total, row_moment, col_moment] =
            [total, row_moment, col_moment].map(|lanes| _mm512_reduce_add_epi64(lanes) as u64);
        Sums { total, row_moment, col_moment: within + TILE as u64 * col_moment }
    }

    /// As [`sum_eights`](super::sum_eights).
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bitalg,avx512vpopcntdq")]
    fn sum_eights(planes: &FramePlanes, eights: &mut [u64]) -> u64 {
        let places = [!TWO, !FOUR, !EIGHT].map(|places| _mm512_set1_epi64(places as i64));
        let mut moments = [_mm512_setzero_si512(); 3];
        let mut high_moments = [_mm512_setzero_si512(); 3];
        let sum = |planes: __m512i, moments: &mut [__m512i; 3]| {
            for (moment, &places) in moments.iter_mut().zip(&places) {
                let with = _mm512_popcnt_epi64(_mm512_and_si512(planes, places));
                *moment = _mm512_add_epi64(*moment, with);
            }
            let ones = _mm512_popcnt_epi8(planes);
            let (one, other) = (_mm512_castsi512_si256(ones), _mm512_extracti64x4_epi64::<1>(ones));
            _mm256_add_epi8(one, _mm256_add_epi8(other, other))
        };
        let eights = eights.as_chunks_mut::<SPAN_WORDS>().0;
        for (pair, eights) in planes.low().iter().zip(&mut *eights) {
            // SAFETY: a pair is 64 bytes, `eights` are 32.
            unsafe {
                let bytes = sum(_mm512_loadu_si512(pair.0.as_ptr().cast()), &mut moments);
                _mm256_storeu_si256(eights.as_mut_ptr().cast(), bytes);
            }
        }
        for (span, pair) in planes.high() {
            let eights = &mut eights[span];
            // SAFETY: a pair is 64 bytes, `eights` are 32.
            unsafe {
                let bytes = sum(_mm512_loadu_si512(pair.0.as_ptr().cast()), &mut high_moments);
                let low = _mm256_loadu_si256(eights.as_ptr().cast());
                // four times; a byte is at most 8 * 15
                let bytes = _mm256_add_epi8(bytes, bytes);
                let bytes = _mm256_add_epi8(low, _mm256_add_epi8(bytes, bytes));
                _mm256_storeu_si256(eights.as_mut_ptr().cast(), bytes);
            }
        }
        let weighted = |[one, two, four]: [__m512i; 3]| {
            let sum = _mm512_add_epi64(one, _mm512_slli_epi64::<1>(two));
            let sum = _mm512_add_epi64(sum, _mm512_slli_epi64::<2>(four));
            let upper = _mm512_maskz_mov_epi64(0xf0, sum);
            (_mm512_reduce_add_epi64(sum) + _mm512_reduce_add_epi64(upper)) as u64
        };
        weighted(moments) + 4 * weighted(high_moments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_planes_sum_to_counts_and_places() {
        let pair = PlanePair([u64::MAX, 0, 0x8001_1234_90ab_cdef, 3, u64::MAX, u64::MAX, 0x77, 1 << 63]);
        let (mut one, mut other) = ([0; SPAN_WORDS], [0; SPAN_WORDS]);
        let bytes = sum_bytes(&pair, &mut one, &mut other);
        for (bits, moment) in pair.0.into_iter().zip(one.into_iter().chain(other)) {
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
    fn sums_are_those_of_every_count() {
        for (rows, cols) in [(192, 192), (96, 96), (8, 8), (64, 8), (37, 64), (30, 72), (64, 5), (16, 100)] {
            let detector = DetectorShape { rows, cols };
            let mut planes = FramePlanes::default();
            planes.start(detector.pixels().div_ceil(SPAN_PIXELS));
            let mut state = rows as u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state & state.rotate_left(20) & state.rotate_left(40)
            };
            for span in 0..planes.low().len() {
                let words = ((detector.pixels() - span * SPAN_PIXELS) / 64).min(SPAN_WORDS);
                let mut plane = || std::array::from_fn(|word| if word < words { next() } else { 0 });
                let [one, two, four, eight]: [[u64; SPAN_WORDS]; 4] = [plane(), plane(), plane(), plane()];
                planes.low_mut(span)[0].0[..SPAN_WORDS].copy_from_slice(&one);
                planes.low_mut(span)[0].0[SPAN_WORDS..].copy_from_slice(&two);
                if span % 3 == 1 {
                    planes.set_high(span, four, eight);
                }
            }
            let (tile_rows, tile_cols) = tile_shape(detector);
            let mut expected = (Sums::default(), FrameTiles::Narrow(vec![0; tile_rows * tile_cols]));
            let mut summer = PlaneSummer::new(detector);
            for span in 0..planes.low().len() {
                planes.for_each(span, |place, value| {
                    let pixel = span * SPAN_PIXELS + place;
                    summer.add(pixel, value.into(), &mut expected.0, &mut expected.1);
                });
            }
            let mut tiles = FrameTiles::Wide(vec![99; 3]);
            assert_eq!((summer.sum(&planes, &mut tiles), &tiles), (expected.0, &expected.1));
            if cols % TILE == 0 {
                tiles.narrow(tile_rows * tile_cols).fill(99);
                let sums = summer.sum_bytes(&planes, tiles.narrow(tile_rows * tile_cols));
                assert_eq!((sums, &tiles), (expected.0, &expected.1));
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
                let plane = std::array::from_fn(|word| pair.0[word]);
                planes.set_high(span, plane, plane);
            }
            let mut tiles = FrameTiles::default();
            let sums = PlaneSummer::new(detector).sum(&planes, &mut tiles);
            let FrameTiles::Narrow(tiles) = tiles else { panic!("{tiles:?}") };
            let sum_to = |end: usize| (end * (end - 1) / 2) as u64;
            assert_eq!(sums.total, 15 * detector.pixels() as u64);
            assert_eq!(sums.row_moment, 15 * cols as u64 * sum_to(rows));
            assert_eq!(sums.col_moment, 15 * rows as u64 * sum_to(cols));
            assert_eq!(tiles[0], 15 * 8 * cols.min(8) as u32);
            assert_eq!(tiles.iter().map(|&tile| u64::from(tile)).sum::<u64>(), sums.total);
        }
    }
}
