//! Shapes, always (rows, cols), row-major. Scan and detector never share a type.

use serde::{Deserialize, Serialize};

/// Scan positions, row-major; the fast scan axis is the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScanShape {
    /// Scan lines.
    pub rows: usize,
    /// Positions in a scan line.
    pub cols: usize,
}

impl ScanShape {
    /// Number of scan positions; `usize::MAX` where the product overflows.
    pub fn positions(self) -> usize {
        self.rows.saturating_mul(self.cols)
    }
}

impl std::fmt::Display for ScanShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.rows, self.cols)
    }
}

impl std::str::FromStr for ScanShape {
    type Err = String;

    /// Reads `ROWSxCOLS`, for example `256x256`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once(['x', 'X'])
            .and_then(|(rows, cols)| Some((rows.trim().parse().ok()?, cols.trim().parse().ok()?)));
        match parsed {
            Some((rows, cols)) if rows > 0 && cols > 0 => Ok(Self { rows, cols }),
            _ => Err(format!("got scan shape '{text}', expected ROWSxCOLS such as 256x256")),
        }
    }
}

/// Detector pixels, row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DetectorShape {
    /// Detector rows (the slow axis of a frame, y).
    pub rows: usize,
    /// Detector columns (the fast axis of a frame, x).
    pub cols: usize,
}

impl DetectorShape {
    /// Number of detector pixels; `usize::MAX` where the product overflows.
    pub fn pixels(self) -> usize {
        self.rows.saturating_mul(self.cols)
    }
}

impl std::fmt::Display for DetectorShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.rows, self.cols)
    }
}

/// A batch of frames, `[frames][rows][cols]`, row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchShape {
    /// Number of frames.
    pub frames: usize,
    /// Shape of each frame.
    pub detector: DetectorShape,
}

impl BatchShape {
    /// Number of counts in the batch; `usize::MAX` where the product overflows.
    pub fn counts(self) -> usize {
        self.frames.saturating_mul(self.detector.pixels())
    }
}
