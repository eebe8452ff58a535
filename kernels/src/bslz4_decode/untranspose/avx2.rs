//! The transpose with AVX2: 256 counts a turn.
//!
//! The planes are interleaved byte by byte, so that a quadword holds the bits of eight counts as an 8 x 8 matrix; three exchanges of
//! bits transpose it. The bytes of a count come from up to four such groups and are interleaved last.

use std::arch::x86_64::*;

use super::portable;

/// Bytes of a plane taken in one turn.
const TURN: usize = 32;

/// Counts of one byte, 256 of them: lane l of vector j holds those of the bytes `16 l + 2 j` and `16 l + 2 j + 1` of each plane.
type Column = [__m256i; 8];

/// Writes the counts whose planes are `planes`.
///
/// # Safety
/// The processor has AVX2; `planes` and `out` are as long, a multiple of `8 * BYTES`.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) unsafe fn untranspose<const BYTES: usize>(planes: &[u8], out: &mut [u8]) {
    let plane_bytes = planes.len() / (8 * BYTES);
    let mut live = [0; BYTES];
    for (byte, live) in live.iter_mut().enumerate() {
        *live = live_planes(&planes[byte * 8 * plane_bytes..][..8 * plane_bytes], plane_bytes);
    }
    let whole = plane_bytes / TURN * TURN;
    for from in (0..whole).step_by(TURN) {
        let out = out[from * 8 * BYTES..].as_mut_ptr();
        let mut columns = [[_mm256_setzero_si256(); 8]; BYTES];
        for (byte, column) in columns.iter_mut().enumerate() {
            // SAFETY: group `byte` has eight planes of `plane_bytes`, and `from + TURN <= plane_bytes`.
            let first = unsafe { planes.as_ptr().add(byte * 8 * plane_bytes + from) };
            match live[byte] {
                0 => {}
                // SAFETY: as above.
                1..16 => *column = unsafe { small_column(first, plane_bytes) },
                // SAFETY: as above.
                _ => *column = unsafe { column_of(first, plane_bytes) },
            }
        }
        // SAFETY: 256 counts are 256 * BYTES bytes, and `out` has those of `TURN` bytes of every plane, 8 * BYTES * TURN.
        unsafe {
            match BYTES {
                1 => store_1(&columns[0], out),
                2 => store_2(&columns[0], &columns[1], out),
                _ if live[1..].iter().all(|live| *live == 0) => store_4_low(&columns[0], out),
                _ => store_4(&columns, out),
            }
        }
    }
    if whole < plane_bytes {
        portable::untranspose::<BYTES>(planes, out, whole);
    }
}

/// Bit p is set if plane p of a group of eight holds anything but zeros.
#[target_feature(enable = "avx2")]
fn live_planes(group: &[u8], plane_bytes: usize) -> u8 {
    let mut live = 0;
    for (bit, plane) in group.chunks_exact(plane_bytes).enumerate() {
        let (turns, rest) = plane.as_chunks::<TURN>();
        let mut any = _mm256_setzero_si256();
        for turn in turns {
            // SAFETY: `turn` is 32 bytes.
            any = _mm256_or_si256(any, unsafe { _mm256_loadu_si256(turn.as_ptr().cast()) });
        }
        let rest = rest.iter().fold(0, |any, byte| any | byte);
        live |= u8::from(rest != 0 || _mm256_testz_si256(any, any) == 0) << bit;
    }
    live
}

/// # Safety
/// `TURN` bytes are readable at `bytes`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(bytes: *const u8) -> __m256i {
    // SAFETY: the contract; a vector is `TURN` bytes.
    unsafe { _mm256_loadu_si256(bytes.cast()) }
}

/// `TURN` bytes of eight planes, transposed.
///
/// # Safety
/// `TURN` bytes are readable at `first` and at each of the seven places `plane_bytes` further.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn column_of(first: *const u8, plane_bytes: usize) -> Column {
    // SAFETY: the contract.
    let p: Column = std::array::from_fn(|plane| unsafe { load(first.add(plane * plane_bytes)) });
    let (a, b) = (interleave_4([p[0], p[1], p[2], p[3]]), interleave_4([p[4], p[5], p[6], p[7]]));
    std::array::from_fn(|j| {
        let matrix = match j % 2 {
            0 => _mm256_unpacklo_epi32(a[j / 2], b[j / 2]),
            _ => _mm256_unpackhi_epi32(a[j / 2], b[j / 2]),
        };
        exchange::<28>(exchange::<14>(exchange::<7>(matrix)))
    })
}

/// `TURN` bytes of four planes, the others being zero. Two bytes of a plane share a matrix, which gives two counts in a byte.
///
/// # Safety
/// `TURN` bytes are readable at `first` and at each of the three places `plane_bytes` further.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn small_column(first: *const u8, plane_bytes: usize) -> Column {
    // SAFETY: the contract.
    let p: [__m256i; 4] = std::array::from_fn(|plane| unsafe { load(first.add(plane * plane_bytes)) });
    let rows = interleave_4(p);
    let nibble = _mm256_set1_epi8(15);
    // Counts of byte 16 l + 4 j + 2 q in the low and of the next byte in the high half of each byte of quadword q.
    let pairs = rows.map(|row| exchange::<28>(exchange::<14>(exchange::<7>(row))));
    std::array::from_fn(|j| {
        let low = _mm256_and_si256(pairs[j / 2], nibble);
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(pairs[j / 2]), nibble);
        match j % 2 {
            0 => _mm256_unpacklo_epi64(low, high),
            _ => _mm256_unpackhi_epi64(low, high),
        }
    })
}

/// Four planes byte by byte: doubleword q of lane l of vector j is byte `16 l + 4 j + q` of each.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave_4(p: [__m256i; 4]) -> [__m256i; 4] {
    let (a, b) = (_mm256_unpacklo_epi8(p[0], p[1]), _mm256_unpacklo_epi8(p[2], p[3]));
    let (c, d) = (_mm256_unpackhi_epi8(p[0], p[1]), _mm256_unpackhi_epi8(p[2], p[3]));
    [
        _mm256_unpacklo_epi16(a, b),
        _mm256_unpackhi_epi16(a, b),
        _mm256_unpacklo_epi16(c, d),
        _mm256_unpackhi_epi16(c, d),
    ]
}

/// One step of the transpose of 8 x 8 bits: exchanges the bits that are `SHIFT` = 7, 14 or 28 apart (`portable::transpose_8x8`).
#[inline]
#[target_feature(enable = "avx2")]
fn exchange<const SHIFT: i32>(bits: __m256i) -> __m256i {
    let mask = match SHIFT {
        7 => 0x00aa_00aa_00aa_00aa,
        14 => 0x0000_cccc_0000_cccc,
        _ => 0x0000_0000_f0f0_f0f0,
    };
    let swap = _mm256_xor_si256(bits, _mm256_srli_epi64::<SHIFT>(bits));
    let swap = _mm256_and_si256(swap, _mm256_set1_epi64x(mask));
    _mm256_xor_si256(bits, _mm256_xor_si256(swap, _mm256_slli_epi64::<SHIFT>(swap)))
}

/// Lane `LANE` of `a`, then of `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes<const HIGH: bool>(a: __m256i, b: __m256i) -> __m256i {
    if HIGH { _mm256_permute2x128_si256::<0x31>(a, b) } else { _mm256_permute2x128_si256::<0x20>(a, b) }
}

/// Writes two vectors: the low lanes of `a` and `b` at `at`, their high lanes half of `BYTES * 256` later.
///
/// # Safety
/// Both places are inside the counts of a turn, from `out` on.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_lanes<const BYTES: usize>(a: __m256i, b: __m256i, out: *mut u8, at: usize) {
    // SAFETY: the contract.
    unsafe {
        _mm256_storeu_si256(out.add(at).cast(), lanes::<false>(a, b));
        _mm256_storeu_si256(out.add(at + 128 * BYTES).cast(), lanes::<true>(a, b));
    }
}

/// # Safety
/// 256 bytes are writable at `out`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_1(column: &Column, out: *mut u8) {
    for j in 0..4 {
        // SAFETY: 32 j + 128 + 32 <= 256.
        unsafe { store_lanes::<1>(column[2 * j], column[2 * j + 1], out, 32 * j) }
    }
}

/// # Safety
/// 512 bytes are writable at `out`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_2(low: &Column, high: &Column, out: *mut u8) {
    for j in 0..8 {
        let (a, b) = (_mm256_unpacklo_epi8(low[j], high[j]), _mm256_unpackhi_epi8(low[j], high[j]));
        // SAFETY: 32 j + 256 + 32 <= 512.
        unsafe { store_lanes::<2>(a, b, out, 32 * j) }
    }
}

/// Counts that are below 256.
///
/// # Safety
/// 1024 bytes are writable at `out`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_4_low(column: &Column, out: *mut u8) {
    let zero = _mm256_setzero_si256();
    for (j, column) in column.iter().enumerate() {
        let words = [_mm256_unpacklo_epi8(*column, zero), _mm256_unpackhi_epi8(*column, zero)];
        for (half, words) in words.into_iter().enumerate() {
            let (a, b) = (_mm256_unpacklo_epi16(words, zero), _mm256_unpackhi_epi16(words, zero));
            // SAFETY: 64 j + 32 + 512 + 32 <= 1024.
            unsafe { store_lanes::<4>(a, b, out, 64 * j + 32 * half) }
        }
    }
}

/// # Safety
/// 256 * BYTES bytes are writable at `out`, and BYTES is 4.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_4<const BYTES: usize>(columns: &[Column; BYTES], out: *mut u8) {
    let [low, second, third, high] = std::array::from_fn(|byte| &columns[byte.min(BYTES - 1)]);
    for j in 0..8 {
        let lower = [_mm256_unpacklo_epi8(low[j], second[j]), _mm256_unpackhi_epi8(low[j], second[j])];
        let upper = [_mm256_unpacklo_epi8(third[j], high[j]), _mm256_unpackhi_epi8(third[j], high[j])];
        for half in 0..2 {
            let a = _mm256_unpacklo_epi16(lower[half], upper[half]);
            let b = _mm256_unpackhi_epi16(lower[half], upper[half]);
            // SAFETY: 64 j + 32 + 512 + 32 <= 1024.
            unsafe { store_lanes::<4>(a, b, out, 64 * j + 32 * half) }
        }
    }
}
