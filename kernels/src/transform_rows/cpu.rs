//! transform_rows on the CPU: two blocks of 16 pixels go through one complex transform, one as real and one as
//! imaginary part, and are told apart by symmetry. Parallel over chunks of 256 pixels.

use num_complex::Complex32;
use rayon::prelude::*;

use super::{BLOCKS_PER_CHUNK, SpectraShape, TransformError, TransformRows, check, check_row};
use crate::device::{Cpu, Device};
use crate::lanes::{self, InstructionSet, LANES, LaneFft, LaneTask, Lanes, PixelBlock, Simd};

/// Transformed rows in host memory.
#[derive(Debug)]
pub struct CpuRows {
    pub(crate) shape: SpectraShape,
    /// One a scan row, laid out as [`SpectraShape::chunk_range`] says; None counts as zero.
    pub(crate) rows: Vec<Option<Vec<PixelBlock>>>,
}

impl TransformRows for Cpu {
    type Rows = CpuRows;

    fn open_rows(&self, shape: SpectraShape) -> Result<CpuRows, TransformError> {
        Ok(CpuRows { shape, rows: (0..shape.scan.rows).map(|_| None).collect() })
    }

    fn shape(rows: &CpuRows) -> SpectraShape {
        rows.shape
    }

    fn keeper(_: &CpuRows) -> &'static str {
        "cpu"
    }

    fn rows_bytes(shape: SpectraShape) -> u64 {
        let row = (shape.row_len() as u64).saturating_mul(size_of::<PixelBlock>() as u64);
        row.saturating_mul(shape.scan.rows as u64)
    }

    fn transform_row(
        &self,
        rows: &mut CpuRows,
        scan_row: usize,
        counts: &[u32],
        covered: &[bool],
    ) -> Result<(), TransformError> {
        let shape = rows.shape;
        check_row(scan_row, shape)?;
        check(counts.len(), covered.len(), shape)?;
        rows.rows[scan_row] = Some(transformed(self, counts, covered, shape)?);
        Ok(())
    }

    fn row_spectra(&self, rows: &CpuRows, scan_row: usize) -> Result<Vec<Complex32>, TransformError> {
        let shape = rows.shape;
        check_row(scan_row, shape)?;
        let mut spectra = vec![Complex32::ZERO; shape.pixels * shape.q_cols()];
        let Some(row) = &rows.rows[scan_row] else { return Ok(spectra) };
        for (pixel, line) in spectra.chunks_exact_mut(shape.q_cols()).enumerate() {
            let (block, lane) = (pixel / LANES, pixel % LANES);
            let (chunk, at) = (block / BLOCKS_PER_CHUNK, block % BLOCKS_PER_CHUNK);
            for (q_col, value) in line.iter_mut().enumerate() {
                let block = &row[shape.chunk_range(chunk, q_col).start + at];
                *value = Complex32::new(block.re.0[lane], block.im.0[lane]);
            }
        }
        Ok(spectra)
    }
}

fn transformed(
    cpu: &Cpu,
    counts: &[u32],
    covered: &[bool],
    shape: SpectraShape,
) -> Result<Vec<PixelBlock>, TransformError> {
    let mut row: Vec<PixelBlock> = cpu.zeros(shape.row_len())?;
    if row.is_empty() || shape.scan.cols == 0 {
        return Ok(row);
    }
    let fft = LaneFft::new(shape.scan.cols);
    let set = InstructionSet::detect();
    row.par_chunks_mut(BLOCKS_PER_CHUNK * shape.q_cols()).enumerate().for_each_init(
        || [vec![PixelBlock::default(); fft.len()], vec![PixelBlock::default(); fft.len()]],
        |[data, scratch], (chunk, out)| {
            let blocks = shape.chunk_blocks(chunk);
            let fft = &fft;
            for (pair, block) in blocks.clone().step_by(2).enumerate() {
                let input = Input { counts, covered, shape, block };
                lanes::run(set, Pair { input, fft, data, scratch, at: 2 * pair, blocks: blocks.len(), out });
            }
        },
    );
    Ok(row)
}

/// The counts of a scan row, and a block of 16 pixels.
struct Input<'a> {
    counts: &'a [u32],
    covered: &'a [bool],
    shape: SpectraShape,
    block: usize,
}

impl Input<'_> {
    /// Reads `block` into the real parts and the block after it into the imaginary parts, `[scan_col][lane]`.
    #[inline(always)]
    fn load_pair(&self, data: &mut [PixelBlock]) {
        const COLS: usize = 16; // a cache line of counts
        let cols = self.shape.scan.cols;
        for (half, first) in [self.block * LANES, (self.block + 1) * LANES].into_iter().enumerate() {
            for start in (0..cols).step_by(COLS) {
                let width = COLS.min(cols - start);
                let mut tile = [[0.0f32; COLS]; LANES];
                for (lane, line) in tile.iter_mut().enumerate() {
                    let pixel = first + lane;
                    if pixel < self.shape.pixels {
                        let from = &self.counts[pixel * cols + start..][..width];
                        for (to, &count) in line.iter_mut().zip(from) {
                            *to = count as f32;
                        }
                    }
                }
                for col in 0..width {
                    let to = &mut data[start + col];
                    let to: &mut Lanes = if half == 0 { &mut to.re } else { &mut to.im };
                    if self.covered[start + col] {
                        for (to, line) in to.0.iter_mut().zip(&tile) {
                            *to = line[col];
                        }
                    } else {
                        *to = Lanes::default();
                    }
                }
            }
        }
    }
}

/// Two blocks of pixels: `at` and the one after it of the `blocks` of a chunk.
struct Pair<'a> {
    input: Input<'a>,
    fft: &'a LaneFft,
    data: &'a mut [PixelBlock],
    scratch: &'a mut [PixelBlock],
    at: usize,
    blocks: usize,
    /// `[q_col][blocks]`.
    out: &'a mut [PixelBlock],
}

impl LaneTask for Pair<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        self.input.load_pair(self.data);
        let spectrum = self.fft.forward(s, self.data, self.scratch);
        let len = spectrum.len();
        let half = s.splat(0.5);
        for (q_col, out) in self.out.chunks_exact_mut(self.blocks).enumerate() {
            let (z, mirrored) = (&spectrum[q_col], &spectrum[(len - q_col) % len]);
            let (a, b) = (s.mul(s.load(&z.re), half), s.mul(s.load(&z.im), half));
            let (c, d) = (s.mul(s.load(&mirrored.re), half), s.mul(s.load(&mirrored.im), half));
            // first = (z + conj z(-q)) / 2, second = (z - conj z(-q)) / 2i
            let first = &mut out[self.at];
            s.store(s.add(a, c), &mut first.re);
            s.store(s.sub(b, d), &mut first.im);
            if let Some(second) = out.get_mut(self.at + 1) {
                s.store(s.add(b, d), &mut second.re);
                s.store(s.sub(c, a), &mut second.im);
            }
        }
    }
}
