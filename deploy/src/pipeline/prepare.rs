//! Before the first frame: everything a run has to know and everything that can be refused at once.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::anyhow;
use kernels::types::Milliradians;
use resident::{Budget, Resident};
use ssb::{LiveSettings, Moments, Options};

use super::Subject;
use super::memory::{Needs, fewest_pixels};
use crate::doctor::MemoryReport;
use crate::optics::ResolvedOptics;
use crate::report::{ResultFolder, older_results, prepare_folder};
use crate::request::RunRequest;

/// An acquisition that is ready to be read.
pub(super) struct Prepared {
    pub(super) subject: Subject,
    pub(super) optics: ResolvedOptics,
    /// The detector's own mask, 0 is good, `[det_row][det_col]`.
    pub(super) pixel_mask: Vec<u32>,
    /// Empty, and as large as the memory allows.
    pub(super) resident: Arc<Resident>,
    /// Most bytes the spectra may take.
    spectra_bytes: u64,
    /// What a person should know before it starts, one sentence each.
    pub(super) notes: Vec<String>,
    /// When it began.
    pub(super) started: SystemTime,
    /// Time it took.
    pub(super) elapsed: Duration,
}

impl Prepared {
    /// Makes room for an acquisition whose optics are settled, and the result folder, which goes again when nothing is
    /// written to it. It was asked for at `opening`.
    ///
    /// # Errors
    /// A pixel mask of another detector; a run the free memory does not suffice for; a result folder that cannot be
    /// written to.
    pub(super) fn new(
        request: &RunRequest,
        subject: Subject,
        optics: ResolvedOptics,
        opening: Instant,
    ) -> anyhow::Result<(Self, ResultFolder)> {
        let started = SystemTime::now() - opening.elapsed();
        let pixel_mask = pixel_mask(&subject)?;
        let scan = optics.scan_shape.value;
        let needs = Needs {
            scan,
            detector: subject.detector,
            compressed_bytes: subject.compressed_bytes,
            fewest_pixels: fewest_pixels(&optics, subject.detector),
            asked_bytes: request.memory_budget_bytes,
            threads: rayon::current_num_threads() as u64,
        };
        let shares = needs.share(&MemoryReport::examine())?;
        let budget = Budget { bytes: shares.counts_bytes };
        let resident = Arc::new(Resident::new(scan, subject.detector, subject.count_type, budget)?);
        let folder = prepare_folder(&request.out, scan, subject.detector)?;
        let mut notes = optics.notes.clone();
        notes.extend(older_results(&request.out));
        let elapsed = opening.elapsed();
        let spectra_bytes = shares.spectra_bytes;
        Ok((Self { subject, optics, pixel_mask, resident, spectra_bytes, notes, started, elapsed }, folder))
    }

    /// What the reconstruction is told.
    pub(super) fn live_settings(&self, request: &RunRequest) -> LiveSettings {
        let optics = &self.optics;
        let sampling = optics.detector_sampling.as_ref().map(|pinned| pinned.value);
        LiveSettings {
            // A sampling that is not pinned is measured: the one given here is not used then.
            optics: optics.optics_at(sampling.unwrap_or([Milliradians(1.0); 2])),
            pins: optics.pins(),
            pixel_mask: self.pixel_mask.clone(),
            options: Options {
                moments: if request.loss { Moments::Compute } else { Moments::Skip },
                ..Options::default()
            },
            most_bytes: self.spectra_bytes,
            previews: None,
        }
    }
}

/// The detector's own mask; all good where the file has none.
fn pixel_mask(subject: &Subject) -> anyhow::Result<Vec<u32>> {
    match &subject.pixel_mask {
        Some(([rows, cols], mask)) if [*rows, *cols] == [subject.detector.rows, subject.detector.cols] => {
            Ok(mask.clone())
        }
        Some(([rows, cols], _)) => {
            let detector = subject.detector;
            Err(anyhow!(
                "the pixel mask is {rows}x{cols}, the frames are {detector}: these do not belong together"
            ))
        }
        None => Ok(vec![0; subject.detector.pixels()]),
    }
}
