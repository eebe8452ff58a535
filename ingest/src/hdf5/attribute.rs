//! Attributes: in the header, or in a heap with an index.

use super::error::Hdf5Error;
use super::fractal_heap::FractalHeap;
use super::messages;
use super::object_header::{self, Message, kind};
use super::storage::{Storage, UNDEFINED};
use super::value::{self, Value};
use super::{btree2, dataset};

/// The attribute `name` of the object at `address`, or None.
pub(super) fn read(storage: &Storage, address: u64, name: &str) -> Result<Option<Value>, Hdf5Error> {
    let messages = object_header::read(storage, address)?;
    for message in &messages {
        match message.kind {
            kind::ATTRIBUTE => {
                let message = object_header::resolve(storage, message)?;
                if let Some(value) = named(storage, &message, name)? {
                    return Ok(Some(value));
                }
            }
            kind::ATTRIBUTE_INFO => {
                if let Some(value) = dense(storage, message, name)? {
                    return Ok(Some(value));
                }
            }
            _ => {}
        }
    }
    Ok(None)
}

fn dense(storage: &Storage, message: &Message, name: &str) -> Result<Option<Value>, Hdf5Error> {
    let mut cursor = storage.cursor("attribute info", message.address, &message.data);
    cursor.skip(1)?;
    if cursor.u8()? & 1 != 0 {
        cursor.skip(2)?;
    }
    let heap = cursor.offset()?;
    let index = cursor.offset()?;
    if heap == UNDEFINED || index == UNDEFINED {
        return Ok(None);
    }
    let heap = FractalHeap::read(storage, heap)?;
    for record in btree2::read(storage, index, &mut Err)?.iter() {
        let Some(id) = record.get(..8) else {
            return Err(cursor
                .damaged(format!("got attribute records of {} bytes, expected at least 8", record.len())));
        };
        let data = heap.object(id)?;
        let message =
            Message { kind: kind::ATTRIBUTE, shared: false, essential: false, address: index, data };
        if let Some(value) = named(storage, &message, name)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// The value of an attribute message, if it has the name.
fn named(storage: &Storage, message: &Message, name: &str) -> Result<Option<Value>, Hdf5Error> {
    let mut cursor = storage.cursor("attribute", message.address, &message.data);
    let version = cursor.u8()?;
    let flags = cursor.u8()?;
    let sizes = [cursor.u16()?, cursor.u16()?, cursor.u16()?].map(usize::from);
    if !(1..=3).contains(&version) {
        return Err(cursor.damaged(format!("got attribute version {version}, expected 1 to 3")));
    }
    if version == 3 {
        cursor.skip(1)?; // character set
    }
    let padded = |bytes: usize| if version == 1 { bytes.next_multiple_of(8) } else { bytes };
    let got = cursor.take(padded(sizes[0]))?;
    let end = got.iter().position(|&byte| byte == 0).unwrap_or(got.len());
    if &got[..end] != name.as_bytes() {
        return Ok(None);
    }
    let address = message.address + cursor.position() as u64;
    let part = |kind, shared, data: &[u8]| {
        let part = Message { kind, shared, essential: false, address, data: data.to_vec() };
        object_header::resolve(storage, &part)
    };
    let datatype = part(kind::DATATYPE, version > 1 && flags & 1 != 0, cursor.take(padded(sizes[1]))?)?;
    let dataspace = part(kind::DATASPACE, version > 1 && flags & 2 != 0, cursor.take(padded(sizes[2]))?)?;
    let element = messages::element_type(storage, &datatype)?;
    let shape = messages::extent(storage, &dataspace)?.shape;
    let bytes = dataset::num_bytes(storage, element, &shape)?;
    let data = cursor.take(bytes)?;
    value::decode(storage, element, shape, data).map(Some)
}
