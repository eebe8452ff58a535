//! Where the chunks of a dataset lie, read in bulk: one pass over the index, whatever its kind.

use super::chunk_arrays;
use super::error::Hdf5Error;
use super::messages::Index;
use super::storage::{Storage, UNDEFINED};
use super::{btree1, btree2};

/// Most chunks a dataset may have; a scan of 16,384 x 16,384 frames.
const MOST_CHUNKS: u64 = 1 << 28;

/// Where one chunk lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkLocation {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes stored; 0 when the chunk was never written.
    pub bytes: u64,
    /// Filters this chunk skipped, bit 0 the first.
    pub filter_mask: u32,
}

/// The chunks of a dataset as a grid, row-major.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    /// Number of chunks along each axis.
    chunks: Vec<u64>,
    num_chunks: u64,
    element_bytes: usize,
}

impl Grid {
    pub(super) fn new(shape: &[u64], chunk: &[u64], element_bytes: usize) -> Result<Self, Hdf5Error> {
        let damaged = |why: String| Hdf5Error::Damaged { what: "chunks", address: 0, why };
        if shape.len() != chunk.len() || chunk.contains(&0) || shape.is_empty() {
            return Err(damaged(format!("got chunks of shape {chunk:?} for a dataset of shape {shape:?}")));
        }
        let chunks: Vec<u64> = shape.iter().zip(chunk).map(|(&axis, &chunk)| axis.div_ceil(chunk)).collect();
        let num_chunks = chunks
            .iter()
            .try_fold(1u64, |product, &axis| product.checked_mul(axis))
            .filter(|&count| count <= MOST_CHUNKS)
            .ok_or_else(|| {
                damaged(format!("shape {shape:?} in chunks of {chunk:?} is more than {MOST_CHUNKS} chunks"))
            })?;
        Ok(Self { shape: shape.to_vec(), chunk: chunk.to_vec(), chunks, num_chunks, element_bytes })
    }

    /// Bytes of a chunk before filters.
    fn chunk_bytes(&self) -> u64 {
        self.chunk.iter().fold(self.element_bytes as u64, |bytes, &axis| bytes.saturating_mul(axis))
    }

    /// Number of the chunk at a place counted in chunks.
    fn number(&self, at: impl Iterator<Item = u64>) -> Option<u64> {
        let mut number = 0;
        for (at, &axis) in at.zip(&self.chunks) {
            if at >= axis {
                return None; // left over from a larger extent
            }
            number = number * axis + at;
        }
        Some(number)
    }

    /// Copies a chunk into the whole, as far as it lies inside.
    pub(super) fn place(&self, number: u64, data: &[u8], whole: &mut [u8]) {
        let mut origin = vec![0; self.chunks.len()];
        let mut rest = number;
        for (axis, &count) in self.chunks.iter().enumerate().rev() {
            origin[axis] = rest % count.max(1) * self.chunk[axis];
            rest /= count.max(1);
        }
        let last = self.shape.len() - 1;
        let line = self.chunk[last] as usize * self.element_bytes;
        for (line_number, from) in data.chunks_exact(line.max(1)).enumerate() {
            let mut rest = line_number as u64;
            let mut at = 0;
            let mut stride = self.shape[last];
            let mut inside = true;
            for axis in (0..last).rev() {
                let place = origin[axis] + rest % self.chunk[axis];
                rest /= self.chunk[axis];
                inside &= place < self.shape[axis];
                at += place * stride;
                stride *= self.shape[axis];
            }
            let keep = (self.shape[last] - origin[last]).min(self.chunk[last]) as usize * self.element_bytes;
            let start = (at + origin[last]) as usize * self.element_bytes;
            if inside && let (Some(to), Some(from)) = (whole.get_mut(start..start + keep), from.get(..keep)) {
                to.copy_from_slice(from);
            }
        }
    }
}

/// Reads the index.
pub(super) fn read(
    storage: &Storage,
    grid: &Grid,
    index: Index,
    address: u64,
    filtered: bool,
) -> Result<Vec<ChunkLocation>, Hdf5Error> {
    // An index entry takes at least as many bytes as an address, so the file bounds how many chunks it can name.
    let most = storage.num_bytes() / 4 + 64;
    if grid.num_chunks > most && address != UNDEFINED && index != Index::Implicit {
        let why = format!(
            "got {} chunks, a file of {} bytes cannot index them",
            grid.num_chunks,
            storage.num_bytes()
        );
        return Err(Hdf5Error::Damaged { what: "chunk index", address, why });
    }
    let mut locations =
        vec![ChunkLocation::default(); usize::try_from(grid.num_chunks.min(most)).unwrap_or(0)];
    if address == UNDEFINED {
        return Ok(locations);
    }
    let chunk_bytes = grid.chunk_bytes();
    let mut put = |number: u64, offset: u64, bytes: u64, filter_mask: u32| {
        if let Some(location) = usize::try_from(number).ok().and_then(|number| locations.get_mut(number))
            && offset != UNDEFINED
        {
            *location = ChunkLocation { offset: offset.saturating_add(storage.base), bytes, filter_mask };
        }
    };
    match index {
        Index::Single { filtered: None } => put(0, address, chunk_bytes, 0),
        Index::Single { filtered: Some((bytes, mask)) } => put(0, address, bytes, mask),
        Index::Implicit => {
            for number in 0..grid.num_chunks.min(most) {
                put(number, address.saturating_add(number.saturating_mul(chunk_bytes)), chunk_bytes, 0);
            }
        }
        Index::FixedArray => chunk_arrays::fixed(storage, address, chunk_bytes, filtered, &mut put)?,
        Index::ExtensibleArray => {
            chunk_arrays::extensible(storage, address, chunk_bytes, filtered, &mut put)?
        }
        Index::Btree1 => {
            let key_bytes = 8 + 8 * (grid.shape.len() + 1);
            btree1::visit(storage, address, 1, key_bytes, &mut |key, child| {
                let bytes = u64::from(key.u32()?);
                let mask = key.u32()?;
                let mut at = Vec::with_capacity(grid.chunk.len());
                for &chunk in &grid.chunk {
                    at.push(key.uint(8)? / chunk);
                }
                if let Some(number) = grid.number(at.into_iter()) {
                    put(number, child, bytes, mask);
                }
                Ok(())
            })?;
        }
        Index::Btree2 => {
            let records = btree2::read(storage, address)?;
            let axes = grid.shape.len();
            let fixed = usize::from(storage.offset_bytes) + 8 * axes;
            let size_bytes = match records.kind {
                10 => 0,
                11 => records.record_bytes.saturating_sub(fixed + 4),
                other => return Err(Hdf5Error::Unsupported { what: "chunk record", got: other.to_string() }),
            };
            for record in records.iter() {
                let mut cursor = storage.cursor("chunk record", address, record);
                let offset = cursor.offset()?;
                let (bytes, mask) = match records.kind {
                    10 => (chunk_bytes, 0),
                    _ => (cursor.uint(size_bytes)?, cursor.u32()?),
                };
                let mut at = Vec::with_capacity(axes);
                for _ in 0..axes {
                    at.push(cursor.uint(8)?);
                }
                if let Some(number) = grid.number(at.into_iter()) {
                    put(number, offset, bytes, mask);
                }
            }
        }
    }
    Ok(locations)
}
