//! Version 1 B-trees: the names of old-style groups, and chunks. They carry no checksums.

use super::cursor::Cursor;
use super::error::Hdf5Error;
use super::storage::{Storage, UNDEFINED};

/// Depth no real tree reaches.
const MOST_LEVELS: u8 = 16;

/// Takes what is wrong with a part of a tree: `Ok` goes on with the rest.
pub(super) type OnFlaw<'a> = dyn FnMut(Hdf5Error) -> Result<(), Hdf5Error> + 'a;

/// One kind of tree, and what is done with it.
pub(super) struct Walk<'a> {
    pub(super) storage: &'a Storage,
    /// 0: names, 1: chunks.
    pub(super) kind: u8,
    /// Bytes of a key.
    pub(super) key_bytes: usize,
    /// Takes every entry: the key before it and its address.
    pub(super) entry: &'a mut dyn FnMut(&mut Cursor<'_>, u64) -> Result<(), Hdf5Error>,
    /// Takes what is wrong with a node below the root.
    pub(super) flaw: &'a mut OnFlaw<'a>,
}

impl Walk<'_> {
    /// Visits every entry of the tree at `root`.
    pub(super) fn visit(&mut self, root: u64) -> Result<(), Hdf5Error> {
        if root == UNDEFINED {
            return Ok(());
        }
        self.node(root, None)
    }

    fn node(&mut self, address: u64, level: Option<u8>) -> Result<(), Hdf5Error> {
        let storage = self.storage;
        let offset_bytes = usize::from(storage.offset_bytes);
        let head_bytes = 8 + 2 * offset_bytes;
        // One read for a node of the usual size, a second for what is left of a larger one.
        let mut bytes = storage.read_up_to("B-tree node", address, 4096)?;
        let mut cursor = storage.cursor("B-tree node", address, &bytes);
        cursor.signature(b"TREE")?;
        let got_kind = cursor.u8()?;
        let got_level = cursor.u8()?;
        let num_entries = usize::from(cursor.u16()?);
        let (kind, expected) = (self.kind, level.unwrap_or(got_level));
        if got_kind != kind || got_level != expected || got_level > MOST_LEVELS {
            return Err(cursor.damaged(format!(
                "got a node of kind {got_kind} at level {got_level}, expected kind {kind} at level {expected}"
            )));
        }
        let all = head_bytes + num_entries * (self.key_bytes + offset_bytes) + self.key_bytes;
        if bytes.len() < all {
            bytes = storage.read("B-tree node", address, all as u64)?;
        }
        let mut cursor = storage.cursor("B-tree node", address, &bytes);
        cursor.skip(head_bytes)?;
        for _ in 0..num_entries {
            let at = address + cursor.position() as u64;
            let mut key = storage.cursor("B-tree key", at, cursor.take(self.key_bytes)?);
            let child = cursor.offset()?;
            let done = match got_level.checked_sub(1) {
                None => (self.entry)(&mut key, child),
                Some(below) => self.node(child, Some(below)),
            };
            if let Err(error) = done {
                (self.flaw)(error)?;
            }
        }
        Ok(())
    }
}
