//! Counts of a block to bit planes; the layout is in `bslz4_decode/untranspose.rs`.

use crate::bslz4_decode::transpose_8x8;

/// Writes the planes of the counts in `bytes`. Both are as long, a multiple of `8 * count_bytes`; `count_bytes` is 1, 2 or 4.
///
/// # Panics
/// If the lengths are not so.
pub(super) fn transpose(bytes: &[u8], planes: &mut [u8], count_bytes: usize) {
    assert!(planes.len() == bytes.len() && bytes.len().is_multiple_of(8 * count_bytes));
    match count_bytes {
        1 => transpose_counts::<1>(bytes, planes),
        2 => transpose_counts::<2>(bytes, planes),
        4 => transpose_counts::<4>(bytes, planes),
        other => panic!("got counts of {other} bytes, expected 1, 2 or 4"),
    }
}

fn transpose_counts<const BYTES: usize>(bytes: &[u8], planes: &mut [u8]) {
    planes.fill(0);
    let plane_bytes = bytes.len() / (8 * BYTES);
    for (at, eight) in bytes.chunks_exact(8 * BYTES).enumerate() {
        for byte in 0..BYTES {
            let column = u64::from_le_bytes(std::array::from_fn(|count| eight[count * BYTES + byte]));
            if column == 0 {
                continue;
            }
            for (bit, bits) in transpose_8x8(column).to_le_bytes().into_iter().enumerate() {
                planes[(8 * byte + bit) * plane_bytes + at] = bits;
            }
        }
    }
}
