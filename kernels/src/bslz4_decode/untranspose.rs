//! Bit planes of a block back to counts.
//!
//! A block of n counts of b bytes is 8 b planes of n/8 bytes; plane `8 byte + bit` holds that bit of every count, count `e` at
//! bit `e % 8` of byte `e / 8`. Byte 0 of a count is the least significant (bitshuffle, K. Masui).

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use super::Isa;
pub(crate) use portable::transpose_8x8;

/// Writes the counts whose planes are `planes`. Both are as long, a multiple of `8 * count_bytes`; `count_bytes` is 1, 2 or 4.
///
/// # Panics
/// If the lengths are not so.
pub(crate) fn untranspose(isa: Isa, planes: &[u8], out: &mut [u8], count_bytes: usize) {
    assert!(planes.len() == out.len() && planes.len().is_multiple_of(8 * count_bytes));
    match count_bytes {
        1 => untranspose_counts::<1>(isa, planes, out),
        2 => untranspose_counts::<2>(isa, planes, out),
        4 => untranspose_counts::<4>(isa, planes, out),
        other => panic!("got counts of {other} bytes, expected 1, 2 or 4"),
    }
}

fn untranspose_counts<const BYTES: usize>(isa: Isa, planes: &[u8], out: &mut [u8]) {
    match isa {
        // SAFETY: `Isa` is never above what the processor was found to have (container.rs); the caller compared the lengths.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512::untranspose::<BYTES>(planes, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2::untranspose::<BYTES>(planes, out) },
        _ => portable::untranspose::<BYTES>(planes, out, 0),
    }
}
