use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};

use super::*;

/// A wire that gives what is in `incoming`, a piece at a time, and keeps what is written to it.
#[derive(Debug, Default)]
struct Wire {
    incoming: VecDeque<Vec<u8>>,
    written: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(piece) = self.incoming.front_mut() else { return Err(io::ErrorKind::WouldBlock.into()) };
        let len = piece.len().min(out.len());
        out[..len].copy_from_slice(&piece[..len]);
        piece.drain(..len);
        if piece.is_empty() {
            self.incoming.pop_front();
        }
        Ok(len)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn frame(body: &[u8], more: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_header(body.len(), more, &mut bytes);
    [&bytes, body].concat()
}

fn greeting_of_push() -> Vec<u8> {
    let ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH\x08Identity\x00\x00\x00\x00";
    [&GREETING[..], &[COMMAND, ready.len() as u8], ready].concat()
}

/// What comes out of `bytes` in pieces of `step`, with slabs of `slab_bytes`.
fn read_all(bytes: &[u8], step: usize, slab_bytes: usize) -> Result<Vec<Vec<Vec<u8>>>, ZmtpError> {
    let mut wire = Wire { incoming: [greeting_of_push()].into(), ..Wire::default() };
    wire.incoming.extend(bytes.chunks(step).map(<[u8]>::to_vec));
    let mut reader = PullReader::connect(wire, 1 << 20)?;
    let (mut slab, mut next) = (Slab::new(slab_bytes), Slab::new(slab_bytes));
    let mut messages = Vec::new();
    loop {
        if reader.wants_slab(&slab) {
            reader.change_slab(&mut slab, &mut next);
            messages.extend(slab.messages().map(|parts| parts.map(<[u8]>::to_vec).collect()));
            std::mem::swap(&mut slab, &mut next);
        }
        if reader.fill(&mut slab)? == Filled::Nothing {
            messages.extend(slab.messages().map(|parts| parts.map(<[u8]>::to_vec).collect()));
            return Ok(messages);
        }
    }
}

/// A slab with these messages, as a reader lists them.
pub(crate) fn listed(messages: &[crate::stream::push::WireMessage]) -> Slab {
    let bytes: Vec<u8> = messages.iter().flat_map(|message| message.bytes().to_vec()).collect();
    let wire = Wire { incoming: [greeting_of_push(), bytes.clone()].into(), ..Wire::default() };
    let mut reader = PullReader::connect(wire, 1 << 30).unwrap();
    // room to list them all, however short they are
    let mut slab = Slab::new(bytes.len() * 64);
    reader.fill(&mut slab).unwrap();
    slab
}

fn messages() -> Vec<Vec<Vec<u8>>> {
    let of = |len: usize, seed: usize| (0..len).map(|at| (at * 7 + seed) as u8).collect::<Vec<u8>>();
    vec![
        vec![of(1, 1)],
        vec![of(0, 0)],
        vec![of(20, 2), of(0, 0), of(300, 3), of(255, 4)],
        vec![of(9000, 5)],
        vec![of(256, 6), of(70, 7)],
    ]
}

#[test]
fn messages_come_out_whole_however_the_bytes_are_cut_and_whatever_the_slabs() {
    let bytes: Vec<u8> = messages()
        .iter()
        .flat_map(|parts| {
            parts.iter().enumerate().flat_map(|(part, body)| frame(body, part + 1 < parts.len()))
        })
        .collect();
    for step in [1, 2, 3, 7, 64, 1000, 1 << 16] {
        for slab_bytes in [16, 100, 1000, 1 << 16] {
            assert_eq!(read_all(&bytes, step, slab_bytes).unwrap(), messages(), "{step}, {slab_bytes}");
        }
    }
}

#[test]
fn a_ping_between_messages_and_between_parts_is_answered() {
    let ping = [&[COMMAND, 10], b"\x04PING\x00\x64abc".as_slice()].concat();
    let bytes = [frame(b"a", true), ping.clone(), frame(b"b", false), ping, frame(b"c", false)].concat();
    let expected = vec![vec![b"a".to_vec(), b"b".to_vec()], vec![b"c".to_vec()]];
    assert_eq!(read_all(&bytes, 5, 64).unwrap(), expected);
    let mut wire = Wire { incoming: [greeting_of_push(), bytes].into(), ..Wire::default() };
    wire.written.clear();
    let mut reader = PullReader::connect(wire, 1 << 20).unwrap();
    reader.fill(&mut Slab::new(1000)).unwrap();
    let pong = [&[COMMAND, 8], b"\x04PONGabc".as_slice()].concat();
    let written = &reader.stream().written;
    assert_eq!(written.windows(pong.len()).filter(|window| *window == pong).count(), 2);
}

#[test]
fn what_is_no_push_socket_is_refused_by_name() {
    let connect = |bytes: Vec<u8>| {
        let wire = Wire { incoming: [bytes].into(), ..Wire::default() };
        PullReader::connect(wire, 1000).unwrap_err().to_string()
    };
    let mut greeting = GREETING.to_vec();
    greeting[10] = 1;
    assert!(connect(greeting.clone()).contains("version 1"));
    greeting[10] = 3;
    greeting[12..17].copy_from_slice(b"CURVE");
    assert!(connect(greeting).contains("CURVE"));
    let publisher = String::from_utf8(greeting_of_push()[64..].to_vec()).unwrap().replace("PUSH", "PUBL");
    assert!(connect([&GREETING[..], publisher.as_bytes()].concat()).contains("PUBL"));
    let error = [&GREETING[..], &[COMMAND, 13], b"\x05ERROR\x06no way"].concat();
    assert!(connect(error).contains("no way"));
    assert!(connect(b"HTTP/1.1 400 Bad Request\r\n".repeat(8)).contains("48"));
    assert!(connect(GREETING[..40].to_vec()).contains("ended"));
}

#[test]
fn lengths_are_believed_only_below_the_limit() {
    let huge = [&[LONG], &u64::MAX.to_be_bytes()[..]].concat();
    assert!(matches!(read_all(&huge, 9, 64), Err(ZmtpError::TooLong { .. })));
    let parts: Vec<u8> = (0..20).flat_map(|_| frame(&vec![0; 60_000], true)).collect();
    assert!(matches!(read_all(&parts, 1 << 16, 1 << 16), Err(ZmtpError::TooLong { .. })));
    assert!(matches!(read_all(&frame(b"", true).repeat(65), 64, 64), Err(ZmtpError::TooManyParts)));
    for flags in [8, 0x80, COMMAND | MORE] {
        assert!(matches!(read_all(&[flags, 0], 2, 64), Err(ZmtpError::Flags { .. })));
    }
    let command = [&[COMMAND | LONG], &5000_u64.to_be_bytes()[..]].concat();
    assert!(matches!(read_all(&command, 9, 64), Err(ZmtpError::TooLong { .. })));
}

#[test]
fn a_sender_that_closes_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sender = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&greeting_of_push()).unwrap();
        stream.write_all(&frame(b"last", false)).unwrap();
        // what the reader says is taken before the connection is closed: else the system would reset it
        stream.read_exact(&mut [0; 64 + 2 + READY.len()]).unwrap();
    });
    let mut reader = PullReader::connect(TcpStream::connect(address).unwrap(), 1000).unwrap();
    let mut slab = Slab::new(1000);
    let ended = loop {
        match reader.fill(&mut slab) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    sender.join().unwrap();
    assert!(matches!(ended, ZmtpError::Io(_)), "{ended}");
    assert_eq!(slab.num_messages(), 1);
}
