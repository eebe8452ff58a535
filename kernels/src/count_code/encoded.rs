//! The encoded counts of one interval.

use super::{Coverage, Directory, SPAN_GROUPS, num_groups};
use crate::types::{CountType, DetectorShape};

/// The counts of one interval of scan positions, every detector pixel, encoded.
///
/// Positions that are not covered are not in the streams at all; decoding writes 0 there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedCounts {
    detector: DetectorShape,
    count_type: CountType,
    coverage: Coverage,
    directory: Directory,
    payload: Vec<u8>,
}

/// Encoded counts whose parts do not fit together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodedError {
    /// The directory is not that of the detector.
    #[error("the directory has {got} groups in {got_spans} spans, a detector of {detector} has {expected}")]
    Groups {
        /// Groups in the directory.
        got: usize,
        /// Spans in the directory.
        got_spans: usize,
        /// The detector.
        detector: DetectorShape,
        /// Groups of the detector.
        expected: usize,
    },
    /// The bytes of a group are not one after the other inside the payload.
    #[error("group {group}: bytes {got}, expected from byte {expected_start} within {payload_bytes} bytes")]
    Range {
        /// The group.
        group: usize,
        /// What the directory says.
        got: String,
        /// Where the group before ends.
        expected_start: usize,
        /// Length of the payload.
        payload_bytes: usize,
    },
}

impl EncodedCounts {
    /// Joins parts that were read from outside, after checking that every group lies inside the payload, one after
    /// the other. The streams themselves are checked when they are decoded.
    ///
    /// # Errors
    /// [`EncodedError`] names the part that does not fit.
    pub fn from_parts(
        detector: DetectorShape,
        count_type: CountType,
        coverage: Coverage,
        directory: Directory,
        payload: Vec<u8>,
    ) -> Result<Self, EncodedError> {
        let expected = num_groups(detector.pixels());
        let (got, got_spans) = (directory.groups(), directory.bases().len());
        if got != expected || got_spans != expected.div_ceil(SPAN_GROUPS) {
            return Err(EncodedError::Groups { got, got_spans, detector, expected });
        }
        let mut start = 0;
        for group in 0..expected {
            match directory.range(group) {
                Some(range) if range.start == start && range.end <= payload.len() => start = range.end,
                range => {
                    return Err(EncodedError::Range {
                        group,
                        got: format!("{range:?}"),
                        expected_start: start,
                        payload_bytes: payload.len(),
                    });
                }
            }
        }
        Ok(Self { detector, count_type, coverage, directory, payload })
    }

    /// The detector's shape.
    pub fn detector(&self) -> DetectorShape {
        self.detector
    }

    /// The type the detector delivered the counts in.
    pub fn count_type(&self) -> CountType {
        self.count_type
    }

    /// Which positions of the interval are there.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Scan positions of the interval, there or not.
    pub fn positions(&self) -> usize {
        self.coverage.positions()
    }

    /// The byte ranges of the groups.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The bytes of all groups.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The bytes of one group; `None` when there is no such group.
    pub fn group(&self, group: usize) -> Option<&[u8]> {
        self.payload.get(self.directory.range(group)?)
    }

    /// Bytes of payload and directory together: all that is needed to decode.
    pub fn bytes(&self) -> usize {
        self.payload.len() + self.directory.bytes()
    }
}
