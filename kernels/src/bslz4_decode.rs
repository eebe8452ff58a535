//! Decodes compressed detector frames to counts.
//!
//! In: one frame as the detector wrote it (an HDF5 chunk or the blob of a stream message). Out: its counts, `[row][col]`.
//! Read [`decode_frame`] first, then [`DecodeFrames`].
//!
//! A bitshuffle/LZ4 frame is cut into blocks; a block is an LZ4 stream of bit planes. Each block goes through a scratch of
//! its own size and from there, transposed, into the output. Planes that are all zero cost nothing but the look at them.
//!
//! Format: DECTRIS `compression` (`compression.c`), bitshuffle (K. Masui) and the CBOR tag 56500 note of DECTRIS's
//! `documentation`; LZ4 block format 1.9.4.

mod container;
pub(crate) mod cpu;
mod cuda;
mod error;
mod isa;
mod lz4_block;
mod untranspose;

#[cfg(test)]
mod tests;

pub(crate) use container::{check_plausible, for_each_block};
pub use container::{decode_frame, decode_frame_with};
pub(crate) use cuda::BSLZ4_DECODE;
pub use cuda::StagedFrames;
pub use error::{BlockError, DecodeError};
pub use isa::Isa;
pub(crate) use untranspose::transpose_8x8;

use crate::device::{Device, DeviceError};
use crate::types::{BatchShape, CountBuffer, CountType};

/// How the bytes of a frame are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Plain little-endian counts (stream v1 `<`, unfiltered HDF5 chunks).
    Raw,
    /// Bitshuffle and LZ4 in blocks with a 12-byte header (HDF5 filter 32008, stream v1 `bsNN-lz4<`, stream v2 `bslz4`).
    Bslz4,
    /// LZ4 in blocks with the same header; a block that would not shrink is stored raw (HDF5 filter 32004, stream v2 `lz4`).
    Lz4Framed,
    /// One bare LZ4 block without any header (stream v1 `lz4<`).
    Lz4Block,
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Bslz4 => "bslz4",
            Self::Lz4Framed => "lz4 (framed)",
            Self::Lz4Block => "lz4 (bare block)",
        })
    }
}

/// Frames of a batch that did not decode: their index in the batch, in rising order, and why.
pub type FailedFrames = Vec<(usize, DecodeError)>;

/// Decodes a batch of frames on a device.
pub trait DecodeFrames: Device {
    /// Decodes `frames` into a new buffer, `[frame][row][col]`, in the order given.
    ///
    /// The counts of a frame that fails are zero, and the frame is listed with its index in `frames`; the others are not touched by it.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if `frames` are not `shape.frames` many, [`DeviceError::OutOfMemory`] if the counts do not fit.
    fn decode_frames(
        &self,
        encoding: Encoding,
        frames: &[&[u8]],
        shape: BatchShape,
        count_type: CountType,
    ) -> Result<(CountBuffer<Self>, FailedFrames), DeviceError>;

    /// Decodes `frames` into a buffer that is there already, whatever it held before; its type is the type of the counts.
    ///
    /// The hot form: a pipeline that gets its buffers back allocates nothing for a batch.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if `frames` are not `shape.frames` many or `counts` is not `shape.counts()` long.
    fn decode_frames_into(
        &self,
        encoding: Encoding,
        frames: &[&[u8]],
        shape: BatchShape,
        counts: &mut CountBuffer<Self>,
    ) -> Result<FailedFrames, DeviceError>;
}
