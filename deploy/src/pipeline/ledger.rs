//! Stage: writes down what is missing on its way past.

use std::sync::Mutex;

use crossbeam_channel::{Receiver, Sender};
use kernels::types::{Gap, Item};

/// Gaps kept apart; what comes after is joined to the last.
const MOST_GAPS: usize = 10_000;

/// The gaps of an acquisition, in order.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Vec<Gap>>);

impl Ledger {
    /// Passes everything on and remembers the gaps. A closed output is an orderly stop.
    pub(super) fn run<T>(&self, items: Receiver<Item<T>>, onward: Sender<Item<T>>) {
        for item in items {
            if let Item::Gap(gap) = &item {
                self.enter(gap);
            }
            if onward.send(item).is_err() {
                return;
            }
        }
    }

    fn enter(&self, gap: &Gap) {
        let Ok(mut gaps) = self.0.lock() else { return };
        let is_full = gaps.len() >= MOST_GAPS;
        match gaps.last_mut() {
            Some(last) if last.first + last.count == gap.first && (last.reason == gap.reason || is_full) => {
                last.count += gap.count;
            }
            Some(last) if is_full => last.count = gap.first + gap.count - last.first,
            _ => gaps.push(gap.clone()),
        }
    }

    /// The gaps so far.
    pub(super) fn gaps(&self) -> Vec<Gap> {
        self.0.lock().map(|gaps| gaps.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;
    use kernels::types::GapReason;

    use super::*;

    #[test]
    fn neighbouring_gaps_of_one_reason_are_one_entry_and_everything_passes() {
        let (items, items_in) = unbounded();
        let (onward, onward_in) = unbounded();
        let gap =
            |first, why: &str| Item::Gap(Gap { first, count: 2, reason: GapReason::Corrupt(why.to_owned()) });
        for item in [gap(0, "a"), gap(2, "a"), Item::Data(7), gap(5, "a"), gap(7, "b")] {
            items.send(item).unwrap();
        }
        drop(items);
        let ledger = Ledger::default();
        ledger.run(items_in, onward);
        let found: Vec<_> = ledger.gaps().iter().map(|gap| (gap.first, gap.count)).collect();
        assert_eq!(found, [(0, 4), (5, 2), (7, 2)]);
        assert_eq!(onward_in.iter().count(), 5);
    }
}
