//! From frames to pixels: the bit planes of an interval's frames, transposed, and the counts of each pixel listed.
//!
//! Sixty-four frames and sixty-four pixels are a square of bits. Turned, a word is one pixel in sixty-four frames: its
//! bits say when the pixel counted. Work grows with the number of words, not with the number of counts.

use super::group::Event;
use super::planes::{FramePlanes, PlanePair, SPAN_WORDS, set_bits, value_at};
use super::scan::{SPAN_PIXELS, ask_for};
use crate::count_code::{GROUP_PIXELS, INTERVAL};

/// Frames in a word.
const FRAMES: usize = 64;
/// Words of an interval.
const WORDS: usize = INTERVAL / FRAMES;
/// Words side by side: those of two planes of a span.
const LANES: usize = 2 * SPAN_WORDS;
/// From one pixel of a word to the next in `turned`: a row more than it needs, since rows 1024 bytes apart would fall into
/// few cache sets.
const TURNED_STRIDE: usize = WORDS + 1;
/// Room for a pixel's counts, and for the registers that may be written behind the last.
const ROOM: usize = INTERVAL + FRAMES;
/// Counts of a pixel from which whole words are listed at once.
const MANY: u32 = 24;
/// Frames to each with something in planes 2 and 3 from which these are transposed, not set bit by bit.
const FRAMES_PER_HIGH: usize = 8;

/// The words of two planes of a span; a row of a square in each lane.
type Row = [u64; LANES];
/// Two planes of a pixel: bit `i` of word `w` is frame `64 w + i`.
type PixelPair = [[u64; WORDS]; 2];

/// The planes of an interval's frames, in the order in which spans are read.
#[derive(Debug, Default)]
pub(crate) struct IntervalPlanes<'a> {
    /// Planes 0 and 1, `[frame][span]`.
    low: Vec<&'a [PlanePair]>,
    /// The frames with something in planes 2 and 3, `[span][frame]`.
    high: Vec<Vec<(usize, &'a PlanePair)>>,
}

impl<'a> IntervalPlanes<'a> {
    /// The planes of at most [`INTERVAL`] frames of so many spans.
    pub(crate) fn new(frames: impl Iterator<Item = &'a FramePlanes>, num_spans: usize) -> Self {
        let mut planes = Self { low: Vec::with_capacity(INTERVAL), high: vec![Vec::new(); num_spans] };
        for (index, frame) in frames.enumerate() {
            planes.low.push(frame.low());
            frame.high().for_each(|(span, high)| planes.high[span].push((index, high)));
        }
        planes
    }
}

/// Lists the counts of each pixel of a span; holds the work space.
#[derive(Debug)]
pub(crate) struct PixelLists {
    /// Squares that are turned, not sorted yet: `[64 pixels][frames / 64][lane]`.
    turned: Vec<Row>,
    /// Planes 0 and 1 of every pixel.
    low: Vec<PixelPair>,
    /// Planes 2 and 3 of the pixels that `has_high` names; of no meaning for others.
    high: Vec<PixelPair>,
    /// One bit a pixel.
    has_high: [u64; SPAN_WORDS],
    /// Words of a pixel in use.
    words: usize,
    lists: Vec<[u16; ROOM]>,
    lens: [usize; GROUP_PIXELS],
}

impl PixelLists {
    pub(crate) fn new() -> Self {
        Self {
            turned: vec![[0; LANES]; FRAMES * TURNED_STRIDE],
            low: vec![[[0; WORDS]; 2]; SPAN_PIXELS],
            high: vec![[[0; WORDS]; 2]; SPAN_PIXELS],
            has_high: [0; SPAN_WORDS],
            words: 0,
            lists: vec![[0; ROOM]; GROUP_PIXELS],
            lens: [0; GROUP_PIXELS],
        }
    }

    /// Takes a span of an interval.
    pub(crate) fn load(&mut self, planes: &IntervalPlanes<'_>, span: usize) {
        const NOTHING: PlanePair = PlanePair([0; LANES]);
        let (frames, high) = (planes.low.as_slice(), planes.high[span].as_slice());
        self.words = frames.len().div_ceil(FRAMES);
        for (word, some) in frames.chunks(FRAMES).enumerate() {
            let mut rows = [&NOTHING; FRAMES];
            rows.iter_mut().zip(some).for_each(|(row, frame)| *row = &frame[span]);
            // each frame's lie somewhere else in memory: asked for while others are worked at
            frames.iter().skip((word + 1) * FRAMES).take(FRAMES).for_each(|frame| ask_for(frame, span));
            turn(&rows, &mut self.turned, word);
        }
        sort(&self.turned, &mut self.low);
        if high.len() * FRAMES_PER_HIGH <= frames.len() {
            self.has_high = [0; SPAN_WORDS];
            for &(frame, pair) in high {
                for (lane, &bits) in pair.0.iter().enumerate() {
                    for bit in set_bits(bits) {
                        self.set_high(lane % SPAN_WORDS * 64 + bit, lane / SPAN_WORDS, frame);
                    }
                }
            }
            return;
        }
        self.has_high = [u64::MAX; SPAN_WORDS];
        let mut high = high.iter().peekable();
        for word in 0..self.words {
            let mut rows = [&NOTHING; FRAMES];
            while let Some(&(frame, pair)) = high.next_if(|(frame, _)| frame / FRAMES == word) {
                rows[frame % FRAMES] = pair;
            }
            turn(&rows, &mut self.turned, word);
        }
        sort(&self.turned, &mut self.high);
    }

    fn set_high(&mut self, pixel: usize, plane: usize, frame: usize) {
        let has_high = &mut self.has_high[pixel / 64];
        if *has_high >> (pixel % 64) & 1 == 0 {
            *has_high |= 1 << (pixel % 64);
            self.high[pixel] = [[0; WORDS]; 2];
        }
        self.high[pixel][plane][frame / FRAMES] |= 1 << (frame % FRAMES);
    }

    /// Lists the counts that are not 0 of the pixels from `first` on, a multiple of 16, of the span.
    pub(crate) fn list_group(&mut self, first: usize) {
        assert!(first.is_multiple_of(GROUP_PIXELS) && first + GROUP_PIXELS <= SPAN_PIXELS);
        for (index, pixel) in (first..first + GROUP_PIXELS).enumerate() {
            let has_high = self.has_high[pixel / 64] >> (pixel % 64) & 1 == 1;
            let high = has_high.then(|| &self.high[pixel]);
            self.lens[index] = list(&self.low[pixel], high, self.words, &mut self.lists[index]);
        }
    }

    /// The counts of a pixel of the group listed last, positions ascending.
    pub(crate) fn listed(&self, pixel: usize) -> &[u16] {
        &self.lists[pixel][..self.lens[pixel]]
    }
}

/// Lists what stands in the first `words` words of a pixel's planes; returns how many counts.
fn list(low: &PixelPair, high: Option<&PixelPair>, words: usize, out: &mut [u16; ROOM]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vbmi2") && is_x86_feature_detected!("avx512bw") {
        // SAFETY: the processor has AVX-512 F, BW and VBMI2 (the last two imply the first), just asked.
        return unsafe { list_avx512(low, high, words, out) };
    }
    list_bits(low, high, words, out)
}

#[inline(always)]
fn list_bits(low: &PixelPair, high: Option<&PixelPair>, words: usize, out: &mut [u16; ROOM]) -> usize {
    let mut found = 0;
    for word in 0..words.min(WORDS) {
        let [plane_2, plane_3] = high.map_or([0; 2], |high| [high[0][word], high[1][word]]);
        let planes = [low[0][word], low[1][word], plane_2, plane_3];
        for bit in set_bits(planes.iter().fold(0, |any, plane| any | plane)) {
            out[found] = u16::new(word * FRAMES + bit, value_at(planes, bit).into());
            found += 1;
        }
    }
    found
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt,bmi1,lzcnt")]
fn list_avx512(low: &PixelPair, high: Option<&PixelPair>, words: usize, out: &mut [u16; ROOM]) -> usize {
    use std::arch::x86_64::*;
    const PLACES: [u8; 64] = {
        let mut places = [0; 64];
        let mut place = 0;
        while place < 64 {
            places[place] = place as u8;
            place += 1;
        }
        places
    };
    let words = words.min(WORDS);
    // words that are not in use are 0
    let num = (0..WORDS).map(|word| (low[0][word] | low[1][word]).count_ones()).sum::<u32>();
    if num == 0 && high.is_none() {
        return 0;
    }
    if num < MANY {
        return list_bits(low, high, words, out);
    }
    // SAFETY: `PLACES` is 64 bytes.
    let places = unsafe { _mm512_loadu_si512(PLACES.as_ptr().cast()) };
    let [one, two, four, eight] = [1, 2, 4, 8].map(|value| _mm512_set1_epi8(value));
    let mut found = 0;
    for word in 0..words {
        let (p0, p1) = (low[0][word], low[1][word]);
        let mut any = p0 | p1;
        let mut value = _mm512_or_si512(_mm512_maskz_mov_epi8(p0, one), _mm512_maskz_mov_epi8(p1, two));
        if let Some(high) = high {
            let (p2, p3) = (high[0][word], high[1][word]);
            any |= p2 | p3;
            let high = _mm512_or_si512(_mm512_maskz_mov_epi8(p2, four), _mm512_maskz_mov_epi8(p3, eight));
            value = _mm512_or_si512(value, high);
        }
        let value = _mm512_maskz_compress_epi8(any, value);
        let place = _mm512_maskz_compress_epi8(any, places);
        let first = _mm512_set1_epi16((word * FRAMES) as i16);
        let event = |place: __m256i, value: __m256i| {
            let place = _mm512_add_epi16(_mm512_cvtepu8_epi16(place), first);
            _mm512_or_si512(place, _mm512_slli_epi16::<10>(_mm512_cvtepu8_epi16(value)))
        };
        // SAFETY: at most 64 were found in each word before and there are at most 16 words, so that found <= 960, and 64
        // events from there on are inside the room for 1,088.
        unsafe {
            let events = event(_mm512_castsi512_si256(place), _mm512_castsi512_si256(value));
            _mm512_storeu_si512(out.as_mut_ptr().add(found).cast(), events);
            if any.count_ones() > 32 {
                let place = _mm512_extracti64x4_epi64::<1>(place);
                let events = event(place, _mm512_extracti64x4_epi64::<1>(value));
                _mm512_storeu_si512(out.as_mut_ptr().add(found + 32).cast(), events);
            }
        }
        found += any.count_ones() as usize;
    }
    found
}

/// Turns the squares of 64 rows, one a lane, and puts them into `turned` as its `word`.
fn turn(rows: &[&PlanePair; FRAMES], turned: &mut [Row], word: usize) {
    assert!(turned.len() == FRAMES * TURNED_STRIDE && word < WORDS);
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

    /// Frames of one span whose counts are mostly 0 in `quiet` of eight pixels.
    fn frames(num_frames: usize, quiet: u64, seed: u64) -> (Vec<FramePlanes>, Vec<[u8; SPAN_PIXELS]>) {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let mut planes = Vec::new();
        let mut counts = Vec::new();
        for _ in 0..num_frames {
            let frame: [u8; SPAN_PIXELS] = std::array::from_fn(|pixel| {
                let rare = (pixel as u64 % 8) < quiet && next() % 50 != 0;
                let large = next() % 900 == 0;
                if rare { 0 } else { (next() % if large { 16 } else { 4 }) as u8 }
            });
            let pair = |plane: u8| {
                PlanePair(std::array::from_fn(|word| {
                    let (plane, first) = (plane + (word / SPAN_WORDS) as u8, word % SPAN_WORDS * 64);
                    (0..64).fold(0, |bits, bit| bits | u64::from(frame[first + bit] >> plane & 1) << bit)
                }))
            };
            let mut kept = FramePlanes::default();
            kept.start(1);
            kept.low_mut(0).copy_from_slice(&[pair(0)]);
            let high = pair(2).0;
            if high != [0; LANES] {
                kept.set_high(
                    0,
                    high[..SPAN_WORDS].try_into().unwrap(),
                    high[SPAN_WORDS..].try_into().unwrap(),
                );
            }
            planes.push(kept);
            counts.push(frame);
        }
        (planes, counts)
    }

    #[test]
    fn pixels_list_the_counts_that_frames_hold() {
        let mut lists = PixelLists::new();
        // later ones smaller: what was there before must not show
        for (num_frames, quiet) in
            [(1024, 3), (1024, 8), (1000, 7), (512, 2), (65, 0), (64, 5), (63, 0), (1, 0)]
        {
            let (planes, counts) = frames(num_frames, quiet, num_frames as u64);
            lists.load(&IntervalPlanes::new(planes.iter(), 1), 0);
            for first in (0..SPAN_PIXELS).step_by(GROUP_PIXELS) {
                lists.list_group(first);
                for pixel in 0..GROUP_PIXELS {
                    let expected: Vec<(usize, u32)> = counts
                        .iter()
                        .enumerate()
                        .map(|(position, frame)| (position, u32::from(frame[first + pixel])))
                        .filter(|&(_, count)| count > 0)
                        .collect();
                    let listed: Vec<(usize, u32)> =
                        lists.listed(pixel).iter().map(|event| (event.position(), event.count())).collect();
                    assert_eq!(listed, expected, "{num_frames} frames, pixel {}", first + pixel);
                }
            }
        }
    }

    #[test]
    fn every_width_turns_and_lists_alike() {
        let (planes, _) = frames(64, 4, 9);
        let rows: [&PlanePair; FRAMES] = std::array::from_fn(|row| &planes[row].low()[0]);
        let mut expected = vec![[0; LANES]; FRAMES * TURNED_STRIDE];
        turn_rows(&rows, &mut expected, 3);
        for (lane, frame, bit) in [(0, 0, 0), (5, 17, 40), (7, 63, 63), (2, 8, 1)] {
            let turned = expected[bit * TURNED_STRIDE + 3][lane] >> frame & 1;
            assert_eq!(turned, rows[frame].0[lane] >> bit & 1);
        }
        let mut turned = vec![[0; LANES]; expected.len()];
        turn(&rows, &mut turned, 3);
        assert!(turned == expected);
        let mut state = 3_u64;
        let mut pair = |ands: u32| -> PixelPair {
            std::array::from_fn(|_| {
                std::array::from_fn(|_| {
                    (0..ands).fold(u64::MAX, |bits, _| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        bits & state.rotate_right(state as u32 % 64)
                    })
                })
            })
        };
        for (low, high) in [(1, 2), (2, 5), (4, 9), (9, 9), (30, 9), (30, 30)] {
            let (low, high) = (pair(low), pair(high));
            for high in [None, Some(&high)] {
                let (mut wide, mut plain) = ([7; ROOM], [9; ROOM]);
                let found = list(&low, high, WORDS, &mut wide);
                assert_eq!(found, list_bits(&low, high, WORDS, &mut plain));
                assert_eq!(wide[..found], plain[..found]);
            }
        }
    }
}
