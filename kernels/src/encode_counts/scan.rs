//! Finds the counts that are not 0, 256 detector pixels at a time: their place among the 256 and their value.

use crate::count_code::{GROUP_PIXELS, SPAN_GROUPS};
use crate::types::Count;
#[cfg(target_arch = "x86_64")]
use crate::types::CountType;

/// Detector pixels in a span: a place among them fits a byte.
pub(crate) const SPAN_PIXELS: usize = GROUP_PIXELS * SPAN_GROUPS;
const _: () = assert!(SPAN_PIXELS == 256);

/// The counts of one frame that are not 0, in detector order.
#[derive(Debug)]
pub(crate) struct FrameEvents<T> {
    /// Place of each within its span.
    pub(crate) places: Vec<u8>,
    /// Value of each.
    pub(crate) values: Vec<T>,
    /// First event of each span, and the end of the last; nothing where there are no events.
    pub(crate) spans: Vec<u32>,
}

impl<T: Count> FrameEvents<T> {
    /// Holds these counts, pixels ascending, of a frame of so many spans.
    pub(crate) fn set(&mut self, counts: &[(u32, T)], num_spans: usize) {
        self.places.clear();
        self.values.clear();
        self.spans.clear();
        if counts.is_empty() {
            return;
        }
        for &(pixel, value) in counts {
            let span = pixel as usize / SPAN_PIXELS;
            self.spans.resize(self.spans.len().max(span + 1), self.places.len() as u32);
            self.places.push((pixel as usize % SPAN_PIXELS) as u8);
            self.values.push(value);
        }
        self.spans.resize(num_spans + 1, self.places.len() as u32);
    }
}

impl<T> Default for FrameEvents<T> {
    fn default() -> Self {
        Self { places: Vec::new(), values: Vec::new(), spans: Vec::new() }
    }
}

/// Work space of [`scan_frame`], shared by the frames of a thread: room for every pixel and one span more, so that a
/// span can be written at full width wherever it starts.
#[derive(Debug)]
pub(crate) struct Scratch<T> {
    pub(crate) places: Vec<u8>,
    pub(crate) values: Vec<T>,
}

impl<T: Count> Scratch<T> {
    /// Room for frames of so many pixels.
    pub(crate) fn new(pixels: usize) -> Self {
        Self { places: vec![0; pixels + SPAN_PIXELS], values: vec![T::default(); pixels + SPAN_PIXELS] }
    }
}

/// Asks for the memory of an element, so that it is at hand when it is read.
#[inline(always)]
pub(crate) fn ask_for<T>(elements: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, whatever the address; every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(elements.as_ptr().wrapping_add(index).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (elements, index);
}

/// Finds the counts of a frame that are not 0; replaces what `events` holds. Calls `scanned` with the number of pixels
/// passed so far, time and again: what else there is to do with them finds them in the nearest cache.
///
/// # Panics
/// Where `scratch` was made for smaller frames.
pub(crate) fn scan_frame<T: Count>(
    frame: &[T],
    events: &mut FrameEvents<T>,
    scratch: &mut Scratch<T>,
    mut scanned: impl FnMut(usize),
) {
    events.spans.clear();
    events.spans.push(0);
    let (mut found, mut pixels) = (0, 0);
    for span in frame.chunks(SPAN_PIXELS) {
        found = scan_spans(span, found, scratch, &mut events.spans);
        pixels += span.len();
        scanned(pixels);
    }
    events.places.clear();
    events.places.extend_from_slice(&scratch.places[..found]);
    events.values.clear();
    events.values.extend_from_slice(&scratch.values[..found]);
}

/// Finds the counts of part of a frame, from the first pixel of a span on, that are not 0: writes them behind the `found`
/// of the part before, and pushes to `ends` how many there are at the end of each span. Returns how many there are then.
///
/// # Panics
/// Where `scratch` was made for smaller frames.
fn scan_spans<T: Count>(
    counts: &[T],
    mut found: usize,
    scratch: &mut Scratch<T>,
    ends: &mut Vec<u32>,
) -> usize {
    for span in counts.chunks(SPAN_PIXELS) {
        let places = &mut scratch.places[found..found + SPAN_PIXELS];
        let values = &mut scratch.values[found..found + SPAN_PIXELS];
        found += scan_span(span, places, values);
        ends.push(found as u32);
    }
    found
}

/// Finds the counts of a span that are not 0; returns how many. `places` and `values` have room for 256.
#[inline]
fn scan_span<T: Count>(span: &[T], places: &mut [u8], values: &mut [T]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if T::TYPE == CountType::U16 {
        let counts: &[u16] = bytemuck::cast_slice(span);
        let values: &mut [u16] = bytemuck::cast_slice_mut(values);
        if let (Ok(counts), Ok(places), Ok(values)) =
            (counts.try_into(), (&mut *places).try_into(), values.try_into())
        {
            if is_x86_feature_detected!("avx512vbmi2") && is_x86_feature_detected!("avx512bw") {
                // SAFETY: the processor has AVX-512 F, VL, BW and VBMI2 (the last two imply the first), just asked.
                return unsafe { x86::scan_u16_avx512(counts, places, values) };
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2, just asked.
                return unsafe { x86::scan_u16_avx2(counts, places, values) };
            }
        }
    }
    scan_portable(span, places, values)
}

/// Eight counts at a time are passed over when all are 0.
fn scan_portable<T: Count>(span: &[T], places: &mut [u8], values: &mut [T]) -> usize {
    let mut found = 0;
    for (block, counts) in span.chunks(8).enumerate() {
        if counts.iter().fold(0, |all, &count| all | <T as Into<u32>>::into(count)) == 0 {
            continue;
        }
        for (lane, &count) in counts.iter().enumerate() {
            // written in any case, kept when not 0: no branch to mispredict; found <= place < 256
            places[found] = (block * 8 + lane) as u8;
            values[found] = count;
            found += usize::from(count != T::default());
        }
    }
    found
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::SPAN_PIXELS;

    /// Counts by which memory is asked for ahead: a page, where the processor's own reading ahead stops.
    const AHEAD: usize = 2048;

    /// The processor must have AVX-512 F, BW, VL and VBMI2.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
    pub(super) fn scan_u16_avx512(
        counts: &[u16; SPAN_PIXELS],
        places: &mut [u8; SPAN_PIXELS],
        values: &mut [u16; SPAN_PIXELS],
    ) -> usize {
        let mut lanes = [0_u8; 32];
        for (lane, place) in lanes.iter_mut().enumerate() {
            *place = lane as u8;
        }
        // SAFETY: `lanes` is 32 bytes long.
        let lanes = unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
        let mut found = 0;
        for block in 0..SPAN_PIXELS / 32 {
            _mm_prefetch::<_MM_HINT_T0>(counts.as_ptr().wrapping_add(block * 32 + AHEAD).cast());
            // SAFETY: block < 8, so that the 32 counts from 32 block on lie inside the 256.
            let vector = unsafe { _mm512_loadu_si512(counts.as_ptr().add(block * 32).cast()) };
            let mask = _mm512_test_epi16_mask(vector, vector);
            let place = _mm256_add_epi8(lanes, _mm256_set1_epi8((block * 32) as u8 as i8));
            let place = _mm256_maskz_compress_epi8(mask, place);
            let value = _mm512_maskz_compress_epi16(mask, vector);
            // SAFETY: at most 32 were found in each block before, found <= 32 block, so that 32 more places and
            // values from `found` on lie inside the 256.
            unsafe {
                _mm256_storeu_si256(places.as_mut_ptr().add(found).cast(), place);
                _mm512_storeu_si512(values.as_mut_ptr().add(found).cast(), value);
            }
            found += mask.count_ones() as usize;
        }
        found
    }

    /// The processor must have AVX2.
    #[target_feature(enable = "avx2,popcnt,bmi1")]
    pub(super) fn scan_u16_avx2(
        counts: &[u16; SPAN_PIXELS],
        places: &mut [u8; SPAN_PIXELS],
        values: &mut [u16; SPAN_PIXELS],
    ) -> usize {
        let zero = _mm256_setzero_si256();
        let mut found = 0;
        for block in 0..SPAN_PIXELS / 32 {
            // SAFETY: block < 8, so that the 32 counts from 32 block on lie inside the 256.
            let (low, high) = unsafe {
                let first = counts.as_ptr().add(block * 32);
                (_mm256_loadu_si256(first.cast()), _mm256_loadu_si256(first.add(16).cast()))
            };
            let zeros = _mm256_packs_epi16(_mm256_cmpeq_epi16(low, zero), _mm256_cmpeq_epi16(high, zero));
            // packs works on halves of 128 bits: put the four quarters back in order
            let zeros = _mm256_permute4x64_epi64::<0b11_01_10_00>(zeros);
            let mut mask = !(_mm256_movemask_epi8(zeros) as u32);
            while mask != 0 {
                let place = block * 32 + mask.trailing_zeros() as usize;
                places[found & (SPAN_PIXELS - 1)] = place as u8;
                values[found & (SPAN_PIXELS - 1)] = counts[place];
                found += 1;
                mask &= mask - 1;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame<T: Count>(len: usize, one_in: u64) -> Vec<T> {
        let mut state = 7_u64;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let count = if (state >> 33).is_multiple_of(one_in) { (state >> 56) as u32 } else { 0 };
                T::try_from(count).unwrap_or_default()
            })
            .collect()
    }

    fn places_and_values_are_those_of_a_plain_loop<T: Count>() {
        for len in [0, 1, 7, 8, 255, 256, 257, 1000, 36864] {
            for one_in in [1, 3, 25, 10_000] {
                let counts: Vec<T> = frame(len, one_in);
                let mut events = FrameEvents::default();
                scan_frame(&counts, &mut events, &mut Scratch::new(len), |_| ());
                let expected: Vec<(usize, T)> =
                    counts.iter().copied().enumerate().filter(|(_, count)| *count != T::default()).collect();
                let mut got = Vec::new();
                for (span, range) in events.spans.windows(2).enumerate() {
                    for event in range[0] as usize..range[1] as usize {
                        got.push((
                            span * SPAN_PIXELS + usize::from(events.places[event]),
                            events.values[event],
                        ));
                    }
                }
                assert_eq!(got, expected);
            }
        }
    }

    #[test]
    fn places_and_values_are_those_of_a_plain_loop_for_every_type() {
        places_and_values_are_those_of_a_plain_loop::<u8>();
        places_and_values_are_those_of_a_plain_loop::<u16>();
        places_and_values_are_those_of_a_plain_loop::<u32>();
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn avx2_and_portable_code_find_the_same() {
        if !is_x86_feature_detected!("avx2") {
            return;
        }
        for one_in in [1, 2, 20, 500] {
            let counts: Vec<u16> = frame(SPAN_PIXELS, one_in);
            let (mut wide, mut plain) = (Scratch::new(0), Scratch::new(0));
            let span = counts.as_slice().try_into().unwrap();
            // SAFETY: the processor has AVX2, just asked.
            let found = unsafe {
                x86::scan_u16_avx2(
                    span,
                    wide.places.as_mut_slice().try_into().unwrap(),
                    wide.values.as_mut_slice().try_into().unwrap(),
                )
            };
            assert_eq!(found, scan_portable(&counts, &mut plain.places, &mut plain.values));
            assert_eq!(wide.places[..found], plain.places[..found]);
            assert_eq!(wide.values[..found], plain.values[..found]);
        }
    }
}
