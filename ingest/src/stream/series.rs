//! One series out of the stream: its frames in order, whatever order and company they come in.
//!
//! Pure state, no socket and no clock of its own: [`SeriesReader::take`] is told each message and when it came,
//! [`SeriesReader::look`] only the time. What comes out are [`Item`]s for the decode stage, and at last an [`Ending`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kernels::types::{Gap, GapReason, Item};

use super::kind::Kind;
use super::message::{Channel, Image, Message, SeriesKey};
use super::over::{Notice, Over, Place, begins_again, counts_again};
use crate::raw::RawBatch;

/// Frames that are handed on together, at most.
const FRAMES_PER_BATCH: usize = 128;
/// Bytes of frames from which they are handed on, however few.
const BYTES_PER_BATCH: usize = 8 << 20;
/// Most bytes of frames that wait for one that is due, whatever their number.
const MOST_AHEAD_BYTES: usize = 256 << 20;

/// How a series is read.
#[derive(Clone, Debug)]
pub struct SeriesSettings {
    /// Frames to expect. Nothing beyond is taken; the series is complete when all have come.
    pub num_frames: u64,
    /// The channel to take, such as `threshold_1`; the first of the image where none is named.
    pub channel: Option<String>,
    /// What every frame is like; as the first that comes where nothing is said.
    pub kind: Option<Kind>,
    /// Frames that may overtake one that is missing before it is given up.
    pub most_ahead: usize,
    /// How long after its end the series waits for frames that were overtaken.
    pub grace: Duration,
    /// How long the series waits for anything at all once it has begun.
    pub silence: Duration,
}

impl SeriesSettings {
    /// For so many frames: 512 may overtake, half a second of grace, ten seconds of silence.
    pub fn new(num_frames: u64) -> Self {
        let (grace, silence) = (Duration::from_millis(500), Duration::from_secs(10));
        Self { num_frames, channel: None, kind: None, most_ahead: 512, grace, silence }
    }
}

/// Why a series is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every frame has come.
    Complete,
    /// The last frame has come, and others have been given up or are of no use.
    LastFrame,
    /// The detector said that the series ends, and the grace is over.
    EndOfSeries,
    /// Nothing came for as long as was agreed.
    Silence,
    /// A message of another series came: this one will not go on.
    NextSeries,
    /// Nothing more can come: the receiver is gone, the log is at its end.
    Closed,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Complete => "every frame came",
            Self::LastFrame => "the last frame came, others are missing",
            Self::EndOfSeries => "the detector ended the series",
            Self::Silence => "the detector fell silent",
            Self::NextSeries => "the next series began",
            Self::Closed => "nothing more can come",
        })
    }
}

/// What a series has come to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesCounts {
    /// Frames that came and are used.
    pub frames: u64,
    /// Frames whose number had come before.
    pub doubled: u64,
    /// Frames that came after they were given up.
    pub late: u64,
    /// Frames with a number that the series does not have.
    pub beyond: u64,
    /// Frames of another shape, type or packing than the series: holes.
    pub unlike: u64,
    /// Images without the channel asked for.
    pub without_channel: u64,
    /// Frames that came two behind the one before: the one between went elsewhere.
    pub strided: u64,
    /// Messages of series that are over.
    pub stale: u64,
    /// Bytes of the frames that are used.
    pub bytes: u64,
}

impl SeriesCounts {
    /// Whether every other frame goes elsewhere: a second reader takes its turns.
    pub fn is_shared(&self) -> bool {
        /// Frames from which it is no chance.
        const SURE: u64 = 32;
        self.strided >= SURE && self.strided * 2 > self.frames
    }
}

/// The series that is read: its key, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedKey {
    /// The number that `arm` returned.
    pub id: u64,
    /// The unique name, in stream v2.
    pub unique_id: Option<String>,
}

impl OwnedKey {
    /// An owned copy.
    pub(crate) fn of(key: SeriesKey<'_>) -> Self {
        Self { id: key.id, unique_id: key.unique_id.map(str::to_owned) }
    }

    /// Whether both are the same series.
    pub(crate) fn is(&self, key: SeriesKey<'_>) -> bool {
        self.id == key.id && self.unique_id.as_deref() == key.unique_id
    }
}

impl std::fmt::Display for OwnedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.unique_id {
            Some(unique_id) => write!(f, "{} ({unique_id})", self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

/// Reads one series.
#[derive(Debug)]
pub struct SeriesReader {
    settings: SeriesSettings,
    /// Series that are over: what is left of them on the wire is not of this one.
    over: Over,
    /// What is to be said of the last message.
    notice: Option<Notice>,
    key: Option<OwnedKey>,
    /// What every frame is like.
    kind: Option<Kind>,
    /// Number of the frame that is due.
    next: u64,
    /// Frames from `next` on, to be handed on.
    batch: Batch,
    /// Numbers that were given up, ascending.
    holes: Vec<std::ops::Range<u64>>,
    /// Frames that came before one that is due.
    ahead: BTreeMap<u64, Came>,
    ahead_bytes: usize,
    counts: SeriesCounts,
    /// Number of the image that came last.
    last_number: Option<u64>,
    highest_number: Option<u64>,
    last_message: Option<Instant>,
    ended: Option<Instant>,
    /// A start came behind images, and none has come behind it that tells whether it began another series.
    is_in_doubt: bool,
    /// Every frame has come, or has been given up.
    is_done: bool,
}

/// A frame that came before its turn.
#[derive(Debug)]
enum Came {
    /// Its bytes.
    Frame(Vec<u8>),
    /// Why it is of no use.
    Unlike(String),
}

/// Frames on their way, one after the other.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    ranges: Vec<std::ops::Range<usize>>,
}

impl SeriesReader {
    /// Waits for the first message of a series that is not among those which are `over`.
    pub fn new(settings: SeriesSettings, over: Over) -> Self {
        Self {
            kind: settings.kind,
            settings,
            over,
            notice: None,
            key: None,
            next: 0,
            batch: Batch::default(),
            holes: Vec::new(),
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
            counts: SeriesCounts::default(),
            last_number: None,
            highest_number: None,
            last_message: None,
            ended: None,
            is_in_doubt: false,
            is_done: false,
        }
    }

    /// The series, once it has begun.
    pub fn key(&self) -> Option<&OwnedKey> {
        self.key.as_ref()
    }

    /// What has come so far.
    pub fn counts(&self) -> SeriesCounts {
        self.counts
    }

    /// What is to be said of the message that was taken last, once.
    pub fn take_notice(&mut self) -> Option<Notice> {
        self.notice.take()
    }

    /// Takes a message that came at `now`; calls `out` with what can be handed on. Returns how the series ended, if it
    /// did; after [`Ending::NextSeries`] the message has to be given to the next reader.
    pub fn take(
        &mut self,
        message: &Message<'_>,
        now: Instant,
        mut out: impl FnMut(Item<RawBatch>),
    ) -> Option<Ending> {
        let series = message.series();
        if let Place::Stale(notice) = self.over.place(message) {
            self.counts.stale += 1;
            self.notice = notice;
            return None;
        }
        match (&self.key, message) {
            (None, Message::End(_)) => {
                // the end of a series of which nothing else was seen
                self.over.add(OwnedKey::of(series), true, true);
                self.counts.stale += 1;
                return None;
            }
            (None, _) => self.key = Some(OwnedKey::of(series)),
            (Some(key), Message::Start(start)) if key.is(series) => {
                // a start that comes twice begins nothing new as long as nothing came between
                let has_images = self.last_number.is_some();
                if begins_again(series, has_images, self.ended.is_some()) {
                    self.finish(&mut out);
                    return Some(Ending::NextSeries);
                }
                if has_images {
                    let (series, num_images) = (key.clone(), start.num_images);
                    self.notice = Some(Notice::Start { series, num_images });
                    self.is_in_doubt = true;
                }
            }
            (Some(_), Message::Image(image)) if self.begins_again(image) => {
                self.finish(&mut out);
                return Some(Ending::NextSeries);
            }
            (Some(key), _) if key.is(series) => {}
            (Some(_), Message::End(_)) => {
                // the end of a series that is not this one says nothing of it
                self.over.add(OwnedKey::of(series), true, true);
                self.counts.stale += 1;
                return None;
            }
            (Some(_), _) => {
                self.finish(&mut out);
                return Some(Ending::NextSeries);
            }
        }
        self.last_message = Some(now);
        match message {
            Message::Start(_) => {}
            Message::End(_) => self.ended = self.ended.or(Some(now)),
            Message::Image(image) => self.take_image(image, &mut out),
        }
        (self.next == self.settings.num_frames).then(|| {
            self.hand_on(&mut out);
            self.is_done = true;
            if self.holes.is_empty() { Ending::Complete } else { Ending::LastFrame }
        })
    }

    /// The series that is read, where an image is of another one that is not over.
    pub(super) fn other_than(&self, image: &Image<'_>) -> Option<&OwnedKey> {
        self.key.as_ref().filter(|key| !key.is(image.series) && !self.over.knows(image.series))
    }

    /// Counts a message of another series, which is not taken.
    pub(super) fn pass_over_one(&mut self) {
        self.counts.stale += 1;
    }

    /// Whether an image shows that the start before it began another series.
    pub(super) fn begins_again(&self, image: &Image<'_>) -> bool {
        let is_of_it = self.key.as_ref().is_some_and(|key| key.is(image.series));
        self.is_in_doubt && is_of_it && counts_again(image.number, self.highest_number)
    }

    /// Hands on what waits, and looks whether the series is over at `now`.
    pub fn look(&mut self, now: Instant, mut out: impl FnMut(Item<RawBatch>)) -> Option<Ending> {
        self.hand_on(&mut out);
        let since = |then: Option<Instant>| then.map(|then| now.saturating_duration_since(then));
        let ending = if since(self.ended).is_some_and(|since| since >= self.settings.grace) {
            Ending::EndOfSeries
        } else if since(self.last_message).is_some_and(|since| since >= self.settings.silence) {
            Ending::Silence
        } else {
            return None;
        };
        self.finish(&mut out);
        Some(ending)
    }

    /// Nothing more will come: hands on everything, what has not come is missing.
    pub fn close(&mut self, mut out: impl FnMut(Item<RawBatch>)) {
        self.finish(&mut out);
    }

    /// Series that are over once this one is.
    pub fn into_over(mut self) -> Over {
        if let Some(key) = self.key {
            self.over.add(key, self.ended.is_some(), self.is_done);
        }
        self.over
    }

    fn take_image(&mut self, image: &Image<'_>, out: &mut impl FnMut(Item<RawBatch>)) {
        let last = self.last_number.replace(image.number);
        self.highest_number = self.highest_number.max(Some(image.number));
        self.is_in_doubt = false;
        self.counts.strided += u64::from(last.is_some_and(|last| last.checked_add(2) == Some(image.number)));
        match image.number {
            number if number >= self.settings.num_frames => self.counts.beyond += 1,
            number if number < self.next => match self.is_hole(number) {
                true => self.counts.late += 1,
                false => self.counts.doubled += 1,
            },
            number if number == self.next => {
                match self.frame_of(image) {
                    Ok(bytes) => {
                        self.used(bytes.len());
                        self.push(bytes, out);
                    }
                    Err(why) => self.gap_until(number + 1, &GapReason::Unlike(why), out),
                }
                self.catch_up(out);
            }
            number => {
                if let Some(Came::Frame(_)) = self.ahead.get(&number) {
                    self.counts.doubled += 1;
                    return;
                }
                let came = match self.frame_of(image) {
                    Ok(bytes) => Came::Frame(bytes.to_vec()),
                    Err(why) => Came::Unlike(why),
                };
                if let Came::Frame(bytes) = &came {
                    self.used(bytes.len());
                    self.ahead_bytes += bytes.len();
                }
                self.ahead.insert(number, came);
                if self.ahead.len() > self.settings.most_ahead || self.ahead_bytes > MOST_AHEAD_BYTES {
                    self.give_up(out);
                    self.catch_up(out);
                }
            }
        }
    }

    /// The bytes of the frame that is wanted, or why there are none.
    fn frame_of<'a>(&mut self, image: &Image<'a>) -> Result<&'a [u8], String> {
        let wanted =
            |channel: &&Channel<'_>| self.settings.channel.as_deref().is_none_or(|name| channel.name == name);
        let Some(channel) = image.channels().find(wanted) else {
            self.counts.without_channel += 1;
            let name = self.settings.channel.as_deref().unwrap_or_default();
            return Err(format!("the image came without {name}"));
        };
        let kind = Kind::of(channel);
        let expected = *self.kind.get_or_insert(kind);
        if kind != expected {
            self.counts.unlike += 1;
            return Err(format!("got a frame of {kind}, expected {expected}"));
        }
        Ok(channel.packed.bytes)
    }

    fn is_hole(&self, number: u64) -> bool {
        let at = self.holes.partition_point(|hole| hole.end <= number);
        self.holes.get(at).is_some_and(|hole| hole.contains(&number))
    }

    fn used(&mut self, bytes: usize) {
        self.counts.frames += 1;
        self.counts.bytes += bytes as u64;
    }

    /// Puts the frame that is due into the batch.
    fn push(&mut self, bytes: &[u8], out: &mut impl FnMut(Item<RawBatch>)) {
        let start = self.batch.bytes.len();
        self.batch.bytes.extend_from_slice(bytes);
        self.batch.ranges.push(start..start + bytes.len());
        self.next += 1;
        if self.batch.ranges.len() == FRAMES_PER_BATCH || self.batch.bytes.len() >= BYTES_PER_BATCH {
            self.hand_on(out);
        }
    }

    /// Puts the frames that came before their turn behind those whose turn it was.
    fn catch_up(&mut self, out: &mut impl FnMut(Item<RawBatch>)) {
        while let Some(came) = self.ahead.remove(&self.next) {
            match came {
                Came::Frame(bytes) => {
                    self.ahead_bytes -= bytes.len();
                    self.push(&bytes, out);
                }
                Came::Unlike(why) => self.gap_until(self.next + 1, &GapReason::Unlike(why), out),
            }
        }
    }

    /// Gives up the frames before the first that came.
    fn give_up(&mut self, out: &mut impl FnMut(Item<RawBatch>)) {
        if let Some((&first, _)) = self.ahead.first_key_value() {
            let reason = GapReason::NotReceived("later frames came instead".to_owned());
            self.gap_until(first, &reason, out);
        }
    }

    fn gap_until(&mut self, end: u64, reason: &GapReason, out: &mut impl FnMut(Item<RawBatch>)) {
        if end > self.next {
            self.hand_on(out);
            out(Item::Gap(Gap { first: self.next, count: end - self.next, reason: reason.clone() }));
            match self.holes.last_mut().filter(|last| last.end == self.next) {
                Some(last) => last.end = end,
                None => self.holes.push(self.next..end),
            }
            self.next = end;
        }
    }

    /// Hands on the batch, if there is one.
    fn hand_on(&mut self, out: &mut impl FnMut(Item<RawBatch>)) {
        let Some(Kind { encoding, count_type, detector }) = self.kind else { return };
        if self.batch.ranges.is_empty() {
            return;
        }
        let Batch { bytes, ranges } = std::mem::take(&mut self.batch);
        let first = self.next - ranges.len() as u64;
        out(Item::Data(RawBatch::new(first, encoding, count_type, detector, bytes, ranges)));
    }

    /// Hands on everything; what has not come is missing.
    fn finish(&mut self, out: &mut impl FnMut(Item<RawBatch>)) {
        while !self.ahead.is_empty() {
            self.give_up(out);
            self.catch_up(out);
        }
        self.hand_on(out);
        let reason = GapReason::NotReceived("the series ended before".to_owned());
        self.gap_until(self.settings.num_frames, &reason, out);
    }
}

#[cfg(test)]
mod tests;
