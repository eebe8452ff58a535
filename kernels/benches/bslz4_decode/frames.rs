//! Poisson counts in a disk, as a bright field looks.

use kernels::types::{Count, CountType};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::poisson::poisson;

/// Frames of a case.
pub const FRAMES: usize = 128;
/// Mean count of a pixel outside the disk.
const OUTSIDE: f64 = 1e-3;

/// One kind of frame.
#[derive(Clone, Copy)]
pub struct Case {
    /// Type of the counts.
    pub count_type: CountType,
    /// Rows and columns of the detector.
    side: usize,
    /// Radius of the disk, in pixels.
    radius_px: f64,
    /// Mean count of a pixel in the disk.
    inside: f64,
}

const fn case(count_type: CountType, side: usize, radius_px: f64, inside: f64) -> Case {
    Case { count_type, side, radius_px, inside }
}

/// The frames of an ARINA, from few electrons to many, and the other types and sizes it delivers.
pub const CASES: [Case; 9] = [
    case(CountType::U16, 192, 50.0, 0.05),
    case(CountType::U16, 192, 50.0, 1.0),
    case(CountType::U16, 192, 50.0, 10.0),
    case(CountType::U8, 192, 50.0, 0.05),
    case(CountType::U8, 192, 50.0, 1.0),
    case(CountType::U32, 192, 50.0, 0.05),
    case(CountType::U32, 192, 50.0, 1.0),
    case(CountType::U16, 96, 25.0, 0.05),
    case(CountType::U16, 96, 25.0, 1.0),
];

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { count_type, side, inside, .. } = self;
        write!(f, "{side}x{side} {count_type}, {inside} counts a pixel in the disk")
    }
}

impl Case {
    /// Counts of a frame.
    pub fn pixels(&self) -> usize {
        self.side * self.side
    }

    /// `FRAMES` frames, the same in every run.
    pub fn counts<T: Count>(&self) -> Vec<T> {
        let mut random = Pcg64::seed_from_u64(0x5eed);
        let mut counts = Vec::with_capacity(FRAMES * self.pixels());
        for _ in 0..FRAMES {
            for row in 0..self.side {
                for col in 0..self.side {
                    let from_centre = |at: usize| at as f64 + 0.5 - self.side as f64 / 2.0;
                    let inside = from_centre(row).hypot(from_centre(col)) <= self.radius_px;
                    let count = poisson(if inside { self.inside } else { OUTSIDE }, &mut random);
                    counts.push(T::try_from(count).unwrap_or_default());
                }
            }
        }
        counts
    }
}
