//! Numbers that are random enough for a test, and the same every time.

/// A generator, from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below a limit; 0 where that is 0.
    pub(crate) fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }

    /// One of these.
    #[allow(dead_code, reason = "not every test chooses")]
    pub(crate) fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.next(all.len())]
    }
}
