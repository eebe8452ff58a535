//! Which pixels of a group share a model, and which model: by estimated bits.
//!
//! The estimate only steers; whatever it says, the counts come back exactly. It uses the basic operations alone, so
//! the same counts give the same bytes on every machine.

use std::sync::LazyLock;

use super::stats::Stats;
use crate::count_code::model::Model;
use crate::count_code::numbers::log2;
use crate::count_code::tables::{
    DENSE_TABLES, SPARSE_TABLES, WIDE_TABLES, dense_mean, sparse, sparse_rate, wide_deviation,
};
use crate::count_code::{GROUP_PIXELS, INTERVAL};

/// Bits of a segment's header beyond the first segment's: code and number of pixels.
const SEGMENT_BITS: f64 = 16.0;
/// Bits of the zeros behind the last count of a sparse segment, beyond what they carry.
const TAIL_BITS: f64 = 3.0;

/// Counts that a group must have before it is split.
const EVENTS_TO_SPLIT: u64 = 12;
/// By how much a model that codes every count must be shorter than one that codes runs of zeros: it is slower.
const COUNT_BY_COUNT: f64 = 1.01;

/// A segment: its model and its number of pixels.
pub(crate) type Segment = (Model, usize);

/// Splits the pixels of a group, at least one, into segments; returns how many of `segments` are filled.
pub(crate) fn choose(pixels: &[Stats], count_bytes: usize, segments: &mut [Segment; GROUP_PIXELS]) -> usize {
    let whole = pixels.iter().fold(Stats::NOTHING, |sum, pixel| sum.with(pixel));
    let (whole_model, whole_bits) = best_model(&whole, count_bytes, Search::Near);
    segments[0] = (whole_model, pixels.len());
    if whole.events < EVENTS_TO_SPLIT {
        return 1;
    }
    // no split can save more than the difference to every pixel having its own model for nothing
    let apart: f64 = pixels.iter().map(|pixel| best_model(pixel, count_bytes, Search::First).1).sum();
    if whole_bits <= apart + SEGMENT_BITS {
        return 1;
    }
    // cheapest split of the first `end` pixels: bits, start and model of its last segment
    let mut best = [(0.0, 0, Model::Zero); GROUP_PIXELS + 1];
    for end in 1..=pixels.len() {
        let mut stats = Stats::NOTHING;
        best[end].0 = f64::INFINITY;
        for start in (0..end).rev() {
            stats = stats.with(&pixels[start]);
            let (model, bits) = best_model(&stats, count_bytes, Search::First);
            let bits = best[start].0 + bits + SEGMENT_BITS;
            if bits < best[end].0 {
                best[end] = (bits, start, model);
            }
        }
    }
    let (mut end, mut first) = (pixels.len(), GROUP_PIXELS);
    while end > 0 {
        let (_, start, model) = best[end];
        first -= 1;
        segments[first] = (model, end - start);
        end = start;
    }
    segments.copy_within(first.., 0);
    GROUP_PIXELS - first
}

/// Which sparse tables are tried.
#[derive(Clone, Copy)]
enum Search {
    /// The one of the nearest rate.
    First,
    /// Its neighbours too.
    Near,
}

/// The model with the least estimated bits, and these.
fn best_model(stats: &Stats, count_bytes: usize, search: Search) -> (Model, f64) {
    if stats.events == 0 {
        return (Model::Zero, 0.0);
    }
    if stats.min == stats.max {
        return (Model::Constant(stats.max), 8.0 * count_bytes as f64);
    }
    let count_bits = 8.0 * count_bytes as f64;
    let mut best = (Model::Literal, stats.samples as f64 * count_bits);
    let mut consider = |model, bits| {
        if bits < best.1 {
            best = (model, bits);
        }
    };
    let rate = stats.events as f64 / stats.samples as f64;
    if rate < 0.75 {
        let near = nearest_sparse(stats.events, stats.samples);
        let indices = match search {
            Search::First => near..=near,
            Search::Near => near.saturating_sub(1)..=(near + 1).min(SPARSE_TABLES - 1),
        };
        for index in indices {
            consider(Model::Sparse(index), sparse_bits(stats, index, count_bits));
        }
    }
    if stats.heavy {
        let mean = stats.mean();
        if mean < 40.0 {
            let index = nearest_dense(mean);
            let table_mean = dense_mean(index);
            let bits = stats.samples as f64 * table_mean * std::f64::consts::LOG2_E
                - stats.sum as f64 * log2(table_mean)
                + stats.log2_factorials;
            consider(Model::Dense(index), bits * COUNT_BY_COUNT);
        }
        let (model, bits) = wide_model(stats, mean);
        consider(model, bits * COUNT_BY_COUNT);
    }
    best
}

fn sparse_bits(stats: &Stats, index: usize, count_bits: f64) -> f64 {
    let model = sparse(index);
    let classes: f64 = (0..4).map(|class| stats.classes[class] as f64 * model.class_bits[class]).sum();
    stats.events as f64 * model.event_bits
        + (stats.samples - stats.events) as f64 * model.zero_bits
        + classes
        + stats.classes[3] as f64 * 2.0
        + stats.written_out as f64 * count_bits
        + TAIL_BITS
}

/// The sparse table whose share of positions with a count is nearest to `events / samples`.
fn nearest_sparse(events: u64, samples: u64) -> usize {
    // what a pixel of a whole interval asks for, looked up
    static OF_INTERVAL: LazyLock<Vec<u8>> = LazyLock::new(|| {
        (0..INTERVAL as u64).map(|events| search_nearest(events, INTERVAL as u64) as u8).collect()
    });
    if samples == INTERVAL as u64
        && let Some(&near) = OF_INTERVAL.get(events as usize)
    {
        return near.into();
    }
    search_nearest(events, samples)
}

fn search_nearest(events: u64, samples: u64) -> usize {
    // share of positions with a count, 1 - exp(-rate), for every table
    static SHARES: LazyLock<[f64; SPARSE_TABLES]> = LazyLock::new(|| {
        std::array::from_fn(|index| 1.0 - 1.0 / crate::count_code::numbers::exp(sparse_rate(index)))
    });
    // for shares by exponent and three bits of mantissa, 2^-32 to 1: the first table that is not below all of them
    const FIRST_KEY: usize = (1023 - 32) << 3;
    let key = |share: f64| (share.to_bits() >> 49) as usize;
    static FIRST: LazyLock<[u8; 32 << 3]> = LazyLock::new(|| {
        std::array::from_fn(|index| {
            let least = f64::from_bits(((FIRST_KEY + index) as u64) << 49);
            SHARES.partition_point(|&table| table < least).min(SPARSE_TABLES - 1) as u8
        })
    });
    let share = events as f64 / samples as f64;
    let mut above = FIRST[key(share).clamp(FIRST_KEY, FIRST_KEY + FIRST.len() - 1) - FIRST_KEY].into();
    while above < SPARSE_TABLES - 1 && SHARES[above] < share {
        above += 1;
    }
    if above > 0 && share * share < SHARES[above] * SHARES[above - 1] { above - 1 } else { above }
}

/// The dense table of the nearest mean, in units of its own spacing.
fn nearest_dense(mean: f64) -> usize {
    let root = 20.0 * mean.sqrt();
    let index = ((root - 16.0) / 3.0 + 0.5).floor().max(0.0);
    (index as usize).min(DENSE_TABLES - 1)
}

/// The wide model with the centre and spread of these counts.
fn wide_model(stats: &Stats, mean: f64) -> (Model, f64) {
    let samples = stats.samples as f64;
    let variance = (stats.squares / samples - mean * mean).max(1.0);
    let deviation = variance.sqrt();
    let (mut shift, mut table) = (0, 0);
    let mut cell = 1.0;
    while shift < 31 && wide_deviation(table) * cell < deviation {
        table += 1;
        if table == WIDE_TABLES {
            (shift, table) = (shift + 1, 0);
            cell *= 2.0;
        }
    }
    let used = wide_deviation(table) * cell;
    // log2(sigma sqrt(2 pi)) + (variance / sigma^2) log2(e) / 2
    let bits = log2(used) + 1.325_748_064_736_159 + 0.721_347_520_444_481_7 * variance / (used * used);
    (Model::Wide { centre: (mean + 0.5) as u32, shift, table }, samples * bits + 40.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_sparse_table_is_the_one_a_plain_search_finds() {
        let shares: Vec<f64> = (0..SPARSE_TABLES)
            .map(|index| 1.0 - 1.0 / crate::count_code::numbers::exp(sparse_rate(index)))
            .collect();
        let samples = [1, 7, 64, 1000, 1024, 5 * 1024, (GROUP_PIXELS * INTERVAL) as u64];
        for samples in samples {
            for events in (1..=samples).step_by(1 + samples as usize / 3000) {
                let share = events as f64 / samples as f64;
                let above = shares.partition_point(|&table| table < share).min(SPARSE_TABLES - 1);
                let lower = above > 0 && share * share < shares[above] * shares[above - 1];
                assert_eq!(
                    search_nearest(events, samples),
                    above - usize::from(lower),
                    "{events} of {samples}"
                );
            }
        }
    }
}
