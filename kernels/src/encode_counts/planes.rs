//! The small counts of a frame as bit planes, span by span: what is kept of a frame until its interval is encoded.

use super::scan::SPAN_PIXELS;

/// Words of a plane in a span; the lowest bit of a word is its first pixel.
pub(crate) const SPAN_WORDS: usize = SPAN_PIXELS / 64;

/// Planes that are kept: they hold counts below 16.
pub(crate) const PLANES: usize = 4;

/// Two planes of a span, one after the other: a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(crate) struct PlanePair(pub(crate) [u64; 2 * SPAN_WORDS]);

/// The counts of a frame that are below 16, as four bit planes; larger ones are 0 here.
#[derive(Debug, Default)]
pub(crate) struct FramePlanes {
    /// Planes 0 and 1 of every span.
    low: Vec<PlanePair>,
    /// Planes 2 and 3, of the spans that `has_high` names; the others are of no meaning, and may be missing.
    high: Vec<PlanePair>,
    /// One bit a span.
    has_high: Vec<u64>,
}

impl FramePlanes {
    /// Makes room for so many spans. What planes 0 and 1 hold is undefined until it is written; planes 2 and 3 hold nothing.
    pub(crate) fn start(&mut self, num_spans: usize) {
        self.low.resize(num_spans, PlanePair::default());
        self.has_high.clear();
        self.has_high.resize(num_spans.div_ceil(64), 0);
    }

    /// Holds nothing any more, not even zeros; keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.low.clear();
        self.has_high.clear();
    }

    /// Whether the frame's small counts are here.
    pub(crate) fn is_kept(&self) -> bool {
        !self.low.is_empty()
    }

    /// The planes 0 and 1 of the spans from `first` on, to be written.
    #[inline]
    pub(crate) fn low_mut(&mut self, first: usize) -> &mut [PlanePair] {
        &mut self.low[first..]
    }

    /// Sets planes 2 and 3 of a span.
    #[inline]
    pub(crate) fn set_high(&mut self, span: usize, two: [u64; SPAN_WORDS], three: [u64; SPAN_WORDS]) {
        if self.high.len() < self.low.len() {
            self.high.resize(self.low.len(), PlanePair::default());
        }
        let pair = &mut self.high[span].0;
        pair[..SPAN_WORDS].copy_from_slice(&two);
        pair[SPAN_WORDS..].copy_from_slice(&three);
        self.has_high[span / 64] |= 1 << (span % 64);
    }

    /// Sets the count of a pixel to 0.
    pub(crate) fn take(&mut self, span: usize, place: usize) {
        let keep = !(1 << (place % 64));
        let has_high = self.has_high[span / 64] >> (span % 64) & 1 == 1;
        let high = has_high.then(|| &mut self.high[span]);
        for pair in high.into_iter().chain([&mut self.low[span]]) {
            pair.0[place / 64] &= keep;
            pair.0[SPAN_WORDS + place / 64] &= keep;
        }
    }

    /// Planes 0 and 1, by span.
    #[inline]
    pub(crate) fn low(&self) -> &[PlanePair] {
        &self.low
    }

    /// The spans with something in planes 2 and 3, ascending, and these.
    #[inline]
    pub(crate) fn high(&self) -> impl Iterator<Item = (usize, &PlanePair)> {
        self.high_spans().map(|span| (span, &self.high[span]))
    }

    /// The spans with something in planes 2 and 3, ascending.
    fn high_spans(&self) -> impl Iterator<Item = usize> {
        self.has_high
            .iter()
            .enumerate()
            .flat_map(|(word, &bits)| set_bits(bits).map(move |bit| word * 64 + bit))
    }

    /// Calls `each` with the place in the span and the value of every count of a span that is not 0.
    #[inline]
    pub(crate) fn for_each(&self, span: usize, mut each: impl FnMut(usize, u8)) {
        let low = &self.low[span].0;
        let has_high = self.has_high[span / 64] >> (span % 64) & 1 == 1;
        let high = if has_high { self.high[span].0 } else { [0; 2 * SPAN_WORDS] };
        for word in 0..SPAN_WORDS {
            let planes = [low[word], low[SPAN_WORDS + word], high[word], high[SPAN_WORDS + word]];
            for bit in set_bits(planes.iter().fold(0, |any, plane| any | plane)) {
                each(word * 64 + bit, value_at(planes, bit));
            }
        }
    }
}

/// The value whose bits stand at `bit` of four planes.
#[inline(always)]
pub(crate) fn value_at(planes: [u64; PLANES], bit: usize) -> u8 {
    let of = |plane: usize| (planes[plane] >> bit & 1) as u8;
    of(0) | of(1) << 1 | of(2) << 2 | of(3) << 3
}

/// The bits that are set, lowest first.
#[inline]
pub(crate) fn set_bits(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(lowest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_before_does_not_come_back() {
        let mut planes = FramePlanes::default();
        let full = PlanePair([u64::MAX; 2 * SPAN_WORDS]);
        planes.start(70);
        planes.low_mut(0).fill(full);
        (0..70).for_each(|span| planes.set_high(span, [u64::MAX; 4], [u64::MAX; 4]));
        assert_eq!(planes.high().count(), 70);
        planes.start(3);
        planes.low_mut(0)[..2]
            .copy_from_slice(&[PlanePair::default(), PlanePair([1 << 9, 0, 0, 0, 0, 0, 0, 0])]);
        planes.low_mut(2).copy_from_slice(&[PlanePair([0, 0, 0, 0, 0, 1, 0, 0])]);
        planes.set_high(1, [0; 4], [0, 0, 0, 1 << 63]);
        planes.set_high(2, [0, 1, 0, 0], [0; 4]);
        let of = |span| {
            let mut found = Vec::new();
            planes.for_each(span, |place, value| found.push((place, value)));
            found
        };
        assert_eq!([of(0), of(1), of(2)], [vec![], vec![(9, 1), (255, 8)], vec![(64, 6)]]);
        assert_eq!(planes.high().map(|(span, _)| span).collect::<Vec<_>>(), [1, 2]);
        planes.clear();
        assert!(!planes.is_kept());
    }
}
