//! Hot pixels that no mask lists.

use kernels::types::DetectorShape;

use super::median;

/// A hot pixel is this many times brighter than its neighbours.
const FACTOR: f64 = 8.0;
/// and this many standard deviations of Poisson noise on top,
const SIGMAS: f64 = 6.0;
/// and this many counts a frame,
const FLOOR: f64 = 1e-3;
/// and this many times brighter than the third brightest of them: a corner of a sharp disk is not, a pair is.
const ISOLATION: f64 = 2.0;

/// Finds pixels far brighter than the median of the 5 x 5 pixels around them; bad neighbours do not count.
///
/// In: mean counts a frame, `[det_row][det_col]`; pixels known to be bad; the number of frames in the mean. Out: pixel
/// numbers, ascending. Works from about 16 frames on.
///
/// # Panics
/// If `mean` or `bad` does not have one value a pixel.
pub fn find_hot(mean: &[f64], bad: &[bool], detector: DetectorShape, frames: u64) -> Vec<u32> {
    assert!(mean.len() == detector.pixels() && bad.len() == mean.len(), "one value a pixel of {detector}");
    let frames = frames.max(1) as f64;
    let mut hot = Vec::new();
    for row in 0..detector.rows {
        for col in 0..detector.cols {
            let pixel = row * detector.cols + col;
            if bad[pixel] || mean[pixel] <= FLOOR {
                continue;
            }
            let rows = row.saturating_sub(2)..(row + 3).min(detector.rows);
            let cols = col.saturating_sub(2)..(col + 3).min(detector.cols);
            let mut around: Vec<f64> = rows
                .flat_map(|r| cols.clone().map(move |c| r * detector.cols + c))
                .filter(|&near| near != pixel && !bad[near])
                .map(|near| mean[near])
                .collect();
            if around.is_empty() {
                continue;
            }
            around.sort_by(f64::total_cmp);
            let third = around[around.len().saturating_sub(3)];
            let level = median(around);
            let noise = SIGMAS * (level.max(1.0 / frames) / frames).sqrt();
            if mean[pixel] > level * FACTOR + noise + FLOOR && mean[pixel] > ISOLATION * third {
                hot.push(pixel as u32);
            }
        }
    }
    hot
}
