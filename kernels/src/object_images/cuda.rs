//! object_images on CUDA: the sums stay where they are, and only images and spectrum come down.

use num_complex::Complex64;

use super::{MakeObjectImages, Normalisation, ObjectError, ObjectImages, check};
use crate::correct_spectra::{CorrectError, CudaSums};
use crate::cuda::{Argument, Cuda, CudaBuffer, Kernel, Launch};
use crate::device::{Device, DeviceError};
use crate::invert_half_plane::invert_planes;
use crate::types::ScanShape;

/// The largest denominator.
pub(crate) static LARGEST_SUM: Kernel =
    Kernel { name: "largest_sum", source: include_str!("largest_sum.cu") };
/// What is transformed back.
pub(crate) static OBJECT_PLANES: Kernel =
    Kernel { name: "object_planes", source: include_str!("object_planes.cu") };
/// Phase and amplitude.
pub(crate) static FINISH_IMAGES: Kernel =
    Kernel { name: "finish_images", source: include_str!("finish_images.cu") };

const THREADS: usize = 256;
/// Blocks that look for the largest sum.
const LOOKING: usize = 64;

fn failed(error: DeviceError) -> ObjectError {
    CorrectError::from(error).into()
}

impl MakeObjectImages for Cuda {
    fn object_images(
        &self,
        sums: &CudaSums,
        scan: ScanShape,
        by: Normalisation,
    ) -> Result<ObjectImages, ObjectError> {
        let (plane, positions) = (sums.plane(), scan.positions());
        check(plane, scan)?;
        let planes = self.object_planes(sums, positions, by).map_err(failed)?;
        let images = invert_planes(self, &planes.to_invert, 2, scan, sums.fourier())?;
        let mut outputs = self.finish_images(&images, positions, by).map_err(failed)?;
        let mut image = || {
            let rest = outputs.split_off(positions.min(outputs.len()));
            std::mem::replace(&mut outputs, rest)
        };
        let [imaginary, phase, amplitude, phase_least_squares] = std::array::from_fn(|_| image());
        Ok(ObjectImages {
            imaginary,
            phase,
            amplitude,
            phase_least_squares,
            spectrum: self.download(&planes.spectrum).map_err(failed)?,
            transfer: self.download(&planes.transfer).map_err(failed)?,
        })
    }
}

struct Planes {
    /// `[2][q_row][q_col]`
    to_invert: CudaBuffer<Complex64>,
    spectrum: CudaBuffer<Complex64>,
    transfer: CudaBuffer<f64>,
}

impl Cuda {
    fn object_planes(
        &self,
        sums: &CudaSums,
        positions: usize,
        by: Normalisation,
    ) -> Result<Planes, DeviceError> {
        let plane = sums.plane();
        let largest: CudaBuffer<u64> = self.zeros(1)?;
        let launch = Launch {
            kernel: &LARGEST_SUM,
            grid: [plane.div_ceil(THREADS).min(LOOKING) as u32, 1],
            threads: THREADS as u32,
            shared_bytes: 0,
            arguments: &[sums.denominators(), largest.argument(), Argument::U64(plane as u64)],
        };
        // SAFETY: largest_sum.cu reads one plane of the sums and writes one number.
        unsafe { self.launch(&launch) }?;
        let planes = Planes {
            to_invert: self.uninitialised(2 * plane)?,
            spectrum: self.uninitialised(plane)?,
            transfer: self.uninitialised(plane)?,
        };
        let launch = Launch {
            kernel: &OBJECT_PLANES,
            grid: [plane.div_ceil(THREADS) as u32, 1],
            threads: THREADS as u32,
            shared_bytes: 0,
            arguments: &[
                sums.argument(),
                largest.argument(),
                planes.to_invert.argument(),
                planes.spectrum.argument(),
                planes.transfer.argument(),
                Argument::U64(plane as u64),
                Argument::F64(by.num_pixels as f64),
                Argument::F64(by.dc),
                Argument::F64(by.damping),
                Argument::F64(positions as f64 / by.dc),
            ],
        };
        // SAFETY: object_planes.cu reads six planes of sums and writes two, one and one, all of this length.
        unsafe { self.launch(&launch) }?;
        Ok(planes)
    }

    /// `[u, phase, amplitude, least squares][position]`
    fn finish_images(
        &self,
        images: &CudaBuffer<f64>,
        positions: usize,
        by: Normalisation,
    ) -> Result<Vec<f32>, DeviceError> {
        assert!(2 * positions <= images.len(), "two images");
        let outputs: CudaBuffer<f32> = self.uninitialised(4 * positions)?;
        let launch = Launch {
            kernel: &FINISH_IMAGES,
            grid: [positions.div_ceil(THREADS) as u32, 1],
            threads: THREADS as u32,
            shared_bytes: 0,
            arguments: &[
                images.argument(),
                outputs.argument(),
                Argument::U64(positions as u64),
                Argument::F64(by.dc / positions as f64),
            ],
        };
        // SAFETY: finish_images.cu reads two images (asserted) and writes four.
        unsafe { self.launch(&launch) }?;
        self.download(&outputs)
    }
}
