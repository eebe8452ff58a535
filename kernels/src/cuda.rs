//! CUDA devices: memory, two queues, and kernels that are compiled for the device at hand.
//!
//! The library of the driver and the compiler are loaded when they are first asked for; a machine without them runs
//! everything on [`Cpu`](crate::Cpu). Kernels are `kernels/src/<operation>/<operation>.cu`, one a file, and what launches
//! them is `cuda.rs` beside it.

mod compile;
mod driver;
#[cfg(any(test, feature = "emulated-cuda"))]
mod emulated;
pub(crate) mod fourier;
mod nvidia;
mod slab;

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

pub(crate) use driver::{Argument, Kernel, Launch, Queue};
pub use nvidia::CudaUnavailable;
pub(crate) use slab::Slab;

use crate::device::{Device, DeviceError, Word};
use driver::{Driver, DriverError};

/// Every kernel of this library.
fn kernels() -> Vec<&'static Kernel> {
    vec![
        &crate::bslz4_decode::BSLZ4_DECODE,
        &crate::transform_rows::TRANSFORM_ROWS,
        &crate::correct_spectra::TRANSFORM_COLUMNS,
        &crate::correct_spectra::CORRECT_QUADRATIC,
        &crate::correct_spectra::CORRECT_SPECTRA,
        &crate::correct_spectra::CORRECT_OBLONG,
        &crate::correct_spectra::OVERLAP_FUNCTION,
        &crate::correct_spectra::SUM_PARTS,
        &crate::phase_moments::CORRECT_PLANES,
        &crate::phase_moments::SUM_PHASES,
        &crate::invert_half_plane::INVERT_COLUMNS,
        &crate::invert_half_plane::INVERT_ROWS,
        &crate::object_images::LARGEST_SUMS,
        &crate::object_images::OBJECT_PLANES,
        &crate::object_images::FINISH_IMAGES,
    ]
}

/// A CUDA device. Clones are the same device and the same queues.
#[derive(Clone, Debug)]
pub struct Cuda {
    driver: Arc<dyn Driver>,
    /// Pinned memory that is kept from one batch of frames to the next.
    slab: Arc<Mutex<Option<Slab>>>,
}

impl Cuda {
    /// The device of this number, counted from 0.
    ///
    /// # Errors
    /// [`CudaUnavailable`] says in one line why there is none.
    pub fn new(ordinal: usize) -> Result<Self, CudaUnavailable> {
        Ok(Self::with_driver(Arc::new(nvidia::Nvidia::new(ordinal)?)))
    }

    /// Runs the kernels on the processor, thread by thread: their logic is tested where there is no device. Threads of a
    /// block run in an order drawn from `seed` between two barriers, and so do the two queues between two fences, so that
    /// what lacks a barrier or a fence goes wrong. Needs a C++ compiler.
    #[cfg(any(test, feature = "emulated-cuda"))]
    pub fn emulated(seed: u64) -> Self {
        Self::with_driver(Arc::new(emulated::Emulated::new(seed)))
    }

    fn with_driver(driver: Arc<dyn Driver>) -> Self {
        Self { driver, slab: Arc::default() }
    }

    /// Free and total bytes of the device's memory.
    ///
    /// # Errors
    /// [`DeviceError::Failed`].
    pub fn memory(&self) -> Result<(u64, u64), DeviceError> {
        self.driver.memory().map_err(|error| self.error(error, 0))
    }

    /// Memory of `len` elements with anything in it.
    pub(crate) fn uninitialised<T: Word>(&self, len: usize) -> Result<CudaBuffer<T>, DeviceError> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| self.out_of_memory(usize::MAX))?;
        let address = match bytes {
            0 => 0,
            _ => self.driver.allocate(bytes).map_err(|error| self.error(error, bytes))?,
        };
        Ok(CudaBuffer { device: self.clone(), address, len, words: PhantomData })
    }

    /// Copies host memory over the elements from `first` on.
    pub(crate) fn write<T: Word>(
        &self,
        buffer: &mut CudaBuffer<T>,
        first: usize,
        host: &[T],
    ) -> Result<(), DeviceError> {
        assert!(first <= buffer.len && host.len() <= buffer.len - first, "the buffer is shorter");
        let to = buffer.address + (first * size_of::<T>()) as u64;
        let bytes: &[u8] = bytemuck::cast_slice(host);
        if bytes.is_empty() {
            return Ok(());
        }
        self.driver.write(Queue::Main, to, bytes).map_err(|error| self.error(error, bytes.len()))
    }

    /// Copies host memory to the device beside the main queue, which waits for it before what it is given next.
    ///
    /// The copy in turn waits for all that the main queue was given before: the memory may be that of a buffer which was
    /// dropped while kernels that read it were still queued. Without that fence they would read what is written here.
    pub(crate) fn upload_beside<T: Word>(&self, host: &[T]) -> Result<CudaBuffer<T>, DeviceError> {
        let buffer = self.uninitialised(host.len())?;
        self.fence(Queue::Upload, Queue::Main)?;
        self.write_beside(&buffer, host)?;
        self.fence(Queue::Main, Queue::Upload)?;
        Ok(buffer)
    }

    fn write_beside<T: Word>(&self, buffer: &CudaBuffer<T>, host: &[T]) -> Result<(), DeviceError> {
        let bytes: &[u8] = bytemuck::cast_slice(host);
        match bytes.is_empty() {
            true => Ok(()),
            false => self
                .driver
                .write(Queue::Upload, buffer.address, bytes)
                .map_err(|error| self.error(error, bytes.len())),
        }
    }

    /// What is given to `queue` from now on waits for what `other` was given until now.
    pub(crate) fn fence(&self, queue: Queue, other: Queue) -> Result<(), DeviceError> {
        self.driver.wait(queue, other).map_err(|error| self.error(error, 0))
    }

    /// Copies `len` elements from element `first` on to the host, after everything issued before.
    pub(crate) fn download_part<T: Word>(
        &self,
        buffer: &CudaBuffer<T>,
        first: usize,
        len: usize,
    ) -> Result<Vec<T>, DeviceError> {
        assert!(first <= buffer.len && len <= buffer.len - first, "the buffer is shorter");
        // the system's own zeros, which are not touched before the copy
        let mut host = bytemuck::allocation::try_zeroed_vec(len).map_err(|()| DeviceError::OutOfMemory {
            device: "host".into(),
            bytes: len.saturating_mul(size_of::<T>()),
        })?;
        if !host.is_empty() {
            let address = buffer.address + (first * size_of::<T>()) as u64;
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut host);
            self.driver.read(Queue::Main, address, bytes).map_err(|error| self.error(error, 0))?;
        }
        Ok(host)
    }

    /// Issues a kernel to the main queue.
    ///
    /// # Safety
    /// The kernel must stay within the memory that the arguments name, for this grid and these threads; `arguments` must
    /// be what its parameters are, one by one.
    pub(crate) unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        // SAFETY: the same contract.
        unsafe { self.launch_on(Queue::Main, launch) }
    }

    /// Issues a kernel to a queue.
    ///
    /// # Safety
    /// As [`Self::launch`].
    pub(crate) unsafe fn launch_on(&self, queue: Queue, launch: &Launch<'_>) -> Result<(), DeviceError> {
        if launch.grid.contains(&0) || launch.threads == 0 {
            return Ok(());
        }
        self.driver.launch(queue, launch).map_err(|error| self.error(error, 0))
    }

    fn error(&self, error: DriverError, bytes: usize) -> DeviceError {
        match error {
            DriverError::OutOfMemory => self.out_of_memory(bytes),
            DriverError::Failed(what) => DeviceError::Failed { device: self.name(), what },
        }
    }

    fn out_of_memory(&self, bytes: usize) -> DeviceError {
        DeviceError::OutOfMemory { device: self.name(), bytes }
    }
}

/// Memory of a CUDA device; given back when dropped, after what was issued before.
#[derive(Debug)]
pub struct CudaBuffer<T> {
    device: Cuda,
    address: u64,
    len: usize,
    words: PhantomData<T>,
}

impl<T> CudaBuffer<T> {
    /// The memory as a kernel takes it.
    pub(crate) fn argument(&self) -> Argument {
        Argument::Address(self.address)
    }

    /// The memory from element `first` on.
    pub(crate) fn argument_from(&self, first: usize) -> Argument {
        debug_assert!(first <= self.len);
        Argument::Address(self.address + (first * size_of::<T>()) as u64)
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl<T> Drop for CudaBuffer<T> {
    fn drop(&mut self) {
        if self.len > 0 && size_of::<T>() > 0 {
            self.device.driver.free(self.address, self.len * size_of::<T>());
        }
    }
}

impl Device for Cuda {
    type Buffer<T: Word> = CudaBuffer<T>;

    fn name(&self) -> String {
        self.driver.name()
    }

    fn upload<T: Word>(&self, host: &[T]) -> Result<CudaBuffer<T>, DeviceError> {
        let mut buffer = self.uninitialised(host.len())?;
        self.write(&mut buffer, 0, host)?;
        Ok(buffer)
    }

    fn download<T: Word>(&self, buffer: &CudaBuffer<T>) -> Result<Vec<T>, DeviceError> {
        self.download_part(buffer, 0, buffer.len)
    }

    fn zeros<T: Word>(&self, len: usize) -> Result<CudaBuffer<T>, DeviceError> {
        let buffer = self.uninitialised(len)?;
        if len > 0 {
            self.driver
                .fill_with_zeros(Queue::Main, buffer.address, len * size_of::<T>())
                .map_err(|error| self.error(error, 0))?;
        }
        Ok(buffer)
    }

    fn len<T: Word>(buffer: &CudaBuffer<T>) -> usize {
        buffer.len
    }
}

#[cfg(test)]
mod tests;
