//! The overlap function on lanes.

use super::gamma::MAX_POWER;
use super::geometry::{BlockGeometry, rest};
use super::{ChunkGeometry, Frequency, GammaModel};
use crate::lanes::{LANES, Lanes, Simd, sin_cos_turns};

/// Where a block lies relative to a shifted aperture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A is exactly 0 for every pixel.
    Outside,
    /// A is exactly 1 for every pixel.
    Inside,
    /// Anything else.
    Edge,
}

/// The soft aperture and chi for the inner loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aperture<'a> {
    model: &'a GammaModel,
    /// Coefficients of chi in turns.
    chi_turns: [[f32; MAX_POWER + 1]; MAX_POWER + 1],
    pixel: [f32; 2],
    /// For square pixels 1 / pixel, else 0.
    inverse_square_pixel: f32,
    inner: f32,
    outer: f32,
}

/// f32 cannot tell on which side of the aperture's end a pixel lies when it is nearer than this, in pixels.
const TOO_CLOSE: f32 = 1e-4;
/// Margin for rounding when whole blocks are judged, in semi-angles.
const MARGIN: f32 = 1e-5;

impl<'a> Aperture<'a> {
    pub(crate) fn new(model: &'a GammaModel) -> Self {
        let pixel = model.pixel();
        let is_square = pixel[0] == pixel[1];
        Self {
            model,
            chi_turns: model.chi_turns_f32(),
            pixel: pixel.map(|size| size as f32),
            inverse_square_pixel: if is_square { (1.0 / pixel[0]) as f32 } else { 0.0 },
            inner: model.inner_radius() as f32 - MARGIN,
            outer: model.outer_radius() as f32 + MARGIN,
        }
    }

    /// A(k + sign q) of sixteen pixels. Exactly zero where float64 says so.
    #[inline(always)]
    fn at<S: Simd>(&self, s: S, block: &BlockGeometry, q: [f64; 2], sign: f32) -> S::V {
        let shifted = |k: &Lanes, k_rest: &Lanes, q: f64| {
            let rest = s.add(s.load(k_rest), s.splat(sign * rest(q)));
            s.add(s.add(s.load(k), s.splat(sign * q as f32)), rest)
        };
        let x = shifted(&block.row, &block.row_rest, q[0]);
        let y = shifted(&block.col, &block.col_rest, q[1]);
        let radius = s.sqrt(s.mul_add(x, x, s.mul(y, y)));
        let inside = s.sub(s.splat(1.0), radius);
        let half = s.splat(0.5);
        let ramp = if self.inverse_square_pixel > 0.0 {
            s.mul_add(inside, s.splat(self.inverse_square_pixel), half)
        } else {
            // (1 - |v|) / d + 1/2 with d = |(pixel_row v_row, pixel_col v_col)| / |v|; v = 0 is inside any aperture
            let (a, b) = (s.mul(x, s.splat(self.pixel[0])), s.mul(y, s.splat(self.pixel[1])));
            let floor = s.splat(1e-6 * self.pixel[0].min(self.pixel[1]));
            let stretched = s.max(s.sqrt(s.mul_add(a, a, s.mul(b, b))), floor);
            s.add(s.div(s.mul(inside, s.max(radius, s.splat(1e-6))), stretched), half)
        };
        let mut cut = s.min(s.max(ramp, s.zero()), s.splat(1.0));
        if s.any_less(s.abs(ramp), s.splat(TOO_CLOSE)) {
            let mut lanes = Lanes::default();
            s.store(ramp, &mut lanes);
            self.settle(&mut lanes, block, q, sign);
            cut = s.load(&lanes);
        }
        cut
    }

    /// Computes the lanes that are too close to the end again in float64, and cuts all to 0..=1.
    #[cold]
    #[inline(never)]
    fn settle(&self, ramp: &mut Lanes, block: &BlockGeometry, q: [f64; 2], sign: f32) {
        let sign = f64::from(sign);
        for lane in 0..LANES {
            if ramp.0[lane].abs() < TOO_CLOSE {
                let k = block.exact[lane];
                ramp.0[lane] = self.model.aperture_ramp([k[0] + sign * q[0], k[1] + sign * q[1]]) as f32;
            }
            ramp.0[lane] = ramp.0[lane].clamp(0.0, 1.0);
        }
    }

    /// Where each block of a chunk lies relative to the aperture around q (`sign` -1) or -q (`sign` 1).
    /// Lanes hold 0 for outside, 1 for inside, 2 for edge.
    #[inline(always)]
    pub(crate) fn reach<S: Simd>(&self, s: S, chunk: &ChunkGeometry, q: [f64; 2], sign: f32) -> S::V {
        let (half_row, half_col) = (s.load(&chunk.half[0]), s.load(&chunk.half[1]));
        let row = s.add(s.load(&chunk.centre[0]), s.splat(sign * q[0] as f32));
        let col = s.add(s.load(&chunk.centre[1]), s.splat(sign * q[1] as f32));
        let width = s.load(&chunk.width);
        let square = |row, col| s.mul_add(row, row, s.mul(col, col));
        // the nearest point of the segment
        let along = s.mul_add(row, half_row, s.mul(col, half_col));
        let along = s.mul(along, s.load(&chunk.inverse_square));
        let along = s.max(s.min(along, s.splat(1.0)), s.splat(-1.0));
        let nearest = square(s.mul_sub_from(along, half_row, row), s.mul_sub_from(along, half_col, col));
        // the farther end of the segment
        let farthest = s.max(
            square(s.add(row, half_row), s.add(col, half_col)),
            square(s.sub(row, half_row), s.sub(col, half_col)),
        );
        let beyond = s.add(s.splat(self.outer), width);
        let within = s.max(s.sub(s.splat(self.inner), width), s.zero());
        let edge_or_inside = s.select_less(farthest, s.mul(within, within), s.splat(1.0), s.splat(2.0));
        s.select_less(s.mul(beyond, beyond), nearest, s.zero(), edge_or_inside)
    }
}

impl Reach {
    /// The reach that [`Aperture::reach`] wrote as a number.
    #[inline(always)]
    pub(crate) fn from_lane(lane: f32) -> Self {
        match lane as u32 {
            0 => Self::Outside,
            1 => Self::Inside,
            _ => Self::Edge,
        }
    }
}

/// sum c\[i\]\[j\] x^i y^j over i + j <= degree.
#[inline(always)]
fn polynomial<S: Simd, const SIZE: usize>(
    s: S,
    c: &[[f32; SIZE]; SIZE],
    degree: usize,
    x: S::V,
    y: S::V,
) -> S::V {
    let mut sum = s.splat(c[degree][0]);
    for i in (0..degree).rev() {
        let mut line = s.splat(c[i][degree - i]);
        for j in (0..degree - i).rev() {
            line = s.mul_add(line, y, s.splat(c[i][j]));
        }
        sum = s.mul_add(sum, x, line);
    }
    sum
}

/// sin and cos of a phase in turns that may be anything where the aperture is zero, but must not become infinite.
#[inline(always)]
fn sin_cos_bounded<S: Simd>(s: S, turns: S::V) -> (S::V, S::V) {
    const MOST_TURNS: f32 = 1e6;
    sin_cos_turns(s, s.max(s.min(turns, s.splat(MOST_TURNS)), s.splat(-MOST_TURNS)))
}

/// sin O and cos O of sixteen pixels, O the odd part of chi about k.
#[inline(always)]
pub(crate) fn odd_phase<S: Simd, const POWER: usize>(
    s: S,
    frequency: &Frequency,
    block: &BlockGeometry,
) -> (S::V, S::V) {
    let (x, y) = (s.load(&block.row), s.load(&block.col));
    sin_cos_bounded(s, polynomial(s, &frequency.parts.odd, POWER - 1, x, y))
}

/// conj gamma of sixteen pixels and its size, both over A(k).
#[inline(always)]
pub(crate) fn conj_gamma<S: Simd, const POWER: usize>(
    s: S,
    frequency: &Frequency,
    block: &BlockGeometry,
    aperture: &Aperture<'_>,
    [reach_minus, reach_plus]: [Reach; 2],
) -> (S::V, S::V, S::V) {
    let minus = match reach_minus {
        Reach::Outside => s.zero(),
        Reach::Inside => s.splat(1.0),
        Reach::Edge => aperture.at(s, block, frequency.q, -1.0),
    };
    let plus = match reach_plus {
        Reach::Outside => s.zero(),
        Reach::Inside => s.splat(1.0),
        Reach::Edge => aperture.at(s, block, frequency.q, 1.0),
    };
    if POWER == 2 || frequency.is_near {
        // A(k) exp(-iO) (p + i r), p = (A(k-q) - A(k+q)) cos E, r = (A(k-q) + A(k+q)) sin E
        let (sin_even, cos_even) = if POWER == 2 {
            (s.splat(frequency.parts.constant.im), s.splat(frequency.parts.constant.re))
        } else {
            let (x, y) = (s.load(&block.row), s.load(&block.col));
            sin_cos_bounded(s, polynomial(s, &frequency.parts.even, POWER - 2, x, y))
        };
        let (sin, cos) = odd_phase::<S, POWER>(s, frequency, block);
        let (p, r) = (s.mul(s.sub(minus, plus), cos_even), s.mul(s.add(minus, plus), sin_even));
        let re = s.mul_add(cos, p, s.mul(sin, r));
        let im = s.mul_sub_from(sin, p, s.mul(cos, r));
        return (re, im, s.sqrt(s.mul_add(p, p, s.mul(r, r))));
    }
    // A(k) (A(k-q) exp(-i (chi(k) - chi(k-q))) - A(k+q) exp(-i (chi(k+q) - chi(k))))
    let (mut re, mut im) = (s.zero(), s.zero());
    if reach_minus != Reach::Outside {
        let (sin, cos) = step_phase::<S, POWER>(s, frequency, block, aperture, -1.0);
        (re, im) = (s.mul(minus, cos), s.mul_sub_from(minus, sin, im));
    }
    if reach_plus != Reach::Outside {
        let (sin, cos) = step_phase::<S, POWER>(s, frequency, block, aperture, 1.0);
        (re, im) = (s.mul_sub_from(plus, cos, re), s.mul_add(plus, sin, im));
    }
    (re, im, s.sqrt(s.mul_add(re, re, s.mul(im, im))))
}

/// sin and cos of sign (chi(k + sign q) - chi(k)).
#[inline(always)]
fn step_phase<S: Simd, const POWER: usize>(
    s: S,
    frequency: &Frequency,
    block: &BlockGeometry,
    aperture: &Aperture<'_>,
    sign: f32,
) -> (S::V, S::V) {
    let x = s.add(s.load(&block.row), s.splat(sign * frequency.q[0] as f32));
    let y = s.add(s.load(&block.col), s.splat(sign * frequency.q[1] as f32));
    let shifted = polynomial(s, &aperture.chi_turns, POWER, x, y);
    let step = s.sub(shifted, s.load(&block.chi_turns));
    sin_cos_bounded(s, s.mul(step, s.splat(sign)))
}
