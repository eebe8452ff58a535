//! What encoding can fail with.

use kernels::encode_counts::EncodeCountsError;

/// What encoding can fail with.
#[derive(Debug, thiserror::Error)]
pub enum EncoderError {
    /// The frames do not fit those before, or the device failed.
    #[error("frames from {first}: {error}")]
    Encode {
        /// Scan position of the first frame at hand.
        first: u64,
        /// What is wrong.
        error: EncodeCountsError,
    },
    /// Scan positions that no scan has.
    #[error("got {count} frames from scan position {first}, expected them to end below 2^64")]
    Position {
        /// First position.
        first: u64,
        /// Number of frames.
        count: u64,
    },
}
