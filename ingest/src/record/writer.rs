//! The thread that writes: batches of records into segments, synced now and then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::batch::{Batch, hole_record};
use super::counters::RecordCounters;
use super::error::RecordError;
use super::folder::RecordLog;
use super::format::{HOLE_RECORD_BYTES, Hole, NONE, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::segment::Segment;

/// From a failed attempt to the next, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MOST_PAUSE: Duration = Duration::from_secs(1);
/// Buffers that grew beyond this are not kept.
const MOST_KEPT_BYTES: usize = 16 << 20;

/// Nanoseconds since 1970.
pub(super) fn nanos_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(NONE)
}

/// What the two threads share.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) batches: Receiver<Batch>,
    pub(super) spare: Sender<Batch>,
    /// Bytes of the batches that are on their way.
    pub(super) waiting_bytes: Arc<AtomicU64>,
    /// Disconnected once nothing more is received.
    pub(super) receiving: Receiver<()>,
}

/// The writer.
#[derive(Debug)]
pub(super) struct Writer {
    log: RecordLog,
    counters: Arc<RecordCounters>,
    queue: Queue,
    segment: Option<Segment>,
    /// Messages and bytes written and not synced, and since when.
    unsynced: (u64, u64),
    unsynced_since: Option<Instant>,
    /// Messages that were given up since something was written last.
    given_up: Option<Hole>,
    /// When trying ends.
    deadline: Option<Instant>,
}

impl Writer {
    pub(super) fn new(log: RecordLog, counters: Arc<RecordCounters>, queue: Queue) -> Self {
        Self {
            log,
            counters,
            queue,
            segment: None,
            unsynced: (0, 0),
            unsynced_since: None,
            given_up: None,
            deadline: None,
        }
    }

    /// Writes until no more batches can come, and syncs.
    pub(super) fn run(mut self) {
        loop {
            let received = match self.unsynced_since {
                None => self.queue.batches.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(since) => {
                    let due = since + self.log.settings.sync_every;
                    self.queue.batches.recv_deadline(due)
                }
            };
            match received {
                Ok(mut batch) => {
                    self.save(&mut batch);
                    self.queue.waiting_bytes.fetch_sub(batch.num_bytes(), Relaxed);
                    if batch.capacity() <= MOST_KEPT_BYTES {
                        // where there are spare ones enough, it goes
                        let _ = self.queue.spare.try_send(batch);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.sync_when_due();
        }
        if let Some(hole) = self.given_up.take() {
            self.save(&mut Batch::of_hole(hole));
        }
        self.sync();
    }

    /// Saves a batch, trying again while the disk fails, until trying ends.
    fn save(&mut self, batch: &mut Batch) {
        let (mut saved, mut pause) = (0, FIRST_PAUSE);
        batch.hole = Hole::joined(self.given_up.take(), batch.hole);
        while batch.hole.is_some() || saved < batch.len() {
            let before = saved;
            match self.try_save(batch, &mut saved) {
                Ok(()) => {}
                Err(error) => {
                    self.counters.failed(&error);
                    self.sync_when_due();
                    if saved > before {
                        pause = FIRST_PAUSE;
                    }
                    if !self.wait(pause) {
                        self.counters.not_saved.add((batch.len() - saved) as u64);
                        self.given_up = Hole::joined(batch.hole, batch.rest(saved));
                        return;
                    }
                    pause = (pause * 2).min(MOST_PAUSE);
                }
            }
        }
        // the mark of what is lost at the end is no message
        if batch.len() > 0 {
            self.counters.recovered();
        }
    }

    /// Writes the hole, or as many records as one segment has room for.
    fn try_save(&mut self, batch: &mut Batch, saved: &mut usize) -> Result<(), RecordError> {
        let number = batch.hole.map_or_else(|| batch.number(*saved), |hole| hole.first);
        let next_bytes = match batch.hole {
            Some(hole) => hole_record(hole, 0).len() as u64,
            None => batch.record_bytes(*saved),
        };
        let limit = self.log.settings.segment_bytes;
        if self.segment.as_ref().is_some_and(|own| own.has_records() && own.end + next_bytes > limit) {
            self.finish_segment();
        }
        let current = self.segment.as_ref().map(|own| own.end);
        // a segment that is still to be begun takes its header as well
        let header_bytes = if current.is_none() { SEGMENT_HEADER_BYTES as u64 } else { 0 };
        // within a quota there is always room for the mark of what is lost, which says how much at the end: one in between is
        // written only where a message follows
        let mark = (HOLE_RECORD_BYTES + SEGMENT_HEADER_BYTES) as u64;
        let kept_free = match (batch.hole, *saved < batch.len()) {
            (Some(_), false) => 0,
            (Some(_), true) => mark + batch.record_bytes(*saved),
            (None, _) => mark,
        };
        let (room, removed) = self.log.room(current, next_bytes + header_bytes, kept_free)?;
        self.counters.removed_segments.add(removed);
        let segment = match &mut self.segment {
            Some(segment) => segment,
            None => {
                let header = SegmentHeader {
                    segment: self.log.next_segment,
                    created_nanos: nanos_now(),
                    first_record: number,
                };
                let begun = Segment::create(&self.log.settings.folder, header);
                if begun.as_ref().err().is_none_or(RecordError::is_in_the_way) {
                    self.log.next_segment = self.log.next_segment.saturating_add(1);
                }
                let begun = begun?;
                self.counters.segments.add(1);
                self.segment.insert(begun)
            }
        };
        if let Some(hole) = batch.hole {
            let record = hole_record(hole, segment.number);
            let written = segment.write(&record);
            if let Some(failure) = written.failure {
                segment.cut_off_rest();
                return Err(self.write_failed(failure));
            }
            segment.accept(record.len() as u64);
            batch.hole = None;
            self.unsynced_since.get_or_insert_with(Instant::now);
            return Ok(());
        }
        let room = (room - header_bytes - kept_free).min(limit.saturating_sub(segment.end));
        // a record longer than a segment has one to itself
        let count = batch.fitting(*saved, room).max(1);
        let written = segment.write(batch.seal(*saved, count, segment.number));
        let (records, bytes) = batch.whole(*saved, written.bytes);
        segment.accept(bytes);
        *saved += records;
        self.counters.written.add(records as u64);
        self.counters.written_bytes.add(bytes);
        self.unsynced = (self.unsynced.0 + records as u64, self.unsynced.1 + bytes);
        if records > 0 {
            self.unsynced_since.get_or_insert_with(Instant::now);
        }
        match written.failure {
            None => Ok(()),
            Some(failure) => {
                segment.cut_off_rest();
                Err(self.write_failed(failure))
            }
        }
    }

    /// Says what failed. A full disk may have room again; after any other failure the segment is left alone.
    fn write_failed(&mut self, failure: io::Error) -> RecordError {
        let is_full = matches!(failure.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG));
        let path = self.segment.as_ref().map(|segment| segment.path.clone()).unwrap_or_default();
        if !is_full {
            self.finish_segment();
        }
        RecordError::Io { doing: "writing", path, source: failure }
    }

    /// Syncs the segment and leaves it; the next record begins another.
    fn finish_segment(&mut self) {
        self.sync();
        if let Some(segment) = self.segment.take() {
            self.log.finished_bytes = self.log.finished_bytes.saturating_add(segment.end);
        }
    }

    fn sync_when_due(&mut self) {
        let settings = &self.log.settings;
        let is_late = self.unsynced_since.is_some_and(|since| since.elapsed() >= settings.sync_every);
        if is_late || self.unsynced.1 >= settings.sync_bytes {
            self.sync();
        }
    }

    /// Makes what was written durable. Where that fails nobody knows what the disk has: the segment is left alone, and its
    /// messages since the last sync are uncertain.
    fn sync(&mut self) {
        if self.unsynced_since.take().is_none() {
            return;
        }
        let (messages, bytes) = std::mem::take(&mut self.unsynced);
        let Some(segment) = &self.segment else { return };
        match segment.sync() {
            Ok(()) => {
                self.counters.syncs.add(1);
                self.counters.durable.add(messages);
                self.counters.durable_bytes.add(bytes);
            }
            Err(error) => {
                self.counters.failed(&error);
                self.counters.uncertain.add(messages);
                self.log.finished_bytes = self.log.finished_bytes.saturating_add(segment.end);
                self.segment = None;
            }
        }
    }

    /// Waits before the next attempt; false once trying has ended.
    fn wait(&mut self, pause: Duration) -> bool {
        if self.deadline.is_none()
            && self.queue.receiving.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected)
        {
            self.deadline = Some(Instant::now() + self.log.settings.last_tries);
        }
        match self.deadline {
            None => true,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(pause));
                !left.is_zero()
            }
        }
    }
}
