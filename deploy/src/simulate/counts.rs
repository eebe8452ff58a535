//! Electron counts: exact Poisson numbers, cheap where most pixels are empty.
//!
//! A Poisson process of unit rate runs along the sum of the means: the number of its events inside one pixel's share
//! is that pixel's count, independent of all others. It costs one addition a pixel and one logarithm an electron.
//! Pixels with large means are drawn one by one (W. Hörmann, Insurance: Mathematics and Economics 12 (1993) 39,
//! transformed rejection PTRS).

use rand::RngCore;
use rand_pcg::Pcg64;

/// Means above this are drawn by rejection.
const LARGE_MEAN: f32 = 16.0;

/// The generator of one frame: depends on the seed and the frame alone, so that no thread count changes a count.
pub(super) fn frame_generator(seed: u64, frame: u64) -> Pcg64 {
    generator(seed, &[frame])
}

/// A generator for the purpose named by `path`.
pub(super) fn generator(seed: u64, path: &[u64]) -> Pcg64 {
    let mut words = [0_u64; 4];
    for (index, word) in words.iter_mut().enumerate() {
        *word = path
            .iter()
            .fold(scramble(seed ^ scramble(index as u64)), |state, part| scramble(state ^ scramble(*part)));
    }
    let wide = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
    Pcg64::new(wide(words[0], words[1]), wide(words[2], words[3]))
}

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014) on the next state.
fn scramble(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Uniform in [0, 1), 53 bits.
pub(super) fn uniform(generator: &mut Pcg64) -> f64 {
    (generator.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// Waiting time of a process of unit rate.
fn waiting_time(generator: &mut Pcg64) -> f64 {
    -(1.0 - uniform(generator)).ln()
}

/// Draws a count for every mean. Means that are negative or not a number count as 0.
pub(super) fn draw_counts(generator: &mut Pcg64, means: &[f32], counts: &mut [u32]) {
    let mut passed = 0.0_f64;
    let mut next = waiting_time(generator);
    for (count, &mean) in counts.iter_mut().zip(means) {
        *count = 0;
        if mean > LARGE_MEAN {
            *count = draw_large(generator, mean.into());
        } else if mean > 0.0 {
            passed += f64::from(mean);
            while next < passed {
                *count += 1;
                next += waiting_time(generator);
            }
        }
    }
}

/// PTRS for a mean of at least 10.
fn draw_large(generator: &mut Pcg64, mean: f64) -> u32 {
    let b = 0.931 + 2.53 * mean.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let squeeze = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let u = uniform(generator) - 0.5;
        let v = uniform(generator);
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + mean + 0.43).floor();
        if us >= 0.07 && v <= squeeze {
            return k as u32;
        }
        if k < 0.0 || (us < 0.013 && v > us) {
            continue;
        }
        let left = (v * inverse_alpha / (a / (us * us) + b)).ln();
        if left <= k * mean.ln() - mean - ln_factorial(k) {
            return k as u32;
        }
    }
}

/// ln k!, by Stirling's series above 9.
fn ln_factorial(k: f64) -> f64 {
    if k < 10.0 {
        return (2..=k as u32).map(|factor| f64::from(factor).ln()).sum();
    }
    let series = 1.0 / (12.0 * k) - 1.0 / (360.0 * k.powi(3)) + 1.0 / (1260.0 * k.powi(5));
    (k + 0.5) * k.ln() - k + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probability of every count up to where the rest is below 1e-12.
    fn distribution(mean: f64) -> Vec<f64> {
        let last = (mean + 12.0 * mean.sqrt() + 12.0) as u32;
        (0..=last).map(|k| (f64::from(k) * mean.ln() - mean - ln_factorial(k.into())).exp()).collect()
    }

    #[test]
    fn the_counts_have_the_poisson_distribution_at_every_mean() {
        for mean in [0.003_f32, 0.2, 1.0, 4.5, 15.9, 16.1, 40.0, 700.0] {
            let draws = 200_000;
            let mut counts = vec![0; draws];
            draw_counts(&mut frame_generator(7, 3), &vec![mean; draws], &mut counts);
            let expected = distribution(f64::from(mean));
            let mut seen = vec![0_u64; expected.len()];
            for count in counts {
                seen[count as usize] += 1;
            }
            // Chi squared over bins of at least 20 expected; 6 standard deviations of chi squared are allowed.
            let (mut chi_squared, mut bins, mut pooled) = (0.0, 0.0, (0.0, 0.0));
            for (probability, seen) in expected.iter().zip(&seen) {
                pooled.0 += probability * draws as f64;
                pooled.1 += *seen as f64;
                if pooled.0 >= 20.0 {
                    chi_squared += (pooled.1 - pooled.0).powi(2) / pooled.0;
                    bins += 1.0;
                    pooled = (0.0, 0.0);
                }
            }
            assert!(
                chi_squared < bins + 6.0 * f64::sqrt(2.0 * bins) + 6.0,
                "mean {mean}: {chi_squared} over {bins} bins"
            );
        }
    }

    #[test]
    fn neighbouring_pixels_are_independent() {
        let draws = 200_000;
        let mut counts = vec![0; draws];
        draw_counts(&mut frame_generator(1, 0), &vec![0.5; draws], &mut counts);
        let product: f64 =
            counts.windows(2).map(|pair| (f64::from(pair[0]) - 0.5) * (f64::from(pair[1]) - 0.5)).sum();
        // Standard deviation of the mean product: 0.5 / sqrt(draws).
        assert!((product / draws as f64).abs() < 5.0 * 0.5 / (draws as f64).sqrt());
    }

    #[test]
    fn frames_and_seeds_have_different_numbers_and_the_same_ones_repeat() {
        let first = |seed, frame| frame_generator(seed, frame).next_u64();
        assert_eq!(first(5, 9), first(5, 9));
        assert!(first(5, 9) != first(5, 10) && first(5, 9) != first(6, 9));
    }

    #[test]
    fn means_that_are_no_means_give_no_counts() {
        let mut counts = [9; 4];
        draw_counts(&mut frame_generator(1, 1), &[-1.0, f32::NAN, 0.0, -0.0], &mut counts);
        assert_eq!(counts, [0; 4]);
    }
}
