//! One interval of scan positions, encoded.

use kernels::count_code::{Coverage, EncodedCounts};
use kernels::encode_counts::EncodedInterval;
use kernels::types::{CountType, DetectorShape};

use crate::{PixelSums, SpatialSums};

/// The counts of one interval of scan positions, every detector pixel, exact, with their sums. Immutable.
///
/// Blocks tile the scan: block `b` starts at scan position `b` x [`INTERVAL`](crate::INTERVAL), raster order. A
/// position whose frame did not come is not covered; counts and sums read 0 there, and the coverage says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    first: u64,
    counts: EncodedCounts,
    tiles: SpatialSums,
    totals: Vec<u64>,
    row_moments: Vec<u64>,
    col_moments: Vec<u64>,
    pixel_sums: PixelSums,
}

/// Bytes a block takes, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockBytes {
    /// Count streams, models included.
    pub streams: usize,
    /// Directory of the count streams.
    pub directory: usize,
    /// Tile sums.
    pub tiles: usize,
    /// Totals and moments by position.
    pub position_sums: usize,
    /// Sums and marker hits by pixel.
    pub pixel_sums: usize,
    /// Coverage bits.
    pub coverage: usize,
}

impl BlockBytes {
    /// Streams and directory: what is needed to get the counts back.
    pub fn counts(&self) -> usize {
        self.streams + self.directory
    }

    /// Everything.
    pub fn total(&self) -> usize {
        self.counts() + self.tiles + self.position_sums + self.pixel_sums + self.coverage
    }
}

impl std::ops::AddAssign for BlockBytes {
    fn add_assign(&mut self, more: Self) {
        self.streams += more.streams;
        self.directory += more.directory;
        self.tiles += more.tiles;
        self.position_sums += more.position_sums;
        self.pixel_sums += more.pixel_sums;
        self.coverage += more.coverage;
    }
}

impl Block {
    /// The block at scan position `first` of an encoded interval.
    pub fn new(first: u64, interval: EncodedInterval) -> Self {
        let EncodedInterval { counts, totals, row_moments, col_moments, tiles, pixel_sums, marker_hits } =
            interval;
        Self {
            first,
            tiles: SpatialSums::new(counts.detector(), counts.positions(), tiles),
            totals,
            row_moments,
            col_moments,
            pixel_sums: PixelSums::new(&pixel_sums, &marker_hits),
            counts,
        }
    }

    /// Scan position of the block's first position: a multiple of [`INTERVAL`](crate::INTERVAL).
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Scan positions of the block, covered or not; at most [`INTERVAL`](crate::INTERVAL).
    pub fn positions(&self) -> usize {
        self.counts.positions()
    }

    /// Which of them are covered.
    pub fn coverage(&self) -> &Coverage {
        self.counts.coverage()
    }

    /// The detector's shape.
    pub fn detector(&self) -> DetectorShape {
        self.counts.detector()
    }

    /// The type the detector delivered the counts in.
    pub fn count_type(&self) -> CountType {
        self.counts.count_type()
    }

    /// The count streams, for [`DecodeCounts`](kernels::decode_counts::DecodeCounts).
    pub fn counts(&self) -> &EncodedCounts {
        &self.counts
    }

    /// Tile sums by position.
    pub fn tiles(&self) -> &SpatialSums {
        &self.tiles
    }

    /// Sum of all counts, by position of the block.
    pub fn totals(&self) -> &[u64] {
        &self.totals
    }

    /// Sum of count x detector row, by position of the block.
    pub fn row_moments(&self) -> &[u64] {
        &self.row_moments
    }

    /// Sum of count x detector column, by position of the block.
    pub fn col_moments(&self) -> &[u64] {
        &self.col_moments
    }

    /// Sum and marker hits of every pixel over the block.
    pub fn pixel_sums(&self) -> &PixelSums {
        &self.pixel_sums
    }

    /// Bytes the block takes, part by part.
    pub fn encoded_bytes(&self) -> BlockBytes {
        BlockBytes {
            streams: self.counts.payload().len(),
            directory: self.counts.directory().bytes(),
            tiles: self.tiles.bytes(),
            position_sums: 8 * (self.totals.len() + self.row_moments.len() + self.col_moments.len()),
            pixel_sums: self.pixel_sums.bytes(),
            coverage: self.coverage().bytes(),
        }
    }
}
