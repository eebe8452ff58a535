//! The questions a [`Snapshot`] answers, and how the scan is walked block by block to answer them.
//!
//! Every answer carries its coverage. Under [`Missing::Fail`](crate::Missing::Fail) a missing position refuses the
//! question; under [`Missing::Report`](crate::Missing::Report) it reads 0 (counts, integer sums) or NaN
//! (floating point), and sums over positions leave it out.

mod images;
mod mask_images;
mod moments;
mod over_scan;
mod patterns;
mod set_aside;
mod sums;

pub use mask_images::MaskImages;
pub use moments::{CentreOfMass, Moments};
pub use over_scan::OverScan;
pub use patterns::Roi;
pub(crate) use set_aside::SetAside;

use std::ops::Range;

use encoder::{Block, INTERVAL};
use kernels::Cpu;
use kernels::count_code::GROUP_PIXELS;
use kernels::decode_counts::{DecodeCounts, ImageWindow};
use kernels::types::Count;

use crate::coverage::Coverage;
use crate::error::ResidentError;
use crate::snapshot::Snapshot;

/// Pixels decoded at a time where images are consumed one by one: whole groups, small enough to stay in the cache.
const IMAGES: usize = 16 * GROUP_PIXELS;

/// A stretch of scan positions within one interval.
#[derive(Clone, Debug)]
struct Part<'a> {
    /// The interval's block, when it is held.
    block: Option<&'a Block>,
    /// Position of the first within the answer.
    at: usize,
    /// Scan position of the interval's first position.
    first: u64,
    /// Positions of the interval.
    within: Range<usize>,
}

impl Part<'_> {
    /// The block, with those of the positions that it has: a block may end before its interval does.
    fn held(&self) -> Option<(&Block, Range<usize>)> {
        let block = self.block?;
        Some((block, self.within.start.min(block.positions())..self.within.end.min(block.positions())))
    }
}

impl Snapshot {
    /// The intervals that a range of scan positions touches, ascending.
    fn parts(&self, positions: Range<u64>) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        let mut at = positions.start;
        while at < positions.end {
            let index = (at / INTERVAL as u64) as usize;
            let interval = self.state.interval(index);
            let end = positions.end.min(interval.end);
            parts.push(Part {
                block: self.state.blocks.get(index).and_then(Option::as_deref),
                at: (at - positions.start) as usize,
                first: interval.start,
                within: (at - interval.start) as usize..(end - interval.start) as usize,
            });
            at = end;
        }
        parts
    }

    /// Refuses pixels that the detector does not have.
    fn check_pixels(&self, pixels: &[u32]) -> Result<(), ResidentError> {
        let all = self.detector().pixels();
        match pixels.iter().find(|&&pixel| pixel as usize >= all) {
            Some(&got) => Err(ResidentError::OutsideDetector { got, pixels: all }),
            None => Ok(()),
        }
    }

    /// Refuses a list that has not one element for every detector pixel.
    fn check_per_pixel(&self, what: &'static str, got: usize) -> Result<(), ResidentError> {
        let expected = self.detector().pixels();
        if got == expected { Ok(()) } else { Err(ResidentError::WrongElements { what, got, expected }) }
    }
}

/// Splits an answer along the parts of its range, so that they can be written in parallel.
fn split<'a, 'b, T>(parts: Vec<Part<'a>>, mut out: &'b mut [T]) -> Vec<(Part<'a>, &'b mut [T])> {
    let mut pieces = Vec::with_capacity(parts.len());
    for part in parts {
        let (piece, rest) = std::mem::take(&mut out).split_at_mut(part.within.len());
        out = rest;
        pieces.push((part, piece));
    }
    pieces
}

/// A list of `len` elements, or the error that there is no memory for it.
fn filled<T: Clone>(
    what: &'static str,
    positions: u64,
    pixels: usize,
    value: T,
) -> Result<Vec<T>, ResidentError> {
    let bytes = positions.saturating_mul(pixels as u64).saturating_mul(size_of::<T>() as u64);
    let too_large = || ResidentError::TooLarge { what, positions, pixels: pixels as u64, bytes };
    let len = usize::try_from(positions).ok().and_then(|positions| positions.checked_mul(pixels));
    let len = len.ok_or_else(too_large)?;
    let mut filled = Vec::new();
    filled.try_reserve_exact(len).map_err(|_| too_large())?;
    filled.resize(len, value);
    Ok(filled)
}

/// Hands the scan images of pixels over a stretch of a block to `each`, in the order of `pixels`, with their index.
fn for_each_image<T: Count>(
    block: &Block,
    pixels: &[u32],
    within: Range<usize>,
    mut each: impl FnMut(usize, &[T]),
) -> Result<(), ResidentError> {
    let len = within.len();
    if len == 0 || pixels.is_empty() {
        return Ok(());
    }
    let mut images = vec![T::default(); pixels.len().min(IMAGES) * len];
    for (chunk, pixels) in pixels.chunks(IMAGES).enumerate() {
        let window = ImageWindow { stride: len, column: 0 };
        Cpu.decode_pixels(block.counts(), pixels, within.clone(), &mut images, window)
            .map_err(|error| ResidentError::Decode { first: block.first(), error })?;
        for (index, image) in images.chunks_exact(len).take(pixels.len()).enumerate() {
            each(chunk * IMAGES + index, image);
        }
    }
    Ok(())
}

/// Sets the positions that a coverage reports missing to a value; `first` is the scan position of `values[0]`.
fn mark_missing<T: Copy>(values: &mut [T], coverage: &Coverage, first: u64, value: T) {
    for run in coverage.missing() {
        if let Some(run) = values.get_mut((run.start - first) as usize..(run.end - first) as usize) {
            run.fill(value);
        }
    }
}

/// Evaluates an expression with `$count` bound to the type of the counts.
macro_rules! with_count_type {
    ($count_type:expr, $count:ident => $body:expr) => {
        match $count_type {
            kernels::types::CountType::U8 => {
                type $count = u8;
                $body
            }
            kernels::types::CountType::U16 => {
                type $count = u16;
                $body
            }
            kernels::types::CountType::U32 => {
                type $count = u32;
                $body
            }
        }
    };
}
use with_count_type;
