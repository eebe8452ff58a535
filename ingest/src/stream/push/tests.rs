//! Readers that share, stall and leave.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use super::super::slab::Slab;
use super::super::zmtp::PullReader;
use super::*;

/// A reader of a socket, once it is taken in.
fn reader(socket: &mut PushSocket) -> PullReader<TcpStream> {
    let before = socket.num_readers();
    let stream = TcpStream::connect(socket.address().unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let knocking = std::thread::spawn(move || PullReader::connect(stream, 1 << 30).unwrap());
    while socket.num_readers() == before {
        socket.accept();
    }
    knocking.join().unwrap()
}

/// The first byte of each message that comes before a tenth of a second passes without any.
fn received(reader: &mut PullReader<TcpStream>) -> Vec<u8> {
    reader.stream().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut slab = Slab::new(8 << 20);
    while let Ok(super::super::zmtp::Filled::Bytes(_)) = reader.fill(&mut slab) {}
    slab.messages().map(|mut parts| parts.next().unwrap()[0]).collect()
}

fn batch(range: std::ops::Range<u8>, bytes: usize) -> WireBatch {
    let mut batch = WireBatch::default();
    range.for_each(|first| batch.push(&WireMessage::new(&[&vec![first; bytes]])));
    batch
}

fn socket() -> PushSocket {
    PushSocket::bind("127.0.0.1:0", Duration::from_millis(50)).unwrap()
}

#[test]
fn two_readers_get_every_other_message_even_of_a_batch() {
    let mut socket = socket();
    let (mut one, mut other) = (reader(&mut socket), reader(&mut socket));
    assert_eq!(socket.send_batch(&batch(0..10, 100), 0, Duration::from_secs(1)), 10);
    assert_eq!(received(&mut one), [0, 2, 4, 6, 8]);
    assert_eq!(received(&mut other), [1, 3, 5, 7, 9]);
}

#[test]
fn a_reader_that_stalls_misses_whole_messages_and_those_alone() {
    let mut socket = socket();
    let mut stalled = reader(&mut socket);
    let batch = batch(0..200, 100_000);
    let taken = socket.send_batch(&batch, 0, Duration::from_millis(20));
    assert!((1..200).contains(&taken), "{taken}");
    assert_eq!(socket.send_batch(&batch, taken, Duration::ZERO), 0);
    // it reads again: what was begun comes whole, what nobody took does not come
    let reading = std::thread::spawn(move || received(&mut stalled));
    assert!(socket.flush(Duration::from_secs(5)));
    let last = WireMessage::new(&[&[255; 10]]);
    assert_eq!(socket.send(&last), Sent::Yes);
    let mut expected: Vec<u8> = (0..u8::try_from(taken).unwrap()).collect();
    expected.push(255);
    // 200 messages of 100 kB do not fit a slab of 8 MiB unless the system's buffers are larger than usual
    let got = reading.join().unwrap();
    assert_eq!(got, expected[..got.len().min(expected.len())]);
    assert!(!got.is_empty());
}

#[test]
fn a_reader_that_has_left_gets_nothing_of_the_next_series() {
    let mut socket = socket();
    drop(reader(&mut socket));
    std::thread::sleep(Duration::from_millis(20));
    socket.accept();
    assert_eq!(socket.num_readers(), 0);
    assert_eq!(socket.send(&WireMessage::new(&[b"x"])), Sent::Dropped);
    let mut next = reader(&mut socket);
    assert_eq!(socket.send(&WireMessage::new(&[b"y"])), Sent::Yes);
    assert_eq!(received(&mut next), b"y");
}

#[test]
fn who_does_not_shake_hands_keeps_nobody_waiting() {
    let mut socket = socket();
    let silent: Vec<_> = (0..5).map(|_| TcpStream::connect(socket.address().unwrap()).unwrap()).collect();
    let start = Instant::now();
    let mut real = reader(&mut socket);
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(socket.send(&WireMessage::new(&[b"z"])), Sent::Yes);
    assert_eq!(received(&mut real), b"z");
    drop(silent);
}

#[test]
fn a_ping_is_answered_between_messages() {
    use std::io::{Read, Write};
    let mut socket = socket();
    let reader = reader(&mut socket);
    let mut stream = reader.stream();
    stream.write_all(b"\x04\x0a\x04PING\x00\x05abc").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    socket.accept();
    let mut pong = [0; 10];
    stream.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"\x04\x08\x04PONGabc");
}

#[test]
fn the_parts_of_a_message_are_those_it_was_made_of() {
    let long = vec![7; 300];
    let parts: [&[u8]; 4] = [b"head", b"", &long, b"x"];
    assert!(WireMessage::new(&parts).parts().eq(parts));
    assert_eq!(WireMessage::new(&[]).parts().count(), 0);
}
