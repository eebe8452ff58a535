//! phase_moments on the CPU: parallel over groups of blocks of 16 pixels; a block's whole plane stays in cache.
//!
//! O_k = dc + i u_k with u_k real, so one complex transform of a scan row gives two rows of u, and phi = atan(u / dc).

use rayon::prelude::*;

use super::{MomentsError, PhaseMoments, PhaseMomentsOfPixels, check};
use crate::correct_spectra::{
    Aperture, BrightFieldPixels, ChunkGeometry, Frequency, GammaModel, Reach, Spectra, column_frequencies,
    conj_gamma, load_column,
};
use crate::device::Cpu;
use crate::lanes::{self, InstructionSet, LaneFft, LaneTask, PixelBlock, Simd, atan};
use crate::transform_rows::BLOCKS_PER_CHUNK;
use crate::types::ScanShape;

/// Groups whose sums are added in order; fixed, so that the result does not depend on the number of threads.
const GROUPS: usize = 32;

impl PhaseMomentsOfPixels for Cpu {
    fn phase_moments(
        &self,
        spectra: &Spectra<'_, Cpu>,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
        dc: f64,
    ) -> Result<PhaseMoments, MomentsError> {
        let num_used = check(spectra, pixels, dc)? as f64;
        let shape = spectra.shape();
        let work = Work {
            spectra,
            chunks: &ChunkGeometry::all(pixels, model),
            model,
            column_fft: &LaneFft::new(shape.scan.rows),
            row_fft: &LaneFft::new(shape.scan.cols),
            columns: &(0..shape.q_cols())
                .into_par_iter()
                .map(|q_col| column_frequencies(model, shape.scan, q_col))
                .collect::<Vec<_>>(),
            inverse_dc: (1.0 / dc) as f32,
        };
        let set = InstructionSet::detect();
        let group_len = shape.blocks().div_ceil(GROUPS).max(1);
        let groups: Vec<Sums> = (0..shape.blocks().div_ceil(group_len))
            .into_par_iter()
            .map(|group| {
                let blocks = group * group_len..((group + 1) * group_len).min(shape.blocks());
                lanes::run(set, Group { work: &work, blocks })
            })
            .collect();
        let mut mean = vec![0.0; shape.scan.positions()];
        let mut square = 0.0;
        for group in &groups {
            mean.iter_mut().zip(&group.phase).for_each(|(sum, part)| *sum += part);
            square += group.square;
        }
        mean.iter_mut().for_each(|value| *value /= num_used);
        let square_of_mean: f64 = mean.iter().map(|value| value * value).sum();
        let positions = mean.len() as f64;
        Ok(PhaseMoments { mean, loss: (square / num_used - square_of_mean) / positions })
    }
}

/// What all groups share.
struct Work<'a> {
    spectra: &'a Spectra<'a, Cpu>,
    chunks: &'a [ChunkGeometry],
    model: &'a GammaModel,
    column_fft: &'a LaneFft,
    row_fft: &'a LaneFft,
    /// The frequencies of every column of the half plane.
    columns: &'a [Vec<Frequency>],
    inverse_dc: f32,
}

/// Sums over pixels.
struct Sums {
    /// Of phases, `[scan_row][scan_col]`.
    phase: Vec<f64>,
    /// Of their squares, over all positions too.
    square: f64,
}

/// Blocks that one thread does one after the other.
struct Group<'a> {
    work: &'a Work<'a>,
    blocks: std::ops::Range<usize>,
}

impl LaneTask for Group<'_> {
    type Output = Sums;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Sums {
        match self.work.model.power() {
            2 => self.sum::<S, 2>(s),
            4 => self.sum::<S, 4>(s),
            _ => self.sum::<S, 6>(s),
        }
    }
}

impl Group<'_> {
    #[inline(always)]
    fn sum<S: Simd, const POWER: usize>(self, s: S) -> Sums {
        let ScanShape { rows, cols } = self.work.spectra.shape().scan;
        let mut sums = Sums { phase: vec![0.0; rows * cols], square: 0.0 };
        let mut plane = vec![PixelBlock::default(); rows * self.work.columns.len()];
        let mut buffers = [rows, rows, cols, cols].map(|len| vec![PixelBlock::default(); len]);
        for block in self.blocks.clone() {
            let [column, scratch, ..] = &mut buffers;
            for (q_col, out) in plane.chunks_exact_mut(rows).enumerate() {
                self.work.corrected_column::<S, POWER>(s, block, q_col, column, scratch, out);
            }
            let [.., line, scratch] = &mut buffers;
            self.work.add_phases(s, &plane, line, scratch, &mut sums);
        }
        sums
    }
}

impl Work<'_> {
    /// One column of u, transformed back along the scan column, real and imaginary parts swapped.
    #[inline(always)]
    fn corrected_column<S: Simd, const POWER: usize>(
        &self,
        s: S,
        block: usize,
        q_col: usize,
        column: &mut [PixelBlock],
        scratch: &mut [PixelBlock],
        out: &mut [PixelBlock],
    ) {
        out.fill(PixelBlock::default());
        let frequencies = &self.columns[q_col];
        if frequencies.is_empty() {
            return;
        }
        let (chunk, at) = (block / BLOCKS_PER_CHUNK, block % BLOCKS_PER_CHUNK);
        load_column(self.spectra, chunk, q_col, at..at + 1, column);
        let spectrum = self.column_fft.forward(s, column, scratch);
        let geometry = &self.chunks[chunk].blocks[at];
        let aperture = Aperture::new(self.model);
        for frequency in frequencies {
            let reach = [Reach::Edge; 2];
            let (re, im, size) = conj_gamma::<S, POWER>(s, frequency, geometry, &aperture, reach);
            let at_k = s.load(&geometry.aperture);
            let size = s.max(s.mul(size, at_k), s.splat(1e-8));
            let unit = s.div(s.mul(at_k, s.splat(frequency.weight as f32)), size);
            let (re, im) = (s.mul(re, unit), s.mul(im, unit));
            let g = &spectrum[frequency.q_row];
            let (g_re, g_im) = (s.load(&g.re), s.load(&g.im));
            let c_re = s.mul_sub_from(im, g_im, s.mul(re, g_re));
            let c_im = s.mul_add(im, g_re, s.mul(re, g_im));
            // u = -i C, swapped: real part -C_re, imaginary part C_im
            let to = &mut out[frequency.q_row];
            s.store(s.sub(s.load(&to.re), c_re), &mut to.re);
            s.store(s.add(s.load(&to.im), c_im), &mut to.im);
        }
        // the forward transform of the swapped is the swapped backward transform
        scratch.copy_from_slice(out);
        let back = self.column_fft.forward(s, scratch, column);
        out.copy_from_slice(back);
    }

    /// Transforms two scan rows at a time back and adds up their phases.
    #[inline(always)]
    fn add_phases<S: Simd>(
        &self,
        s: S,
        plane: &[PixelBlock],
        line: &mut [PixelBlock],
        scratch: &mut [PixelBlock],
        sums: &mut Sums,
    ) {
        let ScanShape { rows, cols } = self.spectra.shape().scan;
        let scale = s.splat(self.inverse_dc);
        for first in (0..rows).step_by(2) {
            let second = (first + 1 < rows).then_some(first + 1);
            for (q_col, column) in plane.chunks_exact(rows).enumerate() {
                // the plane is swapped: .im is the real part
                let (a_re, a_im) = (s.load(&column[first].im), s.load(&column[first].re));
                let (b_re, b_im) = match second {
                    Some(second) => (s.load(&column[second].im), s.load(&column[second].re)),
                    None => (s.zero(), s.zero()),
                };
                // z = first + i second, swapped; a column that mirrors itself is real
                let mirrored = (cols - q_col) % cols;
                if mirrored == q_col {
                    s.store(b_re, &mut line[q_col].re);
                    s.store(a_re, &mut line[q_col].im);
                } else {
                    s.store(s.add(a_im, b_re), &mut line[q_col].re);
                    s.store(s.sub(a_re, b_im), &mut line[q_col].im);
                    s.store(s.sub(b_re, a_im), &mut line[mirrored].re);
                    s.store(s.add(a_re, b_im), &mut line[mirrored].im);
                }
            }
            let u = self.row_fft.forward(s, line, scratch);
            let mut square = s.zero();
            for (scan_col, u) in u.iter().enumerate() {
                let phase = atan(s, s.mul(s.load(&u.im), scale));
                square = s.mul_add(phase, phase, square);
                sums.phase[first * cols + scan_col] += f64::from(s.sum(phase));
                if let Some(second) = second {
                    let phase = atan(s, s.mul(s.load(&u.re), scale));
                    square = s.mul_add(phase, phase, square);
                    sums.phase[second * cols + scan_col] += f64::from(s.sum(phase));
                }
            }
            sums.square += f64::from(s.sum(square));
        }
    }
}
