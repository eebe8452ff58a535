//! An independent decoder (`lz4_flex` and plain loops) and counts to decode.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::types::Count;

/// Decodes a bslz4 frame with checked slices, `lz4_flex` and one bit at a time; nothing for bytes that are not one.
pub(super) fn decode_bslz4<T: Count>(bytes: &[u8]) -> Option<Vec<T>> {
    let total = usize::try_from(u64::from_be_bytes(*bytes.first_chunk()?)).ok()?;
    let block_bytes = u32::from_be_bytes(*bytes.get(8..)?.first_chunk()?) as usize;
    let mut rest = bytes.get(12..)?;
    let mut values = vec![0u64; total / size_of::<T>()];
    let group = 8 * size_of::<T>();
    let mut start = 0;
    while start < total / group * group {
        let len = block_bytes.min(total / group * group - start);
        let size = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let mut planes = vec![0; len];
        if lz4_flex::block::decompress_into(rest.get(4..4 + size)?, &mut planes).ok()? != len {
            return None;
        }
        rest = &rest[4 + size..];
        let n = len / size_of::<T>();
        for plane in 0..8 * size_of::<T>() {
            for e in 0..n {
                let bit = planes[plane * n / 8 + e / 8] >> (e % 8) & 1;
                values[start / size_of::<T>() + e] |= u64::from(bit) << plane;
            }
        }
        start += len;
    }
    for (value, bytes) in values[start / size_of::<T>()..].iter_mut().zip(rest.chunks(size_of::<T>())) {
        *value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    }
    (rest.len() == total - start).then(|| values.into_iter().map(narrow).collect())
}

fn narrow<T: Count>(value: u64) -> T {
    u32::try_from(value).ok().and_then(|value| T::try_from(value).ok()).unwrap()
}

/// What the counts look like.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Zero,
    Sparse,
    Disk,
    Ramp,
    Noise,
    Saturated,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Zero, Self::Sparse, Self::Disk, Self::Ramp, Self::Noise, Self::Saturated];
}

/// `len` counts of a kind, the same for the same seed.
pub(super) fn counts_of<T: Count>(kind: Kind, len: usize, seed: u64) -> Vec<T> {
    let mut random = Pcg64::seed_from_u64(seed);
    let marker = T::TYPE.marker();
    (0..len)
        .map(|at| match kind {
            Kind::Zero => 0,
            Kind::Sparse => u32::from(random.random_range(0..50) == 0),
            Kind::Disk if (at % 192).abs_diff(96) < 50 => random.random_range(0..12),
            Kind::Disk => 0,
            Kind::Ramp => at as u32 & marker,
            Kind::Noise => random.random::<u32>() & marker,
            Kind::Saturated => marker - u32::from(random.random_range(0..9) == 0),
        })
        .map(|count| narrow(count.into()))
        .collect()
}

/// Counts that no decoder leaves behind by chance.
pub(super) fn dirty<T: Count>(len: usize) -> Vec<T> {
    counts_of(Kind::Noise, len, 0xd1e7)
}
