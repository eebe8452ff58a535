//! Groups: their links, old style (symbol table) and new style (messages, or a heap with an index).

use super::cursor::Cursor;
use super::error::Hdf5Error;
use super::fractal_heap::FractalHeap;
use super::object_header::{self, Message, kind};
use super::storage::{Storage, UNDEFINED};
use super::{btree1, btree2};

/// A named link of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// What it points to.
    pub target: LinkTarget,
}

/// What a link points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkTarget {
    /// An object of the same file, by the address of its header.
    Hard(u64),
    /// A path in the same file.
    Soft(String),
    /// A path in another file.
    External {
        /// The file, as the link names it.
        file: String,
        /// The path inside it.
        path: String,
    },
}

/// The links of one group, in the order the file keeps them.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) links: Vec<Link>,
}

impl Group {
    pub(super) fn read(storage: &Storage, address: u64) -> Result<Self, Hdf5Error> {
        let messages = object_header::read(storage, address)?;
        let mut links = Vec::new();
        for message in &messages {
            match message.kind {
                kind::LINK => links.push(link(storage, message.address, &message.data)?),
                kind::LINK_INFO => dense_links(storage, message, &mut links)?,
                kind::SYMBOL_TABLE => symbol_table(storage, message, &mut links)?,
                _ => {}
            }
        }
        Ok(Self { links })
    }
}

/// One link message.
fn link(storage: &Storage, address: u64, data: &[u8]) -> Result<Link, Hdf5Error> {
    let mut cursor = storage.cursor("link", address, data);
    let version = cursor.u8()?;
    if version != 1 {
        return Err(cursor.damaged(format!("got link version {version}, expected 1")));
    }
    let flags = cursor.u8()?;
    let link_kind = if flags & 0x08 != 0 { cursor.u8()? } else { 0 };
    if flags & 0x04 != 0 {
        cursor.skip(8)?; // creation order
    }
    if flags & 0x10 != 0 {
        cursor.skip(1)?; // character set
    }
    let bytes = cursor.uint(1 << (flags & 3))?;
    let name =
        String::from_utf8_lossy(cursor.take(usize::try_from(bytes).unwrap_or(usize::MAX))?).into_owned();
    let target = match link_kind {
        0 => LinkTarget::Hard(cursor.offset()?),
        1 => {
            let bytes = usize::from(cursor.u16()?);
            LinkTarget::Soft(String::from_utf8_lossy(cursor.take(bytes)?).into_owned())
        }
        64 => {
            cursor.skip(3)?; // length, version and flags
            LinkTarget::External { file: cursor.c_string()?, path: cursor.c_string()? }
        }
        other => return Err(Hdf5Error::Unsupported { what: "link type", got: other.to_string() }),
    };
    Ok(Link { name, target })
}

/// Links in a heap, found by the index of their names.
fn dense_links(storage: &Storage, message: &Message, links: &mut Vec<Link>) -> Result<(), Hdf5Error> {
    let mut cursor = storage.cursor("link info", message.address, &message.data);
    cursor.skip(1)?;
    let flags = cursor.u8()?;
    if flags & 1 != 0 {
        cursor.skip(8)?;
    }
    let heap = cursor.offset()?;
    let index = cursor.offset()?;
    if heap == UNDEFINED || index == UNDEFINED {
        return Ok(());
    }
    let heap = FractalHeap::read(storage, heap)?;
    let records = btree2::read(storage, index, &mut Err)?;
    for record in records.iter() {
        let Some(id) = record.get(4..) else {
            return Err(cursor.damaged(format!("got name records of {} bytes, expected more", record.len())));
        };
        let object = heap.object(id)?;
        links.push(link(storage, index, &object)?);
    }
    Ok(())
}

/// Old style: a B-tree of symbol nodes, names in a local heap.
fn symbol_table(storage: &Storage, message: &Message, links: &mut Vec<Link>) -> Result<(), Hdf5Error> {
    let mut cursor = storage.cursor("symbol table", message.address, &message.data);
    let tree = cursor.offset()?;
    let heap = cursor.offset()?;
    let names = local_heap(storage, heap)?;
    let name_at = |offset: u64| {
        let rest = usize::try_from(offset).ok().and_then(|offset| names.get(offset..)).unwrap_or_default();
        storage.cursor("local heap", heap, rest).c_string()
    };
    let mut symbol_node = |_: &mut Cursor<'_>, node: u64| {
        let entry_bytes = 2 * u64::from(storage.offset_bytes) + 24;
        let head = storage.read("symbol node", node, 8)?;
        let mut cursor = storage.cursor("symbol node", node, &head);
        cursor.signature(b"SNOD")?;
        cursor.skip(2)?;
        let num_entries = u64::from(cursor.u16()?);
        let bytes = storage.read("symbol node", node + 8, num_entries * entry_bytes)?;
        let mut cursor = storage.cursor("symbol node", node, &bytes);
        for _ in 0..num_entries {
            let name = name_at(cursor.offset()?)?;
            let header = cursor.offset()?;
            let cached = cursor.u32()?;
            cursor.skip(4)?;
            let mut scratch = storage.cursor("symbol node", node, cursor.take(16)?);
            let target = match cached {
                2 => LinkTarget::Soft(name_at(u64::from(scratch.u32()?))?),
                _ => LinkTarget::Hard(header),
            };
            links.push(Link { name, target });
        }
        Ok(())
    };
    let key_bytes = usize::from(storage.length_bytes);
    btree1::Walk { storage, kind: 0, key_bytes, entry: &mut symbol_node, flaw: &mut Err }.visit(tree)
}

/// The data segment of a local heap.
fn local_heap(storage: &Storage, address: u64) -> Result<Vec<u8>, Hdf5Error> {
    let bytes = 8 + 2 * u64::from(storage.length_bytes) + u64::from(storage.offset_bytes);
    let head = storage.read("local heap", address, bytes)?;
    let mut cursor = storage.cursor("local heap", address, &head);
    cursor.signature(b"HEAP")?;
    cursor.skip(4)?;
    let bytes = cursor.length()?;
    cursor.length()?;
    let data = cursor.offset()?;
    storage.read("local heap", data, bytes)
}
