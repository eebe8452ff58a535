//! What the frames of a series are like, channel by channel: found out from its start and its first images together, so that
//! one frame of a wrong type or shape does not decide for all the others.
//!
//! Pure state: [`Kinds::take`] is told each image and when it came. A start that names shape and type is believed as soon as an
//! image agrees; where it says less, as real starts of stream v2 do, the majority of the first images decides.

use std::time::{Duration, Instant};

use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};

use super::message::{Channel, Image, MOST_CHANNELS, Start};

/// Images that are looked at, at most.
const MOST_IMAGES: usize = 8;
/// How long the first images are waited for.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long one is waited for that agrees with the start.
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
        if self.num_images == MOST_IMAGES {
            return;
        }
        self.num_images += 1;
        for channel in image.channels().filter(|channel| channel.name.len() <= MOST_NAME_BYTES) {
            let kind = Kind::of(channel);
            let same = |vote: &&mut Vote| vote.channel == channel.name && vote.kind == kind;
            match self.votes.iter_mut().find(same) {
                Some(vote) => vote.num_images += 1,
                None => self.votes.push(Vote { channel: channel.name.to_owned(), kind, num_images: 1 }),
            }
        }
    }

    /// Whether enough is known at `now`.
    pub fn is_settled(&self, now: Instant) -> bool {
        let Some(since) = self.since else { return false };
        let names = self.names();
        let agrees = |name: &&str| self.votes.iter().any(|vote| vote.channel == **name && self.agrees(vote));
        let all_agree = !names.is_empty() && names.iter().all(agrees);
        let says_all = self.detector.is_some() && self.count_type.is_some();
        let patience = if all_agree { PATIENCE } else { PATIENCE_TO_AGREE };
        self.num_images == MOST_IMAGES
            || says_all && all_agree
            || now.saturating_duration_since(since) >= patience
    }

    /// The channels, in the order of the start, else of the images; of each what most of its frames are like, those first
    /// that agree with the start, of as many the one that came first.
    pub fn channels(&self) -> Vec<ChannelKind> {
        let of_channel = |name: &&str| {
            let votes = self.votes.iter().filter(|vote| vote.channel == **name);
            // the last of the largest is taken: the first, from the back
            let most = votes.rev().max_by_key(|vote| (self.agrees(vote), vote.num_images))?;
            Some(ChannelKind { name: most.channel.clone(), kind: most.kind })
        };
        self.names().iter().filter_map(of_channel).collect()
    }

    /// Names of the channels: those of the start that came, and others that most images have.
    fn names(&self) -> Vec<&str> {
        let seen = |name: &str| {
            self.votes.iter().filter(|vote| vote.channel == name).map(|vote| vote.num_images).sum::<usize>()
        };
        let mut names: Vec<&str> = Vec::new();
        let announced = self.channels.iter().map(|name| (name.as_str(), 1));
        let others = self.votes.iter().map(|vote| (vote.channel.as_str(), self.num_images / 2 + 1));
        for (name, fewest) in announced.chain(others) {
            if seen(name) >= fewest && !names.contains(&name) && names.len() < MOST_CHANNELS {
                names.push(name);
            }
        }
        names
    }

    fn agrees(&self, vote: &Vote) -> bool {
        self.detector.is_none_or(|detector| detector == vote.kind.detector)
            && self.count_type.is_none_or(|count_type| count_type == vote.kind.count_type)
    }
}

#[cfg(test)]
mod tests;
