//! Object headers: the list of messages that make an object, versions 1 and 2, with continuations.

use super::cursor::Cursor;
use super::error::Hdf5Error;
use super::storage::Storage;

/// Message types this reader looks at.
pub(super) mod kind {
    pub(in super::super) const DATASPACE: u16 = 0x01;
    pub(in super::super) const LINK_INFO: u16 = 0x02;
    pub(in super::super) const DATATYPE: u16 = 0x03;
    pub(in super::super) const OLD_FILL_VALUE: u16 = 0x04;
    pub(in super::super) const FILL_VALUE: u16 = 0x05;
    pub(in super::super) const LINK: u16 = 0x06;
    pub(in super::super) const EXTERNAL_FILES: u16 = 0x07;
    pub(in super::super) const LAYOUT: u16 = 0x08;
    pub(in super::super) const FILTERS: u16 = 0x0B;
    pub(in super::super) const ATTRIBUTE: u16 = 0x0C;
    pub(in super::super) const CONTINUATION: u16 = 0x10;
    pub(in super::super) const SYMBOL_TABLE: u16 = 0x11;
    pub(in super::super) const ATTRIBUTE_INFO: u16 = 0x15;
    /// The largest the specification knows.
    pub(super) const LAST: u16 = 0x18;
}

/// Continuation blocks of one header before giving up.
const MOST_BLOCKS: usize = 4096;

/// One message of an object header.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) shared: bool,
    /// The writer says that a reader who does not know the kind must not go on.
    pub(super) essential: bool,
    pub(super) address: u64,
    pub(super) data: Vec<u8>,
}

/// All messages of the object at `address`, in order.
pub(super) fn read(storage: &Storage, address: u64) -> Result<Vec<Message>, Hdf5Error> {
    let head = storage.read_up_to("object header", address, 64)?; // enough for the fixed part of either version
    if head.starts_with(b"OHDR") {
        read_v2(storage, address, &head)
    } else {
        read_v1(storage, address, &head)
    }
}

/// The message of a kind, with a message kept elsewhere (a committed datatype) fetched from there.
pub(super) fn find(storage: &Storage, messages: &[Message], kind: u16) -> Result<Option<Message>, Hdf5Error> {
    let Some(message) = messages.iter().find(|message| message.kind == kind) else { return Ok(None) };
    resolve(storage, message).map(Some)
}

/// A message itself, or the one it stands for.
pub(super) fn resolve(storage: &Storage, message: &Message) -> Result<Message, Hdf5Error> {
    if !message.shared {
        return Ok(message.clone());
    }
    let mut cursor = storage.cursor("shared message", message.address, &message.data);
    let version = cursor.u8()?;
    let place = cursor.u8()?;
    if version == 1 {
        cursor.skip(6)?;
    }
    if version == 3 && place == 1 {
        return Err(Hdf5Error::Unsupported {
            what: "shared message heap",
            got: "a message kept there".to_owned(),
        });
    }
    let address = cursor.offset()?;
    let there = read(storage, address)?.into_iter().find(|there| there.kind == message.kind && !there.shared);
    there.ok_or_else(|| cursor.damaged("the shared message is not where it should be"))
}

fn read_v1(storage: &Storage, address: u64, head: &[u8]) -> Result<Vec<Message>, Hdf5Error> {
    let mut cursor = storage.cursor("object header", address, head);
    let version = cursor.u8()?;
    if version != 1 {
        return Err(cursor.damaged(format!("got object header version {version}, expected 1 or 2")));
    }
    cursor.skip(1)?;
    let num_messages = usize::from(cursor.u16()?);
    cursor.skip(4)?;
    let bytes = u64::from(cursor.u32()?);
    let mut blocks = vec![(address + 16, bytes)];
    let mut messages = Vec::new();
    let mut done = 0;
    while let Some(&(address, bytes)) = blocks.get(done) {
        done += 1;
        let block = storage.read("object header", address, bytes)?;
        let mut cursor = storage.cursor("object header", address, &block);
        while cursor.left() >= 8 && messages.len() < num_messages {
            let kind = cursor.u16()?;
            let bytes = usize::from(cursor.u16()?);
            let flags = cursor.u8()?;
            cursor.skip(3)?;
            let message = body(&mut cursor, address, kind, bytes, flags)?;
            push(storage, &mut messages, &mut blocks, message)?;
        }
    }
    Ok(messages)
}

fn read_v2(storage: &Storage, address: u64, head: &[u8]) -> Result<Vec<Message>, Hdf5Error> {
    let mut cursor = storage.cursor("object header", address, head);
    cursor.signature(b"OHDR")?;
    let version = cursor.u8()?;
    if version != 2 {
        return Err(cursor.damaged(format!("got object header version {version}, expected 2")));
    }
    let flags = cursor.u8()?;
    if flags & 0x20 != 0 {
        cursor.skip(16)?; // times
    }
    if flags & 0x10 != 0 {
        cursor.skip(4)?; // when attributes move
    }
    let bytes = cursor.uint(1 << (flags & 3))?;
    let tracked = flags & 0x04 != 0;
    // The checksum of the first block counts from its signature, so that block is read whole.
    let mut head_bytes = cursor.position();
    let mut blocks = vec![(address, bytes.saturating_add(head_bytes as u64 + 4))];
    let mut messages = Vec::new();
    let mut done = 0;
    while let Some(&(address, bytes)) = blocks.get(done) {
        let block = storage.read_checked("object header", address, bytes)?;
        let mut cursor = storage.cursor("object header", address, &block);
        if done > 0 {
            cursor.signature(b"OCHK")?;
            head_bytes = 0;
        }
        cursor.skip(head_bytes)?;
        done += 1;
        // Fewer bytes than the head of a message are a gap that the writer left.
        while cursor.left() >= 4 + if tracked { 2 } else { 0 } {
            let kind = u16::from(cursor.u8()?);
            let bytes = usize::from(cursor.u16()?);
            let flags = cursor.u8()?;
            if tracked {
                cursor.skip(2)?;
            }
            let message = body(&mut cursor, address, kind, bytes, flags)?;
            push(storage, &mut messages, &mut blocks, message)?;
        }
    }
    Ok(messages)
}

/// The message whose head has been read: what follows in the block at `address`.
fn body(
    cursor: &mut Cursor<'_>,
    address: u64,
    kind: u16,
    bytes: usize,
    flags: u8,
) -> Result<Message, Hdf5Error> {
    let address = address + cursor.position() as u64;
    let data = cursor.take(bytes)?.to_vec();
    Ok(Message { kind, shared: flags & 2 != 0, essential: flags & 0x80 != 0, address, data })
}

/// Keeps a message; a continuation also names the next block.
fn push(
    storage: &Storage,
    messages: &mut Vec<Message>,
    blocks: &mut Vec<(u64, u64)>,
    message: Message,
) -> Result<(), Hdf5Error> {
    if message.kind == kind::CONTINUATION {
        let mut cursor = storage.cursor("header continuation", message.address, &message.data);
        let (address, bytes) = (cursor.offset()?, cursor.length()?);
        if blocks.len() >= MOST_BLOCKS || blocks.iter().any(|&(known, _)| known == address) {
            return Err(cursor.damaged("continuations go in circles"));
        }
        blocks.push((address, bytes));
    }
    if message.essential && message.kind > kind::LAST {
        return Err(Hdf5Error::Unsupported { what: "object header message", got: message.kind.to_string() });
    }
    messages.push(message);
    Ok(())
}
