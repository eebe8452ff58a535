//! The bytes of a file, read by position; the only place that touches the file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::checksum;
use super::cursor::Cursor;
use super::error::Hdf5Error;
use crate::identity::{FileIdentity, open_regular};

/// An address that means "none".
pub(super) const UNDEFINED: u64 = u64::MAX;

/// Largest single piece that is read here: a mask of a large detector, stored plainly.
const MOST_METADATA: u64 = 1 << 28;

/// A file, the widths of its numbers, and how much reading is still allowed.
#[derive(Debug)]
pub(super) struct Storage {
    file: File,
    path: PathBuf,
    /// As it was when opened, before anything was read.
    identity: FileIdentity,
    /// Bytes of an address.
    pub(super) offset_bytes: u8,
    /// Bytes of a length.
    pub(super) length_bytes: u8,
    /// What addresses are relative to.
    pub(super) base: u64,
    read: AtomicU64,
    checksums: Checksums,
}

/// What is done with the checksums of a file's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// A structure whose bytes do not give its checksum is damaged.
    Verify,
    /// Structures are taken as they are: to test what stands behind the checksums, or to save what can be saved by hand.
    Ignore,
}

impl Storage {
    pub(super) fn open(path: &Path, checksums: Checksums) -> Result<Self, Hdf5Error> {
        let io = |source| Hdf5Error::Io { path: path.to_path_buf(), source };
        let (file, identity) = open_regular(path).map_err(io)?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            identity,
            offset_bytes: 8,
            length_bytes: 8,
            base: 0,
            read: AtomicU64::new(0),
            checksums,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn num_bytes(&self) -> u64 {
        self.identity.bytes
    }

    pub(super) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Reads exactly `bytes` at `address` (relative to the base).
    ///
    /// The total read is bounded by the size of the file times a factor, so that structures that point at each other end.
    pub(super) fn read(&self, what: &'static str, address: u64, bytes: u64) -> Result<Vec<u8>, Hdf5Error> {
        let outside = || Hdf5Error::Outside { what, address, bytes, file_bytes: self.num_bytes() };
        let start = address.checked_add(self.base).ok_or_else(outside)?;
        let end = start.checked_add(bytes).ok_or_else(outside)?;
        if end > self.num_bytes() || bytes > MOST_METADATA {
            return Err(outside());
        }
        let so_far = self.read.fetch_add(bytes + 512, Ordering::Relaxed);
        if so_far > self.num_bytes().saturating_mul(64).saturating_add(256 << 20) {
            return Err(Hdf5Error::Damaged {
                what,
                address,
                why: format!(
                    "{so_far} bytes of metadata read from a file of {}: it goes in circles",
                    self.num_bytes()
                ),
            });
        }
        let mut buffer = vec![0; bytes as usize];
        self.file
            .read_exact_at(&mut buffer, start)
            .map_err(|source| Hdf5Error::Io { path: self.path.clone(), source })?;
        Ok(buffer)
    }

    /// Reads a structure of exactly `bytes` at `address`, of which the last four are its checksum; returns those before.
    pub(super) fn read_checked(
        &self,
        what: &'static str,
        address: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, Hdf5Error> {
        let mut structure = self.read(what, address, bytes)?;
        self.check(what, address, &structure)?;
        structure.truncate(structure.len().saturating_sub(4));
        Ok(structure)
    }

    /// Checks a structure that ends with its checksum.
    pub(super) fn check(&self, what: &'static str, address: u64, structure: &[u8]) -> Result<(), Hdf5Error> {
        match self.checksums {
            Checksums::Verify => checksum::checked(what, address, structure),
            Checksums::Ignore => Ok(()),
        }
    }

    /// True when checksums count.
    pub(super) fn verifies(&self) -> bool {
        self.checksums == Checksums::Verify
    }

    pub(super) fn checksums(&self) -> Checksums {
        self.checksums
    }

    /// Reads up to `bytes` at `address`: fewer only where the file ends.
    pub(super) fn read_up_to(
        &self,
        what: &'static str,
        address: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, Hdf5Error> {
        let left = self.num_bytes().saturating_sub(address.saturating_add(self.base));
        self.read(what, address, bytes.min(left))
    }

    /// A cursor over bytes read from `address`, with the widths of this file.
    pub(super) fn cursor<'a>(&self, what: &'static str, address: u64, bytes: &'a [u8]) -> Cursor<'a> {
        Cursor::new(what, address, bytes, self.offset_bytes, self.length_bytes)
    }
}
