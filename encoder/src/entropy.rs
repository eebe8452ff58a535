//! The least that the counts could take: the empirical entropy bound of a Poisson model by pixel.

/// Bits that an ideal coder needs who knows the mean of every pixel over the acquisition: the sum over pixels and
/// positions of -log2 Poisson(count; mean of the pixel).
///
/// In: number of covered positions; sum of every pixel over them; how often each count occurs, over all pixels and
/// positions (count, occurrences).
pub fn poisson_bound_bits(
    positions: u64,
    pixel_sums: impl IntoIterator<Item = u64>,
    histogram: impl IntoIterator<Item = (u32, u64)>,
) -> f64 {
    let positions = positions as f64;
    let mut bits = 0.0;
    for sum in pixel_sums {
        if sum > 0 {
            // positions x mean = sum
            let sum = sum as f64;
            bits += sum * std::f64::consts::LOG2_E - sum * (sum / positions).log2();
        }
    }
    for (count, occurrences) in histogram {
        bits += occurrences as f64 * log2_factorial(count);
    }
    bits
}

/// log2(n!), summed below 256, by Stirling's series above (1e-9 relative).
fn log2_factorial(n: u32) -> f64 {
    if n < 256 {
        return (2..=n).map(|k| f64::from(k).log2()).sum();
    }
    let x = f64::from(n);
    let nats = x * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI * x).ln() + 1.0 / (12.0 * x);
    nats * std::f64::consts::LOG2_E
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_sum_over_pixels_and_positions() {
        let counts = [[0_u32, 2, 1, 1], [5, 0, 0, 0], [0, 0, 0, 0], [300, 280, 310, 310]];
        let mut direct = 0.0;
        let mut histogram = std::collections::BTreeMap::new();
        for pixel in &counts {
            let mean = f64::from(pixel.iter().sum::<u32>()) / 4.0;
            for &count in pixel {
                *histogram.entry(count).or_insert(0) += 1;
                if mean > 0.0 {
                    let factorial: f64 = (2..=count).map(|k| f64::from(k).log2()).sum();
                    direct += mean * std::f64::consts::LOG2_E - f64::from(count) * mean.log2() + factorial;
                }
            }
        }
        let sums = counts.iter().map(|pixel| pixel.iter().map(|&count| u64::from(count)).sum());
        let bound = poisson_bound_bits(4, sums, histogram);
        assert!((bound - direct).abs() < 1e-6 * direct, "{bound} {direct}");
    }
}
