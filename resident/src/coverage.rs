//! Which scan positions are there: the set the resident keeps, and the statement that goes with every answer.

use std::ops::Range;

use crate::error::ResidentError;

/// A set of scan positions, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PositionSet {
    words: Vec<u64>,
    len: u64,
}

impl PositionSet {
    /// The empty set over `len` positions.
    pub(crate) fn empty(len: u64) -> Self {
        Self { words: vec![0; len.div_ceil(64) as usize], len }
    }

    /// The positions within `range`, of `len`.
    pub(crate) fn from_range(len: u64, range: Range<u64>) -> Self {
        let mut set = Self::empty(len);
        set.insert_range(range);
        set
    }

    /// Adds the positions of 64-aligned `first` on whose bits are set in `words`; bits beyond `len` are left out.
    pub(crate) fn insert_words(&mut self, first: u64, words: &[u64]) {
        debug_assert!(first.is_multiple_of(64));
        for (at, &bits) in words.iter().enumerate() {
            let base = first + at as u64 * 64;
            let room = self.len.saturating_sub(base).min(64);
            let within = if room == 64 { u64::MAX } else { (1 << room) - 1 };
            if let Some(word) = self.words.get_mut((base / 64) as usize) {
                *word |= bits & within;
            }
        }
    }

    /// Adds every position of a range below `len`.
    pub(crate) fn insert_range(&mut self, range: Range<u64>) {
        for (word, bits) in words_of(range) {
            if let Some(held) = self.words.get_mut(word) {
                *held |= bits;
            }
        }
    }

    /// True when the position is in the set.
    pub(crate) fn contains(&self, position: u64) -> bool {
        self.words.get((position / 64) as usize).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// Number of positions of the set within `range`.
    pub(crate) fn count(&self, range: Range<u64>) -> u64 {
        words_of(range)
            .map(|(word, bits)| u64::from((self.words.get(word).copied().unwrap_or(0) & bits).count_ones()))
            .sum()
    }

    /// The positions of `asked` that are not in `self`, as ascending disjoint ranges, and how many were asked for.
    pub(crate) fn coverage_of(&self, asked: &PositionSet) -> Coverage {
        debug_assert_eq!(self.len, asked.len);
        let mut coverage = Coverage { asked: 0, missing: Vec::new() };
        for (word, (&wanted, &held)) in asked.words.iter().zip(&self.words).enumerate() {
            coverage.asked += u64::from(wanted.count_ones());
            coverage.push_missing(word, wanted & !held);
        }
        coverage
    }

    /// As [`Self::coverage_of`], for a range.
    pub(crate) fn coverage_of_range(&self, asked: Range<u64>) -> Coverage {
        let mut coverage = Coverage { asked: asked.end.saturating_sub(asked.start), missing: Vec::new() };
        for (word, wanted) in words_of(asked) {
            let held = self.words.get(word).copied().unwrap_or(0);
            coverage.push_missing(word, wanted & !held);
        }
        coverage
    }
}

/// The words a range touches, each with the bits of the range set.
fn words_of(range: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let words = if range.is_empty() { 0..0 } else { range.start / 64..range.end.div_ceil(64) };
    words.map(move |word| {
        let from = range.start.max(word * 64) - word * 64;
        let to = range.end.min(word * 64 + 64) - word * 64;
        let upto = if to == 64 { u64::MAX } else { (1 << to) - 1 };
        (word as usize, upto & (u64::MAX << from))
    })
}

/// How much of what was asked for was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    asked: u64,
    missing: Vec<Range<u64>>,
}

impl Coverage {
    /// The coverage of positions that are there or not, in order from 0.
    pub(crate) fn of(there: impl IntoIterator<Item = bool>) -> Self {
        let mut coverage = Self { asked: 0, missing: Vec::new() };
        for is_there in there {
            let position = coverage.asked;
            coverage.asked += 1;
            match coverage.missing.last_mut() {
                _ if is_there => {}
                Some(last) if last.end == position => last.end = position + 1,
                _ => coverage.missing.push(position..position + 1),
            }
        }
        coverage
    }

    /// Number of scan positions asked for.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Number of them that were there.
    pub fn covered(&self) -> u64 {
        self.asked - self.num_missing()
    }

    /// Number of them that were not: still arriving, or never to come.
    pub fn num_missing(&self) -> u64 {
        self.missing.iter().map(|run| run.end - run.start).sum()
    }

    /// The missing positions among those asked for: ascending, disjoint, half-open.
    pub fn missing(&self) -> &[Range<u64>] {
        &self.missing
    }

    /// The first missing position.
    pub fn first_missing(&self) -> Option<u64> {
        self.missing.first().map(|run| run.start)
    }

    /// True when everything asked for was there.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Adds the positions whose bits are set in word `word` of the scan; words come in ascending order.
    fn push_missing(&mut self, word: usize, mut bits: u64) {
        let base = word as u64 * 64;
        while bits != 0 {
            let from = u64::from(bits.trailing_zeros());
            let len = u64::from((bits >> from).trailing_ones());
            bits = if from + len == 64 { 0 } else { bits >> (from + len) << (from + len) };
            match self.missing.last_mut() {
                Some(last) if last.end == base + from => last.end = base + from + len,
                _ => self.missing.push(base + from..base + from + len),
            }
        }
    }
}

/// What a query does about scan positions that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Refuses, naming the first missing position and how many there are.
    Fail,
    /// Answers from what is there; the coverage says what is not. Missing positions hold 0 (counts) or NaN (f64).
    Report,
}

impl Missing {
    /// Passes the coverage on, or refuses.
    ///
    /// # Errors
    /// [`ResidentError::Missing`] under [`Missing::Fail`] when anything asked for is missing.
    pub(crate) fn allow(self, coverage: Coverage) -> Result<Coverage, ResidentError> {
        match (self, coverage.first_missing()) {
            (Self::Fail, Some(first_missing)) => Err(ResidentError::Missing {
                first_missing,
                num_missing: coverage.num_missing(),
                asked: coverage.asked,
            }),
            _ => Ok(coverage),
        }
    }
}

/// A value and how much of what was asked for it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<T> {
    /// The value.
    pub value: T,
    /// Which of the scan positions asked for went into it.
    pub coverage: Coverage,
}

impl<T> Answer<T> {
    /// The same coverage with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        Answer { value: change(self.value), coverage: self.coverage }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn coverage_lists_exactly_the_missing(
            held in prop::collection::vec(any::<bool>(), 0..300), from in 0u64..300, len in 0u64..300,
        ) {
            let n = held.len() as u64;
            let mut set = PositionSet::empty(n);
            for (position, _) in held.iter().enumerate().filter(|(_, there)| **there) {
                set.insert_range(position as u64..position as u64 + 1);
            }
            let asked = from.min(n)..(from + len).min(n);
            let coverage = set.coverage_of_range(asked.clone());
            let listed: Vec<u64> = coverage.missing().iter().cloned().flatten().collect();
            let direct: Vec<u64> = asked.clone().filter(|&position| !held[position as usize]).collect();
            prop_assert_eq!(&listed, &direct);
            prop_assert!(coverage.missing().windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(coverage.covered(), set.count(asked.clone()));
            prop_assert_eq!(coverage.first_missing(), direct.first().copied());
            prop_assert_eq!(set.coverage_of(&PositionSet::from_range(n, asked)), coverage);
        }
    }

    #[test]
    fn a_refusal_names_the_first_missing_position_and_how_many() {
        let mut set = PositionSet::empty(100);
        set.insert_range(0..70);
        let refused = Missing::Fail.allow(set.coverage_of_range(10..80)).unwrap_err();
        assert_eq!(refused.to_string(), "scan position 70 is missing, 10 of the 70 asked for in all");
        assert_eq!(Missing::Report.allow(set.coverage_of_range(10..80)).unwrap().num_missing(), 10);
        assert!(Missing::Fail.allow(set.coverage_of_range(10..70)).is_ok());
    }
}
