//! Tile sums of an interval: from frames to one packed stream a tile.

use rayon::prelude::*;

use super::scan::ask_for;
use crate::count_code::packed::{pack, width_of};
use crate::sum_counts::{LARGE_TILE, TILE, large_tile_shape, tile_shape};
use crate::types::DetectorShape;

/// Sums of tiles by position: the small tiles row-major, then the large tiles row-major. A stream holds one number a
/// position, as wide as its largest, packed as in [`packed`](crate::count_code::packed).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedTiles {
    /// Bits of a number, by stream.
    pub widths: Vec<u8>,
    /// The streams, one after the other.
    pub words: Vec<u32>,
}

/// Frames by which tiles are asked for ahead: each frame's lie somewhere else in memory.
const AHEAD: usize = 12;

/// Streams of some tiles, not packed yet.
struct Streams {
    /// `[tile][position]`, rows `stride` apart.
    sums: Vec<u64>,
    stride: usize,
}

impl Streams {
    fn new(tiles: usize, positions: usize) -> Self {
        // one cache line more than the positions: rows 8192 bytes apart would all fall into the same cache sets
        let stride = positions + 8;
        Self { sums: vec![0; tiles * stride], stride }
    }

    fn pack(&self, positions: usize, out: &mut PackedTiles) {
        for sums in self.sums.chunks_exact(self.stride) {
            let sums = &sums[..positions];
            let width = width_of(sums.iter().fold(0, |all, &sum| all | sum));
            out.widths.push(width as u8);
            pack(sums.iter().copied(), width, &mut out.words);
        }
    }
}

/// Packs the small tiles' sums of frames, `[tile_row][tile_col]` each, `None` where no frame is there; adds up the large.
pub(crate) fn pack_tiles(detector: DetectorShape, frames: &[Option<&[u64]>]) -> PackedTiles {
    const RATIO: usize = LARGE_TILE / TILE;
    let (rows, cols) = tile_shape(detector);
    let (large_rows, large_cols) = large_tile_shape(detector);
    let positions = frames.len();
    let streams = || (Streams::new(cols, positions), Streams::new(large_cols, positions));
    let packed: Vec<(PackedTiles, PackedTiles)> = (0..large_rows)
        .into_par_iter()
        .map_init(streams, |(small, large), large_row| {
            let (mut packed_small, mut packed_large) = (PackedTiles::default(), PackedTiles::default());
            large.sums.fill(0);
            for row in large_row * RATIO..((large_row + 1) * RATIO).min(rows) {
                for (position, frame) in frames.iter().enumerate() {
                    if let Some(Some(tiles)) = frames.get(position + AHEAD) {
                        (row * cols..(row + 1) * cols).step_by(8).for_each(|tile| ask_for(tiles, tile));
                    }
                    match frame {
                        Some(tiles) => {
                            let rows = small.sums.chunks_exact_mut(small.stride);
                            for (&sum, small) in tiles[row * cols..(row + 1) * cols].iter().zip(rows) {
                                small[position] = sum;
                            }
                        }
                        None => (0..cols).for_each(|col| small.sums[col * small.stride + position] = 0),
                    }
                }
                for (col, small) in small.sums.chunks_exact(small.stride).enumerate() {
                    let large = &mut large.sums[col / RATIO * large.stride..][..large.stride];
                    large.iter_mut().zip(small).for_each(|(large, &small)| *large += small);
                }
                small.pack(positions, &mut packed_small);
            }
            large.pack(positions, &mut packed_large);
            (packed_small, packed_large)
        })
        .collect();
    let parts = || packed.iter().map(|(small, _)| small).chain(packed.iter().map(|(_, large)| large));
    let mut tiles = PackedTiles::default();
    tiles.widths.reserve_exact(parts().map(|part| part.widths.len()).sum());
    tiles.words.reserve_exact(parts().map(|part| part.words.len()).sum());
    for part in parts() {
        tiles.widths.extend_from_slice(&part.widths);
        tiles.words.extend_from_slice(&part.words);
    }
    tiles
}
