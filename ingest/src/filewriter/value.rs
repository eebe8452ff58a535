//! Values of datasets and attributes: datatype, dataspace and bytes, as HDF5 messages
//! (HDF5 file format specification 3.0, IV.A.2.b "Dataspace", IV.A.2.d "Datatype").

use std::ops::Range;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// Unsigned little-endian integer of this many bytes.
    Unsigned(u8),
    /// IEEE single precision, little-endian.
    F32,
    /// IEEE double precision, little-endian.
    F64,
    /// ASCII text of this many bytes, null padded.
    Text(u32),
}

impl Element {
    /// The datatype message, version 1.
    pub(super) fn datatype(self) -> Vec<u8> {
        const FIXED_POINT: u8 = 0x10;
        const FLOATING_POINT: u8 = 0x11;
        const STRING: u8 = 0x13;
        let mut message = Vec::with_capacity(20);
        match self {
            Self::Unsigned(bytes) => {
                message.extend([FIXED_POINT, 0, 0, 0]);
                message.extend(u32::from(bytes).to_le_bytes());
                message.extend(0_u16.to_le_bytes()); // bit offset
                message.extend((u16::from(bytes) * 8).to_le_bytes()); // precision
            }
            Self::F32 => {
                // 0x20: little-endian, leading mantissa bit implied; then the sign's position.
                message.extend([FLOATING_POINT, 0x20, 31, 0]);
                message.extend(4_u32.to_le_bytes());
                message.extend([0, 0, 32, 0, 23, 8, 0, 23]); // bit offset, precision, exponent at/size, mantissa at/size
                message.extend(127_u32.to_le_bytes());
            }
            Self::F64 => {
                message.extend([FLOATING_POINT, 0x20, 63, 0]);
                message.extend(8_u32.to_le_bytes());
                message.extend([0, 0, 64, 0, 52, 11, 0, 52]);
                message.extend(1023_u32.to_le_bytes());
            }
            Self::Text(bytes) => {
                message.extend([STRING, 1, 0, 0]); // null padded, ASCII
                message.extend(bytes.to_le_bytes());
            }
        }
        message
    }
}

/// A scalar or an array with its bytes.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// Type of an element.
    pub(super) element: Element,
    /// Extents, slowest first; empty for a scalar.
    pub(super) dims: Vec<u64>,
    /// The elements, little-endian, row-major.
    pub(super) bytes: Vec<u8>,
}

impl Value {
    fn scalar(element: Element, bytes: &[u8]) -> Self {
        Self { element, dims: Vec::new(), bytes: bytes.to_vec() }
    }

    /// Text; an empty one is stored as a single null byte, for HDF5 has no text of length 0.
    pub(super) fn text(text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        if bytes.is_empty() {
            bytes.push(0);
        }
        let element = Element::Text(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        Self { element, dims: Vec::new(), bytes }
    }

    /// A two-dimensional array of u32, `[rows][cols]`.
    pub(super) fn image(pixels: &[u32], rows: usize, cols: usize) -> Self {
        let bytes = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
        Self { element: Element::Unsigned(4), dims: vec![rows as u64, cols as u64], bytes }
    }

    /// An array of single precision, row-major; as many numbers as the extents say.
    pub(super) fn floats(numbers: &[f32], dims: &[u64]) -> Self {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Self { element: Element::F32, dims: dims.to_vec(), bytes }
    }

    /// Numbers in a row.
    pub(super) fn row(numbers: &[u32]) -> Self {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Self { element: Element::Unsigned(4), dims: vec![numbers.len() as u64], bytes }
    }

    /// Ranges, `[range][first, end]`, as u64.
    pub(super) fn ranges(ranges: &[Range<u64>]) -> Self {
        let bytes =
            ranges.iter().flat_map(|range| [range.start, range.end]).flat_map(u64::to_le_bytes).collect();
        Self { element: Element::Unsigned(8), dims: vec![ranges.len() as u64, 2], bytes }
    }
}

macro_rules! scalar {
    ($type:ty, $element:expr) => {
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::scalar($element, &value.to_le_bytes())
            }
        }
    };
}

scalar!(u8, Element::Unsigned(1));
scalar!(u16, Element::Unsigned(2));
scalar!(u32, Element::Unsigned(4));
scalar!(u64, Element::Unsigned(8));
scalar!(f32, Element::F32);
scalar!(f64, Element::F64);

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// The dataspace message, version 2. `unlimited` lets the first extent grow.
pub(super) fn dataspace(dims: &[u64], unlimited: bool) -> Vec<u8> {
    const SCALAR: u8 = 0;
    const SIMPLE: u8 = 1;
    let rank = u8::try_from(dims.len()).unwrap_or(u8::MAX);
    let mut message = vec![2, rank, u8::from(unlimited), if dims.is_empty() { SCALAR } else { SIMPLE }];
    for dim in dims {
        message.extend(dim.to_le_bytes());
    }
    if unlimited {
        for (axis, dim) in dims.iter().enumerate() {
            message.extend(if axis == 0 { u64::MAX } else { *dim }.to_le_bytes());
        }
    }
    message
}
