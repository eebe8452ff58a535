//! Ctrl-C and its like at the built program: an end in good order, and at once when it comes twice.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ingest::filewriter::{Existing, FilewriterSet, FilewriterSettings, MasterMetadata};
use kernels::bslz4_decode::Encoding;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{CountType, DetectorShape, Kilovolts};

use super::program::{Array, TINY_OPTICS, code, result, run_tiny, simulated, stderr};

const SCAN: usize = 384;
const DETECTOR: DetectorShape = DetectorShape { rows: 192, cols: 192 };

/// An acquisition that takes one thread seconds to read: 384 x 384 positions, a disk of single counts, made once.
fn long_acquisition() -> &'static Path {
    static SET: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_dir, master) = SET.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let settings = FilewriterSettings {
            name: "long".to_owned(),
            detector: DETECTOR,
            count_type: CountType::U16,
            encoding: Encoding::Bslz4,
            images_per_file: 10_000,
            existing: Existing::Refuse,
            metadata: MasterMetadata { voltage: Kilovolts(200.0), ..MasterMetadata::default() },
        };
        let mut set = FilewriterSet::create(dir.path(), settings).unwrap();
        let frames: Vec<Vec<u8>> = (0..7).map(frame).collect();
        for at in 0..SCAN * SCAN {
            set.append_chunk(&frames[at % frames.len()]).unwrap();
        }
        let master = set.finish().unwrap().master;
        (dir, master)
    });
    master
}

/// A compressed frame: within 12 pixels of the middle, one pixel of seven has not counted.
fn frame(number: usize) -> Vec<u8> {
    let DetectorShape { rows, cols } = DETECTOR;
    let is_lit = |at: usize| {
        let from_middle = |place: usize, len: usize| place as f64 - (len as f64 - 1.0) / 2.0;
        from_middle(at / cols, rows).hypot(from_middle(at % cols, cols)) < 12.0 && at % 7 != number
    };
    let counts: Vec<u16> = (0..rows * cols).map(|at| u16::from(is_lit(at))).collect();
    let mut bytes = Vec::new();
    encode_bslz4(&counts, &mut bytes);
    bytes
}

/// A program at work, whose stderr is read line by line.
struct Running {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        Self::started(&mut Command::new(env!("CARGO_BIN_EXE_sideband")), args)
    }

    fn started(command: &mut Command, args: &[&str]) -> Self {
        // whoever runs the tests may ignore SIGHUP, as nohup does, and a child inherits it
        // SAFETY: between fork and exec nothing but signal(2), which may be called there.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        Self { child, stderr }
    }

    fn run(out: &Path) -> Self {
        Self::run_by(&mut Command::new(env!("CARGO_BIN_EXE_sideband")), out)
    }

    fn run_by(command: &mut Command, out: &Path) -> Self {
        let optics =
            ["--semi-angle-mrad=25", "--scan-step-nm=0.02", "--rotation-deg=0", "--scan-shape=384x384"];
        let place = ["run", long_acquisition().to_str().unwrap(), "--out", out.to_str().unwrap()];
        Self::started(command, &[&place[..], &optics, &["--threads=1"]].concat())
    }

    /// Waits until a line of stderr holds `words`.
    fn wait_for(&mut self, words: &str) {
        let mut said = String::new();
        let mut line = String::new();
        while self.stderr.read_line(&mut line).expect("text") > 0 {
            if line.contains(words) {
                return;
            }
            said.push_str(&std::mem::take(&mut line));
        }
        panic!("'{words}' was never said: {said}");
    }

    fn ctrl_c(&self) {
        self.signal(libc::SIGINT);
    }

    fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: the child has not been waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// Waits for the end: exit code and stdout.
    fn end(mut self) -> (i32, String) {
        let mut stdout = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut String::new()).unwrap();
        (self.child.wait().unwrap().code().expect("ended by itself"), stdout)
    }
}

#[test]
fn ctrl_c_in_the_middle_of_a_run_saves_what_has_come_and_names_it_partial() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Running::run(dir.path());
    run.wait_for("of 147456 frames");
    run.ctrl_c();
    let (code, stdout) = run.end();
    assert_eq!(code, 130, "{stdout}");
    let report = result(dir.path());
    assert_eq!((&report["status"], &report["interrupted"]), (&"partial".into(), &true.into()));
    let frames = &report["frames"];
    let number = |key: &str| frames[key].as_u64().unwrap();
    let (received, missing) = (number("received"), number("missing"));
    assert!(received > 0 && missing > 0 && received + missing == 147456, "{frames}");
    assert!(
        stdout.contains(&format!("PARTIAL, interrupted: {received} of 147456 frames, {missing} missing"))
    );
    let gap = &frames["gaps"][0];
    assert!(gap["reason"].as_str().unwrap().starts_with("interrupted by SIGINT (Ctrl-C)"), "{gap}");
    assert_eq!((gap["first"].as_u64(), gap["count"].as_u64()), (Some(received), Some(missing)), "{gap}");
    // Exactly the first frames are in the images.
    let lit = Array::read(&dir.path().join("frame_sum.npy")).u64();
    assert!(lit.iter().enumerate().all(|(at, &sum)| (sum > 0) == ((at as u64) < received)));
    assert!(dir.path().join("phase.png").is_file());
}

/// SIGTERM, what batch systems and service managers end a program with, once lost everything that had come.
#[test]
fn other_signals_that_ask_for_an_end_save_as_ctrl_c_does_and_may_come_twice() {
    for (signal, expected) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Running::run(dir.path());
        run.wait_for("of 147456 frames");
        run.signal(signal);
        run.wait_for("stopping in good order");
        run.signal(signal);
        let (code, stdout) = run.end();
        assert_eq!(code, expected, "{stdout}");
        let report = result(dir.path());
        assert_eq!((&report["status"], &report["interrupted"]), (&"partial".into(), &true.into()));
        let received = report["frames"]["received"].as_u64().unwrap();
        let name = if signal == libc::SIGTERM { "SIGTERM" } else { "SIGHUP" };
        let gap = &report["frames"]["gaps"][0];
        assert!(gap["reason"].as_str().unwrap().starts_with(&format!("interrupted by {name} ")), "{gap}");
        assert!(stdout.contains(&format!("PARTIAL, interrupted: {received} of 147456 frames")), "{stdout}");
        assert!(dir.path().join("phase.png").is_file());
    }
}

/// The terminal that sends SIGHUP is gone: what the run says at its end goes nowhere.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_takes_no_words_any_more_does_not_turn_an_interruption_into_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let mut deaf = Command::new("sh");
    deaf.args(["-c", r#"exec "$0" "$@" >/dev/full"#, env!("CARGO_BIN_EXE_sideband")]);
    let mut run = Running::run_by(&mut deaf, dir.path());
    run.wait_for("of 147456 frames");
    run.signal(libc::SIGHUP);
    assert_eq!(run.end().0, 129);
    assert_eq!(result(dir.path())["interrupted"], true);
}

#[test]
fn ctrl_c_after_a_sigterm_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Running::run(dir.path());
    run.wait_for("of 147456 frames");
    run.signal(libc::SIGTERM);
    run.wait_for("again Ctrl-C ends at once");
    run.ctrl_c();
    assert_eq!(run.end().0, 143);
    assert!(!dir.path().join("result.json").exists());
}

#[test]
fn a_terminal_that_goes_away_ends_no_run_under_nohup() {
    let dir = tempfile::tempdir().unwrap();
    let simulate = ["simulate", "--scan-shape=32x32", "--threads=1", "--out", dir.path().to_str().unwrap()];
    let mut simulation =
        Running::started(Command::new("nohup").arg(env!("CARGO_BIN_EXE_sideband")), &simulate);
    simulation.wait_for("of 1024 frames");
    simulation.signal(libc::SIGHUP);
    assert_eq!(simulation.end().0, 0);
}

#[test]
fn a_sigterm_ends_a_simulation_and_leaves_no_set() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new");
    let mut simulation =
        Running::start(&["simulate", "--out", out.to_str().unwrap(), "--scan-shape=1024x1024"]);
    simulation.wait_for("of 1048576 frames");
    simulation.signal(libc::SIGTERM);
    simulation.wait_for("interrupted after");
    assert_eq!(simulation.end(), (143, String::new()));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_leaves_nothing_that_looks_like_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Running::run(dir.path());
    run.wait_for("of 147456 frames");
    run.ctrl_c();
    run.wait_for("again Ctrl-C ends at once");
    run.ctrl_c();
    let asked = Instant::now();
    assert_eq!(run.end().0, 130);
    assert!(asked.elapsed() < Duration::from_secs(5));
    assert!(!dir.path().join("result.json").exists());
}

#[test]
fn ctrl_c_ends_a_simulation_and_leaves_no_set() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new/folder");
    let mut simulation =
        Running::start(&["simulate", "--out", out.to_str().unwrap(), "--scan-shape=1024x1024"]);
    simulation.wait_for("of 1048576 frames");
    simulation.ctrl_c();
    simulation.wait_for("interrupted after");
    let (code, stdout) = simulation.end();
    assert_eq!((code, stdout.as_str()), (130, ""));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn ctrl_c_during_the_simulation_of_a_demo_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = Running::start(&["demo", "--out", dir.path().to_str().unwrap()]);
    demo.wait_for("of 4096 frames");
    demo.ctrl_c();
    assert_eq!(demo.end().0, 130);
    assert!(!dir.path().join("result/result.json").exists());
}

#[test]
fn ctrl_c_of_a_run_into_a_complete_result_keeps_it_and_saves_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("result");
    std::fs::create_dir(&out).unwrap();
    let older = [
        ("result.json", r#"{"software": {"name": "sideband"}, "status": "complete"}"#),
        ("phase.npy", "older"),
    ];
    for (name, text) in older {
        std::fs::write(out.join(name), text).unwrap();
    }
    let mut run = Running::run(&out);
    run.wait_for("of 147456 frames");
    run.ctrl_c();
    run.wait_for("is kept, what had arrived is in");
    let (code, stdout) = run.end();
    assert_eq!(code, 130, "{stdout}");
    for (name, text) in older {
        assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), text, "{name}");
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 2);
    let beside = dir.path().join("result-partial");
    assert!(stdout.contains(beside.join("phase.png").to_str().unwrap()), "{stdout}");
    assert_eq!(result(&beside)["interrupted"], true);
}

/// Where no folder can be made beside the complete result, what had arrived was once lost, with exit code 1.
#[test]
fn ctrl_c_saves_into_a_complete_result_when_nothing_can_be_made_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("result");
    assert_eq!(code(&run_tiny(&simulated(dir.path()), &out, &[])), 0);
    let account = std::fs::read(out.join("result.json")).unwrap();
    std::fs::write(dir.path().join("result-partial"), "no folder").unwrap();
    let mut run = Running::run(&out);
    run.wait_for("of 147456 frames");
    run.signal(libc::SIGTERM);
    run.wait_for(&format!("what had arrived is in {}", out.join("partial").display()));
    assert_eq!(run.end().0, 143);
    assert_eq!(std::fs::read(out.join("result.json")).unwrap(), account);
    assert_eq!(result(&out.join("partial"))["interrupted"], true);
}

/// Two runs at once into one folder once left images of both, and each called its result complete.
#[test]
fn a_second_run_into_a_folder_is_refused_at_its_start_while_the_first_is_at_work() {
    let dir = tempfile::tempdir().unwrap();
    let (master, out) = (simulated(dir.path()), dir.path().join("result"));
    let mut first = Running::run(&out);
    first.wait_for("of 147456 frames");
    let second = run_tiny(&master, &out, &[]);
    assert_eq!(code(&second), 1);
    let said = format!("{}: another run is writing into this result folder", out.display());
    assert!(stderr(&second).contains(&said), "{}", stderr(&second));
    assert!(!stderr(&second).contains("of 16 frames"));
    first.signal(libc::SIGKILL);
    first.stderr.read_to_string(&mut String::new()).unwrap();
    assert_eq!(first.child.wait().unwrap().code(), None);
    assert_eq!(code(&run_tiny(&master, &out, &[])), 0);
    assert!(!out.join(".sideband.lock").exists());
}

#[test]
fn a_run_that_is_stopped_before_its_first_frame_leaves_no_folder() {
    use clap::Parser;
    use deploy::cli::{Cli, Command};

    let dir = tempfile::tempdir().unwrap();
    let master = simulated(dir.path());
    let out = dir.path().join("new/result");
    let place = ["sideband", "run", &master, "--out", out.to_str().unwrap(), "--quiet"];
    let Command::Run(args) = Cli::parse_from([&place[..], &TINY_OPTICS].concat()).command else { panic!() };
    let stop = deploy::request::StopFlag::default();
    stop.raise();
    let refused = deploy::pipeline::run(args.request(stop).unwrap()).unwrap_err();
    assert!(refused.is::<deploy::request::Interrupted>(), "{refused:#}");
    assert!(!dir.path().join("new").exists());
}
