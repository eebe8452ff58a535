//! object_images on CUDA: the sums stay where they are, and only images and spectrum come down.

use num_complex::Complex64;

use super::{MakeObjectImages, Normalisation, ObjectError, ObjectImages, ObjectPlanes, check};
use crate::correct_spectra::{CorrectError, CudaSums};
use crate::cuda::{Argument, Cuda, CudaBuffer, Kernel, Launch};
use crate::device::{Device, DeviceError};
use crate::invert_half_plane::invert_planes;
use crate::types::ScanShape;

/// The largest denominator and the largest transfer.
pub(crate) static LARGEST_SUMS: Kernel =
    Kernel { name: "largest_sums", source: include_str!("largest_sums.cu") };
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
        let outputs = self.finish_images(&images, positions, by).map_err(failed)?;
        let image = |at: usize| self.download_part(&outputs, at * positions, positions).map_err(failed);
        let largest = self.download(&planes.largest).map_err(failed)?;
        Ok(ObjectImages {
            imaginary: image(0)?,
            phase: image(1)?,
            amplitude: image(2)?,
            phase_least_squares: image(3)?,
            most_transfer: f64::from_bits(largest[1]) / by.num_pixels as f64,
            planes: match planes.wanted {
                None => None,
                Some((spectrum, transfer)) => Some(ObjectPlanes {
                    spectrum: self.download(&spectrum).map_err(failed)?,
                    transfer: self.download(&transfer).map_err(failed)?,
                }),
            },
        })
    }
}

struct Planes {
    /// `[2][q_row][q_col]`
    to_invert: CudaBuffer<Complex64>,
    /// Spectrum and transfer.
    wanted: Option<(CudaBuffer<Complex64>, CudaBuffer<f64>)>,
    /// Bits of the largest denominator and of the largest transfer.
    largest: CudaBuffer<u64>,
}

impl Cuda {
    fn object_planes(
        &self,
        sums: &CudaSums,
        positions: usize,
        by: Normalisation,
    ) -> Result<Planes, DeviceError> {
        let plane = sums.plane();
        let largest: CudaBuffer<u64> = self.zeros(2)?;
        let launch = Launch {
            kernel: &LARGEST_SUMS,
            grid: [plane.div_ceil(THREADS).min(LOOKING) as u32, 2],
            threads: THREADS as u32,
            shared_bytes: 0,
            arguments: &[sums.denominators(), largest.argument(), Argument::U64(plane as u64)],
        };
        // SAFETY: largest_sums.cu reads the last two planes of the sums and writes two numbers.
        unsafe { self.launch(&launch) }?;
        let wanted = match by.with_planes {
            true => Some((self.uninitialised(plane)?, self.uninitialised(plane)?)),
            false => None,
        };
        let planes = Planes { to_invert: self.uninitialised(2 * plane)?, wanted, largest };
        let null = Argument::Address(0);
        let (spectrum, transfer) = match &planes.wanted {
            Some((spectrum, transfer)) => (spectrum.argument(), transfer.argument()),
            None => (null, null),
        };
        let launch = Launch {
            kernel: &OBJECT_PLANES,
            grid: [plane.div_ceil(THREADS) as u32, 1],
            threads: THREADS as u32,
            shared_bytes: 0,
            arguments: &[
                sums.argument(),
                planes.largest.argument(),
                planes.to_invert.argument(),
                spectrum,
                transfer,
                Argument::U64(plane as u64),
                Argument::F64(by.num_pixels as f64),
                Argument::F64(by.dc),
                Argument::F64(by.damping),
                Argument::F64(positions as f64 / by.dc),
            ],
        };
        // SAFETY: object_planes.cu reads six planes of sums and one of the numbers, and writes two planes and, where they are
        // wanted, one and one, all of this length.
        unsafe { self.launch(&launch) }?;
        Ok(planes)
    }

    /// `[u, phase, amplitude, least squares][position]`.
    fn finish_images(
        &self,
        images: &CudaBuffer<f64>,
        positions: usize,
        by: Normalisation,
    ) -> Result<CudaBuffer<f32>, DeviceError> {
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
        Ok(outputs)
    }
}
