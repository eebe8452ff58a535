//! Results that could not be written, because the disk was full or refused: tried again for as long as they are in memory.

use std::time::Duration;

use super::hub::Hub;
use crate::request::StopFlag;

/// From one attempt to the next.
const EVERY: Duration = Duration::from_secs(3);
/// How often the stop flag is looked at meanwhile.
const TICK: Duration = Duration::from_millis(50);

/// Tries until the stop flag is raised, and once more then.
pub(super) fn run(hub: &Hub, stop: &StopFlag) {
    loop {
        for _ in 0..EVERY.as_millis() / TICK.as_millis() {
            if !stop.is_raised() {
                std::thread::sleep(TICK);
            }
        }
        if let Some(series) = hub.newest()
            && series.write_again()
        {
            series.say_outcome(&|line| hub.say(line));
            hub.tell();
        }
        if stop.is_raised() {
            return;
        }
    }
}
