//! The superblock: where the root group is and how wide numbers are.

use super::error::Hdf5Error;
use super::storage::{Storage, UNDEFINED};

const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// Finds the superblock, sets the widths and the base of `storage`, and returns the address of the root group's header.
pub(super) fn read(storage: &mut Storage) -> Result<u64, Hdf5Error> {
    let start = find(storage)?;
    let head = storage.read_up_to("superblock", start, 128)?;
    let version = *head.get(8).ok_or_else(|| not_hdf5(storage))?;
    // The widths stand before the first number that needs them.
    let (offset_at, length_at) = match version {
        0 | 1 => (13, 14),
        2 | 3 => (9, 10),
        _ => return Err(Hdf5Error::Unsupported { what: "superblock version", got: version.to_string() }),
    };
    for (at, which) in [(offset_at, "address width"), (length_at, "length width")] {
        match head.get(at) {
            Some(2 | 4 | 8) => {}
            got => {
                return Err(Hdf5Error::Unsupported {
                    what: which,
                    got: format!("{got:?} bytes, expected 2, 4 or 8"),
                });
            }
        }
    }
    storage.offset_bytes = head[offset_at];
    storage.length_bytes = head[length_at];
    let mut cursor = storage.cursor("superblock", start, &head);
    let root;
    let base;
    if version < 2 {
        cursor.skip(if version == 0 { 24 } else { 28 })?;
        base = cursor.offset()?;
        cursor.offset()?; // free space
        cursor.offset()?; // end of file
        cursor.offset()?; // driver
        cursor.offset()?; // name of the root's entry
        root = cursor.offset()?;
    } else {
        let bytes = 12 + 4 * usize::from(storage.offset_bytes) + 4;
        let whole = head.get(..bytes).ok_or_else(|| not_hdf5(storage))?;
        storage.check("superblock", start, whole)?;
        cursor.skip(12)?;
        base = cursor.offset()?;
        cursor.offset()?; // extension
        cursor.offset()?; // end of file
        root = cursor.offset()?;
    }
    if ![UNDEFINED, 0, start].contains(&base) {
        return Err(cursor.damaged(format!("got base address {base}, expected {start}")));
    }
    // A user block shifts the file; writers record either the shift or 0.
    storage.base = start;
    if root == UNDEFINED {
        return Err(Hdf5Error::Damaged {
            what: "superblock",
            address: start,
            why: "no root group".to_owned(),
        });
    }
    Ok(root)
}

fn not_hdf5(storage: &Storage) -> Hdf5Error {
    Hdf5Error::NotHdf5 { path: storage.path().to_path_buf(), bytes: storage.num_bytes() }
}

/// The superblock lies at 0, 512, 1024, 2048, ...
fn find(storage: &Storage) -> Result<u64, Hdf5Error> {
    let mut at = 0;
    while at + 16 <= storage.num_bytes() {
        if storage.read("superblock", at, 8)? == SIGNATURE {
            return Ok(at);
        }
        at = if at == 0 { 512 } else { at * 2 };
    }
    Err(not_hdf5(storage))
}
