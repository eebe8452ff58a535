//! What this machine offers, and what each part of it limits, in words.

mod cpu;
mod cuda;
mod disk;
mod memory;

use std::path::Path;

use kernels::{Device, Processor};
use serde::Serialize;

pub use cpu::CpuReport;
pub use cuda::{CudaDevice, CudaReport};
pub use disk::{DiskReport, free_bytes};
pub use memory::{MemoryReport, peak_memory_bytes};

/// Bright-field pixels the estimates assume: a disk of radius 50 px.
const BRIGHT_FIELD_PIXELS: u64 = 7_850;
/// Encoded bytes a frame the estimates assume: about 1,500 electrons on 192 x 192 pixels.
const ENCODED_FRAME_BYTES: u64 = 3_000;
/// Compressed bytes a frame on disk the estimates assume: a real bright 192 x 192 u16 recording.
const FILE_FRAME_BYTES: u64 = 12_000;

/// The whole examination.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    /// The version that examined.
    pub version: &'static str,
    /// The processor.
    pub cpu: CpuReport,
    /// Main memory.
    pub memory: MemoryReport,
    /// The disk of the folder asked for; none when it could not be measured.
    pub disk: Option<DiskReport>,
    /// Why there is no disk speed.
    pub disk_problem: Option<String>,
    /// CUDA.
    pub cuda: CudaReport,
    /// What each part limits, one sentence each.
    pub limits: Vec<String>,
}

/// Examines the machine; the disk speed is that of `dir`, measured with at most `disk_bytes` of temporary file.
pub fn examine(dir: &Path, disk_bytes: u64) -> DoctorReport {
    let cpu = CpuReport::examine();
    let memory = MemoryReport::examine();
    let cuda = CudaReport::examine();
    let (disk, disk_problem) = match disk::measure(dir, disk_bytes) {
        Ok(report) => (Some(report), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    let limits = limits(&cpu, &memory, disk.as_ref());
    DoctorReport { version: env!("CARGO_PKG_VERSION"), cpu, memory, disk, disk_problem, cuda, limits }
}

fn limits(cpu: &CpuReport, memory: &MemoryReport, disk: Option<&DiskReport>) -> Vec<String> {
    let mut limits = vec![format!(
        "processor: {} cores share decoding, encoding and reconstruction; widest instructions it offers: {}",
        cpu.cores,
        cpu.widest()
    )];
    if let Some(usable) = memory.usable_bytes() {
        let side = largest_square_scan(usable);
        limits.push(format!(
            "memory: a scan of about {side} x {side} positions fits ({BRIGHT_FIELD_PIXELS} bright-field pixels, spectra \
             {} kB and encoded counts {} kB a position); the dense counts are never held",
            spectra_bytes_a_position() / 1000,
            ENCODED_FRAME_BYTES / 1000
        ));
    }
    if let Some(disk) = disk {
        let frames = |mb_a_second: f64| mb_a_second * 1e6 / FILE_FRAME_BYTES as f64;
        limits.push(format!(
            "disk: reads about {:.0} and writes about {:.0} frames/s of {} kB (192 x 192, compressed)",
            frames(disk.read_mb_a_second),
            frames(disk.write_mb_a_second),
            FILE_FRAME_BYTES / 1000
        ));
    }
    limits.push(cuda_limit());
    limits
}

/// Opens the device, which compiles the kernels where that was not done before: what it says here is what a run will do.
fn cuda_limit() -> String {
    match Processor::cuda(0) {
        Ok(device) => format!("CUDA: phases are computed on {}", device.name()),
        Err(why) => format!("CUDA: phases are computed on the processor: {why}"),
    }
}

/// Bytes of the spectra G a scan position: half a plane of complex64 for every bright-field pixel.
fn spectra_bytes_a_position() -> u64 {
    BRIGHT_FIELD_PIXELS * 8 / 2
}

/// The side of the largest square scan whose spectra and encoded counts fit.
fn largest_square_scan(usable_bytes: u64) -> u64 {
    let side = (usable_bytes / (spectra_bytes_a_position() + ENCODED_FRAME_BYTES)).isqrt();
    // People scan in round numbers.
    if side > 64 { side / 16 * 16 } else { side }
}

impl DoctorReport {
    /// The examination as a person reads it.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("sideband {}", self.version), String::new()];
        lines.push(format!("processor   {} ({} cores)", self.cpu.name, self.cpu.cores));
        lines.push(format!("            features: {}", self.cpu.features_text()));
        lines.push(format!("memory      {}", self.memory.text()));
        lines.push(match (&self.disk, &self.disk_problem) {
            (Some(disk), _) => format!("disk        {}", disk.text()),
            (None, why) => format!("disk        not measured: {}", why.as_deref().unwrap_or("unknown")),
        });
        lines.push(format!("CUDA        {}", self.cuda.text()));
        lines.extend(self.cuda.devices.iter().map(|device| format!("            {}", device.text())));
        lines.push(String::new());
        lines.push("what limits what".to_owned());
        lines.extend(self.limits.iter().map(|limit| format!("  {limit}")));
        lines.join("\n")
    }
}

/// Bytes as a person reads them, in powers of ten.
fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_scan_fits_and_the_next_does_not() {
        let usable = 20_000_000_000;
        let side = largest_square_scan(usable);
        let needs = |side: u64| side * side * (spectra_bytes_a_position() + ENCODED_FRAME_BYTES);
        assert!(needs(side) <= usable && needs(side + 16) > usable, "{side}");
        assert_eq!(largest_square_scan(0), 0);
    }

    #[test]
    fn an_examination_says_something_about_every_part_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let report = examine(dir.path(), 1 << 20);
        let text = report.text();
        for part in
            ["processor", "memory", "disk", "CUDA", "what limits what", "CUDA: phases are computed on "]
        {
            assert!(text.contains(part), "{part} not in {text}");
        }
        assert!(report.cpu.cores > 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(serde_json::to_value(&report).unwrap()["cpu"]["cores"].is_u64());
    }

    #[test]
    fn a_folder_that_is_not_there_is_a_problem_not_a_failure() {
        let report = examine(Path::new("/nonexistent/folder"), 1 << 20);
        assert!(report.disk.is_none() && report.disk_problem.unwrap().contains("/nonexistent/folder"));
    }
}
