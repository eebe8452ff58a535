//! Pixels that do not count electrons: too many counts, or none.

use std::collections::HashSet;

use kernels::types::DetectorShape;
use serde::{Deserialize, Serialize};

use super::args::SimulateArgs;
use super::counts::{generator, uniform};

/// A pixel that counts too much.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotPixel {
    /// Detector row.
    pub row: usize,
    /// Detector column.
    pub col: usize,
    /// Counts a frame on average, on top of the electrons.
    pub mean_counts: f64,
    /// Whether `pixel_mask` lists it.
    pub in_pixel_mask: bool,
}

/// A pixel that counts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadPixel {
    /// Detector row.
    pub row: usize,
    /// Detector column.
    pub col: usize,
    /// Whether `pixel_mask` lists it.
    pub in_pixel_mask: bool,
}

/// All bad pixels of a detector.
#[derive(Clone, Debug)]
pub(super) struct BadPixels {
    pub(super) hot: Vec<HotPixel>,
    pub(super) dead: Vec<DeadPixel>,
    shape: DetectorShape,
}

/// Purpose of the generator that places them.
const PLACES: u64 = 0xbad;

/// `pixel_mask` values: DECTRIS, bit 1 dead, bit 3 noisy.
const DEAD: u32 = 2;
const NOISY: u32 = 8;

impl BadPixels {
    /// Places the pixels asked for, all different. A hot pixel counts 3 % of the dose when listed, 1.5 % when not.
    pub(super) fn place(args: &SimulateArgs) -> Self {
        let shape = args.detector_shape;
        let mut random = generator(args.seed, &[PLACES]);
        let mut taken = HashSet::new();
        let mut place = || {
            loop {
                let pixel = (uniform(&mut random) * shape.pixels() as f64) as usize;
                if taken.insert(pixel) {
                    return (pixel / shape.cols, pixel % shape.cols);
                }
            }
        };
        let mut hot = Vec::new();
        for (number, share, in_pixel_mask) in
            [(args.hot_pixels, 0.03, true), (args.unlisted_hot_pixels, 0.015, false)]
        {
            for _ in 0..number {
                let (row, col) = place();
                let mean_counts = (args.electrons_per_frame * share).max(1.0);
                hot.push(HotPixel { row, col, mean_counts, in_pixel_mask });
            }
        }
        let dead = (0..args.dead_pixels)
            .map(|_| place())
            .map(|(row, col)| DeadPixel { row, col, in_pixel_mask: true })
            .collect();
        Self { hot, dead, shape }
    }

    /// `pixel_mask`, `[det_row][det_col]`.
    pub(super) fn mask(&self) -> Vec<u32> {
        let mut mask = vec![0; self.shape.pixels()];
        for pixel in self.hot.iter().filter(|pixel| pixel.in_pixel_mask) {
            mask[pixel.row * self.shape.cols + pixel.col] |= NOISY;
        }
        for pixel in self.dead.iter().filter(|pixel| pixel.in_pixel_mask) {
            mask[pixel.row * self.shape.cols + pixel.col] |= DEAD;
        }
        mask
    }

    /// Changes the mean counts of a frame to what these pixels count.
    pub(super) fn apply(&self, means: &mut [f32]) {
        let cols = self.shape.cols;
        for pixel in &self.hot {
            means[pixel.row * cols + pixel.col] += pixel.mean_counts as f32;
        }
        for pixel in &self.dead {
            means[pixel.row * cols + pixel.col] = 0.0;
        }
    }
}
