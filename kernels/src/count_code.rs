//! The count code: how the counts of one interval of scan positions are written as bytes.
//!
//! Shared by [`encode_counts`](crate::encode_counts) and [`decode_counts`](crate::decode_counts). The unit is a
//! *group*, [`GROUP_PIXELS`] consecutive detector pixels over one interval. The bytes of a group are a list of
//! segments (runs of pixels that share a model) and one range-coded stream; a group without any count has no bytes.
//! `docs/src/reference/resident-format.md` gives the layout table by table.

mod coverage;
mod directory;
mod encoded;
pub(crate) mod model;
pub(crate) mod numbers;
pub mod packed;
pub(crate) mod tables;

pub use coverage::Coverage;
pub use directory::Directory;
pub use encoded::{EncodedCounts, EncodedError};

/// Scan positions in one encoded interval; the last one of a scan may be shorter.
pub const INTERVAL: usize = 1024;

/// Consecutive detector pixels (row-major) in one coded group.
pub const GROUP_PIXELS: usize = 16;

/// Groups that share one base offset in the [`Directory`].
pub const SPAN_GROUPS: usize = 16;

/// Bits of probability resolution: the frequencies of every table add up to `1 << SCALE_BITS`.
pub(crate) const SCALE_BITS: u32 = 12;

/// Lower bound of a coder state once a word has been written; states stay below `STATE_LOW << 16`.
pub(crate) const STATE_LOW: u32 = 1 << 15;

/// First byte of a group whose stream has two interleaved states; without it the stream has one.
pub(crate) const TWO_STATES: u8 = 0x7f;

/// Marks the last segment of a group: it takes all remaining pixels.
pub(crate) const LAST_SEGMENT: u8 = 0x80;

/// Number of groups that cover `pixels` detector pixels.
pub fn num_groups(pixels: usize) -> usize {
    pixels.div_ceil(GROUP_PIXELS)
}
