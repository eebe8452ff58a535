//! The detector's own interface, SIMPLON 1.8 over HTTP: a value, a command, no more.
//!
//! `http://HOST:PORT/<module>/api/1.8.0/<config|status|command>/<name>`; a value comes in an envelope, `{"value": ..}`.
//! Source: DECTRIS SIMPLON API reference; tickit-devices' simulated EIGER.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use base64::Engine;
use serde_json::Value;

/// Longest wait for an answer to a question.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait for a command: `arm` and `initialize` take their time.
const PATIENCE_FOR_COMMANDS: Duration = Duration::from_secs(60);
/// Bytes of an answer, at most.
const MOST_ANSWER_BYTES: u64 = 1 << 20;
/// Bytes of a pixel mask on its way, at most: 4 bytes a pixel, a third more as text.
const MOST_MASK_BYTES: u64 = 64 << 20;

/// A detector control unit.
#[derive(Clone, Debug)]
pub struct Simplon {
    /// `HOST:PORT`.
    address: String,
}

impl Simplon {
    /// The unit at `HOST:PORT`, with or without `http://` before it; nothing is sent yet.
    pub fn new(address: &str) -> Self {
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        let address = if address.contains(':') { address.to_owned() } else { format!("{address}:80") };
        Self { address }
    }

    /// The value of `kind` (`config` or `status`) of a module.
    ///
    /// # Errors
    /// The unit is not there, does not know the name, or answers nonsense.
    pub fn value(&self, module: &str, kind: &str, name: &str) -> anyhow::Result<Value> {
        self.value_of(module, kind, name, MOST_ANSWER_BYTES)
    }

    fn value_of(&self, module: &str, kind: &str, name: &str, most_bytes: u64) -> anyhow::Result<Value> {
        let path = format!("/{module}/api/1.8.0/{kind}/{name}");
        let answer = self.request("GET", &path, "", PATIENCE, most_bytes)?;
        value_in(&answer).with_context(|| name.to_owned())
    }

    /// The detector's own mask, 0 is good, and its shape (rows, cols).
    ///
    /// # Errors
    /// As [`value`](Self::value); it is no array that can be read.
    pub fn pixel_mask(&self) -> anyhow::Result<([usize; 2], Vec<u32>)> {
        let value = self.value_of("detector", "config", "pixel_mask", MOST_MASK_BYTES)?;
        darray(&value).context("pixel_mask")
    }

    /// Gives the detector a command; returns what it answers, null where that is nothing.
    ///
    /// # Errors
    /// The unit is not there, or refuses: with its words.
    pub fn command(&self, name: &str) -> anyhow::Result<Value> {
        let path = format!("/detector/api/1.8.0/command/{name}");
        let answer = self.request("PUT", &path, "", PATIENCE_FOR_COMMANDS, MOST_ANSWER_BYTES)?;
        said_in(&answer).with_context(|| name.to_owned())
    }

    /// One request and its answer. HTTP/1.0: the answer ends with the connection.
    fn request(
        &self,
        method: &str,
        path: &str,
        body: &str,
        patience: Duration,
        most_bytes: u64,
    ) -> anyhow::Result<String> {
        let there = || format!("the detector at {}", self.address);
        let mut refused = anyhow!("the name has no address");
        let mut connected = None;
        for address in self.address.to_socket_addrs().with_context(there)? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    connected = Some(stream);
                    break;
                }
                Err(error) => refused = error.into(),
            }
        }
        let Some(mut stream) = connected else { return Err(refused.context(there())) };
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (host, length) = (&self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).with_context(there)?;
        let mut answer = Vec::new();
        stream.take(most_bytes).read_to_end(&mut answer).with_context(there)?;
        body_of(&answer).with_context(|| format!("{method} http://{host}{path}"))
    }
}

/// An array in JSON: `{"__darray__": [1, 0, 0], "type": "<u4", "shape": [rows, cols], "filters": ["base64"], "data": ..}`: its shape and its
/// values.
///
/// # Errors
/// What was got and what expected.
pub fn darray(value: &Value) -> anyhow::Result<([usize; 2], Vec<u32>)> {
    ensure!(value.get("__darray__").is_some(), "got no array, expected one with __darray__");
    let words = |key: &str| value.get(key).map_or_else(|| "nothing".to_owned(), Value::to_string);
    let shape = value.get("shape").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let side = |side: &Value| side.as_u64().and_then(|side| usize::try_from(side).ok());
    let [Some(rows), Some(cols)] = shape.iter().map(side).collect::<Vec<_>>()[..] else {
        bail!("got the shape {}, expected [rows, cols]", words("shape"));
    };
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
    let width = match kind.trim_start_matches(['<', '|']) {
        "u4" => 4,
        "u2" => 2,
        "u1" => 1,
        _ => bail!("got the type {}, expected <u4", words("type")),
    };
    let is_plain = value.get("filters") == Some(&serde_json::json!(["base64"]));
    ensure!(is_plain, "got the filters {}, expected base64 alone", words("filters"));
    let data = value.get("data").and_then(Value::as_str).unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(data.trim()).context("no base64")?;
    let expected = rows.checked_mul(cols).and_then(|pixels| pixels.checked_mul(width));
    ensure!(expected == Some(bytes.len()), "got {} bytes, expected those of {rows} x {cols}", bytes.len());
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    Ok(([rows, cols], bytes.chunks_exact(width).map(word).collect()))
}

/// An array of 32 bits in JSON, as [`darray`] reads it; `values` are `[row][col]`.
pub fn as_darray(shape: [usize; 2], values: &[u32]) -> Value {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    serde_json::json!({
        "__darray__": [1, 0, 0], "type": "<u4", "shape": shape, "filters": ["base64"], "data": data
    })
}

/// The value in an envelope, `{"value": ..}`; null where there is none.
///
/// # Errors
/// No JSON.
pub fn value_in(body: &str) -> anyhow::Result<Value> {
    let mut envelope: Value = serde_json::from_str(body).context("no JSON")?;
    Ok(envelope.get_mut("value").map_or(Value::Null, Value::take))
}

/// What a command is answered with; null where that is nothing.
///
/// # Errors
/// No JSON.
pub fn said_in(body: &str) -> anyhow::Result<Value> {
    match body.trim() {
        "" => Ok(Value::Null),
        body => serde_json::from_str(body).context("no JSON"),
    }
}

/// The body of an answer that says it went well.
///
/// # Errors
/// No HTTP, a code that says it did not, or fewer bytes than announced.
pub fn body_of(answer: &[u8]) -> anyhow::Result<String> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").context("no HTTP")?;
    let head = std::str::from_utf8(&answer[..end]).context("no HTTP")?;
    let code: u16 = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no HTTP")?;
    let body = String::from_utf8_lossy(&answer[end + 4..]).into_owned();
    if !(200..300).contains(&code) {
        bail!("refused with {code}: {}", body.trim());
    }
    let said = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    ensure!(said.is_none_or(|said| said <= body.len()), "cut short at {} bytes", body.len());
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A unit that answers one request with these bytes; returns what it was asked.
    fn answering(answer: &'static [u8], ask: impl FnOnce(Simplon)) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let simplon = Simplon::new(&format!("http://{}/", listener.local_addr().unwrap()));
        std::thread::scope(|scope| {
            let unit = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = vec![0; 4096];
                let length = stream.read(&mut asked).unwrap();
                stream.write_all(answer).unwrap();
                String::from_utf8_lossy(&asked[..length]).into_owned()
            });
            ask(simplon);
            unit.join().unwrap()
        })
    }

    #[test]
    fn a_value_comes_out_of_its_envelope() {
        let asked = answering(
            b"HTTP/1.1 200 OK\r\nContent-Length: 31\r\n\r\n{\"value\":17,\"value_type\":\"int\"}",
            |unit| assert_eq!(unit.value("stream", "status", "dropped").unwrap(), 17),
        );
        assert!(asked.starts_with("GET /stream/api/1.8.0/status/dropped HTTP/1.0\r\n"), "{asked}");
    }

    #[test]
    fn a_mask_comes_as_an_array_and_what_is_none_is_refused_by_what_is_wrong() {
        let array = |kind: &str, shape: &str, filters: &str, data: &str| {
            let text = format!(
                r#"{{"__darray__":[1,0,0],"type":"{kind}","shape":{shape},"filters":{filters},"data":"{data}"}}"#
            );
            darray(&serde_json::from_str(&text).unwrap()).map_err(|error| format!("{error:#}"))
        };
        // 0, 1, 256 and 2^31 in 32 bits, little-endian
        let data = "AAAAAAEAAAAAAQAAAAAAgA==";
        assert_eq!(array("<u4", "[2,2]", "[\"base64\"]", data).unwrap(), ([2, 2], vec![0, 1, 256, 1 << 31]));
        let values = [0, 1, 256, 1 << 31, u32::MAX, 6];
        assert_eq!(darray(&as_darray([2, 3], &values)).unwrap(), ([2, 3], values.to_vec()));
        assert_eq!(array("|u1", "[1,3]", "[\"base64\"]", "AAEC").unwrap().1, [0, 1, 2]);
        for (kind, shape, filters, data, said) in [
            ("<f4", "[2,2]", "[\"base64\"]", data, "expected <u4"),
            ("<u4", "[4]", "[\"base64\"]", data, "expected [rows, cols]"),
            ("<u4", "[2,-2]", "[\"base64\"]", data, "expected [rows, cols]"),
            ("<u4", "[2,3]", "[\"base64\"]", data, "got 16 bytes, expected those of 2 x 3"),
            ("<u4", "[4611686018427387904,4]", "[\"base64\"]", data, "got 16 bytes"),
            ("<u4", "[2,2]", "[\"bslz4\",\"base64\"]", data, "expected base64 alone"),
            ("<u4", "[2,2]", "[\"base64\"]", "?", "no base64"),
        ] {
            let why = array(kind, shape, filters, data).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
        assert!(darray(&serde_json::json!([1, 2])).is_err());
    }

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_unit() {
        answering(b"HTTP/1.1 403 Forbidden\r\n\r\nread-only while armed", |unit| {
            let why = format!("{:#}", unit.command("arm").unwrap_err());
            assert!(why.contains("refused with 403: read-only while armed"), "{why}");
        });
        for nonsense in [
            &b""[..],
            b"SSH-2.0\r\n\r\n",
            b"HTTP/1.1 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
        ] {
            let nonsense: &'static [u8] = nonsense;
            answering(nonsense, |unit| assert!(unit.command("arm").is_err()));
        }
    }

    #[test]
    fn a_unit_that_is_not_there_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let why = format!("{:#}", Simplon::new(&address).command("arm").unwrap_err());
        assert!(why.contains(&address), "{why}");
    }
}
