//! Sixteen lanes in one AVX-512 register.
//!
//! Every method is inlined into a function that `run` compiled for AVX-512, so an intrinsic is one instruction.

use core::arch::x86_64::*;

use super::{Lanes, Simd};

/// The proof that the processor has AVX-512F, AVX2 and FMA: made only by [`Avx512::detect`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512 {
    _detected: (),
}

impl Avx512 {
    /// The proof, where the processor has these instructions.
    pub(super) fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma");
        has.then_some(Self { _detected: () })
    }
}

/// A method that is one or a few AVX-512F intrinsics.
macro_rules! avx512 {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $type),*) -> $out {
            // SAFETY: `self` exists, so the processor has AVX-512F; no memory is touched but through the
            // references given, which are 64 bytes long and 64-byte aligned.
            unsafe { $body }
        }
    )*};
}

impl Simd for Avx512 {
    type V = __m512;

    avx512! {
        splat(value: f32) -> __m512 = _mm512_set1_ps(value);
        load(from: &Lanes) -> __m512 = _mm512_load_ps(from.0.as_ptr());
        store(value: __m512, to: &mut Lanes) -> () = _mm512_store_ps(to.0.as_mut_ptr(), value);
        add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        mul_sub_from(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fnmadd_ps(a, b, c);
        min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        abs(a: __m512) -> __m512 = _mm512_abs_ps(a);
        sqrt(a: __m512) -> __m512 = _mm512_sqrt_ps(a);
        select_less(a: __m512, b: __m512, below: __m512, otherwise: __m512) -> __m512 =
            _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), otherwise, below);
        with_sign_of(a: __m512, sign: __m512) -> __m512 = {
            let sign_bit = _mm512_set1_epi32(i32::MIN);
            let sign = _mm512_and_si512(_mm512_castps_si512(sign), sign_bit);
            _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(a), sign))
        };
        any_less(a: __m512, b: __m512) -> bool = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) != 0;
        add_quarter_turns(quarters: __m512, sin: __m512, cos: __m512) -> (__m512, __m512) = {
            let bits = _mm512_castps_si512(quarters);
            let (one, two) = (_mm512_set1_epi32(1), _mm512_set1_epi32(2));
            let odd = _mm512_test_epi32_mask(bits, one);
            let flip_sin = _mm512_slli_epi32::<30>(_mm512_and_si512(bits, two));
            let flip_cos = _mm512_slli_epi32::<30>(_mm512_and_si512(_mm512_add_epi32(bits, one), two));
            let new_sin = _mm512_castps_si512(_mm512_mask_blend_ps(odd, sin, cos));
            let new_cos = _mm512_castps_si512(_mm512_mask_blend_ps(odd, cos, sin));
            (
                _mm512_castsi512_ps(_mm512_xor_si512(new_sin, flip_sin)),
                _mm512_castsi512_ps(_mm512_xor_si512(new_cos, flip_cos)),
            )
        };
    }
}
