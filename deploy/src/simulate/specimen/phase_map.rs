//! A phase given as a picture: `.npy` in radians, or a grey PNG from 0 to a largest phase.

mod npy;
mod png_file;

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, ensure};

use super::SmoothPhase;

/// A phase on square pixels, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::simulate) struct PhaseMap {
    pub(in crate::simulate) rows: usize,
    pub(in crate::simulate) cols: usize,
    pub(in crate::simulate) phase_rad: Vec<f64>,
}

/// Most pixels of a map.
const MOST_PIXELS: usize = 1 << 28;

/// Largest phase of a map, either sign: micrometres of gold. Beyond, single precision no longer tells phases apart.
pub(in crate::simulate) const MOST_PHASE_RAD: f64 = 1000.0;

/// Reads a map by the ending of its name; a PNG's full scale becomes `white_rad`.
///
/// # Errors
/// The file and what is wrong with it: no regular file, more bytes than its header accounts for, more than
/// [`MOST_PIXELS`], a phase that is not finite or beyond [`MOST_PHASE_RAD`] (the first, by its place), memory that
/// cannot be had.
pub(in crate::simulate) fn read_phase_map(path: &Path, white_rad: f64) -> anyhow::Result<PhaseMap> {
    let (file, identity) =
        ingest::open_regular(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let file = BufReader::new(file);
    let read =
        match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("npy") => npy::read(file, identity.bytes),
            Some("png") => png_file::read(file, identity.bytes, white_rad),
            _ => Err(anyhow::anyhow!("expected a name that ends in .npy or .png")),
        };
    read.and_then(PhaseMap::checked).with_context(|| format!("{}", path.display()))
}

fn check_pixels(rows: usize, cols: usize) -> anyhow::Result<()> {
    let pixels = rows.saturating_mul(cols);
    ensure!(
        (1..=MOST_PIXELS).contains(&pixels),
        "got {rows} x {cols} pixels, expected 1 to {MOST_PIXELS} in all"
    );
    Ok(())
}

impl PhaseMap {
    /// The map, if it has one phase a pixel that a specimen can have.
    fn checked(self) -> anyhow::Result<Self> {
        let (rows, cols, got) = (self.rows, self.cols, self.phase_rad.len());
        ensure!(got == rows * cols, "got {got} phases, expected {rows} x {cols}");
        // No number is not at most anything.
        let is_absurd = |phase: &f64| !matches!(phase.abs(), 0.0..=MOST_PHASE_RAD);
        if let Some(at) = self.phase_rad.iter().position(is_absurd) {
            anyhow::bail!(
                "row {}, column {}: got a phase of {:e} rad, expected {MOST_PHASE_RAD} rad at most, either sign",
                at / cols,
                at % cols,
                self.phase_rad[at]
            );
        }
        Ok(self)
    }

    /// The map as a smooth phase: its middle in the middle of the scan, pixels `pixel_m` wide, cubic (Catmull-Rom)
    /// between them, its edge carried on outwards.
    pub(in crate::simulate) fn smooth(self, pixel_m: f64) -> SmoothPhase {
        Box::new(move |row_m, col_m| {
            let (row, row_weights) = taps(row_m / pixel_m + (self.rows as f64 - 1.0) / 2.0);
            let (col, col_weights) = taps(col_m / pixel_m + (self.cols as f64 - 1.0) / 2.0);
            let mut phase = 0.0;
            for (row_tap, row_weight) in row_weights.into_iter().enumerate() {
                for (col_tap, col_weight) in col_weights.into_iter().enumerate() {
                    let at_row = (row + row_tap as i64).clamp(0, self.rows as i64 - 1) as usize;
                    let at_col = (col + col_tap as i64).clamp(0, self.cols as i64 - 1) as usize;
                    phase += row_weight * col_weight * self.phase_rad[at_row * self.cols + at_col];
                }
            }
            phase
        })
    }
}

/// First of four pixels, and their weights.
fn taps(position: f64) -> (i64, [f64; 4]) {
    let floor = position.floor();
    let t = position - floor;
    let weights = [
        0.5 * (-t + 2.0 * t * t - t * t * t),
        0.5 * (2.0 - 5.0 * t * t + 3.0 * t * t * t),
        0.5 * (t + 4.0 * t * t - 3.0 * t * t * t),
        0.5 * (-t * t + t * t * t),
    ];
    (floor as i64 - 1, weights)
}

#[cfg(test)]
mod tests;
