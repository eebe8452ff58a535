//! Decodes one LZ4 block, built for what a transposed sparse frame compresses to: runs of one byte, hundreds long, and rows of
//! planes that repeat the row above.
//!
//! The fast loop takes one sequence a turn with whole-vector copies that may write past the end of the sequence; one comparison
//! a sequence keeps them inside the buffer. Whatever is out of the ordinary (the last sequence, the end of the frame, every
//! error) is left to a careful step in safe code, so that the answer never depends on the path.

mod careful;
mod repeat;

use std::ops::Range;

use super::{BlockError, Isa};
use careful::Step;
#[cfg(target_arch = "x86_64")]
use repeat::{Avx2, Avx512};
use repeat::{Portable, Repeat};

/// Bytes after the decoded length that a buffer needs for the fast loop to reach its end.
pub(super) const SLACK_BYTES: usize = 128;

/// Literals are copied in this many bytes.
const LITERAL_BYTES: usize = 32;

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
/// `block` is inside `bytes`, `len <= dst.len()`, and the processor has the instructions of `R`.
#[inline(always)]
unsafe fn decode_with<R: Repeat>(
    bytes: &[u8],
    block: Range<usize>,
    dst: &mut [u8],
    len: usize,
) -> Result<(), BlockError> {
    let mut step = Step { read: block.start, written: 0 };
    loop {
        // SAFETY: the same contract; `read` is inside the block and `written <= len`, as `Step` keeps them.
        step = unsafe { fast::<R>(bytes, block.end, dst, len, step) };
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

/// Takes sequences as long as they are ordinary; returns where the first other one begins.
///
/// # Safety
/// `step.read <= end <= bytes.len()`, `step.written <= len <= dst.len()`, and the processor has the instructions of `R`.
#[inline(always)]
unsafe fn fast<R: Repeat>(bytes: &[u8], end: usize, dst: &mut [u8], len: usize, step: Step) -> Step {
    let Step { mut read, mut written } = step;
    // Token, extra length byte and one literal copy are readable from every `read` below this.
    let Some(read_limit) = bytes.len().checked_sub(2 + LITERAL_BYTES) else { return step };
    let Some(write_limit) = dst.len().checked_sub(SLACK_BYTES) else { return step };
    let write_limit = write_limit.min(len);
    if written > write_limit {
        return step;
    }
    let src = bytes.as_ptr();
    let dst = dst.as_mut_ptr();
    // SAFETY: inside the loop
    //  - `read <= read_limit`, so the token, the byte after it and LITERAL_BYTES from either are inside `bytes`;
    //  - `written <= write_limit`, so LITERAL_BYTES from there are inside `dst` (SLACK_BYTES are more than that);
    //  - longer literals are copied only after `literals_end + LITERAL_BYTES <= bytes.len()` (by `read_limit`) and
    //    `match_end <= write_limit`: a copy ends less than LITERAL_BYTES after its last byte;
    //  - `offset - 1 < match_start` means the match begins inside what is written, and `repeat` writes less than 64 bytes
    //    past `match_end`, reads less than 64 past `match_start`, all below `write_limit + SLACK_BYTES <= dst.len()`;
    //  - bytes of lengths are read below `end <= bytes.len()` only.
    unsafe {
        while read <= read_limit {
            let token = usize::from(*src.add(read));
            let long_literals = usize::from(token >= 0xf0);
            let extra = usize::from(*src.add(read + 1)) & long_literals.wrapping_neg();
            let literals = (token >> 4) + extra;
            let literals_start = read + 1 + long_literals;
            copy_literals(src.add(literals_start), dst.add(written));
            let literals_end = literals_start + literals;
            // The offset and at least one byte more must follow; 255 says that more length bytes do.
            if literals_end + 3 > end || literals_end > read_limit || extra == 255 {
                break;
            }
            let offset = usize::from(u16::from_le_bytes(*src.add(literals_end).cast::<[u8; 2]>()));
            let long_match = usize::from(token & 15 == 15);
            let extra = usize::from(*src.add(literals_end + 2)) & long_match.wrapping_neg();
            let mut next = literals_end + 2 + long_match;
            let mut match_bytes = (token & 15) + 4 + extra;
            if extra == 255 {
                loop {
                    if next >= end || match_bytes > len {
                        return Step { read, written };
                    }
                    let more = usize::from(*src.add(next));
                    next += 1;
                    match_bytes += more;
                    if more != 255 {
                        break;
                    }
                }
            }
            let match_start = written + literals;
            let match_end = match_start + match_bytes;
            if offset.wrapping_sub(1) >= match_start || match_end > write_limit {
                break;
            }
            let mut copied = LITERAL_BYTES;
            while copied < literals {
                copy_literals(src.add(literals_start + copied), dst.add(written + copied));
                copied += LITERAL_BYTES;
            }
            R::repeat(dst.add(match_start), offset, match_bytes);
            read = next;
            written = match_end;
        }
    }
    Step { read, written }
}

/// # Safety
/// [`LITERAL_BYTES`] are readable at `from` and writable at `to`, and do not overlap.
#[inline(always)]
unsafe fn copy_literals(from: *const u8, to: *mut u8) {
    // SAFETY: the contract.
    unsafe {
        to.cast::<[u8; LITERAL_BYTES]>().write_unaligned(from.cast::<[u8; LITERAL_BYTES]>().read_unaligned())
    }
}
