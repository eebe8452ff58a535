//! What the recorder has done; read at any time, from any thread.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::error::RecordError;
use crate::counters::Counter;

const TOO_SLOW: &str = "the disk takes less than comes";

/// Counts of one recording. At its end every message received is durable, uncertain or not saved.
#[derive(Debug, Default)]
pub struct RecordCounters {
    /// Messages taken in.
    pub received: Counter,
    /// Bytes of their parts.
    pub received_bytes: Counter,
    /// Messages that the system has taken.
    pub written: Counter,
    /// Bytes of their records.
    pub written_bytes: Counter,
    /// Messages that were synced: they outlive a loss of power.
    pub durable: Counter,
    /// Bytes of their records.
    pub durable_bytes: Counter,
    /// Messages written whose sync failed: they may be there or not.
    pub uncertain: Counter,
    /// Messages that are not in the log: the disk was full, failed, or too slow.
    pub not_saved: Counter,
    /// Syncs of segments.
    pub syncs: Counter,
    /// Segments begun.
    pub segments: Counter,
    /// Segments removed to keep within the quota.
    pub removed_segments: Counter,
    /// Attempts to write or sync that failed.
    pub failures: Counter,
    /// The disk refuses.
    is_failing: AtomicBool,
    /// More comes than the disk takes.
    is_overflowing: AtomicBool,
    last_error: Mutex<Option<String>>,
}

impl RecordCounters {
    /// Whether what comes is not saved at present.
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Relaxed) || self.is_overflowing.load(Relaxed)
    }

    /// What was wrong when something was wrong last.
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().ok()?.clone()
    }

    /// Notes a failed attempt; the first of a row is said in the program's log as well.
    pub(super) fn failed(&self, error: &RecordError) {
        self.failures.add(1);
        if !self.is_failing.swap(true, Relaxed) {
            tracing::error!("NOT SAVED: {error}");
        }
        if let Ok(mut last) = self.last_error.lock() {
            *last = Some(error.to_string());
        }
    }

    /// Notes that more came than the disk took.
    pub(super) fn overflowed(&self, messages: u64) {
        self.not_saved.add(messages);
        if !self.is_overflowing.swap(true, Relaxed) && !self.is_failing.load(Relaxed) {
            tracing::error!("NOT SAVED: {TOO_SLOW}");
            if let Ok(mut last) = self.last_error.lock() {
                *last = Some(TOO_SLOW.to_owned());
            }
        }
    }

    /// Notes that there is room for what comes again.
    pub(super) fn has_room(&self) {
        if self.is_overflowing.swap(false, Relaxed) {
            tracing::warn!("messages are saved again; {} are not", self.not_saved.get());
        }
    }

    /// Notes that the disk takes what it is given.
    pub(super) fn recovered(&self) {
        if self.is_failing.swap(false, Relaxed) {
            tracing::warn!("the disk takes messages again");
        }
    }
}
