//! Little-endian numbers out of bytes; running out is an error, never a panic.

use super::error::Hdf5Error;
use super::storage::UNDEFINED;

/// Bytes that the format gives to a number that goes up to `limit`.
pub(super) fn width(limit: u64) -> usize {
    (limit.max(1).ilog2() / 8 + 1) as usize
}

/// A place in a piece of metadata.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    what: &'static str,
    address: u64,
    bytes: &'a [u8],
    at: usize,
    offset_bytes: u8,
    length_bytes: u8,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(
        what: &'static str,
        address: u64,
        bytes: &'a [u8],
        offset_bytes: u8,
        length_bytes: u8,
    ) -> Self {
        Self { what, address, bytes, at: 0, offset_bytes, length_bytes }
    }

    /// An error at this place.
    pub(super) fn damaged(&self, why: impl Into<String>) -> Hdf5Error {
        Hdf5Error::Damaged { what: self.what, address: self.address + self.at as u64, why: why.into() }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Hdf5Error> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else {
            return Err(self.damaged(format!("got {} bytes, expected {count} more", self.left())));
        };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(super) fn skip(&mut self, count: usize) -> Result<(), Hdf5Error> {
        self.take(count).map(|_| ())
    }

    /// Skips to the next multiple of eight bytes from the start of the piece, as far as there is one.
    pub(super) fn align_8(&mut self) {
        self.at = self.at.next_multiple_of(8).min(self.bytes.len());
    }

    /// An unsigned number of up to eight bytes.
    pub(super) fn uint(&mut self, bytes: usize) -> Result<u64, Hdf5Error> {
        if bytes > 8 {
            return Err(self.damaged(format!("got a number of {bytes} bytes, expected at most 8")));
        }
        let taken = self.take(bytes)?;
        Ok(taken.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    pub(super) fn u8(&mut self) -> Result<u8, Hdf5Error> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Hdf5Error> {
        Ok(self.uint(2)? as u16)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Hdf5Error> {
        Ok(self.uint(4)? as u32)
    }

    pub(super) fn length(&mut self) -> Result<u64, Hdf5Error> {
        self.uint(self.length_bytes.into())
    }

    /// An address; all ones is [`UNDEFINED`] whatever the width.
    pub(super) fn offset(&mut self) -> Result<u64, Hdf5Error> {
        let bytes = self.take(self.offset_bytes.into())?;
        if bytes.iter().all(|&byte| byte == 0xFF) {
            return Ok(UNDEFINED);
        }
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    pub(super) fn signature(&mut self, expected: &[u8; 4]) -> Result<(), Hdf5Error> {
        let got = self.take(4)?;
        if got == expected {
            return Ok(());
        }
        let (got, expected) = (String::from_utf8_lossy(got), String::from_utf8_lossy(expected));
        Err(self.damaged(format!("got signature {got:?}, expected {expected:?}")))
    }

    /// Bytes up to a NUL, which is passed over.
    pub(super) fn c_string(&mut self) -> Result<String, Hdf5Error> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|&byte| byte == 0) else {
            return Err(self.damaged("text without an end"));
        };
        self.at += end + 1;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }
}
