//! Where things stand on the page: title, image with scale bar, colour bar with limits, caption.

use super::canvas::{Canvas, Rgb};
use super::colour::ColourMap;
use super::contrast::Contrast;
use super::font::{Segment, text_segments, text_width};
use super::number;
use super::scale_bar::ScaleBar;
use crate::output::{Axes, Image};

/// The larger side of the image is at least this long on the page.
const SIDE_AT_LEAST: usize = 512;
/// The larger side of the image is at most this long on the page; what is longer is shown in part.
const SIDE_AT_MOST: usize = 16_384;
const INK: Rgb = [32, 34, 38];
const FAINT_INK: Rgb = [105, 110, 118];
const FRAME: Rgb = [60, 62, 66];
const WHITE: Rgb = [255, 255, 255];
const BLACK: Rgb = [0, 0, 0];
const HATCH: [Rgb; 2] = [[150, 150, 150], [205, 205, 205]];

/// A picture laid out, ready to be drawn.
pub(super) struct Figure<'a> {
    image: &'a Image,
    map: ColourMap,
    contrast: Contrast,
    /// Page pixels an image pixel.
    magnification: usize,
    /// Rows and columns of which one is shown, 1 for all.
    every: usize,
    /// Height of a capital in the title.
    cap: f64,
}

impl<'a> Figure<'a> {
    pub(super) fn new(image: &'a Image, map: ColourMap, contrast: Contrast) -> Self {
        let side = image.shape().into_iter().max().unwrap_or(1).max(1);
        let magnification = SIDE_AT_LEAST.div_ceil(side);
        let every = side.div_ceil(SIDE_AT_MOST);
        // Large pictures are looked at from further away.
        let cap = 12.0 * ((side / every * magnification) as f64 / 640.0).clamp(1.0, 4.0);
        Self { image, map, contrast, magnification, every, cap }
    }

    fn small_cap(&self) -> f64 {
        self.cap * 0.8
    }

    fn margin(&self) -> usize {
        (self.cap * 1.5) as usize
    }

    fn title(&self) -> String {
        format!("{} [{}]", self.image.quantity().title(), self.image.quantity().unit())
    }

    fn subtitle(&self) -> String {
        let [rows, cols] = self.image.shape();
        let ([row, col], unit) = self.image.axes().pixel_size();
        let size = match row == col {
            true => format!("{} {unit}", number(row)),
            false => format!("{} x {} {unit}", number(row), number(col)),
        };
        match self.image.axes() {
            Axes::Scan { step: Some(_) } => format!("{rows} x {cols} positions, step {size}"),
            Axes::Scan { step: None } => format!("{rows} x {cols} positions, step not known"),
            Axes::Detector { sampling: Some(_) } => format!("{rows} x {cols} pixels of {size}"),
            Axes::Detector { sampling: None } => format!("{rows} x {cols} pixels"),
        }
    }

    fn caption(&self) -> String {
        let part = match self.every {
            1 => String::new(),
            every => format!(", one row and column of {every} shown"),
        };
        format!("{}, {}{part}", self.map.name(), self.contrast.described())
    }

    fn hatched(&self) -> Option<String> {
        let missing = usize::try_from(self.image.num_missing()).unwrap_or(usize::MAX);
        let no_value = self.image.values().len().saturating_sub(self.contrast.num_finite + missing);
        match (missing, no_value) {
            (0, 0) => None,
            (0, some) => Some(format!("hatched: no value ({some} pixels)")),
            (missing, 0) => Some(format!("hatched: {missing} positions missing")),
            (missing, some) => Some(format!("hatched: {missing} positions missing, {some} without a value")),
        }
    }

    /// What the text chunks of the file say.
    pub(super) fn text_chunks(&self) -> Vec<(&'static str, String)> {
        let ([row, col], unit) = self.image.axes().pixel_size();
        let mut chunks = vec![
            ("Title", self.title()),
            ("Software", concat!("sideband ", env!("CARGO_PKG_VERSION")).to_owned()),
            ("Colour map", self.map.name().to_owned()),
            (
                "Limits",
                format!(
                    "{} to {} {} ({})",
                    self.contrast.low,
                    self.contrast.high,
                    self.image.quantity().unit(),
                    self.contrast.described()
                ),
            ),
            (
                "Pixel size",
                match self.every {
                    1 => {
                        format!("row {row} {unit}, col {col} {unit}; magnified {} times", self.magnification)
                    }
                    every => format!("row {row} {unit}, col {col} {unit}; one of {every} shown"),
                },
            ),
        ];
        chunks.extend(self.hatched().map(|hatched| ("Hatched", hatched)));
        chunks
    }

    /// Draws the page; `values` are those of the image.
    ///
    /// # Errors
    /// The memory for the page cannot be had.
    pub(super) fn draw(&self, values: &[f64]) -> anyhow::Result<Canvas> {
        let [rows, cols] = self.image.shape();
        let shown = |side: usize| side.div_ceil(self.every) * self.magnification;
        let (image_width, image_height) = (shown(cols), shown(rows));
        let (cap, small, margin) = (self.cap, self.small_cap(), self.margin());
        let texts = [(self.title(), cap), (self.subtitle(), small), (self.caption(), small)];
        let text_room =
            texts.iter().map(|(text, cap)| text_width(text, *cap).ceil() as usize).max().unwrap_or(0);
        let inner = image_width.max(text_room);
        let title_height = (cap + small * 3.0) as usize;
        let bar_top = margin + title_height + image_height + (small * 1.4) as usize;
        let bar_height = cap as usize;
        let caption_lines = if self.hatched().is_some() { 2.0 } else { 1.0 };
        let height = bar_top + bar_height + (small * (3.4 + 1.9 * caption_lines)) as usize + margin / 2;
        let mut canvas = Canvas::white(inner + 2 * margin, height)?;

        let left = margin as f64;
        self.write(&mut canvas, &self.title(), [left, margin as f64], cap, INK);
        self.write(&mut canvas, &self.subtitle(), [left, margin as f64 + cap + small], small, FAINT_INK);
        let top = margin + title_height;
        self.draw_values(&mut canvas, values, margin, top);
        self.draw_scale_bar(&mut canvas, margin, top + image_height, image_height);
        self.draw_colour_bar(&mut canvas, margin, bar_top, inner, bar_height);
        let caption_top = (bar_top + bar_height) as f64 + small * 3.2;
        self.write(&mut canvas, &self.caption(), [left, caption_top], small, FAINT_INK);
        if let Some(hatched) = self.hatched() {
            self.write(&mut canvas, &hatched, [left, caption_top + small * 1.9], small, FAINT_INK);
        }
        Ok(canvas)
    }

    fn write(&self, canvas: &mut Canvas, text: &str, [x, y]: [f64; 2], cap: f64, colour: Rgb) {
        canvas.strokes(&text_segments(text, x, y, cap), pen(cap), colour);
    }

    /// Every value as a square; what is no number as a hatched one.
    fn draw_values(&self, canvas: &mut Canvas, values: &[f64], left: usize, top: usize) {
        let [_, cols] = self.image.shape();
        let size = self.magnification;
        let shown = values.chunks(cols.max(1)).step_by(self.every).enumerate().flat_map(|(row, values)| {
            values.iter().step_by(self.every).enumerate().map(move |(col, value)| (row, col, value))
        });
        for (row, col, value) in shown {
            let (x, y) = (left + col * size, top + row * size);
            match self.contrast.place(*value) {
                Some(place) => canvas.fill(x, y, size, size, self.map.colour(place)),
                None => {
                    for (row, col) in (0..size * size).map(|at| (y + at / size, x + at % size)) {
                        canvas.set(col, row, HATCH[(row + col) / 4 % 2]);
                    }
                }
            }
        }
    }

    /// A white bar with a dark rim in the lower left corner, its length above it.
    fn draw_scale_bar(&self, canvas: &mut Canvas, left: usize, bottom: usize, image_height: usize) {
        let cols = self.image.shape()[1];
        let ([_, pixel_size], unit) = self.image.axes().pixel_size();
        let Some(bar) = ScaleBar::of(cols, pixel_size, unit) else { return };
        let cap = self.cap;
        // A strip of a few lines has no room for it.
        if (image_height as f64) < cap * 4.0 {
            return;
        }
        let length = bar.length_px * self.magnification as f64 / self.every as f64;
        let (x, y) = (left as f64 + cap, bottom as f64 - cap * 1.2);
        let line: [Segment; 1] = [[[x, y], [x + length, y]]];
        let label_width = text_width(&bar.label, cap);
        let label_x = (x + (length - label_width) / 2.0).max(left as f64 + cap * 0.6);
        let label = text_segments(&bar.label, label_x, y - cap * 1.75, cap);
        let thick = cap * 0.2;
        canvas.strokes(&line, thick + cap * 0.13, BLACK);
        canvas.strokes(&label, pen(cap) * 1.15 + cap * 0.16, BLACK);
        canvas.strokes(&line, thick, WHITE);
        canvas.strokes(&label, pen(cap) * 1.15, WHITE);
    }

    /// The colour bar, with the values at its ends and in its middle.
    fn draw_colour_bar(&self, canvas: &mut Canvas, left: usize, top: usize, width: usize, height: usize) {
        canvas.fill(left - 1, top - 1, width + 2, height + 2, FRAME);
        for x in 0..width {
            let place = x as f64 / (width.max(2) - 1) as f64;
            canvas.fill(left + x, top, 1, height, self.map.colour(place));
        }
        let small = self.small_cap();
        let y = (top + height) as f64 + small * 0.7;
        for place in [0.0, 0.5, 1.0] {
            let label = number(self.contrast.value_at(place));
            let x = left as f64 + (width as f64 - text_width(&label, small)) * place;
            self.write(canvas, &label, [x, y], small, INK);
        }
    }
}

/// Radius of the pen for a text whose capitals are `cap` high.
fn pen(cap: f64) -> f64 {
    cap * 0.062
}
