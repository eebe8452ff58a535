//! Squares of bits: sixty-four frames by sixty-four pixels, turned so that a word is one pixel in sixty-four frames.

use super::planes::{PlanePair, SPAN_WORDS};
use super::scan::SPAN_PIXELS;
use crate::count_code::INTERVAL;

/// Frames in a word.
pub(super) const FRAMES: usize = 64;
/// Words of an interval.
pub(super) const WORDS: usize = INTERVAL / FRAMES;
/// Words side by side: those of two planes of a span.
pub(super) const LANES: usize = 2 * SPAN_WORDS;
/// From one pixel of a word to the next in `turned`: a row more than it needs, since rows 1024 bytes apart would fall into
/// few cache sets.
const TURNED_STRIDE: usize = WORDS + 1;

/// The words of two planes of a span; a row of a square in each lane.
type Row = [u64; LANES];
/// Two planes of a pixel: bit `i` of word `w` is frame `64 w + i`.
pub(super) type PixelPair = [[u64; WORDS]; 2];

/// The squares of two planes of a span, turned word by word, then sorted by pixel.
#[derive(Debug)]
pub(super) struct Squares {
    /// `[64 pixels][word][lane]`.
    turned: Vec<Row>,
}

impl Squares {
    pub(super) fn new() -> Self {
        Self { turned: vec![[0; LANES]; FRAMES * TURNED_STRIDE] }
    }

    /// Takes 64 frames as word `word` of every pixel.
    pub(super) fn turn(&mut self, frames: &[&PlanePair; FRAMES], word: usize) {
        assert!(word < WORDS);
        turn(frames, &mut self.turned, word);
    }

    /// Puts the words of each pixel of the span side by side. A word that was not turned is that of a span before.
    pub(super) fn sort(&self, pixels: &mut [PixelPair]) {
        sort(&self.turned, pixels);
    }
}

/// Turns the squares of 64 rows, one a lane, and puts them into `turned` as its `word`.
fn turn(rows: &[&PlanePair; FRAMES], turned: &mut [Row], word: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, just asked.
            return unsafe { avx512::turn(rows, turned, word) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, just asked.
            return unsafe { turn_avx2(rows, turned, word) };
        }
    }
    turn_rows(rows, turned, word);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn turn_avx2(rows: &[&PlanePair; FRAMES], turned: &mut [Row], word: usize) {
    turn_rows(rows, turned, word);
}

/// Halves, quarters and so on of the squares are exchanged across the diagonal (H. S. Warren, Hacker's Delight, 2nd ed.,
/// section 7-3).
#[inline(always)]
fn turn_rows(rows: &[&PlanePair; FRAMES], turned: &mut [Row], word: usize) {
    let mut half = [[0; LANES]; FRAMES];
    // eight rows at a time stay in registers for three steps
    for first in 0..8 {
        let mut part: [Row; 8] = std::array::from_fn(|row| rows[first + 8 * row].0);
        exchange::<32, 4>(&mut part, 0x0000_0000_ffff_ffff);
        exchange::<16, 2>(&mut part, 0x0000_ffff_0000_ffff);
        exchange::<8, 1>(&mut part, 0x00ff_00ff_00ff_00ff);
        (0..8).for_each(|row| half[first + 8 * row] = part[row]);
    }
    for first in (0..FRAMES).step_by(8) {
        let mut part: [Row; 8] = std::array::from_fn(|row| half[first + row]);
        exchange::<4, 4>(&mut part, 0x0f0f_0f0f_0f0f_0f0f);
        exchange::<2, 2>(&mut part, 0x3333_3333_3333_3333);
        exchange::<1, 1>(&mut part, 0x5555_5555_5555_5555);
        (0..8).for_each(|row| turned[(first + row) * TURNED_STRIDE + word] = part[row]);
    }
}

/// Exchanges bits, `SHIFT` apart, of rows `DISTANCE` apart among eight.
#[inline(always)]
fn exchange<const SHIFT: u32, const DISTANCE: usize>(rows: &mut [Row; 8], mask: u64) {
    for row in 0..8 {
        if row & DISTANCE != 0 {
            continue;
        }
        let (upper_rows, lower_rows) = rows.split_at_mut(row + DISTANCE);
        for (upper, lower) in upper_rows[row].iter_mut().zip(&mut lower_rows[0]) {
            let change = ((*upper >> SHIFT) ^ *lower) & mask;
            *lower ^= change;
            *upper ^= change << SHIFT;
        }
    }
}

/// Puts the words of each pixel side by side: `turned` is `[64 pixels][word][lane]`, a lane being a plane and a word of
/// the span; `pixels` is `[pixel of the span][plane][word]`.
fn sort(turned: &[Row], pixels: &mut [PixelPair]) {
    assert!(turned.len() == FRAMES * TURNED_STRIDE && pixels.len() == SPAN_PIXELS);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512F, just asked.
        return unsafe { avx512::sort(turned, pixels) };
    }
    for (bit, rows) in turned.chunks_exact(TURNED_STRIDE).enumerate() {
        for (word, row) in rows[..WORDS].iter().enumerate() {
            for (lane, &bits) in row.iter().enumerate() {
                pixels[lane % SPAN_WORDS * 64 + bit][lane / SPAN_WORDS][word] = bits;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{FRAMES, LANES, PixelPair, PlanePair, Row, SPAN_WORDS, TURNED_STRIDE, WORDS};

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(row: &Row) -> __m512i {
        // SAFETY: a row is 64 bytes.
        unsafe { _mm512_loadu_si512(row.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(row: &mut Row, words: __m512i) {
        // SAFETY: a row is 64 bytes.
        unsafe { _mm512_storeu_si512(row.as_mut_ptr().cast(), words) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn exchange<const SHIFT: u32, const DISTANCE: usize>(rows: &mut [__m512i; 8], mask: u64) {
        let mask = _mm512_set1_epi64(mask as i64);
        for row in (0..8).filter(|row| row & DISTANCE == 0) {
            let (upper, lower) = (rows[row], rows[row + DISTANCE]);
            let change = _mm512_xor_si512(_mm512_srli_epi64::<SHIFT>(upper), lower);
            let change = _mm512_and_si512(change, mask);
            rows[row + DISTANCE] = _mm512_xor_si512(lower, change);
            rows[row] = _mm512_xor_si512(upper, _mm512_slli_epi64::<SHIFT>(change));
        }
    }

    /// As [`turn_rows`](super::turn_rows).
    #[target_feature(enable = "avx512f")]
    pub(super) fn turn(rows: &[&PlanePair; FRAMES], turned: &mut [Row], word: usize) {
        let mut half = [[0; LANES]; FRAMES];
        for first in 0..8 {
            let mut part = [_mm512_setzero_si512(); 8];
            (0..8).for_each(|row| part[row] = load(&rows[first + 8 * row].0));
            exchange::<32, 4>(&mut part, 0x0000_0000_ffff_ffff);
            exchange::<16, 2>(&mut part, 0x0000_ffff_0000_ffff);
            exchange::<8, 1>(&mut part, 0x00ff_00ff_00ff_00ff);
            (0..8).for_each(|row| store(&mut half[first + 8 * row], part[row]));
        }
        for first in (0..FRAMES).step_by(8) {
            let mut part = [_mm512_setzero_si512(); 8];
            (0..8).for_each(|row| part[row] = load(&half[first + row]));
            exchange::<4, 4>(&mut part, 0x0f0f_0f0f_0f0f_0f0f);
            exchange::<2, 2>(&mut part, 0x3333_3333_3333_3333);
            exchange::<1, 1>(&mut part, 0x5555_5555_5555_5555);
            (0..8).for_each(|row| store(&mut turned[(first + row) * TURNED_STRIDE + word], part[row]));
        }
    }

    /// As [`sort`](super::sort).
    #[target_feature(enable = "avx512f")]
    pub(super) fn sort(turned: &[Row], pixels: &mut [PixelPair]) {
        for (bit, rows) in turned.chunks_exact(TURNED_STRIDE).enumerate() {
            for (half, rows) in rows[..WORDS].as_chunks::<LANES>().0.iter().enumerate() {
                let lanes = transpose(rows);
                for (lane, &words) in lanes.iter().enumerate() {
                    let pixel = &mut pixels[lane % SPAN_WORDS * 64 + bit][lane / SPAN_WORDS];
                    store(&mut pixel.as_chunks_mut::<LANES>().0[half], words);
                }
            }
        }
    }

    /// The columns of eight rows.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transpose(rows: &[Row; LANES]) -> [__m512i; LANES] {
        let row = |row: usize| load(&rows[row]);
        let pairs = |first: usize| {
            let (one, other) = (row(first), row(first + 1));
            (_mm512_unpacklo_epi64(one, other), _mm512_unpackhi_epi64(one, other))
        };
        // even and odd columns of rows 0 and 1, 2 and 3, ...: columns 0 2 4 6 in quarters
        let ((e0, o0), (e1, o1), (e2, o2), (e3, o3)) = (pairs(0), pairs(2), pairs(4), pairs(6));
        let four = |a: __m512i, b: __m512i, c: __m512i, d: __m512i| {
            let (ab_low, ab_high) =
                (_mm512_shuffle_i64x2::<0b10_00_10_00>(a, b), _mm512_shuffle_i64x2::<0b11_01_11_01>(a, b));
            let (cd_low, cd_high) =
                (_mm512_shuffle_i64x2::<0b10_00_10_00>(c, d), _mm512_shuffle_i64x2::<0b11_01_11_01>(c, d));
            [
                _mm512_shuffle_i64x2::<0b10_00_10_00>(ab_low, cd_low),
                _mm512_shuffle_i64x2::<0b10_00_10_00>(ab_high, cd_high),
                _mm512_shuffle_i64x2::<0b11_01_11_01>(ab_low, cd_low),
                _mm512_shuffle_i64x2::<0b11_01_11_01>(ab_high, cd_high),
            ]
        };
        let [c0, c2, c4, c6] = four(e0, e1, e2, e3);
        let [c1, c3, c5, c7] = four(o0, o1, o2, o3);
        [c0, c1, c2, c3, c4, c5, c6, c7]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_turns_and_sorts_alike() {
        let mut state = 5_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        let planes: Vec<PlanePair> =
            (0..FRAMES).map(|_| PlanePair(std::array::from_fn(|_| next()))).collect();
        let rows: [&PlanePair; FRAMES] = std::array::from_fn(|row| &planes[row]);
        let mut expected = Squares::new();
        turn_rows(&rows, &mut expected.turned, 3);
        let mut squares = Squares::new();
        squares.turn(&rows, 3);
        assert!(squares.turned == expected.turned);
        let mut pixels = vec![[[1; WORDS]; 2]; SPAN_PIXELS];
        squares.sort(&mut pixels);
        for (pixel, planes) in pixels.iter().enumerate() {
            for (plane, words) in planes.iter().enumerate() {
                let lane = plane * SPAN_WORDS + pixel / 64;
                let bits = (0..)
                    .zip(&rows)
                    .fold(0, |bits, (frame, row)| bits | (row.0[lane] >> (pixel % 64) & 1) << frame);
                let expected: [u64; WORDS] = std::array::from_fn(|word| if word == 3 { bits } else { 0 });
                assert_eq!(*words, expected, "pixel {pixel}");
            }
        }
    }
}
