//! Series that are over: what is left of them on the wire begins nothing.
//!
//! A start of a series that is over begins another acquisition under the same name. One behind images of a series that goes on does
//! so at once where nothing but the number names the series, as in stream v1, whose numbers count from 1 again after the
//! detector was restarted. Where there is a unique name, the image behind it decides: one beyond all that came goes on with the series,
//! whose start came late or twice; any other is of another acquisition. Images alone never begin a series again: nothing tells them
//! from late ones.

use super::message::{Message, SeriesKey};
use super::series::OwnedKey;

/// Series that are remembered: what is on the wire is never older.
const REMEMBERED: usize = 16;

/// What came of the stream and is taken for nothing: something that a person should know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A second start of a series that goes on.
    Start {
        /// The series.
        series: OwnedKey,
        /// Images that the start announces.
        num_images: Option<u64>,
    },
    /// An image of a series that is over; told of the first.
    Image {
        /// The series.
        series: OwnedKey,
        /// Its number.
        number: u64,
    },
    /// A channel that the series was not known to have when it began; told of its first image.
    Channel {
        /// The series.
        series: OwnedKey,
        /// The channel.
        channel: String,
        /// Number of the image.
        number: u64,
    },
    /// An image without a start in the middle of a series that goes on; told of the first.
    Stray {
        /// The series that goes on.
        series: OwnedKey,
        /// What the image says it is of.
        other: OwnedKey,
        /// Number of the image.
        number: u64,
    },
    /// A message that is not understood; told of the first of each kind while a series is waited for or comes.
    NotUnderstood {
        /// Why.
        why: String,
    },
}

impl Notice {
    /// The series that it is about, where that is known.
    pub fn series(&self) -> Option<&OwnedKey> {
        match self {
            Self::Start { series, .. }
            | Self::Image { series, .. }
            | Self::Channel { series, .. }
            | Self::Stray { series, .. } => Some(series),
            Self::NotUnderstood { .. } => None,
        }
    }
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start { series, num_images } => {
                let images = num_images.map(|images| format!(" of {images} images")).unwrap_or_default();
                write!(
                    f,
                    "got a second start{images} of series {series} and no end of the first: where images count on behind it they \
                     are of this series, where they count again of another"
                )
            }
            Self::Image { series, number } => write!(
                f,
                "got image {number} of series {series}, which is over: it is passed over, and so are others of this series \
                 until a start comes behind its end"
            ),
            Self::Channel { series, channel, number } => write!(
                f,
                "got channel {channel:?} in image {number} of series {series}, which neither its start nor most of its first \
                 images had: it is not taken"
            ),
            Self::Stray { series, other, number } => write!(
                f,
                "got image {number} of series {other} in the middle of series {series}, and neither a start nor another image of \
                 it: it is passed over, and so are others like it"
            ),
            Self::NotUnderstood { why } => {
                write!(
                    f,
                    "a message is not understood and not taken, others like it are counted as garbage: {why}"
                )
            }
        }
    }
}

/// Whether a start begins another acquisition under a name of which so much has come, whatever comes behind it.
pub(crate) fn begins_again(key: SeriesKey<'_>, has_images: bool, has_ended: bool) -> bool {
    has_ended || has_images && key.unique_id.is_none()
}

/// Whether the first image behind such a start of which that is not known shows that it did; the highest number before it is this.
pub(crate) fn counts_again(number: u64, highest: Option<u64>) -> bool {
    highest.is_some_and(|highest| number <= highest)
}

/// Series that are over; the oldest are forgotten.
#[derive(Clone, Debug, Default)]
pub struct Over(Vec<Past>);

/// A series that is over.
#[derive(Clone, Debug)]
struct Past {
    key: OwnedKey,
    /// Whether its end has come.
    has_ended: bool,
    /// Whether it had all its images before, or nobody wanted them: what comes of it before its end is no surprise.
    is_done_with: bool,
    is_told: bool,
}

/// What a message is to those series.
pub(super) enum Place {
    /// It is of another series.
    Elsewhere,
    /// It is of one of them, and something is to be said or not.
    Stale(Option<Notice>),
}

impl Over {
    /// Adds a series, in place of itself.
    pub(super) fn add(&mut self, key: OwnedKey, has_ended: bool, is_done_with: bool) {
        self.0.retain(|past| past.key != key);
        self.0.push(Past { key, has_ended, is_done_with, is_told: false });
        let surplus = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..surplus);
    }

    /// Takes a series from them: it begins again.
    pub(super) fn remove(&mut self, key: &OwnedKey) {
        self.0.retain(|past| past.key != *key);
    }

    /// Whether a series is among them.
    pub(super) fn contains(&self, key: &OwnedKey) -> bool {
        self.0.iter().any(|past| past.key == *key)
    }

    /// Whether the series of a message is among them.
    pub(super) fn knows(&self, key: SeriesKey<'_>) -> bool {
        self.0.iter().any(|past| past.key.is(key))
    }

    /// What a message is to them. One that begins a series again takes it from them.
    pub(super) fn place(&mut self, message: &Message<'_>) -> Place {
        let series = message.series();
        let Some(at) = self.0.iter().position(|past| past.key.is(series)) else { return Place::Elsewhere };
        let past = &mut self.0[at];
        let notice = match message {
            // nothing of the one before can be mixed with it
            Message::Start(_) => {
                self.0.remove(at);
                return Place::Elsewhere;
            }
            Message::Image(image) if !past.is_told && (past.has_ended || !past.is_done_with) => {
                past.is_told = true;
                Some(Notice::Image { series: past.key.clone(), number: image.number })
            }
            Message::Image(_) => None,
            Message::End(_) => {
                past.has_ended = true;
                None
            }
        };
        Place::Stale(notice)
    }
}
