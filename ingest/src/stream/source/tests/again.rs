//! A name that was used before: a start behind an end begins another series, and nothing else does.

use super::*;

fn images(facts: &SeriesFacts, version: Version, numbers: std::ops::Range<u64>) -> Vec<WireMessage> {
    numbers.map(|number| facts.image(version, number, &bytes_of(facts.id, number))).collect()
}

#[test]
fn a_start_behind_the_end_of_its_series_begins_another_of_the_same_name() {
    for version in [Version::V1, Version::V2] {
        let (first, again) = (facts(7, 50), SeriesFacts { num_images: 30, ..facts(7, 50) });
        let messages = [
            vec![first.start(version)],
            images(&first, version, 0..50),
            vec![first.end(version), again.start(version)],
            images(&again, version, 0..30),
            vec![again.end(version)],
        ]
        .concat();
        let (series, said) = all_channels(&messages, 2);
        let counts: Vec<_> =
            series.iter().map(|(_, came)| came[0].1.clone().unwrap().counts.frames).collect();
        assert_eq!((counts, said), (vec![50, 30], vec![]), "{version}");
        assert_eq!(series[1].0.num_images, Some(30));
    }
}

#[test]
fn a_series_that_ended_early_and_begins_again_within_the_grace_is_two() {
    let facts = facts(7, 50);
    let messages = [
        vec![facts.start(Version::V2)],
        images(&facts, Version::V2, 0..20),
        vec![facts.end(Version::V2), facts.start(Version::V2)],
        images(&facts, Version::V2, 0..50),
    ]
    .concat();
    let (series, said) = all_channels(&messages, 2);
    let ends: Vec<_> = series.iter().map(|(_, came)| came[0].1.clone().unwrap()).collect();
    assert_eq!(ends.iter().map(|end| end.counts.frames).collect::<Vec<_>>(), [20, 50]);
    assert_eq!((&ends[0].ending, &ends[1].ending, said), (&Ending::NextSeries, &Ending::Complete, vec![]));
}

#[test]
fn a_name_that_is_used_again_without_an_end_is_passed_over_and_said() {
    let (facts, next) = (facts(7, 50), facts(8, 10));
    let messages = [
        vec![facts.start(Version::V2)],
        images(&facts, Version::V2, 0..50),
        // no end came: whatever this is, it begins nothing
        vec![facts.start(Version::V2)],
        images(&facts, Version::V2, 0..50),
        vec![next.start(Version::V2)],
        images(&next, Version::V2, 0..10),
    ]
    .concat();
    let (series, said) = all_channels(&messages, 2);
    assert_eq!(series.iter().map(|(announced, _)| announced.key.id).collect::<Vec<_>>(), [7, 8]);
    let text: Vec<_> = said.iter().map(ToString::to_string).collect();
    let expected = "got a second start of 50 images of series 7 (00000000000000000000000007) and no end of the first: it is \
                    passed over, and so is what may follow under this name";
    assert_eq!(text, [expected]);
}

#[test]
fn images_behind_the_end_of_their_series_begin_nothing_and_are_said_once() {
    for version in [Version::V1, Version::V2] {
        let (facts, next) = (facts(7, 50), facts(8, 10));
        let messages = [
            vec![facts.start(version)],
            images(&facts, version, 0..50),
            vec![facts.end(version)],
            // the start of another acquisition of this number was lost, or these are late
            images(&facts, version, 0..50),
            vec![next.start(version)],
            images(&next, version, 0..5),
            images(&facts, version, 49..50),
            images(&next, version, 5..10),
        ]
        .concat();
        let (series, said) = all_channels(&messages, 2);
        let counts: Vec<_> = series
            .iter()
            .map(|(announced, came)| (announced.key.id, came[0].1.clone().unwrap().counts.frames))
            .collect();
        assert_eq!(counts, [(7, 50), (8, 10)], "{version}");
        let [Notice::Image { series, number: 0 }] = &said[..] else { panic!("{said:?}") };
        assert_eq!(series.id, 7);
    }
}

#[test]
fn images_beyond_those_that_are_wanted_are_no_surprise_before_the_end() {
    let facts = facts(7, 50);
    let messages = [images(&facts, Version::V2, 0..200), vec![facts.end(Version::V2)]].concat();
    // 100 are read of a series whose start was missed
    let next = super::facts(8, 1);
    let messages = [messages, vec![next.start(Version::V2)], images(&next, Version::V2, 0..1)].concat();
    let (series, said) = all_channels(&messages, 2);
    assert_eq!((series[0].1[0].0.len(), said), (100, vec![]));
}
