//! Groups and datasets as HDF5 objects: version 2 object headers with link messages, inside a superblock of version 2
//! (HDF5 file format specification 3.0, II.A "Superblock", IV.A.1.b "Version 2 object header"). HDF5 1.8 and later read it.

use kernels::bslz4_decode::Encoding;

use super::error::FilewriterError;
use super::value::{Element, Value, dataspace};
use crate::hdf5::checksum::lookup3;
use crate::hdf5::filter_id;

/// Bytes of the superblock, the first of every file.
pub(super) const SUPERBLOCK_BYTES: usize = 48;

/// Metadata written in one piece at `base`: everything of a file but the superblock and the chunks.
#[derive(Debug)]
pub(super) struct Metadata {
    base: u64,
    bytes: Vec<u8>,
}

impl Metadata {
    /// Metadata that will lie at the file offset `base`.
    pub(super) fn at(base: u64) -> Self {
        Self { base, bytes: Vec::new() }
    }

    /// Where the next placed object will lie: multiples of 8.
    pub(super) fn next_address(&self) -> u64 {
        (self.base + self.bytes.len() as u64).next_multiple_of(8)
    }

    /// Appends an object and returns its address.
    pub(super) fn place(&mut self, object: &[u8]) -> u64 {
        let address = self.next_address();
        self.bytes.resize((address - self.base) as usize, 0);
        self.bytes.extend_from_slice(object);
        address
    }

    /// The bytes, and the file offset behind them.
    pub(super) fn finish(self) -> (Vec<u8>, u64) {
        let end = self.base + self.bytes.len() as u64;
        (self.bytes, end)
    }
}

/// The superblock of a file that ends at `end` and whose root group lies at `root`.
pub(super) fn superblock(root: u64, end: u64) -> [u8; SUPERBLOCK_BYTES] {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    bytes[..8].copy_from_slice(b"\x89HDF\r\n\x1a\n");
    bytes[8..12].copy_from_slice(&[2, 8, 8, 0]); // version, bytes of an offset, bytes of a length, flags
    bytes[20..28].fill(0xff); // no superblock extension; base address 0 before it
    bytes[28..36].copy_from_slice(&end.to_le_bytes());
    bytes[36..44].copy_from_slice(&root.to_le_bytes());
    let sum = lookup3(&bytes[..44]);
    bytes[44..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// A name in a group, and what it stands for.
#[derive(Debug)]
pub(super) struct Node {
    name: String,
    attributes: Vec<(&'static str, Value)>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Group(Vec<Node>),
    Whole(Value),
    Images(ChunkedImages),
    External { file: String, path: String },
}

/// A dataset `[image][row][col]`, one chunk an image, extensible along the first axis.
#[derive(Debug)]
pub(super) struct ChunkedImages {
    /// Images, rows, cols.
    pub(super) dims: [u64; 3],
    /// Bytes of a count.
    pub(super) count_bytes: u8,
    /// How the chunks are compressed.
    pub(super) encoding: Encoding,
    /// Address of the chunk index.
    pub(super) index: u64,
}

impl Node {
    /// A group of NeXus class `class`; without one when it is empty.
    pub(super) fn group(name: &str, class: &str, members: Vec<Self>) -> Self {
        let node = Self { name: name.to_owned(), attributes: Vec::new(), kind: Kind::Group(members) };
        if class.is_empty() { node } else { node.with("NX_class", class) }
    }

    /// A dataset that is written whole.
    pub(super) fn dataset(name: &str, value: impl Into<Value>) -> Self {
        Self { name: name.to_owned(), attributes: Vec::new(), kind: Kind::Whole(value.into()) }
    }

    /// A dataset of compressed images.
    pub(super) fn images(name: &str, images: ChunkedImages) -> Self {
        Self { name: name.to_owned(), attributes: Vec::new(), kind: Kind::Images(images) }
    }

    /// A link to an object of another file.
    pub(super) fn external(name: &str, file: &str, path: &str) -> Self {
        let kind = Kind::External { file: file.to_owned(), path: path.to_owned() };
        Self { name: name.to_owned(), attributes: Vec::new(), kind }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The same object with one more attribute.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// Writes the object and all below it; returns its address.
    ///
    /// # Errors
    /// [`FilewriterError::TooLarge`] for a message above 64 KiB.
    pub(super) fn place(&self, metadata: &mut Metadata) -> Result<u64, FilewriterError> {
        let mut header = Header::default();
        match &self.kind {
            Kind::Group(members) => self.group_messages(members, metadata, &mut header)?,
            Kind::Whole(value) => {
                let address = metadata.place(&value.bytes);
                let mut layout = vec![3, 1]; // version, contiguous
                layout.extend(address.to_le_bytes());
                layout.extend((value.bytes.len() as u64).to_le_bytes());
                header.push(DATASPACE, &dataspace(&value.dims, false))?;
                header.push(DATATYPE, &value.element.datatype())?;
                header.push(FILL_VALUE, &[2, 2, 2, 1, 0, 0, 0, 0])?; // version, late, if set, default value
                header.push(LAYOUT, &layout)?;
            }
            Kind::Images(images) => images.messages(&mut header)?,
            Kind::External { .. } => {} // lives in its group's header alone
        }
        for (name, value) in &self.attributes {
            header.push(ATTRIBUTE, &attribute(name, value))?;
        }
        header.place(metadata, &self.name)
    }

    fn group_messages(
        &self,
        members: &[Self],
        metadata: &mut Metadata,
        header: &mut Header,
    ) -> Result<(), FilewriterError> {
        let mut link_info = [0xff; 18]; // no heap, no index: the links are in this header
        link_info[..2].fill(0);
        header.push(LINK_INFO, &link_info)?;
        header.push(GROUP_INFO, &[0, 0])?;
        for member in members {
            let mut link = Vec::with_capacity(64);
            let name = member.name.as_bytes();
            let hard = !matches!(member.kind, Kind::External { .. });
            // flags: bits 0-1 a two-byte name length, bit 3 the link type is written
            link.extend(if hard { &[1, 0x01][..] } else { &[1, 0x09, 64][..] });
            link.extend((name.len() as u16).to_le_bytes());
            link.extend(name);
            match &member.kind {
                Kind::External { file, path } => {
                    let target = [&[0], file.as_bytes(), &[0], path.as_bytes(), &[0]].concat();
                    link.extend((target.len() as u16).to_le_bytes()); // a longer one fails in `push`
                    link.extend(target);
                }
                _ => link.extend(member.place(metadata)?.to_le_bytes()),
            }
            header.push(LINK, &link)?;
        }
        Ok(())
    }
}

impl ChunkedImages {
    fn messages(&self, header: &mut Header) -> Result<(), FilewriterError> {
        let mut layout = vec![3, 2, 4]; // version, chunked, axes including the bytes of an element
        layout.extend(self.index.to_le_bytes());
        layout.extend(1_u32.to_le_bytes());
        layout.extend((self.dims[1] as u32).to_le_bytes());
        layout.extend((self.dims[2] as u32).to_le_bytes());
        layout.extend(u32::from(self.count_bytes).to_le_bytes());

        header.push(DATASPACE, &dataspace(&self.dims, true))?;
        header.push(DATATYPE, &Element::Unsigned(self.count_bytes).datatype())?;
        header.push(FILL_VALUE, &[2, 3, 2, 1, 0, 0, 0, 0])?; // version, incremental, if set, default value
        header.push(LAYOUT, &layout)?;
        match self.encoding {
            // bitshuffle 0.3, bytes of an element, default block, LZ4
            Encoding::Bslz4 => header.push(
                FILTERS,
                &filter(
                    filter_id::BITSHUFFLE,
                    b"bitshuffle; see https://github.com/kiyo-masui/bitshuffle\0",
                    &[0, 3, u32::from(self.count_bytes), 0, 2],
                ),
            ),
            Encoding::Lz4Framed => header.push(FILTERS, &filter(filter_id::LZ4, b"HDF5 lz4 filter\0", &[])),
            Encoding::Raw | Encoding::Lz4Block => Ok(()),
        }
    }
}

/// A filter pipeline message, version 2, of one filter that chunks cannot do without; the name ends with a null byte.
fn filter(id: u16, name: &[u8], values: &[u32]) -> Vec<u8> {
    let mut message = vec![2, 1]; // version, one filter
    message.extend(id.to_le_bytes());
    message.extend((name.len() as u16).to_le_bytes());
    message.extend(0_u16.to_le_bytes()); // mandatory
    message.extend((values.len() as u16).to_le_bytes());
    message.extend(name);
    message.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    message
}

/// An attribute message, version 3.
fn attribute(name: &str, value: &Value) -> Vec<u8> {
    let datatype = value.element.datatype();
    let dataspace = dataspace(&value.dims, false);
    let mut message = vec![3, 0];
    message.extend((name.len() as u16 + 1).to_le_bytes());
    message.extend((datatype.len() as u16).to_le_bytes());
    message.extend((dataspace.len() as u16).to_le_bytes());
    message.push(0); // ASCII name
    message.extend(name.as_bytes());
    message.push(0);
    message.extend(datatype);
    message.extend(dataspace);
    message.extend(&value.bytes);
    message
}

const DATASPACE: u8 = 0x01;
const LINK_INFO: u8 = 0x02;
const DATATYPE: u8 = 0x03;
const FILL_VALUE: u8 = 0x05;
const LINK: u8 = 0x06;
const LAYOUT: u8 = 0x08;
const GROUP_INFO: u8 = 0x0a;
const FILTERS: u8 = 0x0b;
const ATTRIBUTE: u8 = 0x0c;

/// An object header being filled.
#[derive(Default)]
struct Header {
    messages: Vec<u8>,
}

impl Header {
    fn push(&mut self, kind: u8, body: &[u8]) -> Result<(), FilewriterError> {
        let size = u16::try_from(body.len()).map_err(|_| FilewriterError::TooLarge {
            what: format!("header message {kind:#04x}"),
            got: body.len(),
            limit: usize::from(u16::MAX),
        })?;
        self.messages.push(kind);
        self.messages.extend(size.to_le_bytes());
        self.messages.push(0);
        self.messages.extend(body);
        Ok(())
    }

    fn place(self, metadata: &mut Metadata, name: &str) -> Result<u64, FilewriterError> {
        let size = u32::try_from(self.messages.len()).map_err(|_| FilewriterError::TooLarge {
            what: format!("object header of {name}"),
            got: self.messages.len(),
            limit: u32::MAX as usize,
        })?;
        let mut object = Vec::with_capacity(self.messages.len() + 14);
        object.extend(b"OHDR");
        object.extend([2, 2]); // version; flags: the size has four bytes
        object.extend(size.to_le_bytes());
        object.extend(self.messages);
        let sum = lookup3(&object);
        object.extend(sum.to_le_bytes());
        Ok(metadata.place(&object))
    }
}
