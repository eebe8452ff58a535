//! The live stage: row transforms while the scan is still coming, the reconstruction when it is complete.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use kernels::transform_rows::SpectraShape;
use kernels::types::{Optics, Pixels};
use resident::{Basis, Event, Missing, Signal, Snapshot};

use crate::bright_field::{ANY_SEMI_ANGLE, BrightField, Pattern, Pins, bright_field, candidates};
use crate::error::SsbError;
use crate::gather::{gather_counts, gather_covered};
use crate::reconstruct::{Moments, Options, Reconstruction, SsbDevice, reconstruct};
use crate::spectra::LiveSpectra;

/// How far beyond the bright field's first measured radius pixels are transformed early, so that the final bright field
/// is among them: the centre settles to 0.1 px and the radius to 0.6 % within 512 frames.
const MARGIN: Pixels = Pixels(1.5);

/// Frames whose pixel images are fetched together.
const FRAMES_AT_ONCE: u64 = 2048;

/// From the end of one preview to the next, at least.
const PREVIEW_EVERY: Duration = Duration::from_millis(200);

/// And at least so many times what it took: most of the time is for the rows.
const PREVIEW_REST: u32 = 4;

/// What is known of the microscope at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// The microscope, where all of it is known; the detector sampling is measured unless it is pinned.
    pub optics: Option<Optics>,
    /// What of the bright field is known.
    pub pins: Pins,
}

/// The microscope of a scan, for whoever comes to know it better while the scan comes: what is set counts from the next
/// preview on.
#[derive(Clone, Debug, Default)]
pub struct Microscope(Arc<Mutex<Known>>);

impl Microscope {
    /// A microscope of which so much is known.
    pub fn new(known: Known) -> Self {
        Self(Arc::new(Mutex::new(known)))
    }

    /// What is known now.
    pub fn known(&self) -> Known {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known from now on.
    pub fn set(&self, known: Known) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }
}

/// What is done with scan rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// They are transformed as they come.
    #[default]
    Transform,
    /// Nothing: the shape of the scan is not known, and a stand-in has rows that mean nothing. There is no phase.
    Leave,
}

/// What the stage is told.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    /// The microscope; as long as it is not known there is no phase.
    pub microscope: Microscope,
    /// What is done with scan rows.
    pub rows: Rows,
    /// The detector's own mask: 0 is good. `[det_row][det_col]`.
    pub pixel_mask: Vec<u32>,
    /// What to compute.
    pub options: Options,
    /// Most bytes the spectra may take.
    pub most_bytes: u64,
    /// Where phases of the rows so far go while the scan comes; none are made where nobody takes them.
    pub previews: Option<Sender<Preview>>,
}

/// The phase of the rows so far; what has not come counts as each pixel's mean.
#[derive(Debug)]
pub struct Preview {
    /// The bright field over the frames so far; its sampling means nothing as long as the microscope is not known.
    pub bright_field: BrightField,
    /// The images; none when the bright field was measured first, and as long as the microscope is not known.
    pub reconstruction: Option<Reconstruction>,
    /// Scan rows that have come, from the first.
    pub rows: usize,
}

/// A finished reconstruction and what it was made from.
#[derive(Clone, Debug)]
pub struct LiveResult {
    /// The bright field over all frames; its sampling means nothing where the microscope is not known.
    pub bright_field: BrightField,
    /// The images; none where the microscope is not known.
    pub reconstruction: Option<Reconstruction>,
    /// What it was made with.
    pub known: Known,
    /// Time spent on row transforms, with fetching their counts; most of it while the scan came.
    pub rows: Duration,
    /// Bytes of the spectra.
    pub spectra_bytes: u64,
}

/// The stage.
#[derive(Debug)]
pub struct LiveSsb<D: SsbDevice> {
    device: D,
    settings: LiveSettings,
    spectra: Option<LiveSpectra<D>>,
    rows_time: Duration,
    next_preview: Option<Instant>,
    counts: Vec<u32>,
    row_counts: Vec<u32>,
    row_covered: Vec<bool>,
}

/// What the bright field is measured on.
#[derive(Clone, Copy, Debug)]
enum Over {
    /// Every frame that is there: soon enough, and good enough to start with.
    Frames,
    /// The positions of the scan that are there.
    Positions,
}

impl<D: SsbDevice> LiveSsb<D> {
    /// A stage that has seen nothing.
    pub fn new(device: D, settings: LiveSettings) -> Self {
        Self {
            device,
            settings,
            spectra: None,
            rows_time: Duration::ZERO,
            next_preview: None,
            counts: Vec::new(),
            row_counts: Vec::new(),
            row_covered: Vec::new(),
        }
    }

    /// Runs until the scan is complete, sends the result, and ends. Input that closes without completion ends it in order.
    /// Returns the spectra, for who wants to reconstruct again by other optics.
    ///
    /// # Errors
    /// [`SsbError`] when there is no bright field, the spectra do not fit, or the device fails.
    pub fn run(
        mut self,
        events: Receiver<Event>,
        results: Sender<LiveResult>,
    ) -> Result<Option<LiveSpectra<D>>, SsbError> {
        let mut unseen = None;
        while let Some(event) = self.next_event(&events, &mut unseen) {
            let mut rows = Vec::new();
            let mut next = Some(event);
            // Rows that are waiting are fetched together: a block of the resident holds several.
            while let Some(event) = next {
                match event.signal {
                    Signal::Geometry(basis) => {
                        self.add_rows(&event.snapshot, &std::mem::take(&mut rows))?;
                        self.settle(&event.snapshot, basis)?;
                    }
                    Signal::RowComplete(arrival) => {
                        rows.push(arrival.row);
                        let frames = event.snapshot.row(arrival.row);
                        if rows.len() as u64 * (frames.end - frames.start) >= FRAMES_AT_ONCE {
                            self.add_rows(&event.snapshot, &std::mem::take(&mut rows))?;
                        }
                    }
                    Signal::Complete { .. } => {
                        self.add_rows(&event.snapshot, &rows)?;
                        let result = self.complete(&event.snapshot)?;
                        // A receiver that left does not want it.
                        let _ = results.send(result);
                        return Ok(self.spectra);
                    }
                }
                let snapshot = event.snapshot;
                next = events.try_recv().ok();
                if next.is_none() {
                    self.add_rows(&snapshot, &std::mem::take(&mut rows))?;
                    unseen = Some(snapshot);
                }
            }
        }
        Ok(None)
    }

    /// Waits for the next event. Meanwhile, when it is due, shows the rows so far, of which `unseen` has some that were not
    /// shown, and again when the microscope becomes better known.
    fn next_event(&mut self, events: &Receiver<Event>, unseen: &mut Option<Snapshot>) -> Option<Event> {
        let Some(snapshot) = unseen.take().filter(|_| self.settings.previews.is_some()) else {
            return events.recv().ok();
        };
        let mut shown_with = None;
        let mut due = self.next_preview.unwrap_or_else(Instant::now);
        loop {
            match events.recv_deadline(due) {
                Ok(event) => return Some(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            let known = self.settings.microscope.known();
            if shown_with.as_ref() != Some(&known) && self.preview(&snapshot, &known) {
                shown_with = Some(known);
            }
            due = self.next_preview.unwrap_or(due).max(Instant::now() + PREVIEW_EVERY);
        }
    }

    /// Reconstructs from the rows so far; what cannot be yet is left to the end to say. False where nobody was ready to see
    /// it.
    fn preview(&mut self, snapshot: &Snapshot, known: &Known) -> bool {
        let (Some(previews), Some(spectra)) = (&self.settings.previews, &self.spectra) else { return true };
        let start = Instant::now();
        let rows = (0..spectra.scan().rows).take_while(|&row| spectra.has_row(row)).count();
        if rows == 0 || previews.is_full() {
            return rows == 0;
        }
        if let Ok(mut field) = self.measure(snapshot, Over::Positions, known) {
            // a pixel that joined later has no spectra yet: the end has all
            field.pixels.retain(|pixel| spectra.pixels().binary_search(pixel).is_ok());
            let options = Options { moments: Moments::Skip, ..self.settings.options };
            let made = known.optics.as_ref().map(|optics| reconstruct(spectra, &field, optics, &options));
            if let Ok(made) = made.transpose() {
                let _ = previews.try_send(Preview { bright_field: field, reconstruction: made, rows });
            }
        }
        let took = start.elapsed();
        self.next_preview = Some(Instant::now() + PREVIEW_EVERY.max(took * PREVIEW_REST));
        true
    }

    /// Measures the bright field on the frames so far and starts spectra of every pixel that may belong to it; the rows
    /// that spectra of other pixels have are transformed again.
    fn settle(&mut self, snapshot: &Snapshot, basis: Basis) -> Result<(), SsbError> {
        let field = match self.measure(snapshot, Over::Frames, &self.settings.microscope.known()) {
            Ok(field) => field,
            // Too dark to tell yet: the end will. What was measured early must not decide then.
            Err(SsbError::NoDisk { .. } | SsbError::TooFewPixels { .. }) => {
                self.spectra.take_if(|_| basis == Basis::Settled);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let pixels = candidates(&field, &self.settings.pixel_mask, MARGIN);
        if self.spectra.as_ref().is_some_and(|spectra| spectra.pixels() == pixels) {
            return Ok(());
        }
        let has_row = |row: &usize| self.spectra.as_ref().is_some_and(|spectra| spectra.has_row(*row));
        let rows: Vec<usize> = (0..snapshot.scan().rows).filter(has_row).collect();
        match self.start(snapshot, pixels) {
            // a few frames may be mistaken about the size of the disk
            Err(SsbError::SpectraTooLarge { .. }) if basis != Basis::Settled => return Ok(()),
            started => started?,
        }
        if let Some(previews) = self.settings.previews.as_ref().filter(|_| rows.is_empty()) {
            // nobody who looks is no reason to wait
            let _ = previews.try_send(Preview { bright_field: field, reconstruction: None, rows: 0 });
        }
        self.add_many_rows(snapshot, &rows)
    }

    fn measure(&self, snapshot: &Snapshot, over: Over, known: &Known) -> Result<BrightField, SsbError> {
        let source = |error: resident::ResidentError| SsbError::Source { row: 0, why: error.to_string() };
        let scan = snapshot.over_scan();
        let (totals, hits) = match over {
            Over::Frames => (snapshot.detector_total(Missing::Report), snapshot.marker_hits(Missing::Report)),
            Over::Positions => (scan.detector_total(Missing::Report), scan.marker_hits(Missing::Report)),
        };
        let (totals, hits) = (totals.map_err(source)?, hits.map_err(source)?);
        let pattern = Pattern {
            detector: snapshot.detector(),
            totals: &totals.value,
            frames: totals.coverage.covered(),
            pixel_mask: &self.settings.pixel_mask,
            marker_hits: Some(&hits.value),
        };
        let semi_angle = known.optics.as_ref().map_or(ANY_SEMI_ANGLE, |optics| optics.semi_angle);
        bright_field(&pattern, semi_angle, &known.pins)
    }

    fn start(&mut self, snapshot: &Snapshot, pixels: Vec<u32>) -> Result<(), SsbError> {
        if self.settings.rows == Rows::Leave {
            return Ok(());
        }
        let scan = snapshot.scan();
        let bytes = D::rows_bytes(SpectraShape { scan, pixels: pixels.len() });
        if bytes > self.settings.most_bytes {
            let most = self.settings.most_bytes;
            return Err(SsbError::SpectraTooLarge { pixels: pixels.len(), scan, bytes, most });
        }
        self.spectra = Some(LiveSpectra::new(self.device.clone(), scan, pixels)?);
        Ok(())
    }

    /// Fetches and transforms rows; neighbours are fetched together.
    fn add_rows(&mut self, snapshot: &Snapshot, rows: &[usize]) -> Result<(), SsbError> {
        let Some(spectra) = &mut self.spectra else { return Ok(()) };
        let started = Instant::now();
        let geometry = snapshot.geometry();
        let row = snapshot.row(0);
        // neighbours are fetched with the fly-back between them
        let are_close = geometry.order().flyback_frames <= (row.end - row.start) / 4;
        for run in rows.chunk_by(|this, next| are_close && this + 1 == *next) {
            let (Some(&first), Some(&last)) = (run.first(), run.last()) else { continue };
            let source =
                |error: resident::ResidentError| SsbError::Source { row: first, why: error.to_string() };
            let positions = snapshot.row(first).start..snapshot.row(last).end;
            let coverage = snapshot
                .pixel_images_into(spectra.pixels(), positions.clone(), Missing::Report, &mut self.counts)
                .map_err(source)?;
            let stride = (positions.end - positions.start) as usize;
            let mut covered = vec![true; stride];
            let within = |at: u64| (at.clamp(positions.start, positions.end) - positions.start) as usize;
            for gap in coverage.missing() {
                covered[within(gap.start)..within(gap.end)].fill(false);
            }
            for &row in run {
                let frames = within(snapshot.row(row).start)..within(snapshot.row(row).end);
                self.row_counts.clear();
                for image in self.counts.chunks_exact(stride) {
                    gather_counts(&geometry, row, &image[frames.clone()], &mut self.row_counts);
                }
                self.row_covered.clear();
                gather_covered(&geometry, row, &covered[frames], &mut self.row_covered);
                spectra.add_row(row, &self.row_counts, &self.row_covered)?;
            }
        }
        self.rows_time += started.elapsed();
        Ok(())
    }

    /// The bright field over all frames, and the reconstruction with it.
    fn complete(&mut self, snapshot: &Snapshot) -> Result<LiveResult, SsbError> {
        let known = self.settings.microscope.known();
        let field = self.measure(snapshot, Over::Positions, &known)?;
        let holds = |spectra: &LiveSpectra<D>| holds_all(spectra, &field);
        if self.settings.rows == Rows::Transform && !self.spectra.as_ref().is_some_and(holds) {
            // The first frames were not like the rest: start over with what is known now.
            if self.spectra.is_some() {
                tracing::info!(
                    "the bright field moved after its first measurement; rows are transformed again"
                );
            }
            self.start_over(snapshot, &field)?;
        }
        if let Some(spectra) = &mut self.spectra {
            spectra.close()?;
        }
        let reconstruction = match (&self.spectra, &known.optics) {
            (Some(spectra), Some(optics)) => {
                Some(reconstruct(spectra, &field, optics, &self.settings.options)?)
            }
            _ => None,
        };
        Ok(LiveResult {
            bright_field: field,
            reconstruction,
            known,
            rows: self.rows_time,
            spectra_bytes: self.spectra.as_ref().map_or(0, |spectra| spectra.bytes()),
        })
    }

    /// Transforms every row there is, of the pixels of this bright field.
    fn start_over(&mut self, snapshot: &Snapshot, field: &BrightField) -> Result<(), SsbError> {
        self.start(snapshot, field.pixels.clone())?;
        let rows: Vec<usize> = (0..snapshot.scan().rows).collect();
        self.add_many_rows(snapshot, &rows)
    }

    /// Fetches and transforms rows, some at a time.
    fn add_many_rows(&mut self, snapshot: &Snapshot, rows: &[usize]) -> Result<(), SsbError> {
        let row = snapshot.row(0);
        let at_once = (FRAMES_AT_ONCE / (row.end - row.start).max(1)).max(1) as usize;
        rows.chunks(at_once).try_for_each(|rows| self.add_rows(snapshot, rows))
    }
}

/// Whether spectra have every pixel of a bright field.
fn holds_all<D: SsbDevice>(spectra: &LiveSpectra<D>, field: &BrightField) -> bool {
    field.pixels.iter().all(|pixel| spectra.pixels().binary_search(pixel).is_ok())
}

/// A scan that was reconstructed again.
#[derive(Debug)]
pub struct Again<D: SsbDevice> {
    /// What came of it.
    pub result: LiveResult,
    /// The spectra it was made from, where there are any.
    pub spectra: Option<Arc<LiveSpectra<D>>>,
}

/// Reconstructs a scan that is over with what is known of the microscope by now. `held` are its spectra, of the same
/// geometry, which are used where they have every pixel that is needed; otherwise the rows are transformed again.
///
/// # Errors
/// As [`LiveSsb::run`].
pub fn reconstruct_again<D: SsbDevice>(
    device: D,
    settings: LiveSettings,
    snapshot: &Snapshot,
    held: Option<&Arc<LiveSpectra<D>>>,
) -> Result<Again<D>, SsbError> {
    let mut live = LiveSsb::new(device, settings);
    let known = live.settings.microscope.known();
    let field = live.measure(snapshot, Over::Positions, &known)?;
    if let (Some(spectra), Some(optics)) = (held.filter(|held| holds_all(held, &field)), &known.optics) {
        let made = reconstruct(spectra, &field, optics, &live.settings.options)?;
        let spectra_bytes = spectra.bytes();
        let rows = Duration::ZERO;
        let result =
            LiveResult { bright_field: field, reconstruction: Some(made), known, rows, spectra_bytes };
        return Ok(Again { result, spectra: Some(Arc::clone(spectra)) });
    }
    let result = live.complete(snapshot)?;
    Ok(Again { result, spectra: live.spectra.map(Arc::new) })
}
