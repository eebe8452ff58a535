//! A segment's file, seen through a window that is moved forward: reads of any length, memory no longer than one record.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::open_regular;

/// Bytes that are read at once.
const WINDOW_BYTES: u64 = 1 << 20;
/// Memory beyond this goes when it is not needed any more.
const MOST_KEPT_BYTES: usize = 16 << 20;

/// A file and the part of it that is in memory.
#[derive(Debug)]
pub(super) struct Window {
    file: File,
    /// Bytes of the file when it was opened.
    pub(super) len: u64,
    start: u64,
    bytes: Vec<u8>,
    /// Bytes that were read so far.
    #[cfg(test)]
    pub(super) bytes_read: u64,
}

impl Window {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let (file, identity) = open_regular(path)?;
        Ok(Self {
            file,
            len: identity.bytes,
            start: 0,
            bytes: Vec::new(),
            #[cfg(test)]
            bytes_read: 0,
        })
    }

    /// What is in memory from `at` on: at least `fewest` bytes, less where the file ends before.
    pub(super) fn held(&mut self, at: u64, fewest: u64) -> io::Result<&[u8]> {
        self.get(at, fewest)?;
        let from = usize::try_from(at.saturating_sub(self.start)).map_err(io::Error::other)?;
        Ok(self.bytes.get(from..).unwrap_or_default())
    }

    /// `bytes` bytes from `at` on; less where the file ends before.
    pub(super) fn get(&mut self, at: u64, bytes: u64) -> io::Result<&[u8]> {
        let bytes = bytes.min(self.len.saturating_sub(at));
        let held = self.start + self.bytes.len() as u64;
        if at < self.start || at + bytes > held {
            let wanted = bytes.max(WINDOW_BYTES).min(self.len.saturating_sub(at));
            let wanted = usize::try_from(wanted).map_err(io::Error::other)?;
            if self.bytes.capacity() > MOST_KEPT_BYTES && wanted <= MOST_KEPT_BYTES {
                self.bytes = Vec::new();
            }
            self.bytes.resize(wanted, 0);
            self.start = at;
            if let Err(error) = self.file.read_exact_at(&mut self.bytes, at) {
                self.bytes.clear();
                return Err(error);
            }
            #[cfg(test)]
            {
                self.bytes_read += wanted as u64;
            }
        }
        let from = (at - self.start) as usize;
        Ok(&self.bytes[from..from + bytes as usize])
    }
}
