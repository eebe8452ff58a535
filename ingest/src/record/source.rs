//! A log as a source: its messages in slabs, as if they were received now.
//!
//! The messages go through the same reader as those of a detector, which lays them into slabs.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::acquisition::{LogKey, SeriesRecord, SeriesRecords};
use super::error::RecordError;
use super::reader::{LogReader, LogReport, Record};
use crate::stream::push::WireMessage;
use crate::stream::receive::Received;
use crate::stream::slab::Slab;
use crate::stream::zmtp::{Filled, PullReader};

/// How often a waiting source looks at the stop flag.
const TICK: Duration = Duration::from_millis(20);
/// Most parts of a message that receivers take.
const MOST_PARTS: usize = 64;
/// What a PUSH socket says when somebody connects: greeting, then READY.
pub(super) const HANDSHAKE: &[u8] =
    b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04PUSH";

/// When messages are handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as they are taken.
    AsTaken,
    /// With the pauses with which they came.
    AsRecorded,
}

/// How a log is read as a source.
#[derive(Clone, Debug)]
pub struct LogSourceSettings {
    /// When messages are handed on.
    pub pace: Pace,
    /// Only messages of this series; those that are not understood are of none.
    pub series: Option<LogKey>,
    /// Bytes of a slab.
    pub slab_bytes: usize,
    /// Number of slabs.
    pub slabs: usize,
}

impl Default for LogSourceSettings {
    /// All messages as fast as they are taken, in 8 slabs of 4 MiB.
    fn default() -> Self {
        Self { pace: Pace::AsTaken, series: None, slab_bytes: 4 << 20, slabs: 8 }
    }
}

/// Stage: hands on the messages of a log.
#[derive(Debug)]
pub struct LogSource {
    records: SeriesRecords,
    settings: LogSourceSettings,
    stop: Arc<AtomicBool>,
    slabs: Sender<Slab>,
    spent: Receiver<Slab>,
}

impl LogSource {
    /// The stage and its other end. All memory is asked for here.
    pub fn new(reader: LogReader, settings: LogSourceSettings, stop: Arc<AtomicBool>) -> (Self, Received) {
        let num_slabs = settings.slabs.max(2);
        let (slabs, slabs_in) = bounded(num_slabs);
        let (spent, spent_in) = bounded(num_slabs);
        for _ in 0..num_slabs {
            // there is room for exactly these
            let _ = spent.send(Slab::new(settings.slab_bytes.max(64)));
        }
        let records = match settings.series.clone() {
            Some(series) => SeriesRecords::of(reader, series),
            None => SeriesRecords::all(reader),
        };
        (Self { records, settings, stop, slabs, spent: spent_in }, Received { slabs: slabs_in, spent })
    }

    /// Hands on all messages, then waits until the stop flag is raised or the other end is gone: a series without an end
    /// is over when its reader says so. Returns what was found in the log.
    ///
    /// # Errors
    /// [`RecordError::Io`]: a segment cannot be opened.
    pub fn run(mut self) -> Result<LogReport, RecordError> {
        if self.hand_on()? {
            // slabs come back until nobody is there to send them
            let is_gone = || matches!(self.spent.recv_timeout(TICK), Err(RecvTimeoutError::Disconnected));
            while !self.stop.load(Relaxed) && !is_gone() {}
        }
        Ok(self.records.into_report())
    }

    /// Hands on all messages; false where nobody takes them.
    fn hand_on(&mut self) -> Result<bool, RecordError> {
        let wire = Wire::default();
        let Some(mut filler) = Filler::new(&wire, &self.slabs, &self.spent, &self.stop) else {
            return Ok(false);
        };
        let start = Instant::now();
        let mut first_nanos = None;
        while let Some(SeriesRecord { record, .. }) = self.records.next_record()? {
            if self.settings.pace == Pace::AsRecorded {
                let first_nanos = *first_nanos.get_or_insert(record.arrival_nanos);
                let due = start + Duration::from_nanos(record.arrival_nanos.saturating_sub(first_nanos));
                if due > Instant::now() && !(filler.hand_on() && wait_until(due, &self.stop)) {
                    return Ok(false);
                }
            }
            if !filler.put(&record) {
                return Ok(false);
            }
        }
        Ok(filler.hand_on())
    }
}

/// Waits; false where the stop flag is raised.
fn wait_until(due: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Relaxed) {
            return false;
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(TICK));
    }
}

/// Puts messages into slabs.
struct Filler<'a> {
    wire: &'a Wire,
    reader: PullReader<&'a Wire>,
    slab: Slab,
    spare: Option<Slab>,
    slabs: &'a Sender<Slab>,
    spent: &'a Receiver<Slab>,
    stop: &'a AtomicBool,
}

impl<'a> Filler<'a> {
    /// Nothing where the work is over before it began.
    fn new(
        wire: &'a Wire,
        slabs: &'a Sender<Slab>,
        spent: &'a Receiver<Slab>,
        stop: &'a AtomicBool,
    ) -> Option<Self> {
        wire.put(HANDSHAKE);
        let reader = PullReader::connect(wire, u64::MAX).ok()?;
        Some(Self { wire, reader, slab: fresh(spent, stop)?, spare: None, slabs, spent, stop })
    }

    /// Lays a message into the slab; false where nobody takes slabs any more.
    fn put(&mut self, record: &Record<'_>) -> bool {
        let parts: Vec<&[u8]> = record.parts().collect();
        if parts.len() > MOST_PARTS {
            // more than any receiver takes: no recorder has written it
            tracing::warn!("record {} has {} parts and is not handed on", record.number, parts.len());
            return true;
        }
        self.wire.put(WireMessage::new(&parts).bytes());
        loop {
            if self.reader.wants_slab(&self.slab) && !self.change_slab() {
                return false;
            }
            match self.reader.fill(&mut self.slab) {
                Ok(Filled::Bytes(_)) => {}
                Ok(Filled::Nothing) => return true,
                Err(error) => {
                    tracing::error!("record {} cannot be handed on: {error}", record.number);
                    return false;
                }
            }
        }
    }

    /// Hands on the messages that wait; false where nobody takes slabs any more.
    fn hand_on(&mut self) -> bool {
        self.slab.num_messages() == 0 || self.change_slab()
    }

    fn change_slab(&mut self) -> bool {
        let Some(mut next) = self.spare.take().or_else(|| fresh(self.spent, self.stop)) else { return false };
        self.reader.change_slab(&mut self.slab, &mut next);
        let full = std::mem::replace(&mut self.slab, next);
        if full.num_messages() == 0 {
            self.spare = Some(full);
            return true;
        }
        self.slabs.send(full).is_ok()
    }
}

/// A slab that nobody uses; waits for one. Nothing where the work is over.
fn fresh(spent: &Receiver<Slab>, stop: &AtomicBool) -> Option<Slab> {
    loop {
        match spent.recv_timeout(TICK) {
            Ok(mut slab) => {
                slab.clear();
                return Some(slab);
            }
            Err(RecvTimeoutError::Timeout) if !stop.load(Relaxed) => {}
            Err(_) => return None,
        }
    }
}

/// Bytes on their way to the reader of messages; what is written back goes nowhere.
#[derive(Debug, Default)]
pub(super) struct Wire(RefCell<(Vec<u8>, usize)>);

impl Wire {
    pub(super) fn put(&self, bytes: &[u8]) {
        let (held, taken) = &mut *self.0.borrow_mut();
        held.drain(..*taken);
        *taken = 0;
        held.extend_from_slice(bytes);
    }
}

impl Read for &Wire {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let (held, taken) = &mut *self.0.borrow_mut();
        let rest = &held[*taken..];
        let len = rest.len().min(out.len());
        if rest.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        out[..len].copy_from_slice(&rest[..len]);
        *taken += len;
        Ok(len)
    }
}

impl Write for &Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
