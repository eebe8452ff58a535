//! Sixteen lanes in two AVX registers.
//!
//! Every method is inlined into a function that `run` compiled for AVX2 and FMA.

use core::arch::x86_64::*;

use super::{Lanes, Simd};

/// The proof that the processor has AVX2 and FMA: made only by [`Avx2::detect`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2 {
    _detected: (),
}

impl Avx2 {
    /// The proof, where the processor has these instructions.
    pub(super) fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        has.then_some(Self { _detected: () })
    }
}

/// Lanes 0 to 7 and 8 to 15.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halves(__m256, __m256);

/// A method that is the same intrinsics on both halves.
macro_rules! avx2 {
    ($($name:ident($($arg:ident),*) = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: Halves),*) -> Halves {
            // SAFETY: `self` exists, so the processor has AVX2 and FMA; only registers are touched.
            unsafe {
                let low = { $(let $arg = $arg.0;)* $body };
                let high = { $(let $arg = $arg.1;)* $body };
                Halves(low, high)
            }
        }
    )*};
}

impl Simd for Avx2 {
    type V = Halves;

    avx2! {
        add(a, b) = _mm256_add_ps(a, b);
        sub(a, b) = _mm256_sub_ps(a, b);
        mul(a, b) = _mm256_mul_ps(a, b);
        div(a, b) = _mm256_div_ps(a, b);
        mul_add(a, b, c) = _mm256_fmadd_ps(a, b, c);
        mul_sub_from(a, b, c) = _mm256_fnmadd_ps(a, b, c);
        min(a, b) = _mm256_min_ps(a, b);
        max(a, b) = _mm256_max_ps(a, b);
        abs(a) = _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        sqrt(a) = _mm256_sqrt_ps(a);
        select_less(a, b, below, otherwise) = _mm256_blendv_ps(otherwise, below, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
        with_sign_of(a, sign) = _mm256_or_ps(a, _mm256_and_ps(sign, _mm256_set1_ps(-0.0)));
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Halves {
        // SAFETY: `self` exists, so the processor has AVX.
        let half = unsafe { _mm256_set1_ps(value) };
        Halves(half, half)
    }
    #[inline(always)]
    fn load(self, from: &Lanes) -> Halves {
        // SAFETY: the processor has AVX; `from` is 16 f32 long and 64-byte aligned, so both halves are in it and aligned.
        unsafe { Halves(_mm256_load_ps(from.0.as_ptr()), _mm256_load_ps(from.0.as_ptr().add(8))) }
    }
    #[inline(always)]
    fn store(self, value: Halves, to: &mut Lanes) {
        // SAFETY: the processor has AVX; `to` is 16 f32 long and 64-byte aligned, so both halves are in it and aligned.
        unsafe {
            _mm256_store_ps(to.0.as_mut_ptr(), value.0);
            _mm256_store_ps(to.0.as_mut_ptr().add(8), value.1);
        }
    }
    #[inline(always)]
    fn any_less(self, a: Halves, b: Halves) -> bool {
        // SAFETY: `self` exists, so the processor has AVX; only registers are touched.
        unsafe {
            let low = _mm256_cmp_ps::<_CMP_LT_OQ>(a.0, b.0);
            let high = _mm256_cmp_ps::<_CMP_LT_OQ>(a.1, b.1);
            _mm256_movemask_ps(_mm256_or_ps(low, high)) != 0
        }
    }
    #[inline(always)]
    fn add_quarter_turns(self, quarters: Halves, sin: Halves, cos: Halves) -> (Halves, Halves) {
        // SAFETY: `self` exists, so the processor has AVX2.
        let (low, high) = unsafe {
            (
                half_add_quarter_turns(quarters.0, sin.0, cos.0),
                half_add_quarter_turns(quarters.1, sin.1, cos.1),
            )
        };
        (Halves(low.0, high.0), Halves(low.1, high.1))
    }
}

/// Eight lanes of [`Simd::add_quarter_turns`]. The processor must have AVX2.
#[inline(always)]
unsafe fn half_add_quarter_turns(quarters: __m256, sin: __m256, cos: __m256) -> (__m256, __m256) {
    // SAFETY: the caller knows that the processor has AVX2; only registers are touched.
    unsafe {
        let bits = _mm256_castps_si256(quarters);
        let two = _mm256_set1_epi32(2);
        let odd = _mm256_castsi256_ps(_mm256_slli_epi32::<31>(bits));
        let flip_sin = _mm256_slli_epi32::<30>(_mm256_and_si256(bits, two));
        let next = _mm256_add_epi32(bits, _mm256_set1_epi32(1));
        let flip_cos = _mm256_slli_epi32::<30>(_mm256_and_si256(next, two));
        (
            _mm256_xor_ps(_mm256_blendv_ps(sin, cos, odd), _mm256_castsi256_ps(flip_sin)),
            _mm256_xor_ps(_mm256_blendv_ps(cos, sin, odd), _mm256_castsi256_ps(flip_cos)),
        )
    }
}
