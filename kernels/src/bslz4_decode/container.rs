//! One frame: its header, its blocks, and what is left over.

use std::cell::RefCell;
use std::ops::ControlFlow;

use super::untranspose::untranspose;
use super::{DecodeError, Encoding, Isa, lz4_block};
use crate::types::Count;

/// u64 decoded length and u32 block size, both big endian.
const HEADER_BYTES: usize = 12;
/// Scratch up to this size is kept by the thread; a larger one lives for one frame only.
const KEPT_SCRATCH_BYTES: usize = 1 << 20;

/// Decodes one frame on the fastest path of this processor.
///
/// `out` are all counts of the frame, `[row][col]`; whatever it held is overwritten. Allocates nothing but, once a thread, a scratch
/// of one block, which is never longer than `out`.
///
/// # Errors
/// A [`DecodeError`] if `bytes` are not exactly one frame of `out.len()` counts; `out` then holds no counts to be used.
pub fn decode_frame<T: Count>(encoding: Encoding, bytes: &[u8], out: &mut [T]) -> Result<(), DecodeError> {
    decode_frame_with(Isa::detect(), encoding, bytes, out)
}

/// [`decode_frame`] on the path `isa`, or on the fastest one if this processor does not have `isa`. For tests and benchmarks.
///
/// # Errors
/// As [`decode_frame`], the same on every path.
pub fn decode_frame_with<T: Count>(
    isa: Isa,
    encoding: Encoding,
    bytes: &[u8],
    out: &mut [T],
) -> Result<(), DecodeError> {
    let isa = isa.min(Isa::detect());
    let out: &mut [u8] = bytemuck::cast_slice_mut(out);
    check_plausible::<T>(encoding, bytes, out.len())?;
    match encoding {
        Encoding::Raw => copy_raw(bytes, out)?,
        Encoding::Bslz4 => decode_bslz4::<T>(isa, bytes, out)?,
        Encoding::Lz4Framed => decode_lz4_framed(isa, bytes, out)?,
        Encoding::Lz4Block => {
            let len = out.len();
            lz4_block::decode(isa, bytes, 0..bytes.len(), out, len)
                .map_err(|error| DecodeError::Block { block: 0, error })?;
        }
    }
    if cfg!(target_endian = "big") {
        out.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
    }
    Ok(())
}

/// Refuses a frame, before memory is asked for, that cannot decode to `out_bytes` whatever its bytes are.
///
/// # Errors
/// [`DecodeError::Implausible`], or what the header says already.
pub(crate) fn check_plausible<T: Count>(
    encoding: Encoding,
    bytes: &[u8],
    out_bytes: usize,
) -> Result<(), DecodeError> {
    match encoding {
        Encoding::Raw if bytes.len() == out_bytes => return Ok(()),
        Encoding::Raw => {
            let got_bytes = bytes.len() as u64;
            return Err(DecodeError::WrongLength { got_bytes, expected_bytes: out_bytes });
        }
        Encoding::Bslz4 => Blocks::new(bytes, out_bytes, 8 * size_of::<T>()).map(|_| ())?,
        Encoding::Lz4Framed => Blocks::new(bytes, out_bytes, 1).map(|_| ())?,
        Encoding::Lz4Block => {}
    }
    // a byte of LZ4 adds at most 255 to a length
    let expected_bytes = out_bytes / 256;
    if bytes.len() < expected_bytes {
        return Err(DecodeError::Implausible { got_bytes: bytes.len(), expected_bytes });
    }
    Ok(())
}

fn copy_raw(bytes: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    if bytes.len() != out.len() {
        return Err(DecodeError::WrongLength { got_bytes: bytes.len() as u64, expected_bytes: out.len() });
    }
    out.copy_from_slice(bytes);
    Ok(())
}

/// Walks the blocks of a frame. Invariant: `at <= bytes.len()`.
struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
    block: usize,
    block_bytes: usize,
}

impl<'a> Blocks<'a> {
    /// Reads and checks the header. `multiple` is what a block size must be a multiple of.
    fn new(bytes: &'a [u8], out_bytes: usize, multiple: usize) -> Result<Self, DecodeError> {
        let short = DecodeError::ShortHeader { got_bytes: bytes.len(), expected_bytes: HEADER_BYTES };
        let (total, rest) = bytes.split_first_chunk::<8>().ok_or(short.clone())?;
        let block_size = rest.first_chunk::<4>().ok_or(short)?;
        let got_bytes = u64::from_be_bytes(*total);
        if usize::try_from(got_bytes) != Ok(out_bytes) {
            return Err(DecodeError::WrongLength { got_bytes, expected_bytes: out_bytes });
        }
        let block_size = u32::from_be_bytes(*block_size);
        match usize::try_from(block_size) {
            Ok(block_bytes) if block_bytes > 0 && block_bytes % multiple == 0 => {
                Ok(Self { bytes, at: HEADER_BYTES, block: 0, block_bytes })
            }
            _ => Err(DecodeError::BlockSize { got_bytes: block_size, expected_multiple: multiple }),
        }
    }

    /// Where the next block's compressed bytes are.
    fn next(&mut self) -> Result<std::ops::Range<usize>, DecodeError> {
        let rest = &self.bytes[self.at..];
        let short = |expected_bytes| DecodeError::ShortBlock {
            block: self.block,
            got_bytes: rest.len(),
            expected_bytes,
        };
        let (size, rest) = rest.split_first_chunk::<4>().ok_or_else(|| short(4))?;
        let size = u32::from_be_bytes(*size) as usize;
        if size > rest.len() {
            return Err(DecodeError::ShortBlock {
                block: self.block,
                got_bytes: rest.len(),
                expected_bytes: size,
            });
        }
        let from = self.at + 4;
        self.at = from + size;
        self.block += 1;
        Ok(from..self.at)
    }

    /// The bytes after the last block, which must be `expected_bytes` many.
    fn leftover(self, expected_bytes: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        if rest.len() != expected_bytes {
            return Err(DecodeError::Leftover { got_bytes: rest.len(), expected_bytes });
        }
        Ok(rest)
    }
}

fn decode_bslz4<T: Count>(isa: Isa, bytes: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let num_counts = out.len() / size_of::<T>();
    let leftover = for_each_block::<T>(isa, bytes, num_counts, |first, planes| {
        let first = first * size_of::<T>();
        untranspose(isa, planes, &mut out[first..first + planes.len()], size_of::<T>());
        ControlFlow::Continue(())
    })?;
    if let Some(leftover) = leftover {
        let first = out.len() - leftover.len();
        out[first..].copy_from_slice(leftover);
    }
    Ok(())
}

/// Calls `each` with the number of the first count and the bit planes of every block of a bitshuffle/LZ4 frame of
/// `num_counts` counts, in order. Returns the bytes of the last counts, fewer than eight, which are stored as they are;
/// nothing where `each` broke off.
///
/// # Errors
/// A [`DecodeError`] if `bytes` are not exactly one frame; `each` may then have seen blocks already.
pub(crate) fn for_each_block<T: Count>(
    isa: Isa,
    bytes: &[u8],
    num_counts: usize,
    mut each: impl FnMut(usize, &[u8]) -> ControlFlow<()>,
) -> Result<Option<&[u8]>, DecodeError> {
    let group_bytes = 8 * size_of::<T>();
    let frame_bytes = num_counts.saturating_mul(size_of::<T>());
    let whole_bytes = frame_bytes / group_bytes * group_bytes;
    let mut blocks = Blocks::new(bytes, frame_bytes, group_bytes)?;
    let block_bytes = blocks.block_bytes.min(whole_bytes);
    let completed = with_scratch(block_bytes, |scratch| {
        let mut done = 0;
        while done < whole_bytes {
            let range = blocks.next()?;
            let len = block_bytes.min(whole_bytes - done);
            lz4_block::decode(isa, bytes, range, scratch, len)
                .map_err(|error| DecodeError::Block { block: blocks.block - 1, error })?;
            if each(done / size_of::<T>(), &scratch[..len]).is_break() {
                return Ok(false);
            }
            done += len;
        }
        Ok(true)
    })?;
    if !completed {
        return Ok(None);
    }
    blocks.leftover(frame_bytes - whole_bytes).map(Some)
}

fn decode_lz4_framed(isa: Isa, bytes: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let mut blocks = Blocks::new(bytes, out.len(), 1)?;
    let mut done = 0;
    while done < out.len() {
        let range = blocks.next()?;
        let rest = &mut out[done..];
        let len = blocks.block_bytes.min(rest.len());
        if range.len() == len {
            rest[..len].copy_from_slice(&bytes[range]);
        } else {
            lz4_block::decode(isa, bytes, range, rest, len)
                .map_err(|error| DecodeError::Block { block: blocks.block - 1, error })?;
        }
        done += len;
    }
    blocks.leftover(0)?;
    Ok(())
}

/// Runs `decode` with a scratch of `block_bytes` and the slack that makes wide copies possible.
fn with_scratch<R>(
    block_bytes: usize,
    decode: impl FnOnce(&mut [u8]) -> Result<R, DecodeError>,
) -> Result<R, DecodeError> {
    thread_local! {
        static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let needed = block_bytes.saturating_add(lz4_block::SLACK_BYTES);
    let grow = |scratch: &mut Vec<u8>| {
        if scratch.len() < needed {
            scratch
                .try_reserve_exact(needed - scratch.len())
                .map_err(|_| DecodeError::OutOfMemory { got_bytes: block_bytes })?;
            scratch.resize(needed, 0);
        }
        Ok(())
    };
    if needed > KEPT_SCRATCH_BYTES {
        let mut scratch = Vec::new();
        grow(&mut scratch)?;
        return decode(&mut scratch);
    }
    SCRATCH.with_borrow_mut(|scratch| {
        grow(scratch)?;
        decode(scratch)
    })
}
