//! Which instructions the decoder uses.

use std::sync::OnceLock;

/// A set of instructions with a code path of its own, slowest first. All paths give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain 64-bit integers; runs everywhere.
    Portable,
    /// AVX2 (Haswell, Zen and later).
    Avx2,
    /// AVX-512 F, BW, VL, VBMI and GFNI (Ice Lake, Zen 4 and later).
    Avx512,
}

impl Isa {
    /// The fastest path of this processor; looked up once.
    pub fn detect() -> Self {
        static DETECTED: OnceLock<Isa> = OnceLock::new();
        *DETECTED.get_or_init(Self::look)
    }

    /// Every path that this processor can run, slowest first.
    pub fn available() -> Vec<Self> {
        [Self::Portable, Self::Avx2, Self::Avx512].into_iter().filter(|isa| *isa <= Self::detect()).collect()
    }

    #[cfg(target_arch = "x86_64")]
    fn look() -> Self {
        let avx2 = is_x86_feature_detected!("avx2");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("gfni");
        match (avx2, avx512) {
            (true, true) => Self::Avx512,
            (true, false) => Self::Avx2,
            (false, _) => Self::Portable,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn look() -> Self {
        Self::Portable
    }
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512 + GFNI",
        })
    }
}
