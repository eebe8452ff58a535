//! What is sent in which order: a series with its faults, decided before anything is sent.
//!
//! Pure: the same seed, faults and number of frames give the same plan, so that whoever reads the stream can be held to it.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::fault::{Amount, EndFault, FaultSwitch, FrameFault};

/// Frames by which a late frame falls behind.
pub const LATE_BY: u64 = 64;
/// Most frames of a series with faults.
pub const MOST_FRAMES: u64 = 1 << 23;
/// A second copy of a frame comes at most so many frames after the first.
const DOUBLED_WITHIN: u64 = 16;
/// Most frames that are still to come when an early end is sent.
const MOST_AFTER_END: u64 = 64;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the start of the series.
    Start,
    /// Send a frame.
    Frame {
        /// Its number.
        number: u64,
        /// What is done to it before.
        damage: Option<FrameFault>,
    },
    /// Send a message that is none.
    Garbage {
        /// Decides which.
        seed: u64,
    },
    /// Send the end of the series.
    End {
        /// Of this series, or of one that there is not.
        is_own: bool,
    },
    /// Send nothing for a time.
    Pause(Duration),
    /// Close the socket and bind it again.
    Restart,
    /// Abort, and begin the next series.
    AbortNext,
}

/// The steps of a series, and which frames are hit by what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What to do; empty where every frame is sent in its turn, however many there are.
    steps: Vec<Step>,
    num_frames: u64,
    /// Numbers of the frames that each fault hits, ascending. A frame is hit by one at most; `swapped` names the first of two.
    pub hits: BTreeMap<FrameFault, Vec<u64>>,
    /// Whether another reader takes every other message.
    pub has_thief: bool,
}

impl Plan {
    /// The steps in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        let is_plain = self.steps.is_empty();
        let num_frames = if is_plain { self.num_frames } else { 0 };
        let frame = |number| Step::Frame { number, damage: None };
        let only_plain = move |step| is_plain.then_some(step);
        only_plain(Step::Start)
            .into_iter()
            .chain((0..num_frames).map(frame))
            .chain(only_plain(Step::End { is_own: true }))
            .chain(self.steps.iter().copied())
    }

    /// Number of frames of the series.
    pub fn num_frames(&self) -> u64 {
        self.num_frames
    }
}

/// Plans a series of `num_frames` frames. Of the amounts, frames beyond the series are left out.
///
/// Faults hit in the order of [`FrameFault::ALL`]; each chooses among the frames that none before has hit. More than
/// [`MOST_FRAMES`] are planned without faults.
pub fn plan(seed: u64, faults: &[FaultSwitch], num_frames: u64) -> Plan {
    let has_thief = faults.contains(&FaultSwitch::Thief);
    let mut plan = Plan { num_frames, has_thief, ..Plan::default() };
    if faults.iter().all(|fault| *fault == FaultSwitch::Thief) || num_frames > MOST_FRAMES {
        return plan;
    }
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut damage: Vec<Option<FrameFault>> = vec![None; num_frames as usize];
    for kind in FrameFault::ALL {
        for fault in faults {
            if let FaultSwitch::Frames(of, amount) = fault
                && *of == kind
            {
                let chosen = choose(&mut rng, kind, amount, &mut damage);
                plan.hits.entry(kind).or_default().extend(chosen);
            }
        }
    }
    plan.hits.values_mut().for_each(|numbers| numbers.sort_unstable());
    let mut order = ordered(&mut rng, num_frames, &damage, &plan.hits);
    insert(&mut rng, faults, num_frames, &mut order);
    order.sort_by_key(|&(place, _)| place);
    plan.steps = order.into_iter().map(|(_, step)| step).collect();
    if let Some(at) = plan.steps.iter().position(|step| *step == Step::AbortNext) {
        plan.steps.truncate(at + 1);
    }
    plan
}

/// Chooses frames that nothing has hit, and marks them.
fn choose(
    rng: &mut Pcg64Mcg,
    kind: FrameFault,
    amount: &Amount,
    damage: &mut [Option<FrameFault>],
) -> Vec<u64> {
    let is_swap = kind == FrameFault::Swapped;
    let is_free = |damage: &[Option<FrameFault>], at: usize| {
        damage.get(at) == Some(&None) && (!is_swap || damage.get(at + 1) == Some(&None))
    };
    let mut candidates: Vec<usize> = match amount {
        Amount::Frames(numbers) => {
            numbers.iter().filter_map(|&number| usize::try_from(number).ok()).collect()
        }
        Amount::Rate(rate) => (0..damage.len()).filter(|_| rng.random::<f64>() < *rate).collect(),
        Amount::Count(_) => (0..damage.len()).filter(|&at| is_free(damage, at)).collect(),
    };
    let wanted = match amount {
        Amount::Count(count) => {
            for at in 0..candidates.len() {
                let other = rng.random_range(at..candidates.len());
                candidates.swap(at, other);
            }
            usize::try_from(*count).unwrap_or(usize::MAX)
        }
        _ => usize::MAX,
    };
    let mut chosen = Vec::new();
    for at in candidates {
        if chosen.len() == wanted {
            break;
        }
        if is_free(damage, at) {
            damage[at] = Some(kind);
            if is_swap {
                damage[at + 1] = Some(kind);
            }
            chosen.push(at as u64);
        }
    }
    chosen
}

/// A place among frames: frame `n` stands at `4 n + 2`, what goes before it at `4 n`, what goes behind it at `4 n + 3`.
type Place = u64;

fn before(number: u64) -> Place {
    4 * number
}

fn behind(number: u64) -> Place {
    4 * number + 3
}

/// The frames at their places.
fn ordered(
    rng: &mut Pcg64Mcg,
    num_frames: u64,
    damage: &[Option<FrameFault>],
    hits: &BTreeMap<FrameFault, Vec<u64>>,
) -> Vec<(Place, Step)> {
    let swapped = hits.get(&FrameFault::Swapped).map(Vec::as_slice).unwrap_or_default();
    let mut order = Vec::with_capacity(damage.len() + 8);
    for (number, &damage) in (0..num_frames).zip(damage) {
        let step = |damage| Step::Frame { number, damage };
        let own = 4 * number + 2;
        match damage {
            Some(FrameFault::Lost) => {}
            Some(FrameFault::Doubled) => {
                let distance = rng.random_range(0..=DOUBLED_WITHIN).min(num_frames - 1 - number);
                order.push((own, step(None)));
                order.push((behind(number + distance), step(None)));
            }
            Some(FrameFault::Swapped) => {
                let is_first = swapped.binary_search(&number).is_ok();
                order.push((if is_first { behind(number + 1) } else { own }, step(None)));
            }
            Some(FrameFault::Late) => {
                order.push((behind((number + LATE_BY).min(num_frames - 1)), step(None)));
            }
            damage => order.push((own, step(damage))),
        }
    }
    order
}

/// Puts in what is not a frame.
fn insert(rng: &mut Pcg64Mcg, faults: &[FaultSwitch], num_frames: u64, order: &mut Vec<(Place, Step)>) {
    let at = |frame: &Option<u64>| before(frame.unwrap_or(num_frames / 2).min(num_frames));
    let after_all = before(num_frames);
    let mut end = vec![(after_all + 2, Step::End { is_own: true })];
    let mut inserted = Vec::new();
    if !faults.contains(&FaultSwitch::NoStart) {
        inserted.push((0, Step::Start));
    }
    for fault in faults {
        match fault {
            FaultSwitch::Garbage(amount) => {
                let places: Vec<u64> = match amount {
                    Amount::Frames(frames) => frames.clone(),
                    Amount::Rate(rate) => (0..num_frames).filter(|_| rng.random::<f64>() < *rate).collect(),
                    Amount::Count(count) => {
                        let places = 0..(*count).min(MOST_FRAMES);
                        places.map(|_| rng.random_range(0..=num_frames)).collect()
                    }
                };
                let garbage = |place: u64| (before(place.min(num_frames)) + 1, Step::Garbage { seed: 0 });
                inserted.extend(places.into_iter().map(garbage));
            }
            FaultSwitch::Stall(time, frame) => inserted.push((at(frame), Step::Pause(*time))),
            FaultSwitch::Restart(frame) => inserted.push((at(frame), Step::Restart)),
            FaultSwitch::AbortNext(frame) => inserted.push((at(frame), Step::AbortNext)),
            FaultSwitch::End(EndFault::Late(time)) => inserted.push((after_all + 1, Step::Pause(*time))),
            FaultSwitch::End(EndFault::Missing) => end.clear(),
            FaultSwitch::End(EndFault::Early) => {
                let still_to_come = (num_frames / 10).clamp(1, MOST_AFTER_END).min(num_frames);
                end = vec![(before(num_frames - still_to_come), Step::End { is_own: true })];
            }
            FaultSwitch::End(EndFault::Other) => {
                inserted.push((before(num_frames / 2), Step::End { is_own: false }));
            }
            FaultSwitch::Frames(..) | FaultSwitch::NoStart | FaultSwitch::Thief => {}
        }
    }
    for (_, step) in &mut inserted {
        if let Step::Garbage { seed } = step {
            *seed = rng.random();
        }
    }
    // sorted by place alone, and stably: what stands first here goes first
    inserted.extend(end);
    order.splice(0..0, inserted);
}

#[cfg(test)]
mod tests;
