//! When and how a program was called.

use std::time::{Duration, SystemTime};

use ingest::calendar::date_and_time;

/// A moment as `2026-01-31T23:59:59Z`: UTC, to the second.
pub(crate) fn utc(moment: SystemTime) -> String {
    let secs = moment.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{}Z", date_and_time(secs))
}

/// A moment of a log, in nanoseconds since 1970.
pub(crate) fn moment(nanos: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)
}

/// The command line, what is no Unicode in it replaced.
pub(crate) fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_said_in_utc_to_the_second() {
        assert_eq!(utc(moment(951_782_400_999_999_999)), "2000-02-29T00:00:00Z");
        assert_eq!(utc(SystemTime::UNIX_EPOCH - Duration::from_secs(9)), "1970-01-01T00:00:00Z");
    }
}
