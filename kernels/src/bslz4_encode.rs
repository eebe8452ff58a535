//! Encodes counts as the detector writes them: the inverse of [`bslz4_decode`](crate::bslz4_decode), for simulators, recorders and tests.
//!
//! In: the counts of one frame. Out: the bytes of a DECTRIS HDF5 chunk (filter 32008 or 32004) or stream blob. Read
//! [`encode_bslz4`] first. Runs on the processor only; frames are independent, so callers encode them in parallel.

mod transpose;

#[cfg(test)]
mod peers;
#[cfg(test)]
mod tests;

use lz4_flex::block::{compress_into, get_maximum_output_size};

use crate::types::Count;
use transpose::transpose;

/// The block size of every DECTRIS detector known, in bytes.
pub const BLOCK_BYTES: usize = 8192;

/// Appends one frame, bitshuffled and LZ4-compressed in blocks of [`BLOCK_BYTES`], to `out`.
///
/// u64 length and u32 block size, big endian; for each block a u32 size, big endian, and an LZ4 block; then the counts that do not
/// fill a group of eight, as they are.
pub fn encode_bslz4<T: Count>(counts: &[T], out: &mut Vec<u8>) {
    encode_bslz4_in_blocks(counts, BLOCK_BYTES, out);
}

/// [`encode_bslz4`] with another block size.
///
/// # Panics
/// If `block_bytes` is not a positive multiple of eight counts, or more than `u32::MAX`.
pub fn encode_bslz4_in_blocks<T: Count>(counts: &[T], block_bytes: usize, out: &mut Vec<u8>) {
    let group_bytes = 8 * size_of::<T>();
    assert!(
        block_bytes > 0 && block_bytes.is_multiple_of(group_bytes),
        "got a block size of {block_bytes} bytes, expected a positive multiple of {group_bytes}"
    );
    let bytes = little_endian(counts);
    append_header(bytes.len(), block_bytes, out);
    let (whole, leftover) = bytes.split_at(bytes.len() / group_bytes * group_bytes);
    let mut planes = vec![0; block_bytes.min(whole.len())];
    for block in whole.chunks(block_bytes) {
        let planes = &mut planes[..block.len()];
        transpose(block, planes, size_of::<T>());
        append_block(planes, out);
    }
    out.extend_from_slice(leftover);
}

/// Appends one frame, LZ4-compressed in blocks of `block_bytes` without bitshuffle, to `out`; a block that does not shrink is stored raw.
///
/// # Panics
/// If `block_bytes` is 0 or more than `u32::MAX`.
pub fn encode_lz4_framed<T: Count>(counts: &[T], block_bytes: usize, out: &mut Vec<u8>) {
    assert!(block_bytes > 0, "got a block size of 0 bytes, expected at least 1");
    let bytes = little_endian(counts);
    append_header(bytes.len(), block_bytes, out);
    for block in bytes.chunks(block_bytes) {
        let start = out.len();
        append_block(block, out);
        // A reader takes a block whose size is its decoded size for a raw one, so one that does not shrink must be raw.
        if out.len() - start - 4 >= block.len() {
            out.truncate(start);
            out.extend_from_slice(&size_field(block.len()));
            out.extend_from_slice(block);
        }
    }
}

/// The bytes of the counts as every DECTRIS format has them.
fn little_endian<T: Count>(counts: &[T]) -> std::borrow::Cow<'_, [u8]> {
    let bytes: &[u8] = bytemuck::cast_slice(counts);
    if cfg!(target_endian = "little") {
        return bytes.into();
    }
    let mut swapped = bytes.to_vec();
    swapped.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
    swapped.into()
}

fn append_header(total_bytes: usize, block_bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(total_bytes as u64).to_be_bytes());
    out.extend_from_slice(&size_field(block_bytes));
}

/// # Panics
/// If `bytes` is more than `u32::MAX`.
fn size_field(bytes: usize) -> [u8; 4] {
    match u32::try_from(bytes) {
        Ok(size) => size.to_be_bytes(),
        Err(_) => panic!("got a block of {bytes} bytes, expected at most {}", u32::MAX),
    }
}

fn append_block(block: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + 4 + get_maximum_output_size(block.len()), 0);
    let size = match compress_into(block, &mut out[start + 4..]) {
        Ok(size) => size,
        Err(error) => unreachable!("{error}: the output is as long as lz4_flex asks for"),
    };
    out[start..start + 4].copy_from_slice(&size_field(size));
    out.truncate(start + 4 + size);
}
