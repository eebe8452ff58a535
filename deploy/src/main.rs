//! The `sideband` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A file that grows beyond `ulimit -f` is an error of the write that is said, not a silent end.
    // SAFETY: no other thread runs yet, and a signal that is ignored calls nothing.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    deploy::cli::main()
}
