use super::super::message::{Packed, SeriesKey};
use super::*;

const KEY: SeriesKey<'static> = SeriesKey { id: 5, unique_id: None };
const DETECTOR: DetectorShape = DetectorShape { rows: 2, cols: 3 };

fn image(channels: &[(&'static str, CountType)]) -> Image<'static> {
    let mut image = Image::new(KEY, 0);
    for &(name, count_type) in channels {
        let packed = Packed { encoding: Encoding::Bslz4, bytes: b"" };
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
    for _ in 0..MOST_IMAGES {
        assert!(!lies.is_settled(now));
        lies.take(&image(&[("a", CountType::U32)]), now);
    }
    assert!(lies.is_settled(now));
    assert_eq!(types(&lies), [("a".to_owned(), CountType::U32)]);
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
    let expected = [("b", CountType::U16), ("a", CountType::U8), ("c", CountType::U32)];
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
