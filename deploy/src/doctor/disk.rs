//! How fast a folder's disk writes and reads, measured with a bounded temporary file.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;

/// Bytes moved at a time.
const BLOCK: usize = 1 << 20;
/// Neither direction is measured for longer.
const LONGEST: Duration = Duration::from_secs(4);

/// A disk's speed. MB are 10^6 bytes.
#[derive(Clone, Debug, Serialize)]
pub struct DiskReport {
    /// The folder.
    #[serde(serialize_with = "crate::report::as_text")]
    pub dir: PathBuf,
    /// Bytes written and read.
    pub bytes: u64,
    /// Written and made durable (fsync).
    pub write_mb_a_second: f64,
    /// Read back.
    pub read_mb_a_second: f64,
    /// Whether the system was asked to forget the file before it was read.
    pub cache_dropped: bool,
    /// Free bytes of the disk, where the system says.
    pub free_bytes: Option<u64>,
}

impl DiskReport {
    pub(super) fn text(&self) -> String {
        let free = self.free_bytes.map_or(String::new(), |free| format!(", {} free", super::gigabytes(free)));
        format!(
            "{}: writes {:.0} MB/s (made durable), reads {:.0} MB/s ({}){free}",
            self.dir.display(),
            self.write_mb_a_second,
            self.read_mb_a_second,
            if self.cache_dropped { "cache dropped first" } else { "perhaps from the cache" }
        )
    }
}

/// The temporary file; gone when this is.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing better can be done with a file that will not go.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes and reads at most `bytes` in `dir`.
///
/// # Errors
/// The folder is not there, not writable or too full; the text names it.
pub(super) fn measure(dir: &Path, bytes: u64) -> anyhow::Result<DiskReport> {
    let free_bytes = free_bytes(dir);
    ensure!(
        free_bytes.is_none_or(|free| free / 2 >= bytes),
        "{}: {} bytes free, expected at least {} for a file of {bytes}",
        dir.display(),
        free_bytes.unwrap_or(0),
        bytes.saturating_mul(2)
    );
    let temporary = Temporary(dir.join(format!(".sideband-doctor.{}.part", std::process::id())));
    let cannot = |what: &'static str| move || format!("{}: cannot be {what}", dir.display());
    let (written, write_secs) = write(&temporary.0, bytes).with_context(cannot("written to"))?;
    let (read, read_secs, cache_dropped) = read(&temporary.0).with_context(cannot("read from"))?;
    ensure!(read > 0 && written > 0, "{}: nothing was written", dir.display());
    Ok(DiskReport {
        dir: dir.canonicalize().unwrap_or_else(|_| dir.to_owned()),
        bytes: written,
        write_mb_a_second: written as f64 / 1e6 / write_secs,
        read_mb_a_second: read as f64 / 1e6 / read_secs,
        cache_dropped,
        free_bytes,
    })
}

fn write(path: &Path, bytes: u64) -> std::io::Result<(u64, f64)> {
    let mut block = vec![0u8; BLOCK];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let started = Instant::now();
    let mut file = File::create(path)?;
    let mut written = 0;
    while written < bytes && started.elapsed() < LONGEST {
        // Some disks compress: what repeats would look too fast.
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block)?;
        written += BLOCK as u64;
    }
    file.sync_all()?;
    Ok((written, started.elapsed().as_secs_f64()))
}

fn read(path: &Path) -> std::io::Result<(u64, f64, bool)> {
    let mut file = File::open(path)?;
    let cache_dropped = drop_cache(&file);
    let mut block = vec![0u8; BLOCK];
    let started = Instant::now();
    let mut read = 0;
    while started.elapsed() < LONGEST {
        match file.read(&mut block)? {
            0 => break,
            some => read += some as u64,
        }
    }
    Ok((read, started.elapsed().as_secs_f64(), cache_dropped))
}

/// Asks the system to forget what it holds of the file; true when it agreed.
#[cfg(target_os = "linux")]
fn drop_cache(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open for as long as `file` lives; the call touches no memory of ours.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn drop_cache(_file: &File) -> bool {
    false
}

/// Free bytes of the disk that holds `dir`, where the system says.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub fn free_bytes(dir: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(dir.as_os_str().as_bytes()).ok()?;
    let mut stat = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` is a C string, `stat` has room for one statvfs, which the call fills when it returns 0.
    let stat = unsafe {
        if libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) != 0 {
            return None;
        }
        stat.assume_init()
    };
    stat.f_bavail.checked_mul(stat.f_frsize)
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
/// Not known here.
pub fn free_bytes(_dir: &Path) -> Option<u64> {
    None
}
