//! The sending end of a ZeroMQ PUSH socket, as a detector control unit has it: it binds, readers connect, and every message
//! goes to one of them in turn.
//!
//! For replaying: what is sent is laid out once ([`WireMessage`]) and written as it is.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::zmtp;

/// A message as it goes over the wire, headers of frames and all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WireMessage {
    bytes: Vec<u8>,
}

impl WireMessage {
    /// A message of these parts; of none, it is nothing.
    pub fn new(parts: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 9).sum());
        for (index, part) in parts.iter().enumerate() {
            zmtp::push_header(part.len(), index + 1 < parts.len(), &mut bytes);
            bytes.extend_from_slice(part);
        }
        Self { bytes }
    }

    /// Bytes on the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A reader has it, or the system on its behalf.
    Yes,
    /// No reader took it in time: it is dropped, as a detector drops it.
    Dropped,
}

/// A PUSH socket with its readers.
#[derive(Debug)]
pub struct PushSocket {
    listener: TcpListener,
    readers: Vec<TcpStream>,
    next: usize,
    /// How long a message waits for readers that do not read.
    patience: Duration,
}

impl PushSocket {
    /// Binds to an address; port 0 lets the system choose.
    ///
    /// # Errors
    /// The address is taken or not this machine's.
    pub fn bind(address: impl ToSocketAddrs, patience: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, readers: Vec::new(), next: 0, patience })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Number of readers.
    pub fn num_readers(&self) -> usize {
        self.readers.len()
    }

    /// Takes in the readers that have knocked. One that does not shake hands within two seconds is left out.
    pub fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            // whoever is not a PULL socket is let go
            if let Ok(stream) = shake_hands(stream, self.patience) {
                self.readers.push(stream);
            }
        }
    }

    /// Sends a message to the reader whose turn it is; one that is gone loses its turn and its place.
    pub fn send(&mut self, message: &WireMessage) -> Sent {
        self.send_all(std::slice::from_ref(message))
    }

    /// Sends messages in one piece to the reader whose turn it is.
    pub fn send_all(&mut self, messages: &[WireMessage]) -> Sent {
        let until = Instant::now() + self.patience;
        loop {
            if self.readers.is_empty() {
                self.accept();
            }
            if let Some(turn) = self.next.checked_rem(self.readers.len()) {
                self.next = turn + 1;
                let reader = &mut self.readers[turn];
                match messages.iter().try_for_each(|message| reader.write_all(&message.bytes)) {
                    Ok(()) => return Sent::Yes,
                    Err(_) => {
                        // it may have part of a message: the connection is of no more use
                        self.readers.swap_remove(turn);
                        continue;
                    }
                }
            }
            if Instant::now() >= until {
                return Sent::Dropped;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Cuts all connections.
    pub fn disconnect(&mut self) {
        self.readers.clear();
    }
}

/// Makes a connection that of a reader, which may keep a write waiting for as long as `patience`.
fn shake_hands(mut stream: TcpStream, patience: Duration) -> io::Result<TcpStream> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(patience.max(Duration::from_millis(1))))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(&zmtp::GREETING)?;
    let mut greeting = [0; 64];
    stream.read_exact(&mut greeting)?;
    zmtp::write_command(&mut stream, b"\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH")?;
    let command = zmtp::read_command(&mut stream).map_err(io::Error::other)?;
    if greeting[10] < 3 || !command.starts_with(b"\x05READY") {
        return Err(io::Error::other("no PULL socket"));
    }
    Ok(stream)
}
