//! From frames to pixels: the bit planes of an interval's frames, transposed, and the counts of each pixel listed.
//!
//! Sixty-four frames and sixty-four pixels are a square of bits. Turned, a word is one pixel in sixty-four frames: its
//! bits say when the pixel counted. Work grows with the number of words, not with the number of counts.

use super::group::Event;
use super::planes::{FramePlanes, PlanePair, SPAN_WORDS, set_bits, value_at};
use super::scan::{SPAN_PIXELS, ask_for};
use super::squares::{FRAMES, LANES, PixelPair, Squares, WORDS};
use crate::count_code::{GROUP_PIXELS, INTERVAL};

/// Room for a pixel's counts, and for the registers that may be written behind the last.
const ROOM: usize = INTERVAL + FRAMES;
/// Counts of a pixel from which whole words are listed at once.
const MANY: u32 = 24;
/// Frames to each with something in planes 2 and 3 from which these are transposed, not set bit by bit.
const FRAMES_PER_HIGH: usize = 8;

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
    squares: Squares,
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
            squares: Squares::new(),
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
            self.squares.turn(&rows, word);
        }
        self.squares.sort(&mut self.low);
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
            self.squares.turn(&rows, word);
        }
        self.squares.sort(&mut self.high);
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
    let num = (0..words).map(|word| (low[0][word] | low[1][word]).count_ones()).sum::<u32>();
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
    fn every_width_lists_alike() {
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
