//! What the further thresholds of a simulated detector count, made of the counts of the first.
//!
//! A threshold that lies higher counts fewer of the electrons: each counts an electron that the one below it has counted with
//! probability 1/2. Of `n` electrons that is the number of ones among `n` random bits.

use kernels::types::Count;
use rand::RngCore;

use super::counts::generator;

/// A channel of a simulated detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedChannel {
    /// The threshold that so many others lie below.
    Threshold(u32),
    /// The counts of the first threshold without those of the second.
    Difference,
}

/// The highest threshold that is another than the one below it.
const HIGHEST: u32 = 16;
/// Purpose of the generator that decides which electrons a threshold counts.
const THINNING: u64 = 0x7417;

impl SimulatedChannel {
    /// What a channel of this name is: `threshold_1`, `threshold_2`, ..., `difference`; another is the first threshold.
    pub fn named(name: &str) -> Self {
        let above = |number: &str| number.parse().ok().filter(|number| (1..=HIGHEST).contains(number));
        match name.strip_prefix("threshold_").and_then(above) {
            _ if name == "difference" => Self::Difference,
            Some(number) => Self::Threshold(number - 1),
            None => Self::Threshold(0),
        }
    }

    /// Replaces the counts of the first threshold by those of this channel. The largest count stands for more counts than
    /// there are, or for none, and stays. The same seed and frame give the same counts.
    pub(super) fn count<T: Count>(self, seed: u64, frame: u64, counts: &mut [T]) {
        let (thinnings, is_difference) = match self {
            Self::Threshold(thinnings) => (thinnings, false),
            Self::Difference => (1, true),
        };
        let largest = T::TYPE.marker();
        for threshold in 1..=u64::from(thinnings) {
            let mut random = generator(seed, &[frame, THINNING, threshold]);
            for count in &mut *counts {
                let before: u32 = (*count).into();
                if before == 0 || before == largest {
                    continue;
                }
                let kept = ones_among(before, &mut random);
                let left = if is_difference { before - kept } else { kept };
                *count = T::try_from(left).unwrap_or_default(); // fits: not above what it was
            }
        }
    }
}

/// How many of so many random bits are ones.
fn ones_among(bits: u32, random: &mut impl RngCore) -> u32 {
    let whole: u32 = (0..bits / 64).map(|_| random.next_u64().count_ones()).sum();
    let mask = (1_u64 << (bits % 64)) - 1;
    whole + if mask == 0 { 0 } else { (random.next_u64() & mask).count_ones() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(channel: SimulatedChannel, seed: u64, counts: &[u16]) -> Vec<u16> {
        let mut counts = counts.to_vec();
        channel.count(seed, 7, &mut counts);
        counts
    }

    #[test]
    fn a_threshold_counts_half_of_what_the_one_below_counted_and_the_difference_is_exact() {
        let first: Vec<u16> = (0..30_000).map(|at| [0, 1, 2, 63, 64, 65, 200, u16::MAX][at % 8]).collect();
        let of = |name| counted(SimulatedChannel::named(name), 5, &first);
        let [one, two, three, difference] =
            ["threshold_1", "threshold_2", "threshold_3", "difference"].map(of);
        assert_eq!((&one, &of("mine"), &of("threshold_2")), (&first, &first, &two));
        for at in 0..first.len() {
            if first[at] == u16::MAX {
                assert_eq!([two[at], three[at], difference[at]], [u16::MAX; 3]);
            } else {
                assert!(three[at] <= two[at] && two[at] + difference[at] == first[at]);
            }
        }
        // binomial: mean n/2 and variance n/4; five standard errors over 3750 pixels of each count
        for (place, count) in [(1, 1.0), (2, 2.0), (3, 63.0), (4, 64.0), (5, 65.0), (6, 200.0)] {
            let kept: Vec<f64> = two.iter().skip(place).step_by(8).map(|&kept| kept.into()).collect();
            let pixels = kept.len() as f64;
            let mean = kept.iter().sum::<f64>() / pixels;
            let variance = kept.iter().map(|kept| (kept - mean).powi(2)).sum::<f64>() / pixels;
            assert!((mean - count / 2.0).abs() < 5.0 * (count / 4.0 / pixels).sqrt(), "{count}: {mean}");
            assert!(
                (variance / (count / 4.0) - 1.0).abs() < 5.0 * (2.0 / pixels).sqrt() + 0.01,
                "{count}: {variance}"
            );
        }
        assert_ne!(counted(SimulatedChannel::Threshold(1), 6, &first), two);
    }
}
