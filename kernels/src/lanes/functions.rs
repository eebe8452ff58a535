//! Sine, cosine and arc tangent on lanes.
//!
//! The polynomials are least-maximum fits over the reduced range (Lawson's iteration, float64, rounded to f32); their
//! own error is below 8e-9 everywhere, so the bounds below are those of f32 rounding.

use super::Simd;

/// 1.5 * 2^23: adding it to a small f32 leaves the nearest whole number in the low bits.
const ROUNDER: f32 = 12_582_912.0;

/// sin(2 pi t) and cos(2 pi t) of an angle t in turns, |t| < 2^20.
///
/// In turns the range reduction is exact: t minus the nearest quarter is an f32. Absolute error below 1e-7.
#[inline(always)]
pub fn sin_cos_turns<S: Simd>(s: S, turns: S::V) -> (S::V, S::V) {
    let rounder = s.splat(ROUNDER);
    let quarters = s.add(s.mul(turns, s.splat(4.0)), rounder);
    let nearest = s.sub(quarters, rounder);
    let eighth_at_most = s.mul_sub_from(nearest, s.splat(0.25), turns);
    let x = s.mul(eighth_at_most, s.splat(std::f32::consts::TAU));
    let x2 = s.mul(x, x);

    let sin = s.mul_add(x2, s.splat(-0.000_194_956_36), s.splat(0.008_331_979));
    let sin = s.mul_add(x2, sin, s.splat(-0.166_666_51));
    let sin = s.mul_add(s.mul(x, x2), sin, x);

    let cos = s.mul_add(x2, s.splat(2.439_045e-5), s.splat(-0.001_388_676_4));
    let cos = s.mul_add(x2, cos, s.splat(0.041_666_623));
    let cos = s.mul_add(x2, cos, s.splat(-0.5));
    let cos = s.mul_add(x2, cos, s.splat(1.0));

    s.add_quarter_turns(quarters, sin, cos)
}

/// The arc tangent \[rad\]. Absolute error below 2e-7.
#[inline(always)]
pub fn atan<S: Simd>(s: S, x: S::V) -> S::V {
    const COEFFICIENTS: [f32; 8] = [
        0.002_622_244_6,
        -0.015_132_536,
        0.041_121_86,
        -0.073_667_06,
        0.105_739_32,
        -0.141_859_75,
        0.199_903_97,
        -0.333_329_9,
    ];
    let one = s.splat(1.0);
    let size = s.abs(x);
    let reduced = s.select_less(one, size, s.div(one, s.max(size, one)), size);
    let square = s.mul(reduced, reduced);
    let mut polynomial = s.splat(COEFFICIENTS[0]);
    for coefficient in &COEFFICIENTS[1..] {
        polynomial = s.mul_add(polynomial, square, s.splat(*coefficient));
    }
    let small = s.mul_add(s.mul(reduced, square), polynomial, reduced);
    let large = s.sub(s.splat(std::f32::consts::FRAC_PI_2), small);
    s.with_sign_of(s.select_less(one, size, large, small), x)
}
