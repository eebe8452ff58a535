//! The transpose with AVX-512 and GFNI: 512 counts a turn.
//!
//! `gf2p8affineqb` multiplies each byte x of a quadword with the 8 x 8 bit matrix A in the same quadword of another register. With
//! x = 1 << e and the rows of A = the bytes of eight planes, the product is count e; with x = 0 it is 0. So once the planes are
//! interleaved byte by byte, one product puts the bits of eight planes and the zeros between them in place at once.

use std::arch::x86_64::*;

/// Bytes of a plane taken in one turn.
const TURN: usize = 64;

/// Writes the counts whose planes are `planes`.
///
/// # Safety
/// The processor has these features; `planes` and `out` are as long, a multiple of `8 * BYTES`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni,bmi1,bmi2")]
pub(super) unsafe fn untranspose<const BYTES: usize>(planes: &[u8], out: &mut [u8]) {
    let plane_bytes = planes.len() / (8 * BYTES);
    let mut live = [0; BYTES];
    for (byte, live) in live.iter_mut().enumerate() {
        let group = &planes[byte * 8 * plane_bytes..][..8 * plane_bytes];
        *live = live_planes(group, plane_bytes);
    }
    // Counts below 16 have their own, shorter way; most detectors see nothing else.
    let small = live[0] < 16 && live[1..].iter().all(|live| *live == 0);
    for from in (0..plane_bytes).step_by(TURN) {
        let turn = Turn { planes: planes.as_ptr(), plane_bytes, from };
        let out = &mut out[from * 8 * BYTES..];
        // SAFETY: `from < plane_bytes`, `out` are the bytes of the counts from `8 * from` on, and `planes` has 8 * BYTES planes of
        // `plane_bytes`.
        unsafe {
            match (small, plane_bytes - from >= TURN) {
                (true, true) => turn.small::<BYTES, true>(out),
                (true, false) => turn.small::<BYTES, false>(out),
                (false, true) => turn.any::<BYTES, true>(&live, out),
                (false, false) => turn.any::<BYTES, false>(&live, out),
            }
        }
    }
}

/// Bit p is set if plane p of a group of eight holds anything but zeros.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn live_planes(group: &[u8], plane_bytes: usize) -> u8 {
    let mut live = 0;
    for (bit, plane) in group.chunks_exact(plane_bytes).enumerate() {
        let (turns, rest) = plane.as_chunks::<TURN>();
        let mut any = _mm512_setzero_si512();
        for turn in turns {
            // SAFETY: `turn` is 64 bytes.
            any = _mm512_or_si512(any, unsafe { _mm512_loadu_si512(turn.as_ptr().cast()) });
        }
        // SAFETY: the mask lets exactly the bytes of `rest` through.
        any =
            _mm512_or_si512(any, unsafe { _mm512_maskz_loadu_epi8(first(rest.len()), rest.as_ptr().cast()) });
        live |= u8::from(_mm512_test_epi64_mask(any, any) != 0) << bit;
    }
    live
}

/// A mask of the first `n` of 64 bytes.
#[inline(always)]
fn first(n: usize) -> __mmask64 {
    if n >= 64 { !0 } else { (1 << n) - 1 }
}

/// `TURN` bytes of every plane, or as many as are left.
#[derive(Clone, Copy)]
struct Turn {
    planes: *const u8,
    plane_bytes: usize,
    from: usize,
}

impl Turn {
    /// The bytes of one plane; `WHOLE`: there are `TURN` of them.
    ///
    /// # Safety
    /// `planes` has more than `plane` planes of `plane_bytes`; `from < plane_bytes`, by at least `TURN` if `WHOLE`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn plane<const WHOLE: bool>(self, plane: usize) -> __m512i {
        // SAFETY: the contract; the mask ends with the plane.
        unsafe {
            let bytes = self.planes.add(plane * self.plane_bytes + self.from);
            if WHOLE {
                _mm512_loadu_si512(bytes.cast())
            } else {
                _mm512_maskz_loadu_epi8(first(self.plane_bytes - self.from), bytes.cast())
            }
        }
    }

    /// Eight planes, interleaved byte by byte, plane 7 first, as the product wants its rows: quadword q of lane l of vector j is byte
    /// `16 l + 2 j + q` of each.
    ///
    /// # Safety
    /// As [`Turn::plane`], for all eight planes of the group.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn matrices<const WHOLE: bool>(self, group: usize) -> [__m512i; 8] {
        // SAFETY: the contract.
        let p: [__m512i; 8] = std::array::from_fn(|bit| unsafe { self.plane::<WHOLE>(8 * group + 7 - bit) });
        let bytes: [__m512i; 8] = std::array::from_fn(|i| {
            if i < 4 {
                _mm512_unpacklo_epi8(p[2 * i], p[2 * i + 1])
            } else {
                _mm512_unpackhi_epi8(p[2 * i - 8], p[2 * i - 7])
            }
        });
        // Planes 7 to 4 of two bytes pairs, then planes 3 to 0: low and high quarter of each half.
        let words: [__m512i; 8] = std::array::from_fn(|i| {
            let (half, high, pair) = (i / 4 * 4, i % 4 / 2, i % 2 * 2);
            if high == 0 {
                _mm512_unpacklo_epi16(bytes[half + pair], bytes[half + pair + 1])
            } else {
                _mm512_unpackhi_epi16(bytes[half + pair], bytes[half + pair + 1])
            }
        });
        std::array::from_fn(|j| {
            let quarter = j / 2 * 2;
            if j % 2 == 0 {
                _mm512_unpacklo_epi32(words[quarter], words[quarter + 1])
            } else {
                _mm512_unpackhi_epi32(words[quarter], words[quarter + 1])
            }
        })
    }

    /// Counts of any size: one product for each byte of the counts that has a live plane.
    ///
    /// # Safety
    /// As [`Turn::plane`] for `8 * BYTES` planes; `out` holds the counts from `8 * from` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    unsafe fn any<const BYTES: usize, const WHOLE: bool>(self, live: &[u8; BYTES], out: &mut [u8]) {
        let mut matrices = [[_mm512_setzero_si512(); 8]; BYTES];
        for (group, matrices) in matrices.iter_mut().enumerate() {
            if live[group] != 0 {
                // SAFETY: the contract.
                *matrices = unsafe { self.matrices::<WHOLE>(group) };
            }
        }
        for lane in 0..4 {
            let order = load(&Tables::<BYTES>::ORDERS[lane]);
            for piece in 0..2 * BYTES {
                let at = 64 * (2 * BYTES * lane + piece);
                if !WHOLE && at >= out.len() {
                    return;
                }
                let mut counts = _mm512_setzero_si512();
                for group in 0..BYTES {
                    if live[group] != 0 {
                        let matrix = place::<BYTES>(&matrices[group], piece, order);
                        let selector = load(&Tables::<BYTES>::SELECTORS[group]);
                        let product = _mm512_gf2p8affine_epi64_epi8::<0>(selector, matrix);
                        counts = _mm512_or_si512(counts, product);
                    }
                }
                // SAFETY: a whole turn fills 512 * BYTES bytes of `out`, 64 for each of 4 lanes and 2 * BYTES pieces; otherwise `at` was
                // compared.
                unsafe { store::<WHOLE>(out, at, counts) }
            }
        }
    }

    /// Counts below 16: four planes.
    ///
    /// # Safety
    /// As [`Turn::any`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    unsafe fn small<const BYTES: usize, const WHOLE: bool>(self, out: &mut [u8]) {
        // SAFETY: the contract.
        let p: [__m512i; 4] = std::array::from_fn(|bit| unsafe { self.plane::<WHOLE>(3 - bit) });
        let high = [_mm512_unpacklo_epi8(p[0], p[1]), _mm512_unpackhi_epi8(p[0], p[1])];
        let low = [_mm512_unpacklo_epi8(p[2], p[3]), _mm512_unpackhi_epi8(p[2], p[3])];
        // Doubleword q of lane l of vector j: planes 3 to 0 of byte 16 l + 4 j + q.
        let rows = [
            _mm512_unpacklo_epi16(high[0], low[0]),
            _mm512_unpackhi_epi16(high[0], low[0]),
            _mm512_unpacklo_epi16(high[1], low[1]),
            _mm512_unpackhi_epi16(high[1], low[1]),
        ];
        let selector = load(&Tables::<BYTES>::SELECTORS[0]);
        for lane in 0..4 {
            let orders = &Tables::<BYTES>::SMALL_ORDERS[lane];
            let orders = [load(&orders[0]), load(&orders[1])];
            for piece in 0..2 * BYTES {
                let at = 64 * (2 * BYTES * lane + piece);
                if !WHOLE && at >= out.len() {
                    return;
                }
                let matrix = place_small::<BYTES>(&rows, piece, orders);
                // SAFETY: as in `any`.
                unsafe { store::<WHOLE>(out, at, _mm512_gf2p8affine_epi64_epi8::<0>(selector, matrix)) }
            }
        }
    }
}

/// Writes 64 bytes of counts at `at`, or, of the last turn, those that there are.
///
/// # Safety
/// `at < out.len()`, by at least 64 if `WHOLE`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn store<const WHOLE: bool>(out: &mut [u8], at: usize, counts: __m512i) {
    debug_assert!(at < out.len() && (!WHOLE || out.len() - at >= 64));
    // SAFETY: the contract; the mask ends with `out`.
    unsafe {
        let to = out.as_mut_ptr().add(at);
        if WHOLE {
            _mm512_storeu_si512(to.cast(), counts);
        } else {
            _mm512_mask_storeu_epi8(to.cast(), first(out.len() - at), counts);
        }
    }
}

/// What the products need, by the bytes of a count.
struct Tables<const BYTES: usize>;

/// 64 bytes as they lie in a register.
#[repr(align(64))]
struct Register([u8; 64]);

#[inline]
#[target_feature(enable = "avx512f")]
fn load(register: &Register) -> __m512i {
    // SAFETY: a `Register` is 64 bytes, aligned to 64.
    unsafe { _mm512_load_si512(register.0.as_ptr().cast()) }
}

impl<const BYTES: usize> Tables<BYTES> {
    /// For byte `group` of a count: 1 << e where that byte of count e is, 0 elsewhere. A quadword holds `8 / BYTES` counts, so `BYTES`
    /// quadwords in a row see the same matrix.
    const SELECTORS: [Register; BYTES] = {
        let mut selectors = [const { Register([0; 64]) }; BYTES];
        let mut at = 0;
        while at < 64 {
            selectors[at % BYTES].0[at] = 1 << (at / BYTES % 8);
            at += 1;
        }
        selectors
    };

    /// For each lane: where the quadwords of a piece come from, in two consecutive vectors of matrices. A lane has two matrices in
    /// each; a piece needs `8 / BYTES` of them, each `BYTES` times in a row.
    const ORDERS: [Register; 4] = {
        let mut orders = [const { Register([0; 64]) }; 4];
        let mut at = 0;
        while at < 4 * 8 {
            let (lane, matrix) = (at / 8, at % 8 / BYTES);
            // Of four bytes or one, the second half of the piece is a second permutation of the next two vectors.
            orders[lane].0[8 * (at % 8)] = (2 * lane + matrix % 2 + 8 * (matrix / 2 % 2)) as u8;
            at += 1;
        }
        orders
    };

    /// The same in doublewords, for rows of four planes: a lane has four in each vector, and the lower half of each quadword stays
    /// zero. With four bytes a count a lane's vector serves two pieces, one with each order.
    const SMALL_ORDERS: [[Register; 2]; 4] = {
        let mut orders = [const { [const { Register([0; 64]) }; 2] }; 4];
        let mut at = 0;
        while at < 4 * 8 {
            let (lane, row) = (at / 8, at % 8 / BYTES);
            let source = 4 * lane + row % 4 + 16 * (row / 4);
            orders[lane][0].0[8 * (at % 8) + 4] = source as u8;
            orders[lane][1].0[8 * (at % 8) + 4] = source as u8 + 2;
            at += 1;
        }
        orders
    };
}

/// The matrices of a piece, each `BYTES` times in a row; `order` is that of the lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn place<const BYTES: usize>(matrices: &[__m512i; 8], piece: usize, order: __m512i) -> __m512i {
    match BYTES {
        1 => {
            let [a, b, c, d] = [4 * piece, 4 * piece + 1, 4 * piece + 2, 4 * piece + 3].map(|j| matrices[j]);
            let low = _mm512_permutex2var_epi64(a, order, b);
            let high = _mm512_permutex2var_epi64(c, order, d);
            _mm512_inserti64x4::<1>(low, _mm512_castsi512_si256(high))
        }
        2 => _mm512_permutex2var_epi64(matrices[2 * piece], order, matrices[2 * piece + 1]),
        _ => _mm512_permutexvar_epi64(order, matrices[piece]),
    }
}

/// As [`place`], from rows of four planes: they become the upper half of each matrix.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn place_small<const BYTES: usize>(rows: &[__m512i; 4], piece: usize, orders: [__m512i; 2]) -> __m512i {
    const UPPER: __mmask16 = 0xaaaa;
    match BYTES {
        1 => _mm512_maskz_permutex2var_epi32(UPPER, rows[2 * piece], orders[0], rows[2 * piece + 1]),
        2 => _mm512_maskz_permutexvar_epi32(UPPER, orders[0], rows[piece]),
        _ => _mm512_maskz_permutexvar_epi32(UPPER, orders[piece % 2], rows[piece / 2]),
    }
}
