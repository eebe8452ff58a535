//! An image to look at: magnified, coloured, with scale bar, colour bar, and words for all of it.

mod canvas;
mod colour;
mod contrast;
mod font;
mod layout;
mod scale_bar;

pub use contrast::{Contrast, Scale};

use super::Image;
use colour::ColourMap;

use layout::Figure;

/// The bytes of an 8-bit RGB PNG of the image with its scale bar, colour bar and caption.
///
/// The colour map, the limits and the kind of scale stand in the caption and in text chunks of the file. Values that
/// are no number and positions without a frame are hatched, and do not count for the limits.
///
/// # Errors
/// The picture would be larger than a PNG can be, or the memory for it cannot be had.
pub fn picture_png(image: &Image) -> anyhow::Result<Vec<u8>> {
    let values = image.values_seen()?;
    let (map, scale) = ColourMap::of(image.quantity());
    let contrast = Contrast::of(&values, scale)?;
    let figure = Figure::new(image, map, contrast);
    let canvas = figure.draw(&values)?;

    let mut bytes = Vec::new();
    let mut encoder =
        png::Encoder::new(&mut bytes, u32::try_from(canvas.width())?, u32::try_from(canvas.height())?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    for (keyword, text) in figure.text_chunks() {
        encoder.add_text_chunk(keyword.to_owned(), text)?;
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(canvas.bytes())?;
    writer.finish()?;
    Ok(bytes)
}

/// A number as a person writes it: about three digits, no trailing zeros.
fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{value:.2e}");
    }
    let decimals = match size {
        s if s >= 1000.0 || s == 0.0 => 0,
        s => (2 - s.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests;
