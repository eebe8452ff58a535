//! correct_spectra on the CPU: parallel over columns of the half plane; within a column 256 pixels at a time are
//! transformed in cache and corrected. Lanes add in f32 over at most 16 blocks, everything else in f64.

use num_complex::{Complex32, Complex64};
use rayon::prelude::*;

use super::overlap::{Aperture, Reach, conj_gamma, odd_phase};
use super::{
    BrightFieldPixels, ChunkGeometry, CorrectError, CorrectSpectra, CorrectedSums, Frequency, GammaModel,
    MeanFill, Spectra, check, check_overlap, check_sums, column_frequencies,
};
use crate::device::Cpu;
use crate::lanes::{self, InstructionSet, LANES, LaneFft, LaneTask, PixelBlock, Simd};
use crate::transform_rows::{BLOCKS_PER_CHUNK, CpuRows, SpectraShape};
use crate::types::ScanShape;

/// gamma is divided by its size or by this, whichever is larger.
const SMALLEST_GAMMA: f32 = 1e-8;

impl CorrectSpectra for Cpu {
    type Sums = CorrectedSums;

    fn download_sums(&self, sums: &CorrectedSums) -> Result<CorrectedSums, CorrectError> {
        Ok(sums.clone())
    }

    fn upload_sums(&self, sums: &CorrectedSums) -> Result<CorrectedSums, CorrectError> {
        check_sums(sums)?;
        Ok(sums.clone())
    }

    /// Columns are finished while they are in cache; nothing would be gained by writing them.
    fn close_rows(&self, rows: &mut CpuRows, fill: Option<&MeanFill>) -> Result<(), CorrectError> {
        check(&Spectra::<Cpu> { rows, fill }, None)
    }

    fn correct_spectra(
        &self,
        spectra: &Spectra<'_, Cpu>,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
    ) -> Result<CorrectedSums, CorrectError> {
        check(spectra, Some(pixels))?;
        let SpectraShape { scan, .. } = spectra.shape();
        let fft = LaneFft::new(scan.rows);
        let chunks = ChunkGeometry::all(pixels, model);
        let set = InstructionSet::detect();
        let columns: Vec<Vec<FrequencySums>> = (0..spectra.shape().q_cols())
            .into_par_iter()
            .map_init(
                || vec![PixelBlock::default(); (BLOCKS_PER_CHUNK + 1) * fft.len()],
                |buffer, q_col| {
                    let column = Column { spectra, chunks: &chunks, model, fft: &fft, q_col, buffer };
                    lanes::run(set, column)
                },
            )
            .collect();
        let (rows, cols) = (scan.rows, spectra.shape().q_cols());
        let gather = |value: &dyn Fn(&FrequencySums) -> Complex64| -> Vec<Complex64> {
            let at = |row: usize| columns.iter().map(move |column| (column, row));
            (0..rows).flat_map(at).map(|(column, row)| value(&column[row])).collect()
        };
        let real = |plane: Vec<Complex64>| plane.into_iter().map(|value| value.re).collect();
        let sums = CorrectedSums {
            corrected: gather(&|sums| sums.corrected),
            numerator: gather(&|sums| sums.numerator),
            denominator: real(gather(&|sums| sums.denominator.into())),
            transfer: real(gather(&|sums| sums.transfer.into())),
        };
        debug_assert_eq!(sums.corrected.len(), rows * cols);
        Ok(sums)
    }

    fn overlap_function(
        &self,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
        scan: ScanShape,
    ) -> Result<Vec<Complex32>, CorrectError> {
        let expected = check_overlap(pixels)?;
        let chunks = ChunkGeometry::all(pixels, model);
        let shape = SpectraShape { scan, pixels: expected };
        let mut gamma = vec![Complex32::ZERO; expected * scan.rows * shape.q_cols()];
        for q_col in 0..shape.q_cols() {
            let task = OverlapColumn { chunks: &chunks, model, shape, q_col, gamma: &mut gamma };
            lanes::run(InstructionSet::detect(), task);
        }
        Ok(gamma)
    }

    fn pixel_spectrum(
        &self,
        spectra: &Spectra<'_, Cpu>,
        pixel: usize,
    ) -> Result<Vec<Complex32>, CorrectError> {
        check(spectra, None)?;
        let shape = spectra.shape();
        if pixel >= shape.pixels {
            return Err(CorrectError::WrongLength {
                what: "pixels, at least",
                got: shape.pixels,
                expected: pixel + 1,
            });
        }
        let mut plane = vec![Complex32::ZERO; shape.scan.rows * shape.q_cols()];
        let fft = LaneFft::new(shape.scan.rows);
        let task = PixelSpectrum { spectra, fft: &fft, pixel, plane: &mut plane };
        lanes::run(InstructionSet::detect(), task);
        Ok(plane)
    }
}

/// Reads blocks of one column from every scan row, `[block][scan_row]`, with gaps filled.
#[inline(always)]
pub(crate) fn load_column(
    spectra: &Spectra<'_, Cpu>,
    chunk: usize,
    q_col: usize,
    blocks: std::ops::Range<usize>,
    to: &mut [PixelBlock],
) {
    let rows = spectra.shape().scan.rows;
    let range = spectra.shape().chunk_range(chunk, q_col);
    let first_block = spectra.shape().chunk_blocks(chunk).start;
    for (scan_row, row) in spectra.rows.rows.iter().enumerate() {
        match row {
            Some(row) => {
                for (at, block) in row[range.clone()][blocks.clone()].iter().enumerate() {
                    to[at * rows + scan_row] = *block;
                }
            }
            None => {
                for at in 0..blocks.len() {
                    to[at * rows + scan_row] = PixelBlock::default();
                }
            }
        }
    }
    let Some(fill) = spectra.fill else { return };
    for (scan_row, gap) in fill.gaps.iter().enumerate() {
        let Some(gap) = gap else { continue };
        for (at, block) in blocks.clone().enumerate() {
            let first = (first_block + block) * LANES;
            let means = &fill.means[first..(first + LANES).min(fill.means.len())];
            let to = &mut to[at * rows + scan_row];
            for (lane, mean) in means.iter().enumerate() {
                to.re.0[lane] += mean * gap[q_col].re;
                to.im.0[lane] += mean * gap[q_col].im;
            }
        }
    }
}

/// The sums of one q.
#[derive(Clone, Copy, Debug, Default)]
struct FrequencySums {
    corrected: Complex64,
    numerator: Complex64,
    denominator: f64,
    transfer: f64,
}

/// One column of the half plane.
struct Column<'a> {
    spectra: &'a Spectra<'a, Cpu>,
    chunks: &'a [ChunkGeometry],
    model: &'a GammaModel,
    fft: &'a LaneFft,
    q_col: usize,
    /// 16 columns of blocks, and one more as the transform's scratch.
    buffer: &'a mut [PixelBlock],
}

impl LaneTask for Column<'_> {
    /// `[q_row]`
    type Output = Vec<FrequencySums>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Vec<FrequencySums> {
        match self.model.power() {
            2 => self.sum::<S, 2>(s),
            4 => self.sum::<S, 4>(s),
            _ => self.sum::<S, 6>(s),
        }
    }
}

impl Column<'_> {
    #[inline(always)]
    fn sum<S: Simd, const POWER: usize>(self, s: S) -> Vec<FrequencySums> {
        let shape = self.spectra.shape();
        let rows = shape.scan.rows;
        let mut sums = vec![FrequencySums::default(); rows];
        let frequencies = column_frequencies(self.model, shape.scan, self.q_col);
        if frequencies.is_empty() {
            return sums;
        }
        let aperture = Aperture::new(self.model);
        let (columns, scratch) = self.buffer.split_at_mut(BLOCKS_PER_CHUNK * rows);
        for (chunk, geometry) in self.chunks.iter().enumerate() {
            let blocks = geometry.blocks.len();
            load_column(self.spectra, chunk, self.q_col, 0..blocks, columns);
            for column in columns.chunks_exact_mut(rows).take(blocks) {
                transform_in_place(s, self.fft, column, scratch);
            }
            for frequency in &frequencies {
                let spectrum = Rows { columns, rows, q_row: frequency.q_row };
                let part = correct_chunk::<S, POWER>(s, frequency, geometry, &aperture, spectrum);
                let sum = &mut sums[frequency.q_row];
                sum.corrected += part.corrected * frequency.weight;
                sum.numerator += part.numerator * frequency.weight;
                sum.denominator += part.denominator * frequency.weight;
                sum.transfer += part.transfer * frequency.weight;
            }
        }
        sums
    }
}

/// Transforms a column of blocks; the result is in `column`.
#[inline(always)]
fn transform_in_place<S: Simd>(s: S, fft: &LaneFft, column: &mut [PixelBlock], scratch: &mut [PixelBlock]) {
    let in_place = column.as_ptr();
    let result = fft.forward(s, column, scratch);
    if result.as_ptr() != in_place {
        column.copy_from_slice(scratch);
    }
}

/// One q of up to 16 transformed columns of blocks.
#[derive(Clone, Copy)]
struct Rows<'a> {
    columns: &'a [PixelBlock],
    rows: usize,
    q_row: usize,
}

/// Corrects and sums up to 256 pixels at one q.
#[inline(always)]
fn correct_chunk<S: Simd, const POWER: usize>(
    s: S,
    frequency: &Frequency,
    geometry: &ChunkGeometry,
    aperture: &Aperture<'_>,
    spectrum: Rows<'_>,
) -> FrequencySums {
    let mut reach = [PixelBlock::default().re; 2];
    s.store(aperture.reach(s, geometry, frequency.q, -1.0), &mut reach[0]);
    s.store(aperture.reach(s, geometry, frequency.q, 1.0), &mut reach[1]);

    // Blocks in one region with constant E: sums of exp(-iO) G, multiplied by the region's constant at the end.
    let mut minus = (s.zero(), s.zero());
    let mut plus = (s.zero(), s.zero());
    let mut both = (s.zero(), s.zero());
    let (mut num_single, mut num_both) = (0usize, 0usize);
    // All others.
    let mut corrected = (s.zero(), s.zero());
    let mut numerator = (s.zero(), s.zero());
    let (mut denominator, mut transfer) = (s.zero(), s.zero());

    for (at, block) in geometry.blocks.iter().enumerate() {
        let reach = [Reach::from_lane(reach[0].0[at]), Reach::from_lane(reach[1].0[at])];
        if reach == [Reach::Outside; 2] {
            continue;
        }
        let g = &spectrum.columns[at * spectrum.rows + spectrum.q_row];
        let (g_re, g_im) = (s.load(&g.re), s.load(&g.im));
        let is_plain = POWER == 2 && block.whole && !reach.contains(&Reach::Edge);
        if is_plain {
            let (sin, cos) = odd_phase::<S, POWER>(s, frequency, block);
            let re = s.mul_add(cos, g_re, s.mul(sin, g_im));
            let im = s.mul_sub_from(sin, g_re, s.mul(cos, g_im));
            match reach {
                [Reach::Inside, Reach::Inside] => {
                    both = (s.add(both.0, re), s.add(both.1, im));
                    num_both += LANES;
                }
                [Reach::Inside, _] => {
                    minus = (s.add(minus.0, re), s.add(minus.1, im));
                    num_single += LANES;
                }
                _ => {
                    plus = (s.add(plus.0, re), s.add(plus.1, im));
                    num_single += LANES;
                }
            }
            continue;
        }
        let (re, im, size) = conj_gamma::<S, POWER>(s, frequency, block, aperture, reach);
        let at_k = s.load(&block.aperture);
        let (re, im, size) = (s.mul(re, at_k), s.mul(im, at_k), s.mul(size, at_k));
        let re_gamma = s.mul_sub_from(im, g_im, s.mul(re, g_re));
        let im_gamma = s.mul_add(im, g_re, s.mul(re, g_im));
        let inverse = s.div(s.splat(1.0), s.max(size, s.splat(SMALLEST_GAMMA)));
        numerator = (s.add(numerator.0, re_gamma), s.add(numerator.1, im_gamma));
        corrected = (s.mul_add(re_gamma, inverse, corrected.0), s.mul_add(im_gamma, inverse, corrected.1));
        denominator = s.mul_add(size, size, denominator);
        transfer = s.add(transfer, size);
    }

    let complex = |sum: (S::V, S::V)| Complex64::new(s.sum(sum.0).into(), s.sum(sum.1).into());
    let mut sums = FrequencySums {
        corrected: complex(corrected),
        numerator: complex(numerator),
        denominator: s.sum(denominator).into(),
        transfer: s.sum(transfer).into(),
    };
    if num_single + num_both > 0 {
        let e = frequency.parts.constant64;
        let single = complex(minus) * e - complex(plus) * e.conj();
        let both_gamma = 2.0 * e.im;
        let both = complex(both) * Complex64::new(0.0, both_gamma);
        sums.numerator += single + both;
        sums.corrected += single + both / both_gamma.abs().max(SMALLEST_GAMMA.into());
        sums.denominator += num_single as f64 + num_both as f64 * both_gamma * both_gamma;
        sums.transfer += num_single as f64 + num_both as f64 * both_gamma.abs();
    }
    sums
}

/// gamma of every pixel in one column of the half plane.
struct OverlapColumn<'a> {
    chunks: &'a [ChunkGeometry],
    model: &'a GammaModel,
    shape: SpectraShape,
    q_col: usize,
    /// `[pixel][q_row][q_col]`
    gamma: &'a mut [Complex32],
}

impl LaneTask for OverlapColumn<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.model.power() {
            2 => self.fill::<S, 2>(s),
            4 => self.fill::<S, 4>(s),
            _ => self.fill::<S, 6>(s),
        }
    }
}

impl OverlapColumn<'_> {
    #[inline(always)]
    fn fill<S: Simd, const POWER: usize>(self, s: S) {
        let aperture = Aperture::new(self.model);
        let (rows, cols) = (self.shape.scan.rows, self.shape.q_cols());
        for frequency in column_frequencies(self.model, self.shape.scan, self.q_col) {
            let blocks = self.chunks.iter().flat_map(|chunk| &chunk.blocks);
            for (at, block) in blocks.enumerate() {
                let reach = [Reach::Edge; 2];
                let (re, im, _) = conj_gamma::<S, POWER>(s, &frequency, block, &aperture, reach);
                let mut gamma = PixelBlock::default();
                let at_k = s.load(&block.aperture);
                s.store(s.mul(re, at_k), &mut gamma.re);
                s.store(s.mul(im, at_k), &mut gamma.im);
                for lane in 0..LANES.min(self.shape.pixels.saturating_sub(at * LANES)) {
                    let pixel = at * LANES + lane;
                    let weight = frequency.weight as f32;
                    self.gamma[(pixel * rows + frequency.q_row) * cols + self.q_col] +=
                        Complex32::new(gamma.re.0[lane], -gamma.im.0[lane]) * weight;
                }
            }
        }
    }
}

/// The whole spectrum of one pixel.
struct PixelSpectrum<'a> {
    spectra: &'a Spectra<'a, Cpu>,
    fft: &'a LaneFft,
    pixel: usize,
    /// `[q_row][q_col]`
    plane: &'a mut [Complex32],
}

impl LaneTask for PixelSpectrum<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.fft.len();
        let cols = self.spectra.shape().q_cols();
        let (block, lane) = (self.pixel / LANES, self.pixel % LANES);
        let (chunk, at) = (block / BLOCKS_PER_CHUNK, block % BLOCKS_PER_CHUNK);
        let mut column = vec![PixelBlock::default(); rows];
        let mut scratch = column.clone();
        for q_col in 0..cols {
            load_column(self.spectra, chunk, q_col, at..at + 1, &mut column);
            for (q_row, g) in self.fft.forward(s, &mut column, &mut scratch).iter().enumerate() {
                self.plane[q_row * cols + q_col] = Complex32::new(g.re.0[lane], g.im.0[lane]);
            }
        }
    }
}
