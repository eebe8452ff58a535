//! What the tests of more than one crate share.

use std::io::Write;

pub mod npy;

/// Says why a test does not run, past the capture of the test harness, which hides what `println!` prints in a test
/// that passes.
pub fn not_run(why: &str) {
    let _ = writeln!(std::io::stderr(), "not run: {why}");
}
