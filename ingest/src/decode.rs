//! Stage: compressed frames to counts, or to what the encoder needs of them, on the device, order kept.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use kernels::DeviceError;
use kernels::bslz4_decode::FailedFrames;
use kernels::reduce_frames::Batch;
use kernels::types::{BatchShape, Gap, GapReason, Item};

use crate::counters::IngestCounters;
use crate::raw::RawBatch;

/// The stage. A frame that does not decode becomes a gap; its neighbours go on.
///
/// `B` is the form in which frames go on: [`FrameBatch`](kernels::types::FrameBatch) with all counts, or
/// [`ReducedBatch`](kernels::reduce_frames::ReducedBatch) with what the encoder needs.
#[derive(Debug)]
pub struct DecodeStage<B: Batch> {
    device: B::Device,
    counters: Arc<IngestCounters>,
    spent: Option<Receiver<B>>,
}

impl<B: Batch> DecodeStage<B> {
    /// A stage that decodes on `device`.
    pub fn new(device: B::Device, counters: Arc<IngestCounters>) -> Self {
        Self { device, counters, spent: None }
    }

    /// Takes the memory for frames from `spent`, where batches that nobody needs any more come back; new memory only
    /// while none is there. Fresh memory costs about as much time as decoding.
    #[must_use]
    pub fn reusing(mut self, spent: Receiver<B>) -> Self {
        self.spent = Some(spent);
        self
    }

    /// Runs until the input closes. A closed output is an orderly stop.
    ///
    /// # Errors
    /// [`DeviceError`] when the device itself fails, never for what the bytes hold.
    pub fn run(self, raw: Receiver<Item<RawBatch>>, frames: Sender<Item<B>>) -> Result<(), DeviceError> {
        for item in raw {
            let decoded = match item {
                Item::Data(batch) => {
                    let start = Instant::now();
                    let decoded = self.decode(&batch)?;
                    self.counters.decode_ns.add_since(start);
                    decoded
                }
                Item::Gap(gap) => vec![Item::Gap(gap)],
            };
            for item in decoded {
                if frames.send(item).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Decodes one batch: one [`Batch`] when all is well, else the runs between the frames that failed.
    fn decode(&self, batch: &RawBatch) -> Result<Vec<Item<B>>, DeviceError> {
        let bytes: Vec<&[u8]> = batch.frames().collect();
        let (frames, failed) = self.decode_run(batch, &bytes, 0)?;
        self.counters.frames_decoded.add((bytes.len() - failed.len()) as u64);
        if failed.is_empty() {
            return Ok(vec![Item::Data(frames)]);
        }
        drop(frames);
        self.counters.frames_corrupt.add(failed.len() as u64);
        self.counters.frames_missing.add(failed.len() as u64);
        let mut items = Vec::new();
        let mut start = 0;
        let decode_sound = |run: std::ops::Range<usize>| -> Result<_, DeviceError> {
            let start = run.start;
            match bytes.get(run).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => Ok(Some(Item::Data(self.decode_run(batch, bytes, start)?.0))),
                None => Ok(None),
            }
        };
        for (index, error) in failed {
            items.extend(decode_sound(start..index)?);
            let first = batch.first + index as u64;
            let reason = GapReason::Corrupt(format!("frame {first}, {} bytes: {error}", bytes[index].len()));
            items.push(Item::Gap(Gap { first, count: 1, reason }));
            start = index + 1;
        }
        items.extend(decode_sound(start..bytes.len())?);
        Ok(items)
    }

    /// Decodes frames of a batch that begin with its frame `start`.
    fn decode_run(
        &self,
        batch: &RawBatch,
        bytes: &[&[u8]],
        start: usize,
    ) -> Result<(B, FailedFrames), DeviceError> {
        let first = batch.first + start as u64;
        let shape = BatchShape { frames: bytes.len(), detector: batch.detector };
        let spent = self.spent.as_ref().and_then(|spent| spent.try_recv().ok());
        B::decode(&self.device, batch.encoding, first, bytes, shape, batch.count_type, spent)
    }
}

#[cfg(test)]
mod tests;
