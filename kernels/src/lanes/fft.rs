//! Discrete Fourier transforms of sixteen sequences at once.

use std::sync::Arc;

use num_complex::Complex32;
use rustfft::{Fft, FftPlanner};

use super::{LANES, PixelBlock, Simd};

/// The largest prime factor handled on lanes; the cost of a stage grows with its square.
const LARGEST_RADIX: usize = 31;

/// The forward transform X(q) = sum_r x(r) exp(-2 pi i q r / len) of sixteen sequences at once, unnormalised, any length.
///
/// Stockham's self-sorting algorithm, radix 4, then 2, 3, 5 and any prime up to 31; lengths with a larger prime factor go
/// through `rustfft` lane by lane. For the backward transform swap real and imaginary parts before and after.
pub struct LaneFft {
    len: usize,
    kind: Kind,
}

enum Kind {
    Stages(Vec<Stage>),
    LaneByLane(Arc<dyn Fft<f32>>),
}

/// One pass: `count` butterflies of `radix` points for each of `stride` interleaved sequences.
struct Stage {
    radix: usize,
    count: usize,
    stride: usize,
    /// exp(-2 pi i p i / (radix count)) for butterfly p, output 1..radix: `[count][radix - 1]`.
    twiddles: Vec<Complex32>,
    /// exp(-2 pi i j / radix), j < radix.
    roots: Vec<Complex32>,
}

impl std::fmt::Debug for LaneFft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneFft").field("len", &self.len).finish_non_exhaustive()
    }
}

fn root_of_unity(numerator: usize, denominator: usize) -> Complex32 {
    let angle = -std::f64::consts::TAU * (numerator % denominator) as f64 / denominator as f64;
    Complex32::new(angle.cos() as f32, angle.sin() as f32)
}

/// Radices in the order of the passes, or None when a prime factor is too large.
fn radices(len: usize) -> Option<Vec<usize>> {
    let mut rest = len;
    let mut radices = Vec::new();
    for radix in [4, 2, 3, 5] {
        while rest.is_multiple_of(radix) && rest > 1 {
            radices.push(radix);
            rest /= radix;
        }
    }
    let mut radix = 7;
    while rest > 1 && radix <= LARGEST_RADIX {
        while rest.is_multiple_of(radix) {
            radices.push(radix);
            rest /= radix;
        }
        radix += 2;
    }
    (rest <= 1).then_some(radices)
}

impl LaneFft {
    /// Plans transforms of `len` points; `len` = 0 is planned as 1.
    pub fn new(len: usize) -> Self {
        let len = len.max(1);
        let Some(radices) = radices(len) else {
            return Self { len, kind: Kind::LaneByLane(FftPlanner::new().plan_fft_forward(len)) };
        };
        let mut stages = Vec::with_capacity(radices.len());
        let (mut length, mut stride) = (len, 1);
        for radix in radices {
            let count = length / radix;
            let twiddles = (0..count)
                .flat_map(|p| (1..radix).map(move |output| root_of_unity(p * output, length)))
                .collect();
            let roots = (0..radix).map(|j| root_of_unity(j, radix)).collect();
            stages.push(Stage { radix, count, stride, twiddles, roots });
            length = count;
            stride *= radix;
        }
        Self { len, kind: Kind::Stages(stages) }
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: a transform has at least one point.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Transforms `data` along its points and returns the slice, `data` or `scratch`, that holds the result.
    ///
    /// # Panics
    /// If `data` or `scratch` is not [`Self::len`] long.
    #[inline(always)]
    pub fn forward<'a, S: Simd>(
        &self,
        s: S,
        data: &'a mut [PixelBlock],
        scratch: &'a mut [PixelBlock],
    ) -> &'a mut [PixelBlock] {
        assert!(data.len() == self.len && scratch.len() == self.len, "transform of {} points", self.len);
        let (mut from, mut to) = (data, scratch);
        match &self.kind {
            Kind::Stages(stages) => {
                for stage in stages {
                    match stage.radix {
                        2 => radix_2(s, stage, from, to),
                        3 => radix_3(s, stage, from, to),
                        4 => radix_4(s, stage, from, to),
                        _ => any_radix(s, stage, from, to),
                    }
                    std::mem::swap(&mut from, &mut to);
                }
            }
            Kind::LaneByLane(fft) => lane_by_lane(fft.as_ref(), from),
        }
        from
    }
}

/// A complex number a lane.
type Complex<S> = (<S as Simd>::V, <S as Simd>::V);

#[inline(always)]
fn load<S: Simd>(s: S, block: &PixelBlock) -> Complex<S> {
    (s.load(&block.re), s.load(&block.im))
}

#[inline(always)]
fn store<S: Simd>(s: S, value: Complex<S>, to: &mut PixelBlock) {
    s.store(value.0, &mut to.re);
    s.store(value.1, &mut to.im);
}

#[inline(always)]
fn add<S: Simd>(s: S, a: Complex<S>, b: Complex<S>) -> Complex<S> {
    (s.add(a.0, b.0), s.add(a.1, b.1))
}

#[inline(always)]
fn sub<S: Simd>(s: S, a: Complex<S>, b: Complex<S>) -> Complex<S> {
    (s.sub(a.0, b.0), s.sub(a.1, b.1))
}

#[inline(always)]
fn mul<S: Simd>(s: S, a: Complex<S>, w: Complex32) -> Complex<S> {
    let (re, im) = (s.splat(w.re), s.splat(w.im));
    (s.mul_sub_from(a.1, im, s.mul(a.0, re)), s.mul_add(a.1, re, s.mul(a.0, im)))
}

#[inline(always)]
fn radix_2<S: Simd>(s: S, stage: &Stage, from: &[PixelBlock], to: &mut [PixelBlock]) {
    let (stride, half) = (stage.stride, from.len() / 2);
    let (low, high) = from.split_at(half);
    let butterflies =
        to.chunks_exact_mut(2 * stride).zip(low.chunks_exact(stride)).zip(high.chunks_exact(stride));
    for (((out, a), b), &w) in butterflies.zip(&stage.twiddles) {
        let (out0, out1) = out.split_at_mut(stride);
        for i in 0..stride {
            let (x, y) = (load(s, &a[i]), load(s, &b[i]));
            store(s, add(s, x, y), &mut out0[i]);
            store(s, mul(s, sub(s, x, y), w), &mut out1[i]);
        }
    }
}

#[inline(always)]
fn radix_3<S: Simd>(s: S, stage: &Stage, from: &[PixelBlock], to: &mut [PixelBlock]) {
    let (stride, count) = (stage.stride, stage.count);
    let sine = s.splat(0.75f32.sqrt());
    let half = s.splat(0.5);
    for p in 0..count {
        let (w1, w2) = (stage.twiddles[2 * p], stage.twiddles[2 * p + 1]);
        let out = &mut to[3 * p * stride..3 * (p + 1) * stride];
        for i in 0..stride {
            let a = load(s, &from[p * stride + i]);
            let b = load(s, &from[(p + count) * stride + i]);
            let c = load(s, &from[(p + 2 * count) * stride + i]);
            let sum = add(s, b, c);
            let middle = (s.mul_sub_from(sum.0, half, a.0), s.mul_sub_from(sum.1, half, a.1));
            let difference = sub(s, b, c);
            let turned = (s.mul(difference.1, sine), s.mul(difference.0, sine)); // -i (b - c) sin 60 = (im, -re)
            store(s, add(s, a, sum), &mut out[i]);
            let y1 = (s.add(middle.0, turned.0), s.sub(middle.1, turned.1));
            let y2 = (s.sub(middle.0, turned.0), s.add(middle.1, turned.1));
            store(s, mul(s, y1, w1), &mut out[stride + i]);
            store(s, mul(s, y2, w2), &mut out[2 * stride + i]);
        }
    }
}

#[inline(always)]
fn radix_4<S: Simd>(s: S, stage: &Stage, from: &[PixelBlock], to: &mut [PixelBlock]) {
    let (stride, quarter) = (stage.stride, from.len() / 4);
    let (a, rest) = from.split_at(quarter);
    let (b, rest) = rest.split_at(quarter);
    let (c, d) = rest.split_at(quarter);
    for (p, out) in to.chunks_exact_mut(4 * stride).enumerate() {
        let range = p * stride..(p + 1) * stride;
        let (a, b, c, d) = (&a[range.clone()], &b[range.clone()], &c[range.clone()], &d[range]);
        let [w1, w2, w3] = [stage.twiddles[3 * p], stage.twiddles[3 * p + 1], stage.twiddles[3 * p + 2]];
        let (out0, out) = out.split_at_mut(stride);
        let (out1, out) = out.split_at_mut(stride);
        let (out2, out3) = out.split_at_mut(stride);
        for i in 0..stride {
            let (x0, x1, x2, x3) = (load(s, &a[i]), load(s, &b[i]), load(s, &c[i]), load(s, &d[i]));
            let (even, even_difference) = (add(s, x0, x2), sub(s, x0, x2));
            let (odd, odd_difference) = (add(s, x1, x3), sub(s, x1, x3));
            // y1 = (x0 - x2) - i (x1 - x3), y3 = (x0 - x2) + i (x1 - x3)
            let y1 = (s.add(even_difference.0, odd_difference.1), s.sub(even_difference.1, odd_difference.0));
            let y3 = (s.sub(even_difference.0, odd_difference.1), s.add(even_difference.1, odd_difference.0));
            store(s, add(s, even, odd), &mut out0[i]);
            store(s, mul(s, y1, w1), &mut out1[i]);
            store(s, mul(s, sub(s, even, odd), w2), &mut out2[i]);
            store(s, mul(s, y3, w3), &mut out3[i]);
        }
    }
}

#[inline(always)]
fn any_radix<S: Simd>(s: S, stage: &Stage, from: &[PixelBlock], to: &mut [PixelBlock]) {
    let (radix, stride, count) = (stage.radix, stage.stride, stage.count);
    for p in 0..count {
        for output in 0..radix {
            let twiddle = if output == 0 {
                Complex32::new(1.0, 0.0)
            } else {
                stage.twiddles[p * (radix - 1) + output - 1]
            };
            for i in 0..stride {
                let mut sum = load(s, &from[p * stride + i]);
                for j in 1..radix {
                    let x = load(s, &from[(p + j * count) * stride + i]);
                    sum = add(s, sum, mul(s, x, stage.roots[output * j % radix]));
                }
                store(s, mul(s, sum, twiddle), &mut to[(radix * p + output) * stride + i]);
            }
        }
    }
}

fn lane_by_lane(fft: &dyn Fft<f32>, data: &mut [PixelBlock]) {
    let mut line = vec![Complex32::default(); data.len()];
    for lane in 0..LANES {
        for (point, block) in line.iter_mut().zip(data.iter()) {
            *point = Complex32::new(block.re.0[lane], block.im.0[lane]);
        }
        fft.process(&mut line);
        for (point, block) in line.iter().zip(data.iter_mut()) {
            block.re.0[lane] = point.re;
            block.im.0[lane] = point.im;
        }
    }
}
