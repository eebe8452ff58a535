//! Plans are what their switches say.

use super::*;

fn planned(seed: u64, switches: &[&str], num_frames: u64) -> Plan {
    let faults: Vec<FaultSwitch> = switches.iter().map(|switch| switch.parse().unwrap()).collect();
    plan(seed, &faults, num_frames)
}

fn numbers(plan: &Plan) -> Vec<u64> {
    let number = |step| match step {
        Step::Frame { number, .. } => Some(number),
        _ => None,
    };
    plan.steps().filter_map(number).collect()
}

fn position(plan: &Plan, wanted: Step) -> Option<usize> {
    plan.steps().position(|step| step == wanted)
}

const END: Step = Step::End { is_own: true };

#[test]
fn without_faults_every_frame_goes_in_its_turn_between_start_and_end() {
    let plan = planned(1, &[], 5);
    let frame = |number| Step::Frame { number, damage: None };
    let expected = [Step::Start, frame(0), frame(1), frame(2), frame(3), frame(4), END];
    assert_eq!(plan.steps().collect::<Vec<_>>(), expected);
    // a series that never ends by itself takes no memory
    assert_eq!(planned(1, &[], 2_000_000_000).steps().take(1000).count(), 1000);
    assert_eq!(planned(1, &[], 0).steps().collect::<Vec<_>>(), [Step::Start, END]);
}

#[test]
fn the_same_seed_gives_the_same_plan_and_another_another() {
    let switches = ["lost=0.01", "doubled=5", "garbage=3", "swapped=4", "late=2"];
    let plan = planned(7, &switches, 4096);
    assert_eq!(plan, planned(7, &switches, 4096));
    assert_ne!(plan, planned(8, &switches, 4096));
}

#[test]
fn so_many_are_hit_as_are_asked_for_and_no_frame_twice() {
    let switches = [
        "lost=10",
        "doubled=11",
        "swapped=12",
        "late=13",
        "truncated=14",
        "corrupted=15",
        "wrong-size=16",
        "wrong-type=17",
    ];
    let plan = planned(3, &switches, 500);
    let counts: Vec<usize> = plan.hits.values().map(Vec::len).collect();
    assert_eq!(counts, [10, 11, 12, 13, 14, 15, 16, 17]);
    let mut all: Vec<u64> = plan.hits.values().flatten().copied().collect();
    all.extend(plan.hits[&FrameFault::Swapped].iter().map(|first| first + 1));
    let hit = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), hit);
    // everything but the lost is sent, the doubled twice
    let mut sent = numbers(&plan);
    assert_eq!(sent.len(), 500 - 10 + 11);
    sent.sort_unstable();
    sent.dedup();
    let lost = &plan.hits[&FrameFault::Lost];
    assert_eq!(sent, (0..500).filter(|number| !lost.contains(number)).collect::<Vec<_>>());
    for step in plan.steps() {
        if let Step::Frame { number, damage: Some(damage) } = step {
            assert!(plan.hits[&damage].contains(&number));
        }
    }
}

#[test]
fn more_than_there_are_is_all_there_are() {
    assert!(numbers(&planned(1, &["lost=1000"], 10)).is_empty());
    assert_eq!(numbers(&planned(1, &["lost=@3,99"], 5)), [0, 1, 2, 4]);
    let rate = planned(1, &["lost=0.1"], 10_000).hits[&FrameFault::Lost].len();
    assert!((900..1100).contains(&rate), "{rate}");
}

#[test]
fn frames_change_places_as_they_are_told() {
    assert_eq!(numbers(&planned(1, &["swapped=@3"], 6)), [0, 1, 2, 4, 3, 5]);
    let late = numbers(&planned(1, &["late=@10"], 200));
    assert_eq!(late.iter().position(|&number| number == 10), Some(10 + LATE_BY as usize));
    let doubled = numbers(&planned(1, &["doubled=@9"], 10));
    assert_eq!(doubled, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]);
}

#[test]
fn starts_and_ends_go_where_they_are_told() {
    assert_eq!(position(&planned(1, &["no-start"], 4), Step::Start), None);
    assert_eq!(position(&planned(1, &["end=missing"], 4), END), None);
    assert_eq!(position(&planned(1, &["end=early"], 100), END), Some(1 + 90));
    let late = planned(1, &["end=late:2"], 4);
    assert_eq!(position(&late, Step::Pause(Duration::from_secs(2))), Some(5));
    assert_eq!(position(&late, END), Some(6));
    let other = planned(1, &["end=other"], 4);
    assert_eq!(position(&other, Step::End { is_own: false }), Some(3));
    assert_eq!(position(&other, END), Some(6));
}

#[test]
fn pauses_restarts_and_aborts_come_before_their_frame() {
    let plan = planned(1, &["stall=0.5@2", "restart@3", "abort-next@5"], 10);
    assert_eq!(numbers(&plan), [0, 1, 2, 3, 4]);
    assert_eq!(position(&plan, Step::Pause(Duration::from_millis(500))), Some(3));
    assert_eq!(position(&plan, Step::Restart), Some(5));
    assert_eq!(plan.steps().last(), Some(Step::AbortNext));
}
