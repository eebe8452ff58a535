//! Sums of square tiles of detector pixels, by scan position: the spatial index that answers masks.

use std::ops::Range;

use kernels::count_code::packed::{num_words, unpack};
use kernels::encode_counts::PackedTiles;
use kernels::sum_counts::{self, TILE, tile_shape};
use kernels::types::DetectorShape;

/// Detector pixels along a side of a small tile.
pub const SMALL_TILE: usize = TILE;
/// Detector pixels along a side of a large tile.
pub const LARGE_TILE: usize = sum_counts::LARGE_TILE;

/// Which tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileSize {
    /// [`SMALL_TILE`] pixels a side.
    Small,
    /// [`LARGE_TILE`] pixels a side.
    Large,
}

impl TileSize {
    /// Detector pixels along a side.
    pub fn side(self) -> usize {
        match self {
            Self::Small => SMALL_TILE,
            Self::Large => LARGE_TILE,
        }
    }

    /// Tiles of a detector, (rows, cols); tiles at the far edges are cut off by the border.
    pub fn tiles(self, detector: DetectorShape) -> (usize, usize) {
        (detector.rows.div_ceil(self.side()), detector.cols.div_ceil(self.side()))
    }
}

/// Tile sums of a block: one stream a tile over the positions, each as wide as its largest sum; small tiles row-major,
/// then large tiles row-major. Positions that are not covered read 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpatialSums {
    detector: DetectorShape,
    positions: usize,
    widths: Vec<u8>,
    /// First word of each stream, and the end of the last.
    starts: Vec<u32>,
    words: Vec<u32>,
}

impl SpatialSums {
    /// The tiles of an encoded interval of `positions` positions.
    pub(crate) fn new(detector: DetectorShape, positions: usize, packed: PackedTiles) -> Self {
        let PackedTiles { widths, words } = packed;
        let mut starts = Vec::with_capacity(widths.len() + 1);
        let mut start = 0;
        starts.push(start);
        for &width in &widths {
            start += num_words(positions, width.into()) as u32;
            starts.push(start);
        }
        Self { detector, positions, widths, starts, words }
    }

    /// The detector's shape.
    pub fn detector(&self) -> DetectorShape {
        self.detector
    }

    /// Scan positions of the block.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Calls `each` with the sum of a tile at every position of a range of the block, in order.
    ///
    /// # Panics
    /// Where the detector has no such tile or the block no such positions.
    pub fn for_each(
        &self,
        size: TileSize,
        tile_row: usize,
        tile_col: usize,
        positions: Range<usize>,
        each: impl FnMut(u64),
    ) {
        let (rows, cols) = size.tiles(self.detector);
        assert!(
            tile_row < rows && tile_col < cols && positions.end <= self.positions,
            "tile ({tile_row}, {tile_col}) of ({rows}, {cols}) at {positions:?} of {} positions",
            self.positions
        );
        let (small_rows, small_cols) = tile_shape(self.detector);
        let stream = match size {
            TileSize::Small => 0,
            TileSize::Large => small_rows * small_cols,
        } + tile_row * cols
            + tile_col;
        let words = &self.words[self.starts[stream] as usize..self.starts[stream + 1] as usize];
        unpack(words, self.widths[stream].into(), positions.start, positions.end, each);
    }

    /// Bytes that sums, widths and starts take.
    pub fn bytes(&self) -> usize {
        self.words.len() * 4 + self.widths.len() + self.starts.len() * 4
    }
}
