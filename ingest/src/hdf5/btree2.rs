//! Version 2 B-trees: link names, attribute names, chunks. All records, in order.

use super::btree1::OnFlaw;
use super::cursor::width;
use super::error::Hdf5Error;
use super::storage::{Storage, UNDEFINED};

/// Depth no real tree reaches: four levels of the smallest nodes hold millions of records.
const MOST_LEVELS: u16 = 16;

/// The records of a tree.
#[derive(Debug)]
pub(super) struct Records {
    /// What kind of records.
    pub(super) kind: u8,
    /// Bytes of each.
    pub(super) record_bytes: usize,
    /// The records one after the other.
    pub(super) bytes: Vec<u8>,
}

impl Records {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.record_bytes.max(1))
    }
}

struct Tree<'a> {
    storage: &'a Storage,
    record_bytes: usize,
    /// By level: most records a node holds, and bytes that count the records below a node.
    levels: Vec<Level>,
    bytes: Vec<u8>,
    most_bytes: u64,
    flaw: &'a mut OnFlaw<'a>,
}

struct Level {
    most_records: u64,
    total_width: usize,
}

/// Reads every record of the tree at `address`; what is wrong with a node below the root goes to `flaw`.
pub(super) fn read<'a>(
    storage: &'a Storage,
    address: u64,
    flaw: &'a mut OnFlaw<'a>,
) -> Result<Records, Hdf5Error> {
    let offset_bytes = u64::from(storage.offset_bytes);
    let head =
        storage.read_checked("B-tree", address, 22 + offset_bytes + u64::from(storage.length_bytes))?;
    let mut cursor = storage.cursor("B-tree", address, &head);
    cursor.signature(b"BTHD")?;
    cursor.skip(1)?;
    let kind = cursor.u8()?;
    let node_bytes = u64::from(cursor.u32()?);
    let record_bytes = usize::from(cursor.u16()?);
    let depth = cursor.u16()?;
    cursor.skip(2)?;
    let root = cursor.offset()?;
    let root_records = cursor.u16()?;
    if record_bytes == 0 || depth > MOST_LEVELS || node_bytes < 32 || node_bytes < record_bytes as u64 {
        return Err(
            cursor.damaged(format!("node of {node_bytes} bytes, record of {record_bytes}, depth {depth}"))
        );
    }
    let mut tree = Tree {
        storage,
        record_bytes,
        levels: levels(node_bytes, record_bytes as u64, depth, offset_bytes),
        bytes: Vec::new(),
        most_bytes: storage.num_bytes(),
        flaw,
    };
    if root != UNDEFINED && root_records > 0 {
        tree.node(root, u64::from(root_records), depth)?;
    }
    Ok(Records { kind, record_bytes, bytes: tree.bytes })
}

/// What the format derives for every level from the size of nodes and records.
fn levels(node_bytes: u64, record_bytes: u64, depth: u16, offset_bytes: u64) -> Vec<Level> {
    const OVERHEAD: u64 = 10; // signature, version, kind, checksum
    let most_leaf = (node_bytes - OVERHEAD.min(node_bytes)) / record_bytes;
    let count_width = width(most_leaf) as u64;
    let mut levels = vec![Level { most_records: most_leaf, total_width: 0 }];
    let mut total = most_leaf;
    for level in 1..=depth {
        let below = if level == 1 { 0 } else { width(total) as u64 };
        let pointer = offset_bytes + count_width + below;
        let room = (node_bytes - OVERHEAD).saturating_sub(pointer);
        let most_records = room / (record_bytes + pointer);
        levels.push(Level { most_records, total_width: below as usize });
        total = (most_records + 1).saturating_mul(total).saturating_add(most_records);
    }
    levels
}

impl Tree<'_> {
    fn node(&mut self, address: u64, num_records: u64, level: u16) -> Result<(), Hdf5Error> {
        let most = self.levels.get(usize::from(level)).map_or(0, |level| level.most_records);
        if num_records > most {
            let why = format!("got {num_records} records in a node, at most {most} fit");
            return Err(Hdf5Error::Damaged { what: "B-tree node", address, why });
        }
        let count_width = width(self.levels[0].most_records);
        let total_width = self.levels[usize::from(level)].total_width;
        let pointer = u64::from(self.storage.offset_bytes) + (count_width + total_width) as u64;
        let pointers = if level == 0 { 0 } else { (num_records + 1) * pointer };
        // The checksum stands behind what is used; the rest of the node is unused.
        let used = 6 + num_records * self.record_bytes as u64 + pointers + 4;
        let bytes = self.storage.read_checked("B-tree node", address, used)?;
        let mut cursor = self.storage.cursor("B-tree node", address, &bytes);
        cursor.signature(if level == 0 { b"BTLF" } else { b"BTIN" })?;
        cursor.skip(2)?;
        let records = cursor.take(num_records as usize * self.record_bytes)?;
        if self.bytes.len() as u64 > self.most_bytes {
            return Err(cursor.damaged("more records than the file could hold"));
        }
        if level == 0 {
            self.bytes.extend_from_slice(records);
            return Ok(());
        }
        for child in 0..=num_records as usize {
            let below = cursor.offset()?;
            let below_records = cursor.uint(count_width)?;
            cursor.skip(total_width)?;
            if let Err(error) = self.node(below, below_records, level - 1) {
                (self.flaw)(error)?;
            }
            if let Some(record) = records.chunks_exact(self.record_bytes).nth(child) {
                self.bytes.extend_from_slice(record);
            }
        }
        Ok(())
    }
}
