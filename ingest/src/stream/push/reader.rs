//! One reader of a PUSH socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::super::zmtp;

/// How long each step of a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// A connection that has shaken hands, and what is left to write of a message that it has the beginning of.
#[derive(Debug)]
pub(super) struct Reader {
    stream: TcpStream,
    rest: Vec<u8>,
    /// Bytes of `rest` that are written.
    written: usize,
}

impl Reader {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, rest: Vec::new(), written: 0 }
    }

    /// Writes as much as there is room for of messages that lie in `bytes` from `start` on and end at `ends`. Returns how
    /// many were begun; all of them will be whole unless the connection ends.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(super) fn take(&mut self, bytes: &[u8], start: usize, ends: &[usize]) -> io::Result<usize> {
        let Some(&last) = ends.last() else { return Ok(0) };
        if !self.flush()? {
            return Ok(0);
        }
        let written = start + write_some(&mut self.stream, &bytes[start..last])?;
        let whole = ends.partition_point(|&end| end <= written);
        match ends.get(whole) {
            Some(&end) if written > whole.checked_sub(1).map_or(start, |before| ends[before]) => {
                self.rest.extend_from_slice(&bytes[written..end]);
                Ok(whole + 1)
            }
            _ => Ok(whole),
        }
    }

    /// Writes what is left of a message. True when nothing is left.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        if !self.is_flushed() {
            self.written += write_some(&mut self.stream, &self.rest[self.written..])?;
        }
        let is_flushed = self.is_flushed();
        if is_flushed {
            self.rest.clear();
            self.written = 0;
        }
        Ok(is_flushed)
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.written == self.rest.len()
    }

    /// Whether the other side is still there. Answers PING; nothing else that a PULL socket says needs an answer.
    pub(super) fn is_there(&mut self) -> bool {
        let mut said = [0; 512];
        loop {
            match self.stream.read(&mut said) {
                Ok(0) => return false,
                Ok(len) => {
                    // flags, size, name, time to live of two bytes, what is to come back
                    if let [4, size, 4, b'P', b'I', b'N', b'G', _, _, context @ ..] = &said[..len] {
                        let context =
                            &context[..context.len().min(usize::from(*size).saturating_sub(7)).min(16)];
                        // at most 21
                        self.rest.extend_from_slice(&[4, 5 + context.len() as u8]);
                        self.rest.extend_from_slice(b"\x04PONG");
                        self.rest.extend_from_slice(context);
                        return self.flush().is_ok();
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}

/// Writes what there is room for at once.
fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            other => return other,
        }
    }
}

/// Waits until one of the readers has room or is gone, at most so long.
pub(super) fn wait_for_room(readers: &[Reader], most: Duration) {
    let mut polled: Vec<libc::pollfd> = readers
        .iter()
        .map(|reader| libc::pollfd { fd: reader.stream.as_raw_fd(), events: libc::POLLOUT, revents: 0 })
        .collect();
    let millis = i32::try_from(most.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: `polled` lives here and has as many elements as are said.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, millis) };
}

/// Makes a connection that of a reader, which never keeps a write waiting.
pub(super) fn shake_hands(mut stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(HANDSHAKE))?;
    stream.set_read_timeout(Some(HANDSHAKE))?;
    stream.write_all(&zmtp::GREETING)?;
    let mut greeting = [0; 64];
    stream.read_exact(&mut greeting)?;
    zmtp::write_command(&mut stream, b"\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH")?;
    let command = zmtp::read_command(&mut stream).map_err(io::Error::other)?;
    let is_pull = command.windows(4).any(|word| word == b"PULL");
    if greeting[10] < 3 || !command.starts_with(b"\x05READY") || !is_pull {
        return Err(io::Error::other("no PULL socket"));
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}
