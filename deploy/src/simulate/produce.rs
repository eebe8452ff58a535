//! All frames, on all threads, into the files in order.

use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::Context;
use ingest::filewriter::FilewriterSet;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::Count;
use rayon::prelude::*;

use super::bad_pixels::BadPixels;
use super::counts::{draw_counts, frame_generator};
use super::thresholds::SimulatedChannel;
use super::truth::Totals;
use super::wave::{Beam, Scratch};
use crate::progress::Progress;
use crate::request::{Interrupted, StopFlag};
use crate::room::filled;

/// What turns a wave into counts.
pub(super) struct Exposure<'a> {
    pub(super) beam: &'a Beam,
    pub(super) bad: &'a BadPixels,
    pub(super) electrons_per_frame: f64,
    pub(super) seed: u64,
    pub(super) stop: &'a StopFlag,
}

/// A frame, compressed, with its sums.
pub(super) struct Compressed {
    pub(super) bytes: Vec<u8>,
    totals: Totals,
}

/// Memory one thread needs.
pub(super) struct Desk<T> {
    wave: Scratch,
    means: Vec<f32>,
    drawn: Vec<u32>,
    counts: Vec<T>,
    /// The same as another channel counts them.
    counts_of_channel: Vec<T>,
}

/// Frames handed to the writer at once, for every thread.
const BATCH_PER_THREAD: usize = 16;

/// Makes every frame and appends it to `set`, batches waiting at most two deep. Runs on the current rayon pool.
///
/// # Errors
/// What the files refuse; [`Interrupted`] once the stop flag is raised.
pub(super) fn write_frames<T: Count>(
    exposure: &Exposure<'_>,
    set: &mut FilewriterSet,
    progress: &Progress,
) -> anyhow::Result<Totals> {
    let (sender, batches) = sync_channel::<Vec<Compressed>>(2);
    let frames = exposure.beam.geometry().scan.positions();
    let (totals, made) = std::thread::scope(|scope| {
        let writer = std::thread::Builder::new().name("simulate-write".to_owned());
        let written = writer
            .spawn_scoped(scope, move || -> anyhow::Result<Totals> {
                let mut totals = Totals::default();
                for batch in batches {
                    for frame in &batch {
                        set.append_chunk(&frame.bytes)?;
                        totals.good_counts += frame.totals.good_counts;
                        totals.saturated_counts += frame.totals.saturated_counts;
                    }
                    progress.add_received(batch.len() as u64);
                }
                Ok(totals)
            })
            .context("no thread for the writer")?;
        let made = make_batches::<T>(exposure, sender);
        match written.join() {
            Ok(outcome) => anyhow::Ok((outcome?, made?)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    if made < frames {
        let what = format!("after {made} of {frames} frames, nothing of them is kept");
        return Err(Interrupted { what }.into());
    }
    Ok(totals)
}

/// Makes frames until all are made, the stop flag is raised, or the writer has failed; returns how many were made.
///
/// # Errors
/// The memory for a thread cannot be had.
fn make_batches<T: Count>(
    exposure: &Exposure<'_>,
    sender: SyncSender<Vec<Compressed>>,
) -> anyhow::Result<usize> {
    let frames = exposure.beam.geometry().scan.positions();
    let batch = rayon::current_num_threads() * BATCH_PER_THREAD;
    let mask = exposure.bad.mask();
    let desks = Mutex::new(Vec::new());
    for first in (0..frames).step_by(batch) {
        let made: anyhow::Result<Vec<Option<Compressed>>> = (first..frames.min(first + batch))
            .into_par_iter()
            .map(|frame| {
                if exposure.stop.is_raised() {
                    return Ok(None); // the others of this batch need not be finished
                }
                let waiting = desks.lock().ok().and_then(|mut desks| desks.pop());
                let mut desk = waiting.map_or_else(|| Desk::<T>::new(exposure.beam), Ok)?;
                let compressed = desk.expose(exposure, frame, &mask);
                if let Ok(mut desks) = desks.lock() {
                    desks.push(desk);
                }
                Ok(Some(compressed))
            })
            .collect();
        let Some(made) = made?.into_iter().collect::<Option<Vec<_>>>() else { return Ok(first) };
        if sender.send(made).is_err() {
            return Ok(first); // the writer failed and says why
        }
    }
    Ok(frames)
}

impl<T: Count> Desk<T> {
    pub(super) fn new(beam: &Beam) -> anyhow::Result<Self> {
        let pixels = beam.geometry().detector.pixels();
        let what = "the counts of a frame";
        Ok(Self {
            wave: beam.scratch()?,
            means: filled(0.0, pixels, what)?,
            drawn: filled(0, pixels, what)?,
            counts: filled(T::default(), pixels, what)?,
            counts_of_channel: Vec::new(),
        })
    }

    /// The frame that was made last, as a channel counts it, compressed.
    pub(super) fn of_channel(&mut self, channel: SimulatedChannel, seed: u64, frame: usize) -> Vec<u8> {
        self.counts_of_channel.clone_from(&self.counts);
        channel.count(seed, frame as u64, &mut self.counts_of_channel);
        let mut bytes = Vec::new();
        encode_bslz4(&self.counts_of_channel, &mut bytes);
        bytes
    }

    /// Makes a frame.
    pub(super) fn expose(&mut self, exposure: &Exposure<'_>, frame: usize, mask: &[u32]) -> Compressed {
        exposure.beam.fractions(frame, &mut self.wave, &mut self.means);
        let electrons = exposure.electrons_per_frame as f32;
        self.means.iter_mut().for_each(|mean| *mean *= electrons);
        exposure.bad.apply(&mut self.means);
        draw_counts(&mut frame_generator(exposure.seed, frame as u64), &self.means, &mut self.drawn);
        let largest = T::TYPE.marker();
        let mut totals = Totals::default();
        for ((count, &drawn), &flags) in self.counts.iter_mut().zip(&self.drawn).zip(mask) {
            let stored = drawn.min(largest);
            totals.saturated_counts += u64::from(stored < drawn);
            totals.good_counts += if flags == 0 { u64::from(stored) } else { 0 };
            *count = T::try_from(stored).unwrap_or_default(); // fits: not above the largest
        }
        let mut bytes = Vec::new();
        encode_bslz4(&self.counts, &mut bytes);
        Compressed { bytes, totals }
    }
}
