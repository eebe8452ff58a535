use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};
use proptest::prelude::*;

use super::super::message::Packed;
use super::*;

const DETECTOR: DetectorShape = DetectorShape { rows: 2, cols: 3 };

fn key(id: u64) -> SeriesKey<'static> {
    SeriesKey { id, unique_id: None }
}

fn image(id: u64, number: u64, bytes: &[u8]) -> Message<'_> {
    let mut image = Image::new(key(id), number);
    let packed = Packed { encoding: Encoding::Bslz4, bytes };
    image.push(Channel { name: "threshold_1", detector: DETECTOR, count_type: CountType::U16, packed });
    Message::Image(image)
}

/// What came out: each frame with its bytes, or nothing where it is missing.
#[derive(Default)]
struct Arrived(Vec<Option<Vec<u8>>>);

impl Arrived {
    fn add(&mut self, item: Item<RawBatch>) {
        match item {
            Item::Data(batch) => {
                assert_eq!(batch.first, self.0.len() as u64, "out of order");
                assert!(batch.num_frames() > 0);
                self.0.extend(batch.frames().map(|frame| Some(frame.to_vec())));
            }
            Item::Gap(gap) => {
                assert_eq!(gap.first, self.0.len() as u64, "out of order");
                assert!(gap.count > 0);
                self.0.resize(self.0.len() + gap.count as usize, None);
            }
        }
    }
}

fn bytes_of(number: u64) -> Vec<u8> {
    number.to_le_bytes()[..1 + number as usize % 5].to_vec()
}

#[test]
fn a_series_in_order_is_complete_with_its_last_frame() {
    let mut reader = SeriesReader::new(SeriesSettings::new(300), Over::default());
    let (now, mut came) = (Instant::now(), Arrived::default());
    for number in 0..300 {
        let bytes = bytes_of(number);
        let ending = reader.take(&image(5, number, &bytes), now, |item| came.add(item));
        assert_eq!(ending, (number == 299).then_some(Ending::Complete));
    }
    assert_eq!(came.0, (0..300).map(|number| Some(bytes_of(number))).collect::<Vec<_>>());
    assert_eq!((reader.counts().frames, reader.key().unwrap().id), (300, 5));
}

#[test]
fn an_end_that_overtakes_frames_waits_for_them() {
    let mut reader = SeriesReader::new(SeriesSettings::new(3), Over::default());
    let (now, mut came) = (Instant::now(), Arrived::default());
    let mut take = |message: &Message<'_>| reader.take(message, now, |item| came.add(item));
    assert_eq!(take(&image(5, 0, b"a")), None);
    assert_eq!(take(&Message::End(key(5))), None);
    assert_eq!(take(&image(5, 2, b"c")), None);
    assert_eq!(take(&image(5, 1, b"b")), Some(Ending::Complete));
    assert_eq!(came.0.len(), 3);
}

#[test]
fn an_early_end_a_silence_and_another_series_leave_holes_and_say_why() {
    let settings = SeriesSettings::new(5);
    for (ending, wait) in [(Ending::EndOfSeries, settings.grace), (Ending::Silence, settings.silence)] {
        let mut reader = SeriesReader::new(settings.clone(), Over::default());
        let (now, mut came) = (Instant::now(), Arrived::default());
        assert_eq!(reader.look(now + Duration::from_secs(3600), |_| ()), None, "it has not begun");
        reader.take(&image(5, 1, b"b"), now, |item| came.add(item));
        if ending == Ending::EndOfSeries {
            reader.take(&Message::End(key(5)), now, |item| came.add(item));
        }
        let before = wait.saturating_sub(Duration::from_millis(1));
        assert_eq!(reader.look(now + before, |item| came.add(item)), None);
        assert_eq!(reader.look(now + wait, |item| came.add(item)), Some(ending));
        assert_eq!(came.0, [None, Some(b"b".to_vec()), None, None, None]);
    }
    let mut reader = SeriesReader::new(settings.clone(), Over::default());
    let (now, mut came) = (Instant::now(), Arrived::default());
    reader.take(&image(5, 0, b"a"), now, |item| came.add(item));
    let next = image(6, 0, b"A");
    assert_eq!(reader.take(&next, now, |item| came.add(item)), Some(Ending::NextSeries));
    assert_eq!(came.0.iter().flatten().count(), 1);
    // what is left of the old series does not disturb the new one
    let mut reader = SeriesReader::new(settings, reader.into_over());
    let mut came = Arrived::default();
    for message in [image(5, 1, b"b"), next, Message::End(key(5)), image(6, 1, b"B")] {
        assert_eq!(reader.take(&message, now, |item| came.add(item)), None);
    }
    assert_eq!((reader.counts().stale, reader.counts().frames), (2, 2));
}

#[test]
fn a_frame_that_stays_away_too_long_is_given_up_and_late_when_it_comes() {
    let mut settings = SeriesSettings::new(100);
    settings.most_ahead = 10;
    let mut reader = SeriesReader::new(settings, Over::default());
    let (now, mut came) = (Instant::now(), Arrived::default());
    let order = (0..99).filter(|number| *number != 20).chain([20, 50, 99]);
    for number in order {
        let bytes = bytes_of(number);
        let ending = reader.take(&image(5, number, &bytes), now, |item| came.add(item));
        assert_eq!(ending, (number == 99).then_some(Ending::LastFrame));
    }
    assert_eq!(came.0.iter().position(Option::is_none), Some(20));
    assert_eq!(came.0.iter().flatten().count(), 99);
    assert_eq!((reader.counts().late, reader.counts().doubled), (1, 1));
}

#[test]
fn the_end_of_a_series_that_was_not_seen_begins_nothing() {
    let mut reader = SeriesReader::new(SeriesSettings::new(5), Over::default());
    let now = Instant::now();
    assert_eq!(reader.take(&Message::End(key(4)), now, |_| ()), None);
    assert_eq!(reader.look(now + Duration::from_secs(99), |_| ()), None);
    assert_eq!(reader.key(), None);
}

/// An image of `threshold_1` with counts of this type.
fn image_of(count_type: CountType, number: u64) -> Message<'static> {
    let mut image = Image::new(key(5), number);
    let packed = Packed { encoding: Encoding::Bslz4, bytes: b"x" };
    image.push(Channel { name: "threshold_1", detector: DETECTOR, count_type, packed });
    Message::Image(image)
}

#[test]
fn a_frame_unlike_the_series_is_a_hole_that_says_so_at_once() {
    let kind = Kind { encoding: Encoding::Bslz4, count_type: CountType::U16, detector: DETECTOR };
    let settings = SeriesSettings {
        channel: Some("threshold_1".to_owned()),
        kind: Some(kind),
        ..SeriesSettings::new(5)
    };
    let mut reader = SeriesReader::new(settings, Over::default());
    let (now, mut frames, mut holes) = (Instant::now(), Vec::new(), Vec::new());
    let mut take = |message: &Message<'_>| {
        reader.take(message, now, |item| match item {
            Item::Data(batch) => frames.extend(batch.first..batch.end()),
            Item::Gap(Gap { first, count, reason }) => holes.push((first, count, reason.to_string())),
        })
    };
    // the first that comes is the odd one, and one overtakes its neighbour
    assert_eq!(take(&image_of(CountType::U32, 0)), None);
    assert_eq!(take(&image_of(CountType::U8, 2)), None);
    assert_eq!(take(&image(5, 7, b"beyond")), None);
    assert_eq!(take(&image(5, 1, b"b")), None);
    assert_eq!(take(&Message::Image(Image::new(key(5), 3))), None);
    assert_eq!(take(&image(5, 4, b"e")), Some(Ending::LastFrame));
    assert_eq!(frames, [1, 4]);
    let unlike =
        |got: &str| format!("unlike the others: got a frame of 2x3 {got}, Bslz4, expected 2x3 u16, Bslz4");
    let without = "unlike the others: the image came without threshold_1".to_owned();
    assert_eq!(holes, [(0, 1, unlike("u32")), (2, 1, unlike("u8")), (3, 1, without)]);
    let counts = reader.counts();
    assert_eq!((counts.unlike, counts.beyond, counts.without_channel, counts.frames), (2, 1, 1, 2));
}

#[test]
fn a_frame_that_comes_again_as_it_should_be_before_its_turn_is_used() {
    let mut reader = SeriesReader::new(SeriesSettings::new(3), Over::default());
    let (now, mut came) = (Instant::now(), Arrived::default());
    let mut take = |message: &Message<'_>| reader.take(message, now, |item| came.add(item));
    take(&image_of(CountType::U16, 0));
    take(&image_of(CountType::U32, 2));
    take(&image_of(CountType::U16, 2));
    assert_eq!(take(&image_of(CountType::U16, 1)), Some(Ending::Complete));
    assert_eq!((reader.counts().unlike, reader.counts().frames), (1, 3));
}

proptest! {
    #[test]
    fn holes_are_exactly_the_frames_that_did_not_come(
        lost in proptest::collection::vec(any::<bool>(), 1..400),
        swaps in proptest::collection::vec((any::<prop::sample::Index>(), 1_usize..20), 0..30),
        doubled in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let num_frames = lost.len() as u64;
        let mut order: Vec<u64> = (0..num_frames).filter(|&number| !lost[number as usize]).collect();
        prop_assume!(!order.is_empty());
        let before = order.clone();
        for (at, by) in swaps {
            let at = at.index(order.len());
            let other = (at + by).min(order.len() - 1);
            order.swap(at, other);
        }
        for at in doubled {
            let number = order[at.index(order.len())];
            order.push(number);
        }
        let mut reader = SeriesReader::new(SeriesSettings::new(num_frames), Over::default());
        let (now, mut came) = (Instant::now(), Arrived::default());
        let mut ending = None;
        for &number in &order {
            let bytes = bytes_of(number);
            ending = ending.or(reader.take(&image(5, number, &bytes), now, |item| came.add(item)));
            if ending.is_some() {
                break;
            }
        }
        let whole = before.len() as u64 == num_frames;
        prop_assert_eq!(ending.clone(), whole.then_some(Ending::Complete));
        if ending.is_none() {
            reader.take(&Message::End(key(5)), now, |item| came.add(item));
            let ending = reader.look(now + Duration::from_secs(1), |item| came.add(item));
            prop_assert_eq!(ending, Some(Ending::EndOfSeries));
        }
        let expected: Vec<Option<Vec<u8>>> =
            (0..num_frames).map(|number| (!lost[number as usize]).then(|| bytes_of(number))).collect();
        prop_assert_eq!(came.0, expected);
        prop_assert_eq!(reader.counts().frames, before.len() as u64);
    }
}

#[test]
fn the_end_of_another_series_ends_nothing() {
    let mut reader = SeriesReader::new(SeriesSettings::new(3), Over::default());
    let (now, mut came) = (Instant::now(), Arrived::default());
    for message in [image(5, 0, b"a"), Message::End(key(4)), image(5, 1, b"b")] {
        assert_eq!(reader.take(&message, now, |item| came.add(item)), None);
    }
    assert_eq!(reader.take(&image(5, 2, b"c"), now, |item| came.add(item)), Some(Ending::Complete));
    assert_eq!((reader.counts().stale, reader.counts().frames), (1, 3));
}

#[test]
fn a_second_reader_is_told_from_losses() {
    let shared = |keep: fn(u64) -> bool| {
        let mut reader = SeriesReader::new(SeriesSettings::new(1000), Over::default());
        for number in (0..400).filter(|&number| keep(number)) {
            reader.take(&image(5, number, b"x"), Instant::now(), |_| ());
        }
        reader.counts().is_shared()
    };
    assert!(shared(|number| number % 2 == 1));
    // turns change now and then, when the other is slow
    assert!(shared(|number| number % 2 == 1 || number % 50 == 0));
    assert!(!shared(|_| true));
    assert!(!shared(|number| number % 10 != 3));
    assert!(!shared(|number| number % 3 == 0));
}
