//! Datasets: shape, type, storage; whole when small, chunk by chunk when large.

use std::io::Read;

use kernels::bslz4_decode::{Encoding, decode_frame};

use super::checksum::fletcher32;
use super::chunk_index::{self, ChunkIndex, ChunkLocation, Grid};
use super::error::Hdf5Error;
use super::messages::{self, ElementType, Extent, Layout};
use super::object_header::{self, kind};
use super::storage::{Storage, UNDEFINED};
use super::value::{self, Value};

/// Largest dataset that is read whole: masks, flat fields, tables. Frames are not read here.
const MOST_WHOLE_BYTES: usize = 256 << 20;

/// Registered numbers of filters (The HDF Group, Registered Filter Plugins).
pub mod filter_id {
    /// zlib.
    pub const DEFLATE: u16 = 1;
    /// Bytes of the same significance together.
    pub const SHUFFLE: u16 = 2;
    /// A checksum of four bytes at the end.
    pub const FLETCHER32: u16 = 3;
    /// LZ4 in blocks.
    pub const LZ4: u16 = 32004;
    /// Bitshuffle, by itself or with LZ4 or Zstandard.
    pub const BITSHUFFLE: u16 = 32008;
}

/// One step of a filter pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Registered number, see [`filter_id`].
    pub id: u16,
    /// Its parameters ("cd_values").
    pub values: Vec<u32>,
}

/// A dataset of an open file.
#[derive(Debug)]
pub struct Dataset<'a> {
    storage: &'a Storage,
    path: String,
    extent: Extent,
    element: ElementType,
    layout: Layout,
    filters: Vec<Filter>,
    /// The value of elements never written, as stored; None is zero.
    fill: Option<Vec<u8>>,
}

/// Bytes of all elements of a shape, bounded.
pub(super) fn num_bytes(storage: &Storage, element: ElementType, shape: &[u64]) -> Result<usize, Hdf5Error> {
    // Deflate shrinks at most 1032 times, bitshuffle with LZ4 less: so the file bounds what it can hold.
    let by_file = usize::try_from(storage.num_bytes().saturating_mul(1100)).unwrap_or(usize::MAX);
    let most = MOST_WHOLE_BYTES.min(by_file.saturating_add(1 << 16));
    shape
        .iter()
        .try_fold(element.bytes(storage.offset_bytes) as u64, |bytes, &axis| bytes.checked_mul(axis))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|&bytes| bytes <= most)
        .ok_or_else(|| Hdf5Error::Unsupported {
            what: "reading a dataset whole",
            got: format!("shape {shape:?}, more than {most} bytes from a file of {}", storage.num_bytes()),
        })
}

impl<'a> Dataset<'a> {
    pub(super) fn read(storage: &'a Storage, address: u64, path: &str) -> Result<Self, Hdf5Error> {
        let messages = object_header::read(storage, address)?;
        let find = |kind| object_header::find(storage, &messages, kind);
        let missing = |what: &str| Hdf5Error::NotFound {
            path: path.to_owned(),
            why: format!("it is no dataset: no {what}"),
        };
        let shape = find(kind::DATASPACE)?.ok_or_else(|| missing("shape"))?;
        let element = find(kind::DATATYPE)?.ok_or_else(|| missing("type"))?;
        let layout = find(kind::LAYOUT)?.ok_or_else(|| missing("layout"))?;
        let filters = match find(kind::FILTERS)? {
            Some(message) => messages::filters(storage, &message)?,
            None => Vec::new(),
        };
        if find(kind::EXTERNAL_FILES)?.is_some() {
            let got = format!("{path}, whose values lie in other files that are not HDF5");
            return Err(Hdf5Error::Unsupported { what: "external storage", got });
        }
        let fill = match find(kind::FILL_VALUE)? {
            Some(message) => Some(message),
            None => find(kind::OLD_FILL_VALUE)?,
        };
        let fill = fill.map(|message| messages::fill_value(storage, &message)).transpose()?.flatten();
        Ok(Self {
            storage,
            path: path.to_owned(),
            extent: messages::extent(storage, &shape)?,
            element: messages::element_type(storage, &element)?,
            layout: messages::layout(storage, &layout)?,
            filters,
            fill,
        })
    }

    /// The shape, slowest axis first; empty for a scalar.
    pub fn shape(&self) -> &[u64] {
        &self.extent.shape
    }

    /// What one element is.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The filters in the order they were applied when writing.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// The shape of a chunk, or None when the dataset is not chunked.
    pub fn chunk_shape(&self) -> Option<&[u64]> {
        match &self.layout {
            Layout::Chunked { chunk, .. } => Some(chunk),
            Layout::Compact(_) | Layout::Contiguous { .. } => None,
        }
    }

    /// Where the elements lie when they lie together: first byte in the file, and how many.
    pub fn contiguous(&self) -> Option<(u64, u64)> {
        match self.layout {
            Layout::Contiguous { address, bytes } if address != UNDEFINED => {
                Some((address.saturating_add(self.storage.base), bytes))
            }
            _ => None,
        }
    }

    /// Where every chunk lies, in row-major order of the chunks; a chunk that was never written has no bytes.
    ///
    /// # Errors
    /// [`Hdf5Error::Damaged`] and [`Hdf5Error::Outside`] when the index is not whole; a chunk whose own bytes lie outside
    /// the file is no error here, its reader finds out.
    pub fn chunk_index(&self) -> Result<Vec<ChunkLocation>, Hdf5Error> {
        let ChunkIndex { chunks, flaws } = self.chunk_index_salvaged()?;
        flaws.into_iter().next().map_or(Ok(chunks), Err)
    }

    /// As much as can be read of [`Dataset::chunk_index`], and what is wrong with the rest.
    ///
    /// # Errors
    /// As there, when nothing can be read.
    pub fn chunk_index_salvaged(&self) -> Result<ChunkIndex, Hdf5Error> {
        let Layout::Chunked { chunk, index, address } = &self.layout else {
            return Err(Hdf5Error::Unsupported {
                what: "chunk index",
                got: format!("{} is not chunked", self.path),
            });
        };
        chunk_index::read(self.storage, &self.grid(chunk)?, *index, *address, !self.filters.is_empty())
    }

    fn grid(&self, chunk: &[u64]) -> Result<Grid, Hdf5Error> {
        Grid::new(&self.extent.shape, &self.extent.most, chunk, self.element.bytes(self.storage.offset_bytes))
    }

    /// `bytes` of elements that were never written.
    fn unwritten(&self, bytes: usize) -> Vec<u8> {
        let element = self.element.bytes(self.storage.offset_bytes);
        match &self.fill {
            Some(fill) if fill.len() == element && element > 0 => {
                fill.iter().copied().cycle().take(bytes).collect()
            }
            _ => vec![0; bytes],
        }
    }

    /// All elements of a small dataset.
    ///
    /// # Errors
    /// [`Hdf5Error::Unsupported`] for more than 256 MiB or a filter it does not know, and whatever is wrong with the file.
    pub fn read_all(&self) -> Result<Value, Hdf5Error> {
        let bytes = num_bytes(self.storage, self.element, &self.extent.shape)?;
        let data = match &self.layout {
            Layout::Compact(data) => data.clone(),
            Layout::Contiguous { address, .. } if *address == UNDEFINED => self.unwritten(bytes),
            Layout::Contiguous { address, .. } => self.storage.read("dataset", *address, bytes as u64)?,
            Layout::Chunked { chunk, .. } => self.gather(chunk, bytes)?,
        };
        match data.get(..bytes) {
            Some(data) => value::decode(self.storage, self.element, self.extent.shape.clone(), data),
            None => Err(Hdf5Error::Damaged {
                what: "dataset",
                address: 0,
                why: format!("{}: got {} bytes, expected {bytes}", self.path, data.len()),
            }),
        }
    }

    /// Puts the chunks of a small dataset together.
    fn gather(&self, chunk: &[u64], bytes: usize) -> Result<Vec<u8>, Hdf5Error> {
        let element = self.element.bytes(self.storage.offset_bytes);
        let chunk_bytes = num_bytes(self.storage, self.element, chunk)?;
        let grid = self.grid(chunk)?;
        let mut whole = self.unwritten(bytes);
        for (number, location) in self.chunk_index()?.into_iter().enumerate() {
            if location.bytes == 0 {
                continue;
            }
            let stored = self.storage.read("chunk", location.offset - self.storage.base, location.bytes)?;
            let data = unfilter(&self.filters, location.filter_mask, stored, chunk_bytes, element)?;
            grid.place(number as u64, &data, &mut whole);
        }
        Ok(whole)
    }
}

/// Undoes the filters of one chunk.
fn unfilter(
    filters: &[Filter],
    mask: u32,
    mut data: Vec<u8>,
    chunk_bytes: usize,
    element: usize,
) -> Result<Vec<u8>, Hdf5Error> {
    let damaged = |why: String| Hdf5Error::Damaged { what: "chunk", address: 0, why };
    for (step, filter) in filters.iter().enumerate().rev() {
        if mask >> step & 1 == 1 {
            continue; // this chunk skipped the filter
        }
        data = match filter.id {
            filter_id::DEFLATE => {
                let mut plain = Vec::new();
                let most = chunk_bytes as u64 + 4;
                flate2::read::ZlibDecoder::new(&data[..])
                    .take(most)
                    .read_to_end(&mut plain)
                    .map_err(|error| damaged(error.to_string()))?;
                plain
            }
            filter_id::SHUFFLE => unshuffle(&data, element),
            filter_id::FLETCHER32 => {
                let (plain, stored) = data.split_at(data.len().saturating_sub(4));
                let stored = stored.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
                let computed = fletcher32(plain);
                if data.len() < 4 || stored != computed {
                    return Err(damaged(format!("got checksum {stored:08x}, its bytes give {computed:08x}")));
                }
                plain.to_vec()
            }
            filter_id::LZ4 | filter_id::BITSHUFFLE => {
                let encoding =
                    if filter.id == filter_id::LZ4 { Encoding::Lz4Framed } else { Encoding::Bslz4 };
                decode_elements(encoding, &data, chunk_bytes, element).map_err(damaged)?
            }
            other => return Err(Hdf5Error::Unsupported { what: "filter", got: other.to_string() }),
        };
    }
    if data.len() != chunk_bytes {
        return Err(damaged(format!("got {} bytes after its filters, expected {chunk_bytes}", data.len())));
    }
    Ok(data)
}

fn decode_elements(encoding: Encoding, data: &[u8], bytes: usize, element: usize) -> Result<Vec<u8>, String> {
    fn typed<T: kernels::types::Count>(
        encoding: Encoding,
        data: &[u8],
        bytes: usize,
    ) -> Result<Vec<u8>, String> {
        let mut counts = vec![T::default(); bytes / size_of::<T>()];
        decode_frame(encoding, data, &mut counts).map_err(|error| error.to_string())?;
        Ok(counts
            .iter()
            .flat_map(|&count| Into::<u32>::into(count).to_le_bytes().into_iter().take(size_of::<T>()))
            .collect())
    }
    match element {
        1 => typed::<u8>(encoding, data, bytes),
        2 => typed::<u16>(encoding, data, bytes),
        4 => typed::<u32>(encoding, data, bytes),
        other => Err(format!("elements of {other} bytes, expected 1, 2 or 4")),
    }
}

fn unshuffle(data: &[u8], element: usize) -> Vec<u8> {
    let count = data.len() / element.max(1);
    let mut plain = data.to_vec();
    for (plane, bytes) in data.chunks_exact(count.max(1)).take(element).enumerate() {
        for (at, &byte) in bytes.iter().enumerate() {
            plain[at * element + plane] = byte;
        }
    }
    plain
}
