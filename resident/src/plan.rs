//! How a sum over detector pixels is answered cheaply: from frame totals, whole tiles, and the pixels in which the
//! weights differ from those.
//!
//! A plan is a tree: the frame total carries one weight for every pixel, a 32x32 tile corrects it for its pixels, an
//! 8x8 tile again, and single pixels last, so that
//! sum = total w + sum over tiles (tile w) + sum over pixels (count w), with the weights of the levels adding up to the
//! weight asked for. The complement (everything minus what is left out) is the same tree with another root.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use kernels::count_code::GROUP_PIXELS;
use kernels::types::DetectorShape;

/// What a coded group of pixels costs, in tile streams: it is decoded whole, and decoding is slower than unpacking.
const GROUP_COST: u64 = 24;

/// A weight that levels of a plan can share out exactly.
pub(crate) trait Weight: Copy + PartialEq + Default + Send + Sync {
    /// Whether a level may carry a weight that a lower level takes away again. Exact for integers; floating-point
    /// weights stay undivided, so that the error is bounded by the sum of what is asked for.
    const DIVISIBLE: bool;
    /// What identifies a value.
    type Key: Hash + Eq + Ord;
    /// The identity of this value.
    fn key(self) -> Self::Key;
    /// What must be added to `base` to give `self`.
    fn beyond(self, base: Self) -> Self;
}

impl Weight for i64 {
    const DIVISIBLE: bool = true;
    type Key = i64;
    fn key(self) -> i64 {
        self
    }
    /// Modulo 2^64: the levels of a plan then add up modulo 2^64.
    fn beyond(self, base: Self) -> Self {
        self.wrapping_sub(base)
    }
}

impl Weight for i128 {
    const DIVISIBLE: bool = true;
    type Key = i128;
    fn key(self) -> i128 {
        self
    }
    fn beyond(self, base: Self) -> Self {
        self - base
    }
}

impl Weight for f64 {
    const DIVISIBLE: bool = false;
    type Key = u64;
    fn key(self) -> u64 {
        (self + 0.0).to_bits() // -0.0 and 0.0 are one weight
    }
    fn beyond(self, base: Self) -> Self {
        debug_assert!(base == 0.0);
        self
    }
}

/// Which sums to read and what to multiply each with. Entries are in ascending order, weights are not zero.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan<W> {
    /// Weight of the frame total.
    pub(crate) total: Option<W>,
    /// 32x32 tiles, `tile_row * tile_cols + tile_col`.
    pub(crate) tiles32: Vec<(usize, W)>,
    /// 8x8 tiles, `tile_row * tile_cols + tile_col`.
    pub(crate) tiles8: Vec<(usize, W)>,
    /// Pixels, `det_row * det_cols + det_col`.
    pub(crate) pixels: Vec<(u32, W)>,
}

impl<W: Weight> Plan<W> {
    /// The cheapest plan for weights `[det_row][det_col]`; `weights` has one for every pixel.
    pub(crate) fn new(detector: DetectorShape, weights: &[W]) -> Self {
        debug_assert_eq!(weights.len(), detector.pixels());
        let planner = Planner { detector, weights };
        let zero = W::default();
        let mut roots = vec![zero];
        if W::DIVISIBLE {
            roots.extend(most_frequent(weights.iter().copied()));
        } else if let Some(&first) = weights.first()
            && weights.iter().all(|&weight| weight == first)
        {
            roots = vec![first];
        }
        let plans = roots.into_iter().map(|root| planner.from_root(root));
        plans.min_by_key(Plan::cost).unwrap_or(Self {
            total: None,
            tiles32: vec![],
            tiles8: vec![],
            pixels: vec![],
        })
    }

    /// The plan for one weight on every pixel.
    pub(crate) fn total(weight: W) -> Self {
        Self::empty(weight)
    }

    fn empty(root: W) -> Self {
        let total = (root != W::default()).then_some(root);
        Self { total, tiles32: Vec::new(), tiles8: Vec::new(), pixels: Vec::new() }
    }

    /// What reading costs, in tile streams; the frame totals are kept decoded and cost nothing.
    pub(crate) fn cost(&self) -> u64 {
        (self.tiles32.len() + self.tiles8.len() + self.pixels.len()) as u64
            + num_groups(self.pixels.iter().map(|&(pixel, _)| pixel)) * GROUP_COST
    }

    fn append(&mut self, mut other: Self) {
        self.tiles32.append(&mut other.tiles32);
        self.tiles8.append(&mut other.tiles8);
        self.pixels.append(&mut other.pixels);
    }
}

struct Planner<'a, W> {
    detector: DetectorShape,
    weights: &'a [W],
}

impl<W: Weight> Planner<'_, W> {
    #[expect(clippy::wrong_self_convention, reason = "the plan grows from its root")]
    fn from_root(&self, root: W) -> Plan<W> {
        let mut plan = Plan::empty(root);
        for (tile, rows, cols) in tiles(self.detector, 32, 0..self.detector.rows, 0..self.detector.cols) {
            plan.append(self.tile32(tile, rows, cols, root));
        }
        plan.pixels.sort_unstable_by_key(|&(pixel, _)| pixel);
        plan.tiles8.sort_unstable_by_key(|&(tile, _)| tile);
        plan
    }

    /// The cheapest plan for one 32x32 tile when every pixel of it already carries `base`.
    fn tile32(&self, tile: usize, rows: Range<usize>, cols: Range<usize>, base: W) -> Plan<W> {
        let mut cheapest: Option<Plan<W>> = None;
        for carried in self.candidates(&rows, &cols, base) {
            let mut plan = Plan::empty(W::default());
            if carried != base {
                plan.tiles32.push((tile, carried.beyond(base)));
            }
            for (child, rows, cols) in tiles(self.detector, 8, rows.clone(), cols.clone()) {
                plan.append(self.tile8(child, rows, cols, carried));
            }
            if cheapest.as_ref().is_none_or(|known| plan.cost() < known.cost()) {
                cheapest = Some(plan);
            }
        }
        cheapest.unwrap_or_else(|| Plan::empty(W::default()))
    }

    /// The cheapest plan for one 8x8 tile when every pixel of it already carries `base`.
    fn tile8(&self, tile: usize, rows: Range<usize>, cols: Range<usize>, base: W) -> Plan<W> {
        let mut cheapest: Option<(u64, W)> = None;
        for carried in self.candidates(&rows, &cols, base) {
            let differing = self.within(&rows, &cols).filter(|&(_, weight)| weight != carried);
            let groups = num_groups(differing.clone().map(|(pixel, _)| pixel));
            let cost = differing.count() as u64 + groups * GROUP_COST + u64::from(carried != base);
            if cheapest.is_none_or(|(known, _)| cost < known) {
                cheapest = Some((cost, carried));
            }
        }
        let carried = cheapest.map_or(base, |(_, carried)| carried);
        let mut plan = Plan::empty(W::default());
        if carried != base {
            plan.tiles8.push((tile, carried.beyond(base)));
        }
        let differing = self.within(&rows, &cols).filter(|&(_, weight)| weight != carried);
        plan.pixels.extend(differing.map(|(pixel, weight)| (pixel, weight.beyond(carried))));
        plan
    }

    /// The weights worth carrying in a tile: what is carried already, and what most of its pixels have.
    fn candidates(&self, rows: &Range<usize>, cols: &Range<usize>, base: W) -> Vec<W> {
        let mut candidates = vec![base];
        let common = most_frequent(self.within(rows, cols).map(|(_, weight)| weight));
        let constant = |value| self.within(rows, cols).all(|(_, weight)| weight == value);
        candidates.extend(common.filter(|&value| value != base && (W::DIVISIBLE || constant(value))));
        candidates
    }

    /// Pixels of a tile and their weights.
    fn within(&self, rows: &Range<usize>, cols: &Range<usize>) -> impl Iterator<Item = (u32, W)> + Clone {
        let cols = cols.clone();
        rows.clone().flat_map(move |row| {
            cols.clone().map(move |col| {
                let pixel = row * self.detector.cols + col;
                (pixel as u32, self.weights[pixel])
            })
        })
    }
}

/// Number of coded groups that pixels lie in, where the pixels of a group follow each other (row by row they do, but for
/// tiles side by side: those are counted twice, which a cost may be).
pub(crate) fn num_groups(pixels: impl Iterator<Item = u32>) -> u64 {
    let (mut groups, mut last) = (0, None);
    for group in pixels.map(|pixel| pixel as usize / GROUP_PIXELS) {
        groups += u64::from(last != Some(group));
        last = Some(group);
    }
    groups
}

/// Tiles of `edge` pixels that start within `rows` x `cols`: index over the detector, rows, columns; cut at the
/// detector's edge. `rows` and `cols` start on a tile.
fn tiles(
    detector: DetectorShape,
    edge: usize,
    rows: Range<usize>,
    cols: Range<usize>,
) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    let tile_cols = detector.cols.div_ceil(edge);
    rows.step_by(edge).flat_map(move |row| {
        cols.clone().step_by(edge).map(move |col| {
            let tile = row / edge * tile_cols + col / edge;
            (tile, row..(row + edge).min(detector.rows), col..(col + edge).min(detector.cols))
        })
    })
}

/// The value that occurs most often; among equals the smallest, so that a plan depends on the weights alone.
fn most_frequent<W: Weight>(weights: impl Iterator<Item = W>) -> Option<W> {
    let mut times: HashMap<W::Key, (u64, W)> = HashMap::new();
    let mut last: Option<(W, u64)> = None; // runs of one value are counted without hashing
    for weight in weights {
        match &mut last {
            Some((value, run)) if *value == weight => *run += 1,
            _ => {
                if let Some((value, run)) = last {
                    times.entry(value.key()).or_insert((0, value)).0 += run;
                }
                last = Some((weight, 1));
            }
        }
    }
    let (value, run) = last?;
    times.entry(value.key()).or_insert((0, value)).0 += run;
    times
        .into_iter()
        .min_by(|a, b| b.1.0.cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)))
        .map(|(_, (_, value))| value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The weight of every pixel as the levels of a plan add up to it.
    fn weights_of(detector: DetectorShape, plan: &Plan<i64>) -> Vec<i64> {
        let mut weights = vec![plan.total.unwrap_or(0); detector.pixels()];
        for (edge, entries) in [(32, &plan.tiles32), (8, &plan.tiles8)] {
            for (tile, rows, cols) in tiles(detector, edge, 0..detector.rows, 0..detector.cols) {
                for &(_, weight) in entries.iter().filter(|entry| entry.0 == tile) {
                    for row in rows.clone() {
                        for col in cols.clone() {
                            let held = &mut weights[row * detector.cols + col];
                            *held = held.wrapping_add(weight);
                        }
                    }
                }
            }
        }
        for &(pixel, weight) in &plan.pixels {
            weights[pixel as usize] = weights[pixel as usize].wrapping_add(weight);
        }
        weights
    }

    fn disc(detector: DetectorShape, radius: f64, inside: i64, outside: i64) -> Vec<i64> {
        let centre = (detector.rows as f64 / 2.0, detector.cols as f64 / 2.0);
        (0..detector.pixels())
            .map(|pixel| {
                let row = (pixel / detector.cols) as f64 - centre.0;
                let col = (pixel % detector.cols) as f64 - centre.1;
                if row.hypot(col) <= radius { inside } else { outside }
            })
            .collect()
    }

    proptest! {
        #[test]
        fn levels_add_up_to_the_weights(
            rows in 1usize..70, cols in 1usize..70, kinds in prop::collection::vec(any::<i64>(), 1..4),
            picks in prop::collection::vec(0usize..4, 70 * 70), run in 1usize..300,
        ) {
            let detector = DetectorShape { rows, cols };
            let weights: Vec<i64> =
                (0..detector.pixels()).map(|pixel| kinds[picks[pixel / run] % kinds.len()]).collect();
            let plan = Plan::new(detector, &weights);
            prop_assert_eq!(weights_of(detector, &plan), weights);
        }
    }

    #[test]
    fn a_full_mask_is_the_frame_total_alone() {
        let plan = Plan::new(DetectorShape { rows: 50, cols: 70 }, &[3i64; 3500]);
        assert_eq!(plan, Plan { total: Some(3), tiles32: vec![], tiles8: vec![], pixels: vec![] });
        let plan = Plan::new(DetectorShape { rows: 50, cols: 70 }, &[0.25; 3500]);
        assert_eq!(plan, Plan { total: Some(0.25), tiles32: vec![], tiles8: vec![], pixels: vec![] });
    }

    #[test]
    fn an_empty_mask_reads_nothing() {
        let plan = Plan::new(DetectorShape { rows: 50, cols: 70 }, &[0i64; 3500]);
        assert_eq!((plan.total, plan.cost()), (None, 0));
    }

    #[test]
    fn one_missing_pixel_is_taken_from_the_total() {
        let mut weights = vec![1i64; 4096];
        weights[77] = 0;
        let plan = Plan::new(DetectorShape { rows: 64, cols: 64 }, &weights);
        assert_eq!((plan.total, plan.pixels), (Some(1), vec![(77, -1)]));
    }

    #[test]
    fn a_disc_and_its_complement_cost_the_same_and_far_less_than_their_pixels() {
        let detector = DetectorShape { rows: 192, cols: 192 };
        let inside = Plan::new(detector, &disc(detector, 48.0, 1, 0));
        let outside = Plan::new(detector, &disc(detector, 48.0, 0, 1));
        assert_eq!(inside.pixels.len(), outside.pixels.len());
        assert!(inside.pixels.len() < 1600, "{} pixels decoded for a disc of 7238", inside.pixels.len());
        assert_eq!(weights_of(detector, &outside), disc(detector, 48.0, 0, 1));
    }

    #[test]
    fn floating_point_weights_are_never_split() {
        let detector = DetectorShape { rows: 64, cols: 64 };
        let weights: Vec<f64> =
            disc(detector, 25.0, 1, 0).iter().map(|&weight| weight as f64 * 0.1).collect();
        let plan = Plan::new(detector, &weights);
        let all = plan.tiles32.iter().chain(&plan.tiles8).map(|entry| entry.1);
        assert!(all.chain(plan.pixels.iter().map(|entry| entry.1)).all(|weight| weight == 0.1));
        assert_eq!(plan.total, None);
        assert!(!plan.tiles8.is_empty());
    }
}
