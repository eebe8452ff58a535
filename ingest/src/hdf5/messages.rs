//! The messages that describe a dataset: its shape, element type, storage and filters.

use super::cursor::Cursor;
use super::dataset::Filter;
use super::error::Hdf5Error;
use super::object_header::{Message, kind};
use super::storage::{Storage, UNDEFINED};

/// Order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant first.
    Little,
    /// Most significant first.
    Big,
}

/// What one element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// An integer (enumerations count as their integers).
    Integer {
        /// Bytes of one.
        bytes: usize,
        /// Two's complement.
        signed: bool,
        /// Order of its bytes.
        order: ByteOrder,
    },
    /// An IEEE 754 number.
    Float {
        /// Bytes of one: 2, 4 or 8.
        bytes: usize,
        /// Order of its bytes.
        order: ByteOrder,
    },
    /// Text of fixed length, padded.
    FixedText {
        /// Bytes of one.
        bytes: usize,
    },
    /// Text of any length, kept in a heap.
    HeapText,
}

impl ElementType {
    /// Bytes of one element as stored.
    pub fn bytes(self, offset_bytes: u8) -> usize {
        match self {
            Self::Integer { bytes, .. } | Self::Float { bytes, .. } | Self::FixedText { bytes } => bytes,
            Self::HeapText => 8 + usize::from(offset_bytes),
        }
    }
}

pub(super) fn element_type(storage: &Storage, message: &Message) -> Result<ElementType, Hdf5Error> {
    datatype(storage, message.address, &message.data, 0)
}

fn datatype(storage: &Storage, address: u64, data: &[u8], depth: usize) -> Result<ElementType, Hdf5Error> {
    let mut cursor = storage.cursor("datatype", address, data);
    let class = cursor.u8()? & 0x0F;
    let bits = cursor.uint(3)?;
    let bytes = cursor.u32()? as usize;
    let order = if bits & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let unsupported = |got: String| Hdf5Error::Unsupported { what: "datatype", got };
    // Bits that are not used, or used otherwise than IEEE 754 says, would change the values.
    let all_bits = |cursor: &mut Cursor<'_>| -> Result<bool, Hdf5Error> {
        let (offset, precision) = (cursor.u16()?, cursor.u16()?);
        Ok(offset == 0 && usize::from(precision) == bytes.saturating_mul(8))
    };
    match class {
        0 if [1, 2, 4, 8].contains(&bytes) && all_bits(&mut cursor)? => {
            Ok(ElementType::Integer { bytes, signed: bits & 8 != 0, order })
        }
        1 if [2, 4, 8].contains(&bytes) && bits & 0x40 == 0 && all_bits(&mut cursor)? => {
            let fields = cursor.uint(4)?.to_le_bytes();
            let (fields, bias) = ([fields[0], fields[1], fields[2], fields[3]], cursor.u32()?);
            let ieee = match bytes {
                2 => ([10, 5, 0, 10], 15),
                4 => ([23, 8, 0, 23], 127),
                _ => ([52, 11, 0, 52], 1023),
            };
            match (fields, bias) == ieee && bits >> 8 & 0xFF == bytes as u64 * 8 - 1 {
                true => Ok(ElementType::Float { bytes, order }),
                false => Err(unsupported(format!("a {bytes}-byte float that is not IEEE 754"))),
            }
        }
        3 if bytes > 0 => Ok(ElementType::FixedText { bytes }),
        8 if depth == 0 => datatype(storage, address + 8, data.get(8..).unwrap_or_default(), 1),
        9 if bits & 0x0F == 1 => Ok(ElementType::HeapText),
        _ => Err(unsupported(format!("class {class} of {bytes} bytes"))),
    }
}

/// Extent of a dataset, slowest axis first; both empty for a scalar. A null dataspace has one axis of length 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Now.
    pub(super) shape: Vec<u64>,
    /// What each axis may grow to; None is without limit.
    pub(super) most: Vec<Option<u64>>,
}

pub(super) fn extent(storage: &Storage, message: &Message) -> Result<Extent, Hdf5Error> {
    let mut cursor = storage.cursor("dataspace", message.address, &message.data);
    let version = cursor.u8()?;
    let axes = cursor.u8()?;
    let with_most = cursor.u8()? & 1 != 0;
    match version {
        1 => cursor.skip(5)?,
        2 => {
            if cursor.u8()? == 2 {
                return Ok(Extent { shape: vec![0], most: vec![Some(0)] });
            }
        }
        _ => return Err(cursor.damaged(format!("got dataspace version {version}, expected 1 or 2"))),
    }
    if axes > 32 {
        return Err(cursor.damaged(format!("got {axes} axes, expected at most 32")));
    }
    let shape = (0..axes).map(|_| cursor.length()).collect::<Result<Vec<_>, _>>()?;
    let mut most: Vec<_> = shape.iter().copied().map(Some).collect();
    let unlimited = if storage.length_bytes == 8 { u64::MAX } else { (1 << (8 * storage.length_bytes)) - 1 };
    for (most, &axis) in most.iter_mut().zip(&shape).filter(|_| with_most) {
        let limit = cursor.length()?;
        *most = (limit != unlimited).then_some(limit);
        if most.is_some_and(|most| most < axis) {
            return Err(cursor.damaged(format!("got an axis of {axis}, expected at most {limit}")));
        }
    }
    Ok(Extent { shape, most })
}

/// How a chunked dataset finds its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    Btree1,
    Single { filtered: Option<(u64, u32)> },
    Implicit,
    FixedArray,
    ExtensibleArray,
    Btree2,
}

/// Where the elements are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Compact(Vec<u8>),
    Contiguous { address: u64, bytes: u64 },
    Chunked { chunk: Vec<u64>, index: Index, address: u64 },
}

pub(super) fn layout(storage: &Storage, message: &Message) -> Result<Layout, Hdf5Error> {
    let mut cursor = storage.cursor("data layout", message.address, &message.data);
    let version = cursor.u8()?;
    if version == 1 || version == 2 {
        return old_layout(cursor);
    }
    if !(3..=5).contains(&version) {
        return Err(Hdf5Error::Unsupported { what: "data layout version", got: version.to_string() });
    }
    match cursor.u8()? {
        0 => {
            let bytes = usize::from(cursor.u16()?);
            Ok(Layout::Compact(cursor.take(bytes)?.to_vec()))
        }
        1 => Ok(Layout::Contiguous { address: cursor.offset()?, bytes: cursor.length()? }),
        2 if version == 3 => {
            let axes = usize::from(cursor.u8()?);
            let address = cursor.offset()?;
            let mut chunk = (0..axes).map(|_| cursor.u32().map(u64::from)).collect::<Result<Vec<_>, _>>()?;
            chunk.pop(); // the last is the size of an element
            Ok(Layout::Chunked { chunk, index: Index::Btree1, address })
        }
        2 => {
            let flags = cursor.u8()?;
            let axes = usize::from(cursor.u8()?);
            let width = usize::from(cursor.u8()?);
            let mut chunk = (0..axes).map(|_| cursor.uint(width)).collect::<Result<Vec<_>, _>>()?;
            chunk.pop();
            let index = match cursor.u8()? {
                1 if flags & 2 != 0 => Index::Single { filtered: Some((cursor.length()?, cursor.u32()?)) },
                1 => Index::Single { filtered: None },
                2 => Index::Implicit,
                3 => {
                    cursor.skip(1)?;
                    Index::FixedArray
                }
                4 => {
                    cursor.skip(5)?;
                    Index::ExtensibleArray
                }
                5 => {
                    cursor.skip(6)?;
                    Index::Btree2
                }
                other => return Err(Hdf5Error::Unsupported { what: "chunk index", got: other.to_string() }),
            };
            Ok(Layout::Chunked { chunk, index, address: cursor.offset()? })
        }
        3 => Err(Hdf5Error::Unsupported {
            what: "virtual dataset",
            got: "a dataset stitched together from others; set the filewriter to the legacy format"
                .to_owned(),
        }),
        other => Err(cursor.damaged(format!("got layout class {other}, expected 0 to 3"))),
    }
}

/// Versions 1 and 2, of libraries before HDF5 1.6.3.
fn old_layout(mut cursor: Cursor<'_>) -> Result<Layout, Hdf5Error> {
    let axes = usize::from(cursor.u8()?);
    let class = cursor.u8()?;
    cursor.skip(5)?;
    let address = if class == 0 { UNDEFINED } else { cursor.offset()? };
    let mut sizes = (0..axes).map(|_| cursor.u32().map(u64::from)).collect::<Result<Vec<_>, _>>()?;
    match class {
        0 => {
            let bytes = cursor.u32()? as usize;
            Ok(Layout::Compact(cursor.take(bytes)?.to_vec()))
        }
        // The last size is that of an element.
        1 => Ok(Layout::Contiguous {
            address,
            bytes: sizes.iter().fold(1, |all: u64, &n| all.saturating_mul(n)),
        }),
        2 => {
            sizes.pop();
            Ok(Layout::Chunked { chunk: sizes, index: Index::Btree1, address })
        }
        other => Err(cursor.damaged(format!("got layout class {other}, expected 0 to 2"))),
    }
}

/// The value of elements that were never written, as stored, if the file names one.
pub(super) fn fill_value(storage: &Storage, message: &Message) -> Result<Option<Vec<u8>>, Hdf5Error> {
    let mut cursor = storage.cursor("fill value", message.address, &message.data);
    if message.kind == kind::FILL_VALUE {
        let version = cursor.u8()?;
        let defined = match version {
            1 | 2 => {
                cursor.skip(2)?;
                cursor.u8()? != 0 || version == 1
            }
            3 => cursor.u8()? & 0x20 != 0,
            _ => return Err(cursor.damaged(format!("got fill value version {version}, expected 1 to 3"))),
        };
        if !defined {
            return Ok(None);
        }
    }
    let bytes = cursor.u32()?;
    // Zero bytes, or the "-1" of old versions: the default value, 0.
    if bytes == 0 || bytes == u32::MAX {
        Ok(None)
    } else {
        cursor.take(bytes as usize).map(|value| Some(value.to_vec()))
    }
}

pub(super) fn filters(storage: &Storage, message: &Message) -> Result<Vec<Filter>, Hdf5Error> {
    let mut cursor = storage.cursor("filter pipeline", message.address, &message.data);
    let version = cursor.u8()?;
    let count = cursor.u8()?;
    if !(1..=2).contains(&version) || count > 32 {
        return Err(cursor
            .damaged(format!("got {count} filters in version {version}, expected at most 32 in 1 or 2")));
    }
    if version == 1 {
        cursor.skip(6)?;
    }
    let mut filters = Vec::new();
    for _ in 0..count {
        let id = cursor.u16()?;
        let name_bytes = if version == 1 || id >= 256 { usize::from(cursor.u16()?) } else { 0 };
        cursor.skip(2)?; // flags
        let num_values = usize::from(cursor.u16()?);
        cursor.skip(if version == 1 { name_bytes.next_multiple_of(8) } else { name_bytes })?;
        let values = (0..num_values).map(|_| cursor.u32()).collect::<Result<Vec<_>, _>>()?;
        if version == 1 && num_values % 2 == 1 {
            cursor.skip(4)?;
        }
        filters.push(Filter { id, values });
    }
    Ok(filters)
}
