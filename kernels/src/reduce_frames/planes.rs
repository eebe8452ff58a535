//! Counts that are not 0 straight from bit planes: where all counts of a block are below 16, four planes hold everything.

/// Room behind a block's counts that [`scan_planes`] writes over.
pub(super) const SLACK: usize = 64;

/// Whether this processor runs [`scan_planes`].
pub(super) fn is_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("popcnt")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Where [`scan_planes`] puts what it finds; each has room for the block's counts and [`SLACK`].
pub(super) struct Found<'a> {
    /// The span of each count, 256 pixels.
    pub(super) spans: &'a mut [u16],
    /// Its place in the span.
    pub(super) places: &'a mut [u8],
    /// Its value.
    pub(super) values: &'a mut [u8],
}

/// Finds the counts of a block that are not 0. Pushes to `ends`, for each whole span, how many there are up to its end,
/// `before` counted in. `None` where a count is 16 or more.
///
/// `planes` are the block's bit planes, `8 * count_bytes` of them, each a multiple of 8 bytes; its first pixel is the
/// first of span `first_span`. Returns how many the block has.
///
/// # Panics
/// Where there is no room, lengths are not as said, or the processor cannot ([`is_available`]).
pub(super) fn scan_planes(
    planes: &[u8],
    count_bytes: usize,
    first_span: u16,
    before: usize,
    out: Found<'_>,
    ends: &mut Vec<u32>,
) -> Option<usize> {
    assert!(is_available(), "asked for instructions that this processor does not have");
    let plane_bytes = planes.len() / (8 * count_bytes);
    assert!(plane_bytes * 8 * count_bytes == planes.len() && plane_bytes.is_multiple_of(8));
    let room = out.spans.len().min(out.places.len()).min(out.values.len());
    assert!(8 * plane_bytes + SLACK <= room, "no room for the block");
    let (small, large) = planes.split_at(4 * plane_bytes);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor has the instructions and there is room for every count of the block and a register more, both
    // asserted; `small` is four planes of as many bytes, a multiple of 8.
    unsafe {
        if x86::is_any_set(large) {
            return None;
        }
        Some(x86::scan_four(small, first_span, before, out, ends))
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (small, large, first_span, before, out, ends);
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Found;

    /// The processor must have AVX-512F.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn is_any_set(bytes: &[u8]) -> bool {
        let (words, rest) = bytes.as_chunks::<64>();
        let mut any = _mm512_setzero_si512();
        for word in words {
            // SAFETY: `word` is 64 bytes.
            any = _mm512_or_si512(any, unsafe { _mm512_loadu_si512(word.as_ptr().cast()) });
        }
        _mm512_test_epi64_mask(any, any) != 0 || rest.iter().any(|&byte| byte != 0)
    }

    /// # Safety
    /// The processor has these features; `small` is four planes, each a multiple of 8 bytes; `out` has room for
    /// 2 `small.len()` and 64 counts.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
    pub(super) unsafe fn scan_four(
        small: &[u8],
        first_span: u16,
        before: usize,
        out: Found<'_>,
        ends: &mut Vec<u32>,
    ) -> usize {
        let Found { spans, places, values } = out;
        let plane_bytes = small.len() / 4;
        let mut found = 0;
        let mut lanes = [0_u8; 64];
        for (lane, place) in lanes.iter_mut().enumerate() {
            *place = lane as u8;
        }
        // SAFETY: `lanes` is 64 bytes.
        let lanes = unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) };
        let [one, two, four, eight] = [1, 2, 4, 8].map(|value| _mm512_set1_epi8(value));
        for (word, at) in (0..plane_bytes).step_by(8).enumerate() {
            let plane = |plane: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&small[plane * plane_bytes + at..][..8]);
                u64::from_le_bytes(bytes)
            };
            let [p0, p1, p2, p3] = [plane(0), plane(1), plane(2), plane(3)];
            let any = p0 | p1 | p2 | p3;
            let value = _mm512_or_si512(
                _mm512_or_si512(_mm512_maskz_mov_epi8(p0, one), _mm512_maskz_mov_epi8(p1, two)),
                _mm512_or_si512(_mm512_maskz_mov_epi8(p2, four), _mm512_maskz_mov_epi8(p3, eight)),
            );
            let place = _mm512_add_epi8(lanes, _mm512_set1_epi8((word * 64) as u8 as i8));
            // SAFETY: at most 64 were found in each word before, so that 64 counts from `found` on are inside the room.
            unsafe {
                let span = _mm512_set1_epi16(first_span.wrapping_add((word / 4) as u16) as i16);
                _mm512_storeu_si512(spans.as_mut_ptr().add(found).cast(), span);
                _mm512_storeu_si512(spans.as_mut_ptr().add(found + 32).cast(), span);
                let place = _mm512_maskz_compress_epi8(any, place);
                _mm512_storeu_si512(places.as_mut_ptr().add(found).cast(), place);
                let value = _mm512_maskz_compress_epi8(any, value);
                _mm512_storeu_si512(values.as_mut_ptr().add(found).cast(), value);
            }
            found += any.count_ones() as usize;
            if word % 4 == 3 {
                ends.push((before + found) as u32);
            }
        }
        found
    }
}
