//! A recorder that is killed while it writes: the test runs itself again as the writer, and kills it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::*;

const CHILD: &str = "SIDEBAND_TEST_KILLED_WRITER";
const TEST: &str = "record::tests::kill::what_a_killed_recorder_called_durable_is_there";

/// The message that the record of a number holds.
fn message(number: u64) -> WireMessage {
    facts(number / 1000, 1000).image(Version::V1, number % 1000, &frame_bytes(number))
}

/// Records without end, and says how many messages are durable.
fn write_until_killed(folder: &Path) {
    let log = RecordLog::open(settings(folder)).unwrap();
    let first = log.next_record;
    let counters = Arc::new(RecordCounters::default());
    let (send, slabs_in) = bounded(4);
    let (spent, _spent) = bounded(4);
    let (stage, received) = RecordStage::new(Received { slabs: slabs_in, spent }, log, counters.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| stage.run());
        scope.spawn(move || received.slabs.iter().for_each(drop));
        scope.spawn(move || {
            for start in (first..).step_by(10) {
                let messages: Vec<_> = (start..start + 10).map(message).collect();
                for slab in slabs(&messages, 30_000) {
                    send.send(slab).unwrap();
                }
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        loop {
            let mut out = std::io::stdout().lock();
            writeln!(out, "durable {}", first + counters.durable.get()).unwrap();
            out.flush().unwrap();
            drop(out);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn what_a_killed_recorder_called_durable_is_there() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return write_until_killed(Path::new(&folder));
    }
    let mut seed = 0xdead_u64;
    let mut last = 0;
    let mut dir = tempfile::tempdir().unwrap();
    for round in 0..30 {
        if round % 5 == 0 {
            (dir, last) = (tempfile::tempdir().unwrap(), 0);
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let durable = |line: String| line.rsplit_once("durable ")?.1.parse::<u64>().ok();
        let first = lines.by_ref().find_map(durable).unwrap();
        assert!(first >= last, "round {round}: goes on at {first}, {last} were durable");
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros((seed >> 33) % 120_000));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        // whole lines alone count; the last may be cut short by the kill
        let mut said: Vec<u64> = lines.filter_map(durable).collect();
        killer.join().unwrap();
        said.pop();
        let durable = said.pop().unwrap_or(first);
        let (held, report) = read(dir.path());
        assert!(held.len() as u64 >= durable, "round {round}: {} of {durable}", held.len());
        for (at, (number, parts)) in (0..).zip(&held) {
            assert_eq!(*number, at, "round {round}");
            let wire = message(at);
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            assert!(WireMessage::new(&parts) == wire, "round {round}: message {at} is not as it was");
        }
        assert_eq!(report.missing, 0);
        assert!(report.damages.iter().all(|damage| damage.is_tail), "round {round}: {:?}", report.damages);
        last = durable;
    }
}
