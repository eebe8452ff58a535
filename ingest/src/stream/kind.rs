//! What the frames of a series are like, channel by channel: found out from its start and its first images together, so that
//! frames of a wrong type or shape do not decide for all the others.
//!
//! Pure state: [`Kinds::take`] is told each image and when it came. What a start announces is believed as soon as one image
//! agrees, however many do not. Where none does, more images are looked at: a start may be wrong for every frame (the size in
//! pixels of stream v1 is that of the whole detector, whatever region is read; a count time given with a trigger changes the type
//! after the start), and then all frames are of one kind and their bytes are as long as that kind says. Frames that
//! disagree among themselves, or with their own bytes, do not outvote a start. Where it says nothing, as real starts of stream v2
//! do of the type, the majority of the first images decides, those first whose bytes are as long as they say.

use std::time::{Duration, Instant};

use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};

use super::message::{Channel, Image, MOST_CHANNELS, Start};
use super::threshold::shown;

/// Images that are looked at.
const MOST_IMAGES: usize = 8;
/// Images that are looked at where none agrees with the start.
const MOST_IMAGES_TO_AGREE: usize = 64;
/// How long the first images are waited for.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long one is waited for that agrees with the start, and a channel that was announced.
const PATIENCE_TO_AGREE: Duration = Duration::from_secs(1);
/// Longest name of a channel that is remembered.
const MOST_NAME_BYTES: usize = 64;

/// What every frame of a channel is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// How it is packed.
    pub encoding: Encoding,
    /// The type of the counts.
    pub count_type: CountType,
    /// Shape, (rows, cols).
    pub detector: DetectorShape,
}

impl Kind {
    /// That of a frame.
    pub fn of(channel: &Channel<'_>) -> Self {
        let Channel { detector, count_type, packed, .. } = *channel;
        Self { encoding: packed.encoding, count_type, detector }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}, {:?}", self.detector, self.count_type, self.encoding)
    }
}

/// A channel of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelKind {
    /// Its name, such as `threshold_1`; empty in stream v1.
    pub name: String,
    /// What its frames are like.
    pub kind: Kind,
    /// Whether one of its frames has come yet; the kind of one that was only announced is that of the others.
    pub has_come: bool,
    /// What a person should know of how its kind was found.
    pub note: Option<String>,
}

/// What is known so far.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// What the start said.
    detector: Option<DetectorShape>,
    count_type: Option<CountType>,
    channels: Vec<String>,
    /// When the first image came.
    since: Option<Instant>,
    num_images: usize,
    votes: Vec<Vote>,
}

#[derive(Clone, Debug)]
struct Vote {
    channel: String,
    kind: Kind,
    num_images: usize,
    /// Of these, those whose bytes are as long as the kind says.
    num_whole: usize,
}

impl Kinds {
    /// Begins with what a start says.
    pub fn of_start(start: &Start<'_>) -> Self {
        let short = start.channels.iter().filter(|name| name.len() <= MOST_NAME_BYTES);
        Self {
            detector: start.detector,
            count_type: start.count_type,
            channels: short.take(MOST_CHANNELS).map(|&name| name.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Looks at an image that came at `now`; not at more of them than it takes.
    pub fn take(&mut self, image: &Image<'_>, now: Instant) {
        self.since.get_or_insert(now);
        if self.num_images == self.most_images() {
            return;
        }
        self.num_images += 1;
        for channel in image.channels().filter(|channel| channel.name.len() <= MOST_NAME_BYTES) {
            let kind = Kind::of(channel);
            let whole = usize::from(channel.is_whole());
            let same = |vote: &&mut Vote| vote.channel == channel.name && vote.kind == kind;
            match self.votes.iter_mut().find(same) {
                Some(vote) => {
                    vote.num_images += 1;
                    vote.num_whole += whole;
                }
                None => {
                    let channel = channel.name.to_owned();
                    self.votes.push(Vote { channel, kind, num_images: 1, num_whole: whole });
                }
            }
        }
    }

    /// Whether enough is known at `now`.
    pub fn is_settled(&self, now: Instant) -> bool {
        let Some(since) = self.since else { return false };
        let names = self.names();
        let all_agree = !names.is_empty() && names.iter().all(|name| self.has_agreeing(name));
        let says_all = self.detector.is_some() && self.count_type.is_some();
        let patience = if all_agree { PATIENCE } else { PATIENCE_TO_AGREE };
        self.num_images >= self.most_images()
            || says_all && all_agree
            || now.saturating_duration_since(since) >= patience
    }

    /// The channels, in the order of the start, then of the images; of each what its frames are like.
    pub fn channels(&self) -> Vec<ChannelKind> {
        let mut channels: Vec<ChannelKind> = Vec::new();
        let mut absent = Vec::new();
        for name in self.names() {
            match self.kind_of(name) {
                Some((kind, note)) => {
                    channels.push(ChannelKind { name: name.to_owned(), kind, has_come: true, note });
                }
                None => absent.push((channels.len() + absent.len(), name)),
            }
        }
        let Some(first) = channels.first().cloned() else { return Vec::new() };
        for (place, name) in absent {
            // frames of an image are alike in all that a start can say
            let kind = self.announced(first.kind);
            let note = Some(format!(
                "the start announced {name}, of which the first {} images have no frame: {kind} is expected, as of {}",
                self.num_images,
                shown(&first.name)
            ));
            channels.insert(place, ChannelKind { name: name.to_owned(), kind, has_come: false, note });
        }
        channels
    }

    /// What the frames of a channel are like, and what is to be said of that; nothing where none has come.
    fn kind_of(&self, name: &str) -> Option<(Kind, Option<String>)> {
        // the last of the largest is taken: the first, from the back
        let votes = || self.votes_of(name).rev();
        if let Some(most) =
            votes().filter(|vote| self.agrees(vote)).max_by_key(|vote| (vote.num_whole, vote.num_images))
        {
            return Some((most.kind, None));
        }
        let most = votes().max_by_key(|vote| (vote.num_whole, vote.num_images))?;
        let announced = self.announced(most.kind);
        let is_sure = votes().count() == 1 && most.num_whole == most.num_images;
        let (kind, why) = match is_sure {
            true => (most.kind, "all frames are taken as they come"),
            false => (
                announced,
                "they do not agree among themselves or with their own bytes: the start is believed",
            ),
        };
        let said = format!(
            "the start announced frames of {announced} for {}, got {} of the first {} images: {why}",
            shown(name),
            most.kind,
            self.num_images
        );
        Some((kind, Some(said)))
    }

    /// A kind, but for what the start says of it.
    fn announced(&self, kind: Kind) -> Kind {
        Kind {
            detector: self.detector.unwrap_or(kind.detector),
            count_type: self.count_type.unwrap_or(kind.count_type),
            ..kind
        }
    }

    /// Names of the channels: those of the start, and others that most images have.
    fn names(&self) -> Vec<&str> {
        let seen = |name: &str| self.votes_of(name).map(|vote| vote.num_images).sum::<usize>();
        let mut names: Vec<&str> = Vec::new();
        let announced = self.channels.iter().map(|name| (name.as_str(), 0));
        // no more than a few: an image has at most `MOST_CHANNELS`
        let others = self.votes.iter().map(|vote| (vote.channel.as_str(), self.num_images / 2 + 1));
        for (name, fewest) in announced.chain(others) {
            if seen(name) >= fewest && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Images that are looked at: more where all that a channel has contradict the start.
    fn most_images(&self) -> usize {
        let contradicts = |name: &&str| self.votes_of(name).next().is_some() && !self.has_agreeing(name);
        if self.names().iter().any(contradicts) { MOST_IMAGES_TO_AGREE } else { MOST_IMAGES }
    }

    fn votes_of<'a>(&'a self, name: &'a str) -> impl DoubleEndedIterator<Item = &'a Vote> {
        self.votes.iter().filter(move |vote| vote.channel == name)
    }

    fn has_agreeing(&self, name: &str) -> bool {
        self.votes_of(name).any(|vote| self.agrees(vote))
    }

    fn agrees(&self, vote: &Vote) -> bool {
        self.announced(vote.kind) == vote.kind
    }
}

#[cfg(test)]
mod tests;
