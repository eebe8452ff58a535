//! Plain loops over sixteen lanes; the compiler vectorises them for the target it builds for.

use super::{LANES, Lanes, Simd};

/// Arithmetic every processor has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

#[inline(always)]
fn zip(a: Lanes, b: Lanes, f: impl Fn(f32, f32) -> f32) -> Lanes {
    let mut out = a;
    for (a, &b) in out.0.iter_mut().zip(&b.0) {
        *a = f(*a, b);
    }
    out
}

impl Simd for Portable {
    type V = Lanes;

    #[inline(always)]
    fn splat(self, value: f32) -> Lanes {
        Lanes([value; LANES])
    }
    #[inline(always)]
    fn load(self, from: &Lanes) -> Lanes {
        *from
    }
    #[inline(always)]
    fn store(self, value: Lanes, to: &mut Lanes) {
        *to = value;
    }
    #[inline(always)]
    fn add(self, a: Lanes, b: Lanes) -> Lanes {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Lanes, b: Lanes) -> Lanes {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Lanes, b: Lanes) -> Lanes {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Lanes, b: Lanes) -> Lanes {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn mul_add(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        self.add(self.mul(a, b), c)
    }
    #[inline(always)]
    fn mul_sub_from(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        self.sub(c, self.mul(a, b))
    }
    #[inline(always)]
    fn min(self, a: Lanes, b: Lanes) -> Lanes {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max(self, a: Lanes, b: Lanes) -> Lanes {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn abs(self, a: Lanes) -> Lanes {
        zip(a, a, |a, _| a.abs())
    }
    #[inline(always)]
    fn sqrt(self, a: Lanes) -> Lanes {
        zip(a, a, |a, _| a.sqrt())
    }
    #[inline(always)]
    fn select_less(self, a: Lanes, b: Lanes, below: Lanes, otherwise: Lanes) -> Lanes {
        let mut out = otherwise;
        for lane in 0..LANES {
            if a.0[lane] < b.0[lane] {
                out.0[lane] = below.0[lane];
            }
        }
        out
    }
    #[inline(always)]
    fn with_sign_of(self, a: Lanes, sign: Lanes) -> Lanes {
        zip(a, sign, f32::copysign)
    }
    #[inline(always)]
    fn any_less(self, a: Lanes, b: Lanes) -> bool {
        a.0.iter().zip(&b.0).any(|(a, b)| a < b)
    }
    #[inline(always)]
    fn add_quarter_turns(self, quarters: Lanes, sin: Lanes, cos: Lanes) -> (Lanes, Lanes) {
        let (mut new_sin, mut new_cos) = (sin, cos);
        for lane in 0..LANES {
            let bits = quarters.0[lane].to_bits();
            let odd = bits & 1 != 0;
            let (s, c) = if odd { (cos.0[lane], sin.0[lane]) } else { (sin.0[lane], cos.0[lane]) };
            let flip_sin = (bits & 2) << 30;
            let flip_cos = (bits.wrapping_add(1) & 2) << 30;
            new_sin.0[lane] = f32::from_bits(s.to_bits() ^ flip_sin);
            new_cos.0[lane] = f32::from_bits(c.to_bits() ^ flip_cos);
        }
        (new_sin, new_cos)
    }
}
