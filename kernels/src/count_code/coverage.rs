//! Which scan positions of an interval arrived.

use super::INTERVAL;

/// One bit per scan position of an interval: set when its frame is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    positions: usize,
    words: Vec<u64>,
}

impl Coverage {
    /// An interval of `positions` scan positions (at most [`INTERVAL`], more is cut), none of which is there.
    pub fn none(positions: usize) -> Self {
        let positions = positions.min(INTERVAL);
        Self { positions, words: vec![0; positions.div_ceil(64)] }
    }

    /// An interval of `positions` scan positions (at most [`INTERVAL`], more is cut), all of which are there.
    pub fn full(positions: usize) -> Self {
        let mut coverage = Self::none(positions);
        for position in 0..coverage.positions {
            coverage.insert(position);
        }
        coverage
    }

    /// Notes that a position is there; false when it was noted before or lies outside the interval.
    pub fn insert(&mut self, position: usize) -> bool {
        if position >= self.positions {
            return false;
        }
        let Some(word) = self.words.get_mut(position / 64) else { return false };
        let bit = 1 << (position % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    /// True when a position is there; false outside the interval.
    pub fn contains(&self, position: usize) -> bool {
        self.words.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// Scan positions of the interval, there or not.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Number of positions that are there.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True when every position of the interval is there.
    pub fn is_full(&self) -> bool {
        self.count() == self.positions
    }

    /// The positions that are there, ascending.
    pub fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.positions).filter(|&position| self.contains(position))
    }

    /// The bits, position 0 in the least significant bit of the first word; unused bits are 0.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The same bits over an interval of another length: cut, or continued with positions that are not there.
    pub fn resized(&self, positions: usize) -> Self {
        let mut coverage = Self::none(positions);
        for position in self.present() {
            coverage.insert(position);
        }
        coverage
    }

    /// Bytes the bits take.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_noted_once_and_never_outside() {
        let mut coverage = Coverage::none(65);
        assert!(coverage.insert(64) && !coverage.insert(64) && !coverage.insert(65));
        assert_eq!(coverage.present().collect::<Vec<_>>(), [64]);
        assert!(!coverage.contains(65) && !coverage.contains(usize::MAX));
        assert!(Coverage::full(1024).is_full() && Coverage::full(0).is_full());
        assert_eq!(Coverage::full(5000).count(), INTERVAL);
        assert_eq!(coverage.resized(64).count(), 0);
        assert_eq!(coverage.resized(100).count(), 1);
    }
}
