//! Faults as switches: what goes wrong on purpose, as the command line says it.
//!
//! `KIND=VALUE`. Where a fault hits frames, VALUE is how many: below 1 the probability of each, a whole number that many,
//! `@3,17` these.

use std::time::Duration;

/// What happens to single frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameFault {
    /// It is not sent.
    Lost,
    /// It is sent twice.
    Doubled,
    /// It changes places with the one after it.
    Swapped,
    /// It is sent when others have overtaken it.
    Late,
    /// Its bytes end in the middle.
    Truncated,
    /// Its bytes are altered so that no reader can decode them.
    Corrupted,
    /// It has another shape than the others.
    WrongSize,
    /// It has another type of counts than the others.
    WrongType,
}

impl FrameFault {
    /// All of them, in the order in which they choose their frames.
    pub const ALL: [Self; 8] = [
        Self::Lost,
        Self::Doubled,
        Self::Swapped,
        Self::Late,
        Self::Truncated,
        Self::Corrupted,
        Self::WrongSize,
        Self::WrongType,
    ];

    /// Its name on the command line and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Swapped => "swapped",
            Self::Late => "late",
            Self::Truncated => "truncated",
            Self::Corrupted => "corrupted",
            Self::WrongSize => "wrong-size",
            Self::WrongType => "wrong-type",
        }
    }

    /// Whether a reader cannot have a frame that it hit.
    pub fn makes_hole(self) -> bool {
        !matches!(self, Self::Doubled | Self::Swapped | Self::Late)
    }
}

/// How many frames a fault hits.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// Each with this probability.
    Rate(f64),
    /// This many.
    Count(u64),
    /// These.
    Frames(Vec<u64>),
}

/// What happens to the end of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndFault {
    /// It is sent so long after the last frame.
    Late(Duration),
    /// It is not sent.
    Missing,
    /// It is sent when a tenth of the frames, at most 64, are still to come, and is not sent again.
    Early,
    /// That of another series is sent in the middle, its own where it belongs.
    Other,
}

/// One switch.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultSwitch {
    /// Single frames.
    Frames(FrameFault, Amount),
    /// Messages that are none, between frames.
    Garbage(Amount),
    /// The series begins with its first image.
    NoStart,
    /// The end.
    End(EndFault),
    /// Nothing is sent for a time; in the middle where no frame is named.
    Stall(Duration, Option<u64>),
    /// The socket is closed and bound again; in the middle where no frame is named.
    Restart(Option<u64>),
    /// The series is aborted and the next one, whole, begins at once; in the middle where no frame is named.
    AbortNext(Option<u64>),
    /// Another reader takes every other message.
    Thief,
}

const EXPECTED: &str = "lost, doubled, swapped, late, truncated, corrupted, wrong-size, wrong-type or garbage=RATE|COUNT|@FRAME,..., \
     no-start, end=late[:SECONDS]|missing|early|other, stall=SECONDS[@FRAME], restart[=@FRAME], abort-next[=@FRAME], thief";

impl std::str::FromStr for FaultSwitch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("got '{text}', expected {EXPECTED}");
        let (kind, value) = match text.split_once('=') {
            Some((kind, value)) => (kind, Some(value)),
            // `restart@17` as well as `restart=@17`
            None => match text.find('@') {
                Some(at) => (&text[..at], Some(&text[at..])),
                None => (text, None),
            },
        };
        if let Some(fault) = FrameFault::ALL.into_iter().find(|fault| fault.name() == kind) {
            return value.and_then(amount).map(|amount| Self::Frames(fault, amount)).ok_or_else(refused);
        }
        let at = |value: Option<&str>| match value {
            None => Ok(None),
            Some(value) => {
                value.strip_prefix('@').and_then(|at| at.parse().ok()).map(Some).ok_or_else(refused)
            }
        };
        match (kind, value) {
            ("garbage", Some(value)) => amount(value).map(Self::Garbage).ok_or_else(refused),
            ("no-start", None) => Ok(Self::NoStart),
            ("thief", None) => Ok(Self::Thief),
            ("end", Some(value)) => end(value).map(Self::End).ok_or_else(refused),
            ("stall", Some(value)) => {
                let (secs, frame) = match value.split_once('@') {
                    Some((secs, frame)) => (secs, Some(frame.parse().map_err(|_| refused())?)),
                    None => (value, None),
                };
                Ok(Self::Stall(seconds(secs).ok_or_else(refused)?, frame))
            }
            ("restart", value) => at(value).map(Self::Restart),
            ("abort-next", value) => at(value).map(Self::AbortNext),
            _ => Err(refused()),
        }
    }
}

fn amount(value: &str) -> Option<Amount> {
    if let Some(frames) = value.strip_prefix('@') {
        return frames.split(',').map(|frame| frame.parse().ok()).collect::<Option<_>>().map(Amount::Frames);
    }
    match value.parse::<u64>() {
        Ok(count) => Some(Amount::Count(count)),
        Err(_) => value.parse().ok().filter(|rate| (0.0..1.0).contains(rate)).map(Amount::Rate),
    }
}

fn end(value: &str) -> Option<EndFault> {
    match value {
        "late" => Some(EndFault::Late(Duration::from_secs(1))),
        "missing" => Some(EndFault::Missing),
        "early" => Some(EndFault::Early),
        "other" => Some(EndFault::Other),
        _ => value.strip_prefix("late:").and_then(seconds).map(EndFault::Late),
    }
}

/// A time of at most an hour.
fn seconds(text: &str) -> Option<Duration> {
    let secs: f64 = text.parse().ok()?;
    (0.0..=3600.0).contains(&secs).then(|| Duration::from_secs_f64(secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_is_read_and_what_is_none_is_refused_with_the_list() {
        let read = |text: &str| text.parse::<FaultSwitch>();
        assert_eq!(read("lost=0.25"), Ok(FaultSwitch::Frames(FrameFault::Lost, Amount::Rate(0.25))));
        assert_eq!(read("doubled=5"), Ok(FaultSwitch::Frames(FrameFault::Doubled, Amount::Count(5))));
        let these = Amount::Frames(vec![3, 17]);
        assert_eq!(read("wrong-size=@3,17"), Ok(FaultSwitch::Frames(FrameFault::WrongSize, these)));
        assert_eq!(read("garbage=2"), Ok(FaultSwitch::Garbage(Amount::Count(2))));
        assert_eq!(read("no-start"), Ok(FaultSwitch::NoStart));
        assert_eq!(read("end=late:0.5"), Ok(FaultSwitch::End(EndFault::Late(Duration::from_millis(500)))));
        assert_eq!(read("end=other"), Ok(FaultSwitch::End(EndFault::Other)));
        assert_eq!(read("stall=2@100"), Ok(FaultSwitch::Stall(Duration::from_secs(2), Some(100))));
        assert_eq!(read("restart@9"), Ok(FaultSwitch::Restart(Some(9))));
        assert_eq!(read("restart=@9"), Ok(FaultSwitch::Restart(Some(9))));
        assert_eq!(read("abort-next"), Ok(FaultSwitch::AbortNext(None)));
        assert_eq!(read("thief"), Ok(FaultSwitch::Thief));
        for wrong in [
            "",
            "lost",
            "lost=1.5",
            "lost=-1",
            "lost=@",
            "stall=-1",
            "end=never",
            "thief=2",
            "x=1",
            "stall=1e9",
        ] {
            let why = read(wrong).unwrap_err();
            assert!(why.contains(wrong) && why.contains("abort-next"), "{why}");
        }
    }
}
