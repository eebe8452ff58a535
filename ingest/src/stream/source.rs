//! The source of a live acquisition: series after series out of the slabs that were received.
//!
//! [`StreamSource::next_series`] waits for the first image of a series and tells what is known of it;
//! [`StreamSource::read_series`] sends its frames, in order, and returns when it is over.

mod listener;
mod pending;
mod reading;

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use kernels::bslz4_decode::decode_frame;
use kernels::types::{CountType, DetectorShape, Item};

use super::kind::{ChannelKind, Kinds};
use super::message::{Message, MessageError, SeriesKey, Start};
use super::over::{Notice, Over, Place, begins_again};
use super::receive::Received;
use super::series::{Ending, OwnedKey, SeriesCounts, SeriesSettings};
use super::threshold::shown;
use crate::counters::Counter;
use crate::raw::RawBatch;
use listener::Listener;
use pending::{Pending, Taken, Waited};
pub use reading::ChannelReading;
use reading::{Readings, Verdict};

/// How often a waiting source looks at the clock and the stop flag.
const TICK: Duration = Duration::from_millis(20);
/// As long as it is to be settled what the frames of a series are like.
const SHORT_TICK: Duration = Duration::from_millis(5);

/// Images of the series that is read behind one of another from which that one is a stray: more than come late.
const GOES_ON: usize = 16;
/// How long nothing must come before fewer are enough.
const QUIET: Duration = Duration::from_millis(200);

/// A series that has begun.
#[derive(Clone, Debug, PartialEq)]
pub struct Announced {
    /// The series.
    pub key: OwnedKey,
    /// Images of the series, where its start says so.
    pub num_images: Option<u64>,
    /// Shape of an image, of the first channel.
    pub detector: Option<DetectorShape>,
    /// Type of the counts, of the first channel.
    pub count_type: Option<CountType>,
    /// What the frames of each channel are like; known once images came.
    pub channels: Vec<ChannelKind>,
    /// Whether the series has channels beside these.
    pub has_others: bool,
    /// Energy of the electrons, eV.
    pub incident_energy_ev: Option<f64>,
    /// The detector's own words about itself.
    pub description: Option<String>,
    /// Its serial number.
    pub serial_number: Option<String>,
    /// Number of its first image among the messages of the source, as [`StreamSource::count_from`] has them.
    pub first_message: u64,
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
            count_type: start.count_type,
            channels: Vec::new(),
            has_others: false,
            incident_energy_ev: start.incident_energy_ev,
            description: start.description.map(str::to_owned),
            serial_number: start.serial_number.map(str::to_owned),
            pixel_mask: pixel_mask(start),
            first_message: 0,
        }
    }

    /// What a person should know of how it was found out what its frames are like.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.channels.iter().filter_map(|channel| channel.note.as_deref())
    }

    /// The same series with one of its channels, for those that read no other.
    pub fn of_channel(&self, channel: &ChannelKind) -> Self {
        let mut one = Self { has_others: self.has_others || self.channels.len() > 1, ..self.clone() };
        one.settle(vec![channel.clone()]);
        one
    }

    /// The name of its first channel.
    pub fn channel(&self) -> &str {
        shown(self.channels.first().map_or("", |channel| &channel.name))
    }

    /// How to read so many frames of its first channel.
    pub fn reading(&self, num_frames: u64) -> SeriesSettings {
        let first = self.channels.first();
        SeriesSettings {
            channel: first.map(|channel| channel.name.clone()),
            kind: first.map(|channel| channel.kind),
            ..SeriesSettings::new(num_frames)
        }
    }

    /// Settles what its frames are like.
    fn settle(&mut self, channels: Vec<ChannelKind>) {
        if let Some(first) = channels.first() {
            let detector = first.kind.detector;
            (self.detector, self.count_type) = (Some(detector), Some(first.kind.count_type));
            self.pixel_mask.take_if(|mask| mask.len() != detector.pixels());
        }
        self.channels = channels;
    }

    /// A series whose start was missed.
    fn by_image(key: SeriesKey<'_>) -> Self {
        Self {
            key: OwnedKey::of(key),
            num_images: None,
            detector: None,
            count_type: None,
            channels: Vec::new(),
            has_others: false,
            incident_energy_ev: None,
            description: None,
            serial_number: None,
            pixel_mask: None,
            first_message: 0,
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
    pending: Pending,
    stop: Arc<AtomicBool>,
    over: Over,
    /// The next series, where its start came before it was known to be one.
    begun: Option<(Announced, Kinds)>,
    /// The series that was announced last, and the names of its channels.
    known: Option<(OwnedKey, Vec<String>)>,
    listener: Listener,
    /// Messages that were not understood.
    garbage: Arc<Counter>,
    last_error: Option<MessageError>,
    /// Kinds of them that were told of since the last series began.
    told_errors: Vec<Discriminant<MessageError>>,
}

impl StreamSource {
    /// A source that reads what is received until `stop` is raised.
    pub fn new(received: Received, stop: Arc<AtomicBool>) -> Self {
        Self {
            pending: Pending::new(received),
            stop,
            over: Over::default(),
            begun: None,
            known: None,
            listener: Listener::default(),
            garbage: Arc::default(),
            last_error: None,
            told_errors: Vec::new(),
        }
    }

    /// Messages that were not understood, so far.
    pub fn garbage(&self) -> Arc<Counter> {
        Arc::clone(&self.garbage)
    }

    /// Who is told what a person should know of the stream; it is logged, too.
    pub fn on_notice(&mut self, told: impl Fn(&Notice) + Send + 'static) {
        self.listener = Listener::new(told);
    }

    /// Takes nothing of this series from now on, unless it begins again.
    pub fn pass_over(&mut self, key: OwnedKey) {
        let begins_again = self.begun.as_ref().is_some_and(|(begun, _)| begun.key == key);
        if !begins_again && !self.over.contains(&key) {
            self.over.add(key, false, true);
        }
    }

    /// Says which number the first message has, before any was read: where a recorder stands before the source, its next.
    pub fn count_from(&mut self, number: u64) {
        self.pending.count_from(number);
    }

    /// What was wrong with the last message that was not understood.
    pub fn last_error(&self) -> Option<&MessageError> {
        self.last_error.as_ref()
    }

    /// Waits for the first images of a series, which are not taken; what its start said is in the answer where it was heard.
    /// Calls `heard` with each start: the detector is armed, no image has come. Nothing comes back once the stop flag is
    /// raised or the receiver is gone.
    pub fn next_series(&mut self, mut heard: impl FnMut(&Announced)) -> Option<Announced> {
        let mut begun = self.begun.take();
        if let Some((begun, _)) = &begun {
            heard(begun);
        }
        loop {
            let mut over = std::mem::take(&mut self.over);
            let mut announced = None;
            let more = self.for_each_message(|message, listener| {
                let series = message.series();
                if let Place::Stale(notice) = over.place(message) {
                    notice.iter().for_each(|notice| listener.tell(notice));
                    return Taken::Yes;
                }
                match message {
                    Message::Start(start) => {
                        heard(&begun.insert((Announced::by_start(start), Kinds::of_start(start))).0);
                    }
                    Message::End(_) => {
                        // ended before its first image: cancelled, or all lost
                        begun.take_if(|(begun, _)| begun.key.is(series));
                        over.add(OwnedKey::of(series), true, true);
                    }
                    Message::Image(_) => {
                        let of_start = begun.take().filter(|(begun, _)| begun.key.is(series));
                        let nothing = || (Announced::by_image(series), Kinds::default());
                        announced = Some(of_start.unwrap_or_else(nothing));
                        return Taken::No;
                    }
                }
                Taken::Yes
            });
            self.over = over;
            if let Some((mut series, kinds)) = announced {
                series.first_message = self.pending.next_number();
                let channels = self.settled(&series.key, kinds)?;
                let names = channels.iter().map(|channel| channel.name.clone()).collect();
                self.known = Some((series.key.clone(), names));
                series.settle(channels);
                return Some(series);
            }
            if !more {
                return None;
            }
        }
    }

    /// Looks at the first images of a series, without taking them, until it is settled what its frames are like. Nothing
    /// where the stop flag is raised.
    fn settled(&mut self, key: &OwnedKey, mut kinds: Kinds) -> Option<Vec<ChannelKind>> {
        let mut seen = 0;
        loop {
            let now = Instant::now();
            let mut is_over = false;
            seen = self.pending.look(seen, |message| {
                match message {
                    Message::Image(image) if key.is(image.series) => kinds.take(image, now),
                    Message::End(series) if key.is(*series) => is_over = true,
                    Message::Start(start) if key.is(start.series) => {
                        is_over = begins_again(start.series, true, false);
                    }
                    // of another series, or garbage between
                    _ => {}
                }
                !is_over && !kinds.is_settled(now)
            });
            if is_over || kinds.is_settled(Instant::now()) {
                return Some(kinds.channels());
            }
            if self.stop.load(Relaxed) {
                return None;
            }
            match self.pending.more(SHORT_TICK) {
                Waited::Came | Waited::Nothing => {}
                Waited::Full | Waited::Gone => return Some(kinds.channels()),
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
        let reading = ChannelReading { settings, frames: frames.clone(), counts: Arc::default() };
        self.read_channels(vec![reading]).pop().flatten()
    }

    /// Sends the frames of the next series, channel by channel, until all of them are over, each for its own reason; what has
    /// not come of a channel is sent there as gaps. Nothing comes back of one where the stop flag is raised or nobody
    /// listens to it.
    ///
    /// A channel whose frames are not taken holds up the others.
    pub fn read_channels(&mut self, channels: Vec<ChannelReading>) -> Vec<Option<SeriesEnd>> {
        let mut readings = Readings::new(channels, std::mem::take(&mut self.over), self.known.take());
        while !readings.are_over() {
            let more = self.for_each_message(|message, listener| readings.take(message, listener));
            if let Some(suspect) = readings.suspect() {
                suspect.verdict = self.judge(&suspect.running, &suspect.other);
            }
            readings.look();
            if !more {
                readings.close((!self.stop.load(Relaxed)).then_some(&Ending::Closed));
            }
        }
        self.told_errors.clear();
        let (ends, over, begun) = readings.into_ends();
        (self.over, self.begun) = (over, begun);
        ends
    }

    /// Whether the next message, an image of another series of which no start came, begins that: looks at what comes behind it,
    /// without taking it. Nothing where that does not say yet.
    fn judge(&mut self, running: &OwnedKey, other: &OwnedKey) -> Option<Verdict> {
        let (mut of_running, mut of_other, mut seen) = (0, 0, 0);
        let mut last = Instant::now();
        loop {
            seen = self.pending.look(seen, |message| {
                match message {
                    Message::Image(image) if running.is(image.series) => of_running += 1,
                    Message::Image(image) if other.is(image.series) => of_other += 1,
                    // a start or an end is no chance
                    _ if other.is(message.series()) => of_other += 2,
                    _ => {}
                }
                of_other < 2 && of_running < GOES_ON
            });
            if of_other >= 2 {
                return Some(Verdict::Next);
            }
            if of_running >= GOES_ON {
                return Some(Verdict::Stray);
            }
            let by_what_came = if of_running > 0 { Verdict::Stray } else { Verdict::Next };
            match self.pending.more(SHORT_TICK) {
                Waited::Came => last = Instant::now(),
                Waited::Nothing if last.elapsed() < QUIET => {}
                Waited::Nothing => return (of_running > 0).then_some(Verdict::Stray),
                Waited::Full | Waited::Gone => return Some(by_what_came),
            }
            if self.stop.load(Relaxed) {
                return None;
            }
        }
    }

    /// Hands over messages until one is not taken, or those received so far are all taken, or a moment has passed.
    /// False once no more can come.
    fn for_each_message(&mut self, mut each: impl FnMut(&Message<'_>, &Listener) -> Taken) -> bool {
        match self.pending.wait(TICK) {
            Waited::Came | Waited::Full => {}
            Waited::Nothing => return !self.stop.load(Relaxed),
            Waited::Gone => return false,
        }
        let Self { pending, listener, garbage, last_error, told_errors, .. } = self;
        let mut was_left = false;
        pending.take_each(|message| {
            let taken = match message {
                Ok(message) => each(&message, listener),
                Err(error) => {
                    garbage.add(1);
                    if !told_errors.contains(&discriminant(&error)) {
                        told_errors.push(discriminant(&error));
                        listener.tell(&Notice::NotUnderstood { why: error.to_string() });
                    }
                    *last_error = Some(error);
                    Taken::Yes
                }
            };
            was_left = !matches!(taken, Taken::Yes);
            taken
        });
        was_left || !self.stop.load(Relaxed)
    }
}

#[cfg(test)]
mod tests;
