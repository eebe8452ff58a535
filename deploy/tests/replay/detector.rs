//! The program, running.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A detector that is ended when it goes out of use.
pub(crate) struct Detector {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// `HOST:PORT` of the stream.
    pub(crate) stream: String,
    /// `HOST:PORT` of the REST interface.
    pub(crate) api: String,
}

impl Detector {
    /// Starts to replay a set on ports that the system chooses.
    pub(crate) fn start(master: &Path, args: &[&str]) -> Self {
        Self::started(master, args, Stdio::inherit())
    }

    /// The same, where somebody wants to hear what it says when it ends: see [`Self::terminated`].
    pub(crate) fn start_heard(master: &Path, args: &[&str]) -> Self {
        Self::started(master, args, Stdio::piped())
    }

    fn started(master: &Path, args: &[&str], stderr: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sideband"))
            .arg("replay")
            .arg(master)
            .args(["--stream-port=0", "--api-port=0"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let stream = after(&mut lines, "stream tcp://");
        let api = after(&mut lines, "api http://");
        Self { child, lines, stream, api }
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Asks the REST interface. Returns the code and the body.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.api).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}");
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let code = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
        (code, answer.split_off(end + 4))
    }

    /// What a GET is answered with.
    pub(crate) fn get(&self, path: &str) -> serde_json::Value {
        let (code, body) = self.ask("GET", path, "");
        assert_eq!(code, 200, "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// The code that a PUT of a value is answered with, and the answer.
    pub(crate) fn put(&self, path: &str, value: serde_json::Value) -> (u16, serde_json::Value) {
        let (code, body) = self.ask("PUT", path, &serde_json::json!({ "value": value }).to_string());
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Ends it by SIGTERM: its exit code, and what it said on stderr.
    pub(crate) fn terminated(mut self) -> (i32, String) {
        // SAFETY: the child has not been waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(i32::try_from(self.child.id()).unwrap(), libc::SIGTERM) }, 0);
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code().unwrap(), said)
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
