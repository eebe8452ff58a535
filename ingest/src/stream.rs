//! The detector's stream: SIMPLON stream v1 (JSON and blobs) and v2 (CBOR) over ZeroMQ.
//!
//! In: `HOST:PORT` of the detector control unit. Out: series after series, each as [`RawBatch`](crate::raw::RawBatch)es and
//! gaps, in order. [`receive::ReceiveStage`] takes bytes off the wire into slabs ([`zmtp`] knows the protocol);
//! [`source::StreamSource`] reads messages ([`message::parse`] tells by their bytes which version they are of), [`kind::Kinds`]
//! finds out what the frames of a series are like, [`over`] which messages are of a series that is over, and [`series::SeriesReader`]
//! puts the frames of one series in order. [`push`] and [`compose`] are the other end, for replaying.

pub mod compose;
pub mod kind;
pub mod message;
pub mod over;
pub mod push;
pub mod receive;
pub mod series;
pub mod slab;
pub mod source;
pub mod threshold;
mod v1;
pub(crate) mod v2;
pub mod zmtp;
