//! Sums of a correction in device memory.

use std::sync::Arc;

use num_complex::Complex64;

use super::{CorrectedSums, check_sums};
use crate::correct_spectra::CorrectError;
use crate::cuda::fourier::Fourier;
use crate::cuda::{Argument, Cuda, CudaBuffer};
use crate::device::{Device, DeviceError};

/// Sums of each q.
pub(crate) const SUMS: usize = 6;

/// Sums of a correction in device memory, `[sum][q_row][q_col]`: corrected re, im, numerator re, im, denominator, transfer.
#[derive(Debug)]
pub struct CudaSums {
    sums: CudaBuffer<f64>,
    /// For the way back: along columns, along rows. Made anew where there are none.
    fourier: Option<Arc<[Fourier<Complex64>; 2]>>,
}

impl CudaSums {
    /// `sums` has a multiple of [`SUMS`] values.
    pub(crate) fn new(sums: CudaBuffer<f64>, fourier: Option<Arc<[Fourier<Complex64>; 2]>>) -> Self {
        Self { sums, fourier }
    }

    pub(crate) fn upload(device: &Cuda, sums: &CorrectedSums) -> Result<Self, CorrectError> {
        let plane = check_sums(sums)?;
        let mut all = Vec::with_capacity(SUMS * plane);
        for values in [&sums.corrected, &sums.numerator] {
            all.extend(values.iter().map(|value| value.re));
            all.extend(values.iter().map(|value| value.im));
        }
        all.extend(&sums.denominator);
        all.extend(&sums.transfer);
        Ok(Self::new(device.upload(&all)?, None))
    }

    pub(crate) fn download(&self, device: &Cuda) -> Result<CorrectedSums, DeviceError> {
        let (sums, plane) = (device.download(&self.sums)?, self.plane());
        let sum = |at: usize| sums[at * plane..][..plane].iter().copied();
        let complex = |at: usize| sum(at).zip(sum(at + 1)).map(|(re, im)| Complex64::new(re, im)).collect();
        Ok(CorrectedSums {
            corrected: complex(0),
            numerator: complex(2),
            denominator: sum(4).collect(),
            transfer: sum(5).collect(),
        })
    }

    /// Frequencies of the half plane.
    pub(crate) fn plane(&self) -> usize {
        self.sums.len() / SUMS
    }

    pub(crate) fn fourier(&self) -> Option<&[Fourier<Complex64>; 2]> {
        self.fourier.as_deref()
    }

    pub(crate) fn argument(&self) -> Argument {
        self.sums.argument()
    }

    pub(crate) fn denominators(&self) -> Argument {
        self.sums.argument_from(4 * self.plane())
    }
}
