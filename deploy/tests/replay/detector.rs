//! The program, running.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A detector that is ended when it goes out of use.
pub(crate) struct Detector {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// `HOST:PORT` of the stream.
    pub(crate) stream: String,
}

impl Detector {
    /// Starts to replay a set on ports that the system chooses.
    pub(crate) fn start(master: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sideband"))
            .arg("replay")
            .arg(master)
            .args(["--stream-port=0", "--api-port=0"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let stream = after(&mut lines, "stream tcp://");
        Self { child, lines, stream }
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits until it ends by itself; its exit code.
    pub(crate) fn ends(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Detector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The word behind `start` in the next line.
fn after(lines: &mut impl BufRead, start: &str) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let rest = line.strip_prefix(start).unwrap_or_else(|| panic!("got {line:?}, expected {start}"));
    rest.split_whitespace().next().unwrap().to_owned()
}

/// The master of the golden acquisition.
pub(crate) fn golden() -> Option<PathBuf> {
    match std::env::var_os("SIDEBAND_GOLDENS") {
        Some(data) => Some(Path::new(&data).join("sto-small/sto-small_master.h5")),
        None => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "not run: SIDEBAND_GOLDENS is not set");
            None
        }
    }
}
