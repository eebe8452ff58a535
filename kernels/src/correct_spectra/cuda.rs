//! correct_spectra on CUDA: columns of some hundred pixels are transformed into scratch, then every q of the half plane
//! walks those pixels. Sums are taken in double, pixels in order within a part and parts in order.

use std::sync::Arc;

use num_complex::Complex32;

use super::runs::{Detector, RUN_PIXELS, Run, Runs};
use super::sums::{CudaSums, SUMS};
use super::{
    BrightFieldPixels, CorrectError, CorrectSpectra, CorrectedSums, GammaModel, MeanFill, Spectra, check,
    check_overlap,
};
use crate::cuda::fourier::{Lines, batch};
use crate::cuda::{Argument, Cuda, CudaBuffer, Kernel, Launch};
use crate::device::Device;
use crate::transform_rows::CudaRows;
use crate::types::ScanShape;

/// Finishes G.
pub(crate) static TRANSFORM_COLUMNS: Kernel =
    Kernel { name: "transform_columns", source: include_str!("transform_columns.cu") };
/// Corrects and sums.
pub(crate) static CORRECT_SPECTRA: Kernel =
    Kernel { name: "correct_spectra", source: include_str!("correct_spectra.cu") };
/// The same with C10 and C12 alone.
pub(crate) static CORRECT_QUADRATIC: Kernel =
    Kernel { name: "correct_quadratic", source: include_str!("correct_quadratic.cu") };
/// The same for detector pixels that are not square.
pub(crate) static CORRECT_OBLONG: Kernel =
    Kernel { name: "correct_oblong", source: include_str!("correct_oblong.cu") };
/// gamma itself.
pub(crate) static OVERLAP_FUNCTION: Kernel =
    Kernel { name: "overlap_function", source: include_str!("overlap_function.cu") };
/// Adds parts of sums.
pub(crate) static SUM_PARTS: Kernel = Kernel { name: "sum_parts", source: include_str!("sum_parts.cu") };

/// Threads of a block where one thread does one q.
const THREADS: usize = 256;
/// Pixels of one part of a sum, where so many fit.
const PER_SPLIT: usize = 256;
/// Bytes of finished spectra held at a time, and of parts of sums.
const MOST_SCRATCH: usize = 1 << 30;
/// Blocks along y that every device takes.
const MOST_ALONG_Y: usize = 65_535;

/// One pixel as gamma.cuh has it.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Pixel {
    angle: [f64; 2],
    chi_turns: f64,
    aperture: f32,
    unused: f32,
}

/// The model as gamma.cuh has it.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Model {
    chi_turns: [[f64; 7]; 7],
    pixel: [f64; 2],
    frequency: [f64; 2],
    support: f64,
    /// 1 / pixel where it is square, else 0.
    inverse_pixel: f32,
    rows: u32,
    cols: u32,
    q_cols: u32,
}

/// Runs of pixels in device memory.
struct CudaRuns {
    runs: CudaBuffer<Run>,
    starts: CudaBuffer<u32>,
    detector: CudaBuffer<Detector>,
}

impl CudaRuns {
    fn new(device: &Cuda, runs: &Runs) -> Result<Self, CorrectError> {
        Ok(Self {
            runs: device.upload(&runs.runs)?,
            starts: device.upload(&runs.starts)?,
            detector: device.upload(&[runs.detector])?,
        })
    }
}

/// Pixels and model in device memory.
#[derive(Debug)]
pub(crate) struct CudaModel {
    pixels: CudaBuffer<Pixel>,
    model: CudaBuffer<Model>,
}

impl CudaModel {
    pub(crate) fn new(
        device: &Cuda,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
        scan: ScanShape,
    ) -> Result<Self, CorrectError> {
        let of_pixel = |(&angle, &used): (&[f64; 2], &bool)| Pixel {
            angle,
            chi_turns: model.chi_turns(angle),
            aperture: if used { model.aperture(angle) as f32 } else { 0.0 },
            unused: 0.0,
        };
        let of_pixels: Vec<Pixel> = pixels.angles.iter().zip(&pixels.used).map(of_pixel).collect();
        let model = model.for_device(scan);
        Ok(Self { pixels: device.upload(&of_pixels)?, model: device.upload(&[model])? })
    }

    /// The pixels from one on.
    pub(crate) fn pixels_from(&self, first: usize) -> Argument {
        self.pixels.argument_from(first)
    }

    pub(crate) fn argument(&self) -> Argument {
        self.model.argument()
    }
}

impl GammaModel {
    fn for_device(&self, scan: ScanShape) -> Model {
        let [row, col] = self.pixel();
        Model {
            chi_turns: *self.chi_turns_f64(),
            pixel: self.pixel(),
            frequency: self.frequency(),
            // as in `column_frequencies`
            support: 2.0 * self.outer_radius() + 1e-6,
            inverse_pixel: if row == col { (1.0 / row) as f32 } else { 0.0 },
            rows: scan.rows as u32,
            cols: scan.cols as u32,
            q_cols: (scan.cols / 2 + 1) as u32,
        }
    }
}

/// Some pixels' finished spectra: which, and where.
pub(crate) struct Finished<'a> {
    pub(crate) first: usize,
    pub(crate) pixels: usize,
    /// `[pixel][q_row][q_col]`, and which of it is the first.
    spectra: &'a CudaBuffer<Complex32>,
    at: usize,
}

impl Finished<'_> {
    /// The spectra as a kernel takes them, to be read.
    pub(crate) fn argument(&self) -> Argument {
        self.spectra.argument_from(self.at)
    }
}

/// Pixels of one part of a sum: by the shape alone, so that the order of summation is.
fn per_split(rows: &CudaRows) -> usize {
    let fit = MOST_SCRATCH / (rows.plane() * size_of::<Complex32>()).max(1);
    PER_SPLIT.min(fit - fit % RUN_PIXELS).max(RUN_PIXELS)
}

/// How many pixels are worked on at a time, each of which takes `bytes` of scratch: whole parts of a sum.
fn at_once_of(rows: &CudaRows, bytes: usize) -> usize {
    let per_split = per_split(rows);
    let fit = (MOST_SCRATCH / bytes.max(1)).clamp(per_split, MOST_ALONG_Y);
    (fit - fit % per_split).min(rows.shape.pixels)
}

/// How many pixels are finished at a time.
pub(crate) fn at_once(rows: &CudaRows) -> usize {
    at_once_of(rows, rows.plane() * size_of::<Complex32>())
}

/// Finishes G of all pixels, `at_once` at a time, in order; closed rows are finished already.
pub(crate) fn for_finished(
    device: &Cuda,
    spectra: &Spectra<'_, Cuda>,
    at_once: usize,
    mut work: impl FnMut(&Finished<'_>) -> Result<(), CorrectError>,
) -> Result<(), CorrectError> {
    let rows = spectra.rows;
    let (pixels, plane) = (rows.shape.pixels, rows.plane());
    if pixels == 0 || plane == 0 {
        return Ok(());
    }
    if rows.is_closed {
        for first in (0..pixels).step_by(at_once) {
            let (pixels, at) = (at_once.min(pixels - first), first * plane);
            work(&Finished { first, pixels, spectra: &rows.spectra, at })?;
        }
        return Ok(());
    }
    let fill = spectra.fill.map(|fill| UploadedFill::new(device, fill, rows)).transpose()?;
    let scratch = device.uninitialised(at_once * plane)?;
    for first in (0..pixels).step_by(at_once) {
        let pixels = at_once.min(pixels - first);
        finish(device, rows, fill.as_ref(), first, &scratch, pixels)?;
        work(&Finished { first, pixels, spectra: &scratch, at: 0 })?;
    }
    Ok(())
}

/// What stands at positions that are not there, in device memory.
struct UploadedFill {
    means: CudaBuffer<f32>,
    /// `[scan_row][q_col]`
    gaps: CudaBuffer<Complex32>,
}

impl UploadedFill {
    fn new(device: &Cuda, fill: &MeanFill, rows: &CudaRows) -> Result<Self, CorrectError> {
        let q_cols = rows.shape.q_cols();
        let mut gaps = vec![Complex32::ZERO; rows.plane()];
        for (to, gap) in gaps.chunks_exact_mut(q_cols).zip(&fill.gaps) {
            if let Some(gap) = gap {
                to.copy_from_slice(gap);
            }
        }
        Ok(Self { means: device.upload(&fill.means)?, gaps: device.upload(&gaps)? })
    }
}

/// Finishes `pixels` from `first` on into `to`.
fn finish(
    device: &Cuda,
    rows: &CudaRows,
    fill: Option<&UploadedFill>,
    first: usize,
    to: &CudaBuffer<Complex32>,
    pixels: usize,
) -> Result<(), CorrectError> {
    assert!(first + pixels <= rows.shape.pixels && pixels * rows.plane() <= to.len());
    let from = rows.spectra.argument_from(first * rows.plane());
    transform_columns(device, rows, from, fills(fill, first), to.argument(), pixels)
}

fn fills(fill: Option<&UploadedFill>, first: usize) -> (Argument, Argument) {
    match fill {
        Some(fill) => (fill.means.argument_from(first), fill.gaps.argument()),
        None => (Argument::Address(0), Argument::Address(0)),
    }
}

/// Transforms the columns of `pixels` planes from `from` to `to`, which may be the same memory; whoever calls vouches that
/// both hold so many.
pub(crate) fn transform_columns(
    device: &Cuda,
    rows: &CudaRows,
    from: Argument,
    (means, gaps): (Argument, Argument),
    to: Argument,
    pixels: usize,
) -> Result<(), CorrectError> {
    let (scan_rows, q_cols, plane) = (rows.shape.scan.rows, rows.shape.q_cols(), rows.plane());
    let line = 2 * scan_rows * size_of::<Complex32>();
    let columns = batch(line, q_cols.min(8));
    let along_x = q_cols.div_ceil(columns);
    let lines = Lines::new(device, line * columns, along_x * pixels)?;
    let [plan, roots] = rows.column_fourier.arguments();
    let at_once = (lines.most_blocks / along_x).clamp(1, MOST_ALONG_Y);
    if lines.most_blocks < along_x {
        return Err(CorrectError::Device(crate::device::DeviceError::OutOfMemory {
            device: device.name(),
            bytes: line * columns * along_x,
        }));
    }
    let shifted = |argument: Argument, bytes: usize| match argument {
        Argument::Address(address) if address != 0 => Argument::Address(address + bytes as u64),
        other => other,
    };
    for first in (0..pixels).step_by(at_once) {
        let launch = Launch {
            kernel: &TRANSFORM_COLUMNS,
            grid: [along_x as u32, at_once.min(pixels - first) as u32],
            threads: THREADS as u32,
            shared_bytes: lines.shared_bytes,
            arguments: &[
                shifted(from, first * plane * size_of::<Complex32>()),
                shifted(to, first * plane * size_of::<Complex32>()),
                shifted(means, first * size_of::<f32>()),
                gaps,
                plan,
                roots,
                lines.argument(),
                Argument::U32(scan_rows as u32),
                Argument::U32(q_cols as u32),
                Argument::U32(columns as u32),
            ],
        };
        // SAFETY: transform_columns.cu reads and writes one plane a pixel, of which both sides have so many (the caller), means
        // and gaps of the lengths that `check` compared, and uses 2 rows columns values a block, which `lines` has for each.
        unsafe { device.launch(&launch) }?;
    }
    Ok(())
}

/// Adds parts `[part][len]` to `sums`.
pub(crate) fn sum_parts(
    device: &Cuda,
    parts: &CudaBuffer<f64>,
    num_parts: usize,
    sums: &mut CudaBuffer<f64>,
) -> Result<(), CorrectError> {
    let len = sums.len();
    assert!(num_parts * len <= parts.len(), "the parts are fewer");
    let launch = Launch {
        kernel: &SUM_PARTS,
        grid: [len.div_ceil(THREADS) as u32, 1],
        threads: THREADS as u32,
        shared_bytes: 0,
        arguments: &[
            parts.argument(),
            sums.argument(),
            Argument::U32(num_parts as u32),
            Argument::U64(len as u64),
        ],
    };
    // SAFETY: sum_parts.cu reads num_parts x len values (asserted) and adds to len of them.
    Ok(unsafe { device.launch(&launch) }?)
}

impl CorrectSpectra for Cuda {
    type Sums = CudaSums;

    fn close_rows(&self, rows: &mut CudaRows, fill: Option<&MeanFill>) -> Result<(), CorrectError> {
        check(&Spectra::<Cuda> { rows, fill }, None)?;
        if !rows.is_closed && rows.plane() > 0 {
            let fill = fill.map(|fill| UploadedFill::new(self, fill, rows)).transpose()?;
            let (planes, pixels) = (rows.spectra.argument(), rows.shape.pixels);
            transform_columns(self, rows, planes, fills(fill.as_ref(), 0), planes, pixels)?;
        }
        rows.is_closed = true;
        Ok(())
    }

    fn correct_spectra(
        &self,
        spectra: &Spectra<'_, Cuda>,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
    ) -> Result<CudaSums, CorrectError> {
        check(spectra, Some(pixels))?;
        let (plane, per_split) = (spectra.rows.plane(), per_split(spectra.rows));
        let runs = Runs::new(pixels, model, per_split);
        let runs = runs.map(|runs| CudaRuns::new(self, &runs)).transpose()?;
        let by_runs = if model.power() == 2 { &CORRECT_QUADRATIC } else { &CORRECT_SPECTRA };
        let nobody = BrightFieldPixels::default();
        let listed = if runs.is_some() { &nobody } else { pixels };
        let model = CudaModel::new(self, listed, model, spectra.shape().scan)?;
        let mut sums: CudaBuffer<f64> = self.zeros(SUMS * plane)?;
        let at_once = match at_once_of(spectra.rows, SUMS * size_of::<f64>() * plane / per_split) {
            all if spectra.rows.is_closed => all,
            most => most.min(at_once(spectra.rows)),
        };
        let parts: CudaBuffer<f64> = self.uninitialised(at_once.div_ceil(per_split) * SUMS * plane)?;
        for_finished(self, spectra, at_once, |finished| {
            let splits = finished.pixels.div_ceil(per_split);
            let first_split = finished.first / per_split;
            let arguments = match &runs {
                Some(of) => vec![
                    finished.argument(),
                    of.runs.argument(),
                    of.starts.argument_from(first_split),
                    model.argument(),
                    of.detector.argument(),
                    parts.argument(),
                    Argument::U32(finished.first as u32),
                ],
                None => vec![
                    finished.argument(),
                    model.pixels_from(finished.first),
                    model.argument(),
                    parts.argument(),
                    Argument::U32(finished.pixels as u32),
                    Argument::U32(per_split as u32),
                ],
            };
            let launch = Launch {
                kernel: if runs.is_some() { by_runs } else { &CORRECT_OBLONG },
                grid: [plane.div_ceil(THREADS) as u32, splits as u32],
                threads: THREADS as u32,
                shared_bytes: 0,
                arguments: &arguments,
            };
            // SAFETY: the kernels read a plane, and a `Pixel` or what is in the runs of these splits, for each of the finished
            // pixels (`check` compared their number; the first of them begins a split), and write six planes a split, of
            // which `at_once` pixels have the most.
            unsafe { self.launch(&launch) }?;
            sum_parts(self, &parts, splits, &mut sums)
        })?;
        Ok(CudaSums::new(sums, Some(Arc::clone(&spectra.rows.inverse))))
    }

    fn download_sums(&self, sums: &CudaSums) -> Result<CorrectedSums, CorrectError> {
        Ok(sums.download(self)?)
    }

    fn upload_sums(&self, sums: &CorrectedSums) -> Result<CudaSums, CorrectError> {
        CudaSums::upload(self, sums)
    }

    fn overlap_function(
        &self,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
        scan: ScanShape,
    ) -> Result<Vec<Complex32>, CorrectError> {
        let expected = check_overlap(pixels)?;
        let plane = scan.rows * (scan.cols / 2 + 1);
        let model = CudaModel::new(self, pixels, model, scan)?;
        let gamma: CudaBuffer<Complex32> = self.zeros(expected * plane)?;
        for first in (0..expected).step_by(MOST_ALONG_Y) {
            let launch = Launch {
                kernel: &OVERLAP_FUNCTION,
                grid: [plane.div_ceil(THREADS) as u32, MOST_ALONG_Y.min(expected - first) as u32],
                threads: THREADS as u32,
                shared_bytes: 0,
                arguments: &[model.pixels_from(first), model.argument(), gamma.argument_from(first * plane)],
            };
            // SAFETY: overlap_function.cu reads one `Pixel` and writes one plane for each block along y.
            unsafe { self.launch(&launch) }?;
        }
        Ok(self.download(&gamma)?)
    }

    fn pixel_spectrum(
        &self,
        spectra: &Spectra<'_, Cuda>,
        pixel: usize,
    ) -> Result<Vec<Complex32>, CorrectError> {
        check(spectra, None)?;
        let rows = spectra.rows;
        if pixel >= rows.shape.pixels {
            let (got, expected) = (rows.shape.pixels, pixel + 1);
            return Err(CorrectError::WrongLength { what: "pixels, at least", got, expected });
        }
        if rows.is_closed {
            return Ok(self.download_part(&rows.spectra, pixel * rows.plane(), rows.plane())?);
        }
        let fill = spectra.fill.map(|fill| UploadedFill::new(self, fill, rows)).transpose()?;
        let plane: CudaBuffer<Complex32> = self.uninitialised(rows.plane())?;
        finish(self, rows, fill.as_ref(), pixel, &plane, 1)?;
        Ok(self.download(&plane)?)
    }
}
