//! The `sideband` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    deploy::cli::main()
}
