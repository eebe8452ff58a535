//! Records on their way to the disk: laid out by the thread that receives, sealed by the thread that writes.

use super::format::{Head, Hole, MOST_RECORD_BYTES, NONE, RECORD_HEAD_BYTES, RecordKind, split};
use crate::stream::message::{Message, parse};
use crate::stream::slab::Slab;

/// Records one after the other, and the hole before them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Messages before the first record that are not saved.
    pub(super) hole: Option<Hole>,
    /// Number of the first record.
    first: u64,
    arrival_nanos: u64,
    bytes: Vec<u8>,
    /// Where each record ends.
    ends: Vec<usize>,
}

/// Bytes of the parts of all messages of a slab, and of the records that hold them; nothing where one is too long.
pub(super) fn sizes(slab: &Slab) -> (u64, Option<u64>) {
    let (mut parts_bytes, mut records_bytes) = (0, Some(0));
    for parts in slab.messages() {
        let (mut payload, mut bytes) = (0_u64, 0_u64);
        for part in parts {
            payload += 8 + part.len() as u64;
            bytes += part.len() as u64;
        }
        parts_bytes += bytes;
        records_bytes = records_bytes.filter(|_| payload <= MOST_RECORD_BYTES).map(|sum| sum + 64 + payload);
    }
    (parts_bytes, records_bytes)
}

impl Batch {
    /// Lays out the messages of a slab as records, the heads still empty but for the number of parts.
    pub(super) fn fill(&mut self, slab: &Slab, first: u64, arrival_nanos: u64, hole: Option<Hole>) {
        self.bytes.clear();
        self.ends.clear();
        (self.hole, self.first, self.arrival_nanos) = (hole, first, arrival_nanos);
        for parts in slab.messages() {
            let head = self.bytes.len();
            self.bytes.extend_from_slice(&[0; RECORD_HEAD_BYTES]);
            let mut num_parts = 0_u32;
            for part in parts.clone() {
                self.bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
                num_parts += 1;
            }
            for part in parts {
                self.bytes.extend_from_slice(part);
            }
            self.bytes[head + 4..head + 8].copy_from_slice(&num_parts.to_le_bytes());
            self.ends.push(self.bytes.len());
        }
    }

    /// A batch of a hole alone.
    pub(super) fn of_hole(hole: Hole) -> Self {
        Self { hole: Some(hole), ..Self::default() }
    }

    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all records.
    pub(super) fn num_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Bytes of memory it holds on to.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Number of the record at `index`.
    pub(super) fn number(&self, index: usize) -> u64 {
        self.first.saturating_add(index as u64)
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0)
    }

    /// Bytes of the record at `index`.
    pub(super) fn record_bytes(&self, index: usize) -> u64 {
        (self.start(index + 1) - self.start(index)) as u64
    }

    /// How many records from `from` on have room in so many bytes.
    pub(super) fn fitting(&self, from: usize, room: u64) -> usize {
        let start = self.start(from) as u64;
        self.ends.iter().skip(from).take_while(|&&end| end as u64 - start <= room).count()
    }

    /// The records from `from` on whose bytes are all among the first `bytes`, how many and their bytes.
    pub(super) fn whole(&self, from: usize, bytes: u64) -> (usize, u64) {
        let count = self.fitting(from, bytes);
        (count, (self.start(from + count) - self.start(from)) as u64)
    }

    /// The records from `from` on as a hole; none where there are none.
    pub(super) fn rest(&self, from: usize) -> Option<Hole> {
        let count = self.len().checked_sub(from).filter(|&count| count > 0)?;
        Some(Hole {
            first: self.number(from),
            count: count as u64,
            bytes: (self.bytes.len() - self.start(from)) as u64,
            from_nanos: self.arrival_nanos,
            until_nanos: self.arrival_nanos,
        })
    }

    /// Seals `count` records from `from` on as records of a segment, and returns their bytes.
    pub(super) fn seal(&mut self, from: usize, count: usize, segment: u64) -> &[u8] {
        for index in from..from + count {
            let (start, number) = (self.start(index), self.number(index));
            let end = self.start(index + 1);
            let Some((head, payload)) =
                self.bytes.get_mut(start..end).and_then(|record| record.split_first_chunk_mut())
            else {
                continue;
            };
            *head = sealed(head, payload, number, self.arrival_nanos, segment);
        }
        &self.bytes[self.start(from)..self.start(from + count)]
    }
}

/// The head of a record whose payload is laid out.
fn sealed(
    head: &[u8; RECORD_HEAD_BYTES],
    payload: &[u8],
    number: u64,
    arrival_nanos: u64,
    segment: u64,
) -> [u8; RECORD_HEAD_BYTES] {
    let num_parts = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let message = split(num_parts, payload).and_then(|parts| parse(parts).ok());
    let (kind, series, frame) = match &message {
        None => (RecordKind::Other, NONE, NONE),
        Some(Message::Start(start)) => (RecordKind::Start, start.series.id, NONE),
        Some(Message::Image(image)) => (RecordKind::Image, image.series.id, image.number),
        Some(Message::End(series)) => (RecordKind::End, series.id, NONE),
    };
    let head = Head {
        num_parts,
        payload_bytes: payload.len() as u64,
        number,
        arrival_nanos,
        series,
        frame,
        kind,
        segment: segment as u32,
        payload_crc: crc32fast::hash(payload),
    };
    head.to_bytes()
}

/// The record of a hole.
pub(super) fn hole_record(hole: Hole, segment: u64) -> Vec<u8> {
    let payload = hole.to_payload();
    let head = Head {
        num_parts: 1,
        payload_bytes: payload.len() as u64,
        number: hole.first,
        arrival_nanos: hole.from_nanos,
        series: NONE,
        frame: NONE,
        kind: RecordKind::Hole,
        segment: segment as u32,
        payload_crc: crc32fast::hash(&payload),
    };
    [head.to_bytes().as_slice(), &payload].concat()
}
