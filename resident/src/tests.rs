//! The resident against plain loops over the dense counts.

mod append;
mod dense;
mod direct;
mod random;
mod stage;
