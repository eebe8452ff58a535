//! A second reader that takes every other message, as one that was forgotten on another machine does.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use ingest::stream::message::{Message, parse};
use ingest::stream::slab::Slab;
use ingest::stream::zmtp::{Filled, PullReader};

const SLAB_BYTES: usize = 4 << 20;

/// The reader, at work.
#[derive(Debug)]
pub(super) struct Thief {
    stop: Arc<AtomicBool>,
    reading: JoinHandle<Vec<u64>>,
}

impl Thief {
    /// Begins to read from an address.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let named = std::thread::Builder::new().name("replay-thief".to_owned());
        let reading =
            named.spawn(move || steal(address, &stopped)).context("no thread for another reader")?;
        Ok(Self { stop, reading })
    }

    /// Ends it, once nothing more comes. Returns the numbers of the frames that it took.
    pub(super) fn stop(self) -> Vec<u64> {
        self.stop.store(true, Relaxed);
        self.reading.join().unwrap_or_default()
    }
}

fn steal(address: SocketAddr, stop: &AtomicBool) -> Vec<u64> {
    let mut numbers = Vec::new();
    let Ok(stream) = TcpStream::connect(address) else { return numbers };
    let Ok(mut reader) = PullReader::connect(stream, u64::MAX >> 1) else { return numbers };
    if reader.stream().set_read_timeout(Some(Duration::from_millis(50))).is_err() {
        return numbers;
    }
    let mut slab = Slab::new(SLAB_BYTES);
    let mut note = |slab: &Slab| {
        for parts in slab.messages() {
            if let Ok(Message::Image(image)) = parse(parts) {
                numbers.push(image.number);
            }
        }
    };
    loop {
        match reader.fill(&mut slab) {
            Ok(Filled::Bytes(_)) => {}
            Ok(Filled::Nothing) if !stop.load(Relaxed) => {}
            Ok(Filled::Nothing) | Err(_) => break,
        }
        if reader.wants_slab(&slab) {
            note(&slab);
            let mut next = Slab::new(SLAB_BYTES);
            reader.change_slab(&mut slab, &mut next);
            slab = next;
        }
    }
    note(&slab);
    numbers
}
