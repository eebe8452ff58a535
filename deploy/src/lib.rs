//! sideband as a library: from an acquisition on disk to a phase image with everything said about it.
//!
//! In: a DECTRIS master file and what is known of the microscope. Out: images (`.npy`, `.tiff`, `.png`) and
//! `result.json`. Read [`request::RunRequest`] (what a run is asked) and [`optics::resolve`] (where every
//! parameter comes from) first.

pub mod cli;
pub mod config;
pub mod demo;
pub mod device;
pub mod doctor;
pub mod inspect;
pub mod open;
pub mod optics;
pub mod output;
pub mod pipeline;
pub mod progress;
pub mod replay;
pub mod report;
pub mod request;
pub mod rings;
mod room;
pub mod serve;
pub mod simplon;
pub mod simulate;
