//! The folder of a log: its segments, its lock, its quota.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::error::{RecordError, io};
use super::reader::{LogReader, LogReport};
use super::settings::{RecordSettings, Retention};

/// The file that is locked for as long as a recorder writes into the folder.
const LOCK_FILE: &str = ".sideband-log.lock";
const SUFFIX: &str = ".sbl";

/// A segment as a file in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentFile {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// Name of a segment's file.
pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}{SUFFIX}"))
}

/// The segments of a folder in order; files of other names are no segments.
pub(super) fn segments(folder: &Path) -> Result<Vec<SegmentFile>, RecordError> {
    let reading = io("reading the folder", folder);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(&reading)? {
        let entry = entry.map_err(&reading)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).filter(|digits| {
            (8..=20).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        let Some(number) = number.and_then(|digits| digits.parse().ok()) else { continue };
        // one that was removed a moment ago is none
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            found.push(SegmentFile { number, path: entry.path(), bytes: metadata.len() });
        }
    }
    found.sort_by_key(|segment| segment.number);
    Ok(found)
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), RecordError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("syncing the folder", folder))
}

/// A log that is open for writing: nobody else can write into its folder meanwhile.
#[derive(Debug)]
pub struct RecordLog {
    pub(super) settings: RecordSettings,
    /// Number of the next segment.
    pub(super) next_segment: u64,
    /// Number of the next record.
    pub(super) next_record: u64,
    /// Bytes of the segments that are finished.
    pub(super) finished_bytes: u64,
    recovered: LogReport,
    /// Locked until it is dropped; none where the file system knows no locks.
    _lock: Option<File>,
}

impl RecordLog {
    /// Opens a folder for writing. What is in it stays as it is: recording goes on in a new segment, with the number
    /// behind the last sound record. The last segment is read for that.
    ///
    /// # Errors
    /// [`RecordError::Locked`] where another recorder has the folder; `BadSetting`; `Io`.
    pub fn open(settings: RecordSettings) -> Result<Self, RecordError> {
        Self::open_until(settings, &Arc::default())
    }

    /// As [`open`](Self::open), as long as the flag is not raised.
    ///
    /// # Errors
    /// Those of [`open`](Self::open); [`RecordError::Stopped`] once the flag is raised while the segment is read.
    pub fn open_until(settings: RecordSettings, stop: &Arc<AtomicBool>) -> Result<Self, RecordError> {
        settings.check()?;
        let folder = &settings.folder;
        std::fs::create_dir_all(folder).map_err(io("making the folder", folder))?;
        let lock = lock(folder)?;
        let found = segments(folder)?;
        let mut log = Self {
            next_segment: found.last().map_or(0, |last| last.number.saturating_add(1)),
            next_record: 0,
            finished_bytes: found.iter().map(|segment| segment.bytes).sum(),
            recovered: LogReport::default(),
            settings,
            _lock: lock,
        };
        // the last that tells a number: one that was only just begun may hold nothing
        for segment in found.into_iter().rev() {
            let mut reader = LogReader::of(vec![segment]).until(stop.clone());
            while reader.next_record()?.is_some() {}
            let report = reader.into_report();
            let next = report.next_number;
            log.recovered = report.followed_by(log.recovered);
            if let Some(next) = next {
                log.next_record = next;
                break;
            }
        }
        Ok(log)
    }

    /// Number of the message that is recorded next.
    pub fn next_record(&self) -> u64 {
        self.next_record
    }

    /// What was found in the segments that were read on opening: the last, and those before it as far as it was empty.
    pub fn recovered(&self) -> &LogReport {
        &self.recovered
    }

    /// Bytes that a record may take now, with those that are kept free behind it, after the oldest segments were removed where
    /// that is agreed.
    ///
    /// # Errors
    /// [`RecordError::Quota`] where there is no room for `next_bytes`; `Io` where the folder cannot be read.
    pub(super) fn room(
        &mut self,
        current: Option<u64>,
        next_bytes: u64,
        kept_free: u64,
    ) -> Result<(u64, u64), RecordError> {
        let Some(most_bytes) = self.settings.most_bytes else { return Ok((u64::MAX, 0)) };
        let current_bytes = current.unwrap_or(0);
        let needed = next_bytes.saturating_add(kept_free);
        let mut removed = 0;
        let room = |finished: u64| most_bytes.saturating_sub(finished.saturating_add(current_bytes));
        if room(self.finished_bytes) >= needed {
            return Ok((room(self.finished_bytes), 0));
        }
        // somebody may have made room, and the oldest are to be found
        let finished: Vec<_> = segments(&self.settings.folder)?
            .into_iter()
            .filter(|file| !self.is_current(file, current))
            .collect();
        self.finished_bytes = finished.iter().map(|file| file.bytes).sum();
        if self.settings.retention == Retention::RemoveOldest {
            for oldest in finished {
                if room(self.finished_bytes) >= needed {
                    break;
                }
                tracing::warn!(
                    "{}: removed, the quota of {most_bytes} bytes is reached",
                    oldest.path.display()
                );
                std::fs::remove_file(&oldest.path).map_err(io("removing", &oldest.path))?;
                self.finished_bytes = self.finished_bytes.saturating_sub(oldest.bytes);
                removed += 1;
            }
        }
        match room(self.finished_bytes) {
            room if room >= needed => Ok((room, removed)),
            _ => Err(RecordError::Quota {
                folder: self.settings.folder.clone(),
                got_bytes: self.finished_bytes.saturating_add(current_bytes),
                next_bytes,
                expected_bytes: most_bytes,
            }),
        }
    }

    /// Whether a file is the segment that is being written: the last that was begun.
    fn is_current(&self, file: &SegmentFile, current: Option<u64>) -> bool {
        current.is_some() && file.number.checked_add(1) == Some(self.next_segment)
    }
}

fn lock(folder: &Path) -> Result<Option<File>, RecordError> {
    let path = folder.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(io("opening the lock", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(RecordError::Locked { folder: folder.to_path_buf() }),
        Err(TryLockError::Error(error)) => {
            tracing::warn!("{}: cannot be locked: {error}", path.display());
            Ok(None)
        }
    }
}
