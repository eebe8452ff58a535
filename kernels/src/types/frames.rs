//! Decoded frames on a device.

use super::{BatchShape, Count, CountType};
use crate::device::Device;

/// Counts on a device, in the type the detector delivered.
#[derive(Debug)]
pub enum CountBuffer<D: Device> {
    /// 8-bit counts.
    U8(D::Buffer<u8>),
    /// 16-bit counts.
    U16(D::Buffer<u16>),
    /// 32-bit counts.
    U32(D::Buffer<u32>),
}

impl<D: Device> CountBuffer<D> {
    /// The type of the counts.
    pub fn count_type(&self) -> CountType {
        match self {
            Self::U8(_) => CountType::U8,
            Self::U16(_) => CountType::U16,
            Self::U32(_) => CountType::U32,
        }
    }

    /// Number of counts in the buffer.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(counts) => D::len(counts),
            Self::U16(counts) => D::len(counts),
            Self::U32(counts) => D::len(counts),
        }
    }

    /// True when the buffer holds no counts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A run of consecutive frames, decoded.
#[derive(Debug)]
pub struct FrameBatch<D: Device> {
    /// Scan position of the first frame, counted from 0 in scan raster order.
    pub first: u64,
    /// Shape of the counts, `[frames][det_row][det_col]`.
    pub shape: BatchShape,
    /// The counts, row-major; `shape.counts()` of them.
    pub counts: CountBuffer<D>,
}

/// Calls `$body` with `$counts` bound to the typed buffer inside a [`CountBuffer`].
#[macro_export]
macro_rules! with_counts {
    ($buffer:expr, $counts:ident => $body:expr) => {
        match $buffer {
            $crate::types::CountBuffer::U8($counts) => $body,
            $crate::types::CountBuffer::U16($counts) => $body,
            $crate::types::CountBuffer::U32($counts) => $body,
        }
    };
}

/// A [`Count`] that a [`CountBuffer`] can hold.
pub trait IntoCountBuffer: Count {
    /// Wraps a typed buffer.
    fn wrap<D: Device>(buffer: D::Buffer<Self>) -> CountBuffer<D>;
}

impl IntoCountBuffer for u8 {
    fn wrap<D: Device>(buffer: D::Buffer<Self>) -> CountBuffer<D> {
        CountBuffer::U8(buffer)
    }
}
impl IntoCountBuffer for u16 {
    fn wrap<D: Device>(buffer: D::Buffer<Self>) -> CountBuffer<D> {
        CountBuffer::U16(buffer)
    }
}
impl IntoCountBuffer for u32 {
    fn wrap<D: Device>(buffer: D::Buffer<Self>) -> CountBuffer<D> {
        CountBuffer::U32(buffer)
    }
}
