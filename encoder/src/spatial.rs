//! Sums of square tiles of detector pixels, by scan position: the spatial index that answers masks.

use std::ops::Range;

use kernels::sum_counts::{TILE, tile_shape};
use kernels::types::DetectorShape;
use rayon::prelude::*;

use crate::packed::{num_words, pack, unpack, width_of};

/// Detector pixels along a side of a small tile.
pub const SMALL_TILE: usize = TILE;
/// Detector pixels along a side of a large tile.
pub const LARGE_TILE: usize = 32;

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
    /// Packs the sums of small tiles, `[position][tile_row][tile_col]`.
    pub(crate) fn new(detector: DetectorShape, positions: usize, small: &[u64]) -> Self {
        let (rows, cols) = tile_shape(detector);
        let (large_rows, large_cols) = TileSize::Large.tiles(detector);
        let ratio = LARGE_TILE / SMALL_TILE;
        let small_at = |position: usize, row: usize, col: usize| small[(position * rows + row) * cols + col];
        // tile row by tile row: `[tile_col][position]`, read along the positions' own rows
        let small_rows = (0..rows).into_par_iter().map(|row| {
            let mut sums = vec![0; cols * positions];
            for position in 0..positions {
                for col in 0..cols {
                    sums[col * positions + position] = small_at(position, row, col);
                }
            }
            pack_streams(&sums, positions)
        });
        let large_rows = (0..large_rows).into_par_iter().map(|large_row| {
            let mut sums = vec![0; large_cols * positions];
            for position in 0..positions {
                for row in large_row * ratio..((large_row + 1) * ratio).min(rows) {
                    for col in 0..cols {
                        sums[col / ratio * positions + position] += small_at(position, row, col);
                    }
                }
            }
            pack_streams(&sums, positions)
        });
        let packed: Vec<(Vec<u8>, Vec<u32>)> = small_rows.chain(large_rows).collect();
        let mut sums = Self { detector, positions, widths: Vec::new(), starts: vec![0], words: Vec::new() };
        sums.words.reserve_exact(packed.iter().map(|(_, words)| words.len()).sum());
        for (widths, words) in packed {
            for width in widths {
                let start = sums.starts.last().copied().unwrap_or(0);
                sums.starts.push(start + num_words(positions, width.into()) as u32);
                sums.widths.push(width);
            }
            sums.words.extend_from_slice(&words);
        }
        sums
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

/// Packs streams of `positions` sums each: their widths, and their words one after the other.
fn pack_streams(sums: &[u64], positions: usize) -> (Vec<u8>, Vec<u32>) {
    let (mut widths, mut words) = (Vec::new(), Vec::new());
    for sums in sums.chunks_exact(positions.max(1)) {
        let width = width_of(sums.iter().fold(0, |all, &sum| all | sum));
        widths.push(width as u8);
        pack(sums.iter().copied(), width, &mut words);
    }
    (widths, words)
}
