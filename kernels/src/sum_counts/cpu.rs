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
///
/// A frame is summed band by band, as far as it has been read: [`start`](Self::start), any number of
/// [`sum_until`](Self::sum_until), [`finish`](Self::finish).
#[derive(Debug)]
pub(crate) struct FrameSummer {
    detector: DetectorShape,
    /// A band as 16-bit counts, where the detector delivers others.
    narrow: Vec<u16>,
    /// Sums of the columns and of the tiles.
    sums: ColumnSums,
    /// Pixels summed so far.
    summed: usize,
    total: u64,
    row_moment: u64,
    /// Of the bands that are not narrow.
    col_moment: u64,
}

/// Sums by column, padded to whole lanes.
#[derive(Debug)]
struct ColumnSums {
    /// The tiles of a narrow band.
    band_tiles: Vec<u32>,
    /// The columns of the frame, of its narrow bands.
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
            sums: ColumnSums { band_tiles: vec![0; padded / TILE], columns: vec![0; padded] },
            summed: 0,
            total: 0,
            row_moment: 0,
            col_moment: 0,
        }
    }

    /// Total, row moment and column moment of a frame; writes its small tiles' sums, all of them.
    ///
    /// `frame` has the detector's pixels, `tiles` its small tiles.
    pub(crate) fn sum<T: Count>(&mut self, frame: &[T], tiles: &mut [u64]) -> [u64; 3] {
        self.start();
        self.finish(frame, tiles)
    }

    /// Begins a frame.
    pub(crate) fn start(&mut self) {
        self.sums.columns.fill(0);
        (self.summed, self.total, self.row_moment, self.col_moment) = (0, 0, 0, 0);
    }

    /// Sums the bands that end with the first `pixels` pixels and are not summed yet.
    #[inline]
    pub(crate) fn sum_until<T: Count>(&mut self, frame: &[T], pixels: usize, tiles: &mut [u64]) {
        let band_pixels = TILE * self.detector.cols;
        while self.summed < frame.len() && pixels >= frame.len().min(self.summed + band_pixels) {
            self.sum_next(frame, band_pixels, tiles);
        }
    }

    /// Sums the next band; some pixels are left.
    fn sum_next<T: Count>(&mut self, frame: &[T], band_pixels: usize, tiles: &mut [u64]) {
        let cols = self.detector.cols;
        let band = &frame[self.summed..frame.len().min(self.summed + band_pixels)];
        let (first_row, rows) = ((self.summed / cols) as u64, (band.len() / cols) as u64);
        let tile_cols = cols.div_ceil(TILE);
        let tiles = &mut tiles[self.summed / band_pixels * tile_cols..][..tile_cols];
        let [total, row_moment, col_moment] = match self.sum_narrow(band) {
            Some(sums) => {
                let by_tile = self.sums.band_tiles.iter().map(|&tile| u64::from(tile));
                tiles.iter_mut().zip(by_tile).for_each(|(tile, sum)| *tile = sum);
                [sums.total, (first_row + rows).wrapping_mul(sums.total).wrapping_sub(sums.rising), 0]
            }
            None => sum_plain(band, cols, first_row, tiles),
        };
        self.total = self.total.wrapping_add(total);
        self.row_moment = self.row_moment.wrapping_add(row_moment);
        self.col_moment = self.col_moment.wrapping_add(col_moment);
        self.summed += band.len();
    }

    /// Sums what is left; total, row moment and column moment of the frame.
    pub(crate) fn finish<T: Count>(&mut self, frame: &[T], tiles: &mut [u64]) -> [u64; 3] {
        self.sum_until(frame, frame.len(), tiles);
        let by_column = (0_u64..).zip(&self.sums.columns).map(|(col, &sum)| sum.wrapping_mul(col));
        let col_moment = by_column.fold(self.col_moment, u64::wrapping_add);
        [self.total, self.row_moment, col_moment]
    }

    /// Sums a band of small counts into the columns and the band's tiles; `None` where a count is too large.
    fn sum_narrow<T: Count>(&mut self, band: &[T]) -> Option<BandSums> {
        let cols = self.detector.cols;
        if T::TYPE == CountType::U16 {
            return sum_band(bytemuck::cast_slice(band), cols, &mut self.sums);
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
        sum_band(&self.narrow, cols, &mut self.sums)
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

/// Sums the rows of a band: adds to the frame's columns, sets the band's tiles; `None`, with nothing added, where a
/// count is too large.
fn sum_band(band: &[u16], cols: usize, sums: &mut ColumnSums) -> Option<BandSums> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has AVX-512BW, just asked.
            return unsafe { sum_band_avx512(band, cols, sums) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, just asked.
            return unsafe { sum_band_avx2(band, cols, sums) };
        }
    }
    sum_band_lanes(band, cols, sums)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn sum_band_avx512(band: &[u16], cols: usize, sums: &mut ColumnSums) -> Option<BandSums> {
    sum_band_lanes(band, cols, sums)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_band_avx2(band: &[u16], cols: usize, sums: &mut ColumnSums) -> Option<BandSums> {
    sum_band_lanes(band, cols, sums)
}

#[inline(always)]
fn sum_band_lanes(band: &[u16], cols: usize, sums: &mut ColumnSums) -> Option<BandSums> {
    let mut band_sums = BandSums { total: 0, rising: 0 };
    for (index, tiles) in sums.band_tiles.chunks_exact_mut(LANES / TILE).enumerate() {
        let Some(strip) = sum_strip(band, cols, index * LANES) else {
            // what the strips before added is taken back: this band is summed in another way
            for index in 0..index {
                if let Some(strip) = sum_strip(band, cols, index * LANES) {
                    let columns = sums.columns[index * LANES..].iter_mut().zip(&strip.column);
                    columns.for_each(|(sum, &column)| *sum -= u64::from(column));
                }
            }
            return None;
        };
        let columns = sums.columns[index * LANES..].iter_mut().zip(&strip.column);
        columns.for_each(|(sum, &column)| *sum += u64::from(column));
        for (tile, column) in tiles.iter_mut().zip(strip.column.as_chunks::<TILE>().0) {
            *tile = sum_tile(column);
            band_sums.total += u64::from(*tile);
        }
        band_sums.rising += u64::from(strip.rising.iter().map(|&lane| u32::from(lane)).sum::<u32>());
    }
    Some(band_sums)
}

/// Sums of some columns over the rows of a band.
struct Strip {
    column: [u16; LANES],
    /// Sums of the partial sums.
    rising: [u16; LANES],
}

/// Sums the columns of a band from `first_col` on, as many as lanes or as are left; `None` where a count is too large.
#[inline(always)]
fn sum_strip(band: &[u16], cols: usize, first_col: usize) -> Option<Strip> {
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
    let all = bits.iter().fold(0, |all, &lane| all | lane);
    (all <= LARGEST_NARROW).then_some(Strip { column, rising })
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
