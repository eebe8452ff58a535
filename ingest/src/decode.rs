//! Stage: compressed frames to counts, on the device, order kept.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use kernels::bslz4_decode::DecodeFrames;
use kernels::types::{BatchShape, CountBuffer, CountType, FrameBatch, Gap, GapReason, Item};
use kernels::{Device, DeviceError};

use crate::counters::IngestCounters;
use crate::raw::RawBatch;

/// The stage. A frame that does not decode becomes a gap; its neighbours go on.
#[derive(Debug)]
pub struct DecodeStage<D: Device> {
    device: D,
    counters: Arc<IngestCounters>,
    spent: Option<Receiver<CountBuffer<D>>>,
}

impl<D: DecodeFrames> DecodeStage<D> {
    /// A stage that decodes on `device`.
    pub fn new(device: D, counters: Arc<IngestCounters>) -> Self {
        Self { device, counters, spent: None }
    }

    /// Takes the memory for counts from `spent`, where batches of the same size that nobody needs any more come back;
    /// new memory only while none is there. Fresh memory costs about as much time as decoding.
    #[must_use]
    pub fn reusing(mut self, spent: Receiver<CountBuffer<D>>) -> Self {
        self.spent = Some(spent);
        self
    }

    /// Runs until the input closes. A closed output is an orderly stop.
    ///
    /// # Errors
    /// [`DeviceError`] when the device itself fails, never for what the bytes hold.
    pub fn run(
        self,
        raw: Receiver<Item<RawBatch>>,
        frames: Sender<Item<FrameBatch<D>>>,
    ) -> Result<(), DeviceError> {
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

    /// Decodes one batch: one [`FrameBatch`] when all is well, else the runs between the frames that failed.
    fn decode(&self, batch: &RawBatch) -> Result<Vec<Item<FrameBatch<D>>>, DeviceError> {
        let bytes: Vec<&[u8]> = batch.frames().collect();
        let shape = BatchShape { frames: bytes.len(), detector: batch.detector };
        let (counts, failed) = match self.spent_buffer(shape, batch.count_type) {
            Some(mut counts) => {
                let failed = self.device.decode_frames_into(batch.encoding, &bytes, shape, &mut counts)?;
                (counts, failed)
            }
            None => self.device.decode_frames(batch.encoding, &bytes, shape, batch.count_type)?,
        };
        self.counters.frames_decoded.add((bytes.len() - failed.len()) as u64);
        if failed.is_empty() {
            return Ok(vec![Item::Data(FrameBatch { first: batch.first, shape, counts })]);
        }
        drop(counts);
        self.counters.frames_corrupt.add(failed.len() as u64);
        self.counters.frames_missing.add(failed.len() as u64);
        let mut items = Vec::new();
        let mut start = 0;
        for (index, error) in failed {
            items.extend(self.decode_run(batch, &bytes, start..index)?);
            let first = batch.first + index as u64;
            let reason = GapReason::Corrupt(format!("frame {first}, {} bytes: {error}", bytes[index].len()));
            items.push(Item::Gap(Gap { first, count: 1, reason }));
            start = index + 1;
        }
        items.extend(self.decode_run(batch, &bytes, start..bytes.len())?);
        Ok(items)
    }

    /// Memory that held a batch of this shape and type before.
    fn spent_buffer(&self, shape: BatchShape, count_type: CountType) -> Option<CountBuffer<D>> {
        let fits =
            |counts: &CountBuffer<D>| counts.count_type() == count_type && counts.len() == shape.counts();
        self.spent.as_ref()?.try_recv().ok().filter(fits)
    }

    /// Decodes frames already known to be sound.
    fn decode_run(
        &self,
        batch: &RawBatch,
        bytes: &[&[u8]],
        run: std::ops::Range<usize>,
    ) -> Result<Option<Item<FrameBatch<D>>>, DeviceError> {
        let Some(bytes) = bytes.get(run.clone()).filter(|bytes| !bytes.is_empty()) else { return Ok(None) };
        let shape = BatchShape { frames: bytes.len(), detector: batch.detector };
        let (counts, _) = self.device.decode_frames(batch.encoding, bytes, shape, batch.count_type)?;
        Ok(Some(Item::Data(FrameBatch { first: batch.first + run.start as u64, shape, counts })))
    }
}

#[cfg(test)]
mod tests;
