//! phase_moments on CUDA: some hundred pixels' planes at a time are finished, corrected, and transformed back; their phases
//! are added up row by row, pixels in order within a part and parts in order.

use num_complex::Complex32;

use super::{MomentsError, PhaseMoments, PhaseMomentsOfPixels, check};
use crate::correct_spectra::{
    BrightFieldPixels, CorrectError, CudaModel, GammaModel, Spectra, at_once, for_finished, sum_parts,
    transform_columns,
};
use crate::cuda::fourier::Lines;
use crate::cuda::{Argument, Cuda, CudaBuffer, Kernel, Launch};
use crate::device::Device;

/// u of single pixels.
pub(crate) static CORRECT_PLANES: Kernel =
    Kernel { name: "correct_planes", source: include_str!("correct_planes.cu") };
/// Phases, summed.
pub(crate) static SUM_PHASES: Kernel = Kernel { name: "sum_phases", source: include_str!("sum_phases.cu") };

const THREADS: usize = 256;
const THREADS_OF_A_ROW: u32 = 128;
/// Pixels of one part of a sum.
const PER_SPLIT: usize = 128;

impl PhaseMomentsOfPixels for Cuda {
    fn phase_moments(
        &self,
        spectra: &Spectra<'_, Cuda>,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
        dc: f64,
    ) -> Result<PhaseMoments, MomentsError> {
        let num_used = check(spectra, pixels, dc)? as f64;
        let rows = spectra.rows;
        let (scan, plane) = (rows.shape.scan, rows.plane());
        let model = CudaModel::new(self, pixels, model, scan)?;
        let mut phases: CudaBuffer<f64> = self.zeros(scan.positions()).map_err(CorrectError::Device)?;
        let mut squares: CudaBuffer<f64> = self.zeros(scan.rows).map_err(CorrectError::Device)?;
        let at_once = at_once(rows);
        let planes: CudaBuffer<Complex32> =
            self.uninitialised(at_once * plane).map_err(CorrectError::Device)?;
        for_finished(self, spectra, at_once, |finished| {
            let launch = Launch {
                kernel: &CORRECT_PLANES,
                grid: [plane.div_ceil(THREADS) as u32, finished.pixels as u32],
                threads: THREADS as u32,
                shared_bytes: 0,
                arguments: &[
                    finished.argument(),
                    model.pixels_from(finished.first),
                    model.argument(),
                    planes.argument(),
                ],
            };
            // SAFETY: correct_planes.cu reads and writes one plane for each of the finished pixels, of which there are at most
            // `at_once`, and reads one `Pixel` (`check` compared their number).
            unsafe { self.launch(&launch) }?;
            let nothing = (Argument::Address(0), Argument::Address(0));
            let (planes, pixels) = (planes.argument(), finished.pixels);
            transform_columns(self, rows, planes, nothing, planes, pixels)?;

            let splits = finished.pixels.div_ceil(PER_SPLIT);
            let of_phases: CudaBuffer<f64> = self.uninitialised(splits * scan.positions())?;
            let of_squares: CudaBuffer<f64> = self.uninitialised(splits * scan.rows)?;
            // cols of double and twice as many float2
            let lines = Lines::of_all(self, 24 * scan.cols, splits * scan.rows)?;
            let [plan, roots] = rows.row_fourier.arguments();
            let launch = Launch {
                kernel: &SUM_PHASES,
                grid: [scan.rows as u32, splits as u32],
                threads: THREADS_OF_A_ROW,
                shared_bytes: lines.shared_bytes,
                arguments: &[
                    planes,
                    of_phases.argument(),
                    of_squares.argument(),
                    plan,
                    roots,
                    lines.argument(),
                    Argument::U32(finished.pixels as u32),
                    Argument::U32(PER_SPLIT as u32),
                    Argument::U32(scan.cols as u32),
                    Argument::F32((1.0 / dc) as f32),
                ],
            };
            // SAFETY: sum_phases.cu reads the planes of the finished pixels, writes rows x cols phases and rows squares a
            // split, and uses 24 cols bytes a block, which `lines` has for each.
            unsafe { self.launch(&launch) }?;
            sum_parts(self, &of_phases, splits, &mut phases)?;
            sum_parts(self, &of_squares, splits, &mut squares)
        })?;
        let mut mean = self.download(&phases).map_err(CorrectError::Device)?;
        let square: f64 = self.download(&squares).map_err(CorrectError::Device)?.iter().sum();
        mean.iter_mut().for_each(|value| *value /= num_used);
        let square_of_mean: f64 = mean.iter().map(|value| value * value).sum();
        let positions = mean.len() as f64;
        Ok(PhaseMoments { mean, loss: (square / num_used - square_of_mean) / positions })
    }
}
