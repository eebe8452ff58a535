//! Decodes one LZ4 block, built for what a transposed sparse frame compresses to: runs of one byte, hundreds long, and rows of
//! planes that repeat the row above.
//!
//! The fast loop takes one sequence a turn with whole-vector copies that may write past the end of the sequence; one comparison
//! a sequence keeps them inside the buffer. Whatever is out of the ordinary (literals in great number, the end of the frame, every
//! error) is left to a careful step in safe code, so that the answer never depends on the path.
//!
//! What costs time is branches that cannot be foreseen and loads that wait for stores. So the common sequence, whose token tells both
//! lengths, has no loop and no branch on the offset; see `copies/x86.rs` for the loads.

mod careful;
mod copies;

use std::ops::Range;

use super::{BlockError, Isa};
use careful::Step;
#[cfg(target_arch = "x86_64")]
use copies::x86::{Avx2, Avx512};
use copies::{Copies, Portable, SHORT_MATCH_BYTES};

/// Bytes after the decoded length that a buffer needs for the fast loop to reach its end.
pub(super) const SLACK_BYTES: usize = 128;

/// Literals are copied in pieces of this many bytes.
const COPY_BYTES: usize = 32;

/// Decodes `bytes[block]` into `dst[..len]`, exactly. `dst` beyond `len` may be overwritten; it makes the fast loop possible
/// up to `SLACK_BYTES` before the end of `dst`.
///
/// # Panics
/// If `block` is not inside `bytes` or `len` is more than `dst` has.
pub(super) fn decode(
    isa: Isa,
    bytes: &[u8],
    block: Range<usize>,
    dst: &mut [u8],
    len: usize,
) -> Result<(), BlockError> {
    assert!(block.start <= block.end && block.end <= bytes.len() && len <= dst.len());
    match isa {
        // SAFETY: `Isa` is never above what the processor was found to have (container.rs), and the assertion above is
        // the contract of `decode_with`.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { decode_avx512(bytes, block, dst, len) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { decode_avx2(bytes, block, dst, len) },
        // SAFETY: as above; nothing is asked of the processor.
        _ => unsafe { decode_with::<Portable>(bytes, block, dst, len) },
    }
}

/// # Safety
/// As [`decode_with`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi1,bmi2")]
unsafe fn decode_avx512(
    bytes: &[u8],
    block: Range<usize>,
    dst: &mut [u8],
    len: usize,
) -> Result<(), BlockError> {
    // SAFETY: the same contract.
    unsafe { decode_with::<Avx512>(bytes, block, dst, len) }
}

/// # Safety
/// As [`decode_with`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn decode_avx2(
    bytes: &[u8],
    block: Range<usize>,
    dst: &mut [u8],
    len: usize,
) -> Result<(), BlockError> {
    // SAFETY: the same contract.
    unsafe { decode_with::<Avx2>(bytes, block, dst, len) }
}

/// # Safety
/// `block` is inside `bytes`, `len <= dst.len()`, and the processor has the instructions of `C`.
#[inline(always)]
unsafe fn decode_with<C: Copies>(
    bytes: &[u8],
    block: Range<usize>,
    dst: &mut [u8],
    len: usize,
) -> Result<(), BlockError> {
    let mut step = Step { read: block.start, written: 0 };
    loop {
        // SAFETY: the same contract; `read` is inside the block and `written <= len`, as `Step` keeps them.
        match unsafe { fast::<C>(bytes, block.end, dst, len, step) } {
            None => return Ok(()),
            Some(stopped) => step = stopped,
        }
        let (next, last) = step
            .careful(&bytes[..block.end], &mut dst[..len])
            .map_err(|error| error.counted_from(block.start))?;
        if last {
            return match next.written {
                written if written == len => Ok(()),
                written => Err(BlockError::TooShort { got_bytes: written, expected_bytes: len }),
            };
        }
        step = next;
    }
}

/// Takes sequences as long as they are ordinary; returns where the first other one begins, or nothing if the block is decoded.
///
/// # Safety
/// `step.read <= end <= bytes.len()`, `step.written <= len <= dst.len()`, and the processor has the instructions of `C`.
#[inline(always)]
unsafe fn fast<C: Copies>(bytes: &[u8], end: usize, dst: &mut [u8], len: usize, step: Step) -> Option<Step> {
    let Step { mut read, mut written } = step;
    // A token, a length byte and one copy of literals are readable from here on; so is what follows literals that end here.
    let Some(read_limit) = bytes.len().checked_sub(2 + COPY_BYTES) else { return Some(step) };
    let Some(write_limit) = dst.len().checked_sub(SLACK_BYTES) else { return Some(step) };
    let write_limit = write_limit.min(len);
    if written > write_limit {
        return Some(step);
    }
    // An offset and at least one byte more follow literals that are not the last.
    let literals_limit = end.saturating_sub(3).min(read_limit);
    let src = bytes.as_ptr();
    // SAFETY: inside the loop
    //  - `read <= read_limit`, so the token, the byte after it and COPY_BYTES from either are inside `bytes`;
    //  - `written <= write_limit`, so COPY_BYTES from there are inside `dst`;
    //  - `literals_end <= literals_limit`, so the offset and a length byte are below `end`, and literals copied COPY_BYTES at a time
    //    are read inside `bytes`; further length bytes are read below `end` only;
    //  - literals end at most at `write_limit` before more than the first COPY_BYTES are copied;
    //  - `offset - 1 < match_start` means the match begins inside what is written;
    //  - `match_end <= write_limit`, so there are SLACK_BYTES after it in `dst`, which is what `Copies` asks for.
    unsafe {
        let dst = dst.as_mut_ptr();
        while read <= read_limit {
            let token = usize::from(*src.add(read));
            let mut literals = token >> 4;
            let mut literals_start = read + 1;
            if literals == 15 {
                let extra = usize::from(*src.add(read + 1));
                literals += extra;
                literals_start += 1;
                let literals_end = literals_start + literals;
                if extra == 255 || literals_end > read_limit || written + literals > write_limit {
                    break;
                }
                let mut copied = 0;
                while copied < literals {
                    copy::<COPY_BYTES>(src.add(literals_start + copied), dst.add(written + copied));
                    copied += COPY_BYTES;
                }
            } else {
                copy::<16>(src.add(literals_start), dst.add(written));
            }
            let literals_end = literals_start + literals;
            let match_start = written + literals;
            if literals_end > literals_limit {
                if literals_end == end && match_start == len {
                    return None;
                }
                break;
            }
            let offset = usize::from(u16::from_le_bytes(*src.add(literals_end).cast::<[u8; 2]>()));
            let mut next = literals_end + 2;
            let mut match_bytes = (token & 15) + 4;
            if match_bytes <= SHORT_MATCH_BYTES {
                let match_end = match_start + match_bytes;
                if offset.wrapping_sub(1) >= match_start || match_end > write_limit {
                    break;
                }
                C::short_match(dst.add(match_start), offset, match_bytes);
                read = next;
                written = match_end;
                continue;
            }
            loop {
                if next >= end || match_bytes > len {
                    return Some(Step { read, written });
                }
                let extra = usize::from(*src.add(next));
                next += 1;
                match_bytes += extra;
                if extra != 255 {
                    break;
                }
            }
            let match_end = match_start + match_bytes;
            if offset.wrapping_sub(1) >= match_start || match_end > write_limit {
                break;
            }
            C::long_match(dst.add(match_start), offset, match_bytes);
            read = next;
            written = match_end;
        }
    }
    Some(Step { read, written })
}

/// Copies `N` bytes.
///
/// # Safety
/// `N` bytes are readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn copy<const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: the contract.
    unsafe { to.cast::<[u8; N]>().write_unaligned(from.cast::<[u8; N]>().read_unaligned()) }
}
