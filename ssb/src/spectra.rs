//! The spectra G(q, k), grown scan row by scan row.

use kernels::correct_spectra::{CorrectSpectra, MeanFill, Spectra};
use kernels::transform_rows::{SpectraShape, TransformRows};
use kernels::types::ScanShape;
use num_complex::Complex32;
use realfft::RealFftPlanner;

use crate::error::SsbError;

/// Row transforms of an acquisition in progress, one copy: 8 bytes x pixels x scan rows x (scan columns / 2 + 1) once
/// all rows are in.
///
/// Rows may come in any order and may have holes. What is missing when a reconstruction is asked for counts as each
/// pixel's mean over the positions that are there.
#[derive(Debug)]
pub struct LiveSpectra<D: TransformRows> {
    device: D,
    shape: SpectraShape,
    pixels: Vec<u32>,
    rows: D::Rows,
    has_row: Vec<bool>,
    covered: Vec<bool>,
    totals: Vec<u64>,
}

impl<D: TransformRows + CorrectSpectra> LiveSpectra<D> {
    /// Spectra of these detector pixels (ascending), nothing received yet.
    ///
    /// # Errors
    /// [`SsbError::Transform`] where the device has no memory for them.
    pub fn new(device: D, scan: ScanShape, pixels: Vec<u32>) -> Result<Self, SsbError> {
        let shape = SpectraShape { scan, pixels: pixels.len() };
        Ok(Self {
            rows: device.open_rows(shape)?,
            device,
            shape,
            has_row: vec![false; scan.rows],
            covered: vec![false; scan.positions()],
            totals: vec![0; pixels.len()],
            pixels,
        })
    }

    /// Transforms one scan row.
    ///
    /// In: counts, `[pixel][scan_col]`, pixels in the order of [`Self::pixels`]; `covered`, one flag a scan column:
    /// what `counts` holds where it is false does not matter. A row without any covered position is left missing.
    ///
    /// # Errors
    /// [`SsbError::NoSuchRow`], [`SsbError::RepeatedRow`]; [`SsbError::Transform`] for counts of the wrong length.
    pub fn add_row(&mut self, scan_row: usize, counts: &[u32], covered: &[bool]) -> Result<(), SsbError> {
        let cols = self.shape.scan.cols;
        match self.has_row.get(scan_row) {
            None => return Err(SsbError::NoSuchRow { got: scan_row, rows: self.shape.scan.rows }),
            Some(true) => return Err(SsbError::RepeatedRow { row: scan_row }),
            Some(false) => {}
        }
        self.device.transform_row(&mut self.rows, scan_row, counts, covered)?;
        if !covered.contains(&true) {
            return Ok(());
        }
        let all_covered = !covered.contains(&false);
        for (total, line) in self.totals.iter_mut().zip(counts.chunks_exact(cols)) {
            if all_covered {
                *total += line.iter().map(|&count| u64::from(count)).sum::<u64>();
                continue;
            }
            let there = line.iter().zip(covered).filter(|&(_, &covered)| covered);
            *total += there.map(|(&count, _)| u64::from(count)).sum::<u64>();
        }
        self.covered[scan_row * cols..][..cols].copy_from_slice(covered);
        self.has_row[scan_row] = true;
        Ok(())
    }

    /// Ends it: no row comes any more. What can be computed once is, and reconstructions are made sooner.
    ///
    /// # Errors
    /// [`SsbError::Correct`] when the device fails.
    pub fn close(&mut self) -> Result<(), SsbError> {
        let fill = self.fill();
        Ok(self.device.close_rows(&mut self.rows, fill.as_ref())?)
    }

    /// Whether a scan row is there.
    pub fn has_row(&self, scan_row: usize) -> bool {
        self.has_row.get(scan_row) == Some(&true)
    }

    /// The detector pixels, ascending.
    pub fn pixels(&self) -> &[u32] {
        &self.pixels
    }

    /// The scan.
    pub fn scan(&self) -> ScanShape {
        self.shape.scan
    }

    /// `cpu` or `cuda`: what computes on them.
    pub fn keeper(&self) -> &'static str {
        D::keeper(&self.rows)
    }

    /// Number of scan positions that are there.
    pub fn num_covered(&self) -> usize {
        self.covered.iter().filter(|&&covered| covered).count()
    }

    /// Mean counts of every pixel over the positions that are there; zero when none is.
    pub fn means(&self) -> Vec<f64> {
        let covered = self.num_covered().max(1) as f64;
        self.totals.iter().map(|&total| total as f64 / covered).collect()
    }

    /// Bytes that the row transforms take.
    pub fn bytes(&self) -> u64 {
        let there = self.has_row.iter().filter(|&&has_row| has_row).count() as u64;
        D::rows_bytes(self.shape) / (self.has_row.len() as u64).max(1) * there
    }

    /// The spectrum G(q, k) of one pixel by its place in [`Self::pixels`], half plane `[q_row][q_col]`.
    ///
    /// # Errors
    /// [`SsbError::Correct`] when there is no such pixel.
    pub fn pixel_spectrum(&self, pixel: usize) -> Result<Vec<Complex32>, SsbError> {
        let fill = self.fill();
        Ok(self.device.pixel_spectrum(&self.filled(fill.as_ref()), pixel)?)
    }

    /// The device.
    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// The rows as operations take them.
    pub(crate) fn filled<'a>(&'a self, fill: Option<&'a MeanFill>) -> Spectra<'a, D> {
        Spectra { rows: &self.rows, fill }
    }

    /// What stands at positions that are not there; None when all are.
    pub(crate) fn fill(&self) -> Option<MeanFill> {
        let cols = self.shape.scan.cols;
        if cols == 0 || self.covered.iter().all(|&covered| covered) {
            return None;
        }
        let gaps = transformed_gaps(&self.covered, cols);
        let means = self.means().into_iter().map(|mean| mean as f32).collect();
        Some(MeanFill { means, gaps })
    }
}

/// The row transform of what is missing, 1 where a position is not there: `[scan_row][q_col]`, None for a whole row.
/// A transform per row: a sum over the missing positions would take cols^2 for one long row.
fn transformed_gaps(covered: &[bool], cols: usize) -> Vec<Option<Vec<Complex32>>> {
    let transform = RealFftPlanner::<f64>::new().plan_fft_forward(cols);
    let (mut line, mut spectrum) = (transform.make_input_vec(), transform.make_output_vec());
    let mut scratch = transform.make_scratch_vec();
    let mut transformed = |row: &[bool]| {
        line.iter_mut().zip(row).for_each(|(value, &covered)| *value = f64::from(u8::from(!covered)));
        let lengths_fit = transform.process_with_scratch(&mut line, &mut spectrum, &mut scratch);
        debug_assert!(lengths_fit.is_ok(), "the buffers are those that the plan made");
        spectrum.iter().map(|value| Complex32::new(value.re as f32, value.im as f32)).collect()
    };
    covered.chunks_exact(cols).map(|row| row.contains(&false).then(|| transformed(row))).collect()
}

#[cfg(test)]
mod tests {
    use num_complex::Complex64;

    use super::*;

    #[test]
    fn the_gaps_of_a_row_are_transformed_as_the_sum_over_what_is_missing() {
        for cols in [1_usize, 2, 7, 64, 97, 1_000] {
            let mut covered = vec![true; 3 * cols];
            for (index, covered) in covered.iter_mut().enumerate().skip(cols) {
                *covered = index * index % 5 != 1;
            }
            let gaps = transformed_gaps(&covered, cols);
            assert!(gaps[0].is_none());
            for (row, gap) in gaps.iter().enumerate().skip(1) {
                let row = &covered[row * cols..][..cols];
                let Some(gap) = gap else {
                    assert!(!row.contains(&false));
                    continue;
                };
                assert_eq!(gap.len(), cols / 2 + 1);
                for (q_col, &value) in gap.iter().enumerate() {
                    let turns = |col: usize| (q_col * col % cols) as f64 / cols as f64;
                    let missing = (0..cols).filter(|&col| !row[col]);
                    let sum: Complex64 =
                        missing.map(|col| Complex64::cis(-std::f64::consts::TAU * turns(col))).sum();
                    let expected = Complex32::new(sum.re as f32, sum.im as f32);
                    assert!((value - expected).norm() < 1e-5, "{cols} {q_col}: {value} {expected}");
                }
            }
        }
    }
}
