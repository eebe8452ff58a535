//! The models a segment of pixels can have, and their code bytes.

use super::tables::{DENSE_TABLES, SPARSE_TABLES, WIDE_TABLES};

/// How a segment, a run of pixels of one group, is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// No counts at all.
    Zero,
    /// Every count is this one.
    Constant(u32),
    /// Counts as they are.
    Literal,
    /// Counts about `centre`, in cells of `2^shift`, wide table `table`.
    Wide {
        /// The centre of the distribution.
        centre: u32,
        /// log2 of the counts in a cell, below 32.
        shift: u32,
        /// Index of the table.
        table: usize,
    },
    /// Runs of zeros and counts, sparse table of this index.
    Sparse(usize),
    /// Every count by the dense table of this index.
    Dense(usize),
}

const ZERO: u8 = 0;
const CONSTANT: u8 = 1;
const LITERAL: u8 = 2;
const WIDE: u8 = 3;
const SPARSE: u8 = 4;
const DENSE: u8 = SPARSE + SPARSE_TABLES as u8;

impl Model {
    /// Code byte, below 0x7f.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Zero => ZERO,
            Self::Constant(_) => CONSTANT,
            Self::Literal => LITERAL,
            Self::Wide { .. } => WIDE,
            Self::Sparse(index) => SPARSE + index as u8,
            Self::Dense(index) => DENSE + index as u8,
        }
    }

    /// Writes the bytes that follow code and pixel count.
    pub(crate) fn write_parameters(self, count_bytes: usize, out: &mut Vec<u8>) {
        match self {
            Self::Constant(value) => out.extend_from_slice(&value.to_le_bytes()[..count_bytes]),
            Self::Wide { centre, shift, table } => {
                out.extend_from_slice(&centre.to_le_bytes());
                out.push(shift as u8 | (table as u8) << 5);
            }
            _ => {}
        }
    }

    /// Reads the model with this code, taking its parameters off the front of `bytes`; `None` where there is no
    /// such model or a parameter is missing or out of range.
    pub(crate) fn read(code: u8, count_bytes: usize, bytes: &mut &[u8]) -> Option<Self> {
        Some(match code {
            ZERO => Self::Zero,
            CONSTANT => Self::Constant(read_u32(bytes, count_bytes)?),
            LITERAL => Self::Literal,
            WIDE => {
                let centre = read_u32(bytes, 4)?;
                let packed = read_u32(bytes, 1)?;
                let table = (packed >> 5) as usize;
                if table >= WIDE_TABLES {
                    return None;
                }
                Self::Wide { centre, shift: packed & 31, table }
            }
            code if code < DENSE => Self::Sparse(usize::from(code - SPARSE)),
            code if usize::from(code - DENSE) < DENSE_TABLES => Self::Dense(usize::from(code - DENSE)),
            _ => return None,
        })
    }
}

/// Takes a little-endian number of `num_bytes` (at most 4) off the front.
fn read_u32(bytes: &mut &[u8], num_bytes: usize) -> Option<u32> {
    let (number, rest) = bytes.split_at_checked(num_bytes)?;
    *bytes = rest;
    Some(number.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_reads_back_as_it_was_written() {
        let models = [
            Model::Zero,
            Model::Constant(65535),
            Model::Literal,
            Model::Wide { centre: 7_000_000, shift: 31, table: 3 },
            Model::Sparse(0),
            Model::Sparse(SPARSE_TABLES - 1),
            Model::Dense(0),
            Model::Dense(DENSE_TABLES - 1),
        ];
        for model in models {
            let mut bytes = Vec::new();
            model.write_parameters(2, &mut bytes);
            let mut rest = bytes.as_slice();
            assert!(model.code() < super::super::TWO_STATES);
            assert_eq!(Model::read(model.code(), 2, &mut rest), Some(model));
            assert!(rest.is_empty());
            if !bytes.is_empty() {
                assert_eq!(Model::read(model.code(), 2, &mut &bytes[1..]), None);
            }
        }
        assert_eq!(Model::read(0x7e, 2, &mut &[0; 8][..]), None);
    }
}
