//! Before the first frame: everything a run has to know and everything that can be refused at once.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::anyhow;
use resident::{Budget, Resident};
use ssb::{LiveSettings, Moments, Options, Rows};

use super::chosen::{Choices, Chosen};
use super::memory::{Needs, disk_too_large, fewest_pixels};
use super::{Subject, Unwritable};
use crate::doctor::MemoryReport;
use crate::optics::ResolvedOptics;
use crate::report::{ResultFolder, older_results, prepare_folder};
use crate::request::RunRequest;

/// An acquisition that is ready to be read.
pub(super) struct Prepared {
    pub(super) subject: Subject,
    /// The microscope and the virtual detectors.
    pub(super) chosen: Chosen,
    /// The detector's own mask, 0 is good, `[det_row][det_col]`.
    pub(super) pixel_mask: Vec<u32>,
    /// Empty, and as large as the memory allows.
    pub(super) resident: Arc<Resident>,
    /// Most bytes the spectra may take.
    pub(super) spectra_bytes: u64,
    /// Why no results can be written, where that is to be borne.
    pub(super) not_writable: Option<String>,
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
        unwritable: Unwritable,
    ) -> anyhow::Result<(Self, Option<ResultFolder>)> {
        let started = SystemTime::now() - opening.elapsed();
        let pixel_mask = pixel_mask(&subject)?;
        let scan = optics.scan_shape.value;
        let needs = Needs {
            scan,
            frames: subject.frames_expected,
            detector: subject.detector,
            compressed_bytes: subject.compressed_bytes,
            fewest_pixels: fewest_pixels(&optics, subject.detector),
            asked_bytes: request.memory_budget_bytes,
            threads: rayon::current_num_threads() as u64,
        };
        let shares = needs.share(&MemoryReport::examine().part(request.at_once))?;
        let budget = Budget { bytes: shares.counts_bytes };
        let Subject { frames_expected, detector, count_type, .. } = subject;
        let resident = Resident::with_frames(optics.geometry, frames_expected, detector, count_type, budget)?;
        let resident = Arc::new(resident);
        let (folder, not_writable) = match (prepare_folder(&request.out, scan, detector), unwritable) {
            (Ok(folder), _) => (Some(folder), None),
            (Err(error), Unwritable::Fails) => return Err(error),
            (Err(error), Unwritable::Borne) => (None, Some(format!("{error:#}"))),
        };
        let mut notes = optics.notes.clone();
        notes.extend(older_results(&request.out));
        notes.extend(disk_too_large(&optics, subject.detector));
        let elapsed = opening.elapsed();
        let spectra_bytes = shares.spectra_bytes;
        let moments = if request.loss { Moments::Compute } else { Moments::Skip };
        let chosen = Chosen::new(Choices { optics, rings: request.rings, moments });
        let prepared = Self {
            subject,
            chosen,
            pixel_mask,
            resident,
            spectra_bytes,
            not_writable,
            notes,
            started,
            elapsed,
        };
        Ok((prepared, folder))
    }

    /// What the reconstruction is told.
    pub(super) fn live_settings(&self) -> LiveSettings {
        let Choices { optics, moments, .. } = self.chosen.current();
        LiveSettings {
            microscope: self.chosen.microscope(),
            rows: if optics.is_shape_known() { Rows::Transform } else { Rows::Leave },
            pixel_mask: self.pixel_mask.clone(),
            options: Options { moments, ..Options::default() },
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
