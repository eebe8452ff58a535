//! A device is memory and one queue. It has no operations: each operation is a trait of its own, and a
//! [`Backend`] is a device that has them all.

/// What device memory can hold: plain numbers.
pub trait Word: bytemuck::Pod + Send + Sync + std::fmt::Debug + 'static {}

impl<T: bytemuck::Pod + Send + Sync + std::fmt::Debug + 'static> Word for T {}

/// Memory and one queue. Operations issued on one device run in the order they were issued.
pub trait Device: Clone + Send + Sync + std::fmt::Debug + 'static {
    /// Memory of this device holding `T`s.
    type Buffer<T: Word>: Send + Sync + std::fmt::Debug;

    /// What a person would call the device, for example `CPU (2 threads, avx512)`.
    fn name(&self) -> String;

    /// Copies host memory to the device.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn upload<T: Word>(&self, host: &[T]) -> Result<Self::Buffer<T>, DeviceError>;

    /// Copies device memory to the host, after everything issued before.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] when an earlier operation on the queue failed.
    fn download<T: Word>(&self, buffer: &Self::Buffer<T>) -> Result<Vec<T>, DeviceError>;

    /// Memory of `len` elements, all zero.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn zeros<T: Word>(&self, len: usize) -> Result<Self::Buffer<T>, DeviceError>;

    /// Number of elements in a buffer.
    fn len<T: Word>(buffer: &Self::Buffer<T>) -> usize;
}

/// What a device can fail with.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No memory left.
    #[error("{device}: no memory for {bytes} bytes")]
    OutOfMemory {
        /// The device asked.
        device: String,
        /// The size asked for.
        bytes: usize,
    },
    /// The device reported a failure.
    #[error("{device}: {what}")]
    Failed {
        /// The device.
        device: String,
        /// Its own words.
        what: String,
    },
}

/// A device that has every operation. The pipeline is written against this.
pub trait Backend: Device {}

/// The processor: host memory, the calling thread as queue, rayon's threads inside an operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Device for Cpu {
    type Buffer<T: Word> = Vec<T>;

    fn name(&self) -> String {
        format!("CPU ({} threads)", rayon::current_num_threads())
    }

    fn upload<T: Word>(&self, host: &[T]) -> Result<Vec<T>, DeviceError> {
        Ok(host.to_vec())
    }

    fn download<T: Word>(&self, buffer: &Vec<T>) -> Result<Vec<T>, DeviceError> {
        Ok(buffer.clone())
    }

    fn zeros<T: Word>(&self, len: usize) -> Result<Vec<T>, DeviceError> {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).map_err(|_| DeviceError::OutOfMemory {
            device: self.name(),
            bytes: len.saturating_mul(size_of::<T>()),
        })?;
        buffer.resize(len, T::zeroed());
        Ok(buffer)
    }

    fn len<T: Word>(buffer: &Vec<T>) -> usize {
        buffer.len()
    }
}
