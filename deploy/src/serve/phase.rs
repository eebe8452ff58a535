//! The phase of a series: of the rows so far, of all of them, and again by other optics.

use std::sync::Arc;

use anyhow::{Context, ensure};
use kernels::Processor;
use kernels::types::{ABERRATIONS, Aberration, Degrees, Nanometres, Optics};
use serde::Deserialize;
use serde_json::{Value, json};
use ssb::reconstruct::reconstruct;
use ssb::{BrightField, LiveSpectra, Options, Preview, Reconstruction};

use crate::output::Quantity;

/// What there is of it.
#[derive(Debug, Default)]
pub(super) struct Phase {
    /// Counts up with every new image.
    version: u64,
    is_final: bool,
    /// Scan rows it is made of, from the first.
    rows: usize,
    made: Option<Arc<Reconstruction>>,
    field: Option<Arc<BrightField>>,
    /// To reconstruct again; and the optics it was made with.
    spectra: Option<(Arc<LiveSpectra<Processor>>, Optics)>,
}

impl Phase {
    /// The phase of the rows so far.
    pub(super) fn preview(&mut self, preview: Preview) {
        if self.is_final {
            return; // it waited on its way
        }
        self.version += 1;
        self.rows = preview.rows;
        self.field = Some(Arc::new(preview.bright_field));
        self.made = preview.reconstruction.filter(Reconstruction::has_phase).map(Arc::new);
    }

    /// The phase of everything, where there is one.
    pub(super) fn finish(&mut self, field: BrightField, made: Option<Reconstruction>) {
        self.version += 1;
        self.is_final = true;
        self.rows = made.as_ref().map_or(0, |made| made.scan.rows);
        self.field = Some(Arc::new(field));
        self.made = made.filter(Reconstruction::has_phase).map(Arc::new);
    }

    /// What it was made of, and with which optics: it can be made again by others.
    pub(super) fn keep(&mut self, spectra: Arc<LiveSpectra<Processor>>, optics: Optics) {
        self.spectra = Some((spectra, optics));
    }

    /// Lets go of images and spectra.
    pub(super) fn release(&mut self) {
        (self.made, self.spectra) = (None, None);
    }

    /// Whether an image can be had, as far as it is of the phase.
    pub(super) fn has(&self, quantity: Quantity) -> bool {
        match quantity {
            Quantity::Phase | Quantity::Amplitude => self.made.is_some(),
            Quantity::MeanPhase => self.made.as_ref().is_some_and(|made| made.mean_phase.is_some()),
            _ => true,
        }
    }

    /// The images.
    pub(super) fn made(&self) -> Option<Arc<Reconstruction>> {
        self.made.clone()
    }

    /// The bright field it is made of.
    pub(super) fn bright_field(&self) -> Option<&Arc<BrightField>> {
        self.field.as_ref()
    }

    /// Counts up with every new image.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// As the API tells it.
    pub(super) fn json(&self) -> Option<Value> {
        let made = self.made.as_ref()?;
        Some(json!({
            "version": self.version,
            "badge": if self.is_final { "final" } else { "preview" },
            "rows_final": self.rows,
            "pixels_used": made.num_pixels,
            "can_be_made_again": self.spectra.is_some(),
            "device": made.device,
        }))
    }

    /// What is needed to reconstruct by other optics.
    pub(super) fn again(&self) -> Option<Again> {
        let (spectra, optics) = self.spectra.clone()?;
        Some(Again { spectra, optics, field: self.field.clone()? })
    }
}

/// Everything for another reconstruction.
#[derive(Clone, Debug)]
pub(super) struct Again {
    spectra: Arc<LiveSpectra<Processor>>,
    optics: Optics,
    field: Arc<BrightField>,
}

/// What another reconstruction changes; what is not named stays.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changes {
    c10_nm: Option<f64>,
    c12_nm: Option<f64>,
    phi12_deg: Option<f64>,
    rotation_deg: Option<f64>,
}

impl Again {
    /// Reconstructs with changed optics.
    ///
    /// # Errors
    /// A number that cannot be, by name.
    pub(super) fn reconstruct(&self, changes: &Changes) -> anyhow::Result<Reconstruction> {
        let mut optics = self.optics.clone();
        let fine = |name: &str, value: Option<f64>, most: f64| {
            let Some(value) = value else { return Ok(None) };
            ensure!(value.abs() <= most, "{name}: got {value}, expected -{most} to {most}");
            Ok(Some(value))
        };
        if let Some(rotation) = fine("rotation_deg", changes.rotation_deg, 360.0)? {
            optics.rotation = Degrees(rotation);
        }
        let (c10, c12) = (fine("c10_nm", changes.c10_nm, 1e6)?, fine("c12_nm", changes.c12_nm, 1e6)?);
        let phi12 = fine("phi12_deg", changes.phi12_deg, 1e4)?;
        let terms = &mut optics.aberrations.0;
        for (name, size, angle) in [("C10", c10, None), ("C12", c12, phi12)] {
            let (_, order, symmetry) =
                ABERRATIONS.into_iter().find(|(listed, ..)| *listed == name).context("no such aberration")?;
            let old = terms.iter().position(|term| term.name() == name).map(|at| terms.remove(at));
            let zero = Aberration { order, symmetry, size: Nanometres(0.0), angle: Degrees(0.0) };
            let old = old.unwrap_or(zero);
            let term = Aberration {
                size: size.map_or(old.size, Nanometres),
                angle: angle.map_or(old.angle, Degrees),
                ..old
            };
            if term.size.0 != 0.0 {
                terms.push(term);
            }
        }
        Ok(reconstruct(&self.spectra, &self.field, &optics, &Options::default())?)
    }
}
