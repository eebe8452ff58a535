//! Where the bytes of each group lie.

use super::SPAN_GROUPS;

/// Byte ranges of the groups in the payload: a base per span of [`SPAN_GROUPS`] groups and, per group, its end
/// relative to that base, in 16 bits when every span of the interval is short enough and in 32 bits otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    bases: Vec<u64>,
    ends: Ends,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Ends {
    Short(Vec<u16>),
    Long(Vec<u32>),
}

impl Directory {
    /// The directory of groups that lie one after the other with these lengths in bytes.
    ///
    /// Spans longer than 4 GiB cannot occur: a group has at most 16 x 1024 counts of 4 bytes and its header.
    pub fn from_lengths(lengths: &[usize]) -> Self {
        let mut bases = Vec::with_capacity(lengths.len().div_ceil(SPAN_GROUPS));
        let mut ends = Vec::with_capacity(lengths.len());
        let (mut base, mut longest) = (0_u64, 0_u32);
        for span in lengths.chunks(SPAN_GROUPS) {
            bases.push(base);
            let mut end = 0_u32;
            for &length in span {
                end = end.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
                ends.push(end);
            }
            base += u64::from(end);
            longest = longest.max(end);
        }
        let ends = match u16::try_from(longest) {
            Ok(_) => Ends::Short(ends.into_iter().map(|end| end as u16).collect()),
            Err(_) => Ends::Long(ends),
        };
        Self { bases, ends }
    }

    /// A directory read from outside: nothing is taken on trust, see [`range`](Self::range).
    pub fn from_short(bases: Vec<u64>, ends: Vec<u16>) -> Self {
        Self { bases, ends: Ends::Short(ends) }
    }

    /// A directory read from outside, with 32-bit ends.
    pub fn from_long(bases: Vec<u64>, ends: Vec<u32>) -> Self {
        Self { bases, ends: Ends::Long(ends) }
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        match &self.ends {
            Ends::Short(ends) => ends.len(),
            Ends::Long(ends) => ends.len(),
        }
    }

    /// The bases, one per span.
    pub fn bases(&self) -> &[u64] {
        &self.bases
    }

    /// The end of a group relative to the base of its span; `None` outside.
    pub fn end(&self, group: usize) -> Option<u32> {
        match &self.ends {
            Ends::Short(ends) => ends.get(group).map(|&end| end.into()),
            Ends::Long(ends) => ends.get(group).copied(),
        }
    }

    /// Bytes of one end: 2 or 4.
    pub fn end_bytes(&self) -> usize {
        match self.ends {
            Ends::Short(_) => 2,
            Ends::Long(_) => 4,
        }
    }

    /// Byte range of a group in the payload; `None` where the directory contradicts itself or has no such group.
    pub fn range(&self, group: usize) -> Option<std::ops::Range<usize>> {
        let base = usize::try_from(*self.bases.get(group / SPAN_GROUPS)?).ok()?;
        let start = if group.is_multiple_of(SPAN_GROUPS) { 0 } else { self.end(group - 1)? } as usize;
        let end = self.end(group)? as usize;
        (start <= end).then_some(base.checked_add(start)?..base.checked_add(end)?)
    }

    /// Bytes the directory takes.
    pub fn bytes(&self) -> usize {
        self.bases.len() * 8 + self.groups() * self.end_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_lie_one_after_the_other_whatever_their_length() {
        for scale in [1, 5000] {
            let lengths: Vec<usize> = (0..67).map(|group| (group * 7 % 13) * scale).collect();
            let directory = Directory::from_lengths(&lengths);
            assert_eq!(directory.end_bytes(), if scale == 1 { 2 } else { 4 });
            let mut start = 0;
            for (group, &length) in lengths.iter().enumerate() {
                assert_eq!(directory.range(group), Some(start..start + length));
                start += length;
            }
            assert_eq!(directory.range(67), None);
        }
    }

    #[test]
    fn a_directory_that_runs_backwards_has_no_range() {
        let directory = Directory::from_short(vec![0], vec![5, 3]);
        assert_eq!(directory.range(0), Some(0..5));
        assert_eq!(directory.range(1), None);
        assert_eq!(Directory::from_long(vec![u64::MAX], vec![1]).range(0), None);
    }
}
