//! Channels of a series: those that were announced, those that come, and what becomes of each.

use super::super::super::compose::{HeaderDetail, StartContents};
use super::super::super::threshold::Threshold;
use super::*;

/// A start of stream v2 that announces these channels, or one of v1, which has none.
fn start(facts: &SeriesFacts, version: Version, channels: &[&str]) -> WireMessage {
    let channels: Vec<String> = channels.iter().map(|&name| name.to_owned()).collect();
    let config = serde_json::json!({ "nimages": 1, "ntrigger": facts.num_images });
    let contents = StartContents {
        detail: HeaderDetail::All,
        appendix: None,
        config: config.as_object().unwrap(),
        channels: &channels,
        arm_date: "2026-01-01T00:00:00Z",
        pixel_mask: &[],
    };
    facts.full_start(version, &contents)
}

#[test]
fn a_channel_that_was_announced_is_a_series_of_its_own_whenever_it_comes() {
    let facts = facts(6, 60);
    // "late" begins with image 20, "never" does not come, "odd" was not announced and comes with two images
    let mut messages = vec![start(&facts, Version::V2, &["threshold_1", "late", "never"])];
    for number in 0..60 {
        let bytes = bytes_of(6, number);
        let mut channels: Vec<(&str, &[u8])> = vec![("threshold_1", &bytes)];
        if number >= 20 {
            channels.push(("late", &bytes));
        }
        if number == 3 || number == 50 {
            channels.push(("odd", &bytes));
        }
        messages.push(facts.image_of_channels(number, &channels));
    }
    messages.push(facts.end(Version::V2));
    let (mut series, said) = all_channels(&messages, 1);
    let (announced, came) = series.remove(0);
    let chosen = Threshold::All.choose(&announced.channels).unwrap();
    assert_eq!(
        chosen.iter().map(|channel| &*channel.name).collect::<Vec<_>>(),
        ["threshold_1", "late", "never"]
    );
    let whole: Vec<_> = (0..60).map(|number| Some(bytes_of(6, number))).collect();
    let late: Vec<_> = (0..60).map(|number| (number >= 20).then(|| bytes_of(6, number))).collect();
    let ends: Vec<_> = came.iter().map(|(_, end)| end.clone().unwrap().ending).collect();
    let came: Vec<_> = came.into_iter().map(|(frames, _)| frames).collect();
    assert!(came == [whole, late, vec![None; 60]]);
    assert_eq!(ends, [Ending::Complete, Ending::LastFrame, Ending::LastFrame]);
    // said once, with its name
    let [Notice::Channel { channel, number: 3, .. }] = &said[..] else { panic!("{said:?}") };
    assert_eq!(channel, "odd");
    let notes: Vec<_> = announced.notes().collect();
    assert!(notes.len() == 2 && notes[0].starts_with("the start announced late, of which"), "{notes:?}");
}

#[test]
fn the_one_channel_of_stream_v1_is_taken_with_all_whatever_its_start_says() {
    let facts = facts(6, 30);
    let start = start(&facts, Version::V1, &["threshold_1", "threshold_2"]);
    let images = (0..30).map(|number| facts.image(Version::V1, number, &bytes_of(6, number)));
    let messages: Vec<_> = [start].into_iter().chain(images).collect();
    let (series, said) = all_channels(&messages, 1);
    let (announced, came) = &series[0];
    assert_eq!(announced.channels.len(), 1);
    assert!(came[0].0 == (0..30).map(|number| Some(bytes_of(6, number))).collect::<Vec<_>>());
    assert_eq!((said, announced.notes().count()), (vec![], 0));
}

/// A frame of 96 x 192 counts, as it is packed.
fn packed(number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    kernels::bslz4_encode::encode_bslz4(&vec![number as u16; 96 * 192], &mut bytes);
    bytes
}

#[test]
fn seven_frames_of_a_wrong_type_at_the_beginning_are_holes_and_decide_nothing() {
    for version in [Version::V1, Version::V2] {
        for has_start in [true, false] {
            let facts = facts(3, 40);
            let odd = SeriesFacts { count_type: CountType::U32, ..facts.clone() };
            let image =
                |number: u64| if number < 7 { &odd } else { &facts }.image(version, number, &packed(number));
            let messages: Vec<_> =
                has_start.then(|| facts.start(version)).into_iter().chain((0..40).map(image)).collect();
            let messages = [messages, vec![facts.end(version)]].concat();
            let (series, _) = all_channels(&messages, 1);
            let (announced, came) = &series[0];
            assert_eq!(announced.count_type, Some(CountType::U16), "{version}, {has_start}");
            let expected: Vec<_> = (0..40).map(|number| (number >= 7).then(|| packed(number))).collect();
            assert!(came[0].0[..40] == expected, "{version}, {has_start}");
        }
    }
}

#[test]
fn a_start_that_is_wrong_for_every_frame_is_told_and_loses_none() {
    for version in [Version::V1, Version::V2] {
        let real = facts(3, 80);
        // the whole detector is announced, a region of it is sent
        let wrong = SeriesFacts { detector: DetectorShape { rows: 192, cols: 192 }, ..real.clone() };
        let images = (0..80).map(|number| real.image(version, number, &packed(number)));
        let messages: Vec<_> = [wrong.start(version)].into_iter().chain(images).collect();
        let (series, _) = all_channels(&messages, 1);
        let (announced, came) = &series[0];
        assert_eq!(announced.detector, Some(real.detector));
        assert!(came[0].0 == (0..80).map(|number| Some(packed(number))).collect::<Vec<_>>());
        let notes: Vec<_> = announced.notes().collect();
        assert!(notes.len() == 1 && notes[0].ends_with("all frames are taken as they come"), "{notes:?}");
    }
}

#[test]
fn every_channel_is_an_acquisition_of_its_own_with_holes_of_its_own() {
    let facts = facts(6, 60);
    let names = ["threshold_1", "threshold_2", "difference"];
    let bytes = |channel: usize, number: u64| bytes_of(6 + channel as u64, number);
    // the difference is u32 in one image; threshold_2 is missing in another; a third image is lost
    let (odd, without, lost) = (20, 30, 40);
    let wide = SeriesFacts { count_type: CountType::U32, ..facts.clone() };
    let mut messages = vec![facts.start(Version::V2)];
    for number in (0..60).filter(|&number| number != lost) {
        let frames: Vec<Vec<u8>> = (0..3).map(|channel| bytes(channel, number)).collect();
        let mut channels: Vec<(&str, &[u8])> =
            names.iter().copied().zip(frames.iter().map(Vec::as_slice)).collect();
        if number == without {
            channels.remove(1);
        }
        let facts = if number == odd { &wide } else { &facts };
        messages.push(facts.image_of_channels(number, &channels));
    }
    messages.push(facts.end(Version::V2));
    let (slabs, slabs_in) = bounded(1);
    let (spent, _spent_in) = bounded(1);
    slabs.send(crate::stream::zmtp::tests::listed(&messages)).unwrap();
    drop(slabs);
    let mut source = StreamSource::new(Received { slabs: slabs_in, spent }, Arc::default());
    let announced = source.next_series(|_| ()).unwrap();
    let found: Vec<_> = announced.channels.iter().map(|channel| channel.name.as_str()).collect();
    assert_eq!(found, names);
    let mut came = Vec::new();
    let readings = announced.channels.iter().map(|channel| {
        let one = announced.of_channel(channel);
        assert_eq!((one.channel(), one.has_others), (channel.name.as_str(), true));
        let (frames, frames_in) = bounded(1000);
        came.push(frames_in);
        ChannelReading { settings: one.reading(60), frames, counts: Arc::default() }
    });
    let readings = readings.collect();
    let ends = source.read_channels(readings);
    for (channel, (frames, end)) in came.into_iter().zip(ends).enumerate() {
        let got = frames.into_iter().fold(Vec::new(), with_item);
        let mut expected: Vec<_> = (0..60).map(|number| Some(bytes(channel, number))).collect();
        let holes = [odd, lost].into_iter().chain((channel == 1).then_some(without));
        holes.for_each(|hole| expected[hole as usize] = None);
        assert!(got == expected, "{}", names[channel]);
        let counts = end.unwrap().counts;
        let seen = (counts.frames, counts.unlike, counts.without_channel);
        assert_eq!(seen, (58 - u64::from(channel == 1), 1, u64::from(channel == 1)));
    }
}

#[test]
fn a_channel_that_nobody_listens_to_any_more_does_not_end_the_others() {
    let facts = facts(6, 300);
    let mut messages = vec![facts.start(Version::V2)];
    for number in 0..300 {
        messages.push(facts.image_of_channels(number, &[("a", &[1; 20]), ("b", &[2; 20])]));
    }
    let (slabs, slabs_in) = bounded(1);
    let (spent, _spent_in) = bounded(1);
    slabs.send(crate::stream::zmtp::tests::listed(&messages)).unwrap();
    drop(slabs);
    let mut source = StreamSource::new(Received { slabs: slabs_in, spent }, Arc::default());
    let announced = source.next_series(|_| ()).unwrap();
    let reading = |channel: usize, frames| ChannelReading {
        settings: announced.of_channel(&announced.channels[channel]).reading(300),
        frames,
        counts: Arc::default(),
    };
    let (gone, gone_in) = bounded(1000);
    let (frames, frames_in) = bounded(1000);
    drop(gone_in);
    let ends = source.read_channels(vec![reading(1, gone), reading(2, frames)]);
    assert_eq!(ends[0], None);
    assert_eq!(ends[1].as_ref().map(|end| (&end.ending, end.counts.frames)), Some((&Ending::Complete, 300)));
    assert_eq!(frames_in.iter().count(), 3);
}
