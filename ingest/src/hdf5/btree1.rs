//! Version 1 B-trees: the names of old-style groups, and chunks.

use super::cursor::Cursor;
use super::error::Hdf5Error;
use super::storage::{Storage, UNDEFINED};

/// Depth no real tree reaches.
const MOST_LEVELS: u8 = 16;

/// Visits every leaf entry: the key before it and its address. `key_bytes` is the size of one key.
pub(super) fn visit(
    storage: &Storage,
    root: u64,
    kind: u8,
    key_bytes: usize,
    entry: &mut dyn FnMut(&mut Cursor<'_>, u64) -> Result<(), Hdf5Error>,
) -> Result<(), Hdf5Error> {
    if root == UNDEFINED {
        return Ok(());
    }
    node(storage, root, kind, key_bytes, None, entry)
}

fn node(
    storage: &Storage,
    address: u64,
    kind: u8,
    key_bytes: usize,
    level: Option<u8>,
    entry: &mut dyn FnMut(&mut Cursor<'_>, u64) -> Result<(), Hdf5Error>,
) -> Result<(), Hdf5Error> {
    let offset_bytes = usize::from(storage.offset_bytes);
    let head_bytes = 8 + 2 * offset_bytes;
    // One read for a node of the usual size, a second for what is left of a larger one.
    let mut bytes = storage.read_up_to("B-tree node", address, 4096)?;
    let mut cursor = storage.cursor("B-tree node", address, &bytes);
    cursor.signature(b"TREE")?;
    let got_kind = cursor.u8()?;
    let got_level = cursor.u8()?;
    let num_entries = usize::from(cursor.u16()?);
    let expected = level.unwrap_or(got_level);
    if got_kind != kind || got_level != expected || got_level > MOST_LEVELS {
        return Err(cursor.damaged(format!(
            "got a node of kind {got_kind} at level {got_level}, expected kind {kind} at level {expected}"
        )));
    }
    let all = head_bytes + num_entries * (key_bytes + offset_bytes) + key_bytes;
    if bytes.len() < all {
        bytes = storage.read("B-tree node", address, all as u64)?;
    }
    let mut cursor = storage.cursor("B-tree node", address, &bytes);
    cursor.skip(head_bytes)?;
    for _ in 0..num_entries {
        let mut key =
            storage.cursor("B-tree key", address + cursor.position() as u64, cursor.take(key_bytes)?);
        let child = cursor.offset()?;
        if got_level == 0 {
            entry(&mut key, child)?;
        } else {
            node(storage, child, kind, key_bytes, Some(got_level - 1), entry)?;
        }
    }
    Ok(())
}
