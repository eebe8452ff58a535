//! The shared words, the devices and every array operation of sideband.
//!
//! In: compressed frames, counts, scan images. Out: counts, encoded streams, sums, spectra.
//! Nothing here knows files, streams, scans in progress or pictures; everything here runs on a [`Device`].
//!
//! Each operation is a folder: the contract (`<operation>.rs`: trait, preconditions, errors), one file per device
//! (`cpu.rs`), and tests that run on every device. Read [`Device`] first.

#[cfg(test)]
#[macro_use]
mod devices;

pub mod bslz4_decode;
pub mod bslz4_encode;
pub mod correct_spectra;
pub mod count_code;
pub mod cuda;
pub mod decode_counts;
pub mod device;
pub mod encode_counts;
pub mod invert_half_plane;
pub mod lanes;
pub mod object_images;
pub mod phase_moments;
pub mod processor;
pub mod reduce_frames;
pub mod sum_counts;
pub mod transform_rows;
pub mod types;

pub use cuda::{Cuda, CudaUnavailable};
pub use device::{Backend, Cpu, Device, DeviceError, Word};
pub use processor::Processor;
