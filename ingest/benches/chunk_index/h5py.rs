//! h5py in a process of its own, asked again and again over its standard input.
//!
//! It uses `chunk_iter`, one pass over an index. Asking for chunks one by one takes h5py seconds for 1,000 images a file and many
//! minutes for all in one file.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Located;

const SCRIPT: &str = r#"
import sys, time
import h5py
for line in sys.stdin:
    master = line.rstrip("\n")
    start = time.perf_counter()
    infos = []
    with h5py.File(master) as h:
        group = h["entry/data"]
        for name in sorted(group):
            group[name].id.chunk_iter(infos.append)
    secs = time.perf_counter() - start
    print(secs, len(infos), sum(i.byte_offset for i in infos), sum(i.size for i in infos), flush=True)
"#;

/// The process; it ends when this is dropped.
pub struct H5py {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    master: String,
}

impl H5py {
    /// Starts the Python of `SIDEBAND_PYTHON`; None when it is not set.
    pub fn start(master: &Path) -> Option<Self> {
        let Some(python) = std::env::var_os("SIDEBAND_PYTHON") else {
            println!("h5py not run: SIDEBAND_PYTHON is not set");
            return None;
        };
        let mut child = Command::new(python)
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("SIDEBAND_PYTHON starts");
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Some(Self { child, questions, answers, master: master.display().to_string() })
    }

    /// Opens the set and finds every chunk; returns the seconds it took by its own clock and what it found.
    pub fn ask(&mut self) -> (f64, Located) {
        let questions = self.questions.as_mut().expect("asked before it ends");
        writeln!(questions, "{}", self.master).expect("h5py listens");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("h5py answers");
        let parts: Vec<&str> = answer.split_whitespace().collect();
        let [secs, count, offsets, bytes] = parts[..] else { panic!("h5py answers {answer:?}") };
        let whole = |text: &str| text.parse().expect("a whole number");
        (secs.parse().expect("seconds"), (whole(count), whole(offsets), whole(bytes)))
    }
}

impl Drop for H5py {
    fn drop(&mut self) {
        drop(self.questions.take());
        // Its input has ended, so that it ends; there is nothing to be done if it does not.
        let _ = self.child.wait();
    }
}
