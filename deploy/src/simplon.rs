//! The detector's own interface, SIMPLON 1.8 over HTTP: a value, a command, no more.
//!
//! `http://HOST:PORT/<module>/api/1.8.0/<config|status|command>/<name>`; a value comes in an envelope, `{"value": ..}`.
//! Source: DECTRIS SIMPLON API reference; tickit-devices' simulated EIGER.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::Value;

/// Longest wait for an answer to a question.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait for a command: `arm` and `initialize` take their time.
const PATIENCE_FOR_COMMANDS: Duration = Duration::from_secs(60);
/// Bytes of an answer, at most.
const MOST_ANSWER_BYTES: u64 = 1 << 20;

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
        let answer = self.request("GET", &format!("/{module}/api/1.8.0/{kind}/{name}"), "", PATIENCE)?;
        let mut envelope: Value =
            serde_json::from_str(&answer).with_context(|| format!("{name}: no JSON"))?;
        Ok(envelope.get_mut("value").map_or(Value::Null, Value::take))
    }

    /// Gives the detector a command; returns what it answers, null where that is nothing.
    ///
    /// # Errors
    /// The unit is not there, or refuses: with its words.
    pub fn command(&self, name: &str) -> anyhow::Result<Value> {
        let path = format!("/detector/api/1.8.0/command/{name}");
        let answer = self.request("PUT", &path, "", PATIENCE_FOR_COMMANDS)?;
        if answer.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&answer).with_context(|| format!("{name}: no JSON"))
    }

    /// One request and its answer. HTTP/1.0: the answer ends with the connection.
    fn request(&self, method: &str, path: &str, body: &str, patience: Duration) -> anyhow::Result<String> {
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
        stream.take(MOST_ANSWER_BYTES).read_to_end(&mut answer).with_context(there)?;
        body_of(&answer).with_context(|| format!("{method} http://{host}{path}"))
    }
}

/// The body of an answer that says it went well.
fn body_of(answer: &[u8]) -> anyhow::Result<String> {
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
