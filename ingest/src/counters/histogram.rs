//! How often which values came, in buckets whose width is a 32nd of the power of two they lie in.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets of a power of two.
const PER_OCTAVE: u64 = 32;
/// Values below are buckets of their own; above, 59 powers of two.
const BUCKETS: usize = 60 * PER_OCTAVE as usize;

/// A distribution of whole numbers, to within 3 %. Any thread adds, any thread reads.
#[derive(Debug)]
pub struct Histogram {
    buckets: Vec<AtomicU64>,
    most: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), most: AtomicU64::new(0) }
    }
}

fn bucket(value: u64) -> usize {
    let octave = u64::from(63 - value.max(PER_OCTAVE).leading_zeros()) - 5;
    // below 60 x 32: the shifted value is below 64, the octave below 59
    (octave * PER_OCTAVE + (value >> octave)) as usize
}

/// The largest value of a bucket.
fn largest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PER_OCTAVE {
        return bucket;
    }
    let octave = bucket / PER_OCTAVE - 1;
    let first = (bucket - octave * PER_OCTAVE) << octave;
    first + ((1 << octave) - 1)
}

impl Histogram {
    /// Adds a value so many times.
    pub fn add(&self, value: u64, times: u64) {
        self.most.fetch_max(value, Relaxed);
        if let Some(bucket) = self.buckets.get(bucket(value)) {
            bucket.fetch_add(times, Relaxed);
        }
    }

    /// The value that this part of all values does not exceed, 0.99 for 99 in 100; 0 where there is none.
    pub fn quantile(&self, part: f64) -> u64 {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let wanted = (all as f64 * part).ceil().max(1.0);
        let mut so_far = 0;
        for (at, count) in counts.iter().enumerate() {
            so_far += count;
            if so_far as f64 >= wanted {
                return largest(at).min(self.most());
            }
        }
        0
    }

    /// The largest value.
    pub fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_a_bucket_that_is_at_most_a_32nd_wider() {
        let values =
            (0..2000).chain((0..63).flat_map(|power| [1 << power, (1 << power) + 1, (2 << power) - 1]));
        for value in values.chain([u64::MAX]) {
            let (at, most) = (bucket(value), largest(bucket(value)));
            assert!(at < BUCKETS && most >= value, "{value}");
            assert!(most - value <= value / PER_OCTAVE, "{value} {most}");
            assert!(at == 0 || largest(at - 1) < value, "{value}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.most()), (0, 0));
        (1..=1000).for_each(|value| histogram.add(value * 1000, 1));
        histogram.add(5, 1000);
        assert_eq!(histogram.quantile(0.5), 5);
        let p99 = histogram.quantile(0.99);
        assert!((980_000..=1_011_000).contains(&p99), "{p99}");
        assert_eq!((histogram.quantile(1.0), histogram.most()), (1_000_000, 1_000_000));
    }
}
