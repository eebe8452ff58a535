//! Counts in, exact encoded blocks with their running totals out.
//!
//! In: [`FrameBatch`](kernels::types::FrameBatch)es of any size, in scan order, with gaps. Out: [`Block`]s, each one
//! interval of [`INTERVAL`] scan positions of every detector pixel: entropy-coded count streams, the tile sums that
//! answer masks, totals and moments of every position, the sum of every pixel. Read [`Block`] first, then
//! [`EncodeStage`]. Byte layout: `docs/src/reference/resident-format.md`.

mod block;
pub mod entropy;
mod error;
mod pixel_sums;
mod spatial;
mod stage;

pub use block::{Block, BlockBytes};
pub use error::EncoderError;
pub use pixel_sums::{MarkerHits, PixelSums};
pub use spatial::{LARGE_TILE, SMALL_TILE, SpatialSums, TileSize};
pub use stage::{EncodeCounters, EncodeStage, Encoded, Showing};

/// Scan positions in a block; the last block of a scan may be shorter.
pub const INTERVAL: usize = kernels::count_code::INTERVAL;
