//! Stage: a tee between the receiver and the source. Slabs go on at once; what is in them goes to the disk as well.
//!
//! The thread of the stage copies messages and hands slabs on, and never waits for the disk: copies wait in a queue of
//! bounded size for the thread that writes. What comes while the queue is full is counted as not saved, and the next
//! that has room takes along a hole of that many messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use super::batch::{Batch, sizes};
use super::counters::RecordCounters;
use super::folder::RecordLog;
use super::format::Hole;
use super::writer::{Queue, Writer, nanos_now};
use crate::stream::receive::Received;
use crate::stream::slab::Slab;

/// Batches that wait for the disk, at most; their bytes are bounded by the settings.
const MOST_BATCHES: usize = 4096;
/// Empty batches that are kept for use.
const SPARE_BATCHES: usize = 16;

/// The stage.
#[derive(Debug)]
pub struct RecordStage {
    slabs_in: Receiver<Slab>,
    slabs: Sender<Slab>,
    log: RecordLog,
    counters: Arc<RecordCounters>,
}

impl RecordStage {
    /// The stage behind a receiver, and what is received behind the stage.
    pub fn new(received: Received, log: RecordLog, counters: Arc<RecordCounters>) -> (Self, Received) {
        // as many as there are slabs: handing one on never waits
        let (slabs, slabs_out) = bounded(received.slabs.capacity().unwrap_or(64));
        let stage = Self { slabs_in: received.slabs, slabs, log, counters };
        (stage, Received { slabs: slabs_out, spent: received.spent })
    }

    /// Hands on and records until nothing more is received or nobody takes slabs any more; returns when what was taken
    /// in is durable or given up.
    pub fn run(self) {
        let (batches, batches_in) = bounded(MOST_BATCHES);
        let (spare, spare_in) = bounded(SPARE_BATCHES);
        let (still_receiving, receiving) = bounded(0);
        let waiting_bytes = Arc::new(AtomicU64::new(0));
        let mut tee = Tee {
            batches,
            spare: spare_in,
            waiting_bytes: waiting_bytes.clone(),
            most_bytes: self.log.settings.queue_bytes,
            next: self.log.next_record,
            hole: None,
            counters: self.counters.clone(),
        };
        let queue = Queue { batches: batches_in, spare, waiting_bytes, receiving };
        let writer = Writer::new(self.log, self.counters, queue);
        std::thread::scope(|scope| {
            scope.spawn(|| writer.run());
            for slab in self.slabs_in {
                tee.take(&slab);
                if self.slabs.send(slab).is_err() {
                    break;
                }
            }
            drop(self.slabs);
            drop::<Sender<()>>(still_receiving);
            tee.finish();
        });
    }
}

/// The side of the queue that takes in.
struct Tee {
    batches: Sender<Batch>,
    spare: Receiver<Batch>,
    waiting_bytes: Arc<AtomicU64>,
    most_bytes: u64,
    /// Number of the next record.
    next: u64,
    /// Messages that are not saved, up to now.
    hole: Option<Hole>,
    counters: Arc<RecordCounters>,
}

impl Tee {
    fn take(&mut self, slab: &Slab) {
        let messages = slab.num_messages() as u64;
        if messages == 0 {
            return;
        }
        let now = nanos_now();
        let (parts_bytes, records_bytes) = sizes(slab);
        self.counters.received.add(messages);
        self.counters.received_bytes.add(parts_bytes);
        let first = self.next;
        self.next = self.next.saturating_add(messages);
        if !records_bytes.is_some_and(|bytes| self.queue(slab, first, now, bytes)) {
            self.counters.overflowed(messages);
            let hole = self.hole.get_or_insert(Hole {
                first,
                count: 0,
                bytes: 0,
                from_nanos: now,
                until_nanos: now,
            });
            hole.count += messages;
            hole.bytes += parts_bytes;
            hole.until_nanos = now;
        }
    }

    /// Queues a copy of a slab's messages where there is room; one that is longer than the whole queue has room in an
    /// empty one.
    fn queue(&mut self, slab: &Slab, first: u64, now: u64, bytes: u64) -> bool {
        let waiting = self.waiting_bytes.load(Relaxed);
        if self.batches.is_full() || waiting > 0 && waiting.saturating_add(bytes) > self.most_bytes {
            return false;
        }
        let mut batch = self.spare.try_recv().unwrap_or_default();
        batch.fill(slab, first, now, self.hole);
        self.waiting_bytes.fetch_add(batch.num_bytes(), Relaxed);
        match self.batches.try_send(batch) {
            Ok(()) => {
                self.hole = None;
                self.counters.has_room();
                true
            }
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                self.waiting_bytes.fetch_sub(batch.num_bytes(), Relaxed);
                false
            }
        }
    }

    /// Leaves the hole at the end, if there is one, and closes the queue.
    fn finish(self) {
        if let Some(hole) = self.hole {
            // the writer empties the queue, or gives it up
            let _ = self.batches.send(Batch::of_hole(hole));
        }
    }
}
