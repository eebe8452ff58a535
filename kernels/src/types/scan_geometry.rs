//! How the frames of a series are the positions of a scan.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::ScanShape;

/// In which order the positions of a scan row come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScanPath {
    /// Every row from its first column to its last.
    #[default]
    Raster,
    /// The first row from its first column to its last, the next one back, and so on by turns.
    Snake,
}

impl std::fmt::Display for ScanPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Raster => "raster",
            Self::Snake => "snake",
        })
    }
}

impl std::str::FromStr for ScanPath {
    type Err = String;

    /// Reads `raster` or `snake`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "raster" => Ok(Self::Raster),
            "snake" => Ok(Self::Snake),
            _ => Err(format!("got scan path '{text}', expected raster or snake")),
        }
    }
}

/// How frames follow each other, whatever the shape of the scan. The default is one frame a position, row by row, and
/// nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameOrder {
    /// The way through the positions.
    pub path: ScanPath,
    /// Consecutive frames of one position, which are summed; at least 1.
    pub frames_per_position: u64,
    /// Frames after each row that belong to no position: the beam flies back.
    pub flyback_frames: u64,
    /// Frames before the first row that belong to no position.
    pub skip_frames: u64,
}

impl Default for FrameOrder {
    fn default() -> Self {
        Self { path: ScanPath::Raster, frames_per_position: 1, flyback_frames: 0, skip_frames: 0 }
    }
}

impl std::fmt::Display for FrameOrder {
    /// What is not as usual, in words; nothing for the default.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut words = Vec::new();
        if self.path == ScanPath::Snake {
            words.push("snake".to_owned());
        }
        if self.frames_per_position != 1 {
            words.push(format!("{} frames a position", self.frames_per_position));
        }
        if self.flyback_frames != 0 {
            words.push(format!("{} fly-back frames after each row", self.flyback_frames));
        }
        if self.skip_frames != 0 {
            words.push(format!("{} frames skipped before the first row", self.skip_frames));
        }
        f.write_str(&words.join(", "))
    }
}

/// An order of frames that is not as usual, behind a shape.
fn with(order: &FrameOrder) -> String {
    if *order == FrameOrder::default() { String::new() } else { format!(" with {order}") }
}

/// A geometry that no series can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// No rows, or no columns.
    #[error("got a scan of {scan}, expected at least 1x1")]
    Empty {
        /// The shape.
        scan: ScanShape,
    },
    /// Positions without frames.
    #[error("got 0 frames a position, expected at least 1")]
    NoFrames,
    /// More frames than can be numbered.
    #[error("got a scan of {scan}{}: it needs more frames than can be counted", with(.order))]
    TooMany {
        /// The shape.
        scan: ScanShape,
        /// The order.
        order: FrameOrder,
    },
}

/// Which frames of a series, numbered from 0 in the order of acquisition, are which positions of a scan.
///
/// First come the frames to skip; then, for each scan row, the frames of its positions, `frames_per_position` each, and
/// the fly-back frames. Positions are counted row by row, from the first column on, whatever the way of the beam.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScanGeometry {
    scan: ScanShape,
    order: FrameOrder,
    /// Frames of the positions of a row.
    row_frames: u64,
    /// From the first frame of a row to that of the next.
    row_stride: u64,
    num_frames: u64,
}

impl ScanGeometry {
    /// The geometry of a scan whose frames come in an order.
    ///
    /// # Errors
    /// [`GeometryError`]: no positions, no frames a position, more frames than 64 bits can count.
    pub fn new(scan: ScanShape, order: FrameOrder) -> Result<Self, GeometryError> {
        if scan.rows == 0 || scan.cols == 0 {
            return Err(GeometryError::Empty { scan });
        }
        if order.frames_per_position == 0 {
            return Err(GeometryError::NoFrames);
        }
        Self::checked(scan, order).ok_or(GeometryError::TooMany { scan, order })
    }

    fn checked(scan: ScanShape, order: FrameOrder) -> Option<Self> {
        scan.rows.checked_mul(scan.cols)?;
        let (rows, cols) = (u64::try_from(scan.rows).ok()?, u64::try_from(scan.cols).ok()?);
        let row_frames = cols.checked_mul(order.frames_per_position)?;
        let row_stride = row_frames.checked_add(order.flyback_frames)?;
        // the fly-back of the last row too: with it the series may be as long as that
        let all = rows.checked_mul(row_stride)?.checked_add(order.skip_frames)?;
        let num_frames = if rows == 0 { all } else { all - order.flyback_frames };
        Some(Self { scan, order, row_frames, row_stride, num_frames })
    }

    /// Rows and columns.
    pub fn scan(&self) -> ScanShape {
        self.scan
    }

    /// How frames follow each other.
    pub fn order(&self) -> FrameOrder {
        self.order
    }

    /// Frames from the first of the series to the last of a position: what the geometry needs. The fly-back after the last
    /// row is not needed.
    pub fn num_frames(&self) -> u64 {
        self.num_frames
    }

    /// As [`Self::num_frames`], with the fly-back after the last row.
    pub fn num_frames_with_last_flyback(&self) -> u64 {
        self.num_frames.saturating_add(self.order.flyback_frames)
    }

    /// Whether frame `n` is position `n`, and nothing else is needed.
    pub fn is_plain(&self) -> bool {
        self.order == FrameOrder::default()
    }

    /// The frames of a scan row's positions. Empty, and beyond all others, for a row that the scan does not have.
    pub fn frames_of_row(&self, scan_row: usize) -> Range<u64> {
        if scan_row >= self.scan.rows {
            return self.num_frames..self.num_frames;
        }
        // beyond 64 bits only for a shape whose positions cannot be counted
        let rows_before = (scan_row as u64).saturating_mul(self.row_stride);
        let first = self.order.skip_frames.saturating_add(rows_before);
        first..first.saturating_add(self.row_frames)
    }

    /// The frames of a position. Empty, and beyond all others, for a position that the scan does not have.
    pub fn frames_of_position(&self, scan_row: usize, scan_col: usize) -> Range<u64> {
        if scan_row >= self.scan.rows || scan_col >= self.scan.cols {
            return self.num_frames..self.num_frames;
        }
        let place = if self.is_reversed(scan_row) { self.scan.cols - 1 - scan_col } else { scan_col };
        let frames = self.order.frames_per_position;
        let first = self.frames_of_row(scan_row).start.saturating_add((place as u64).saturating_mul(frames));
        first..first.saturating_add(frames)
    }

    /// The scan rows that a range of frames touches; some at its ends may be touched by their fly-back alone.
    pub fn rows_of_frames(&self, frames: Range<u64>) -> Range<usize> {
        if self.row_stride == 0 || frames.is_empty() {
            return 0..0;
        }
        let (start, end) = (
            frames.start.saturating_sub(self.order.skip_frames),
            frames.end.saturating_sub(self.order.skip_frames),
        );
        let row = |row: u64| usize::try_from(row).unwrap_or(usize::MAX).min(self.scan.rows);
        let end = row(end.div_ceil(self.row_stride));
        row(start / self.row_stride).min(end)..end
    }

    /// Whether the beam goes through a row from its last column to its first.
    pub fn is_reversed(&self, scan_row: usize) -> bool {
        self.order.path == ScanPath::Snake && scan_row % 2 == 1
    }
}

impl From<ScanShape> for ScanGeometry {
    /// One frame a position, row by row. A shape whose positions cannot be counted needs `u64::MAX` frames.
    fn from(scan: ScanShape) -> Self {
        let order = FrameOrder::default();
        let cols = scan.cols as u64;
        Self::checked(scan, order).unwrap_or(Self {
            scan,
            order,
            row_frames: cols,
            row_stride: cols,
            num_frames: u64::MAX,
        })
    }
}

impl std::fmt::Display for ScanGeometry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_plain() {
            true => self.scan.fmt(f),
            false => write!(f, "{}, {}", self.scan, self.order),
        }
    }
}

#[cfg(test)]
mod tests;
