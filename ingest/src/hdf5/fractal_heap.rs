//! Fractal heaps: where groups and objects with many links or attributes keep them.

use super::error::Hdf5Error;
use super::storage::{Storage, UNDEFINED};

/// Depth of indirect blocks no real heap reaches.
const MOST_LEVELS: usize = 16;

/// An open heap.
#[derive(Debug)]
pub(super) struct FractalHeap<'a> {
    storage: &'a Storage,
    /// Bytes of an offset inside the heap.
    offset_width: usize,
    /// Bytes of an object's length in its id.
    length_width: usize,
    table_width: u64,
    starting_bytes: u64,
    most_direct_bytes: u64,
    root: u64,
    root_rows: u64,
}

fn width(limit: u64) -> usize {
    (limit.max(1).ilog2() / 8 + 1) as usize
}

impl<'a> FractalHeap<'a> {
    pub(super) fn read(storage: &'a Storage, address: u64) -> Result<Self, Hdf5Error> {
        let (offsets, lengths) = (u64::from(storage.offset_bytes), u64::from(storage.length_bytes));
        let head = storage.read("fractal heap", address, 26 + 3 * offsets + 12 * lengths)?;
        let mut cursor = storage.cursor("fractal heap", address, &head);
        cursor.signature(b"FRHP")?;
        cursor.skip(3)?; // version, length of ids
        let filter_bytes = cursor.u16()?;
        cursor.skip(1)?;
        let most_managed = u64::from(cursor.u32()?);
        cursor.length()?;
        cursor.offset()?;
        cursor.length()?;
        cursor.offset()?;
        for _ in 0..8 {
            cursor.length()?;
        }
        let table_width = u64::from(cursor.u16()?);
        let starting_bytes = cursor.length()?;
        let most_direct_bytes = cursor.length()?;
        let heap_bits = usize::from(cursor.u16()?);
        cursor.skip(2)?;
        let root = cursor.offset()?;
        let root_rows = u64::from(cursor.u16()?);
        if filter_bytes != 0 {
            return Err(Hdf5Error::Unsupported {
                what: "compressed fractal heap",
                got: format!("{filter_bytes} bytes of filters"),
            });
        }
        let sane = table_width > 0
            && starting_bytes.is_power_of_two()
            && most_direct_bytes.is_power_of_two()
            && most_direct_bytes >= starting_bytes
            && (1..=64).contains(&heap_bits);
        if !sane {
            return Err(cursor.damaged(format!(
                "table {table_width} wide, blocks of {starting_bytes} to {most_direct_bytes} bytes, {heap_bits} bits"
            )));
        }
        Ok(Self {
            storage,
            offset_width: heap_bits.div_ceil(8),
            length_width: width(most_direct_bytes).min(width(most_managed)),
            table_width,
            starting_bytes,
            most_direct_bytes,
            root,
            root_rows,
        })
    }

    /// The object with an id.
    pub(super) fn object(&self, id: &[u8]) -> Result<Vec<u8>, Hdf5Error> {
        let mut cursor = self.storage.cursor("heap id", 0, id);
        let flags = cursor.u8()?;
        match flags >> 4 & 3 {
            0 => {
                let offset = cursor.uint(self.offset_width)?;
                let bytes = cursor.uint(self.length_width)?;
                let address = self.locate(offset, bytes)?;
                self.storage.read("heap object", address, bytes)
            }
            2 => {
                let bytes = usize::from(flags & 0x0F) + 1;
                Ok(cursor.take(bytes)?.to_vec())
            }
            _ => Err(Hdf5Error::Unsupported { what: "fractal heap object", got: "a huge object".to_owned() }),
        }
    }

    /// Bytes of a block in a row of the doubling table.
    fn row_bytes(&self, row: u64) -> u64 {
        let doublings = row.saturating_sub(1).min(63) as u32;
        self.starting_bytes
            .checked_shl(doublings)
            .filter(|bytes| bytes >> doublings == self.starting_bytes)
            .unwrap_or(u64::MAX)
    }

    fn direct_rows(&self) -> u64 {
        u64::from((self.most_direct_bytes / self.starting_bytes).ilog2()) + 2
    }

    /// The address in the file of an offset in the heap.
    fn locate(&self, offset: u64, bytes: u64) -> Result<u64, Hdf5Error> {
        let damaged = |why: String| Hdf5Error::Damaged { what: "fractal heap", address: self.root, why };
        let (mut block, mut rows, mut start) = (self.root, self.root_rows, 0);
        if rows == 0 {
            let within = offset
                .checked_add(bytes)
                .is_some_and(|end| end <= self.starting_bytes.max(self.most_direct_bytes));
            return match within {
                true => Ok(block + offset),
                false => Err(damaged(format!("offset {offset} lies outside the only block"))),
            };
        }
        for _ in 0..MOST_LEVELS {
            let (row, column, child_start, child_bytes) = self
                .child(offset - start, rows)
                .ok_or_else(|| damaged(format!("offset {offset} lies outside")))?;
            let index = row * self.table_width + column;
            let head = 5 + u64::from(self.storage.offset_bytes) + self.offset_width as u64;
            let at = block
                .checked_add(head + index * u64::from(self.storage.offset_bytes))
                .ok_or_else(|| damaged("a block beyond all addresses".to_owned()))?;
            let signature = self.storage.read("heap block", block, 4)?;
            self.storage.cursor("heap block", block, &signature).signature(b"FHIB")?;
            let pointer = self.storage.read("heap block", at, self.storage.offset_bytes.into())?;
            let child = self.storage.cursor("heap block", at, &pointer).offset()?;
            if child == UNDEFINED {
                return Err(damaged(format!("offset {offset} lies in a block that is not there")));
            }
            start += child_start;
            if row < self.direct_rows() {
                let inside = offset - start;
                return match inside.checked_add(bytes).is_some_and(|end| end <= child_bytes) {
                    true => Ok(child.saturating_add(inside)),
                    false => Err(damaged(format!("an object of {bytes} bytes does not fit its block"))),
                };
            }
            block = child;
            // An indirect block of this size has as many rows as make it up.
            rows = u64::from(child_bytes.ilog2())
                .saturating_sub(u64::from((self.starting_bytes * self.table_width).ilog2()))
                + 1;
        }
        Err(damaged("indirect blocks go in circles".to_owned()))
    }

    /// Row, column, start and size of the child block that holds an offset relative to its indirect block.
    fn child(&self, offset: u64, rows: u64) -> Option<(u64, u64, u64, u64)> {
        let mut start = 0u64;
        for row in 0..rows.min(64) {
            let bytes = self.row_bytes(row);
            let all = bytes.checked_mul(self.table_width)?;
            if offset - start < all {
                let column = (offset - start) / bytes;
                return Some((row, column, start + column * bytes, bytes));
            }
            start = start.checked_add(all)?;
        }
        None
    }
}
