//! The source of a live acquisition: series after series out of the slabs that were received.
//!
//! [`StreamSource::next_series`] waits for the first image of a series and tells what is known of it;
//! [`StreamSource::read_series`] sends its frames, in order, and returns when it is over.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender};
use kernels::bslz4_decode::decode_frame;
use kernels::types::{CountType, DetectorShape, Item};

use super::message::{Image, Message, MessageError, SeriesKey, Start, parse};
use super::receive::Received;
use super::series::{Ending, OwnedKey, SeriesCounts, SeriesReader, SeriesSettings, is_begun_again, remember};
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
    /// The detector's own words about itself.
    pub description: Option<String>,
    /// Its serial number.
    pub serial_number: Option<String>,
    /// The detector's own mask of the shape of an image, 0 is good; where the start brought one that can be read.
    pub pixel_mask: Option<Vec<u32>>,
}

impl Announced {
    /// What a start says.
    fn by_start(start: &Start<'_>) -> Self {
        Self {
            key: OwnedKey::of(start.series),
            num_images: start.num_images,
            detector: start.detector,
            count_type: None,
            incident_energy_ev: start.incident_energy_ev,
            description: start.description.map(str::to_owned),
            serial_number: start.serial_number.map(str::to_owned),
            pixel_mask: pixel_mask(start),
        }
    }

    /// Whether an image has another shape than the start said.
    fn is_unlike(&self, image: &Image<'_>) -> bool {
        let shape = image.channels().next().map(|channel| channel.detector);
        self.detector.is_some() && shape.is_some() && self.detector != shape
    }

    /// A series whose start was missed.
    fn by_image(key: SeriesKey<'_>) -> Self {
        Self {
            key: OwnedKey::of(key),
            num_images: None,
            detector: None,
            count_type: None,
            incident_energy_ev: None,
            description: None,
            serial_number: None,
            pixel_mask: None,
        }
    }
}

/// The mask of a start, decoded.
fn pixel_mask(start: &Start<'_>) -> Option<Vec<u32>> {
    /// Pixels of the largest detector there is, and some.
    const MOST_PIXELS: usize = 1 << 26;
    let packed = start.pixel_mask?;
    let pixels =
        start.detector?.rows.checked_mul(start.detector?.cols).filter(|&pixels| pixels <= MOST_PIXELS)?;
    let mut mask = vec![0; pixels];
    match decode_frame(packed.encoding, packed.bytes, &mut mask) {
        Ok(()) => Some(mask),
        Err(error) => {
            tracing::warn!(
                "the pixel mask of the stream cannot be read, every pixel counts as good: {error}"
            );
            None
        }
    }
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
    /// What the series that is read has come to so far.
    live_counts: Arc<Mutex<SeriesCounts>>,
}

impl StreamSource {
    /// A source that reads what is received until `stop` is raised.
    pub fn new(received: Received, stop: Arc<AtomicBool>) -> Self {
        Self {
            received,
            stop,
            current: None,
            over: Vec::new(),
            garbage: Arc::default(),
            last_error: None,
            live_counts: Arc::default(),
        }
    }

    /// Messages that were not understood, so far.
    pub fn garbage(&self) -> Arc<Counter> {
        Arc::clone(&self.garbage)
    }

    /// What the series that is read has come to, or the last one did; brought up to date with every slab.
    pub fn live_counts(&self) -> Arc<Mutex<SeriesCounts>> {
        Arc::clone(&self.live_counts)
    }

    /// Takes nothing of this series from now on.
    pub fn pass_over(&mut self, key: OwnedKey) {
        if !self.over.contains(&key) {
            remember(&mut self.over, key);
        }
    }

    /// What was wrong with the last message that was not understood.
    pub fn last_error(&self) -> Option<&MessageError> {
        self.last_error.as_ref()
    }

    /// Waits for the first image of a series, which is not taken; what its start said is in the answer where it was heard.
    /// Calls `heard` with each start: the detector is armed, no image has come. Nothing comes back once the stop flag is
    /// raised or the receiver is gone.
    pub fn next_series(&mut self, mut heard: impl FnMut(&Announced)) -> Option<Announced> {
        let mut begun: Option<Announced> = None;
        loop {
            let mut over = std::mem::take(&mut self.over);
            let mut announced = None;
            let more = self.for_each_message(|message| {
                let series = message.series();
                if is_begun_again(message) {
                    over.retain(|over| !over.is(series));
                }
                if over.iter().any(|over| over.is(series)) {
                    return Taken::Yes;
                }
                match message {
                    Message::Start(start) => heard(begun.insert(Announced::by_start(start))),
                    Message::End(_) => {
                        // ended before its first image: cancelled, or all lost
                        begun.take_if(|begun| begun.key.is(series));
                        remember(&mut over, OwnedKey::of(series));
                    }
                    Message::Image(image)
                        if begun
                            .as_ref()
                            .is_some_and(|begun| begun.key.is(series) && begun.is_unlike(image)) =>
                    {
                        // one odd frame must not decide what all others are taken for; it is missing
                    }
                    Message::Image(image) => {
                        let of_start = begun.take().filter(|begun| begun.key.is(series));
                        let mut series = of_start.unwrap_or_else(|| Announced::by_image(series));
                        if let Some(channel) = image.channels().next() {
                            series.detector = Some(channel.detector);
                            series.count_type = Some(channel.count_type);
                            series.pixel_mask.take_if(|mask| mask.len() != channel.detector.pixels());
                        }
                        announced = Some(series);
                        return Taken::No;
                    }
                }
                Taken::Yes
            });
            self.over = over;
            if announced.is_some() || !more {
                return announced;
            }
        }
    }

    /// Sends the frames of the next series until it is over; what has not come is sent as gaps. Nothing comes back once
    /// the stop flag is raised or nobody listens.
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
            *self.live_counts.lock().unwrap_or_else(PoisonError::into_inner) = reader.counts();
            if ending.is_none() && !more {
                // frames that overtook one that is missing have come, too
                reader.close(&mut send);
                break (!self.stop.load(Relaxed)).then_some(Ending::Closed);
            }
            if ending.is_some() || !is_listening {
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
                Ok(mut slab) => {
                    slab.taken();
                    self.current = Some((slab, 0));
                }
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
