//! The device a user's machine has: the processor, or a CUDA device. One type for both, chosen at run time.

use num_complex::{Complex32, Complex64};

use crate::bslz4_decode::cpu::{check_counts, check_frames, decode_into};
use crate::bslz4_decode::{DecodeFrames, Encoding, FailedFrames};
use crate::correct_spectra::{
    BrightFieldPixels, CorrectError, CorrectSpectra, CorrectedSums, CudaSums, GammaModel, MeanFill, Spectra,
};
use crate::cuda::CudaBuffer;
use crate::device::{Cpu, Device, DeviceError, Word};
use crate::invert_half_plane::{InvertError, InvertHalfPlane};
use crate::object_images::{MakeObjectImages, Normalisation, ObjectError, ObjectImages};
use crate::phase_moments::{MomentsError, PhaseMoments, PhaseMomentsOfPixels};
use crate::transform_rows::{CpuRows, CudaRows, SpectraShape, TransformError, TransformRows};
use crate::types::{BatchShape, CountBuffer, CountType, ScanShape};
use crate::{Cuda, CudaUnavailable, with_counts};

/// The processor or a CUDA device.
///
/// Rows that a CUDA device has no memory for are kept and computed by the processor ([`TransformRows::keeper`] tells).
#[derive(Clone, Debug)]
pub enum Processor {
    /// The processor.
    Cpu,
    /// A CUDA device.
    Cuda(Cuda),
}

impl Processor {
    /// The CUDA device of this number.
    ///
    /// # Errors
    /// [`CudaUnavailable`] says in one line why there is none.
    pub fn cuda(ordinal: usize) -> Result<Self, CudaUnavailable> {
        Cuda::new(ordinal).map(Self::Cuda)
    }
}

/// Memory of a [`Processor`].
#[derive(Debug)]
pub enum ProcessorBuffer<T> {
    /// Host memory.
    Cpu(Vec<T>),
    /// Device memory.
    Cuda(CudaBuffer<T>),
}

/// Transformed rows of a [`Processor`].
#[derive(Debug)]
pub enum ProcessorRows {
    /// In host memory.
    Cpu(CpuRows),
    /// In device memory.
    Cuda(CudaRows),
}

/// Sums of a [`Processor`].
#[derive(Debug)]
pub enum ProcessorSums {
    /// In host memory.
    Cpu(CorrectedSums),
    /// In device memory.
    Cuda(CudaSums),
}

impl Device for Processor {
    type Buffer<T: Word> = ProcessorBuffer<T>;

    fn name(&self) -> String {
        match self {
            Self::Cpu => Cpu.name(),
            Self::Cuda(cuda) => cuda.name(),
        }
    }

    fn upload<T: Word>(&self, host: &[T]) -> Result<ProcessorBuffer<T>, DeviceError> {
        Ok(match self {
            Self::Cpu => ProcessorBuffer::Cpu(Cpu.upload(host)?),
            Self::Cuda(cuda) => ProcessorBuffer::Cuda(cuda.upload(host)?),
        })
    }

    fn download<T: Word>(&self, buffer: &ProcessorBuffer<T>) -> Result<Vec<T>, DeviceError> {
        match (self, buffer) {
            (_, ProcessorBuffer::Cpu(buffer)) => Cpu.download(buffer),
            (Self::Cuda(cuda), ProcessorBuffer::Cuda(buffer)) => cuda.download(buffer),
            (Self::Cpu, ProcessorBuffer::Cuda(_)) => Err(elsewhere()),
        }
    }

    fn zeros<T: Word>(&self, len: usize) -> Result<ProcessorBuffer<T>, DeviceError> {
        Ok(match self {
            Self::Cpu => ProcessorBuffer::Cpu(Cpu.zeros(len)?),
            Self::Cuda(cuda) => ProcessorBuffer::Cuda(cuda.zeros(len)?),
        })
    }

    fn len<T: Word>(buffer: &ProcessorBuffer<T>) -> usize {
        match buffer {
            ProcessorBuffer::Cpu(buffer) => buffer.len(),
            ProcessorBuffer::Cuda(buffer) => buffer.len(),
        }
    }
}

/// What is in device memory was given to the processor.
fn elsewhere() -> DeviceError {
    DeviceError::Failed {
        device: Cpu.name(),
        what: "got memory of a CUDA device, expected host memory".into(),
    }
}

impl DecodeFrames for Processor {
    /// In host memory where the device has no room for the counts.
    fn decode_frames(
        &self,
        encoding: Encoding,
        frames: &[&[u8]],
        shape: BatchShape,
        count_type: CountType,
    ) -> Result<(CountBuffer<Self>, FailedFrames), DeviceError> {
        if let Self::Cuda(cuda) = self {
            match cuda.decode_frames(encoding, frames, shape, count_type) {
                Err(DeviceError::OutOfMemory { .. }) => {}
                decoded => {
                    let (counts, failed) = decoded?;
                    let counts = match counts {
                        CountBuffer::U8(counts) => CountBuffer::U8(ProcessorBuffer::Cuda(counts)),
                        CountBuffer::U16(counts) => CountBuffer::U16(ProcessorBuffer::Cuda(counts)),
                        CountBuffer::U32(counts) => CountBuffer::U32(ProcessorBuffer::Cuda(counts)),
                    };
                    return Ok((counts, failed));
                }
            }
        }
        let (counts, failed) = Cpu.decode_frames(encoding, frames, shape, count_type)?;
        let counts = match counts {
            CountBuffer::U8(counts) => CountBuffer::U8(ProcessorBuffer::Cpu(counts)),
            CountBuffer::U16(counts) => CountBuffer::U16(ProcessorBuffer::Cpu(counts)),
            CountBuffer::U32(counts) => CountBuffer::U32(ProcessorBuffer::Cpu(counts)),
        };
        Ok((counts, failed))
    }

    fn decode_frames_into(
        &self,
        encoding: Encoding,
        frames: &[&[u8]],
        shape: BatchShape,
        counts: &mut CountBuffer<Self>,
    ) -> Result<FailedFrames, DeviceError> {
        check_frames(self, frames, shape)?;
        check_counts(self, counts, shape)?;
        let pixels = shape.detector.pixels();
        with_counts!(counts, counts => match (self, counts) {
            (_, ProcessorBuffer::Cpu(counts)) => Ok(decode_into(encoding, frames, shape, counts)),
            (Self::Cuda(cuda), ProcessorBuffer::Cuda(counts)) => {
                cuda.decode_into(encoding, frames, pixels, counts)
            }
            (Self::Cpu, ProcessorBuffer::Cuda(_)) => Err(elsewhere()),
        })
    }
}

impl TransformRows for Processor {
    type Rows = ProcessorRows;

    fn open_rows(&self, shape: SpectraShape) -> Result<ProcessorRows, TransformError> {
        if let Self::Cuda(cuda) = self {
            match cuda.open_rows(shape) {
                Err(TransformError::Device(DeviceError::OutOfMemory { .. })) => {}
                opened => return opened.map(ProcessorRows::Cuda),
            }
        }
        Cpu.open_rows(shape).map(ProcessorRows::Cpu)
    }

    fn shape(rows: &ProcessorRows) -> SpectraShape {
        match rows {
            ProcessorRows::Cpu(rows) => Cpu::shape(rows),
            ProcessorRows::Cuda(rows) => Cuda::shape(rows),
        }
    }

    fn keeper(rows: &ProcessorRows) -> &'static str {
        match rows {
            ProcessorRows::Cpu(rows) => Cpu::keeper(rows),
            ProcessorRows::Cuda(rows) => Cuda::keeper(rows),
        }
    }

    /// The more of both.
    fn rows_bytes(shape: SpectraShape) -> u64 {
        Cpu::rows_bytes(shape).max(Cuda::rows_bytes(shape))
    }

    fn transform_row(
        &self,
        rows: &mut ProcessorRows,
        scan_row: usize,
        counts: &[u32],
        covered: &[bool],
    ) -> Result<(), TransformError> {
        match (self, rows) {
            (_, ProcessorRows::Cpu(rows)) => Cpu.transform_row(rows, scan_row, counts, covered),
            (Self::Cuda(cuda), ProcessorRows::Cuda(rows)) => {
                cuda.transform_row(rows, scan_row, counts, covered)
            }
            (Self::Cpu, ProcessorRows::Cuda(_)) => Err(elsewhere().into()),
        }
    }

    fn row_spectra(&self, rows: &ProcessorRows, scan_row: usize) -> Result<Vec<Complex32>, TransformError> {
        match (self, rows) {
            (_, ProcessorRows::Cpu(rows)) => Cpu.row_spectra(rows, scan_row),
            (Self::Cuda(cuda), ProcessorRows::Cuda(rows)) => cuda.row_spectra(rows, scan_row),
            (Self::Cpu, ProcessorRows::Cuda(_)) => Err(elsewhere().into()),
        }
    }
}

impl CorrectSpectra for Processor {
    type Sums = ProcessorSums;

    fn close_rows(&self, rows: &mut ProcessorRows, fill: Option<&MeanFill>) -> Result<(), CorrectError> {
        match (self, rows) {
            (_, ProcessorRows::Cpu(rows)) => Cpu.close_rows(rows, fill),
            (Self::Cuda(cuda), ProcessorRows::Cuda(rows)) => cuda.close_rows(rows, fill),
            (Self::Cpu, ProcessorRows::Cuda(_)) => Err(elsewhere().into()),
        }
    }

    fn correct_spectra(
        &self,
        spectra: &Spectra<'_, Self>,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
    ) -> Result<ProcessorSums, CorrectError> {
        let fill = spectra.fill;
        Ok(match (self, spectra.rows) {
            (_, ProcessorRows::Cpu(rows)) => {
                ProcessorSums::Cpu(Cpu.correct_spectra(&Spectra { rows, fill }, pixels, model)?)
            }
            (Self::Cuda(cuda), ProcessorRows::Cuda(rows)) => {
                ProcessorSums::Cuda(cuda.correct_spectra(&Spectra { rows, fill }, pixels, model)?)
            }
            (Self::Cpu, ProcessorRows::Cuda(_)) => return Err(elsewhere().into()),
        })
    }

    fn download_sums(&self, sums: &ProcessorSums) -> Result<CorrectedSums, CorrectError> {
        match (self, sums) {
            (_, ProcessorSums::Cpu(sums)) => Ok(sums.clone()),
            (Self::Cuda(cuda), ProcessorSums::Cuda(sums)) => cuda.download_sums(sums),
            (Self::Cpu, ProcessorSums::Cuda(_)) => Err(elsewhere().into()),
        }
    }

    fn upload_sums(&self, sums: &CorrectedSums) -> Result<ProcessorSums, CorrectError> {
        Ok(match self {
            Self::Cpu => ProcessorSums::Cpu(Cpu.upload_sums(sums)?),
            Self::Cuda(cuda) => ProcessorSums::Cuda(cuda.upload_sums(sums)?),
        })
    }

    fn overlap_function(
        &self,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
        scan: ScanShape,
    ) -> Result<Vec<Complex32>, CorrectError> {
        match self {
            Self::Cpu => Cpu.overlap_function(pixels, model, scan),
            Self::Cuda(cuda) => cuda.overlap_function(pixels, model, scan),
        }
    }

    fn pixel_spectrum(
        &self,
        spectra: &Spectra<'_, Self>,
        pixel: usize,
    ) -> Result<Vec<Complex32>, CorrectError> {
        let fill = spectra.fill;
        match (self, spectra.rows) {
            (_, ProcessorRows::Cpu(rows)) => Cpu.pixel_spectrum(&Spectra { rows, fill }, pixel),
            (Self::Cuda(cuda), ProcessorRows::Cuda(rows)) => {
                cuda.pixel_spectrum(&Spectra { rows, fill }, pixel)
            }
            (Self::Cpu, ProcessorRows::Cuda(_)) => Err(elsewhere().into()),
        }
    }
}

impl PhaseMomentsOfPixels for Processor {
    fn phase_moments(
        &self,
        spectra: &Spectra<'_, Self>,
        pixels: &BrightFieldPixels,
        model: &GammaModel,
        dc: f64,
    ) -> Result<PhaseMoments, MomentsError> {
        let fill = spectra.fill;
        match (self, spectra.rows) {
            (_, ProcessorRows::Cpu(rows)) => Cpu.phase_moments(&Spectra { rows, fill }, pixels, model, dc),
            (Self::Cuda(cuda), ProcessorRows::Cuda(rows)) => {
                cuda.phase_moments(&Spectra { rows, fill }, pixels, model, dc)
            }
            (Self::Cpu, ProcessorRows::Cuda(_)) => Err(CorrectError::from(elsewhere()).into()),
        }
    }
}

impl InvertHalfPlane for Processor {
    fn invert_half_plane(&self, plane: &[Complex64], scan: ScanShape) -> Result<Vec<f64>, InvertError> {
        match self {
            Self::Cpu => Cpu.invert_half_plane(plane, scan),
            Self::Cuda(cuda) => match cuda.invert_half_plane(plane, scan) {
                // one image is nothing to the processor
                Err(InvertError::Device(DeviceError::OutOfMemory { .. })) => {
                    Cpu.invert_half_plane(plane, scan)
                }
                inverted => inverted,
            },
        }
    }
}

impl MakeObjectImages for Processor {
    fn object_images(
        &self,
        sums: &ProcessorSums,
        scan: ScanShape,
        by: Normalisation,
    ) -> Result<ObjectImages, ObjectError> {
        match (self, sums) {
            (_, ProcessorSums::Cpu(sums)) => Cpu.object_images(sums, scan, by),
            (Self::Cuda(cuda), ProcessorSums::Cuda(sums)) => match cuda.object_images(sums, scan, by) {
                // a few images are nothing to the processor
                Err(error) if error.is_out_of_memory() => {
                    Cpu.object_images(&cuda.download_sums(sums)?, scan, by)
                }
                made => made,
            },
            (Self::Cpu, ProcessorSums::Cuda(_)) => Err(CorrectError::from(elsewhere()).into()),
        }
    }
}
