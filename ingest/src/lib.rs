//! placeholder

pub mod filewriter;
