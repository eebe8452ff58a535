//! What the choice of a model needs to know about the counts of a pixel, or of several.

use super::group::Event;
use crate::count_code::numbers::log2_factorial;

/// Statistics of `samples` counts, of which `events` are not 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stats {
    pub(crate) samples: u64,
    pub(crate) events: u64,
    /// Counts of 1, 2, 3 and at least 4.
    pub(crate) classes: [u64; 4],
    /// Counts of at least 7: those a sparse model writes out.
    pub(crate) written_out: u64,
    pub(crate) sum: u64,
    pub(crate) min: u32,
    pub(crate) max: u32,
    /// Sum of squares; 0 while `heavy` is false.
    pub(crate) squares: f64,
    /// Sum of log2(count!); 0 while `heavy` is false.
    pub(crate) log2_factorials: f64,
    /// True when the counts are large or many enough for a dense or wide model.
    pub(crate) heavy: bool,
}

impl Stats {
    /// Statistics of nothing: what others are added to.
    pub(crate) const NOTHING: Self = Self {
        samples: 0,
        events: 0,
        classes: [0; 4],
        written_out: 0,
        sum: 0,
        min: u32::MAX,
        max: 0,
        squares: 0.0,
        log2_factorials: 0.0,
        heavy: false,
    };

    /// Statistics of one pixel with these events among `samples` counts.
    pub(crate) fn of<E: Event>(events: &[E], samples: usize) -> Self {
        let Tally { sum, max, min, ones, twos, threes, written_out } = tally(events);
        let num_events = events.len() as u64;
        let more = num_events - u64::from(ones) - u64::from(twos) - u64::from(threes);
        let mut stats = Self {
            samples: samples as u64,
            events: num_events,
            classes: [ones.into(), twos.into(), threes.into(), more],
            written_out: written_out.into(),
            sum,
            min: if events.len() == samples { min } else { 0 },
            max,
            heavy: events.len() * 3 > samples || written_out > 0,
            ..Self::NOTHING
        };
        if stats.heavy {
            for event in events {
                let count = event.count();
                stats.squares += f64::from(count) * f64::from(count);
                stats.log2_factorials += log2_factorial(count);
            }
        }
        stats
    }

    /// Statistics of both.
    pub(crate) fn with(self, more: &Self) -> Self {
        Self {
            samples: self.samples + more.samples,
            events: self.events + more.events,
            classes: std::array::from_fn(|class| self.classes[class] + more.classes[class]),
            written_out: self.written_out + more.written_out,
            sum: self.sum + more.sum,
            min: self.min.min(more.min),
            max: self.max.max(more.max),
            squares: self.squares + more.squares,
            log2_factorials: self.log2_factorials + more.log2_factorials,
            heavy: self.heavy || more.heavy,
        }
    }

    /// Mean count.
    pub(crate) fn mean(&self) -> f64 {
        self.sum as f64 / self.samples as f64
    }
}

/// What one pass over the events of a pixel gives.
struct Tally {
    sum: u64,
    max: u32,
    min: u32,
    ones: u32,
    twos: u32,
    threes: u32,
    written_out: u32,
}

fn tally<E: Event>(events: &[E]) -> Tally {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has AVX-512BW, just asked.
            return unsafe { tally_avx512(events) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, just asked.
            return unsafe { tally_avx2(events) };
        }
    }
    tally_lanes(events)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn tally_avx512<E: Event>(events: &[E]) -> Tally {
    tally_lanes(events)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn tally_avx2<E: Event>(events: &[E]) -> Tally {
    tally_lanes(events)
}

#[inline(always)]
fn tally_lanes<E: Event>(events: &[E]) -> Tally {
    let (mut sum, mut max, mut min) = (0_u64, 0_u32, u32::MAX);
    let [mut ones, mut twos, mut threes, mut written_out] = [0_u32; 4];
    for event in events {
        let count = event.count();
        sum += u64::from(count);
        max = max.max(count);
        min = min.min(count);
        ones += u32::from(count == 1);
        twos += u32::from(count == 2);
        threes += u32::from(count == 3);
        written_out += u32::from(count >= 7);
    }
    Tally { sum, max, min, ones, twos, threes, written_out }
}
