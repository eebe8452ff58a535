use super::super::message::{Packed, SeriesKey};
use super::super::threshold::Threshold;
use super::*;

const KEY: SeriesKey<'static> = SeriesKey { id: 5, unique_id: None };
const DETECTOR: DetectorShape = DetectorShape { rows: 2, cols: 3 };

/// An image whose channels have bytes that are as long as they say.
fn image(channels: &[(&'static str, CountType)]) -> Image<'static> {
    let whole =
        |count_type: CountType| [&[0; 6][..], &[0; 12], &[0; 24]][count_type.bytes().ilog2() as usize];
    image_of(channels.iter().map(|&(name, count_type)| (name, count_type, whole(count_type))))
}

fn image_of(channels: impl Iterator<Item = (&'static str, CountType, &'static [u8])>) -> Image<'static> {
    let mut image = Image::new(KEY, 0);
    for (name, count_type, bytes) in channels {
        let packed = Packed { encoding: Encoding::Raw, bytes };
        assert!(image.push(Channel { name, detector: DETECTOR, count_type, packed }));
    }
    image
}

fn types(kinds: &Kinds) -> Vec<(String, CountType)> {
    kinds.channels().into_iter().map(|channel| (channel.name, channel.kind.count_type)).collect()
}

#[test]
fn without_a_start_the_majority_of_the_first_images_decides() {
    let (mut kinds, now) = (Kinds::default(), Instant::now());
    assert!(!kinds.is_settled(now + Duration::from_secs(99)), "no image came");
    kinds.take(&image(&[("a", CountType::U32)]), now);
    for _ in 0..6 {
        kinds.take(&image(&[("a", CountType::U16)]), now);
    }
    assert!(!kinds.is_settled(now));
    kinds.take(&image(&[("a", CountType::U32)]), now);
    assert!(kinds.is_settled(now));
    assert_eq!(types(&kinds), [("a".to_owned(), CountType::U16)]);
}

#[test]
fn few_images_decide_when_no_more_come_in_time() {
    let (mut kinds, now) = (Kinds::default(), Instant::now());
    kinds.take(&image(&[("", CountType::U8)]), now);
    assert!(!kinds.is_settled(now));
    assert!(kinds.is_settled(now + PATIENCE));
    assert_eq!(types(&kinds), [(String::new(), CountType::U8)]);
}

#[test]
fn a_start_is_believed_as_soon_as_an_image_agrees_and_no_longer_than_images_are_looked_at() {
    let start = Start { detector: Some(DETECTOR), count_type: Some(CountType::U16), ..Start::of(KEY) };
    let (mut kinds, now) = (Kinds::of_start(&start), Instant::now());
    let mut lies = kinds.clone();
    kinds.take(&image(&[("a", CountType::U32)]), now);
    kinds.take(&image(&[("a", CountType::U32)]), now);
    assert!(!kinds.is_settled(now + PATIENCE));
    kinds.take(&image(&[("a", CountType::U16)]), now);
    assert!(kinds.is_settled(now));
    assert_eq!(types(&kinds), [("a".to_owned(), CountType::U16)]);
    for _ in 0..MOST_IMAGES_TO_AGREE {
        assert!(!lies.is_settled(now));
        lies.take(&image(&[("a", CountType::U32)]), now);
    }
    assert!(lies.is_settled(now));
    assert_eq!(types(&lies), [("a".to_owned(), CountType::U32)]);
    assert_eq!(
        lies.channels()[0].note.as_deref().unwrap(),
        "the start announced frames of 2x3 u16, Raw for a, got 2x3 u32, Raw of the first 64 images: all frames are taken as they come"
    );
}

#[test]
fn frames_that_contradict_each_other_or_their_own_bytes_do_not_outvote_a_start() {
    let start = Start { detector: Some(DETECTOR), count_type: Some(CountType::U16), ..Start::of(KEY) };
    let now = Instant::now();
    // called u32, with the bytes of u16
    let mislabelled = || image_of([("a", CountType::U32, &[0; 12][..])].into_iter());
    let mut kinds = Kinds::of_start(&start);
    (0..MOST_IMAGES_TO_AGREE).for_each(|_| kinds.take(&mislabelled(), now));
    assert!(kinds.is_settled(now));
    assert_eq!(types(&kinds), [("a".to_owned(), CountType::U16)]);
    assert!(kinds.channels()[0].note.as_deref().unwrap().ends_with("the start is believed"));
    let mut kinds = Kinds::of_start(&start);
    kinds.take(&image(&[("a", CountType::U8)]), now);
    (1..MOST_IMAGES_TO_AGREE).for_each(|_| kinds.take(&image(&[("a", CountType::U32)]), now));
    assert_eq!(types(&kinds), [("a".to_owned(), CountType::U16)]);
    // without a start, one that is as long as it says counts for more than seven that are not
    let mut kinds = Kinds::default();
    (1..MOST_IMAGES).for_each(|_| kinds.take(&mislabelled(), now));
    kinds.take(&image(&[("a", CountType::U16)]), now);
    assert!(kinds.is_settled(now));
    assert_eq!(types(&kinds), [("a".to_owned(), CountType::U16)]);
    assert_eq!(kinds.channels()[0].note, None);
}

#[test]
fn a_channel_that_was_announced_and_has_not_come_is_taken_as_the_others_are() {
    let start = Start { channels: vec!["first", "b"], ..Start::of(KEY) };
    let (mut kinds, now) = (Kinds::of_start(&start), Instant::now());
    (1..MOST_IMAGES).for_each(|_| kinds.take(&image(&[("b", CountType::U32)]), now));
    assert!(!kinds.is_settled(now + PATIENCE), "it may still come");
    kinds.take(&image(&[("b", CountType::U32)]), now);
    assert!(kinds.is_settled(now));
    let expected = [("first", CountType::U32), ("b", CountType::U32)];
    assert_eq!(types(&kinds), expected.map(|(name, count_type)| (name.to_owned(), count_type)));
    let channels = kinds.channels();
    assert_eq!([channels[0].has_come, channels[1].has_come], [false, true]);
    assert_eq!(
        channels[0].note.as_deref().unwrap(),
        "the start announced first, of which the first 8 images have no frame: 2x3 u32, Raw is expected, as of b"
    );
    // nobody who asks for the first one gets nothing but holes
    assert_eq!(Threshold::First.choose(&channels).unwrap(), [&channels[1]]);
}

#[test]
fn channels_are_those_of_the_start_and_those_that_most_images_have() {
    let now = Instant::now();
    let start = Start { channels: vec!["b", "a", "never"], ..Start::of(KEY) };
    let mut kinds = Kinds::of_start(&start);
    kinds.take(&image(&[("odd", CountType::U8)]), now);
    for _ in 1..MOST_IMAGES {
        kinds.take(&image(&[("a", CountType::U8), ("b", CountType::U16), ("c", CountType::U32)]), now);
    }
    let expected =
        [("b", CountType::U16), ("a", CountType::U8), ("never", CountType::U16), ("c", CountType::U32)];
    assert_eq!(types(&kinds), expected.map(|(name, count_type)| (name.to_owned(), count_type)));
}

#[test]
fn names_without_end_take_no_memory() {
    let (mut kinds, now) = (Kinds::default(), Instant::now());
    let long: &'static str = Box::leak("x".repeat(1 << 16).into_boxed_str());
    for _ in 0..100 {
        kinds.take(&image(&[(long, CountType::U8)]), now);
    }
    assert!(kinds.votes.is_empty() && kinds.channels().is_empty());
}
