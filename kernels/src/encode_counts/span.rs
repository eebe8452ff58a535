//! One span of 256 detector pixels: the counts of the covered frames, sorted by pixel, to the bytes of its groups.

use super::by_pixel::{IntervalPlanes, PixelLists};
use super::cpu::{Packed, Slot};
use super::group::{Event, GroupEncoder};
use super::scan::{FrameEvents, SPAN_PIXELS, ask_for};
use crate::count_code::{GROUP_PIXELS, INTERVAL, SPAN_GROUPS};
use crate::types::{Count, CountType};

/// What a task makes of one span.
pub(super) struct SpanOut {
    pub(super) bytes: Vec<u8>,
    /// Bytes of each group.
    pub(super) lengths: Vec<usize>,
    pub(super) pixel_sums: Vec<u64>,
    pub(super) marker_hits: Vec<u32>,
}

impl SpanOut {
    /// Encodes the next group of pixels onto `bytes`.
    fn add_group<E: Event>(
        &mut self,
        groups: &mut GroupEncoder,
        group: &[&[E]],
        num_frames: usize,
        bytes: &mut Vec<u8>,
        count_type: CountType,
    ) {
        let start = bytes.len();
        let stats = groups.encode(group, num_frames, bytes);
        self.lengths.push(bytes.len() - start);
        let marker = count_type.marker();
        for (stats, events) in stats.iter().zip(group) {
            self.pixel_sums.push(stats.sum);
            let hits = || events.iter().map(|event| u32::from(event.count() == marker)).sum();
            self.marker_hits.push(if stats.max == marker { hits() } else { 0 });
        }
    }
}

/// The counts of the covered frames, in the order of their positions.
pub(super) struct CoveredCounts<'a, T> {
    num_frames: usize,
    held: Held<'a, T>,
}

enum Held<'a, T> {
    /// Every frame has planes; with the large counts of every span.
    Planes(IntervalPlanes<'a>, Vec<Vec<LargeCount<T>>>),
    /// Some frames have only events, which are sorted by pixel one by one, and so are the planes of the others.
    /// With the first event of each span in each frame, `[span][frame]`, and the ends: read in order when a span is encoded.
    Events(Vec<&'a Slot<T>>, Vec<u32>),
}

/// A count that is not in the planes.
#[derive(Clone)]
struct LargeCount<T> {
    frame: usize,
    /// Its pixel's place in the span.
    place: u8,
    value: T,
}

impl<'a, T: Count> CoveredCounts<'a, T> {
    pub(super) fn new(frames: Vec<&'a Slot<T>>, num_spans: usize) -> Self {
        let num_frames = frames.len();
        if frames.iter().all(|slot| slot.planes.is_kept()) {
            let mut large = vec![Vec::new(); num_spans];
            for (frame, slot) in frames.iter().enumerate() {
                let FrameEvents { places, values, spans } = &slot.events;
                for (large, ends) in large.iter_mut().zip(spans.windows(2)) {
                    for event in ends[0] as usize..ends[1] as usize {
                        large.push(LargeCount { frame, place: places[event], value: values[event] });
                    }
                }
            }
            let planes = IntervalPlanes::new(frames.iter().map(|slot| &slot.planes), num_spans);
            return Self { num_frames, held: Held::Planes(planes, large) };
        }
        let mut starts = vec![0; (num_spans + 1) * num_frames];
        for (frame, slot) in frames.iter().enumerate() {
            for (span, &start) in slot.events.spans.iter().enumerate() {
                starts[span * num_frames + frame] = start;
            }
        }
        Self { num_frames, held: Held::Events(frames, starts) }
    }
}

/// Encodes spans one after the other; holds the work space.
#[derive(Debug)]
pub(super) struct SpanEncoder<T: Packed> {
    /// The small counts of each pixel, where every frame has planes.
    lists: PixelLists,
    /// The other events of each pixel, positions ascending.
    by_pixel: Vec<[T::Event; PIXEL_STRIDE]>,
    /// All events of a pixel that has both.
    merged: Vec<[T::Event; INTERVAL]>,
    groups: GroupEncoder,
    /// What a span is encoded into.
    bytes: Vec<u8>,
}

/// Frames by which a span's events are asked for ahead: each frame's lie somewhere else in memory.
const AHEAD: usize = 12;

/// Places from one pixel to the next: a cache line more than an interval, since pixels 4096 bytes apart that fill at
/// the same pace would all fall into the same cache set.
const PIXEL_STRIDE: usize = INTERVAL + 16;

impl<T: Packed> SpanEncoder<T> {
    pub(super) fn new() -> Self {
        Self {
            lists: PixelLists::new(),
            by_pixel: vec![[T::Event::default(); PIXEL_STRIDE]; SPAN_PIXELS],
            merged: vec![[T::Event::default(); INTERVAL]; GROUP_PIXELS],
            groups: GroupEncoder::new(T::TYPE),
            bytes: Vec::new(),
        }
    }

    /// Encodes a span of `pixels` pixels.
    pub(super) fn encode(&mut self, counts: &CoveredCounts<'_, T>, span: usize, pixels: usize) -> SpanOut {
        let ends = match &counts.held {
            Held::Planes(planes, large) => {
                self.lists.load(planes, span);
                self.sort_large(&large[span])
            }
            Held::Events(frames, starts) => self.sort_by_pixel(frames, starts, span),
        };
        let has_lists = matches!(counts.held, Held::Planes(..));
        let Self { lists, by_pixel, merged, groups, bytes } = self;
        let mut out = SpanOut {
            bytes: Vec::new(),
            lengths: Vec::with_capacity(SPAN_GROUPS),
            pixel_sums: Vec::with_capacity(pixels),
            marker_hits: Vec::with_capacity(pixels),
        };
        bytes.clear();
        for first in (0..pixels).step_by(GROUP_PIXELS) {
            let num_pixels = (pixels - first).min(GROUP_PIXELS);
            let sorted = |pixel: usize| &by_pixel[first + pixel][..usize::from(ends[first + pixel])];
            let group: [&[T::Event]; GROUP_PIXELS] = if has_lists {
                lists.list_group(first);
                if ends[first..first + num_pixels].iter().all(|&end| end == 0) {
                    let group: [&[u16]; GROUP_PIXELS] = std::array::from_fn(|pixel| lists.listed(pixel));
                    out.add_group(groups, &group[..num_pixels], counts.num_frames, bytes, T::TYPE);
                    continue;
                }
                let mut lens = [0; GROUP_PIXELS];
                for (pixel, merged) in merged.iter_mut().enumerate().take(num_pixels) {
                    lens[pixel] = merge(lists.listed(pixel), sorted(pixel), merged);
                }
                std::array::from_fn(|pixel| &merged[pixel][..lens[pixel]])
            } else {
                std::array::from_fn(|pixel| if pixel < num_pixels { sorted(pixel) } else { &[] })
            };
            out.add_group(groups, &group[..num_pixels], counts.num_frames, bytes, T::TYPE);
        }
        out.bytes.extend_from_slice(bytes);
        out
    }

    /// Puts large counts of a span into `by_pixel`; returns how many each pixel has.
    fn sort_large(&mut self, large: &[LargeCount<T>]) -> [u16; SPAN_PIXELS] {
        let mut ends = [0_u16; SPAN_PIXELS];
        for &LargeCount { frame, place, value } in large {
            let end = &mut ends[usize::from(place)];
            self.by_pixel[usize::from(place)][usize::from(*end)] = T::Event::new(frame, value.into());
            *end += 1;
        }
        ends
    }

    /// Puts all counts of a span into `by_pixel`; returns how many each pixel has.
    fn sort_by_pixel(&mut self, frames: &[&Slot<T>], starts: &[u32], span: usize) -> [u16; SPAN_PIXELS] {
        let mut ends = [0_u16; SPAN_PIXELS];
        let by_pixel = &mut self.by_pixel[..SPAN_PIXELS];
        let mut put = |place: usize, event: T::Event| {
            by_pixel[place][usize::from(ends[place])] = event;
            ends[place] += 1;
        };
        let (starts, stops) = starts[span * frames.len()..(span + 2) * frames.len()].split_at(frames.len());
        for (index, (slot, (&start, &stop))) in frames.iter().zip(starts.iter().zip(stops)).enumerate() {
            if let (Some(ahead), Some(&start)) = (frames.get(index + AHEAD), starts.get(index + AHEAD)) {
                ask_for(&ahead.events.places, start as usize);
                ask_for(&ahead.events.values, start as usize);
            }
            if slot.planes.is_kept() {
                slot.planes.for_each(span, |place, value| put(place, T::Event::new(index, value.into())));
            }
            let range = start as usize..stop as usize;
            let FrameEvents { places, values, .. } = &slot.events;
            for (&place, &value) in places[range.clone()].iter().zip(&values[range]) {
                put(place.into(), T::Event::new(index, value.into()));
            }
        }
        ends
    }
}

/// Merges the events of a pixel, positions ascending and never the same; returns how many there are.
fn merge<E: Event>(small: &[u16], others: &[E], merged: &mut [E; INTERVAL]) -> usize {
    let mut others = others.iter().copied().peekable();
    let mut found = 0;
    for &event in small {
        while let Some(other) = others.next_if(|other| other.position() < event.position()) {
            merged[found] = other;
            found += 1;
        }
        merged[found] = E::new(event.position(), event.count());
        found += 1;
    }
    for other in others {
        merged[found] = other;
        found += 1;
    }
    found
}
