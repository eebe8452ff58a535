//! The memory of the receiver, with a sender that means no good: messages of parts without bytes, messages as short as can
//! be, messages much longer than a slab, and nobody who takes anything for a while.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

#[path = "support/counting.rs"]
mod counting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ingest::stream::push::{PushSocket, WireBatch, WireMessage};
use ingest::stream::receive::{ReceiveCounters, ReceiveSettings, ReceiveStage};

use counting::{MOST, NOW};

const SLAB_BYTES: usize = 64 << 10;
const SLABS: usize = 16;
const LONGEST: usize = 1 << 20;
/// A fifth for what is noted of messages, twice the longest, and what threads, sockets and queues take.
const MOST_BYTES: usize = SLABS * SLAB_BYTES * 12 / 10 + 2 * LONGEST + (512 << 10);

/// A batch of one message again and again.
fn repeated(message: &WireMessage, bytes: usize) -> (WireBatch, usize) {
    let num_messages = (bytes / message.bytes().len()).max(1);
    let mut batch = WireBatch::default();
    (0..num_messages).for_each(|_| batch.push(message));
    (batch, num_messages)
}

#[test]
fn hostile_messages_take_no_more_memory_than_is_stated() {
    let empty: &[u8] = &[];
    let kinds: [(&str, WireMessage); 5] = [
        ("no byte at all", WireMessage::new(&[empty])),
        ("64 parts without bytes", WireMessage::new(&[empty; 64])),
        ("one byte", WireMessage::new(&[&[7]])),
        ("sixteen slabs long", WireMessage::new(&[&vec![1; LONGEST - 64]])),
        ("many long parts", WireMessage::new(&vec![&vec![2; 20_000][..]; 50])),
    ];
    for (what, message) in kinds {
        let (batch, per_batch) = repeated(&message, 16 << 10);
        let mut socket = PushSocket::bind("127.0.0.1:0", Duration::from_millis(100)).unwrap();
        let address = socket.address().unwrap().to_string();
        // all that the sender needs is there
        let start = NOW.load(Relaxed);
        MOST.store(start, Relaxed);
        let (stop, counters) = (Arc::new(AtomicBool::new(false)), Arc::new(ReceiveCounters::default()));
        let settings = ReceiveSettings {
            slab_bytes: SLAB_BYTES,
            slabs: SLABS,
            most_message_bytes: LONGEST as u64,
            ..ReceiveSettings::new(address)
        };
        let (stage, received) = ReceiveStage::new(settings, counters.clone(), stop.clone());
        let (mut sent, mut taken, mut held_most) = (0, 0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| stage.run());
            while socket.num_readers() == 0 {
                socket.accept();
            }
            // nobody takes anything until nothing goes on the wire any more, twice; then all of it
            for _ in 0..2 {
                let stuck = Instant::now() + Duration::from_secs(20);
                let is_stuck = loop {
                    let now_sent = socket.send_batch(&batch, 0, Duration::from_millis(200));
                    sent += now_sent;
                    if now_sent < per_batch {
                        break true;
                    }
                    if Instant::now() > stuck {
                        break false;
                    }
                };
                assert!(is_stuck, "{what}: the ring is never full");
                let mut slabs = Vec::new();
                while let Ok(slab) = received.slabs.recv_timeout(Duration::from_millis(50)) {
                    slabs.push(slab);
                }
                held_most = held_most.max(slabs.iter().map(|slab| slab.held_bytes()).sum::<usize>());
                for slab in slabs {
                    taken += slab.num_messages();
                    received.spent.send(slab).unwrap();
                }
            }
            // a full ring holds up the rest of a message that is half written: what is there is taken, and it goes on
            for _ in 0..3 {
                socket.flush(Duration::from_secs(1));
                while let Ok(slab) = received.slabs.recv_timeout(Duration::from_millis(500)) {
                    taken += slab.num_messages();
                    received.spent.send(slab).unwrap();
                }
            }
            stop.store(true, Relaxed);
        });
        // the sender keeps a message that is half written
        let most = MOST.load(Relaxed) - start;
        assert!(
            held_most < MOST_BYTES && most < MOST_BYTES + LONGEST,
            "{what}: {held_most} and {most} bytes"
        );
        assert!(counters.ring_full.get() > 0, "{what}: nobody was told");
        // what was sent whole has come, once
        assert!(taken >= sent && counters.messages.get() as usize == taken, "{what}: {taken} of {sent}");
    }
}
