//! Pinned host memory, and copies from it that need no other.

use std::sync::{Arc, PoisonError};

use super::driver::Driver;
use super::{Cuda, CudaBuffer, Queue};
use crate::device::{DeviceError, Word};

/// Pinned host memory; given back when dropped.
#[derive(Debug)]
pub(crate) struct Slab {
    driver: Arc<dyn Driver>,
    address: u64,
    bytes: usize,
}

impl Slab {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is `bytes` long and ours; `Cuda::pinned` has written to all of it.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) }
    }

    /// The memory to be written to. No copy to the device may be under way from it.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`; `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.bytes) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.driver.unpin(self.address, self.bytes);
    }
}

impl Cuda {
    /// Pinned memory of `bytes`, zero.
    pub(crate) fn pinned(&self, bytes: usize) -> Result<Slab, DeviceError> {
        let bytes = bytes.max(1);
        let address = self.driver.pin(bytes).map_err(|error| self.error(error, bytes))?;
        let slab = Slab { driver: self.driver.clone(), address, bytes };
        // SAFETY: the memory is `bytes` long and nobody else's.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0, bytes) };
        Ok(slab)
    }

    /// The slab that goes from batch to batch, or another one where that is too small or in use. Nobody is waited for: a
    /// thread that copies frames in parallel may be given another batch meanwhile.
    pub(crate) fn take_slab(&self, bytes: usize) -> Result<Slab, DeviceError> {
        let kept = self.slab.lock().unwrap_or_else(PoisonError::into_inner).take();
        match kept {
            Some(slab) if slab.bytes >= bytes => Ok(slab),
            too_small => {
                drop(too_small);
                self.pinned(bytes.next_power_of_two())
            }
        }
    }

    /// Keeps a slab for the next batch; no copy is under way from it.
    pub(crate) fn keep_slab(&self, slab: Slab) {
        let mut kept = self.slab.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.bytes < slab.bytes) {
            let smaller = kept.replace(slab);
            drop(kept);
            drop(smaller);
        }
    }

    /// Copies a part of a slab over the elements from `first` on, in the order of a queue, without waiting.
    ///
    /// # Safety
    /// The part of the slab stays as it is until the queue is past this.
    pub(crate) unsafe fn write_pinned(
        &self,
        queue: Queue,
        buffer: &CudaBuffer<u8>,
        first: usize,
        from: &[u8],
    ) -> Result<(), DeviceError> {
        assert!(first <= buffer.len && from.len() <= buffer.len - first, "the buffer is shorter");
        if from.is_empty() {
            return Ok(());
        }
        self.driver
            .write_pinned(queue, buffer.address + first as u64, from)
            .map_err(|error| self.error(error, 0))
    }

    /// Zeros over `len` elements from `first` on, in the order of a queue.
    pub(crate) fn write_zeros<T: Word>(
        &self,
        queue: Queue,
        buffer: &CudaBuffer<T>,
        first: usize,
        len: usize,
    ) -> Result<(), DeviceError> {
        assert!(first <= buffer.len && len <= buffer.len - first, "the buffer is shorter");
        if len == 0 {
            return Ok(());
        }
        let to = buffer.address + (first * size_of::<T>()) as u64;
        self.driver.fill_with_zeros(queue, to, len * size_of::<T>()).map_err(|error| self.error(error, 0))
    }

    /// The first `len` bytes of a buffer, when a queue is past what it was given.
    pub(crate) fn read_bytes(
        &self,
        queue: Queue,
        buffer: &CudaBuffer<u8>,
        len: usize,
    ) -> Result<Vec<u8>, DeviceError> {
        assert!(len <= buffer.len, "the buffer is shorter");
        let mut host = vec![0; len];
        if len > 0 {
            self.driver.read(queue, buffer.address, &mut host).map_err(|error| self.error(error, 0))?;
        }
        Ok(host)
    }
}
