//! Lanes against float64, on every instruction set of this processor.

use num_complex::Complex64;
use rand::{Rng, SeedableRng};

use super::*;

struct SinCos<'a>(&'a Lanes);

impl LaneTask for SinCos<'_> {
    type Output = (Lanes, Lanes);
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> (Lanes, Lanes) {
        let (sin, cos) = sin_cos_turns(s, s.load(self.0));
        let mut out = (Lanes::default(), Lanes::default());
        s.store(sin, &mut out.0);
        s.store(cos, &mut out.1);
        out
    }
}

struct Atan<'a>(&'a Lanes);

impl LaneTask for Atan<'_> {
    type Output = Lanes;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Lanes {
        let mut out = Lanes::default();
        s.store(atan(s, s.load(self.0)), &mut out);
        out
    }
}

struct Forward<'a>(&'a LaneFft, &'a mut [PixelBlock], &'a mut [PixelBlock]);

impl LaneTask for Forward<'_> {
    type Output = Vec<PixelBlock>;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Vec<PixelBlock> {
        self.0.forward(s, self.1, self.2).to_vec()
    }
}

#[test]
fn sine_and_cosine_are_within_1e_7_for_any_number_of_turns() {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    for set in InstructionSet::available() {
        for step in 0..20_000 {
            let range = if step % 2 == 0 { 1.0 } else { 300.0 };
            let mut turns = Lanes(std::array::from_fn(|_| rng.random_range(-range..range)));
            turns.0[0] = (step as f32 - 10_000.0) / 8.0; // every multiple of an eighth turn
            let (sin, cos) = run(set, SinCos(&turns));
            for lane in 0..LANES {
                let angle = f64::from(turns.0[lane]) * std::f64::consts::TAU;
                let error = (f64::from(sin.0[lane]) - angle.sin()).abs();
                assert!(error < 1e-7, "{set:?}: sin of {} turns is off by {error:e}", turns.0[lane]);
                let error = (f64::from(cos.0[lane]) - angle.cos()).abs();
                assert!(error < 1e-7, "{set:?}: cos of {} turns is off by {error:e}", turns.0[lane]);
            }
        }
    }
}

#[test]
fn the_arc_tangent_is_within_2e_7_everywhere() {
    for set in InstructionSet::available() {
        for step in 0..20_000 {
            let x = Lanes(std::array::from_fn(|lane| {
                let size = 10f32.powf(step as f32 / 1_000.0 - 10.0) * (1.0 + lane as f32 / 17.0);
                if lane % 2 == 0 { size } else { -size }
            }));
            let got = run(set, Atan(&x));
            for lane in 0..LANES {
                let error = (f64::from(got.0[lane]) - f64::from(x.0[lane]).atan()).abs();
                assert!(error < 2e-7, "{set:?}: atan of {} is off by {error:e}", x.0[lane]);
            }
        }
        assert_eq!(run(set, Atan(&Lanes::default())), Lanes::default());
    }
}

#[test]
fn transforms_of_any_length_equal_the_sum_in_float64() {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(2);
    // 1; powers; odd; primes on lanes; mixed; a prime and a multiple of one that go lane by lane
    for len in [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 31, 45, 49, 60, 64, 66, 97, 122, 128, 135, 242] {
        let fft = LaneFft::new(len);
        let input: Vec<PixelBlock> = (0..len)
            .map(|_| PixelBlock {
                re: Lanes(std::array::from_fn(|_| rng.random_range(0..9) as f32)),
                im: Lanes(std::array::from_fn(|_| rng.random_range(-4..5) as f32)),
            })
            .collect();
        for set in InstructionSet::available() {
            let dirty = PixelBlock { re: Lanes([f32::NAN; LANES]), im: Lanes([f32::NAN; LANES]) };
            let output = run(set, Forward(&fft, &mut input.clone(), &mut vec![dirty; len]));
            for lane in 0..LANES {
                for (q, got) in output.iter().enumerate() {
                    let expected: Complex64 = (0..len)
                        .map(|r| {
                            let angle = -std::f64::consts::TAU * (q * r % len) as f64 / len as f64;
                            let x = Complex64::new(input[r].re.0[lane].into(), input[r].im.0[lane].into());
                            x * Complex64::cis(angle)
                        })
                        .sum();
                    let got = Complex64::new(got.re.0[lane].into(), got.im.0[lane].into());
                    let error = (got - expected).norm();
                    let bound = 2e-6 * 8.0 * (len as f64).sqrt().max(1.0); // f32 rounding grows with the norm
                    assert!(error <= bound, "{set:?}, {len} points, lane {lane}, q {q}: off by {error:e}");
                }
            }
        }
    }
}
