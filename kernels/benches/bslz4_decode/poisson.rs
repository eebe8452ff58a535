//! Poisson counts for benchmarks.

use rand::Rng;
use rand_pcg::Pcg64;

/// A Poisson count by multiplying uniforms (Knuth, The Art of Computer Programming 2, section 3.4.1).
pub fn poisson(mean: f64, random: &mut Pcg64) -> u32 {
    let limit = (-mean).exp();
    let mut product: f64 = random.random();
    let mut count = 0;
    while product > limit {
        product *= random.random::<f64>();
        count += 1;
    }
    count
}
