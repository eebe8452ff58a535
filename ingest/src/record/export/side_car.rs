//! The file beside a set that says how it was scanned, in the layout that NCEM's scan controller leaves and
//! [`SideCar`](crate::dectris::SideCar) reads: `NAME_em_metadata.h5`,
//! `/electron_microscope/scan_controller/regular_scan/n_pixels_{y,x}`.
//!
//! Three groups and two numbers (HDF5 file format specification 3.0: superblock of version 2, object headers of version 2,
//! compact data).

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use kernels::types::ScanShape;

use crate::hdf5::checksum::lookup3;
use crate::record::error::{RecordError, io};
use crate::record::folder::sync_folder;

/// Where the side-car of a set belongs.
pub(super) fn path(folder: &Path, set: &str) -> PathBuf {
    folder.join(format!("{set}_em_metadata.h5"))
}

/// Writes a side-car; under its name it is whole.
pub(super) fn write(path: &Path, scan: ScanShape) -> Result<(), RecordError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.partial"));
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(&bytes(scan))?;
        file.sync_all()?;
        std::fs::rename(&partial, path)
    });
    if let Err(error) = written {
        let _ = std::fs::remove_file(&partial);
        return Err(io("writing", path)(error));
    }
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

fn bytes(scan: ScanShape) -> Vec<u8> {
    const SUPERBLOCK_BYTES: usize = 48;
    let mut file = vec![0; SUPERBLOCK_BYTES];
    let mut place = |messages: Vec<u8>| {
        file.resize(file.len().next_multiple_of(8), 0);
        let address = file.len() as u64;
        let mut object = b"OHDR\x02\x02".to_vec(); // version; flags: the size has four bytes
        object.extend((messages.len() as u32).to_le_bytes());
        object.extend(messages);
        let sum = lookup3(&object);
        file.extend(object);
        file.extend(sum.to_le_bytes());
        address
    };
    let rows = place(number(scan.rows as u64));
    let cols = place(number(scan.cols as u64));
    let scan = place(group(&[("n_pixels_x", cols), ("n_pixels_y", rows)]));
    let controller = place(group(&[("regular_scan", scan)]));
    let microscope = place(group(&[("scan_controller", controller)]));
    let root = place(group(&[("electron_microscope", microscope)]));
    let end = file.len() as u64;
    let superblock = &mut file[..SUPERBLOCK_BYTES];
    superblock[..8].copy_from_slice(b"\x89HDF\r\n\x1a\n");
    superblock[8..12].copy_from_slice(&[2, 8, 8, 0]); // version, bytes of an offset, bytes of a length, flags
    superblock[20..28].fill(0xff); // no extension
    superblock[28..36].copy_from_slice(&end.to_le_bytes());
    superblock[36..44].copy_from_slice(&root.to_le_bytes());
    let sum = lookup3(&superblock[..44]);
    superblock[44..].copy_from_slice(&sum.to_le_bytes());
    file
}

/// A header message: its type, its body.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u16).to_le_bytes();
    [&[kind, size[0], size[1], 0], body].concat()
}

/// The messages of a scalar dataset.
fn number(value: u64) -> Vec<u8> {
    let datatype = [0x10, 0, 0, 0, 8, 0, 0, 0, 0, 0, 64, 0]; // unsigned, little-endian, 8 bytes, 64 bits from bit 0
    let layout = [&[3, 0, 8, 0][..], &value.to_le_bytes()].concat(); // version, compact, size
    [
        message(0x01, &[2, 0, 0, 0]), // dataspace: version, a scalar
        message(0x03, &datatype),
        message(0x05, &[2, 1, 2, 1, 0, 0, 0, 0]), // fill value: version, early, if set, default value
        message(0x08, &layout),
    ]
    .concat()
}

/// The messages of a group with links to objects.
fn group(members: &[(&str, u64)]) -> Vec<u8> {
    let mut link_info = [0xff; 18]; // no heap, no index: the links are in this header
    link_info[..2].fill(0);
    let mut messages = [message(0x02, &link_info), message(0x0a, &[0, 0])].concat();
    for (name, address) in members {
        // version, a one-byte length of the name, a hard link
        let head = [1, 0, name.len() as u8];
        messages.extend(message(0x06, &[&head, name.as_bytes(), &address.to_le_bytes()].concat()));
    }
    messages
}
