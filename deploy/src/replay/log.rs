//! What was hit by what, for whoever holds a reader to it: one JSON object a series, one a line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::plan::Plan;

/// Most frames of a series whose holes are listed.
const MOST_FRAMES: u64 = 1 << 26;

/// The file of `--fault-log`.
#[derive(Debug)]
pub struct FaultLog {
    file: File,
}

/// One series in the log. Ranges are half-open, ascending.
#[derive(Debug, Serialize)]
pub struct SeriesLog<'a> {
    /// Its number.
    pub series: u64,
    /// Its name in stream v2.
    pub unique_id: &'a str,
    /// Which version it was sent in.
    pub version: String,
    /// Frames of the series.
    pub frames: u64,
    /// Decided what was hit.
    pub seed: u64,
    /// Frames that each fault hit; `swapped` names the first of two.
    pub hits: BTreeMap<&'static str, &'a [u64]>,
    /// Frames that the set does not have.
    pub absent: Vec<[u64; 2]>,
    /// Frames that no reader took in time, in the order in which they were due.
    pub dropped: Vec<[u64; 2]>,
    /// Frames that the other reader took.
    pub stolen: Vec<[u64; 2]>,
    /// Frames that a reader of everything that was sent cannot have; none where the series is too long to list them.
    pub holes: Option<Vec<[u64; 2]>>,
    /// How it ended.
    pub ending: &'static str,
}

impl FaultLog {
    /// Makes the file, empty.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        Ok(Self { file })
    }

    /// Adds a series.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, series: &SeriesLog<'_>) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(series)?;
        line.push(b'\n');
        self.file.write_all(&line).context("the fault log cannot be written")
    }
}

/// Numbers as ranges.
#[derive(Debug, Default)]
pub struct Ranges(Vec<[u64; 2]>);

impl Ranges {
    /// Adds a number behind those that there are.
    pub fn push(&mut self, number: u64) {
        match self.0.last_mut() {
            Some([_, end]) if *end == number => *end += 1,
            _ => self.0.push([number, number.saturating_add(1)]),
        }
    }

    /// The ranges.
    pub fn into_inner(self) -> Vec<[u64; 2]> {
        self.0
    }
}

/// How many copies of each frame readers can have.
#[derive(Debug)]
pub struct Delivered {
    copies: Option<Vec<u8>>,
}

impl Delivered {
    /// Of no frame of a plan; kept only where it `is_wanted`.
    pub fn of(plan: &Plan, is_wanted: bool) -> Self {
        let is_short = plan.num_frames() <= MOST_FRAMES;
        Self { copies: (is_wanted && is_short).then(|| vec![0; plan.num_frames() as usize]) }
    }

    /// One more.
    pub fn add(&mut self, number: u64) {
        if let Some(copies) = self.of_frame(number) {
            *copies = copies.saturating_add(1);
        }
    }

    /// One less: the other reader has it.
    pub fn take(&mut self, number: u64) {
        if let Some(copies) = self.of_frame(number) {
            *copies = copies.saturating_sub(1);
        }
    }

    fn of_frame(&mut self, number: u64) -> Option<&mut u8> {
        self.copies.as_mut()?.get_mut(usize::try_from(number).ok()?)
    }

    /// Frames of which there is none.
    pub fn holes(&self) -> Option<Vec<[u64; 2]>> {
        let mut holes = Ranges::default();
        let copies = (0..).zip(self.copies.as_ref()?);
        copies.filter(|(_, copies)| **copies == 0).for_each(|(number, _)| holes.push(number));
        Some(holes.into_inner())
    }
}
