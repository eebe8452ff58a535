//! How the memory of a run is divided before it starts, and what to say when it does not suffice.

use std::f64::consts::PI;

use anyhow::{anyhow, ensure};
use kernels::Processor;
use kernels::transform_rows::{SpectraShape, TransformRows};
use kernels::types::{DetectorShape, ScanShape};
use resident::ResidentError;

use crate::doctor::MemoryReport;
use crate::optics::{ResolvedOptics, disk_note, known_radius_px};
use crate::request::WrongFlags;

/// Memory taken to be free where the system does not say.
const FREE_FALLBACK_BYTES: u64 = 5 << 30;

/// Address space a thread can take that has nothing to keep: its stack, and what the C library sets aside for it.
const THREAD_ADDRESS_BYTES: u64 = (2 + 64) << 20;

/// Threads beside those that compute: the stages, signals, the first.
const STAGE_THREADS: u64 = 10;

/// What a run takes whatever the acquisition: buffers, tables, the program.
const PROGRAM_BYTES: u64 = 32 << 20;

/// Images, totals, and one image on its way into its files, a frame or a scan position, whichever are more.
const BYTES_A_POSITION: u64 = 160;

/// The same a detector pixel, and a frame for each thread.
const BYTES_A_PIXEL: u64 = 160;

/// What a run is about, as far as its memory depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    pub(super) scan: ScanShape,
    /// Frames of the series, in no position too.
    pub(super) frames: u64,
    pub(super) detector: DetectorShape,
    /// Bytes of the frames as they are stored.
    pub(super) compressed_bytes: u64,
    /// Detector pixels that are certainly in the bright field; 0 where it is to be measured.
    pub(super) fewest_pixels: u64,
    /// Limit the user gave for the encoded counts.
    pub(super) asked_bytes: Option<u64>,
    pub(super) threads: u64,
}

/// Most bytes of the two things that grow with the acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) counts_bytes: u64,
    pub(super) spectra_bytes: u64,
}

impl Needs {
    /// Divides what is free: four fifths of it are used. The spectra leave room for the counts at half of their stored
    /// size, the counts for the spectra of the pixels that are certain.
    ///
    /// # Errors
    /// Less is free than the run certainly needs, or than the user would have the counts take; with the gigabytes.
    pub(super) fn share(self, free: &MemoryReport) -> anyhow::Result<Shares> {
        let limited = free.limited_bytes.map(|bytes| {
            bytes.saturating_sub((self.threads + STAGE_THREADS).saturating_mul(THREAD_ADDRESS_BYTES))
        });
        let free = MemoryReport { limited_bytes: limited, ..*free };
        let free = free.usable_bytes().unwrap_or(FREE_FALLBACK_BYTES);
        let positions = self.frames.max(self.scan.positions() as u64);
        let pixels = self.detector.pixels() as u64;
        let fixed = positions
            .saturating_mul(BYTES_A_POSITION)
            .saturating_add(pixels.saturating_mul(BYTES_A_PIXEL + 4 * self.threads))
            .saturating_add(PROGRAM_BYTES);
        let spectra = spectra_bytes(self.scan, self.fewest_pixels);
        let needed = fixed.saturating_add(spectra);
        let usable = free / 10 * 8;
        let parts = match spectra {
            0 => String::new(),
            spectra => format!(
                ", {} GB of them for the spectra of at least {} bright-field pixels",
                gigabytes(spectra as f64),
                self.fewest_pixels
            ),
        };
        ensure!(
            needed <= usable,
            "this acquisition needs at least {} GB of memory beside its counts{parts}, got {:.2} GB free, of which {:.2} can be used; \
             close other programs, raise ulimit -v where it is set or give fewer --threads, or use a machine with more memory",
            gigabytes(needed as f64),
            free as f64 / 1e9,
            usable as f64 / 1e9
        );
        if let Some(asked) = self.asked_bytes {
            let refused = || {
                anyhow!(
                    "--memory-gb: got {}, expected at most the {:.2} GB that are free; leave it out to use what can be used",
                    gigabytes(asked as f64),
                    free as f64 / 1e9
                )
            };
            ensure!(asked <= free, WrongFlags(refused()));
        }
        let counts_bytes = self.asked_bytes.unwrap_or(usable - needed);
        let spectra_bytes = (usable - fixed).saturating_sub(counts_bytes.min(self.compressed_bytes / 2));
        Ok(Shares { counts_bytes, spectra_bytes: spectra_bytes.max(spectra) })
    }
}

/// Bytes of the spectra of so many detector pixels.
fn spectra_bytes(scan: ScanShape, pixels: u64) -> u64 {
    let pixels = usize::try_from(pixels).unwrap_or(usize::MAX);
    Processor::rows_bytes(SpectraShape { scan, pixels })
}

/// A sentence about a bright-field disk that is larger than the detector, where that is known beforehand; with what the spectra
/// of its pixels take.
pub(super) fn disk_too_large(optics: &ResolvedOptics, detector: DetectorShape) -> Option<String> {
    let radius = known_radius_px(optics)?;
    let pixels = (PI * radius * radius).min(detector.pixels() as f64) as u64;
    let bytes = spectra_bytes(optics.scan_shape.value, pixels);
    Some(format!(
        "warning: {} Their spectra take up to {} GB.",
        disk_note(radius, detector)?,
        gigabytes(bytes as f64)
    ))
}

/// Pixels of a bright field whose radius is known beforehand that lie on the detector wherever on it the centre is: a
/// quarter of the disk, no wider than the detector.
pub(super) fn fewest_pixels(optics: &ResolvedOptics, detector: DetectorShape) -> u64 {
    let radius = known_radius_px(optics);
    let within = radius.unwrap_or(0.0).min(detector.rows.min(detector.cols) as f64 / 2.0);
    (PI / 4.0 * within * within) as u64
}

/// Turns an exhausted budget into the memory the whole acquisition of `positions` needs, judged by what had been encoded;
/// `asked_bytes` is the limit the user gave. Other errors pass.
pub(super) fn explained(error: anyhow::Error, asked_bytes: Option<u64>, positions: u64) -> anyhow::Error {
    let Some(ResidentError::OverBudget { first, asked_bytes: block, held_bytes, budget_bytes }) =
        error.downcast_ref()
    else {
        return error;
    };
    let seen = first.saturating_add(encoder::INTERVAL as u64).min(positions).max(1);
    let whole = held_bytes.saturating_add(*block) as f64 * positions as f64 / seen as f64;
    // A tenth more, since the rest may be brighter.
    let needed = gigabytes(whole * 1.1);
    let allowed = gigabytes(*budget_bytes as f64);
    let judged = match seen < positions {
        true => format!(", judged by the first {seen} of {positions} frames"),
        false => String::new(),
    };
    let (limit, advice) = match asked_bytes {
        Some(_) => (
            format!("the {allowed} GB of --memory-gb"),
            format!("give --memory-gb {needed} or more, or leave it out to use what is free"),
        ),
        None => (
            format!("the {allowed} GB of memory that is free"),
            "close other programs or use a machine with more memory".to_owned(),
        ),
    };
    let refused = anyhow!(
        "this acquisition does not fit into {limit}: it needs about {needed} GB to keep its counts{judged}; {advice}"
    );
    match asked_bytes {
        Some(_) => WrongFlags::because(refused),
        None => refused,
    }
}

/// Gigabytes, rounded up to two digits.
fn gigabytes(bytes: f64) -> f64 {
    let gigabytes = bytes.max(1.0) / 1e9;
    let unit = 10f64.powi(1 - gigabytes.log10().floor() as i32);
    let rounded = (gigabytes * unit - 1e-9).ceil() / unit;
    format!("{rounded:.1e}").parse().unwrap_or(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn free(available: u64, limited: Option<u64>) -> MemoryReport {
        MemoryReport {
            total_bytes: None,
            available_bytes: Some(available),
            allowed_bytes: None,
            limited_bytes: limited,
        }
    }

    fn needs() -> Needs {
        Needs {
            scan: ScanShape { rows: 512, cols: 512 },
            frames: 512 * 512,
            detector: DetectorShape { rows: 192, cols: 192 },
            compressed_bytes: 2 * GIB,
            fewest_pixels: 0,
            asked_bytes: None,
            threads: 16,
        }
    }

    #[test]
    fn counts_and_spectra_share_four_fifths_of_what_is_free() {
        let shares = needs().share(&free(100 * GIB, None)).unwrap();
        let near = |got: u64, gib: f64| (got as f64 / GIB as f64 - gib).abs() < 0.1;
        assert!(near(shares.counts_bytes, 79.9) && near(shares.spectra_bytes, 78.9), "{shares:?}");
        // 9000 pixels x 512 x 257 complex numbers of 8 bytes are 8.8 GiB.
        let known = Needs { fewest_pixels: 9000, ..needs() }.share(&free(100 * GIB, None)).unwrap();
        assert!(near(known.counts_bytes, 71.1) && near(known.spectra_bytes, 78.9), "{known:?}");
        let asked = Needs { asked_bytes: Some(GIB / 2), ..needs() }.share(&free(100 * GIB, None)).unwrap();
        assert!(asked.counts_bytes == GIB / 2 && near(asked.spectra_bytes, 79.4), "{asked:?}");
    }

    #[test]
    fn what_certainly_does_not_fit_is_refused_with_the_gigabytes() {
        let refused =
            |needs: Needs, free: MemoryReport| needs.share(&free).map(|_| ()).unwrap_err().to_string();
        let text = refused(Needs { fewest_pixels: 9000, ..needs() }, free(8 * GIB, None));
        assert!(text.contains("needs at least 9.6 GB of memory beside its counts"), "{text}");
        assert!(
            text.contains("9.5 GB of them for the spectra of at least 9000 bright-field pixels"),
            "{text}"
        );
        assert!(text.contains("got 8.59 GB free, of which 6.87 can be used"), "{text}");
        // Threads take address space, of which a limit leaves little.
        let text = refused(needs(), free(100 * GIB, Some(GIB)));
        assert!(text.contains("got 0.00 GB free"), "{text}");
        let text = refused(Needs { asked_bytes: Some(9 * GIB), ..needs() }, free(8 * GIB, None));
        assert!(text.contains("--memory-gb: got 9.7, expected at most the 8.59 GB"), "{text}");
    }

    #[test]
    fn a_budget_that_does_not_suffice_is_answered_with_one_that_would() {
        let over = |first| {
            let error = ResidentError::OverBudget {
                first,
                asked_bytes: 3_000_000,
                held_bytes: first * 3000,
                budget_bytes: 9_500_000,
            };
            anyhow::Error::from(error)
        };
        let text = explained(over(3072), Some(9_500_000), 65536).to_string();
        // 12.2 MB of the first 4096 frames are 195 MB of 65536; a tenth more.
        assert!(text.contains("0.0095 GB of --memory-gb") && text.contains("--memory-gb 0.22"), "{text}");
        assert!(text.contains("the first 4096 of 65536 frames"), "{text}");
        let text = explained(over(0), None, 16).to_string();
        assert!(!text.contains("--memory-gb") && text.contains("0.0033 GB to keep its counts;"), "{text}");
        let other = explained(anyhow::anyhow!("disk"), None, 16);
        assert_eq!(other.to_string(), "disk");
    }

    #[test]
    fn gigabytes_are_rounded_up() {
        assert_eq!([1.0e9, 1.21e9, 99.1e9, 123e9, 2.1e4].map(gigabytes), [1.0, 1.3, 100.0, 130.0, 2.1e-5]);
    }
}
