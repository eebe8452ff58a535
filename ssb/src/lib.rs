//! Single-sideband ptychography: from the scan images of bright-field pixels to a phase image.
//!
//! **In**: the mean pattern with the detector's pixel mask; counts `[pixel][scan_col]`, one scan row at a time, in any
//! order; [`Optics`](kernels::types::Optics). **Out**: a [`Reconstruction`]: object wave, phase \[rad\], least-squares
//! phase \[rad\], transfer function, on request the mean phase and the phase-variance loss.
//!
//! Read first: [`bright_field::bright_field`], which says what pixels are used and where they are, and
//! [`reconstruct::reconstruct`], which turns row transforms into a result. Between them stands [`LiveSpectra`], to which
//! each scan row is added as it comes.
//!
//! ```
//! use kernels::Cpu;
//! use kernels::types::{Aberrations, Degrees, DetectorShape, Kilovolts, Milliradians, Nanometres, Optics, ScanShape};
//! use ssb::bright_field::{Pattern, Pins, bright_field};
//! use ssb::{LiveSpectra, Options, reconstruct::reconstruct};
//!
//! // a disk of 10 counts on a 24 x 24 detector, the same in each of 4 x 6 frames
//! let detector = DetectorShape { rows: 24, cols: 24 };
//! let scan = ScanShape { rows: 4, cols: 6 };
//! let is_bright = |pixel: usize| (pixel / 24).abs_diff(12).pow(2) + (pixel % 24).abs_diff(11).pow(2) <= 49;
//! let totals: Vec<u64> = (0..576).map(|pixel| if is_bright(pixel) { 240 } else { 0 }).collect();
//! let pattern = Pattern { detector, totals: &totals, frames: 24, pixel_mask: &[0; 576], marker_hits: None };
//! let field = bright_field(&pattern, Milliradians(30.0), &Pins::default())?;
//! assert_eq!(field.centre, [12.0, 11.0]);
//!
//! let mut spectra = LiveSpectra::new(Cpu, scan, field.pixels.clone())?;
//! for scan_row in 0..scan.rows {
//!     spectra.add_row(scan_row, &vec![10; field.pixels.len() * scan.cols], &[true; 6])?;
//! }
//! let optics = Optics {
//!     voltage: Kilovolts(300.0),
//!     semi_angle: Milliradians(30.0),
//!     scan_step: [Nanometres(0.016); 2],
//!     detector_sampling: field.sampling,
//!     rotation: Degrees(0.0),
//!     transpose: false,
//!     aberrations: Aberrations::default(),
//! };
//! let result = reconstruct(&spectra, &field, &optics, &Options::default())?;
//! assert!(result.phase.iter().all(|&phase| phase.abs() < 1e-6)); // nothing there
//! # Ok::<(), ssb::SsbError>(())
//! ```
//!
//! Conventions: (row, col) everywhere; the probe is A exp(-i chi), C10 positive for overfocus; aberration angles in the
//! scan frame; G is an unnormalised forward transform with exp(-2 pi i q . R); gamma = P(k-q) P*(k) - P(k) P*(k+q).

pub mod bright_field;
mod error;
mod gather;
pub mod live;
mod probe;
pub mod reconstruct;
mod spectra;
mod warning;

pub use bright_field::{BrightField, Pattern, Pins};
pub use error::SsbError;
pub use live::{
    Again, Known, LiveResult, LiveSettings, LiveSsb, Microscope, Preview, Rows, reconstruct_again,
};
pub use probe::probe_radius;
pub use reconstruct::{Moments, Options, Reconstruction, SsbDevice, Timings};
pub use spectra::LiveSpectra;
pub use warning::{Warning, complete_step, scan_warnings, warnings};
