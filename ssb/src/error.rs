//! What single-sideband ptychography refuses.

use kernels::DeviceError;
use kernels::correct_spectra::{CorrectError, ModelError};
use kernels::object_images::ObjectError;
use kernels::phase_moments::MomentsError;
use kernels::transform_rows::TransformError;
use kernels::types::{DetectorShape, ScanShape};

/// One enum for the crate.
#[derive(Debug, thiserror::Error)]
pub enum SsbError {
    /// A pattern or mask that does not have the detector's size.
    #[error("{what} of {got} pixels, expected {expected} for a {detector} detector")]
    WrongDetector {
        /// Which array.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The detector's.
        expected: usize,
        /// The detector.
        detector: DetectorShape,
    },
    /// Nothing bright on the detector: beam blanked, shutter closed, vacuum without counts, or all pixels bad.
    #[error(
        "no bright-field disk: {good_pixels} good pixels with {mean_counts:.6} counts a frame on average, brightest \
         {brightest:.6}{}; {}",
        saturated_words(*saturated),
        if *brightest > 0.0 && *brightest <= 2.0 * *mean_counts {
            "all are about as bright: may the disk fill the whole detector (camera length)?"
        } else {
            "is the beam blanked?"
        }
    )]
    NoDisk {
        /// Pixels that are neither masked nor hot.
        good_pixels: usize,
        /// Their mean.
        mean_counts: f64,
        /// The brightest of them.
        brightest: f64,
        /// Pixels left out because they showed the marker.
        saturated: usize,
    },
    /// A disk of too few good pixels to reconstruct from.
    #[error(
        "bright field of {got} good pixels around ({row:.2}, {col:.2}) px with a radius of {radius_px:.2} px, expected \
         at least {at_least}{}",
        saturated_words(*saturated)
    )]
    TooFewPixels {
        /// Good pixels inside the radius.
        got: usize,
        /// The fewest that are accepted.
        at_least: usize,
        /// Centre row.
        row: f64,
        /// Centre column.
        col: f64,
        /// Radius.
        radius_px: f64,
        /// Pixels left out because they showed the marker.
        saturated: usize,
    },
    /// A pinned value that makes no sense.
    #[error("{quantity} pinned at {got}, expected {expected}")]
    BadPin {
        /// Which quantity, with its unit.
        quantity: &'static str,
        /// The value given.
        got: f64,
        /// What would do.
        expected: &'static str,
    },
    /// The semi-angle puts the disk beyond what the detector sampling allows.
    #[error("semi-convergence angle is {got_mrad} mrad, expected more than 0 and less than 1000 mrad")]
    SemiAngle {
        /// The value given.
        got_mrad: f64,
    },
    /// A scan row that does not exist.
    #[error("scan row {got}, expected less than {rows}")]
    NoSuchRow {
        /// The row given.
        got: usize,
        /// Rows of the scan.
        rows: usize,
    },
    /// A scan row that came twice.
    #[error("scan row {row} came twice")]
    RepeatedRow {
        /// The row.
        row: usize,
    },
    /// Nothing was measured.
    #[error("no position of the {scan} scan was received")]
    Empty {
        /// The scan.
        scan: ScanShape,
    },
    /// A list that does not match the pixels of the spectra.
    #[error("{what}: got {got}, expected {expected}")]
    WrongLength {
        /// Which list.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The length needed.
        expected: usize,
    },
    /// The source of pixel rows failed.
    #[error("pixel rows of scan row {row}: {why}")]
    Source {
        /// The scan row asked for.
        row: usize,
        /// The source's own words.
        why: String,
    },
    /// The spectra would not fit in the memory they may take.
    #[error(
        "the spectra of {pixels} bright-field pixels over a {scan} scan take {:.1} GB of memory, {:.1} GB are free for \
         them; give a smaller bright field (--bf-radius-px) or use a machine with more memory",
        *bytes as f64 / 1e9,
        *most as f64 / 1e9
    )]
    SpectraTooLarge {
        /// Bright-field pixels.
        pixels: usize,
        /// The scan.
        scan: ScanShape,
        /// Bytes they would take.
        bytes: u64,
        /// Bytes they may take.
        most: u64,
    },
    /// Optics that no model can be built from.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The row transform failed.
    #[error(transparent)]
    Transform(#[from] TransformError),
    /// The correction failed.
    #[error(transparent)]
    Correct(#[from] CorrectError),
    /// The moments failed.
    #[error(transparent)]
    Moments(#[from] MomentsError),
    /// The inverse transform failed.
    #[error(transparent)]
    Images(#[from] ObjectError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// What an error adds about pixels that showed the marker of a saturated pixel.
fn saturated_words(pixels: usize) -> String {
    match pixels {
        0 => String::new(),
        some => format!(
            " ({some} pixels more are left out: they showed the largest count, so they were saturated, or masked by the detector)"
        ),
    }
}
