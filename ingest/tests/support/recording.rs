//! Messages over the loopback into a recording, as those of a detector come.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ingest::record::{RecordCounters, RecordLog, RecordSettings, RecordStage};
use ingest::stream::push::{PushSocket, Sent, WireMessage};
use ingest::stream::receive::{ReceiveCounters, ReceiveSettings, ReceiveStage};

/// Sends messages to a recorder that writes into a folder; all of them are durable then.
///
/// # Panics
/// There is no port, or no such folder.
pub(crate) fn recorded(folder: &Path, messages: &[WireMessage]) {
    let mut socket = PushSocket::bind("127.0.0.1:0", Duration::from_secs(5)).expect("a port");
    let address = socket.address().expect("an address").to_string();
    let settings = ReceiveSettings { slabs: 4, slab_bytes: 50_000, ..ReceiveSettings::new(address) };
    let stop = Arc::new(AtomicBool::new(false));
    let (receive, received) = ReceiveStage::new(settings, Arc::new(ReceiveCounters::default()), stop.clone());
    let counters = Arc::new(RecordCounters::default());
    let log = RecordLog::open(RecordSettings::new(folder)).expect("a folder");
    let (record, received) = RecordStage::new(received, log, counters.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| receive.run());
        scope.spawn(|| record.run());
        while socket.num_readers() == 0 {
            socket.accept();
        }
        assert!(messages.iter().all(|message| socket.send(message) == Sent::Yes));
        let mut came = 0;
        while came < messages.len() {
            let slab = received.slabs.recv().expect("a slab");
            came += slab.num_messages();
            received.spent.send(slab).expect("a receiver");
        }
        stop.store(true, Relaxed);
        drop(received);
    });
    assert_eq!(counters.durable.get(), messages.len() as u64);
}
