//! One reading of a series for all of its channels that are wanted: each message is parsed once, and each channel's bytes are
//! copied once, to where that channel's frames go.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crossbeam_channel::Sender;
use kernels::types::Item;

use super::super::kind::Kinds;
use super::super::message::{Image, Message};
use super::super::over::{Notice, Over};
use super::super::series::{Ending, OwnedKey, SeriesCounts, SeriesReader, SeriesSettings};
use super::listener::Listener;
use super::pending::Taken;
use super::{Announced, SeriesEnd};
use crate::raw::RawBatch;

/// A channel that is read.
#[derive(Debug)]
pub struct ChannelReading {
    /// How; [`Announced::reading`](super::Announced::reading) knows.
    pub settings: SeriesSettings,
    /// Where its frames go.
    pub frames: Sender<Item<RawBatch>>,
    /// What it has come to so far; brought up to date with every slab.
    pub counts: Arc<Mutex<SeriesCounts>>,
}

/// The channels of a series on their way.
#[derive(Debug)]
pub(super) struct Readings {
    channels: Vec<Reading>,
    /// What is over, as the channel knows it that was read the longest.
    over: Over,
    /// The series and the names of its channels; those that come beside them are added.
    known: Option<(OwnedKey, Vec<String>)>,
    /// The start that came last.
    start: Option<Box<(Announced, Kinds)>>,
    /// Whether an image has shown that it began the next series.
    has_begun_next: bool,
    /// What is asked of an image of another series, of which no start came.
    suspect: Option<Suspect>,
    has_told_of_stray: bool,
}

/// An image of another series in the middle of one, of which no start came.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    /// The series that is read.
    pub(super) running: OwnedKey,
    /// That of the image.
    pub(super) other: OwnedKey,
    /// What it is, once that is known.
    pub(super) verdict: Option<Verdict>,
}

/// What an image of another series is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: the series that is read goes on behind it.
    Stray,
    /// The first of the next series, whose start was lost.
    Next,
}

/// Channels of a series that are known or told of, at most.
const MOST_NAMES: usize = 16;
/// Letters of a name that are told, at most: more than any has that is taken.
const MOST_NAME_CHARS: usize = 64;

#[derive(Debug)]
struct Reading {
    counts: Arc<Mutex<SeriesCounts>>,
    /// Gone when it is over.
    running: Option<Running>,
    end: Option<SeriesEnd>,
}

#[derive(Debug)]
struct Running {
    reader: SeriesReader,
    frames: Sender<Item<RawBatch>>,
    is_listening: bool,
}

impl Running {
    /// Gives the reader something; what can be handed on goes on its way.
    fn advance<R>(&mut self, step: impl FnOnce(&mut SeriesReader, &mut dyn FnMut(Item<RawBatch>)) -> R) -> R {
        let Self { reader, frames, is_listening } = self;
        step(reader, &mut |item| *is_listening &= frames.send(item).is_ok())
    }
}

impl Readings {
    /// Begins; those series are over already.
    pub(super) fn new(
        channels: Vec<ChannelReading>,
        over: Over,
        known: Option<(OwnedKey, Vec<String>)>,
    ) -> Self {
        let begin = |ChannelReading { settings, frames, counts }| {
            let reader = SeriesReader::new(settings, over.clone());
            Reading { counts, running: Some(Running { reader, frames, is_listening: true }), end: None }
        };
        Self {
            channels: channels.into_iter().map(begin).collect(),
            over,
            known,
            start: None,
            has_begun_next: false,
            suspect: None,
            has_told_of_stray: false,
        }
    }

    /// The image that was left because it is of another series, until it is judged.
    pub(super) fn suspect(&mut self) -> Option<&mut Suspect> {
        self.suspect.as_mut().filter(|suspect| suspect.verdict.is_none())
    }

    /// Whether an image of another series is left until it is judged, or passed over because it was. Nothing where it is taken.
    fn judged(&mut self, image: &Image<'_>, listener: &Listener) -> Option<Taken> {
        let running = self.running().find_map(|running| running.reader.other_than(image))?.clone();
        match self.suspect.take().and_then(|suspect| suspect.verdict) {
            Some(Verdict::Next) => None,
            Some(Verdict::Stray) => {
                for channel in &mut self.channels {
                    if let Some(running) = &mut channel.running {
                        running.reader.pass_over_one();
                    }
                }
                if !std::mem::replace(&mut self.has_told_of_stray, true) {
                    let other = OwnedKey::of(image.series);
                    listener.tell(&Notice::Stray { series: running, other, number: image.number });
                }
                Some(Taken::Yes)
            }
            None => {
                self.suspect = Some(Suspect { running, other: OwnedKey::of(image.series), verdict: None });
                Some(Taken::No)
            }
        }
    }

    /// Whether every channel is over, or nobody wants it any more.
    pub(super) fn are_over(&self) -> bool {
        self.channels.iter().all(|channel| channel.running.is_none())
    }

    /// Gives a message to every channel that goes on; what is to be said of it is said before a channel is over. It is left where it
    /// is of the next series: that ends all of them.
    pub(super) fn take(&mut self, message: &Message<'_>, listener: &Listener) -> Taken {
        let now = Instant::now();
        match message {
            Message::Start(start) => {
                self.start = Some(Box::new((Announced::by_start(start), Kinds::of_start(start))));
            }
            // every channel says the same
            Message::Image(image) if self.running().any(|running| running.reader.begins_again(image)) => {
                self.has_begun_next = true;
                self.close(Some(&Ending::NextSeries));
                return Taken::No;
            }
            Message::Image(image) => match self.judged(image, listener) {
                Some(taken) => return taken,
                None => self.note_channels(image, listener),
            },
            Message::End(_) => {}
        }
        let mut is_of_next = false;
        let mut is_said = false;
        for channel in &mut self.channels {
            let Some(running) = &mut channel.running else { continue };
            let ending = running.advance(|reader, out| reader.take(message, now, out));
            is_of_next |= ending == Some(Ending::NextSeries);
            // every channel says the same
            if let Some(notice) = running.reader.take_notice().filter(|_| !is_said) {
                listener.tell(&notice);
                is_said = true;
            }
            channel.settle(ending, &mut self.over);
        }
        match (is_of_next, self.are_over()) {
            (true, _) => Taken::No,
            (false, true) => Taken::AndEnough,
            (false, false) => Taken::Yes,
        }
    }

    fn running(&self) -> impl Iterator<Item = &Running> {
        self.channels.iter().filter_map(|channel| channel.running.as_ref())
    }

    /// Notes the channels of an image that the series was not known to have.
    fn note_channels(&mut self, image: &Image<'_>, listener: &Listener) {
        let Some((key, names)) = self.known.as_mut().filter(|(key, _)| key.is(image.series)) else { return };
        for channel in image.channels() {
            let name = match channel.name.char_indices().nth(MOST_NAME_CHARS) {
                Some((end, _)) => &channel.name[..end],
                None => channel.name,
            };
            if names.len() < MOST_NAMES && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
                let (series, channel) = (key.clone(), name.to_owned());
                listener.tell(&Notice::Channel { series, channel, number: image.number });
            }
        }
    }

    /// Hands on what waits, and looks at the clock.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        for channel in &mut self.channels {
            if let Some(running) = &mut channel.running {
                let ending = running.advance(|reader, out| reader.look(now, out));
                *channel.counts.lock().unwrap_or_else(PoisonError::into_inner) = running.reader.counts();
                channel.settle(ending, &mut self.over);
            }
        }
    }

    /// Nothing more can come; without an ending where that was asked for.
    pub(super) fn close(&mut self, ending: Option<&Ending>) {
        for channel in &mut self.channels {
            let Some(mut running) = channel.running.take() else { continue };
            // frames that overtook one that is missing have come, too
            running.advance(|reader, out| reader.close(out));
            channel.finish(running, ending.cloned(), &mut self.over);
        }
    }

    /// How each channel ended, nothing where it was not read to an end; what is over; and the start of the next series where
    /// that came before it was known to be one.
    pub(super) fn into_ends(mut self) -> (Vec<Option<SeriesEnd>>, Over, Option<(Announced, Kinds)>) {
        let begun = self.start.filter(|_| self.has_begun_next).map(|start| *start);
        if let Some((begun, _)) = &begun {
            self.over.remove(&begun.key);
        }
        (self.channels.into_iter().map(|channel| channel.end).collect(), self.over, begun)
    }
}

impl Reading {
    /// Lets go of a channel that is over, or that nobody wants.
    fn settle(&mut self, ending: Option<Ending>, over: &mut Over) {
        let is_over = |running: &mut Running| ending.is_some() || !running.is_listening;
        if let Some(running) = self.running.take_if(is_over) {
            self.finish(running, ending, over);
        }
    }

    fn finish(&mut self, running: Running, ending: Option<Ending>, over: &mut Over) {
        let counts = running.reader.counts();
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
        self.end = ending.map(|ending| SeriesEnd { ending, counts });
        *over = running.reader.into_over();
    }
}
