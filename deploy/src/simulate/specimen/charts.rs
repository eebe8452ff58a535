//! Smooth patterns to learn with.

use std::f64::consts::PI;

use super::SmoothPhase;

/// Largest phase of the chart.
const CHART_RAD: f64 = 0.3;

/// A star of 16 spokes in the middle, three dots of falling width beside it, on a slow slope; sized by the width of the
/// scan \[m\], and faded where the spokes come closer than `finest_m`.
pub(in crate::simulate) fn test_chart(width_m: f64, finest_m: f64) -> SmoothPhase {
    const SPOKES: f64 = 16.0;
    let star_m = 0.36 * width_m;
    let fade_m = SPOKES * finest_m / (2.0 * PI);
    Box::new(move |row, col| {
        let radius = row.hypot(col);
        let spokes = 0.5 + 0.5 * (SPOKES * col.atan2(row)).cos();
        let inside = 0.5 - 0.5 * ((radius - star_m) / (0.04 * width_m)).tanh();
        let resolved = 1.0 - (-(radius / fade_m).powi(2)).exp();
        let star = inside * (resolved * spokes + (1.0 - resolved) * 0.5);
        let dots: f64 = [(-0.42, -0.42, 0.05), (-0.42, 0.42, 0.03), (0.42, -0.42, 0.018)]
            .iter()
            .map(|&(dot_row, dot_col, size)| {
                let squared = (row / width_m - dot_row).powi(2) + (col / width_m - dot_col).powi(2);
                (-squared / (2.0 * size * size)).exp()
            })
            .sum();
        let slope = 0.15 * (PI * row / width_m).sin();
        CHART_RAD * (star + dots + slope)
    })
}
