//! What a run leaves behind: every image as `.npy` (exact), `.tiff` (32-bit float, calibrated) and `.png` (to look
//! at), each written beside its final name and renamed when it is whole.
//!
//! Read [`Image`] and [`write_image`] first.

mod atomic;
mod image;
mod npy;
mod picture;
mod tiff_file;

pub use atomic::write_atomically;
pub use image::{Axes, Image, Quantity, Values};
pub use npy::{NpyElement, npy_bytes};
pub use picture::{Contrast, Scale, picture_png};
pub use tiff_file::tiff_bytes;

use std::path::{Path, PathBuf};

use anyhow::Context;

/// Writes `STEM.npy`, `STEM.tiff` and `STEM.png` into `dir`, and returns their paths in that order.
///
/// # Errors
/// A file cannot be written; the text names it.
pub fn write_image(dir: &Path, image: &Image) -> anyhow::Result<[PathBuf; 3]> {
    let stem = image.quantity().stem();
    let path = |extension: &str| dir.join(format!("{stem}.{extension}"));
    let paths = [path("npy"), path("tiff"), path("png")];
    let bytes = [
        image.npy(),
        tiff_bytes(image).with_context(|| format!("{stem}.tiff"))?,
        picture_png(image).with_context(|| format!("{stem}.png"))?,
    ];
    for (path, bytes) in paths.iter().zip(&bytes) {
        write_atomically(path, bytes)?;
    }
    Ok(paths)
}
