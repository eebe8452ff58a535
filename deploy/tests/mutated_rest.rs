//! Half a million requests and answers that something is wrong with, through both ends of the REST interface: the replay's
//! server, from method, path and body on, and the daemon's client, from the first byte on. No panic, and memory stays what an
//! answer takes. (What is before that in the server is hyper's.)

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

#[path = "../../ingest/tests/support/counting.rs"]
mod counting;
#[path = "../../ingest/tests/support/random.rs"]
mod random;

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Uri};
use deploy::replay::monitor::Pictures;
use deploy::replay::sender::Order;
use deploy::replay::simplon::detector::{Detector, Shared, State};
use deploy::replay::simplon::files::Files;
use deploy::replay::simplon::http::Served;
use deploy::replay::source::Source;
use deploy::replay::{Rate, ReplaySettings, SeriesSource};
use deploy::request::StopFlag;
use deploy::simplon::{body_of, darray, said_in, value_in};
use ingest::stream::compose::Version;

use counting::{MOST, NOW};
use random::Random;

/// Messages of each end.
const MESSAGES: usize = 250_000;
/// Most bytes there may be beyond those at the start: the configuration with one long text in it, several times over.
const MOST_BYTES: usize = 32 << 20;

/// Does something to bytes.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.next(4) {
        let at = random.next(bytes.len());
        match random.next(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.next(8),
            1 if !bytes.is_empty() => bytes[at] = random.next(256) as u8,
            2 => bytes.truncate(at),
            3 => bytes.insert(at, *random.of(b"{}[]\",:09-eE\\/%\r\n \0\xff")),
            4 if !bytes.is_empty() => drop(bytes.remove(at)),
            5 => {
                let end = at + random.next(bytes.len() - at + 1);
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            // as deep or as large as can be
            _ => {
                let what: &[u8] = random.of::<&[u8]>(&[b"[", b"9", b"{\"value\":", b"-1e", b"/"]);
                bytes.splice(at..at, what.repeat(1 + random.next(300)));
            }
        }
    }
}

const PATHS: [&str; 14] = [
    "/detector/api/1.8.0/config/count_time",
    "/detector/api/1.8.0/config/nimages",
    "/detector/api/1.8.0/config/ntrigger",
    "/detector/api/1.8.0/config/trigger_mode",
    "/detector/api/1.8.0/config/keys",
    "/detector/api/1.8.0/status/state",
    "/stream/api/1.8.0/config/format",
    "/stream/api/1.8.0/config/header_appendix",
    "/stream/api/1.8.0/status/dropped",
    "/detector/api/1.8.0/command/arm",
    "/detector/api/1.8.0/command/abort",
    "/detector/api/1.8.0/command/initialize",
    "/filewriter/api/1.8.0/files",
    "/data/a_data_000001.h5",
];
const BODIES: [&str; 8] = [
    "",
    "{\"value\": 0.001}",
    "{\"value\": 17}",
    "{\"value\": \"exts\"}",
    "{\"value\": \"cbor\"}",
    "{\"value\": [1, 2, {\"value\": null}]}",
    "{\"value\": true, \"value\": 18446744073709551615}",
    "[]",
];

fn settings(source: std::path::PathBuf) -> ReplaySettings {
    ReplaySettings {
        simulation: None,
        source,
        log_series: None,
        version: Version::V2,
        bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
        stream_port: Some(0),
        api_port: 0,
        rate: Rate::Max,
        arms_itself: false,
        num_series: None,
        patience: Duration::ZERO,
        wait_for_reader: Duration::ZERO,
        memory_bytes: Some(1 << 20),
        seed: 1,
        faults: Vec::new(),
        fault_log: None,
        channels: vec!["threshold_1".to_owned()],
        pulse_delay: Duration::ZERO,
        stop: StopFlag::default(),
    }
}

#[test]
fn requests_and_answers_that_are_none_neither_panic_nor_take_memory() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_sideband"))
        .args([
            "simulate",
            "--scan-shape",
            "4x4",
            "--detector-shape",
            "32x32",
            "--detector-sampling-mrad",
            "3",
        ])
        .args(["--quiet", "--out"])
        .arg(dir.path())
        .output()
        .unwrap();
    let settings = settings(String::from_utf8(made.stdout).unwrap().trim().into());
    let set = Source::open(&settings).unwrap();
    let source = Arc::new(SeriesSource::new(&set, &settings).unwrap());
    let (orders, orders_in) = crossbeam_channel::bounded(64);
    let shared = Arc::new(Shared::default());
    let detector = Arc::new(Detector::new(&set, source, &settings, shared.clone(), orders));
    let served = Served::new(detector, Files::of(&set.files), Arc::new(Pictures::of(&set)));
    // a stream that ends what it is told to send at once
    std::thread::spawn(move || {
        for order in orders_in {
            if matches!(order, Order::Arm(_) | Order::Abort | Order::Finish) {
                shared.set_state(State::Idle);
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut random = Random(2026);
    let (mut well, mut ill) = (0_u64, 0_u64);
    let start = NOW.load(Relaxed);
    for _ in 0..MESSAGES {
        let (mut path, mut body) =
            (random.of(&PATHS).as_bytes().to_vec(), random.of(&BODIES).as_bytes().to_vec());
        mutate(&mut path, &mut random);
        mutate(&mut body, &mut random);
        let method =
            random.of(&[Method::GET, Method::PUT, Method::PUT, Method::POST, Method::DELETE]).clone();
        // what is no path is turned away by hyper
        let Ok(uri) = Uri::try_from(path) else { continue };
        let request = Request::builder().method(method).uri(uri).body(Body::from(body)).unwrap();
        let answer = runtime.block_on(async {
            let answer = served.respond(request).await;
            let code = answer.status().as_u16();
            (code, to_bytes(answer.into_body(), 16 << 20).await.map(|bytes| bytes.len()))
        });
        assert!(answer.0 != 500 && answer.1.is_ok(), "{answer:?}");
        match answer.0 {
            200 => well += 1,
            _ => ill += 1,
        }
    }
    assert!(well > 10_000 && ill > 10_000, "{well} {ill}");
    let most = MOST.load(Relaxed) - start;
    assert!(most < MOST_BYTES, "server: {most} bytes");

    MOST.store(NOW.load(Relaxed), Relaxed);
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n{\"value\": 17, \"value_type\": \"int\", \"a\":1}",
        "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{\"value\":[0,5]}",
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nbusy",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n{\"sequence id\": 4}",
        "HTTP/1.1 200 OK\r\n\r\n{\"value\":{\"__darray__\":[1,0,0],\"type\":\"<u4\",\"shape\":[1,2],\"filters\":[\"base64\"],\"data\":\"AAAAAAEAAAA=\"}}",
    ];
    let (start, mut understood, mut masks) = (NOW.load(Relaxed), 0_u64, 0_u64);
    for _ in 0..MESSAGES {
        let mut answer = random.of(&answers).as_bytes().to_vec();
        mutate(&mut answer, &mut random);
        if let Ok(body) = body_of(&answer) {
            understood += u64::from(said_in(&body).is_ok());
            masks += u64::from(value_in(&body).is_ok_and(|value| darray(&value).is_ok()));
        }
    }
    assert!(understood > 10_000 && masks > 1000, "{understood} {masks}");
    let most = MOST.load(Relaxed) - start;
    assert!(most < MOST_BYTES, "client: {most} bytes");
}
