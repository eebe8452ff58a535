//! Writes the match of a sequence: bytes that repeat what lies `offset` back.

#[cfg(target_arch = "x86_64")]
pub(super) mod x86;

use super::copy;

/// The longest match that its token alone tells.
pub(super) const SHORT_MATCH_BYTES: usize = 18;

/// Whole-vector copies, one implementation for each set of instructions.
pub(super) trait Copies {
    /// Writes a match of 4 to [`SHORT_MATCH_BYTES`] bytes.
    ///
    /// # Safety
    /// The processor has the instructions; `offset >= 1`; from `offset` before `to` to `SLACK_BYTES` after the match is one buffer.
    unsafe fn short_match(to: *mut u8, offset: usize, len: usize);

    /// Writes a match of any length.
    ///
    /// # Safety
    /// As [`Copies::short_match`].
    unsafe fn long_match(to: *mut u8, offset: usize, len: usize);
}

/// Writes a match of `len` bytes, `N` at a time from `offset >= N` back.
///
/// # Safety
/// From `offset` before `to` to `N` after the match is one buffer.
#[inline(always)]
unsafe fn copy_match<const N: usize>(to: *mut u8, offset: usize, len: usize) {
    let mut place = 0;
    // SAFETY: the contract; the last copy begins before `len`.
    unsafe {
        loop {
            copy::<N>(to.add(place).sub(offset), to.add(place));
            place += N;
            if place >= len {
                break;
            }
        }
    }
}

/// Plain copies of fixed size; the compiler makes them vectors where there are any.
pub(super) struct Portable;

impl Copies for Portable {
    #[inline(always)]
    unsafe fn short_match(to: *mut u8, offset: usize, len: usize) {
        // SAFETY: the same contract.
        unsafe { Self::long_match(to, offset, len) }
    }

    #[inline(always)]
    unsafe fn long_match(to: *mut u8, offset: usize, len: usize) {
        // SAFETY: the contract; nothing is written more than 64 bytes after the match.
        unsafe {
            if offset >= 16 {
                return copy_match::<16>(to, offset, len);
            }
            // The bytes before `to` as a number, repeated up to eight; then eight at a time, a multiple of `offset` further each.
            let mut pattern = 0u64;
            for place in 0..offset.min(8) {
                pattern |= u64::from(*to.sub(offset).add(place)) << (8 * place);
            }
            if offset >= 8 {
                to.cast::<[u8; 8]>().write_unaligned(pattern.to_le_bytes());
                if len > 8 {
                    copy_match::<8>(to.add(8), offset, len - 8);
                }
                return;
            }
            let mut known = offset;
            while known < 8 {
                pattern |= pattern << (8 * known);
                known *= 2;
            }
            let stride = 8 - 8 % offset;
            let mut place = 0;
            while place < len {
                to.add(place).cast::<[u8; 8]>().write_unaligned(pattern.to_le_bytes());
                place += stride;
            }
        }
    }
}
