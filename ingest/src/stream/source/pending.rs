//! Messages that were received and not taken yet.

use std::collections::VecDeque;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;

use super::super::message::{Message, MessageError, parse};
use super::super::receive::Received;
use super::super::slab::Slab;

/// Slabs with messages, oldest first: read one after the other, or looked into before they are.
#[derive(Debug)]
pub(super) struct Pending {
    received: Received,
    slabs: VecDeque<Slab>,
    /// Number of the first message of the first slab.
    first: u64,
    /// Messages of the first slab that are taken.
    taken: usize,
    /// Slabs that are held at a time, at most: the others are for what comes.
    most_slabs: usize,
}

/// What waiting for messages came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// There are some.
    Came,
    /// Nothing came in time.
    Nothing,
    /// There is no room for more before some are taken.
    Full,
    /// No more can come.
    Gone,
}

/// What became of a message.
pub(super) enum Taken {
    /// It is done with.
    Yes,
    /// It is done with, and the next one is for somebody else.
    AndEnough,
    /// It is left for somebody else.
    No,
}

impl Pending {
    pub(super) fn new(received: Received) -> Self {
        let most_slabs = received.slabs.capacity().map_or(usize::MAX, |slabs| slabs / 2).max(1);
        Self { received, slabs: VecDeque::new(), first: 0, taken: 0, most_slabs }
    }

    /// Says which number the first message has.
    pub(super) fn count_from(&mut self, number: u64) {
        self.first = number;
    }

    /// Number of the next message that is taken.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.taken as u64
    }

    /// Waits until there is a slab.
    pub(super) fn wait(&mut self, patience: Duration) -> Waited {
        if self.slabs.is_empty() { self.more(patience) } else { Waited::Came }
    }

    /// Waits for another slab.
    pub(super) fn more(&mut self, patience: Duration) -> Waited {
        if self.slabs.len() >= self.most_slabs {
            return Waited::Full;
        }
        match self.received.slabs.recv_timeout(patience) {
            Ok(mut slab) => {
                slab.taken();
                self.slabs.push_back(slab);
                Waited::Came
            }
            Err(RecvTimeoutError::Timeout) => Waited::Nothing,
            Err(RecvTimeoutError::Disconnected) => Waited::Gone,
        }
    }

    /// Hands over the messages of the first slab until one is not taken, or all are; the slab goes back then.
    pub(super) fn take_each(&mut self, mut each: impl FnMut(Result<Message<'_>, MessageError>) -> Taken) {
        let Some(slab) = self.slabs.front() else { return };
        for parts in slab.messages().skip(self.taken) {
            let taken = each(parse(parts));
            self.taken += usize::from(!matches!(taken, Taken::No));
            if !matches!(taken, Taken::Yes) {
                return;
            }
        }
        self.taken = 0;
        if let Some(slab) = self.slabs.pop_front() {
            self.first += slab.num_messages() as u64;
            // nobody receives any more: then nobody needs it
            let _ = self.received.spent.send(slab);
        }
    }

    /// Shows the messages that are there, without the first `seen` of them, until `each` has seen enough. Returns how many
    /// were seen, those before included.
    pub(super) fn look(&self, seen: usize, mut each: impl FnMut(&Message<'_>) -> bool) -> usize {
        let all = self.slabs.iter().flat_map(Slab::messages).skip(self.taken);
        let mut now_seen = seen;
        for parts in all.skip(seen) {
            now_seen += 1;
            // what is not understood is counted when it is taken
            if parse(parts).is_ok_and(|message| !each(&message)) {
                break;
            }
        }
        now_seen
    }
}
