//! The shared words: units, shapes, counts, optics, and what travels between stages.

mod counts;
mod frames;
mod item;
mod optics;
mod scan_geometry;
mod shapes;
mod units;

pub use counts::{Count, CountType};
pub use frames::{CountBuffer, FrameBatch, IntoCountBuffer};
pub use item::{Gap, GapReason, Item};
pub use optics::{ABERRATIONS, Aberration, Aberrations, Optics, UnknownAberration, electron_wavelength};
pub use scan_geometry::{FrameOrder, GeometryError, ScanGeometry, ScanPath};
pub use shapes::{BatchShape, DetectorShape, ScanShape};
pub use units::{Degrees, Kilovolts, Metres, Milliradians, Nanometres, Pixels, Radians};
