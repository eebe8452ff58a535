//! Memory for messages as they come: whole messages one after the other, and the beginning of the next.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::zmtp::MOST_PARTS;
use crate::counters::Histogram;

/// A piece of memory that goes from the receiving thread to whoever reads the messages, and back to be used again.
#[derive(Debug)]
pub struct Slab {
    memory: Vec<u8>,
    /// Bytes it has when no message is longer.
    own_bytes: usize,
    /// Bytes received.
    filled: usize,
    /// Where the message that is not whole yet begins; `filled` where there is none.
    whole: usize,
    /// Parts of all messages, in order.
    parts: Vec<Range<usize>>,
    /// Where the parts of each message end in `parts`.
    ends: Vec<usize>,
    /// When its first message was whole, and where it is noted how long it waited.
    arrival: Option<(Instant, Arc<Histogram>)>,
}

impl Slab {
    /// Memory of so many bytes, and for what is noted of the messages in it: a fifth of that, and a little.
    pub fn new(bytes: usize) -> Self {
        let most = most_parts(bytes);
        Self {
            memory: vec![0; bytes],
            own_bytes: bytes,
            filled: 0,
            whole: 0,
            parts: Vec::with_capacity(most),
            ends: Vec::with_capacity(most),
            arrival: None,
        }
    }

    /// Bytes of memory that it takes, with all that is noted.
    pub fn held_bytes(&self) -> usize {
        let noted =
            self.parts.capacity() * size_of::<Range<usize>>() + self.ends.capacity() * size_of::<usize>();
        self.memory.capacity() + noted
    }

    /// Bytes that a message longer than the slab has made it grow by.
    pub fn grown_bytes(&self) -> usize {
        self.memory.len() - self.own_bytes
    }

    /// Whether a message of so many parts can be listed. An empty slab takes every message that a reader takes.
    pub(super) fn lists(&self, parts: usize) -> bool {
        self.parts.len() + parts <= most_parts(self.own_bytes)
    }

    /// Bytes there is room for, all in all.
    pub fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Number of whole messages.
    pub fn num_messages(&self) -> usize {
        self.ends.len()
    }

    /// The whole messages, each as its parts.
    pub fn messages(&self) -> impl Iterator<Item = impl Iterator<Item = &[u8]> + Clone> {
        self.ends.iter().enumerate().map(|(message, &end)| {
            let start = message.checked_sub(1).map_or(0, |before| self.ends[before]);
            self.parts[start..end].iter().map(|part| &self.memory[part.clone()])
        })
    }

    /// Notes when the first message was whole, and where the wait is added up.
    pub(super) fn arrived(&mut self, at: Instant, waits: &Arc<Histogram>) {
        self.arrival = Some((at, Arc::clone(waits)));
    }

    /// Tells that somebody reads the messages now.
    pub(super) fn taken(&mut self) {
        if let Some((at, waits)) = self.arrival.take() {
            waits.add(u64::try_from(at.elapsed().as_nanos()).unwrap_or(u64::MAX), self.num_messages() as u64);
        }
    }

    /// Forgets everything, and lets go of memory that one long message took.
    pub fn clear(&mut self) {
        if self.memory.len() > self.own_bytes {
            self.memory.truncate(self.own_bytes);
            self.memory.shrink_to_fit();
        }
        (self.filled, self.whole) = (0, 0);
        self.parts.clear();
        self.ends.clear();
    }

    /// Where bytes can be received into.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.memory[self.filled..]
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[..self.filled]
    }

    /// Where the message that has begun lies, as far as it has come.
    pub(super) fn begun(&self) -> Range<usize> {
        self.whole..self.filled
    }

    /// Tells that so many bytes were received into [`room`](Self::room).
    pub(super) fn received(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.memory.len());
    }

    /// Lists a message; the next begins at `end`.
    pub(super) fn complete(&mut self, parts: &[Range<usize>], end: usize) {
        self.parts.extend_from_slice(parts);
        self.ends.push(self.parts.len());
        self.whole = end;
    }

    /// Lets the next message begin at `end`.
    pub(super) fn skip_to(&mut self, end: usize) {
        self.whole = end;
    }

    /// Moves the message that has begun to the front of `next`, which is cleared and given room for `needed` bytes.
    /// Returns by how much its bytes moved.
    pub(super) fn move_rest(&mut self, next: &mut Self, needed: usize) -> usize {
        next.clear();
        let begun = self.begun();
        next.grow(needed.max(begun.len()));
        next.memory[..begun.len()].copy_from_slice(&self.memory[begun.clone()]);
        next.filled = begun.len();
        self.filled = begun.start;
        begun.start
    }

    /// Moves the message that has begun to the front and gives it room for `needed` bytes; there are no whole ones. Returns by
    /// how much its bytes moved.
    pub(super) fn stretch(&mut self, needed: usize) -> usize {
        let begun = self.begun();
        self.memory.copy_within(begun.clone(), 0);
        (self.whole, self.filled) = (0, begun.len());
        self.grow(needed);
        begun.start
    }

    fn grow(&mut self, bytes: usize) {
        if bytes > self.memory.len() {
            // to the byte: memory is counted
            self.memory.reserve_exact(bytes - self.memory.len());
            self.memory.resize(bytes, 0);
        }
    }
}

/// Parts that a slab of so many bytes lists, at most: messages have more than 128 bytes a part, or they are hostile.
fn most_parts(bytes: usize) -> usize {
    bytes / 128 + MOST_PARTS
}
