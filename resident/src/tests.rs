//! The resident against plain loops over the dense counts.

mod append;
mod dense;
mod direct;
mod over_scan;
mod random;
mod rings;
mod show;
mod stage;
