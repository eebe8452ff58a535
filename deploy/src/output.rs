//! What a run leaves behind: every image as `.npy` (exact), `.tiff` (32-bit float, calibrated) and `.png` (to look
//! at), each written beside its final name and renamed when it is whole.
//!
//! Read [`Image`] and [`write_image`] first.

mod atomic;
mod image;
mod npy;
mod picture;
mod tiff_file;

pub use atomic::{PendingFile, write_atomically};
pub use image::{Axes, Image, Quantity, Values};
pub use npy::{NpyElement, npy_bytes};
pub use picture::{Contrast, Scale, picture_png};
pub use tiff_file::tiff_bytes;

use std::path::Path;

use anyhow::Context;

/// Endings of the three files of an image: exact, calibrated, to look at.
pub const EXTENSIONS: [&str; 3] = ["npy", "tiff", "png"];

/// Writes an image into `dir`, under temporary names: `STEM.npy`, `STEM.tiff` and `STEM.png` wait to be published.
///
/// # Errors
/// A file cannot be written; the text names it.
pub fn write_image(dir: &Path, image: &Image) -> anyhow::Result<[PendingFile; 3]> {
    let stem = image.quantity().stem();
    let [npy, tiff, png] = EXTENSIONS.map(|extension| dir.join(format!("{stem}.{extension}")));
    Ok([
        PendingFile::write(&npy, &image.npy().with_context(|| format!("{stem}.npy"))?)?,
        PendingFile::write(&tiff, &tiff_bytes(image).with_context(|| format!("{stem}.tiff"))?)?,
        PendingFile::write(&png, &picture_png(image).with_context(|| format!("{stem}.png"))?)?,
    ])
}
