//! The `sideband` command.
fn main() {}
