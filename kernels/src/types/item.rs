//! What travels between stages: data, or the statement that data is missing.

/// One message between two stages.
#[derive(Debug)]
pub enum Item<T> {
    /// The data itself.
    Data(T),
    /// Frames that will not come, and why. Downstream counts them; nobody invents them.
    Gap(Gap),
}

/// A run of frames that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// First missing frame, counted from 0 over the acquisition.
    pub first: u64,
    /// Number of missing frames.
    pub count: u64,
    /// Why they are missing.
    pub reason: GapReason,
}

/// Why frames are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// The source never delivered them (lost, or the recording ends early).
    NotReceived(String),
    /// They were delivered and could not be decoded; the text names got and expected.
    Corrupt(String),
    /// They were delivered and are of another shape, type or packing than the others, or without the channel that is wanted.
    Unlike(String),
    /// The bytes could not be read (file missing, cut short, input error).
    Unreadable(String),
}

impl std::fmt::Display for GapReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotReceived(why) => write!(f, "not received: {why}"),
            Self::Corrupt(why) => write!(f, "corrupt: {why}"),
            Self::Unlike(why) => write!(f, "unlike the others: {why}"),
            Self::Unreadable(why) => write!(f, "unreadable: {why}"),
        }
    }
}
