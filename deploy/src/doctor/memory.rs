//! Main memory, as Linux and its control groups tell it.

use serde::Serialize;

use super::gigabytes;

/// How the C library numbers resources.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Resource = libc::c_int;

/// Main memory. What the system does not say is none.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemoryReport {
    /// All of it.
    pub total_bytes: Option<u64>,
    /// What can be had without pushing others out.
    pub available_bytes: Option<u64>,
    /// What a control group (a container, a batch system) still allows this process.
    pub allowed_bytes: Option<u64>,
    /// What the limits on this process's address space and data (`ulimit -v`, `ulimit -d`) still allow it.
    pub limited_bytes: Option<u64>,
}

impl MemoryReport {
    /// Asks the system.
    pub fn examine() -> Self {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let group = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
        let number = |text: Option<String>| text?.trim().parse::<u64>().ok();
        let allowed = number(group("memory.max"))
            .map(|max| max.saturating_sub(number(group("memory.current")).unwrap_or(0)));
        Self {
            total_bytes: field(&meminfo, "MemTotal"),
            available_bytes: field(&meminfo, "MemAvailable"),
            allowed_bytes: allowed,
            limited_bytes: limited_bytes(),
        }
    }

    /// What a run can plan with: the smallest of available, allowed and limited.
    pub fn usable_bytes(&self) -> Option<u64> {
        [self.available_bytes, self.allowed_bytes, self.limited_bytes].into_iter().flatten().min()
    }

    /// What one of so many can use that share what is free.
    pub fn part(self, of: u64) -> Self {
        let part = |bytes: Option<u64>| bytes.map(|bytes| bytes / of.max(1));
        let [available_bytes, allowed_bytes, limited_bytes] =
            [self.available_bytes, self.allowed_bytes, self.limited_bytes].map(part);
        Self { available_bytes, allowed_bytes, limited_bytes, ..self }
    }

    pub(super) fn text(&self) -> String {
        let said = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), gigabytes);
        let mut text = format!("{} in all, {} available", said(self.total_bytes), said(self.available_bytes));
        if let Some(allowed) = self.allowed_bytes {
            text.push_str(&format!(", this process may take {} more", gigabytes(allowed)));
        }
        if let Some(limited) = self.limited_bytes {
            text.push_str(&format!(", its limits (ulimit) leave it {}", gigabytes(limited)));
        }
        text
    }
}

/// What `ulimit -v` and `ulimit -d` leave of what this process has; none where neither is set.
fn limited_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let left =
        |limit: Option<u64>, held: &str| Some(limit?.saturating_sub(field(&status, held).unwrap_or(0)));
    let address = left(limit(libc::RLIMIT_AS), "VmSize");
    let data = left(limit(libc::RLIMIT_DATA), "VmData");
    address.into_iter().chain(data).min()
}

/// The limit in force on a resource; none where there is none.
fn limit(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call writes one `rlimit`, which lives here.
    let told = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    (told && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Most memory this process has held so far; none where the system does not say.
pub fn peak_memory_bytes() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

/// The bytes of one line of `/proc/meminfo` (`MemTotal:  24000000 kB`, where kB are 1024 bytes).
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_by_name() {
        let text = "MemTotal:       24576000 kB\nMemFree: 1 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(field(text, "MemAvailable"), Some(20_480_000_000));
        assert_eq!(field(text, "Mem"), None);
        assert_eq!(field("MemTotal: lots", "MemTotal"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_covers_what_was_held() {
        let held = vec![1u8; 64 << 20];
        assert!(peak_memory_bytes().unwrap() > held.len() as u64);
    }

    #[test]
    fn the_tighter_limit_counts() {
        let of = |available, allowed, limited| MemoryReport {
            total_bytes: None,
            available_bytes: available,
            allowed_bytes: allowed,
            limited_bytes: limited,
        };
        assert_eq!(of(Some(5), Some(3), None).usable_bytes(), Some(3));
        assert_eq!(of(Some(5), None, Some(4)).usable_bytes(), Some(4));
        assert_eq!(of(None, None, None).usable_bytes(), None);
    }
}
