//! A frame stays the bit planes it came as: counts below 16, larger ones are taken out.

use crate::encode_counts::{FramePlanes, SPAN_PIXELS, SPAN_WORDS, set_bits};
use crate::types::Count;

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
    for_each_span(plane(0), plane(1), |span, one, other| {
        // half by half: a pair that is put together first is written twice
        low[span].0[..SPAN_WORDS].copy_from_slice(&one);
        low[span].0[SPAN_WORDS..].copy_from_slice(&other);
    });
    if is_any_set(&block[2 * plane_bytes..4 * plane_bytes]) {
        for_each_span(plane(2), plane(3), |span, one, other| {
            if (one, other) != ([0; SPAN_WORDS], [0; SPAN_WORDS]) {
                planes.set_high(first_span + span, one, other);
            }
        });
    }
    if is_any_set(&block[4 * plane_bytes..]) {
        take_large(block, first_span, planes, large);
    }
}

/// Takes the counts of 16 or more of a block out of the planes that are kept.
#[inline(always)]
fn take_large<T: Count>(
    block: &[u8],
    first_span: usize,
    planes: &mut FramePlanes,
    large: &mut Vec<(u32, T)>,
) {
    let num_planes = 8 * size_of::<T>();
    let plane_bytes = block.len() / num_planes;
    for first in (0..plane_bytes).step_by(8 * WORDS_AT_ONCE) {
        let num_words = WORDS_AT_ONCE.min((plane_bytes - first) / 8);
        let mut above = [0; WORDS_AT_ONCE];
        for plane in 4..num_planes {
            let bytes = &block[plane * plane_bytes + first..][..8 * num_words];
            for (above, bytes) in above.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *above |= u64::from_le_bytes(*bytes);
            }
        }
        for (word, &above) in above.iter().enumerate().filter(|(_, above)| **above != 0) {
            let at = first + 8 * word;
            for bit in set_bits(above) {
                let value = (0..num_planes).fold(0, |value, plane| {
                    value | ((word_at(block, plane * plane_bytes + at) >> bit & 1) as u32) << plane
                });
                let place = 8 * at + bit;
                planes.take(first_span + place / SPAN_PIXELS, place % SPAN_PIXELS);
                // pixels fit 32 bits; as many planes as the type has bits
                let pixel = (first_span * SPAN_PIXELS + place) as u32;
                large.push((pixel, T::try_from(value).unwrap_or_default()));
            }
        }
    }
}

/// Words that [`take_large`] looks through side by side.
const WORDS_AT_ONCE: usize = 64;

/// The word at a byte of a block.
#[inline(always)]
fn word_at(block: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&block[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Calls `each` with the spans of two planes, counted from 0; the last may be shorter than others, and is filled with zeros.
#[inline(always)]
fn for_each_span(
    one: &[u8],
    other: &[u8],
    mut each: impl FnMut(usize, [u64; SPAN_WORDS], [u64; SPAN_WORDS]),
) {
    let ((one, one_rest), (other, other_rest)) = (one.as_chunks(), other.as_chunks());
    for (span, (one, other)) in one.iter().zip(other).enumerate() {
        each(span, words(one), words(other));
    }
    if !one_rest.is_empty() {
        let fill = |rest: &[u8]| {
            let mut bytes = [0; SPAN_BYTES];
            bytes[..rest.len()].copy_from_slice(rest);
            words(&bytes)
        };
        each(one.len(), fill(one_rest), fill(other_rest));
    }
}

#[inline(always)]
fn words(bytes: &[u8; SPAN_BYTES]) -> [u64; SPAN_WORDS] {
    let bytes = bytes.as_chunks::<8>().0;
    std::array::from_fn(|word| u64::from_le_bytes(bytes[word]))
}

#[inline(always)]
fn is_any_set(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    // a kilobyte at a time, side by side
    words.chunks(128).any(|words| words.iter().fold(0, |any, &word| any | u64::from_ne_bytes(word)) != 0)
        || rest.iter().any(|&byte| byte != 0)
}
