//! invert_half_plane on the CPU: columns, then rows from complex to real.

use num_complex::Complex64;
use realfft::RealFftPlanner;
use rustfft::FftPlanner;

use super::{InvertError, InvertHalfPlane, check};
use crate::device::{Cpu, DeviceError};
use crate::types::ScanShape;

impl InvertHalfPlane for Cpu {
    fn invert_half_plane(&self, plane: &[Complex64], scan: ScanShape) -> Result<Vec<f64>, InvertError> {
        check(plane, scan)?;
        if scan.positions() == 0 {
            return Ok(Vec::new());
        }
        let q_cols = scan.cols / 2 + 1;
        let columns = FftPlanner::new().plan_fft_inverse(scan.rows);
        let mut rows = vec![Complex64::ZERO; plane.len()];
        let mut column = vec![Complex64::ZERO; scan.rows];
        for q_col in 0..q_cols {
            for (q_row, value) in column.iter_mut().enumerate() {
                *value = plane[q_row * q_cols + q_col];
            }
            columns.process(&mut column);
            for (scan_row, value) in column.iter().enumerate() {
                rows[scan_row * q_cols + q_col] = *value;
            }
        }
        let to_real = RealFftPlanner::new().plan_fft_inverse(scan.cols);
        let mut image = vec![0.0; scan.positions()];
        for (line, out) in rows.chunks_exact_mut(q_cols).zip(image.chunks_exact_mut(scan.cols)) {
            line[0].im = 0.0;
            if scan.cols.is_multiple_of(2) {
                line[q_cols - 1].im = 0.0;
            }
            to_real
                .process(line, out)
                .map_err(|error| DeviceError::Failed { device: "CPU".into(), what: error.to_string() })?;
        }
        let positions = scan.positions() as f64;
        image.iter_mut().for_each(|value| *value /= positions);
        Ok(image)
    }
}
