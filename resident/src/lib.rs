//! The encoded acquisition: filled block by block while it is measured, asked at any time.
//!
//! In: [`encoder::Block`]s and gaps, in any order. Out: [`Snapshot`]s that answer questions exactly, and the
//! [`Signal`]s that start a reconstruction.
//!
//! Read [`Resident::append`] first, then [`Snapshot::mask_sum`]. A block that fills slowly can be looked at before it is
//! whole: [`Resident::show`].
//!
//! ```
//! use kernels::types::{CountType, DetectorShape, ScanShape};
//! use resident::{Budget, Missing, Resident};
//!
//! let scan = ScanShape { rows: 4, cols: 8 };
//! let detector = DetectorShape { rows: 16, cols: 16 };
//! let resident = Resident::new(scan, detector, CountType::U16, Budget::mib(64))?;
//! let snapshot = resident.snapshot(); // nothing has arrived
//!
//! // the caller decides what missing positions mean
//! let mask = vec![true; detector.pixels()];
//! assert!(snapshot.mask_sum(&mask, snapshot.positions(), Missing::Fail).is_err());
//! let image = snapshot.mask_sum(&mask, snapshot.positions(), Missing::Report)?;
//! assert_eq!(image.coverage.num_missing(), 32);
//! # Ok::<(), resident::ResidentError>(())
//! ```
//!
//! # What a question costs
//! | question | reads |
//! |---|---|
//! | [`frame_sums`](Snapshot::frame_sums), [`com`](Snapshot::com) and [`moments`](Snapshot::moments) without exclusion | sums kept by position |
//! | [`detector_total`](Snapshot::detector_total), [`marker_hits`](Snapshot::marker_hits), [`mean_pattern`](Snapshot::mean_pattern) | running totals |
//! | [`mask_sum`](Snapshot::mask_sum), [`weighted_sum`](Snapshot::weighted_sum), [`weighted_sum_f64`](Snapshot::weighted_sum_f64) | tiles of one weight, the pixels at the mask's edge |
//! | [`com`](Snapshot::com) and [`moments`](Snapshot::moments) with exclusion | the excluded pixels, or the others |
//! | [`roi_sum`](Snapshot::roi_sum) | the blocks the region's edge runs through |
//! | [`pixel_images`](Snapshot::pixel_images) | the groups of the pixels asked for |
//! | [`over_scan`](Snapshot::over_scan): the same by place in the image | as above; what belongs to no position is decoded once |
//! | [`region`](Snapshot::region), [`frame`](Snapshot::frame) | the groups of the crop, over the blocks touched |

mod budget;
mod coverage;
mod error;
mod plan;
pub mod query;
mod resident;
mod snapshot;
mod stage;
#[cfg(test)]
mod tests;
mod trigger;

pub use budget::Budget;
pub use coverage::{Answer, Coverage, Missing};
pub use error::ResidentError;
pub use query::{CentreOfMass, MaskImages, Moments, OverScan, Roi};
pub use resident::{Arrival, Resident, RowArrival, Totals};
pub use snapshot::Snapshot;
pub use stage::{AppendStage, Event};
pub use trigger::{Basis, GEOMETRY_FRAMES, Signal, Trigger};
