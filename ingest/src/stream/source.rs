//! The source of a live acquisition: series after series out of the slabs that were received.
//!
//! [`StreamSource::next_series`] waits for a series to begin and tells what is known of it;
//! [`StreamSource::read_series`] sends its frames, in order, and returns when it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender};
use kernels::types::{CountType, DetectorShape, Item};

use super::message::{Message, MessageError, parse};
use super::receive::Received;
use super::series::{Ending, OwnedKey, SeriesCounts, SeriesReader, SeriesSettings};
use super::slab::Slab;
use crate::counters::Counter;
use crate::raw::RawBatch;

/// How often a waiting source looks at the clock and the stop flag.
const TICK: Duration = Duration::from_millis(20);

/// A series that has begun.
#[derive(Clone, Debug, PartialEq)]
pub struct Announced {
    /// The series.
    pub key: OwnedKey,
    /// Images of the series, where its start says so.
    pub num_images: Option<u64>,
    /// Shape of an image.
    pub detector: Option<DetectorShape>,
    /// Type of the counts; known from the first image alone.
    pub count_type: Option<CountType>,
    /// Energy of the electrons, eV.
    pub incident_energy_ev: Option<f64>,
}

/// How a series ended, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesEnd {
    /// Why it is over.
    pub ending: Ending,
    /// What came.
    pub counts: SeriesCounts,
}

/// Reads series out of slabs.
#[derive(Debug)]
pub struct StreamSource {
    received: Received,
    stop: Arc<AtomicBool>,
    /// The slab that is being read, and the first of its messages that has not been taken.
    current: Option<(Slab, usize)>,
    over: Vec<OwnedKey>,
    /// Messages that were not understood.
    garbage: Arc<Counter>,
    last_error: Option<MessageError>,
}

impl StreamSource {
    /// A source that reads what is received until `stop` is raised.
    pub fn new(received: Received, stop: Arc<AtomicBool>) -> Self {
        Self { received, stop, current: None, over: Vec::new(), garbage: Arc::default(), last_error: None }
    }

    /// Messages that were not understood, so far.
    pub fn garbage(&self) -> Arc<Counter> {
        Arc::clone(&self.garbage)
    }

    /// What was wrong with the last message that was not understood.
    pub fn last_error(&self) -> Option<&MessageError> {
        self.last_error.as_ref()
    }

    /// Waits for a series to begin, by its start or, where that was missed, by one of its images. Nothing of it is taken.
    /// Nothing comes back once the stop flag is raised or the receiver is gone.
    pub fn next_series(&mut self) -> Option<Announced> {
        loop {
            let mut announced = None;
            let over = self.over.clone();
            let more = self.for_each_message(|message| {
                let series = message.series();
                if over.iter().any(|over| over.is(series)) || matches!(message, Message::End(_)) {
                    return Taken::Yes;
                }
                let mut begun = Announced {
                    key: OwnedKey::of(series),
                    num_images: None,
                    detector: None,
                    count_type: None,
                    incident_energy_ev: None,
                };
                match message {
                    Message::Start(start) => {
                        begun.num_images = start.num_images;
                        begun.detector = start.detector;
                        begun.incident_energy_ev = start.incident_energy_ev;
                    }
                    Message::Image(image) => {
                        if let Some(channel) = image.channels().next() {
                            begun.detector = Some(channel.detector);
                            begun.count_type = Some(channel.count_type);
                        }
                    }
                    Message::End(_) => {}
                }
                announced = Some(begun);
                Taken::No
            });
            if announced.is_some() {
                return announced;
            }
            if !more {
                return None;
            }
        }
    }

    /// Sends the frames of the next series until it is over; what has not come is sent as gaps. Nothing comes back once
    /// the stop flag is raised, the receiver is gone, or nobody listens.
    pub fn read_series(
        &mut self,
        settings: SeriesSettings,
        frames: &Sender<Item<RawBatch>>,
    ) -> Option<SeriesEnd> {
        let mut reader = SeriesReader::new(settings, std::mem::take(&mut self.over));
        let mut is_listening = true;
        let ending = loop {
            let mut ending = None;
            let mut send = |item| is_listening &= frames.send(item).is_ok();
            let more = self.for_each_message(|message| {
                ending = reader.take(message, Instant::now(), &mut send);
                match ending {
                    None => Taken::Yes,
                    Some(Ending::NextSeries) => Taken::No,
                    Some(_) => Taken::AndEnough,
                }
            });
            let ending = ending.or_else(|| reader.look(Instant::now(), &mut send));
            if ending.is_some() || !more || !is_listening {
                break ending;
            }
        };
        let counts = reader.counts();
        self.over = reader.into_over();
        ending.map(|ending| SeriesEnd { ending, counts })
    }

    /// Hands over messages until one is not taken, or those received so far are all taken, or a moment has passed.
    /// False once no more can come.
    fn for_each_message(&mut self, mut each: impl FnMut(&Message<'_>) -> Taken) -> bool {
        if self.current.is_none() {
            match self.received.slabs.recv_timeout(TICK) {
                Ok(slab) => self.current = Some((slab, 0)),
                Err(RecvTimeoutError::Timeout) => return !self.stop.load(Relaxed),
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        let Some((slab, at)) = &mut self.current else { return true };
        for parts in slab.messages().skip(*at) {
            let taken = match parse(parts) {
                Ok(message) => each(&message),
                Err(error) => {
                    self.garbage.add(1);
                    self.last_error = Some(error);
                    Taken::Yes
                }
            };
            *at += usize::from(!matches!(taken, Taken::No));
            if !matches!(taken, Taken::Yes) {
                return true;
            }
        }
        if let Some((slab, _)) = self.current.take() {
            // nobody receives any more: then nobody needs it
            let _ = self.received.spent.send(slab);
        }
        !self.stop.load(Relaxed)
    }
}

/// What became of a message.
enum Taken {
    Yes,
    AndEnough,
    No,
}

#[cfg(test)]
mod tests;
