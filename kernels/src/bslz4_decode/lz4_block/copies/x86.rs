//! Matches by one byte permutation for every small offset.

use std::arch::x86_64::*;

use super::super::copy;
use super::{Copies, copy_match};

/// For each offset below `ROWS`: which byte from the start of the match's source on comes to each place of a vector. The last row, for any
/// larger offset, leaves every byte where it is.
const fn periods<const N: usize, const ROWS: usize>() -> [[u8; N]; ROWS] {
    let mut table = [[0; N]; ROWS];
    let mut offset = 1;
    while offset < ROWS {
        let mut place = 0;
        while place < N {
            table[offset][place] = (place % offset) as u8;
            place += 1;
        }
        offset += 1;
    }
    table
}

/// The largest multiple of each offset that is at most `n`.
const fn strides<const ROWS: usize>(n: usize) -> [u8; ROWS] {
    let mut table = [0; ROWS];
    let mut offset = 1;
    while offset < ROWS {
        table[offset] = (n - n % offset) as u8;
        offset += 1;
    }
    table
}

static PERIODS_16: [[u8; 32]; 17] = periods();
static STRIDES_16: [u8; 17] = strides(16);
static PERIODS_64: [[u8; 64]; 65] = periods();
static STRIDES_64: [u8; 65] = strides(64);

/// AVX2: vectors of 32 bytes, permutations of 16.
pub(in super::super) struct Avx2;

impl Copies for Avx2 {
    #[inline(always)]
    unsafe fn short_match(to: *mut u8, offset: usize, len: usize) {
        // SAFETY: the contract; reads begin `offset` before a place already written, and 32 bytes are written.
        //
        // A load is fast if one store before it has all its bytes. So this loads 16 bytes and stores 32: the next match, if it reaches
        // back a few bytes into this one, finds them there.
        unsafe {
            let seen = _mm256_broadcastsi128_si256(_mm_loadu_si128(to.sub(offset).cast()));
            let order = _mm256_loadu_si256(PERIODS_16.as_ptr().add(offset.min(16)).cast());
            _mm256_storeu_si256(to.cast(), _mm256_shuffle_epi8(seen, order));
            if len > 16 && offset > 16 {
                copy::<2>(to.add(16).sub(offset), to.add(16));
            }
        }
    }

    #[inline(always)]
    unsafe fn long_match(to: *mut u8, offset: usize, len: usize) {
        // SAFETY: the contract; reads begin `offset` before a place already written, each write begins before `len`.
        unsafe {
            if offset >= 32 {
                return copy_match::<32>(to, offset, len);
            }
            if offset >= 16 {
                return copy_match::<16>(to, offset, len);
            }
            let seen = _mm_loadu_si128(to.sub(offset).cast());
            let pattern = _mm_shuffle_epi8(seen, _mm_loadu_si128(PERIODS_16.as_ptr().add(offset).cast()));
            if 16 % offset == 0 {
                let pattern = _mm256_broadcastsi128_si256(pattern);
                let mut place = 0;
                while place < len {
                    _mm256_storeu_si256(to.add(place).cast(), pattern);
                    _mm256_storeu_si256(to.add(place + 32).cast(), pattern);
                    place += 64;
                }
                return;
            }
            let stride = usize::from(STRIDES_16[offset]);
            let mut place = 0;
            while place < len {
                _mm_storeu_si128(to.add(place).cast(), pattern);
                place += stride;
            }
        }
    }
}

/// AVX-512 with VBMI: permutations of 64 bytes for long matches.
pub(in super::super) struct Avx512;

impl Copies for Avx512 {
    #[inline(always)]
    unsafe fn short_match(to: *mut u8, offset: usize, len: usize) {
        // SAFETY: the same contract; a processor with AVX-512 has AVX2.
        unsafe { Avx2::short_match(to, offset, len) }
    }

    #[inline(always)]
    unsafe fn long_match(to: *mut u8, offset: usize, len: usize) {
        // SAFETY: the contract; reads begin `offset` before a place already written, each write of 64 bytes begins before `len`.
        unsafe {
            // The first 64 bytes, whatever the offset: for most matches that is all.
            let near = offset.min(64);
            let order = _mm512_loadu_si512(PERIODS_64.as_ptr().add(near).cast());
            let pattern = _mm512_permutexvar_epi8(order, _mm512_loadu_si512(to.sub(offset).cast()));
            _mm512_storeu_si512(to.cast(), pattern);
            if len <= 64 {
                return;
            }
            if offset > 64 {
                return copy_match::<64>(to.add(64), offset, len - 64);
            }
            let stride = usize::from(STRIDES_64[near]);
            let mut place = stride;
            while place < len {
                _mm512_storeu_si512(to.add(place).cast(), pattern);
                place += stride;
            }
        }
    }
}
