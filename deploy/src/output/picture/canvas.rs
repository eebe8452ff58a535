//! A white RGB page and the two things drawn on it: rectangles and strokes.

use crate::room::filled;

/// Red, green, blue.
pub(super) type Rgb = [u8; 3];

/// A page, row-major, three bytes a pixel.
pub(super) struct Canvas {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Canvas {
    /// A white page.
    ///
    /// # Errors
    /// The memory for it cannot be had.
    pub(super) fn white(width: usize, height: usize) -> anyhow::Result<Self> {
        Ok(Self { width, height, rgb: filled(255, width * height * 3, "the page of a picture")? })
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn height(&self) -> usize {
        self.height
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.rgb
    }

    /// Sets one pixel; outside the page nothing happens.
    pub(super) fn set(&mut self, x: usize, y: usize, colour: Rgb) {
        if x < self.width && y < self.height {
            let at = (y * self.width + x) * 3;
            self.rgb[at..at + 3].copy_from_slice(&colour);
        }
    }

    /// Fills a rectangle, clipped to the page.
    pub(super) fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Rgb) {
        for row in y..(y + height).min(self.height) {
            for col in x..(x + width).min(self.width) {
                self.set(col, row, colour);
            }
        }
    }

    /// Draws line segments with a round pen of `radius` pixels, smooth at the edge; overlaps are not darker.
    pub(super) fn strokes(&mut self, segments: &[[[f64; 2]; 2]], radius: f64, colour: Rgb) {
        let reach = radius + 1.0;
        let bounds = |axis: usize, limit: usize| {
            let ends = || segments.iter().flatten().map(|point| point[axis]);
            let low = ends().fold(f64::INFINITY, f64::min) - reach;
            let high = ends().fold(f64::NEG_INFINITY, f64::max) + reach;
            (low.floor().max(0.0) as usize, (high.ceil().max(0.0) as usize).min(limit))
        };
        let ((left, right), (top, bottom)) = (bounds(0, self.width), bounds(1, self.height));
        if left >= right || top >= bottom {
            return;
        }
        let width = right - left;
        let mut cover = vec![0.0f64; width * (bottom - top)];
        for [from, to] in segments {
            let span = |axis: usize, low: usize, high: usize| {
                let (a, b) = (from[axis].min(to[axis]) - reach, from[axis].max(to[axis]) + reach);
                (a.max(low as f64) as usize, (b.ceil().max(0.0) as usize).min(high))
            };
            let ((x0, x1), (y0, y1)) = (span(0, left, right), span(1, top, bottom));
            for y in y0..y1 {
                for x in x0..x1 {
                    let distance = distance_to_segment([x as f64 + 0.5, y as f64 + 0.5], *from, *to);
                    let pixel = &mut cover[(y - top) * width + x - left];
                    *pixel = pixel.max((radius + 0.5 - distance).clamp(0.0, 1.0));
                }
            }
        }
        for (pixel, cover) in cover.iter().enumerate().filter(|(_, cover)| **cover > 0.0) {
            let at = ((top + pixel / width) * self.width + left + pixel % width) * 3;
            for (below, above) in self.rgb[at..at + 3].iter_mut().zip(colour) {
                *below = (f64::from(*below) * (1.0 - cover) + f64::from(above) * cover).round() as u8;
            }
        }
    }
}

fn distance_to_segment(point: [f64; 2], from: [f64; 2], to: [f64; 2]) -> f64 {
    let along = [to[0] - from[0], to[1] - from[1]];
    let offset = [point[0] - from[0], point[1] - from[1]];
    let length_squared = along[0] * along[0] + along[1] * along[1];
    let at = match length_squared > 0.0 {
        true => ((offset[0] * along[0] + offset[1] * along[1]) / length_squared).clamp(0.0, 1.0),
        false => 0.0,
    };
    (offset[0] - at * along[0]).hypot(offset[1] - at * along[1])
}
