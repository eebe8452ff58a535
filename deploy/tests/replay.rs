//! `sideband replay` through the built program: what it sends is read back by the product's own receiver.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

#[path = "replay/channels.rs"]
mod channels;
#[path = "replay/detector.rs"]
mod detector;
#[path = "replay/endurance.rs"]
mod endurance;
#[path = "replay/exports.rs"]
mod exports;
#[path = "replay/faults.rs"]
mod faults;
#[path = "replay/peers.rs"]
mod peers;
#[path = "replay/reader.rs"]
mod reader;
#[path = "replay/recordings.rs"]
mod recordings;
#[path = "replay/simplon.rs"]
mod simplon;
#[path = "replay/simulated.rs"]
mod simulated;
#[path = "replay/streams.rs"]
mod streams;
