//! What ingest has seen so far, readable from any thread while it runs.

mod histogram;

use std::sync::atomic::{AtomicU64, Ordering};

pub use histogram::Histogram;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts that only grow. One instance is shared by the stages of one acquisition.
        #[derive(Debug, Default)]
        pub struct IngestCounters {
            $($(#[$doc])* pub $name: Counter,)*
        }
    };
}

counters! {
    /// Compressed bytes taken from the source.
    bytes,
    /// Frames taken from the source, whether or not they decode.
    frames_received,
    /// Frames decoded to counts.
    frames_decoded,
    /// Frames that will not come: not delivered, unreadable or corrupt.
    frames_missing,
    /// Of the missing, frames that came and did not decode.
    frames_corrupt,
    /// Frames that came a second time, or after their place had been given up; not used.
    frames_surplus,
    /// Nanoseconds that reader threads spent reading, added up over threads.
    read_ns,
    /// Nanoseconds that the decode stage spent decoding.
    decode_ns,
}

/// A count that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the count.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Adds the nanoseconds since `start`.
    pub(crate) fn add_since(&self, start: std::time::Instant) {
        self.add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
