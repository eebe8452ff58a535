//! Stage: bytes off the wire into slabs, and nothing else.
//!
//! One thread, one connection at a time; when it ends, by the sender's will or the network's, the next is tried until the
//! stop flag is raised. Memory is a fixed number of slabs that go round: what is full goes downstream, what was read
//! comes back. Where none comes back the thread waits, the network fills up, and the detector drops: that is counted.
//!
//! Memory: the slabs, a fifth and a little of it for what is noted of their messages, and twice the longest message that is
//! taken. Slabs that grow for messages longer than they are share that, wait for it, and give it back.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::slab::Slab;
use super::zmtp::{Filled, PullReader, ZmtpError};
use crate::counters::{Counter, Histogram};

/// How often a silent connection looks at the stop flag.
const TICK: Duration = Duration::from_millis(50);
/// From one attempt to connect to the next.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);
/// How long a message may wait in a slab for company.
const MOST_WAIT: Duration = Duration::from_millis(2);

/// What the thread has done; read at any time.
#[derive(Debug, Default)]
pub struct ReceiveCounters {
    /// Connections that were made.
    pub connections: Counter,
    /// Connections that ended, and attempts that did not become one.
    pub failures: Counter,
    /// Messages received.
    pub messages: Counter,
    /// Bytes received.
    pub bytes: Counter,
    /// Times the thread had to wait for a slab: everything downstream was full.
    pub ring_full: Counter,
    /// Slabs under way, in thousandths of all, each time one is handed on.
    pub ring_used: Histogram,
    /// From the moment at which a message is whole in memory to that at which its series is read, in nanoseconds; of the
    /// messages of a slab, the longest.
    pub waits: Arc<Histogram>,
    connected: AtomicBool,
    last_error: Mutex<Option<String>>,
}

impl ReceiveCounters {
    /// Whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Relaxed)
    }

    /// Why there is no connection; nothing while there is one.
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_error(&self, error: Option<String>) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

/// Where to receive from, and into how much memory.
#[derive(Clone, Debug)]
pub struct ReceiveSettings {
    /// `HOST:PORT` of the PUSH socket.
    pub address: String,
    /// Bytes of a slab.
    pub slab_bytes: usize,
    /// Number of slabs.
    pub slabs: usize,
    /// Longest message taken; twice that is the most memory beyond that of the slabs. A start with flat field and mask of a large detector is 9 MB for a million pixels.
    pub most_message_bytes: u64,
}

impl ReceiveSettings {
    /// 64 slabs of 4 MiB, messages up to 512 MiB.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), slab_bytes: 4 << 20, slabs: 64, most_message_bytes: 512 << 20 }
    }
}

/// The stage.
#[derive(Debug)]
pub struct ReceiveStage {
    settings: ReceiveSettings,
    counters: Arc<ReceiveCounters>,
    stop: Arc<AtomicBool>,
    slabs: Sender<Slab>,
    spent: Receiver<Slab>,
    /// Slabs that came back while it was waited for others.
    free: RefCell<Vec<Slab>>,
    /// Bytes by which slabs have grown for long messages, all together.
    grown: Cell<usize>,
}

/// The other end: full slabs, and where they go when they are read.
#[derive(Debug)]
pub struct Received {
    /// Slabs with whole messages, in the order in which they came.
    pub slabs: Receiver<Slab>,
    /// Takes slabs back.
    pub spent: Sender<Slab>,
}

impl ReceiveStage {
    /// The stage and its other end. All memory is asked for here.
    pub fn new(
        settings: ReceiveSettings,
        counters: Arc<ReceiveCounters>,
        stop: Arc<AtomicBool>,
    ) -> (Self, Received) {
        let num_slabs = settings.slabs.max(2);
        let (slabs, slabs_in) = bounded(num_slabs);
        let (spent, spent_in) = bounded(num_slabs);
        for _ in 0..num_slabs {
            // there is room for exactly these
            let _ = spent.send(Slab::new(settings.slab_bytes));
        }
        let (free, grown) = (RefCell::default(), Cell::new(0));
        (
            Self { settings, counters, stop, slabs, spent: spent_in, free, grown },
            Received { slabs: slabs_in, spent },
        )
    }

    /// Receives until the stop flag is raised or nobody takes slabs any more.
    pub fn run(self) {
        let mut is_first_failure = true;
        while !self.stop.load(Relaxed) {
            let error = match self.connect() {
                Ok(reader) => {
                    is_first_failure = true;
                    self.counters.connections.add(1);
                    self.counters.connected.store(true, Relaxed);
                    self.counters.set_error(None);
                    let received = self.receive(reader);
                    self.counters.connected.store(false, Relaxed);
                    match received {
                        Ok(()) => return,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            // said once: a detector that is switched off is tried ten times a second
            if is_first_failure {
                tracing::warn!("{}: {error}; trying again", self.settings.address);
                is_first_failure = false;
            }
            self.counters.set_error(Some(error.to_string()));
            self.counters.failures.add(1);
            std::thread::sleep(BETWEEN_ATTEMPTS);
        }
    }

    fn connect(&self) -> Result<PullReader<TcpStream>, ZmtpError> {
        let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.settings.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
                    let reader = PullReader::connect(stream, self.settings.most_message_bytes)?;
                    reader.stream().set_read_timeout(Some(TICK))?;
                    return Ok(reader);
                }
                Err(error) => refused = error,
            }
        }
        Err(refused.into())
    }

    /// Receives from one connection; an error ends it, the end of the work is none.
    fn receive(&self, mut reader: PullReader<TcpStream>) -> Result<(), ZmtpError> {
        let Some(mut slab) = self.fresh() else { return Ok(()) };
        let mut waiting_since = None;
        let mut patience = TICK;
        let ended = loop {
            if self.stop.load(Relaxed) {
                break Ok(());
            }
            // where slabs run short, those on the way are filled first: memory is for bytes, not for haste
            let is_short = (self.spent.len() + self.free.borrow().len()) * 2 < self.settings.slabs;
            let wanted = if slab.num_messages() > 0 && !is_short { MOST_WAIT } else { TICK };
            if wanted != patience {
                if let Err(error) = reader.stream().set_read_timeout(Some(wanted)) {
                    break Err(error.into());
                }
                patience = wanted;
            }
            let before = slab.num_messages();
            let filled = match reader.fill(&mut slab) {
                Ok(filled) => filled,
                Err(error) => break Err(error),
            };
            if let Filled::Bytes(bytes) = filled {
                self.counters.bytes.add(bytes as u64);
                self.counters.messages.add((slab.num_messages() - before) as u64);
            }
            if slab.num_messages() > 0 {
                let since = *waiting_since.get_or_insert_with(Instant::now);
                let is_due = filled == Filled::Nothing || (since.elapsed() >= MOST_WAIT && !is_short);
                if is_due || reader.wants_slab(&slab) {
                    let Some(mut next) = self.fresh() else { return Ok(()) };
                    if !self.has_room_for(reader.growth(&slab), slab.grown_bytes()) {
                        return Ok(());
                    }
                    reader.change_slab(&mut slab, &mut next);
                    self.grown.set(self.grown.get() + next.grown_bytes());
                    std::mem::swap(&mut slab, &mut next);
                    if let Some(since) = waiting_since.take() {
                        next.arrived(since, &self.counters.waits);
                    }
                    let idle = self.spent.len() + self.free.borrow().len();
                    let used = self.settings.slabs.saturating_sub(idle);
                    self.counters.ring_used.add((used * 1000 / self.settings.slabs.max(1)) as u64, 1);
                    if self.slabs.send(next).is_err() {
                        return Ok(());
                    }
                    continue;
                }
            } else if reader.wants_slab(&slab) {
                // a single message longer than a slab: room is made for it
                let before = slab.grown_bytes();
                if !self.has_room_for(reader.growth(&slab), before) {
                    return Ok(());
                }
                reader.stretch(&mut slab);
                self.grown.set(self.grown.get() + slab.grown_bytes() - before);
            }
        };
        // what came whole before the connection ended is not lost, and neither are the slabs
        if self.slabs.send(slab).is_err() {
            return Ok(());
        }
        ended
    }

    /// Waits until a slab may grow by so much, where those in other hands have grown too, which are all but `own` bytes; false
    /// where the work is over.
    fn has_room_for(&self, growth: usize, own: usize) -> bool {
        let most = usize::try_from(self.settings.most_message_bytes).unwrap_or(usize::MAX);
        let mut has_waited = false;
        // where none has grown there is room for every message that is taken
        let others = || self.grown.get().saturating_sub(own);
        while growth > 0 && others() > 0 && others().saturating_add(growth) > most {
            if !std::mem::replace(&mut has_waited, true) {
                self.counters.ring_full.add(1);
            }
            match self.spent.recv_timeout(TICK) {
                Ok(slab) => self.free.borrow_mut().push(self.cleared(slab)),
                Err(RecvTimeoutError::Timeout) if !self.stop.load(Relaxed) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// A slab that came back, as small as it was.
    fn cleared(&self, mut slab: Slab) -> Slab {
        self.grown.set(self.grown.get() - slab.grown_bytes());
        slab.clear();
        slab
    }

    /// A slab that nobody uses; waits for one. Nothing where the work is over.
    fn fresh(&self) -> Option<Slab> {
        if let Some(slab) = self.free.borrow_mut().pop() {
            return Some(slab);
        }
        if let Ok(slab) = self.spent.try_recv() {
            return Some(self.cleared(slab));
        }
        self.counters.ring_full.add(1);
        loop {
            match self.spent.recv_timeout(TICK) {
                Ok(slab) => return Some(self.cleared(slab)),
                Err(RecvTimeoutError::Timeout) if !self.stop.load(Relaxed) => {}
                Err(_) => return None,
            }
        }
    }
}
