//! Events by WebSocket: images of a subscription as binary, the newest alone, and clients that do not read.

use serde_json::json;

use super::*;

/// A client of the events.
struct Listener {
    stream: TcpStream,
}

impl Listener {
    fn connect(daemon: &Daemon) -> Self {
        let mut stream = TcpStream::connect(&daemon.page).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let host = &daemon.page;
        write!(
            stream,
            "GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Self { stream }
    }

    /// Sends a text, masked by zeros.
    fn say(&mut self, body: &Value) {
        let text = body.to_string();
        let length = u16::try_from(text.len()).unwrap();
        let mut frame = vec![0x81, 0x80 | 126];
        frame.extend(length.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.stream.write_all(&frame).unwrap();
    }

    /// The next text or image.
    fn hear(&mut self) -> (bool, Vec<u8>) {
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).unwrap();
            let mut length = u64::from(head[1] & 127);
            if length >= 126 {
                let mut bytes = [0; 8];
                let from = if length == 126 { 6 } else { 0 };
                self.stream.read_exact(&mut bytes[from..]).unwrap();
                length = u64::from_be_bytes(bytes);
            }
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.stream.read_exact(&mut payload).unwrap();
            match head[0] & 15 {
                1 => return (false, payload),
                2 => return (true, payload),
                _ => {}
            }
        }
    }

    /// Hears until the newest images are so, by the names of their subscriptions.
    fn until(&mut self, newest: &mut Newest, are_so: impl Fn(&Newest) -> bool) {
        while !are_so(newest) {
            let (is_image, bytes) = self.hear();
            if is_image {
                let (header, values) = unpacked(&bytes);
                newest.insert(header["subscription"].as_str().unwrap().to_owned(), (header, values));
            }
        }
    }
}

type Newest = std::collections::HashMap<String, (Value, Vec<f32>)>;

#[test]
fn images_are_sent_whenever_they_are_newer_and_who_does_not_read_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::new();
    let mut daemon = Daemon::start(&detector, dir.path(), &["--series", "1", "--silence-s", "300"]);
    detector.wait_for_reader();
    let mut reads = Listener::connect(&daemon);
    reads.say(&json!({ "subscribe": { "id": "b", "name": "bf" } }));
    reads.say(&json!({ "subscribe": { "id": "narrow", "name": "bf", "inner": 0, "outer": 0.3 } }));
    reads.say(&json!({ "subscribe": { "id": "p", "name": "phase", "series": "current" } }));
    reads.say(&json!({ "subscribe": { "id": "none", "name": "haadf" } }));
    let error = loop {
        let (_, text) = reads.hear();
        let said: Value = serde_json::from_slice(&text).unwrap();
        if let Some(error) = said["error"].as_str() {
            break error.to_owned();
        }
    };
    assert_eq!(error, "subscription none: there is no image haadf");
    // these take what the system holds for them, and no more
    let deaf: Vec<Listener> = (0..8)
        .map(|_| {
            let mut deaf = Listener::connect(&daemon);
            for name in ["mean_pattern", "detector_total", "bf", "adf", "com_row", "com_col"] {
                deaf.say(&json!({ "subscribe": { "id": name, "name": name } }));
            }
            deaf
        })
        .collect();
    detector.socket.send(&detector.facts.start(Version::V2));
    detector.send(Version::V2, 0..2500, |_| true);
    let mut newest = Newest::new();
    let is_half = |newest: &Newest, id: &str| {
        newest.get(id).is_some_and(|(header, _)| header["missing"] == json!([[2500, 4096]]))
    };
    reads.until(&mut newest, |newest| ["b", "narrow", "p"].iter().all(|id| is_half(newest, id)));
    let (header, bf) = newest["b"].clone();
    assert_eq!(
        (&header["name"], &header["series"], &header["format"]),
        (&json!("bf"), &json!(1), &json!("raw"))
    );
    let less = |left: &[f32], right: &[f32]| left[..2500].iter().zip(right).all(|(left, right)| left < right);
    assert!(less(&newest["narrow"].1, &bf));
    assert_eq!(newest["p"].0["unit"], "rad");
    // what is chosen anew is sent anew, though no frame came
    let (code, _) = daemon.ask(
        "PUT",
        "/api/v1/series/current/masks",
        "Content-Type: application/json\r\n",
        r#"{"bf": [0, 0.2]}"#,
    );
    assert_eq!(code, 200);
    reads.until(&mut newest, |newest| less(&newest["b"].1, &bf));
    detector.rest(Version::V2, 2500);
    daemon.next_line();
    let line = daemon.next_line();
    assert!(line.contains("complete: 4096 of 4096 frames, 0 missing"), "{line}");
    assert_eq!(deaf.len(), 8);
    assert!(daemon.end().success());
}

#[test]
fn requests_that_a_framework_refuses_are_refused_in_words_and_half_ones_do_not_stay() {
    let dir = tempfile::tempdir().unwrap();
    let detector = Detector::new();
    let daemon = Daemon::start(&detector, dir.path(), &[]);
    let json = "Content-Type: application/json\r\n";
    for (method, path, heads, body, expected) in [
        ("DELETE", "/api/v1/status", "", "", 405),
        ("GET", "/api/v1/series/1/images/bf?format=jpeg", "", "", 400),
        ("GET", "/api/v1/series/%FF/images/bf", "", "", 400),
        ("PUT", "/api/v1/optics", json, "{", 400),
        ("PUT", "/api/v1/optics", "", "{}", 415),
        ("PUT", "/api/v1/optics", json, r#"{"colour": 1}"#, 422),
        ("POST", "/api/v1/series/current/reconstruct", json, r#"{"colour": 1}"#, 422),
        ("PUT", "/api/v1/optics", json, &"x".repeat(100_000), 413),
        ("GET", "/api/v1/events", "", "", 400),
    ] {
        let (code, answer) = daemon.ask(method, path, heads, body);
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        assert!(code == expected && answer["error"].is_string(), "{method} {path}: {code} {answer}");
    }
    // one whose head never ends, one whose body never comes, one that says nothing
    let halves = [
        "GET /api/v1/status HTTP/1.1\r\nHost: ",
        "PUT /api/v1/optics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
        "",
    ];
    let open: Vec<TcpStream> = halves
        .iter()
        .map(|half| {
            let mut stream = TcpStream::connect(&daemon.page).unwrap();
            stream.write_all(half.as_bytes()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream
        })
        .collect();
    for mut stream in open {
        let mut answer = Vec::new();
        // ended by the daemon: with or without a word
        stream.read_to_end(&mut answer).unwrap();
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
}
