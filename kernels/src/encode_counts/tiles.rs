//! Tile sums of an interval: from frames to one packed stream a tile.

use std::ops::Range;

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

/// Sums of the small tiles of a frame, row-major: narrow where all fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FrameTiles {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Default for FrameTiles {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl FrameTiles {
    /// Room for so many narrow sums, of undefined value, in the memory of those before.
    pub(crate) fn narrow(&mut self, num_tiles: usize) -> &mut [u32] {
        if let Self::Wide(_) = self {
            *self = Self::default();
        }
        match self {
            Self::Narrow(tiles) => {
                tiles.resize(num_tiles, 0);
                tiles
            }
            Self::Wide(_) => &mut [],
        }
    }

    /// Takes these sums.
    pub(crate) fn set(&mut self, sums: &[u64]) {
        if sums.iter().any(|&sum| sum > u32::MAX.into()) {
            *self = Self::Wide(sums.to_vec());
        } else {
            self.narrow(sums.len()).iter_mut().zip(sums).for_each(|(tile, &sum)| *tile = sum as u32);
        }
    }

    /// Adds a count to a tile.
    pub(crate) fn add(&mut self, tile: usize, count: u32) {
        match self {
            Self::Wide(tiles) => tiles[tile] += u64::from(count),
            Self::Narrow(tiles) => match tiles[tile].checked_add(count) {
                Some(sum) => tiles[tile] = sum,
                None => {
                    *self = Self::Wide(tiles.iter().map(|&sum| sum.into()).collect());
                    self.add(tile, count);
                }
            },
        }
    }

    /// Asks for the memory of some tiles.
    fn ask_for(&self, tiles: Range<usize>) {
        match self {
            Self::Narrow(sums) => tiles.step_by(16).for_each(|tile| ask_for(sums, tile)),
            Self::Wide(sums) => tiles.step_by(8).for_each(|tile| ask_for(sums, tile)),
        }
    }

    /// Calls `each` with some of the sums, in order.
    #[inline(always)]
    fn for_each(&self, tiles: Range<usize>, mut each: impl FnMut(u64)) {
        match self {
            Self::Narrow(sums) => sums[tiles].iter().for_each(|&sum| each(sum.into())),
            Self::Wide(sums) => sums[tiles].iter().for_each(|&sum| each(sum)),
        }
    }
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
pub(crate) fn pack_tiles(detector: DetectorShape, frames: &[Option<&FrameTiles>]) -> PackedTiles {
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
                        tiles.ask_for(row * cols..(row + 1) * cols);
                    }
                    match frame {
                        Some(tiles) => {
                            let mut at = position;
                            tiles.for_each(row * cols..(row + 1) * cols, |sum| {
                                small.sums[at] = sum;
                                at += small.stride;
                            });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_beyond_32_bits_widens_all_and_comes_back() {
        let mut tiles = FrameTiles::default();
        tiles.narrow(2).copy_from_slice(&[7, u32::MAX - 1]);
        tiles.add(1, 1);
        assert_eq!(tiles, FrameTiles::Narrow(vec![7, u32::MAX]));
        tiles.add(1, u32::MAX);
        tiles.add(0, 1);
        assert_eq!(tiles, FrameTiles::Wide(vec![8, 2 * u64::from(u32::MAX)]));
        tiles.set(&[u64::from(u32::MAX) + 1, 0, 3]);
        assert_eq!(tiles, FrameTiles::Wide(vec![u64::from(u32::MAX) + 1, 0, 3]));
        tiles.set(&[1, 2]);
        assert_eq!(tiles, FrameTiles::Narrow(vec![1, 2]));
    }
}
