//! The sending end of a ZeroMQ PUSH socket, as a detector control unit has it: it binds, readers connect, and every message
//! goes to one of them in turn. A reader whose turn it is and who has no room is passed over, as ZeroMQ does.
//!
//! For replaying: what is sent is laid out before ([`WireMessage`], [`WireBatch`]) and written as it is, many messages at once.

mod reader;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::zmtp;
use reader::{Reader, shake_hands, wait_for_room};

/// Handshakes that may go on at the same time; who comes while there are so many is let go.
const MOST_HANDSHAKES: usize = 16;
/// Longest wait before it is looked for new readers.
const TICK: Duration = Duration::from_millis(1);

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

    /// Its parts.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        zmtp::parts(&self.bytes)
    }
}

/// Messages one behind the other, to be written in one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WireBatch {
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
}

impl WireBatch {
    /// Adds a message at the end.
    pub fn push(&mut self, message: &WireMessage) {
        self.bytes.extend_from_slice(&message.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Number of messages.
    pub fn num_messages(&self) -> usize {
        self.ends.len()
    }

    /// Bytes on the wire.
    pub fn num_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Gives back memory that was reserved and is not used.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
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
    readers: Vec<Reader>,
    /// The reader whose turn it is.
    next: usize,
    /// Readers that have shaken hands, each in a thread of its own, so that nobody who dawdles holds the stream up.
    ready: Receiver<TcpStream>,
    readied: Sender<TcpStream>,
    handshakes: Arc<()>,
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
        let (readied, ready) = channel();
        let handshakes = Arc::new(());
        Ok(Self { listener, readers: Vec::new(), next: 0, ready, readied, handshakes, patience })
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

    /// Takes in the readers that have shaken hands, begins to with those that have knocked, and lets go those that have
    /// left. Never waits. Who does not shake hands within two seconds is left out.
    pub fn accept(&mut self) {
        self.readers.retain_mut(Reader::is_there);
        while let Ok((stream, _)) = self.listener.accept() {
            if Arc::strong_count(&self.handshakes) > MOST_HANDSHAKES {
                continue;
            }
            let (readied, at_work) = (self.readied.clone(), Arc::clone(&self.handshakes));
            let named = std::thread::Builder::new().name("push-handshake".to_owned());
            let spawned = named.spawn(move || {
                // whoever is not a PULL socket is let go
                if let Ok(stream) = shake_hands(stream) {
                    let _ = readied.send(stream);
                }
                drop(at_work);
            });
            if let Err(error) = spawned {
                tracing::warn!("no thread to shake hands with a reader: {error}");
            }
        }
        self.readers.extend(self.ready.try_iter().map(Reader::new));
    }

    /// Sends a message to the reader whose turn it is; waits for as long as the socket's patience.
    pub fn send(&mut self, message: &WireMessage) -> Sent {
        match self.send_bytes(&message.bytes, &[message.bytes.len()], self.patience) {
            0 => Sent::Dropped,
            _ => Sent::Yes,
        }
    }

    /// Sends the messages of a batch from number `from` on, and returns how many were taken before nobody took one for as
    /// long as `patience`. With several readers they go out one by one, in turn; with one, in one piece.
    pub fn send_batch(&mut self, batch: &WireBatch, from: usize, patience: Duration) -> usize {
        let Some(ends) = batch.ends.get(from..) else { return 0 };
        let start = match from.checked_sub(1) {
            Some(before) => batch.ends[before],
            None => 0,
        };
        // the ends count from the start of the batch: they are compared with what lies before `start` taken off
        let ends: Vec<usize> = ends.iter().map(|end| end - start).collect();
        self.send_bytes(&batch.bytes[start..], &ends, patience)
    }

    fn send_bytes(&mut self, bytes: &[u8], ends: &[usize], patience: Duration) -> usize {
        let (mut sent, mut until) = (0, None);
        while sent < ends.len() {
            let taken = self.offer(bytes, ends, sent);
            sent += taken;
            if taken > 0 {
                until = None;
                continue;
            }
            let now = Instant::now();
            let left = until.get_or_insert(now + patience).saturating_duration_since(now);
            if left.is_zero() {
                break;
            }
            self.accept();
            match self.readers.is_empty() {
                true => std::thread::sleep(left.min(TICK)),
                false => wait_for_room(&self.readers, left.min(10 * TICK)),
            }
        }
        sent
    }

    /// Offers messages to each reader in turn until one takes some. One that is gone loses its place.
    fn offer(&mut self, bytes: &[u8], ends: &[usize], from: usize) -> usize {
        if self.readers.is_empty() {
            self.accept();
        }
        let mut passed_over = 0;
        while passed_over < self.readers.len() {
            let turn = self.next % self.readers.len();
            let start = from.checked_sub(1).map_or(0, |before| ends[before]);
            let offered = if self.readers.len() == 1 { &ends[from..] } else { &ends[from..=from] };
            match self.readers[turn].take(bytes, start, offered) {
                Ok(taken) => {
                    self.next = turn + 1;
                    if taken > 0 {
                        return taken;
                    }
                    passed_over += 1;
                }
                Err(_) => {
                    self.readers.remove(turn);
                    self.next = turn;
                }
            }
        }
        0
    }

    /// Writes out the messages that readers have the beginning of, as far as they take them within `patience`. True when
    /// nothing is left.
    pub fn flush(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            self.readers.retain_mut(|reader| reader.flush().is_ok());
            if self.readers.iter().all(Reader::is_flushed) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            wait_for_room(&self.readers, left.min(10 * TICK));
        }
    }

    /// Cuts all connections, once messages that were begun are written or the socket's patience is over.
    pub fn disconnect(&mut self) {
        self.flush(self.patience);
        self.readers.clear();
    }
}

#[cfg(test)]
mod tests;
