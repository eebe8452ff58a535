//! sum_counts on the processor: bands of eight detector rows, columns side by side in vector registers.
//!
//! A band of small counts is added up in 16 bits: `column[c]` is the sum of its rows and `rising[c]` the sum of all
//! partial sums, which holds row r of the band (rows - r) times, so that one addition more a count gives the row
//! moment. A band that holds a count too large for that is added up in 64 bits.

use rayon::prelude::*;

use super::{FrameSums, SumCounts, SumCountsError, TILE, check_length, tile_shape};
use crate::device::{Cpu, Device};
use crate::types::{BatchShape, Count, CountBuffer, CountType, DetectorShape};
use crate::with_counts;

/// Largest count for which 1 + 2 + ... + 8 = 36 of them fit 16 bits.
const LARGEST_NARROW: u16 = u16::MAX / 36;
/// Counts side by side.
const LANES: usize = 32;

impl SumCounts for Cpu {
    fn sum_counts(&self, counts: &CountBuffer<Self>, shape: BatchShape) -> Result<FrameSums, SumCountsError> {
        check_length(counts.len(), shape)?;
        let (tile_rows, tile_cols) = tile_shape(shape.detector);
        let num_tiles = tile_rows * tile_cols;
        let mut tiles = self.zeros::<u64>(shape.frames.saturating_mul(num_tiles))?;
        let pixels = shape.detector.pixels();
        if pixels == 0 {
            let none = vec![0; shape.frames];
            return Ok(FrameSums { total: none.clone(), row_moment: none.clone(), col_moment: none, tiles });
        }
        let sums: Vec<[u64; 3]> = with_counts!(counts, counts => counts
            .par_chunks(pixels)
            .zip(tiles.par_chunks_mut(num_tiles))
            .map_init(|| FrameSummer::new(shape.detector), |summer, (frame, tiles)| summer.sum(frame, tiles))
            .collect());
        Ok(FrameSums {
            total: sums.iter().map(|sum| sum[0]).collect(),
            row_moment: sums.iter().map(|sum| sum[1]).collect(),
            col_moment: sums.iter().map(|sum| sum[2]).collect(),
            tiles,
        })
    }
}

/// Sums one frame after the other; holds the work space.
#[derive(Debug)]
pub(crate) struct FrameSummer {
    detector: DetectorShape,
    /// A band as 16-bit counts, where the detector delivers others.
    narrow: Vec<u16>,
    /// Sums of the columns of a band, padded to whole lanes.
    band_columns: Vec<u16>,
    /// Sums of the tiles of a band, padded likewise.
    band_tiles: Vec<u32>,
    /// Sums of the columns of the frame, of its narrow bands.
    columns: Vec<u64>,
}

/// Sums of one narrow band.
struct BandSums {
    total: u64,
    /// Sum of (rows - row) x count, row counted within the band.
    rising: u64,
}

impl FrameSummer {
    pub(crate) fn new(detector: DetectorShape) -> Self {
        let padded = detector.cols.next_multiple_of(LANES);
        Self {
            detector,
            narrow: Vec::new(),
            band_columns: vec![0; padded],
            band_tiles: vec![0; padded / TILE],
            columns: vec![0; padded],
        }
    }

    /// Total, row moment and column moment of a frame; writes its small tiles' sums, all of them.
    ///
    /// `frame` has the detector's pixels, `tiles` its small tiles.
    pub(crate) fn sum<T: Count>(&mut self, frame: &[T], tiles: &mut [u64]) -> [u64; 3] {
        let DetectorShape { cols, .. } = self.detector;
        if cols == 0 {
            return [0; 3];
        }
        let (_, tile_cols) = tile_shape(self.detector);
        self.columns.fill(0);
        let [mut total, mut row_moment, mut col_moment] = [0_u64; 3];
        let bands = frame.chunks(TILE * cols).zip(tiles.chunks_mut(tile_cols));
        for (band_index, (band, tiles)) in bands.enumerate() {
            let (first_row, rows) = ((band_index * TILE) as u64, (band.len() / cols) as u64);
            match self.sum_narrow(band) {
                Some(sums) => {
                    total = total.wrapping_add(sums.total);
                    let moment = (first_row + rows).wrapping_mul(sums.total).wrapping_sub(sums.rising);
                    row_moment = row_moment.wrapping_add(moment);
                    let by_tile = self.band_tiles.iter().map(|&tile| u64::from(tile));
                    tiles.iter_mut().zip(by_tile).for_each(|(tile, sum)| *tile = sum);
                    add_columns(&self.band_columns, &mut self.columns);
                }
                None => {
                    let sums = sum_plain(band, cols, first_row, tiles);
                    total = total.wrapping_add(sums[0]);
                    row_moment = row_moment.wrapping_add(sums[1]);
                    col_moment = col_moment.wrapping_add(sums[2]);
                }
            }
        }
        for (col, &sum) in self.columns.iter().enumerate() {
            col_moment = col_moment.wrapping_add(sum.wrapping_mul(col as u64));
        }
        [total, row_moment, col_moment]
    }

    /// Sums a band of small counts into `band_columns` and `band_tiles`; `None` where a count is too large.
    fn sum_narrow<T: Count>(&mut self, band: &[T]) -> Option<BandSums> {
        let cols = self.detector.cols;
        if T::TYPE == CountType::U16 {
            return sum_band(bytemuck::cast_slice(band), cols, &mut self.band_columns, &mut self.band_tiles);
        }
        self.narrow.clear();
        let mut bits = 0_u32;
        self.narrow.extend(band.iter().map(|&count| {
            let count: u32 = count.into();
            bits |= count;
            count as u16
        }));
        if bits > u32::from(LARGEST_NARROW) {
            return None;
        }
        sum_band(&self.narrow, cols, &mut self.band_columns, &mut self.band_tiles)
    }
}

/// Sums a band count by count.
fn sum_plain<T: Count>(band: &[T], cols: usize, first_row: u64, tiles: &mut [u64]) -> [u64; 3] {
    let [mut total, mut row_moment, mut col_moment] = [0_u64; 3];
    tiles.fill(0);
    for (row, counts) in (first_row..).zip(band.chunks(cols)) {
        let mut row_total = 0_u64;
        for (col, &count) in (0_u64..).zip(counts) {
            let count: u64 = count.into();
            row_total += count;
            col_moment = col_moment.wrapping_add(count.wrapping_mul(col));
            tiles[col as usize / TILE] += count;
        }
        total = total.wrapping_add(row_total);
        row_moment = row_moment.wrapping_add(row_total.wrapping_mul(row));
    }
    [total, row_moment, col_moment]
}

/// Sums the rows of a band into `columns` and `tiles` (both padded to whole lanes); `None` where a count is too large.
fn sum_band(band: &[u16], cols: usize, columns: &mut [u16], tiles: &mut [u32]) -> Option<BandSums> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has AVX-512BW, just asked.
            return unsafe { sum_band_avx512(band, cols, columns, tiles) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, just asked.
            return unsafe { sum_band_avx2(band, cols, columns, tiles) };
        }
    }
    sum_band_lanes(band, cols, columns, tiles)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn sum_band_avx512(band: &[u16], cols: usize, columns: &mut [u16], tiles: &mut [u32]) -> Option<BandSums> {
    sum_band_lanes(band, cols, columns, tiles)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_band_avx2(band: &[u16], cols: usize, columns: &mut [u16], tiles: &mut [u32]) -> Option<BandSums> {
    sum_band_lanes(band, cols, columns, tiles)
}

#[inline(always)]
fn sum_band_lanes(band: &[u16], cols: usize, columns: &mut [u16], tiles: &mut [u32]) -> Option<BandSums> {
    let mut sums = BandSums { total: 0, rising: 0 };
    let strips = columns.chunks_exact_mut(LANES).zip(tiles.chunks_exact_mut(LANES / TILE));
    for (first_col, (columns, tiles)) in (0..cols).step_by(LANES).zip(strips) {
        let width = (cols - first_col).min(LANES);
        let (mut column, mut rising, mut bits) = ([0_u16; LANES], [0_u16; LANES], [0_u16; LANES]);
        let mut add = |counts: &[u16; LANES]| {
            for lane in 0..LANES {
                column[lane] = column[lane].wrapping_add(counts[lane]);
                rising[lane] = rising[lane].wrapping_add(column[lane]);
                bits[lane] |= counts[lane];
            }
        };
        for row in band.chunks_exact(cols) {
            let counts = &row[first_col..first_col + width];
            match counts.try_into() {
                Ok(counts) => add(counts),
                Err(_) => {
                    let mut padded = [0_u16; LANES];
                    padded[..width].copy_from_slice(counts);
                    add(&padded);
                }
            }
        }
        // `bits` is an upper bound of the largest count that is at most twice as large: bands near the limit are
        // added up in 64 bits though they need not be
        if bits.iter().fold(0, |all, &lane| all | lane) > LARGEST_NARROW {
            return None;
        }
        columns.copy_from_slice(&column);
        for (tile, column) in tiles.iter_mut().zip(column.as_chunks::<TILE>().0) {
            *tile = sum_tile(column);
            sums.total += u64::from(*tile);
        }
        sums.rising += u64::from(rising.iter().map(|&lane| u32::from(lane)).sum::<u32>());
    }
    Some(sums)
}

/// Sum of the columns of a tile: eight 16-bit numbers in two registers of four, added up side by side.
#[inline(always)]
fn sum_tile(columns: &[u16; TILE]) -> u32 {
    const EVEN: u64 = 0x0000_ffff_0000_ffff;
    let [low, high]: [u64; 2] = bytemuck::cast(*columns);
    // each half of a sum holds four numbers of 16 bits: below 2^18
    let pairs = (low & EVEN) + (low >> 16 & EVEN) + (high & EVEN) + (high >> 16 & EVEN);
    (pairs as u32) + (pairs >> 32) as u32
}

/// Adds the columns of a band to those of the frame.
fn add_columns(band: &[u16], frame: &mut [u64]) {
    for (sum, &column) in frame.iter_mut().zip(band) {
        *sum += u64::from(column);
    }
}
