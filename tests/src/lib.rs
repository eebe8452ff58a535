//! What the tests of more than one crate share.

pub mod npy;
