//! The daemon through the built program: a detector sends, pages are asked for meanwhile, folders are looked at.

#[path = "serve/again.rs"]
mod again;
#[path = "serve/api.rs"]
mod api;
#[path = "serve/choices.rs"]
mod choices;
#[path = "serve/events.rs"]
mod events;
#[path = "serve/log.rs"]
mod log;
#[path = "serve/mask.rs"]
mod mask;
#[path = "serve/slow.rs"]
mod slow;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use ingest::dectris::FileSet;
use ingest::raw::RawBatch;
use ingest::source::FileSource;
use ingest::stream::compose::{SeriesFacts, Version};
use ingest::stream::push::{PushSocket, Sent};
use kernels::types::Item;
use serde_json::Value;

use super::program::result;
use super::run::{demo, run_demo, true_optics};

/// A detector that sends the demonstration's frames.
pub(crate) struct Detector {
    pub(crate) socket: PushSocket,
    pub(crate) batches: Vec<RawBatch>,
    pub(crate) facts: SeriesFacts,
}

impl Detector {
    pub(crate) fn new() -> Self {
        let set = FileSet::open(&demo().join("acquisition/simulated_master.h5")).unwrap();
        let (raw, raw_in) = bounded(10_000);
        FileSource::new(set.runs(), 1, Arc::new(AtomicBool::new(false))).run(raw);
        let batch = |item| match item {
            Item::Data(batch) => batch,
            Item::Gap(gap) => panic!("{gap:?}"),
        };
        let batches: Vec<RawBatch> = raw_in.iter().map(batch).collect();
        let facts = SeriesFacts {
            id: 41,
            unique_id: "01KB0000000000000000000041".to_owned(),
            num_images: set.frames_expected,
            detector: set.detector,
            count_type: set.count_type,
            encoding: batches[0].encoding,
            incident_energy_ev: set.metadata.voltage().unwrap().0 * 1e3,
            frame_time_s: 50e-6,
        };
        let socket = PushSocket::bind("127.0.0.1:0", Duration::from_secs(20)).unwrap();
        Self { socket, batches, facts }
    }

    pub(crate) fn wait_for_reader(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.socket.num_readers() == 0 {
            assert!(Instant::now() < until, "nobody listens");
            self.socket.accept();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends the frames of a range that `keep` lets through.
    fn send(&mut self, version: Version, frames: std::ops::Range<u64>, keep: impl Fn(u64) -> bool) {
        let numbered = self.batches.iter().flat_map(|batch| (batch.first..).zip(batch.frames()));
        for (number, bytes) in numbered.filter(|(number, _)| frames.contains(number) && keep(*number)) {
            assert_eq!(self.socket.send(&self.facts.image(version, number, bytes)), Sent::Yes);
        }
    }

    /// Sends every frame from a number on, and the end.
    fn rest(&mut self, version: Version, from: u64) {
        self.send(version, from..4096, |_| true);
        self.socket.send(&self.facts.end(version));
    }

    /// The same to a daemon that then says that the series is complete.
    fn complete(&mut self, version: Version, from: u64, daemon: &mut Daemon) {
        self.rest(version, from);
        assert!(daemon.next_line().contains(": receiving 4096 frames"));
        let line = daemon.next_line();
        assert!(line.contains("complete: 4096 of 4096 frames"), "{line}");
    }
}

/// A daemon at work.
pub(crate) struct Daemon {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    page: String,
}

impl Daemon {
    pub(crate) fn start(detector: &Detector, out: &Path, more: &[&str]) -> Self {
        let mut optics = true_optics(-12.5);
        optics.push(format!("--voltage-kv={}", voltage_kv()));
        Self::start_with(detector, out, &optics, more)
    }

    /// With these flags of the microscope.
    fn start_with(detector: &Detector, out: &Path, optics: &[String], more: &[&str]) -> Self {
        Self::listening(&detector.socket.address().unwrap().to_string(), out, optics, more)
    }

    /// Of whatever sends at an address.
    fn listening(address: &str, out: &Path, optics: &[String], more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sideband"))
            .args(["serve", "--stream", address, "--listen", "127.0.0.1:0", "--out"])
            .arg(out)
            .args(optics)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        if more.contains(&"--record") {
            assert!(lines.next().unwrap().unwrap().starts_with("log "));
        }
        assert_eq!(lines.next().unwrap().unwrap(), format!("stream tcp://{address}"));
        let page = lines.next().unwrap().unwrap();
        let page = page.strip_prefix("page http://").unwrap().trim_end_matches('/').to_owned();
        Self { child, lines, page }
    }

    pub(crate) fn next_line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// The status code and the body of a request.
    fn ask(&self, method: &str, path: &str, heads: &str, body: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.page).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let host = &self.page;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{heads}\r\n{body}"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        (code, answer[end + 4..].to_vec())
    }

    fn get(&self, path: &str) -> Vec<u8> {
        let (code, body) = self.ask("GET", path, "", "");
        assert_eq!(code, 200, "{path}: {}", String::from_utf8_lossy(&body));
        body
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.get(path)).unwrap()
    }

    /// The status once it is so.
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let status = self.json("/api/v1/status");
            if is_so(&status) {
                return status;
            }
            assert!(Instant::now() < until, "{what}: {status}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Header and values of a raw image.
    fn raw(&self, name: &str) -> (Value, Vec<f32>) {
        unpacked(&self.get(&format!("/api/v1/series/current/images/{name}")))
    }

    pub(crate) fn end(mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // already ended where a test went well
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The voltage of the demonstration.
pub(crate) fn voltage_kv() -> String {
    let set = FileSet::open(&demo().join("acquisition/simulated_master.h5")).unwrap();
    set.metadata.voltage().unwrap().0.to_string()
}

fn unpacked(bytes: &[u8]) -> (Value, Vec<f32>) {
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let header = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    let values =
        bytes[4 + length..].chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().unwrap()));
    (header, values.collect())
}

/// The folders that a daemon left.
pub(crate) fn folders(out: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

/// The demonstration, run from its files: what a daemon must come to as well.
fn from_files() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("from files");
    run_demo(&out, true_optics(-12.5));
    (dir, out)
}

pub(crate) const EXACT: [&str; 9] =
    ["phase", "amplitude", "bf", "adf", "df", "com_row", "com_col", "frame_sum", "detector_total"];

#[test]
fn what_comes_over_the_wire_gives_the_same_files_as_a_run_and_is_seen_while_it_comes() {
    let (_dir, expected) = from_files();
    for version in [Version::V1, Version::V2] {
        let dir = tempfile::tempdir().unwrap();
        let mut detector = Detector::new();
        let mut daemon = Daemon::start(&detector, dir.path(), &["--series", "1"]);
        detector.wait_for_reader();
        daemon.wait_for("listening", |status| status["state"] == "listening");
        detector.socket.send(&detector.facts.start(version));
        daemon.wait_for("armed", |status| status["state"] == "armed");
        detector.send(version, 0..2500, |_| true);
        let status = daemon.wait_for("half of it and a first phase", |status| {
            let series = &status["series"];
            series["frames"]["received"] == 2500
                && series["frames"]["kept"] == 2500
                && series["phase"]["badge"] == "preview"
        });
        assert_eq!(status["state"], "receiving");
        assert_eq!(status["series"]["scan_shape"], serde_json::json!([64, 64]));
        assert_eq!(status["series"]["id"], 41);
        let (header, bf) = daemon.raw("bf");
        assert_eq!(
            (&header["shape"], &header["missing"]),
            (&serde_json::json!([64, 64]), &serde_json::json!([[2500, 4096]]))
        );
        assert!(bf[..2500].iter().all(|value| *value > 0.0) && bf[2500..].iter().all(|value| value.is_nan()));
        let (header, phase) = daemon.raw("phase");
        assert_eq!((&header["unit"], phase.len()), (&serde_json::json!("rad"), 4096));
        let narrow = daemon.get("/api/v1/series/current/images/bf?inner=0&outer=0.3");
        let (_, narrow) = unpacked(&narrow);
        assert!(narrow[..2500].iter().zip(&bf).all(|(narrow, bf)| narrow < bf));
        detector.rest(version, 2500);
        assert!(daemon.next_line().starts_with("series 41: receiving 4096 frames, 64x64"));
        let line = daemon.next_line();
        assert!(
            line.starts_with("series 41: complete: 4096 of 4096 frames, 0 missing (every frame came), "),
            "{line}"
        );
        assert!(daemon.end().success());
        let folders = folders(dir.path());
        assert_eq!(folders.len(), 1);
        for name in EXACT {
            let read = |folder: &Path| std::fs::read(folder.join(format!("{name}.npy"))).unwrap();
            assert!(read(&folders[0]) == read(&expected), "{name}, {version:?}");
        }
        let report = result(&folders[0]);
        assert_eq!(
            (&report["status"], &report["optics"]["voltage_kv"]),
            (&Value::from("complete"), &result(&expected)["optics"]["voltage_kv"])
        );
    }
}

#[test]
fn series_after_series_with_losses_is_told_apart_and_looked_at_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut daemon = Daemon::start(&detector, dir.path(), &["--silence-s", "2"]);
    detector.wait_for_reader();
    // the first breaks off without an end, as after an abort; the second follows at once
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.send(Version::V2, 0..1500, |number| number % 100 != 7);
    detector.facts.id = 42;
    detector.facts.unique_id = "01KB0000000000000000000042".to_owned();
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.send(Version::V2, 0..4096, |number| !(1000..1010).contains(&number));
    detector.socket.send(&detector.facts.end(Version::V2));
    let line = daemon.next_line();
    assert!(line.starts_with("series 41: receiving"), "{line}");
    let line = daemon.next_line();
    assert!(line.contains("PARTIAL: 1485 of 4096 frames, 2611 missing (the next series began)"), "{line}");
    assert!(daemon.next_line().starts_with("series 42: receiving"));
    let line = daemon.next_line();
    assert!(
        line.contains("PARTIAL: 4086 of 4096 frames, 10 missing (the last frame came, others are missing)"),
        "{line}"
    );

    let status = daemon.wait_for("the second is over", |status| status["state"] == "partial");
    assert_eq!(status["series"]["number"], 2);
    let (header, bf) = daemon.raw("bf");
    assert_eq!(header["missing"], serde_json::json!([[1000, 1010]]));
    assert!(
        bf[1000..1010].iter().all(|value| value.is_nan())
            && bf.iter().filter(|value| value.is_nan()).count() == 10
    );
    // again by other optics: as it was, then out of focus
    let again = |body: &str| {
        let (code, bytes) = daemon.ask(
            "POST",
            "/api/v1/series/current/reconstruct",
            "Content-Type: application/json\r\n",
            body,
        );
        assert_eq!(code, 200, "{}", String::from_utf8_lossy(&bytes));
        unpacked(&bytes).1
    };
    let same = |left: &[f32], right: &[f32]| {
        left.iter().zip(right).all(|(left, right)| left.to_bits() == right.to_bits())
    };
    let (_, phase) = daemon.raw("phase");
    assert!(same(&again("{}"), &phase));
    assert!(!same(&again(r#"{"c10_nm": 30.0}"#), &phase));
    // the first is listed, and its picture is that of its folder
    let list = daemon.json("/api/v1/series");
    let numbers: Vec<_> =
        list["series"].as_array().unwrap().iter().map(|series| series["id"].clone()).collect();
    assert_eq!(numbers, [42, 41]);
    let first = folders(dir.path())[0].join("bf.png");
    assert!(daemon.get("/api/v1/series/1/images/bf?format=png") == std::fs::read(first).unwrap());
    let metrics = String::from_utf8(daemon.get("/metrics")).unwrap();
    assert!(metrics.contains("\nsideband_series_frames 4086\n"), "{metrics}");
}

#[test]
fn what_must_not_be_asked_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let detector = Detector::new();
    let daemon = Daemon::start(&detector, dir.path(), &[]);
    let refused = |path: &str, heads: &str| {
        let (code, body) = daemon.ask("GET", path, heads, "");
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        (code, body["error"].as_str().map(str::to_owned))
    };
    for path in [
        "/api/v1/series/current/images/bf",
        "/api/v1/series/7",
        "/page/..%2f..%2fetc%2fpasswd",
        "/page/../../etc/passwd",
        "/api/v1/series/1/images/..%2fresult",
        "/nothing",
    ] {
        let (code, why) = refused(path, "");
        assert!(code == 404 && why.is_some(), "{path}: {code} {why:?}");
    }
    assert_eq!(refused("/api/v1/status", "Origin: http://evil.example\r\n").0, 403);
    let (code, _) = daemon.ask(
        "POST",
        "/api/v1/series/current/reconstruct",
        "Content-Type: application/json\r\n",
        &"x".repeat(100_000),
    );
    assert!(code == 413 || code == 404, "{code}");
    // elsewhere than on loopback a token is needed, and the address says it
    let address = detector.socket.address().unwrap().to_string();
    let mut open = Command::new(env!("CARGO_BIN_EXE_sideband"))
        .args(["serve", "--stream", &address, "--listen", "0.0.0.0:0", "--out"])
        .arg(dir.path())
        .args(true_optics(-12.5))
        .args(["--voltage-kv", &voltage_kv()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(open.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let page = lines.next().unwrap().unwrap();
    let (at, token) = page.strip_prefix("page http://0.0.0.0:").unwrap().split_once("/?token=").unwrap();
    let there = Daemon { child: open, lines, page: format!("127.0.0.1:{at}") };
    assert_eq!(there.ask("GET", "/api/v1/status", "", "").0, 401);
    assert_eq!(there.ask("GET", "/page/main.js", "", "").0, 200);
    assert_eq!(there.ask("GET", &format!("/api/v1/status?token={token}"), "", "").0, 200);
    assert_eq!(there.ask("GET", "/api/v1/status", &format!("Authorization: Bearer {token}\r\n"), "").0, 200);
}

#[test]
fn a_daemon_that_is_told_to_stop_saves_what_had_come() {
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut daemon = Daemon::start(&detector, dir.path(), &[]);
    detector.wait_for_reader();
    detector.socket.send(&detector.facts.start(Version::V1));
    detector.send(Version::V1, 0..2048, |_| true);
    daemon.wait_for("half of it", |status| status["series"]["frames"]["kept"] == 2048);
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(i32::try_from(daemon.child.id()).unwrap(), libc::SIGTERM) };
    daemon.next_line();
    let line = daemon.next_line();
    assert!(line.contains("PARTIAL: 2048 of 4096 frames, 2048 missing (stopped on request)"), "{line}");
    assert_eq!(daemon.end().code(), Some(143));
    assert_eq!(folders(dir.path()).len(), 1);
}

#[test]
fn what_was_recorded_is_durable_and_runs_again_to_the_same_files() {
    let (_dir, expected) = from_files();
    let dir = tempfile::tempdir().unwrap();
    let (out, log) = (dir.path().join("results"), dir.path().join("log"));
    let mut detector = Detector::new();
    let mut daemon = Daemon::start(&detector, &out, &["--record", log.to_str().unwrap()]);
    detector.wait_for_reader();
    for (id, version) in [(50, Version::V1), (51, Version::V2)] {
        detector.facts.id = id;
        detector.facts.unique_id = format!("01KB00000000000000000000{id}");
        detector.socket.send(&detector.facts.start(version));
        detector.send(version, 0..4096, |number| id == 51 || number != 77);
        detector.socket.send(&detector.facts.end(version));
        assert!(daemon.next_line().starts_with(&format!("series {id}: receiving")));
        daemon.next_line();
    }
    // one that is not finished when the power goes
    detector.facts.id = 52;
    detector.facts.unique_id = "01KB0000000000000000000052".to_owned();
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.send(Version::V2, 0..1000, |number| number != 500);
    let messages = 2 * 4098 - 1 + 1000;
    let status =
        daemon.wait_for("everything is durable", |status| status["recording"]["durable"] == messages);
    assert_eq!(
        (&status["recording"]["received"], &status["recording"]["not_saved"]),
        (&Value::from(messages), &Value::from(0))
    );
    assert_eq!(status["stream"]["messages"], messages);
    drop(daemon); // killed: what is durable is there
    let again = |series: &[&str], name: &str| {
        let out = dir.path().join(name);
        let mut args = vec!["run", log.to_str().unwrap(), "--out", out.to_str().unwrap(), "--quiet"];
        args.extend(series);
        let optics = true_optics(-12.5);
        args.extend(optics.iter().map(String::as_str));
        let kv = voltage_kv();
        args.extend(["--voltage-kv", &kv]);
        let output = super::program::sideband(&args);
        assert_eq!(super::program::code(&output), 0, "{}", super::program::stderr(&output));
        out
    };
    let last = again(&["--series", "51"], "the second");
    for name in EXACT {
        let read = |folder: &Path| std::fs::read(folder.join(format!("{name}.npy"))).unwrap();
        assert!(read(&last) == read(&expected), "{name}");
    }
    let unfinished = result(&again(&[], "the last"));
    assert_eq!(
        (&unfinished["frames"]["received"], &unfinished["frames"]["missing"]),
        (&Value::from(999), &Value::from(3097))
    );
    let first = result(&again(&["--series", "50"], "the first"));
    assert_eq!((&first["status"], &first["frames"]["missing"]), (&Value::from("partial"), &Value::from(1)));
    assert_eq!(first["frames"]["gaps"][0]["first"], 77);
}

#[test]
fn a_log_that_is_full_is_said_at_the_end_and_the_results_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (out, log) = (dir.path().join("results"), dir.path().join("log"));
    let mut detector = Detector::new();
    let more = ["--series", "1", "--record", log.to_str().unwrap(), "--record-gb", "0.001"];
    let mut daemon = Daemon::start(&detector, &out, &more);
    detector.wait_for_reader();
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.complete(Version::V2, 0, &mut daemon);
    let line = daemon.next_line();
    assert!(line.starts_with("log: ") && line.contains(" messages NOT SAVED ("), "{line}");
    assert_eq!(daemon.end().code(), Some(1));
    // the log tells the same number
    let lost = line.split(' ').nth(1).unwrap();
    let listed = super::program::sideband(&["export", log.to_str().unwrap(), "--list"]);
    let said = super::program::stderr(&listed);
    assert!(said.contains(&format!("warning: {lost} messages were not saved when they came")), "{said}");
    let bytes: u64 = folders(&log).iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
    assert!((500_000..=1_000_000).contains(&bytes), "{bytes}");
}
