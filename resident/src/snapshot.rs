//! What has arrived by one moment, for any thread and for as long as anyone keeps it.

use std::ops::Range;
use std::sync::Arc;

use encoder::{Block, INTERVAL};
use kernels::types::{CountType, DetectorShape, ScanGeometry, ScanShape};

use crate::coverage::{Coverage, PositionSet};
use crate::error::ResidentError;
use crate::query::SetAside;
use crate::resident::Totals;

/// An acquisition as it stood at one moment: immutable, cheap to clone, usable from any thread.
///
/// The queries are in [`crate::query`]. They are asked by frame: a position is the number of a frame, from 0, in the order
/// of acquisition. Of a plain scan that is its place in the image, row by row; of any other, [`Snapshot::over_scan`]
/// answers by place. Detector pixels are row-major.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) state: Arc<State>,
}

/// Everything a snapshot shares. The writer makes the next one from a copy; blocks and totals are shared pointers.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) geometry: ScanGeometry,
    /// Frames that there is room for; at least those that the geometry needs.
    pub(crate) num_frames: u64,
    pub(crate) detector: DetectorShape,
    pub(crate) count_type: CountType,
    /// By interval.
    pub(crate) blocks: Vec<Option<Arc<Block>>>,
    pub(crate) covered: PositionSet,
    pub(crate) detector_total: Arc<Vec<u64>>,
    pub(crate) marker_hits: Arc<Vec<u64>>,
    pub(crate) totals: Totals,
    /// What is known of the frames that belong to no position.
    pub(crate) set_aside: Arc<SetAside>,
}

impl State {
    /// Frames, those that have not come among them.
    pub(crate) fn positions(&self) -> u64 {
        self.num_frames
    }

    /// Scan positions of an interval; shorter at the end of the scan.
    pub(crate) fn interval(&self, index: usize) -> Range<u64> {
        let first = index as u64 * INTERVAL as u64;
        first..(first + INTERVAL as u64).min(self.positions())
    }

    /// The interval a block is for, when it may be added.
    ///
    /// # Errors
    /// [`ResidentError`] says what does not fit.
    pub(crate) fn check_block(&self, block: &Block) -> Result<usize, ResidentError> {
        let first = block.first();
        let end = first.saturating_add(block.positions() as u64);
        if !first.is_multiple_of(INTERVAL as u64) {
            return Err(ResidentError::Unaligned { first, interval: INTERVAL });
        }
        if block.detector() != self.detector {
            return Err(ResidentError::WrongDetector {
                first,
                got: block.detector(),
                expected: self.detector,
            });
        }
        if block.count_type() != self.count_type {
            return Err(ResidentError::WrongCountType {
                first,
                got: block.count_type(),
                expected: self.count_type,
            });
        }
        let beyond = || ResidentError::BeyondScan { first, end, positions: self.positions() };
        let index = usize::try_from(first / INTERVAL as u64).map_err(|_| beyond())?;
        let held = self.blocks.get(index).ok_or_else(beyond)?;
        if end > self.interval(index).end {
            return Err(beyond());
        }
        match held {
            Some(_) => Err(ResidentError::AlreadyHeld { first }),
            None => Ok(index),
        }
    }

    /// Adds a block that [`Self::check_block`] let pass.
    pub(crate) fn add(&mut self, index: usize, block: Arc<Block>, bytes: u64) {
        self.covered.insert_words(block.first(), block.coverage().words());
        let totals = Arc::make_mut(&mut self.detector_total);
        block.pixel_sums().for_each(|pixel, sum| {
            if let Some(total) = totals.get_mut(pixel) {
                *total += sum;
            }
        });
        if !block.pixel_sums().marked().is_empty() {
            let hits = Arc::make_mut(&mut self.marker_hits);
            for marked in block.pixel_sums().marked() {
                if let Some(all) = hits.get_mut(marked.pixel as usize) {
                    *all += u64::from(marked.hits);
                }
            }
        }
        self.totals.frames += block.coverage().count() as u64;
        self.totals.held_bytes += bytes;
        if let Some(slot) = self.blocks.get_mut(index) {
            *slot = Some(block);
        }
    }
}

impl Snapshot {
    /// Shape of the scan.
    pub fn scan(&self) -> ScanShape {
        self.state.geometry.scan()
    }

    /// Which frames are which positions of the scan.
    pub fn geometry(&self) -> ScanGeometry {
        self.state.geometry
    }

    /// The same frames as the positions of another scan. Nothing is copied but pointers.
    ///
    /// # Errors
    /// [`ResidentError::TooFewFrames`] when the geometry needs more frames than there is room for.
    pub fn with_geometry(&self, geometry: ScanGeometry) -> Result<Self, ResidentError> {
        check_geometry(&geometry, self.state.num_frames)?;
        let state = State { geometry, set_aside: Arc::default(), ..State::clone(&self.state) };
        Ok(Self { state: Arc::new(state) })
    }

    /// Shape of the detector.
    pub fn detector(&self) -> DetectorShape {
        self.state.detector
    }

    /// The type the detector delivered the counts in.
    pub fn count_type(&self) -> CountType {
        self.state.count_type
    }

    /// All frames: the range to ask for when everything is wanted.
    pub fn positions(&self) -> Range<u64> {
        0..self.state.positions()
    }

    /// The frames of a scan row's positions.
    pub fn row(&self, scan_row: usize) -> Range<u64> {
        self.state.geometry.frames_of_row(scan_row)
    }

    /// Frames, missing frames and bytes.
    pub fn totals(&self) -> Totals {
        self.state.totals
    }

    /// Which scan positions of a range have a frame.
    ///
    /// # Errors
    /// [`ResidentError::OutsideScan`].
    pub fn coverage(&self, positions: Range<u64>) -> Result<Coverage, ResidentError> {
        self.check_positions(&positions)?;
        Ok(self.state.covered.coverage_of_range(positions))
    }

    /// The blocks held, ascending; one that is still filling is among them as far as it is shown.
    pub fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.state.blocks.iter().flatten()
    }

    pub(crate) fn check_positions(&self, positions: &Range<u64>) -> Result<(), ResidentError> {
        if positions.start <= positions.end && positions.end <= self.state.positions() {
            return Ok(());
        }
        Err(ResidentError::OutsideScan { got: positions.clone(), positions: self.state.positions() })
    }
}

/// Refuses a geometry that needs more frames than there are.
///
/// # Errors
/// [`ResidentError::TooFewFrames`].
pub(crate) fn check_geometry(geometry: &ScanGeometry, num_frames: u64) -> Result<(), ResidentError> {
    if geometry.num_frames() <= num_frames {
        return Ok(());
    }
    Err(ResidentError::TooFewFrames { geometry: *geometry, frames: num_frames })
}
