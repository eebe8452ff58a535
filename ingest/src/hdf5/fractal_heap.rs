//! Fractal heaps: where groups and objects with many links or attributes keep them.

use super::btree2;
use super::checksum::lookup3;
use super::cursor::Cursor;
use super::cursor::width;
use super::error::Hdf5Error;
use super::storage::{Storage, UNDEFINED};

/// Depth of indirect blocks no real heap reaches.
const MOST_LEVELS: usize = 16;
/// Kind of the B-tree that says where huge objects lie.
const HUGE_OBJECTS: u8 = 1;

/// An open heap.
#[derive(Debug)]
pub(super) struct FractalHeap<'a> {
    storage: &'a Storage,
    address: u64,
    id_bytes: usize,
    /// Direct blocks have checksums.
    checksums: bool,
    huge_objects: u64,
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

impl<'a> FractalHeap<'a> {
    pub(super) fn read(storage: &'a Storage, address: u64) -> Result<Self, Hdf5Error> {
        let (offsets, lengths) = (u64::from(storage.offset_bytes), u64::from(storage.length_bytes));
        let head = storage.read("fractal heap", address, 26 + 3 * offsets + 12 * lengths)?;
        let mut cursor = storage.cursor("fractal heap", address, &head);
        cursor.signature(b"FRHP")?;
        cursor.skip(1)?; // version
        let id_bytes = usize::from(cursor.u16()?);
        let filter_bytes = cursor.u16()?;
        if filter_bytes != 0 {
            return Err(Hdf5Error::Unsupported {
                what: "compressed fractal heap",
                got: format!("{filter_bytes} bytes of filters"),
            });
        }
        storage.check("fractal heap", address, &head)?;
        let checksums = cursor.u8()? & 2 != 0;
        let most_managed = u64::from(cursor.u32()?);
        cursor.length()?;
        let huge_objects = cursor.offset()?;
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
        let sane = table_width.is_power_of_two()
            && starting_bytes.is_power_of_two()
            && most_direct_bytes.is_power_of_two()
            && most_direct_bytes >= starting_bytes
            && most_direct_bytes <= 1 << 32
            && id_bytes > 1
            && (1..=64).contains(&heap_bits);
        if !sane {
            return Err(cursor.damaged(format!(
                "table {table_width} wide, blocks of {starting_bytes} to {most_direct_bytes} bytes, {heap_bits} bits"
            )));
        }
        Ok(Self {
            storage,
            address,
            id_bytes,
            checksums,
            huge_objects,
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
                self.managed(offset, bytes)
            }
            1 => self.huge(cursor),
            2 => {
                let mut bytes = usize::from(flags & 0x0F);
                if self.id_bytes > 17 {
                    bytes = bytes << 8 | usize::from(cursor.u8()?);
                }
                Ok(cursor.take(bytes + 1)?.to_vec())
            }
            _ => Err(cursor.damaged("got an object of kind 3, expected 0 to 2")),
        }
    }

    /// An object too large for the heap's blocks: it lies by itself, its id says where or a B-tree does.
    fn huge(&self, mut id: Cursor<'_>) -> Result<Vec<u8>, Hdf5Error> {
        let storage = self.storage;
        let (offsets, lengths) = (usize::from(storage.offset_bytes), usize::from(storage.length_bytes));
        if self.id_bytes > offsets + lengths {
            let (address, bytes) = (id.offset()?, id.length()?);
            return storage.read("huge heap object", address, bytes);
        }
        let number = id.uint((self.id_bytes - 1).min(lengths))?;
        let records = btree2::read(storage, self.huge_objects, &mut Err)?;
        if records.kind != HUGE_OBJECTS {
            return Err(id.damaged(format!("got an index of kind {}, expected {HUGE_OBJECTS}", records.kind)));
        }
        for record in records.iter() {
            let mut record = storage.cursor("huge heap object", self.huge_objects, record);
            let (address, bytes) = (record.offset()?, record.length()?);
            if record.length()? == number {
                return storage.read("huge heap object", address, bytes);
            }
        }
        Err(id.damaged(format!("huge object {number} is not there")))
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

    /// The object at an offset in the heap, found from the root block down.
    fn managed(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, Hdf5Error> {
        let damaged = |why: String| Hdf5Error::Damaged { what: "fractal heap", address: self.root, why };
        let (mut block, mut rows, mut start) = (self.root, self.root_rows, 0);
        if rows == 0 {
            return self.direct_object(block, start, self.starting_bytes, offset, bytes);
        }
        for _ in 0..MOST_LEVELS {
            let (row, column, child_start, child_bytes) = self
                .child(offset - start, rows)
                .ok_or_else(|| damaged(format!("offset {offset} lies outside")))?;
            let offset_bytes = u64::from(self.storage.offset_bytes);
            let all = self.head_bytes() + rows * self.table_width * offset_bytes + 4;
            let body = self.storage.read_checked("heap block", block, all)?;
            let mut cursor = self.storage.cursor("heap block", block, &body);
            cursor.signature(b"FHIB")?;
            self.check_place(&mut cursor, start)?;
            cursor.skip(((row * self.table_width + column) * offset_bytes) as usize)?;
            let child = cursor.offset()?;
            if child == UNDEFINED {
                return Err(damaged(format!("offset {offset} lies in a block that is not there")));
            }
            start += child_start;
            if row < self.direct_rows() {
                return self.direct_object(child, start, child_bytes, offset, bytes);
            }
            block = child;
            // An indirect block of this size has as many rows as make it up.
            rows = u64::from(child_bytes.ilog2())
                .saturating_sub(u64::from((self.starting_bytes * self.table_width).ilog2()))
                + 1;
        }
        Err(damaged("indirect blocks go in circles".to_owned()))
    }

    /// Signature, version, owner and place of a block.
    fn head_bytes(&self) -> u64 {
        5 + u64::from(self.storage.offset_bytes) + self.offset_width as u64
    }

    /// Reads version, owner and place of a block and checks that it is the one looked for.
    fn check_place(&self, cursor: &mut Cursor<'_>, start: u64) -> Result<(), Hdf5Error> {
        cursor.skip(1)?;
        let (owner, got) = (cursor.offset()?, cursor.uint(self.offset_width)?);
        if (owner, got) == (self.address, start) {
            return Ok(());
        }
        let expected = self.address;
        Err(cursor
            .damaged(format!("got block {got} of heap {owner}, expected block {start} of heap {expected}")))
    }

    /// An object of a direct block of `block_bytes`. Offsets count the block's head.
    fn direct_object(
        &self,
        address: u64,
        start: u64,
        block_bytes: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, Hdf5Error> {
        let mut block = self.storage.read("heap block", address, block_bytes)?;
        let mut cursor = self.storage.cursor("heap block", address, &block);
        cursor.signature(b"FHDB")?;
        self.check_place(&mut cursor, start)?;
        let damaged = |why: String| Hdf5Error::Damaged { what: "heap block", address, why };
        if self.checksums {
            // It covers the whole block, its own four bytes taken as zero.
            let stored = cursor.u32()?;
            let at = cursor.position();
            block[at - 4..at].fill(0);
            let computed = lookup3(&block);
            if stored != computed && self.storage.verifies() {
                return Err(damaged(format!("got checksum {stored:08x}, its bytes give {computed:08x}")));
            }
        }
        let from = usize::try_from(offset.wrapping_sub(start)).unwrap_or(usize::MAX);
        let to = usize::try_from(bytes).ok().and_then(|bytes| from.checked_add(bytes));
        let object = to.and_then(|to| block.get(from..to));
        object
            .map(<[u8]>::to_vec)
            .ok_or_else(|| damaged(format!("an object of {bytes} bytes at {offset} does not fit its block")))
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
