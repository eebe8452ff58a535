//! An image of another series without a start: a stray one passes, the next series begins by more of them.

use super::*;

fn images(facts: &SeriesFacts, version: Version, numbers: std::ops::Range<u64>) -> Vec<WireMessage> {
    numbers.map(|number| facts.image(version, number, &bytes_of(facts.id, number))).collect()
}

/// One flipped bit in the number of a series ended the scan: all that came behind it was passed over.
#[test]
fn a_stray_image_of_another_series_ends_nothing() {
    for version in [Version::V1, Version::V2] {
        let (first, stray) = (facts(7, 64), facts(7000, 64));
        for (at, number) in [(31, 30), (1, 5), (62, 0)] {
            let messages = [
                vec![first.start(version)],
                images(&first, version, 0..at),
                images(&stray, version, number..number + 1),
                images(&first, version, at..64),
                vec![first.end(version)],
            ]
            .concat();
            let (series, said) = all_channels(&messages, 1);
            let end = series[0].1[0].1.clone().unwrap();
            assert_eq!((end.counts.frames, &end.ending), (64, &Ending::Complete), "{version} at {at}");
            let [Notice::Stray { series, other, number: told }] = &said[..] else { panic!("{said:?}") };
            assert_eq!((series.id, other.id, *told), (7, 7000, number));
        }
    }
}

#[test]
fn a_series_whose_start_was_lost_ends_the_one_before_and_loses_no_image() {
    for version in [Version::V1, Version::V2] {
        let (first, next) = (facts(7, 64), facts(8, 40));
        // the last of the first come late, in between
        let messages = [
            vec![first.start(version)],
            images(&first, version, 0..50),
            images(&next, version, 0..1),
            images(&first, version, 50..53),
            images(&next, version, 1..40),
            vec![next.end(version)],
        ]
        .concat();
        let (series, _) = all_channels(&messages, 2);
        let ends: Vec<_> = series.iter().map(|(_, came)| came[0].1.clone().unwrap()).collect();
        assert_eq!((ends[0].counts.frames, &ends[0].ending), (50, &Ending::NextSeries), "{version}");
        assert_eq!((series[1].0.key.id, ends[1].counts.frames), (8, 40), "{version}");
    }
}
