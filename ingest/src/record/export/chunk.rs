//! A frame of the stream as a chunk of a dataset. But for one packing the bytes are the same.

use std::borrow::Cow;

use kernels::bslz4_decode::{Encoding, decode_frame};
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::CountType;

use crate::stream::message::Packed;

/// How frames are compressed in a set. HDF5 has no filter for a bare LZ4 block (stream v1 `lz4<`): it becomes the only
/// block of the framed kind.
pub(super) fn stored(encoding: Encoding) -> Encoding {
    match encoding {
        Encoding::Lz4Block => Encoding::Lz4Framed,
        same => same,
    }
}

/// The chunk of a frame: its own bytes; before a bare LZ4 block the head that says how long it is. None where such a block
/// cannot be read and would be taken for another.
pub(super) fn of(packed: Packed<'_>, count_type: CountType, frame_bytes: usize) -> Option<Cow<'_, [u8]>> {
    if packed.encoding != Encoding::Lz4Block {
        return Some(Cow::Borrowed(packed.bytes));
    }
    if packed.bytes.len() != frame_bytes {
        return Some(Cow::Owned(one_block(packed.bytes, frame_bytes)));
    }
    // A block that is as long as what it holds is taken for one that was not compressed: so it must be.
    let counts = match count_type {
        CountType::U8 => decoded::<u8>(packed, frame_bytes)?,
        CountType::U16 => decoded::<u16>(packed, frame_bytes)?,
        CountType::U32 => decoded::<u32>(packed, frame_bytes)?,
    };
    Some(Cow::Owned(one_block(&counts, frame_bytes)))
}

fn decoded<T: kernels::types::Count>(packed: Packed<'_>, frame_bytes: usize) -> Option<Vec<u8>> {
    let mut counts = vec![T::default(); frame_bytes / size_of::<T>()];
    decode_frame(packed.encoding, packed.bytes, &mut counts).ok()?;
    let bytes = |count: &T| Into::<u32>::into(*count).to_le_bytes().into_iter().take(size_of::<T>());
    Some(counts.iter().flat_map(bytes).collect())
}

/// Framed LZ4 of a single block: u64 bytes of the frame, u32 of a block, u32 of this one, big endian.
fn one_block(block: &[u8], frame_bytes: usize) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(block.len() + 16);
    chunk.extend((frame_bytes as u64).to_be_bytes());
    chunk.extend((frame_bytes as u32).to_be_bytes());
    chunk.extend((block.len() as u32).to_be_bytes()); // both below 2^32: the set is refused otherwise
    chunk.extend(block);
    chunk
}

/// A chunk of counts that are all zero.
pub(super) fn of_zeros(encoding: Encoding, count_type: CountType, frame_bytes: usize) -> Vec<u8> {
    let mut chunk = Vec::new();
    match (encoding, count_type) {
        (Encoding::Raw, _) => chunk.resize(frame_bytes, 0),
        (Encoding::Bslz4, CountType::U8) => encode_bslz4(&vec![0_u8; frame_bytes], &mut chunk),
        (Encoding::Bslz4, CountType::U16) => encode_bslz4(&vec![0_u16; frame_bytes / 2], &mut chunk),
        (Encoding::Bslz4, CountType::U32) => encode_bslz4(&vec![0_u32; frame_bytes / 4], &mut chunk),
        (Encoding::Lz4Framed | Encoding::Lz4Block, _) => {
            chunk = one_block(&vec![0; frame_bytes], frame_bytes)
        }
    }
    chunk
}
