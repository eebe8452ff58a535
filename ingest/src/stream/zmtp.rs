//! The receiving end of a ZeroMQ PUSH socket: ZMTP 3 over TCP, NULL mechanism (rfc.zeromq.org/spec/23 and /37).
//!
//! Written for one purpose: to take frames off the wire as fast as they come, into memory that is used again, and to know
//! when the connection is gone. One [`PullReader`] is one connection; who owns it makes a new one when it ends.

use std::io::{self, Read, Write};
use std::ops::Range;

use super::slab::Slab;

/// Signature, version 3.0, mechanism NULL, not a server, filler.
pub(super) const GREETING: [u8; 64] = {
    let mut greeting = [0; 64];
    greeting[0] = 0xff;
    greeting[8] = 1;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12] = b'N';
    greeting[13] = b'U';
    greeting[14] = b'L';
    greeting[15] = b'L';
    greeting
};
/// READY with the one property that matters.
const READY: &[u8] = b"\x05READY\x0bSocket-Type\x00\x00\x00\x04PULL";

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Longest command that is read: READY with its properties, PING, ERROR.
const MOST_COMMAND_BYTES: u64 = 4096;
/// Most parts of a message: nine of a start of stream v1, and some more.
pub(super) const MOST_PARTS: usize = 64;

/// What a connection can end with.
#[derive(Debug, thiserror::Error)]
pub enum ZmtpError {
    /// The other side closed the connection, or the network did.
    #[error("the connection ended: {0}")]
    Io(#[from] io::Error),
    /// The other side is no ZMTP 3 peer with the NULL mechanism.
    #[error("got a greeting of {got}, expected ZMTP 3 with mechanism NULL")]
    Greeting {
        /// What is wrong with it.
        got: String,
    },
    /// The other side is not a PUSH socket.
    #[error("got a peer of type {got:?}, expected PUSH")]
    SocketType {
        /// The type it names.
        got: String,
    },
    /// The other side ended the handshake with an error of its own.
    #[error("the peer refuses: {0}")]
    Refused(String),
    /// A frame with reserved flags, or a command that is none.
    #[error("got a frame with flags {flags:#04x}, expected a message or a command")]
    Flags {
        /// The flags.
        flags: u8,
    },
    /// A message longer than this reader takes.
    #[error("got a message of at least {got_bytes} bytes, expected at most {expected_bytes}")]
    TooLong {
        /// Bytes announced so far.
        got_bytes: u64,
        /// The limit.
        expected_bytes: u64,
    },
    /// A message of too many parts.
    #[error("got a message of more than {MOST_PARTS} parts")]
    TooManyParts,
}

/// What [`PullReader::fill`] came back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Bytes came; messages may have become complete.
    Bytes(usize),
    /// Nothing came within the time-out of the stream.
    Nothing,
}

/// One connection to a PUSH socket.
///
/// Bytes go straight into a [`Slab`], which keeps whole messages and the beginning of the next.
#[derive(Debug)]
pub struct PullReader<S> {
    stream: S,
    most_message_bytes: u64,
    /// Where the message that is coming stands.
    parts: Vec<Range<usize>>,
    /// Offset of the first byte that no frame has taken.
    at: usize,
    /// Whether messages have come that the slab cannot list: another has to.
    is_behind: bool,
}

impl<S: Read + Write> PullReader<S> {
    /// Shakes hands. `stream` should have a read time-out, so that silence is noticed.
    ///
    /// # Errors
    /// [`ZmtpError`]; a time-out during the handshake is one too.
    pub fn connect(mut stream: S, most_message_bytes: u64) -> Result<Self, ZmtpError> {
        stream.write_all(&GREETING)?;
        let mut greeting = [0; 64];
        stream.read_exact(&mut greeting)?;
        if greeting[0] != 0xff || greeting[9] & 1 == 0 || greeting[10] < 3 {
            let got = format!("signature {:02x} {:02x}, version {}", greeting[0], greeting[9], greeting[10]);
            return Err(ZmtpError::Greeting { got });
        }
        if greeting[12..32] != GREETING[12..32] {
            let name = greeting[12..32].split(|&byte| byte == 0).next().unwrap_or_default();
            return Err(ZmtpError::Greeting { got: format!("mechanism {}", String::from_utf8_lossy(name)) });
        }
        write_command(&mut stream, READY)?;
        let command = read_command(&mut stream)?;
        match command.split_first_chunk::<6>() {
            Some((b"\x05READY", properties)) => match property(properties, b"socket-type") {
                Some(b"PUSH") => {}
                other => {
                    let got = String::from_utf8_lossy(other.unwrap_or_default()).into_owned();
                    return Err(ZmtpError::SocketType { got });
                }
            },
            Some((b"\x05ERROR", reason)) => {
                let reason = reason.get(1..).unwrap_or_default();
                return Err(ZmtpError::Refused(String::from_utf8_lossy(reason).into_owned()));
            }
            _ => return Err(ZmtpError::Flags { flags: COMMAND }),
        }
        Ok(Self {
            stream,
            most_message_bytes,
            parts: Vec::with_capacity(MOST_PARTS),
            at: 0,
            is_behind: false,
        })
    }

    /// The stream below, for its time-outs.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Reads once, as much as there is and `slab` has room for, and lists the messages that are whole then.
    ///
    /// # Errors
    /// [`ZmtpError`]: the connection is of no more use. Messages listed before stay.
    pub fn fill(&mut self, slab: &mut Slab) -> Result<Filled, ZmtpError> {
        if std::mem::take(&mut self.is_behind) {
            self.take_frames(slab)?;
            return Ok(Filled::Bytes(0));
        }
        let got = match self.stream.read(slab.room()) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(got) => got,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(Filled::Nothing),
                io::ErrorKind::Interrupted => return Ok(Filled::Bytes(0)),
                _ => return Err(error.into()),
            },
        };
        slab.received(got);
        self.take_frames(slab)?;
        Ok(Filled::Bytes(got))
    }

    /// Moves to another slab, taking the message that has begun along. `slab` then holds whole messages alone.
    pub fn change_slab(&mut self, slab: &mut Slab, next: &mut Slab) {
        let moved = slab.move_rest(next, self.needed(slab));
        self.moved(moved);
    }

    /// Makes room in a slab that holds no whole message for what is known to come of the one that has begun.
    pub fn stretch(&mut self, slab: &mut Slab) {
        let moved = slab.stretch(self.needed(slab));
        self.moved(moved);
    }

    /// Bytes that a slab has to grow by, or another in its place, for what is known to come.
    pub fn growth(&self, slab: &Slab) -> usize {
        self.needed(slab).saturating_sub(slab.capacity() - slab.grown_bytes())
    }

    fn moved(&mut self, by: usize) {
        for part in &mut self.parts {
            *part = part.start - by..part.end - by;
        }
        self.at -= by;
    }

    /// Bytes that the message which has begun will take, as far as is known; at least one more than there are.
    fn needed(&self, slab: &Slab) -> usize {
        let begun = slab.begun();
        let announced = match header(&slab.bytes()[self.at.max(begun.start)..begun.end]) {
            Ok(Some(frame)) => self.at + frame.header + frame.bytes as usize,
            _ => begun.end + 16,
        };
        announced.max(begun.end + 1) - begun.start
    }

    /// Whether the slab has no room for what is known to come, or for the list of it.
    pub fn wants_slab(&self, slab: &Slab) -> bool {
        self.is_behind || slab.begun().start + self.needed(slab) > slab.capacity()
    }

    fn take_frames(&mut self, slab: &mut Slab) -> Result<(), ZmtpError> {
        self.at = self.at.max(slab.begun().start);
        while let Some(frame) = header(&slab.bytes()[self.at..slab.begun().end])? {
            let start = self.at + frame.header;
            let begun = slab.begun();
            let announced = (start - begun.start) as u64;
            let announced = announced.saturating_add(frame.bytes);
            if announced > self.most_message_bytes {
                let expected_bytes = self.most_message_bytes;
                return Err(ZmtpError::TooLong { got_bytes: announced, expected_bytes });
            }
            // below the limit, which fits memory
            let end = start + frame.bytes as usize;
            if end > begun.end {
                return Ok(());
            }
            if !frame.is_command && !frame.has_more && !slab.lists(self.parts.len() + 1) {
                self.is_behind = true;
                return Ok(());
            }
            self.at = end;
            if frame.is_command {
                self.answer(&slab.bytes()[start..end])?;
                if self.parts.is_empty() {
                    slab.skip_to(end);
                }
                continue;
            }
            if self.parts.len() == MOST_PARTS {
                return Err(ZmtpError::TooManyParts);
            }
            self.parts.push(start..end);
            if !frame.has_more {
                slab.complete(&self.parts, end);
                self.parts.clear();
            }
        }
        Ok(())
    }

    /// Answers PING; other commands need no answer.
    fn answer(&mut self, command: &[u8]) -> Result<(), ZmtpError> {
        if let Some((b"\x04PING", rest)) = command.split_first_chunk::<5>() {
            // a time to live of two bytes, then at most sixteen bytes that come back
            let context = rest.get(2..).unwrap_or_default();
            let context = &context[..context.len().min(16)];
            let pong = [b"\x04PONG".as_slice(), context].concat();
            write_command(&mut self.stream, &pong)?;
        }
        Ok(())
    }
}

/// The header of a frame.
struct Header {
    /// Bytes of the header.
    header: usize,
    /// Bytes behind it.
    bytes: u64,
    has_more: bool,
    is_command: bool,
}

/// Reads the header of a frame; nothing where it is not whole yet.
fn header(bytes: &[u8]) -> Result<Option<Header>, ZmtpError> {
    let Some((&flags, rest)) = bytes.split_first() else { return Ok(None) };
    let is_command = flags & COMMAND != 0;
    let has_more = flags & MORE != 0;
    if flags & !(MORE | LONG | COMMAND) != 0 || is_command && has_more {
        return Err(ZmtpError::Flags { flags });
    }
    let (header, bytes) = if flags & LONG != 0 {
        let Some(size) = rest.first_chunk() else { return Ok(None) };
        (9, u64::from_be_bytes(*size))
    } else {
        let Some(&size) = rest.first() else { return Ok(None) };
        (2, size.into())
    };
    if is_command && bytes > MOST_COMMAND_BYTES {
        return Err(ZmtpError::TooLong { got_bytes: bytes, expected_bytes: MOST_COMMAND_BYTES });
    }
    Ok(Some(Header { header, bytes, has_more, is_command }))
}

/// The parts of a message that [`push_header`] laid out.
pub(super) fn parts(wire: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let mut rest = wire;
    std::iter::from_fn(move || {
        let Header { header, bytes, .. } = header(rest).ok()??;
        let (part, behind) = rest.get(header..)?.split_at_checked(usize::try_from(bytes).ok()?)?;
        rest = behind;
        Some(part)
    })
}

/// Appends the header of a message's frame.
pub(super) fn push_header(bytes: usize, has_more: bool, out: &mut Vec<u8>) {
    let more = if has_more { MORE } else { 0 };
    match u8::try_from(bytes) {
        Ok(bytes) => out.extend_from_slice(&[more, bytes]),
        Err(_) => {
            out.push(more | LONG);
            out.extend_from_slice(&(bytes as u64).to_be_bytes());
        }
    }
}

/// Reads one command during the handshake.
pub(super) fn read_command(stream: &mut impl Read) -> Result<Vec<u8>, ZmtpError> {
    let mut head = [0; 9];
    stream.read_exact(&mut head[..2])?;
    if head[0] & LONG != 0 {
        stream.read_exact(&mut head[2..])?;
    }
    match header(&head)? {
        Some(Header { bytes, is_command: true, .. }) => {
            // at most `MOST_COMMAND_BYTES`
            let mut command = vec![0; bytes as usize];
            stream.read_exact(&mut command)?;
            Ok(command)
        }
        _ => Err(ZmtpError::Flags { flags: head[0] }),
    }
}

pub(super) fn write_command(stream: &mut impl Write, body: &[u8]) -> io::Result<()> {
    let size = u8::try_from(body.len()).map_err(io::Error::other)?;
    stream.write_all(&[&[COMMAND, size], body].concat())
}

/// The value of a property, whose name is compared without regard to case.
fn property<'a>(mut properties: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    loop {
        let (&name_bytes, rest) = properties.split_first()?;
        let (this, rest) = rest.split_at_checked(name_bytes.into())?;
        let (value_bytes, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*value_bytes) as usize)?;
        if this.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        properties = rest;
    }
}

#[cfg(test)]
pub(super) mod tests;
