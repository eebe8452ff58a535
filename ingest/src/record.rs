//! The recorder: every message of the stream as it came, in an append-only log on disk, and everything that is read from it.
//!
//! In: the slabs between [`ReceiveStage`](crate::stream::receive::ReceiveStage) and
//! [`StreamSource`](crate::stream::source::StreamSource). Out: the same slabs, at once and in order whatever the disk does,
//! and a folder of segment files. Read [`RecordStage`] (writes) and [`LogReader`] (reads) first; the bytes are described in
//! `docs/src/reference/log-format.md`.
//!
//! A message is *received* when it has been taken in, *written* when the system has it, *durable* once it was synced: three
//! counts in [`RecordCounters`]. What the disk does not take in time is *not saved*: counted, and a hole in the log.

mod acquisition;
mod batch;
mod counters;
mod error;
mod export;
mod folder;
mod format;
mod reader;
mod segment;
mod series;
mod settings;
mod source;
mod stage;
mod window;
mod writer;

pub use acquisition::{LogKey, SeriesRecord, SeriesRecords, Which};
pub use counters::RecordCounters;
pub use error::RecordError;
pub use export::{ExportSettings, ExportSummary, MissingFrames, export_series};
pub use folder::RecordLog;
pub use format::{Hole, MOST_RECORD_BYTES, RecordKind};
pub use reader::{Damage, LogReader, LogReport, Place, Record, RecordFinder};
pub use series::{FrameRanges, SeriesInLog, list_series, list_series_until};
pub use settings::{RecordSettings, Retention};
pub use source::{LogSource, LogSourceSettings, Pace};
pub use stage::RecordStage;

#[cfg(test)]
mod tests;
