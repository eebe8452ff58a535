//! Sources of frames: DECTRIS files, in order, decoded, losses as data.
//!
//! In: a master file. Out: [`kernels::types::FrameBatch`]es of counts, strictly rising in frame number, with a
//! [`kernels::types::Gap`] wherever frames are missing or damaged. Three stages, each a struct with one `run`:
//! [`source::FileSource`] fetches compressed frames with read-ahead, [`sequence::SequenceStage`] turns losses and doubles into
//! data, [`decode::DecodeStage`] decodes on the device.

pub mod calendar;
pub mod counters;
pub mod decode;
pub mod dectris;
mod error;
pub mod filewriter;
pub mod hdf5;
mod identity;
pub mod raw;
pub mod record;
pub mod sequence;
pub mod source;
pub mod stream;

pub use error::IngestError;
pub use identity::{FileIdentity, open_regular, read_small_file};
