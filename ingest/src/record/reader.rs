//! Reads a log: every sound record, and what is damaged or missing between them.
//!
//! A record is sound when its head and its payload have their checksums and its lengths add up. Behind what is not, the
//! reader looks for the next sound head; nothing is believed that does not fit the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::error::{RecordError, io};
use super::folder::{SegmentFile, segment_path, segments};
use super::format::{Head, Hole, NONE, RECORD_HEAD_BYTES, RECORD_MAGIC, RecordKind, split};
use super::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use super::window::Window;
use crate::stream::message::{Message, MessageError, parse};

/// Damages and holes that are listed one by one; beyond, they are counted alone.
const MOST_LISTED: usize = 1000;

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the segment.
    pub segment: u64,
    /// Offset of its head in the segment's file.
    pub offset: u64,
    /// Bytes of head and payload.
    pub bytes: u64,
}

/// Bytes that are no sound record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the segment.
    pub segment: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// How many bytes were passed over.
    pub bytes: u64,
    /// Whether nothing sound comes behind in this segment: what a writer leaves that was stopped while it wrote.
    pub is_tail: bool,
    /// What is wrong.
    pub why: String,
}

/// What reading has come to so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Segments read.
    pub segments: u64,
    /// Sound messages.
    pub records: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// What is damaged, in order; at most 1000 are listed.
    pub damages: Vec<Damage>,
    /// How many damages there are.
    pub num_damages: u64,
    /// Holes that the recorder left, in order; at most 1000 are listed.
    pub holes: Vec<Hole>,
    /// Messages of all holes.
    pub not_saved: u64,
    /// Numbers that are neither a sound record's nor in a hole.
    pub missing: u64,
    /// The number that a next record would have; none where nothing tells one.
    pub next_number: Option<u64>,
}

/// A message as it was received.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Number of the message, counted over the whole log.
    pub number: u64,
    /// When it came, nanoseconds since 1970.
    pub arrival_nanos: u64,
    /// What it was understood as.
    pub kind: RecordKind,
    /// The number of its series.
    pub series: Option<u64>,
    /// The number of its image.
    pub frame: Option<u64>,
    /// Where it stands.
    pub place: Place,
    num_parts: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> Record<'a> {
    pub(super) fn new(head: &Head, place: Place, payload: &'a [u8]) -> Self {
        Self {
            number: head.number,
            arrival_nanos: head.arrival_nanos,
            kind: head.kind,
            series: (head.series != NONE).then_some(head.series),
            frame: (head.frame != NONE).then_some(head.frame),
            place,
            num_parts: head.num_parts,
            payload,
        }
    }

    /// The parts of the message.
    pub fn parts(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        split(self.num_parts, self.payload).into_iter().flatten()
    }

    /// The message.
    ///
    /// # Errors
    /// It is not understood.
    pub fn message(&self) -> Result<Message<'a>, MessageError> {
        parse(self.parts())
    }
}

/// Reads the records of a log in order.
#[derive(Debug)]
pub struct LogReader {
    segments: Vec<SegmentFile>,
    /// The next segment to open.
    next_segment: usize,
    current: Option<Open>,
    report: LogReport,
    /// Raised to end it.
    stop: Arc<AtomicBool>,
}

/// A segment that is being read.
#[derive(Debug)]
struct Open {
    number: u64,
    window: Window,
    at: u64,
}

/// What stands at an offset.
enum Found {
    /// A message.
    Sound(Head),
    /// The mark of messages that were not saved.
    Hole(Head, Hole),
    /// A sound head with a payload that is not: so many bytes in all.
    Payload(u64, &'static str),
    Nothing(&'static str),
}

impl LogReader {
    /// Opens the log in a folder, as it is now. A recorder may be writing into it.
    ///
    /// # Errors
    /// [`RecordError::Io`] where the folder cannot be read.
    pub fn open(folder: &Path) -> Result<Self, RecordError> {
        Ok(Self::of(segments(folder)?))
    }

    pub(super) fn of(segments: Vec<SegmentFile>) -> Self {
        Self { segments, next_segment: 0, current: None, report: LogReport::default(), stop: Arc::default() }
    }

    /// The same, which reads no further once the flag is raised.
    #[must_use]
    pub fn until(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..self }
    }

    /// What reading has come to so far.
    pub fn report(&self) -> &LogReport {
        &self.report
    }

    /// What reading has come to.
    pub fn into_report(self) -> LogReport {
        self.report
    }

    /// The next sound record. What is passed over is in the [report](Self::report).
    ///
    /// # Errors
    /// [`RecordError::Io`] where a segment cannot be opened; the next call goes on with the one behind it.
    /// [`RecordError::Stopped`] once the flag of [`until`](Self::until) is raised.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, RecordError> {
        match self.advance()? {
            Some(found) => self.record(&found).map(Some),
            None => Ok(None),
        }
    }

    /// Goes on to the next sound record.
    pub(super) fn advance(&mut self) -> Result<Option<(Head, Place)>, RecordError> {
        loop {
            if self.stop.load(Relaxed) {
                return Err(RecordError::Stopped);
            }
            let Some(open) = &mut self.current else {
                match self.open_next()? {
                    true => continue,
                    false => return Ok(None),
                }
            };
            if open.at >= open.window.len {
                self.current = None;
                continue;
            }
            match step(open, &mut self.report, &self.stop) {
                Ok(Some((head, offset))) => {
                    let bytes = RECORD_HEAD_BYTES as u64 + head.payload_bytes;
                    return Ok(Some((head, Place { segment: open.number, offset, bytes })));
                }
                Ok(None) => {}
                Err(_) if self.stop.load(Relaxed) => return Err(RecordError::Stopped),
                Err(error) => {
                    // what cannot be read is damaged, to the end
                    let damage = open.damage(open.at, open.window.len, error.to_string());
                    self.report.note(damage);
                    self.current = None;
                }
            }
        }
    }

    /// The record that was gone on to last.
    pub(super) fn record(&mut self, found: &(Head, Place)) -> Result<Record<'_>, RecordError> {
        let (head, place) = found;
        let reading = io("reading segments of", Path::new("the log"));
        let closed = || reading(std::io::ErrorKind::NotFound.into());
        let open = self.current.as_mut().ok_or_else(closed)?;
        // it was there a moment ago, and is in the window
        let at = place.offset + RECORD_HEAD_BYTES as u64;
        let payload = open.window.get(at, head.payload_bytes).map_err(&reading)?;
        Ok(Record::new(head, *place, payload))
    }

    fn open_next(&mut self) -> Result<bool, RecordError> {
        let (file, mut window) = loop {
            let Some(file) = self.segments.get(self.next_segment) else { return Ok(false) };
            self.next_segment += 1;
            match Window::open(&file.path) {
                Ok(window) => break (file, window),
                // removed meanwhile, to keep within a quota: its records are missing
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(io("opening", &file.path)(error)),
            }
        };
        self.report.segments += 1;
        let mut at = 0;
        let why = match window.get(0, SEGMENT_HEADER_BYTES as u64).map(<[u8]>::first_chunk) {
            Ok(Some(header)) => match SegmentHeader::parse(header) {
                Ok(header) if header.segment == file.number => {
                    at = SEGMENT_HEADER_BYTES as u64;
                    let next = self.report.next_number.get_or_insert(header.first_record);
                    let missing = header.first_record.saturating_sub(*next);
                    self.report.missing = self.report.missing.saturating_add(missing);
                    *next = header.first_record.max(*next);
                    None
                }
                Ok(_) => Some("the segment's header is that of another segment"),
                Err(why) => Some(why),
            },
            Ok(None) => Some("the segment ends before its header does"),
            Err(_) => Some("the segment's header cannot be read"),
        };
        let mut open = Open { number: file.number, window, at };
        if let Some(why) = why {
            // its records may be sound all the same
            let next = open.search(0, &self.stop).unwrap_or(open.window.len);
            let is_newest = self.next_segment == self.segments.len();
            if open.window.len > 0 || !is_newest {
                self.report.note(open.damage(0, next, why.to_owned()));
            }
            open.at = next;
        }
        self.current = Some(open);
        Ok(true)
    }
}

/// Reads what stands where the segment is being read, and moves behind it; a message comes back with its offset.
fn step(open: &mut Open, report: &mut LogReport, stop: &AtomicBool) -> std::io::Result<Option<(Head, u64)>> {
    let at = open.at;
    match open.look(at)? {
        Found::Sound(head) => {
            let bytes = RECORD_HEAD_BYTES as u64 + head.payload_bytes;
            open.at = at + bytes;
            report.records += 1;
            report.bytes += bytes;
            report.count(head.number, 1);
            Ok(Some((head, at)))
        }
        Found::Hole(head, hole) => {
            open.at = at + RECORD_HEAD_BYTES as u64 + head.payload_bytes;
            report.count(head.number, hole.count);
            report.hole(hole);
            Ok(None)
        }
        Found::Payload(bytes, why) => {
            open.at = at + bytes;
            let mut damage = open.damage(at, open.at, why.to_owned());
            damage.is_tail = open.at == open.window.len;
            report.note(damage);
            Ok(None)
        }
        Found::Nothing(why) => {
            open.at = open.search(at + 1, stop)?;
            report.note(open.damage(at, open.at, why.to_owned()));
            Ok(None)
        }
    }
}

impl Open {
    fn damage(&self, from: u64, until: u64, why: String) -> Damage {
        let is_tail = until == self.window.len;
        Damage { segment: self.number, offset: from, bytes: until - from, is_tail, why }
    }

    /// The head at an offset, where it is sound and its record fits the file.
    fn head(&mut self, at: u64) -> std::io::Result<Result<Head, &'static str>> {
        let len = self.window.len;
        let Some(head) = self.window.get(at, RECORD_HEAD_BYTES as u64)?.first_chunk() else {
            return Ok(Err("the segment ends within the head of a record"));
        };
        Ok(match Head::parse(head, self.number) {
            None => Err("there is no head of a record, or its checksum is wrong"),
            Some(head) if head.payload_bytes > len - at - RECORD_HEAD_BYTES as u64 => {
                Err("the segment ends within the payload of a record")
            }
            Some(head) => Ok(head),
        })
    }

    fn look(&mut self, at: u64) -> std::io::Result<Found> {
        let head = match self.head(at)? {
            Ok(head) => head,
            Err(why) => return Ok(Found::Nothing(why)),
        };
        let payload = self.window.get(at + RECORD_HEAD_BYTES as u64, head.payload_bytes)?;
        let bytes = RECORD_HEAD_BYTES as u64 + head.payload_bytes;
        if crc32fast::hash(payload) != head.payload_crc {
            return Ok(Found::Payload(bytes, "the checksum of a record's payload is wrong"));
        }
        if split(head.num_parts, payload).is_none() {
            return Ok(Found::Payload(bytes, "the lengths of a record's parts do not add up"));
        }
        if head.kind != RecordKind::Hole {
            return Ok(Found::Sound(head));
        }
        Ok(match Hole::parse(&head, payload) {
            Some(hole) => Found::Hole(head, hole),
            None => {
                Found::Payload(bytes, "the mark of messages that were not saved is not as long as one is")
            }
        })
    }

    /// Offset of the next sound head from an offset on; the end of the file where there is none.
    ///
    /// # Errors
    /// The file cannot be read; the flag is raised.
    fn search(&mut self, from: u64, stop: &AtomicBool) -> std::io::Result<u64> {
        let mut from = from;
        while from + RECORD_HEAD_BYTES as u64 <= self.window.len {
            if stop.load(Relaxed) {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            // what is in memory is searched before more is read: a false mark costs no reading
            let searched = self.window.held(from, RECORD_HEAD_BYTES as u64)?;
            let found = searched.windows(RECORD_MAGIC.len()).position(|bytes| bytes == RECORD_MAGIC);
            let Some(found) = found else {
                // a magic may begin in the last three
                from += (searched.len() as u64).saturating_sub(3).max(1);
                continue;
            };
            from += found as u64;
            if self.head(from)?.is_ok() {
                return Ok(from);
            }
            from += 1;
        }
        Ok(self.window.len)
    }
}

/// Reads single records again, by their places.
#[derive(Debug)]
pub struct RecordFinder {
    folder: PathBuf,
    open: Option<Open>,
}

impl RecordFinder {
    /// Reads in a folder of which a [`LogReader`] told the places.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), open: None }
    }

    /// The record at a place. Fastest in the order in which the log was written.
    ///
    /// # Errors
    /// [`RecordError::Io`]; [`RecordError::Damaged`] where there is no sound record any more.
    pub fn read(&mut self, place: Place) -> Result<Record<'_>, RecordError> {
        let Place { segment, offset, .. } = place;
        let path = segment_path(&self.folder, segment);
        let open = match self.open.take().filter(|open| open.number == segment) {
            Some(open) => self.open.insert(open),
            None => {
                let window = Window::open(&path).map_err(io("opening", &path))?;
                self.open.insert(Open { number: segment, window, at: 0 })
            }
        };
        let reading = io("reading", &path);
        match open.look(offset).map_err(&reading)? {
            Found::Sound(head) => {
                let bytes = RECORD_HEAD_BYTES as u64 + head.payload_bytes;
                let at = offset + RECORD_HEAD_BYTES as u64;
                let payload = open.window.get(at, head.payload_bytes).map_err(&reading)?;
                Ok(Record::new(&head, Place { segment, offset, bytes }, payload))
            }
            Found::Payload(_, why) | Found::Nothing(why) => {
                Err(RecordError::Damaged { segment, offset, why })
            }
            Found::Hole(..) => Err(RecordError::Damaged {
                segment,
                offset,
                why: "there is no message but the mark of a hole",
            }),
        }
    }
}

impl LogReport {
    fn note(&mut self, damage: Damage) {
        self.num_damages += 1;
        if self.damages.len() < MOST_LISTED {
            self.damages.push(damage);
        }
    }

    fn hole(&mut self, hole: Hole) {
        self.not_saved = self.not_saved.saturating_add(hole.count);
        if self.holes.len() < MOST_LISTED {
            self.holes.push(hole);
        }
    }

    /// Goes on behind a record that takes `count` numbers from `first` on.
    fn count(&mut self, first: u64, count: u64) {
        let next = self.next_number.get_or_insert(first);
        self.missing = self.missing.saturating_add(first.saturating_sub(*next));
        *next = first.saturating_add(count).max(*next);
    }

    /// This report and that of the segments behind.
    pub(super) fn followed_by(mut self, behind: Self) -> Self {
        self.segments += behind.segments;
        self.records += behind.records;
        self.bytes += behind.bytes;
        self.num_damages += behind.num_damages;
        self.damages.extend(behind.damages);
        self.holes.extend(behind.holes);
        self.not_saved = self.not_saved.saturating_add(behind.not_saved);
        self.missing = self.missing.saturating_add(behind.missing);
        self.next_number = behind.next_number.or(self.next_number);
        self
    }
}

#[cfg(test)]
mod tests;
