//! The detector's stream: SIMPLON stream v1 (JSON and blobs) and v2 (CBOR) over ZeroMQ.
//!
//! [`zmtp`] takes messages off the wire, [`parse`](message::parse) tells what they are. Which of the two versions a
//! message is of is seen by its bytes.

pub mod compose;
pub mod message;
pub mod push;
pub mod receive;
pub mod series;
pub mod slab;
pub mod source;
mod v1;
mod v2;
pub mod zmtp;
