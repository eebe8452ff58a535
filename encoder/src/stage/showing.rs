//! When a block that is not whole yet is worth showing.

use std::time::{Duration, Instant};

/// The rest after a showing, in times of what it took: a fifth of the time is spent on them at most.
const REST: u32 = 4;

/// How soon frames are to be seen that do not fill a block.
///
/// Where blocks fill faster than [`every`](Self::every) nothing is shown, and where frames wait to be encoded nothing is
/// either: the whole block comes soon then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Showing {
    /// From the first frame of all to its showing.
    pub first: Duration,
    /// From a frame that is not shown to its showing, later on.
    pub every: Duration,
}

impl Default for Showing {
    /// 20 ms and 50 ms.
    fn default() -> Self {
        Self { first: Duration::from_millis(20), every: Duration::from_millis(50) }
    }
}

/// What has been shown, by the clock.
#[derive(Debug)]
pub(super) struct Clock {
    showing: Showing,
    /// When the oldest frame came that nothing which was sent holds.
    waiting_since: Option<Instant>,
    /// Nothing is shown before.
    rest_until: Option<Instant>,
    is_first: bool,
}

impl Clock {
    pub(super) fn new(showing: Showing) -> Self {
        Self { showing, waiting_since: None, rest_until: None, is_first: true }
    }

    /// Frames came into the open block.
    pub(super) fn came(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// When the open block is to be shown; never where all its frames have been.
    pub(super) fn due(&self) -> Option<Instant> {
        let wait = if self.is_first { self.showing.first } else { self.showing.every };
        let due = self.waiting_since? + wait;
        Some(self.rest_until.map_or(due, |until| until.max(due)))
    }

    /// The open block was shown, which took from `start` until `now`.
    pub(super) fn shown(&mut self, start: Instant, now: Instant) {
        self.rest_until = Some(now + now.saturating_duration_since(start) * REST);
        self.sent();
    }

    /// Everything that came was sent.
    pub(super) fn sent(&mut self) {
        self.waiting_since = None;
        self.is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_first_is_due_soon_and_nothing_is_without_frames() {
        let mut clock = Clock::new(Showing::default());
        let start = Instant::now();
        assert_eq!(clock.due(), None);
        clock.came(start);
        clock.came(start + millis(10));
        assert_eq!(clock.due(), Some(start + millis(20)));
        clock.shown(start + millis(20), start + millis(22));
        assert_eq!(clock.due(), None);
        clock.came(start + millis(30));
        assert_eq!(clock.due(), Some(start + millis(80)));
        // the block became whole
        clock.sent();
        assert_eq!(clock.due(), None);
    }

    #[test]
    fn what_takes_long_is_done_less_often() {
        let mut clock = Clock::new(Showing::default());
        let start = Instant::now();
        clock.came(start);
        clock.shown(start, start + millis(100));
        clock.came(start + millis(100));
        assert_eq!(clock.due(), Some(start + millis(500)));
    }
}
