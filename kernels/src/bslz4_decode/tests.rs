//! The decoder against `lz4_flex` and a bit transposer written here in plain loops, on every path this processor has.

mod damage;
mod devices;
mod frames;
mod golden;
mod oracle;

use super::*;
use crate::bslz4_encode::{encode_bslz4_in_blocks, encode_lz4_framed};
use crate::types::Count;
use oracle::{Kind, counts_of};

/// Decodes on every path into dirty counts and demands that all say the same.
fn decode_everywhere<T: Count>(
    encoding: Encoding,
    bytes: &[u8],
    counts: usize,
) -> Result<Vec<T>, DecodeError> {
    let mut results = Isa::available().into_iter().map(|isa| {
        let mut out = oracle::dirty::<T>(counts);
        decode_frame_with(isa, encoding, bytes, &mut out).map(|()| out)
    });
    let first = results.next().unwrap();
    for other in results {
        assert_eq!(other, first, "paths differ");
    }
    first
}

fn round_trip<T: Count>(counts: &[T], block_bytes: usize) {
    let mut chunk = Vec::new();
    encode_bslz4_in_blocks(counts, block_bytes, &mut chunk);
    assert_eq!(oracle::decode_bslz4::<T>(&chunk).as_deref(), Some(counts), "the encoder against the oracle");
    let decoded = decode_everywhere::<T>(Encoding::Bslz4, &chunk, counts.len());
    assert!(
        decoded.as_deref() == Ok(counts),
        "{} counts of {}, blocks of {block_bytes}",
        counts.len(),
        T::TYPE
    );

    let mut chunk = Vec::new();
    encode_lz4_framed(counts, block_bytes, &mut chunk);
    assert!(decode_everywhere::<T>(Encoding::Lz4Framed, &chunk, counts.len()).as_deref() == Ok(counts));
    let block = lz4_flex::block::compress(bytemuck::cast_slice(counts));
    assert!(decode_everywhere::<T>(Encoding::Lz4Block, &block, counts.len()).as_deref() == Ok(counts));
    let raw = bytemuck::cast_slice(counts);
    assert!(decode_everywhere::<T>(Encoding::Raw, raw, counts.len()).as_deref() == Ok(counts));
}

fn sizes_and_blocks<T: Count>() {
    for block_bytes in [64, 128, 8192, 16384] {
        let block = block_bytes / size_of::<T>();
        for kind in Kind::ALL {
            for len in [
                0,
                1,
                3,
                7,
                8,
                9,
                100,
                515,
                block - 1,
                block,
                block + 1,
                block + 8,
                2 * block + 24,
                3 * block - 8,
            ] {
                round_trip(&counts_of::<T>(kind, len, len as u64), block_bytes);
            }
        }
    }
}

#[test]
fn every_size_and_block_size_round_trips_u8() {
    sizes_and_blocks::<u8>();
}

#[test]
fn every_size_and_block_size_round_trips_u16() {
    sizes_and_blocks::<u16>();
}

#[test]
fn every_size_and_block_size_round_trips_u32() {
    sizes_and_blocks::<u32>();
}
