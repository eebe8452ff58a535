//! Writes a match: bytes that repeat what lies `offset` back.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Wide copies of a match, one implementation for each set of instructions.
pub(super) trait Repeat {
    /// Writes at least `len` bytes from `to` on, each equal to the byte `offset` before it; less than 64 bytes more may be written.
    ///
    /// # Safety
    /// `offset >= 1`; `to - offset` to `to + len + 64` is one buffer; the processor has the instructions.
    unsafe fn repeat(to: *mut u8, offset: usize, len: usize);
}

/// For `offset` below `N`: which of the bytes from `to - offset` on comes to place `i` of a vector; any other: place `i`.
#[cfg(target_arch = "x86_64")]
const fn periods<const N: usize, const ROWS: usize>() -> [[u8; N]; ROWS] {
    let mut table = [[0; N]; ROWS];
    let mut offset = 0;
    while offset < ROWS {
        let mut place = 0;
        while place < N {
            table[offset][place] = if offset == 0 { 0 } else { (place % offset) as u8 };
            place += 1;
        }
        offset += 1;
    }
    table
}

/// The largest multiple of `offset` that is at most `n`.
#[cfg(target_arch = "x86_64")]
const fn strides<const ROWS: usize>(n: usize) -> [u8; ROWS] {
    let mut table = [0; ROWS];
    let mut offset = 1;
    while offset < ROWS {
        table[offset] = (n - n % offset) as u8;
        offset += 1;
    }
    table
}

/// Plain copies of fixed size; the compiler makes them vectors where there are any.
pub(super) struct Portable;

impl Repeat for Portable {
    #[inline(always)]
    unsafe fn repeat(to: *mut u8, offset: usize, len: usize) {
        // SAFETY: reads begin `offset` before a place already written and each write ends less than 64 bytes after `len`.
        unsafe {
            if offset == 1 {
                fill(to, *to.sub(1), len);
            } else if offset >= 16 {
                copy::<16>(to, offset, len);
            } else {
                // Eight bytes of the pattern, one by one, then eight at a time at a multiple of `offset` that is at least 8.
                let far = offset * 8usize.div_ceil(offset);
                for place in 0..far.min(16) {
                    *to.add(place) = *to.add(place).sub(offset);
                }
                if len > far {
                    copy::<8>(to.add(far), far, len - far);
                }
            }
        }
    }
}

/// Copies `N` bytes at a time from `offset >= N` back.
///
/// # Safety
/// As [`Repeat::repeat`], with `offset >= N`.
#[inline(always)]
unsafe fn copy<const N: usize>(to: *mut u8, offset: usize, len: usize) {
    let mut place = 0;
    // SAFETY: the contract; the last write begins before `len` and N <= 64.
    unsafe {
        loop {
            let chunk = to.add(place).sub(offset).cast::<[u8; N]>().read_unaligned();
            to.add(place).cast::<[u8; N]>().write_unaligned(chunk);
            place += N;
            if place >= len {
                break;
            }
        }
    }
}

/// Writes `byte` in steps of 64.
///
/// # Safety
/// `to` to `to + len + 64` is one buffer.
#[inline(always)]
unsafe fn fill(to: *mut u8, byte: u8, len: usize) {
    let mut place = 0;
    // SAFETY: the contract; the last write begins before `len`.
    unsafe {
        loop {
            to.add(place).cast::<[u8; 64]>().write_unaligned([byte; 64]);
            place += 64;
            if place >= len {
                break;
            }
        }
    }
}

/// 32-byte copies and 16-byte patterns.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Repeat for Avx2 {
    #[inline(always)]
    unsafe fn repeat(to: *mut u8, offset: usize, len: usize) {
        static PERIODS: [[u8; 16]; 16] = periods();
        static STRIDES: [u8; 16] = strides(16);
        // SAFETY: reads of 16 or 32 bytes begin at `to - offset`, inside the buffer of the contract; each write begins before `len`.
        unsafe {
            if offset == 1 {
                fill(to, *to.sub(1), len);
            } else if offset >= 32 {
                copy::<32>(to, offset, len);
            } else if offset >= 16 {
                copy::<16>(to, offset, len);
            } else {
                let seen = _mm_loadu_si128(to.sub(offset).cast());
                let pattern = _mm_shuffle_epi8(seen, _mm_loadu_si128(PERIODS[offset].as_ptr().cast()));
                let stride = usize::from(STRIDES[offset]);
                let mut place = 0;
                loop {
                    _mm_storeu_si128(to.add(place).cast(), pattern);
                    place += stride;
                    if place >= len {
                        break;
                    }
                }
            }
        }
    }
}

/// One byte permutation for every offset, 32 bytes wide; 64-byte stores where a run is long.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Repeat for Avx512 {
    #[inline(always)]
    unsafe fn repeat(to: *mut u8, offset: usize, len: usize) {
        static PERIODS: [[u8; 32]; 33] = periods();
        static STRIDES: [u8; 33] = strides(32);
        // SAFETY: reads of 32 bytes begin `offset` before a place already written, inside the buffer of the contract; each write
        // begins before `len` and is at most 64 bytes long.
        unsafe {
            let near = offset.min(32);
            let seen = _mm256_loadu_si256(to.sub(offset).cast());
            let pattern =
                _mm256_permutexvar_epi8(_mm256_loadu_si256(PERIODS.as_ptr().add(near).cast()), seen);
            _mm256_storeu_si256(to.cast(), pattern);
            if len <= 32 {
                return;
            }
            if offset == 1 {
                fill(to.add(32), *to, len - 32);
            } else if offset >= 32 {
                copy::<32>(to.add(32), offset, len - 32);
            } else {
                let stride = usize::from(STRIDES[near]);
                let mut place = stride;
                while place < len {
                    _mm256_storeu_si256(to.add(place).cast(), pattern);
                    place += stride;
                }
            }
        }
    }
}
