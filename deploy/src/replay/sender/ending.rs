//! How a series ended, and what the sender was at when the program was ended.

/// How a series ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Everything was sent.
    Sent,
    /// It was told to end after what was being sent.
    Finished,
    /// It was told to end at once.
    Aborted,
    /// A fault ends it, and the next follows.
    AbortedForNext,
    /// The program ends.
    Stopped,
}

impl Ending {
    /// As it is told.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Finished => "finished early",
            Self::Aborted => "aborted",
            Self::AbortedForNext => "aborted for the next",
            Self::Stopped => "stopped",
        }
    }
}

/// What a sender was at that nobody read from.
pub(super) const WAITED: &str = "while it waited for a reader";

/// What a sender was at that sent a series.
pub(super) fn in_the_middle_of(series: u64) -> String {
    format!("in the middle of series {series}")
}
