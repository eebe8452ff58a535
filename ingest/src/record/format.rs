//! The bytes of a log: the header of a segment and the head of a record. All numbers little-endian.

/// Bytes of a segment's header.
pub(super) const SEGMENT_HEADER_BYTES: usize = 64;
/// Bytes of a record's head.
pub(super) const RECORD_HEAD_BYTES: usize = 64;
/// Bytes of the payload of a hole: one part, and its length.
const HOLE_PAYLOAD_BYTES: usize = 32;
/// Bytes of the mark of messages that were not saved.
pub(super) const HOLE_RECORD_BYTES: usize = RECORD_HEAD_BYTES + HOLE_PAYLOAD_BYTES;
/// Most bytes of a record behind its head: no message is as long.
pub const MOST_RECORD_BYTES: u64 = 1 << 30;
/// Where there is no such number.
pub(super) const NONE: u64 = u64::MAX;

const SEGMENT_MAGIC: &[u8; 8] = b"SIDEBLOG";
pub(super) const RECORD_MAGIC: &[u8; 4] = b"sbR1";
const VERSION: u32 = 1;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A message that was not understood.
    Other = 0,
    /// The start of a series.
    Start = 1,
    /// An image.
    Image = 2,
    /// The end of a series.
    End = 3,
    /// No message: where messages are missing that were not saved.
    Hole = 4,
}

/// Messages that were not saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Number of the first record that is missing.
    pub first: u64,
    /// Messages that are missing.
    pub count: u64,
    /// Bytes of their parts.
    pub bytes: u64,
    /// When the first of them came, nanoseconds since 1970.
    pub from_nanos: u64,
    /// When the last of them came.
    pub until_nanos: u64,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |value| u32::from_le_bytes(*value))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |value| u64::from_le_bytes(*value))
}

/// The first bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) segment: u64,
    pub(super) created_nanos: u64,
    /// Number of the first record that it can hold.
    pub(super) first_record: u64,
}

impl SegmentHeader {
    pub(super) fn to_bytes(self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(SEGMENT_HEADER_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.segment.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.created_nanos.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first_record.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn parse(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<Self, &'static str> {
        if &bytes[..8] != SEGMENT_MAGIC {
            return Err("the segment does not begin with its magic bytes");
        }
        if crc32fast::hash(&bytes[..60]) != u32_at(bytes, 60) {
            return Err("the checksum of the segment's header is wrong");
        }
        if u32_at(bytes, 8) != VERSION || u32_at(bytes, 12) as usize != SEGMENT_HEADER_BYTES {
            return Err("the segment is of another version of the format than 1");
        }
        Ok(Self {
            segment: u64_at(bytes, 16),
            created_nanos: u64_at(bytes, 24),
            first_record: u64_at(bytes, 32),
        })
    }
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) num_parts: u32,
    /// Bytes behind the head: a u64 length for each part, then the parts.
    pub(super) payload_bytes: u64,
    pub(super) number: u64,
    pub(super) arrival_nanos: u64,
    pub(super) series: u64,
    pub(super) frame: u64,
    pub(super) kind: RecordKind,
    /// Low half of the number of its segment.
    pub(super) segment: u32,
    pub(super) payload_crc: u32,
}

impl Head {
    pub(super) fn to_bytes(self) -> [u8; RECORD_HEAD_BYTES] {
        let mut bytes = [0; RECORD_HEAD_BYTES];
        bytes[..4].copy_from_slice(RECORD_MAGIC);
        bytes[4..8].copy_from_slice(&self.num_parts.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.arrival_nanos.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.series.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.frame.to_le_bytes());
        bytes[48] = self.kind as u8;
        bytes[52..56].copy_from_slice(&self.segment.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.payload_crc.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a head; nothing where the bytes are none of this segment, or claim what no record has.
    pub(super) fn parse(bytes: &[u8; RECORD_HEAD_BYTES], segment: u64) -> Option<Self> {
        if &bytes[..4] != RECORD_MAGIC || crc32fast::hash(&bytes[..60]) != u32_at(bytes, 60) {
            return None;
        }
        let kind = match bytes[48] {
            0 => RecordKind::Other,
            1 => RecordKind::Start,
            2 => RecordKind::Image,
            3 => RecordKind::End,
            4 => RecordKind::Hole,
            _ => return None,
        };
        let head = Self {
            num_parts: u32_at(bytes, 4),
            payload_bytes: u64_at(bytes, 8),
            number: u64_at(bytes, 16),
            arrival_nanos: u64_at(bytes, 24),
            series: u64_at(bytes, 32),
            frame: u64_at(bytes, 40),
            kind,
            segment: u32_at(bytes, 52),
            payload_crc: u32_at(bytes, 56),
        };
        let is_sound = head.segment == segment as u32
            && head.payload_bytes <= MOST_RECORD_BYTES
            && u64::from(head.num_parts) * 8 <= head.payload_bytes;
        is_sound.then_some(head)
    }
}

/// The parts of a payload whose lengths add up; nothing where they do not.
pub(super) fn split(num_parts: u32, payload: &[u8]) -> Option<impl Iterator<Item = &[u8]> + Clone> {
    let (lengths, bytes) = payload.split_at_checked(usize::try_from(num_parts).ok()?.checked_mul(8)?)?;
    let lengths = lengths.as_chunks::<8>().0;
    let sum = lengths.iter().try_fold(0_u64, |sum, length| sum.checked_add(u64::from_le_bytes(*length)))?;
    if sum != bytes.len() as u64 {
        return None;
    }
    Some(lengths.iter().scan(bytes, |rest, length| {
        // the lengths add up to the bytes: none reaches beyond
        let (part, behind) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
        *rest = behind;
        Some(part)
    }))
}

impl Hole {
    /// Two holes, one right behind the other, as one.
    pub(super) fn joined(before: Option<Self>, behind: Option<Self>) -> Option<Self> {
        match (before, behind) {
            (Some(before), Some(behind)) => Some(Self {
                first: before.first,
                count: before.count.saturating_add(behind.count),
                bytes: before.bytes.saturating_add(behind.bytes),
                from_nanos: before.from_nanos,
                until_nanos: behind.until_nanos,
            }),
            (before, behind) => before.or(behind),
        }
    }

    /// The payload of its record: one part of 24 bytes.
    pub(super) fn to_payload(self) -> [u8; HOLE_PAYLOAD_BYTES] {
        let mut payload = [0; HOLE_PAYLOAD_BYTES];
        payload[..8].copy_from_slice(&24_u64.to_le_bytes());
        payload[8..16].copy_from_slice(&self.count.to_le_bytes());
        payload[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        payload[24..].copy_from_slice(&self.until_nanos.to_le_bytes());
        payload
    }

    pub(super) fn parse(head: &Head, payload: &[u8]) -> Option<Self> {
        (payload.len() == HOLE_PAYLOAD_BYTES && u64_at(payload, 0) == 24).then(|| Self {
            first: head.number,
            count: u64_at(payload, 8),
            bytes: u64_at(payload, 16),
            from_nanos: head.arrival_nanos,
            until_nanos: u64_at(payload, 24),
        })
    }
}
