//! What the resident refuses, with what it got and what it expected.

use std::ops::Range;

use kernels::decode_counts::DecodeCountsError;
use kernels::types::{CountType, DetectorShape, ScanGeometry};

/// Why an append or a query was refused. Nothing that is already held is touched by a refusal.
#[derive(Debug, thiserror::Error)]
pub enum ResidentError {
    /// A block does not start on an interval.
    #[error("block at scan position {first}: expected a multiple of {interval} positions")]
    Unaligned {
        /// First scan position of the block.
        first: u64,
        /// Scan positions of an interval.
        interval: usize,
    },
    /// A second block for one interval.
    #[error("block at scan position {first}: its interval already has a block")]
    AlreadyHeld {
        /// First scan position of the block.
        first: u64,
    },
    /// A block of another detector.
    #[error("block at scan position {first}: got detector {got}, expected {expected}")]
    WrongDetector {
        /// First scan position of the block.
        first: u64,
        /// Shape of the block's frames.
        got: DetectorShape,
        /// Shape of the acquisition's frames.
        expected: DetectorShape,
    },
    /// A block of another count type.
    #[error("block at scan position {first}: got {got} counts, expected {expected}")]
    WrongCountType {
        /// First scan position of the block.
        first: u64,
        /// Count type of the block.
        got: CountType,
        /// Count type of the acquisition.
        expected: CountType,
    },
    /// A block beyond the end of the scan.
    #[error("scan positions {first}..{end}: expected at most {positions} scan positions")]
    BeyondScan {
        /// First scan position.
        first: u64,
        /// One past the last.
        end: u64,
        /// Positions of the scan.
        positions: u64,
    },
    /// A block does not fit the byte budget.
    #[error(
        "block at scan position {first}: asked for {asked_bytes} bytes beside {held_bytes} bytes held, budget {budget_bytes} bytes"
    )]
    OverBudget {
        /// First scan position of the block.
        first: u64,
        /// Size of the block.
        asked_bytes: u64,
        /// What is held already.
        held_bytes: u64,
        /// The most that may be held.
        budget_bytes: u64,
    },
    /// A geometry that needs more frames than there are.
    #[error("a scan of {geometry} needs {} frames, the series has {frames}", geometry.num_frames())]
    TooFewFrames {
        /// The geometry.
        geometry: ScanGeometry,
        /// Frames there is room for.
        frames: u64,
    },
    /// No memory for what was asked.
    #[error("no memory for {what} of {positions} scan positions, {pixels} detector pixels ({bytes} bytes)")]
    TooLarge {
        /// What was asked for, for example `a region`.
        what: &'static str,
        /// Its scan positions.
        positions: u64,
        /// Its detector pixels.
        pixels: u64,
        /// Its bytes; `u64::MAX` where that overflows.
        bytes: u64,
    },
    /// The caller asked for [`crate::Missing::Fail`] and positions are missing.
    #[error("scan position {first_missing} is missing, {num_missing} of the {asked} asked for in all")]
    Missing {
        /// First missing scan position.
        first_missing: u64,
        /// Number of missing positions among those asked for.
        num_missing: u64,
        /// Number of positions asked for.
        asked: u64,
    },
    /// A query beyond the scan.
    #[error("got scan positions {got:?}, expected a range within 0..{positions}")]
    OutsideScan {
        /// The range asked for.
        got: Range<u64>,
        /// Positions of the scan.
        positions: u64,
    },
    /// A query for scan rows or columns beyond the scan, or detector rows or columns beyond the detector.
    #[error("got {what} {got:?}, expected a range within 0..{len}")]
    OutsideAxis {
        /// The axis, for example `detector rows`.
        what: &'static str,
        /// The range asked for.
        got: Range<usize>,
        /// Length of the axis.
        len: usize,
    },
    /// A query for a pixel beyond the detector.
    #[error("got detector pixel {got}, expected one below {pixels}")]
    OutsideDetector {
        /// Pixel asked for, `det_row * det_cols + det_col`.
        got: u32,
        /// Pixels of the detector.
        pixels: usize,
    },
    /// A mask, weight list or output of the wrong length.
    #[error("got {what} of {got} elements, expected {expected}")]
    WrongElements {
        /// What has the wrong length, for example `detector mask`.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The length expected.
        expected: usize,
    },
    /// A weight that is NaN or infinite.
    #[error("weight of detector pixel {pixel} is {got}, expected a finite number")]
    NotFinite {
        /// The pixel.
        pixel: usize,
        /// The weight.
        got: f64,
    },
    /// A weighted sum that 64 bits cannot hold.
    #[error("weighted sum at scan position {position} is {got}, beyond a 64-bit integer")]
    Overflow {
        /// The scan position.
        position: u64,
        /// The exact sum.
        got: i128,
    },
    /// A held block cannot be read, or not into counts of the type asked for.
    #[error("block at scan position {first}: {error}")]
    Decode {
        /// First scan position of the block.
        first: u64,
        /// What the decoder says.
        error: DecodeCountsError,
    },
}
