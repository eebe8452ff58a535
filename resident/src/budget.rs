//! How many bytes an acquisition may keep.

/// The most bytes of encoded blocks a resident may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes.
    pub bytes: u64,
}

impl Budget {
    /// As much as the machine has.
    pub const UNLIMITED: Self = Self { bytes: u64::MAX };

    /// A budget in MiB (2^20 bytes).
    pub fn mib(mib: u64) -> Self {
        Self { bytes: mib.saturating_mul(1 << 20) }
    }

    /// True when `asked` bytes fit beside `held` bytes.
    pub fn admits(self, asked: u64, held: u64) -> bool {
        held.checked_add(asked).is_some_and(|sum| sum <= self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_fits_and_one_more_does_not() {
        let budget = Budget { bytes: 100 };
        assert!(budget.admits(40, 60));
        assert!(!budget.admits(41, 60));
        assert!(!budget.admits(u64::MAX, 60));
        assert!(Budget::UNLIMITED.admits(u64::MAX, 0));
    }
}
