//! Small datasets and attributes as values.

use super::error::Hdf5Error;
use super::messages::{ByteOrder, ElementType};
use super::storage::Storage;

/// Elements of a small dataset or an attribute, row-major, converted without loss.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unsigned integers.
    Unsigned {
        /// Slowest axis first; empty for a scalar.
        shape: Vec<u64>,
        /// The elements.
        elements: Vec<u64>,
    },
    /// Signed integers.
    Signed {
        /// Slowest axis first; empty for a scalar.
        shape: Vec<u64>,
        /// The elements.
        elements: Vec<i64>,
    },
    /// Floating point.
    Float {
        /// Slowest axis first; empty for a scalar.
        shape: Vec<u64>,
        /// The elements.
        elements: Vec<f64>,
    },
    /// Text.
    Text {
        /// Slowest axis first; empty for a scalar.
        shape: Vec<u64>,
        /// The elements, without padding.
        elements: Vec<String>,
    },
}

impl Value {
    /// The shape, slowest axis first.
    pub fn shape(&self) -> &[u64] {
        match self {
            Self::Unsigned { shape, .. }
            | Self::Signed { shape, .. }
            | Self::Float { shape, .. }
            | Self::Text { shape, .. } => shape,
        }
    }

    /// The first element as a number; numbers in text are read too.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Unsigned { elements, .. } => elements.first().map(|&number| number as f64),
            Self::Signed { elements, .. } => elements.first().map(|&number| number as f64),
            Self::Float { elements, .. } => elements.first().copied(),
            Self::Text { elements, .. } => elements.first()?.trim().parse().ok(),
        }
    }

    /// The first element as a whole number that is not negative.
    pub fn unsigned(&self) -> Option<u64> {
        match self {
            Self::Unsigned { elements, .. } => elements.first().copied(),
            Self::Signed { elements, .. } => elements.first().and_then(|&number| u64::try_from(number).ok()),
            Self::Float { elements, .. } => elements
                .first()
                .filter(|number| number.fract() == 0.0 && (0.0..2f64.powi(53)).contains(*number))
                .map(|&number| number as u64),
            Self::Text { elements, .. } => elements.first()?.trim().parse().ok(),
        }
    }

    /// The first element as text, when it is text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { elements, .. } => elements.first().map(String::as_str),
            _ => None,
        }
    }
}

/// Turns stored elements into a value.
pub(super) fn decode(
    storage: &Storage,
    element: ElementType,
    shape: Vec<u64>,
    bytes: &[u8],
) -> Result<Value, Hdf5Error> {
    match element {
        ElementType::Integer { bytes: width, signed: false, order } => {
            let elements = bytes.chunks_exact(width).map(|bytes| unsigned(bytes, order)).collect();
            Ok(Value::Unsigned { shape, elements })
        }
        ElementType::Integer { bytes: width, signed: true, order } => {
            let spare = 64 - 8 * width as u32;
            let extend = |bytes: &[u8]| (unsigned(bytes, order) << spare) as i64 >> spare;
            Ok(Value::Signed { shape, elements: bytes.chunks_exact(width).map(extend).collect() })
        }
        ElementType::Float { bytes: width, order } => {
            let elements =
                bytes.chunks_exact(width).map(|bytes| float(unsigned(bytes, order), width)).collect();
            Ok(Value::Float { shape, elements })
        }
        ElementType::FixedText { bytes: width } => {
            let elements = bytes.chunks_exact(width).map(text).collect();
            Ok(Value::Text { shape, elements })
        }
        ElementType::HeapText => {
            let width = element.bytes(storage.offset_bytes);
            let elements =
                bytes.chunks_exact(width).map(|bytes| heap_text(storage, bytes)).collect::<Result<_, _>>()?;
            Ok(Value::Text { shape, elements })
        }
    }
}

fn unsigned(bytes: &[u8], order: ByteOrder) -> u64 {
    let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    match order {
        ByteOrder::Little => bytes.iter().rev().fold(0, join),
        ByteOrder::Big => bytes.iter().fold(0, join),
    }
}

fn float(bits: u64, width: usize) -> f64 {
    match width {
        8 => f64::from_bits(bits),
        4 => f32::from_bits(bits as u32).into(),
        _ => {
            let (sign, exponent, fraction) =
                (bits >> 15 & 1, bits >> 10 & 31, (bits & 0x3FF) as f64 / 1024.0);
            let size = match exponent {
                0 => fraction * 2f64.powi(-14),
                31 if fraction == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                _ => (1.0 + fraction) * 2f64.powi(exponent as i32 - 15),
            };
            if sign == 1 { -size } else { size }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned()
}

/// Text in the global heap: length, address of the collection, number in it.
fn heap_text(storage: &Storage, bytes: &[u8]) -> Result<String, Hdf5Error> {
    let mut cursor = storage.cursor("text in a heap", 0, bytes);
    let len = cursor.u32()? as usize;
    let collection = cursor.offset()?;
    let number = u64::from(cursor.u32()?);
    if len == 0 || collection == 0 {
        return Ok(String::new());
    }
    let length_bytes = u64::from(storage.length_bytes);
    let head = storage.read("global heap", collection, 8 + length_bytes)?;
    let mut cursor = storage.cursor("global heap", collection, &head);
    cursor.signature(b"GCOL")?;
    cursor.skip(4)?;
    let bytes = cursor.length()?;
    let heap = storage.read("global heap", collection, bytes)?;
    let mut cursor = storage.cursor("global heap", collection, &heap);
    cursor.skip(8 + length_bytes as usize)?;
    while cursor.left() >= 8 + length_bytes as usize {
        let index = u64::from(cursor.u16()?);
        cursor.skip(6)?;
        let bytes = usize::try_from(cursor.length()?).unwrap_or(usize::MAX);
        if index == 0 {
            break;
        }
        let data = cursor.take(bytes)?;
        if index == number {
            return Ok(text(data.get(..len).unwrap_or(data)));
        }
        cursor.align_8();
    }
    Err(cursor.damaged(format!("text number {number} is not there")))
}
