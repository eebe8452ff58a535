//! The results of an acquisition that is over, made again by other choices.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use kernels::types::DetectorShape;
use resident::Snapshot;
use ssb::{LiveResult, LiveSettings, LiveSpectra, Microscope, Options, Rows, SsbDevice, reconstruct_again};

use super::account::{self, Account};
use super::chosen::Choices;
use crate::output::Image;
use crate::report::{RunReport, prepare_folder, write_results};

/// What has become of an acquisition, and enough to make it again.
#[derive(Clone, Debug)]
pub struct Finished<D: SsbDevice> {
    /// The account, as it was written.
    pub report: RunReport,
    /// The images, as they were written.
    pub images: Vec<Image>,
    /// The bright field and the reconstruction; none where there is no bright field.
    pub live: Option<LiveResult>,
    /// The spectra of the bright field, to reconstruct again by other optics.
    pub spectra: Option<Arc<LiveSpectra<D>>>,
    /// What it was made by.
    pub choices: Choices,
    /// Why nothing could be written, where that was to be borne.
    pub not_written: Option<String>,
    /// What other choices change nothing of.
    pub(super) lasting: Lasting<D>,
}

/// What is the same whatever is chosen.
#[derive(Clone, Debug)]
pub(super) struct Lasting<D> {
    /// What computes phases.
    pub(super) device: D,
    /// What there is to be said.
    pub(super) warnings: Vec<String>,
    /// Most bytes the spectra may take.
    pub(super) spectra_bytes: u64,
}

impl<D: SsbDevice> Finished<D> {
    /// The results by other choices, not written yet. `snapshot` is what was kept, `pixel_mask` the detector's own mask.
    ///
    /// # Errors
    /// An image cannot be computed. That there is no phase is a warning in the account.
    pub fn again(&self, snapshot: &Snapshot, pixel_mask: &[u32], choices: Choices) -> anyhow::Result<Self> {
        let settings = LiveSettings {
            microscope: Microscope::new(choices.optics.known()),
            rows: if choices.optics.is_shape_known() { Rows::Transform } else { Rows::Leave },
            pixel_mask: pixel_mask.to_vec(),
            options: Options { moments: choices.moments, ..Options::default() },
            most_bytes: self.lasting.spectra_bytes,
            previews: None,
        };
        let geometry = choices.optics.geometry;
        let snapshot = &snapshot.with_geometry(geometry)?;
        // rows of another geometry are others
        let held = self.spectra.as_ref().filter(|_| self.choices.optics.geometry == geometry);
        let made = reconstruct_again(self.lasting.device.clone(), settings, snapshot, held);
        let (live, spectra) = match made {
            Ok(again) => (Ok(again.result), again.spectra),
            Err(error) => (Err(error.into()), held.cloned()),
        };
        let Account { images, masks, bright_field, warnings, live, optics, status } =
            account::of_choices(snapshot, live, &choices, pixel_mask, &self.lasting.warnings)?;
        let report = RunReport {
            status,
            loss_rad2: live.as_ref().and_then(|live| live.reconstruction.as_ref()?.loss),
            notes: optics.notes.clone(),
            optics,
            bright_field,
            masks,
            warnings,
            ..self.report.clone()
        };
        let (not_written, lasting) = (self.not_written.clone(), self.lasting.clone());
        Ok(Self { report, images, live, spectra, choices, not_written, lasting })
    }

    /// What there is to be said whatever is chosen.
    pub fn lasting_warnings(&self) -> &[String] {
        &self.lasting.warnings
    }

    /// Writes the results in the place of those that are in the folder, if any are.
    ///
    /// # Errors
    /// The folder or a file cannot be written.
    pub fn write(&mut self, folder: &Path) -> anyhow::Result<()> {
        let [rows, cols] = self
            .images
            .iter()
            .find(|image| image.axes().names()[0] == "det_row")
            .map(Image::shape)
            .context("there is no image to be written")?;
        let detector = DetectorShape { rows, cols };
        let _locked = prepare_folder(folder, self.choices.optics.scan_shape.value, detector)?;
        write_results(folder, &self.images, &mut self.report)?;
        self.not_written = None;
        Ok(())
    }
}
