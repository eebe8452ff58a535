//! Frames as they were stored or sent: compressed bytes, numbered.

use std::ops::Range;

use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};

/// A run of consecutive frames, still compressed.
#[derive(Clone, Debug)]
pub struct RawBatch {
    /// Number of the first frame, counted from 0 over the acquisition.
    pub first: u64,
    /// How every frame is compressed.
    pub encoding: Encoding,
    /// The type of its counts.
    pub count_type: CountType,
    /// The shape of each frame.
    pub detector: DetectorShape,
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl RawBatch {
    /// A batch of frames that lie at `ranges` of `bytes`.
    ///
    /// A range that does not lie inside `bytes` becomes an empty frame, which no decoder accepts.
    pub fn new(
        first: u64,
        encoding: Encoding,
        count_type: CountType,
        detector: DetectorShape,
        bytes: Vec<u8>,
        mut ranges: Vec<Range<usize>>,
    ) -> Self {
        for range in &mut ranges {
            if bytes.get(range.clone()).is_none() {
                *range = 0..0;
            }
        }
        Self { first, encoding, count_type, detector, bytes, ranges }
    }

    /// Number of frames.
    pub fn num_frames(&self) -> usize {
        self.ranges.len()
    }

    /// The number after the last frame's.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.ranges.len() as u64)
    }

    /// The compressed bytes of every frame, in order.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges.iter().map(|range| self.bytes.get(range.clone()).unwrap_or_default())
    }

    /// Compressed bytes of all frames together.
    pub fn num_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).sum()
    }

    /// The same batch without its first `count` frames.
    pub fn without_first(mut self, count: usize) -> Self {
        let count = count.min(self.ranges.len());
        self.ranges.drain(..count);
        self.first += count as u64;
        self
    }

    /// The same batch without its last `count` frames.
    pub fn without_last(mut self, count: usize) -> Self {
        self.ranges.truncate(self.ranges.len().saturating_sub(count));
        self
    }
}
