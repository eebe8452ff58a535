//! The processor: cores and the instruction sets that matter to decoding and reconstruction.

use serde::Serialize;

/// The processor.
#[derive(Clone, Debug, Serialize)]
pub struct CpuReport {
    /// Its own name, where the system says it; else the architecture.
    pub name: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Instruction sets of interest: name, and whether it is there.
    #[serde(serialize_with = "crate::report::as_map")]
    pub features: Vec<(&'static str, bool)>,
}

impl CpuReport {
    /// Asks the processor and the system.
    pub(super) fn examine() -> Self {
        Self {
            name: model_name().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            features: features(),
        }
    }

    pub(super) fn features_text(&self) -> String {
        if self.features.is_empty() {
            return format!("none asked for on {}", std::env::consts::ARCH);
        }
        let words: Vec<_> = self
            .features
            .iter()
            .map(|(name, there)| format!("{name} {}", if *there { "yes" } else { "no" }))
            .collect();
        words.join(", ")
    }

    /// The widest set of instructions, in words.
    pub(super) fn widest(&self) -> &'static str {
        let has = |name: &str| self.features.iter().any(|(known, there)| *known == name && *there);
        match (has("avx512bw"), has("gfni"), has("avx2"), has("neon")) {
            (true, true, ..) => "AVX-512 with GFNI",
            (true, false, ..) => "AVX-512",
            (false, _, true, _) => "AVX2",
            (.., true) => "NEON",
            _ => "none beyond the portable ones",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<(&'static str, bool)> {
    vec![
        ("sse4.2", std::arch::is_x86_feature_detected!("sse4.2")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("fma", std::arch::is_x86_feature_detected!("fma")),
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
        ("avx512bw", std::arch::is_x86_feature_detected!("avx512bw")),
        ("gfni", std::arch::is_x86_feature_detected!("gfni")),
    ]
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<(&'static str, bool)> {
    vec![("neon", std::arch::is_aarch64_feature_detected!("neon"))]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<(&'static str, bool)> {
    Vec::new()
}

/// The processor's name in Linux's own words.
fn model_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
