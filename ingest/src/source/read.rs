//! One batch of frames from a file: as few reads as the positions allow, nothing trusted.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use kernels::types::Item;

use super::{StoredFrame, StoredRun, gap};
use crate::identity::{FileIdentity, open_regular};
use crate::raw::RawBatch;

/// Bytes between two frames that are read over rather than around.
const WORTH_READING_OVER: u64 = 64 * 1024;

/// Most bytes a compressed frame can take: a stored block a little larger than its counts, with room for headers.
fn most_bytes(run: &StoredRun) -> u64 {
    let raw = run.detector.pixels().saturating_mul(run.count_type.bytes()) as u64;
    raw.saturating_add(raw / 4).saturating_add(1 << 16)
}

/// The file a reader has open; runs come in file order, so one is enough.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    current: Option<(PathBuf, File)>,
}

impl OpenFiles {
    /// The file of a run, which was the one that was indexed when it was opened.
    fn open(&mut self, run: &StoredRun) -> io::Result<&File> {
        if self.current.as_ref().is_none_or(|(open, _)| *open != run.path) {
            let (file, identity) = open_regular(&run.path)?;
            same(run, identity)?;
            self.current = Some((run.path.clone(), file));
        }
        match &self.current {
            Some((_, file)) => Ok(file),
            None => Err(io::Error::other("no file is open")),
        }
    }
}

/// Fails when a file is not what it was when the index of the run was read.
fn same(run: &StoredRun, now: FileIdentity) -> io::Result<()> {
    if now == run.identity {
        return Ok(());
    }
    Err(io::Error::other("changed since its index was read"))
}

/// Reads `frames` of a run: batches of what could be read, gaps for the rest, in order.
pub(super) fn read_batch(
    files: &mut OpenFiles,
    run: &StoredRun,
    frames: Range<usize>,
) -> Vec<Item<RawBatch>> {
    let all_lost =
        |error: io::Error| vec![gap(run, frames.clone(), format!("{}: {error}", run.path.display()))];
    let file = match files.open(run) {
        Ok(file) => file,
        Err(error) => return all_lost(error),
    };
    let mut items = Vec::new();
    let mut start = frames.start;
    while start < frames.end {
        let (end, refused) = next_stretch(run, start, frames.end, run.identity.bytes);
        if let Some(why) = refused {
            push_gap(&mut items, run, start..end, why);
        } else {
            match read_stretch(file, run, start..end) {
                Ok(batch) => items.push(Item::Data(batch)),
                Err(error) => {
                    push_gap(&mut items, run, start..end, format!("{}: {error}", run.path.display()));
                }
            }
        }
        start = end;
    }
    // Bytes read while another program wrote to the file are those of no one state of it.
    match FileIdentity::of(file).and_then(|now| same(run, now)) {
        Ok(()) => items,
        Err(error) => all_lost(error),
    }
}

/// Adds a gap, joined to the one before it when that has the same reason.
fn push_gap(items: &mut Vec<Item<RawBatch>>, run: &StoredRun, frames: Range<usize>, why: String) {
    let Item::Gap(new) = gap(run, frames, why) else { return };
    if let Some(Item::Gap(last)) = items.last_mut()
        && last.reason == new.reason
        && last.first + last.count == new.first
    {
        last.count += new.count;
        return;
    }
    items.push(Item::Gap(new));
}

/// How far from `start` frames can be read in one go, or how far they share a reason not to be.
fn next_stretch(run: &StoredRun, start: usize, end: usize, file_bytes: u64) -> (usize, Option<String>) {
    if let Some(why) = refusal(run, start, file_bytes) {
        return (start + 1, Some(why));
    }
    let mut at = start;
    while at + 1 < end
        && refusal(run, at + 1, file_bytes).is_none()
        && follows(run.frames[at], run.frames[at + 1])
    {
        at += 1;
    }
    (at + 1, None)
}

fn follows(this: StoredFrame, next: StoredFrame) -> bool {
    next.offset.checked_sub(this.offset + this.bytes).is_some_and(|between| between <= WORTH_READING_OVER)
}

/// Why a frame cannot be read, seen from its position alone.
fn refusal(run: &StoredRun, frame: usize, file_bytes: u64) -> Option<String> {
    let StoredFrame { offset, bytes } = run.frames[frame];
    let name = run.path.display();
    if bytes == 0 {
        return Some(format!("{name}: the index has no bytes for it"));
    }
    if bytes > most_bytes(run) {
        let most = most_bytes(run);
        return Some(format!(
            "{name}: the index says {bytes} bytes for a frame, at most {most} are possible"
        ));
    }
    match offset.checked_add(bytes) {
        Some(end) if end <= file_bytes => None,
        _ => {
            Some(format!("{name}: cut short: its bytes lie beyond the end of the file at {file_bytes} bytes"))
        }
    }
}

fn read_stretch(file: &File, run: &StoredRun, frames: Range<usize>) -> io::Result<RawBatch> {
    let stored = &run.frames[frames.clone()];
    let (Some(first), Some(last)) = (stored.first(), stored.last()) else {
        return Err(io::Error::other("an empty stretch"));
    };
    let start = first.offset;
    // Bounded: at most FRAMES_PER_BATCH frames of `most_bytes` each and what lies between, all inside the file.
    let len = usize::try_from(last.offset + last.bytes - start).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, start)?;
    let ranges = stored
        .iter()
        .map(|frame| {
            let at = (frame.offset - start) as usize;
            at..at + frame.bytes as usize
        })
        .collect();
    let first = run.first + frames.start as u64;
    Ok(RawBatch::new(first, run.encoding, run.count_type, run.detector, bytes, ranges))
}
