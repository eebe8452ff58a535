//! A name that was used before: a start behind an end begins another series, and so does one behind which images count again.

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

/// Frames of two acquisitions were mixed in one series, and that was called complete.
#[test]
fn a_series_of_which_a_start_and_images_come_again_without_an_end_is_two() {
    let first = facts(7, 50);
    // the second of other bytes, shorter, its first image lost; before it all of the first came, or a part without its first image
    let again = SeriesFacts { num_images: 40, ..first.clone() };
    let other_bytes = |number: u64| vec![number as u8 + 100; 30];
    let sent_again = (1..40).map(|number| again.image(Version::V2, number, &other_bytes(number)));
    let sent_again: Vec<_> = [again.start(Version::V2)].into_iter().chain(sent_again).collect();
    for came in [0..50, 1..30] {
        let messages =
            [vec![first.start(Version::V2)], images(&first, Version::V2, came.clone()), sent_again.clone()];
        let messages = [messages.concat(), vec![again.end(Version::V2)]].concat();
        let (series, said) = all_channels(&messages, 2);
        let [(one, of_one), (two, of_two)] = &series[..] else { panic!() };
        assert_eq!(
            (one.num_images, two.num_images, two.first_message > one.first_message),
            (Some(50), Some(40), true)
        );
        let expected: Vec<_> =
            (0..50).map(|number| came.contains(&number).then(|| bytes_of(7, number))).collect();
        assert!(of_one[0].0 == expected, "{came:?}");
        let expected: Vec<_> = (0..40).map(|number| (number > 0).then(|| other_bytes(number))).collect();
        assert!(of_two[0].0 == expected, "{came:?}");
        // of one that was over already there is nothing to be said
        let text: Vec<_> = said.iter().map(ToString::to_string).collect();
        let expected = "got a second start of 40 images of series 7 (00000000000000000000000007) and no end of the first: where \
                        images count on behind it they are of this series, where they count again of another";
        assert_eq!(text, if came.end == 50 { vec![] } else { vec![expected] });
    }
}

#[test]
fn a_start_that_comes_late_or_twice_ends_no_series_whose_images_count_on() {
    let facts = facts(7, 50);
    let starts = [vec![facts.start(Version::V2)], vec![]];
    for first in starts {
        let messages = [
            first,
            images(&facts, Version::V2, 0..20),
            vec![facts.start(Version::V2), facts.start(Version::V2)],
            images(&facts, Version::V2, 20..50),
            vec![facts.end(Version::V2)],
        ];
        let (series, said) = all_channels(&messages.concat(), 1);
        let came = &series[0].1[0].0;
        assert!(came[..50] == (0..50).map(|number| Some(bytes_of(7, number))).collect::<Vec<_>>());
        assert!(matches!(said[..], [Notice::Start { .. }, Notice::Start { .. }]), "{said:?}");
    }
}

#[test]
fn every_channel_of_a_series_that_begins_again_is_two() {
    let facts = facts(7, 20);
    let of = |number: u64, byte: u8| {
        // the second channel lacks some frames of the first acquisition
        let both = [("a", &[byte; 20][..]), ("b", &[byte + 1; 20])];
        facts.image_of_channels(number, if byte == 1 && number < 4 { &both[..1] } else { &both })
    };
    let acquisition = |byte: u8, images: u64| {
        [vec![facts.start(Version::V2)], (0..images).map(|number| of(number, byte)).collect()].concat()
    };
    let messages = [acquisition(1, 15), acquisition(3, 20), vec![facts.end(Version::V2)]].concat();
    let (series, _) = all_channels(&messages, 2);
    for (at, (images, byte)) in [(15, 1), (20, 3)].into_iter().enumerate() {
        let channels: Vec<_> = series[at].0.channels.iter().map(|channel| channel.name.as_str()).collect();
        let a = channels.iter().position(|name| *name == "a").unwrap();
        let expected: Vec<_> = (0..20).map(|number| (number < images).then(|| vec![byte; 20])).collect();
        assert!(series[at].1[a].0 == expected, "{at}");
    }
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
