//! A dense acquisition to compare with, and the way of its frames through the real encode stage.

use std::sync::Arc;

use crossbeam_channel::unbounded;
use encoder::{Block, EncodeStage, Encoded};
use kernels::Cpu;
use kernels::types::{
    BatchShape, CountBuffer, CountType, DetectorShape, FrameBatch, Gap, GapReason, Item, ScanShape,
};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::{Budget, Resident};

/// Counts `[position][pixel]`, 0 where a frame is missing.
pub(crate) struct Dense {
    pub(crate) scan: ScanShape,
    pub(crate) detector: DetectorShape,
    pub(crate) count_type: CountType,
    pub(crate) counts: Vec<u32>,
    pub(crate) covered: Vec<bool>,
}

impl Dense {
    /// A bright disc on a sparse background with a dead pixel, a pixel that always and one that sometimes shows the
    /// marker, some frames of large counts; positions in `gaps` are missing.
    pub(crate) fn new(
        scan: ScanShape,
        detector: DetectorShape,
        count_type: CountType,
        gaps: &[std::ops::Range<u64>],
        seed: u64,
    ) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let (positions, pixels) = (scan.positions(), detector.pixels());
        let covered: Vec<bool> =
            (0..positions as u64).map(|position| !gaps.iter().any(|gap| gap.contains(&position))).collect();
        let mut counts = vec![0; positions * pixels];
        for (position, frame) in counts.chunks_exact_mut(pixels).enumerate() {
            if !covered[position] {
                continue;
            }
            for (pixel, count) in frame.iter_mut().enumerate() {
                let row = (pixel / detector.cols) as f64 - detector.rows as f64 * 0.45;
                let col = (pixel % detector.cols) as f64 - detector.cols as f64 * 0.55;
                let inside = row.hypot(col) < detector.rows as f64 * 0.3;
                *count = match (pixel % 701, inside) {
                    (17, _) => 0,
                    (200, _) => count_type.marker(),
                    (300, _) if position % 5 == 0 => count_type.marker(),
                    (_, true) => random.random_range(0..5) * random.random_range(0..2),
                    (_, false) => u32::from(random.random_range(0..40) == 0),
                };
                if position % 97 == 3 && inside {
                    *count = random.random_range(0..=count_type.marker());
                }
            }
        }
        Self { scan, detector, count_type, counts, covered }
    }

    pub(crate) fn frame(&self, position: u64) -> &[u32] {
        let pixels = self.detector.pixels();
        &self.counts[position as usize * pixels..][..pixels]
    }

    /// Frames and gaps in scan order, at most `batch` frames at a time.
    fn batches(&self, batch: usize) -> Vec<Item<FrameBatch<Cpu>>> {
        let mut items = Vec::new();
        let mut at = 0;
        while at < self.covered.len() {
            let there = self.covered[at];
            let run = self.covered[at..].iter().take_while(|&&covered| covered == there).count();
            if !there {
                let reason = GapReason::NotReceived("test".to_owned());
                items.push(Item::Gap(Gap { first: at as u64, count: run as u64, reason }));
                at += run;
                continue;
            }
            let frames = run.min(batch);
            let pixels = self.detector.pixels();
            let counts = &self.counts[at * pixels..(at + frames) * pixels];
            let counts = match self.count_type {
                CountType::U8 => CountBuffer::U8(counts.iter().map(|&count| count as u8).collect()),
                CountType::U16 => CountBuffer::U16(counts.iter().map(|&count| count as u16).collect()),
                CountType::U32 => CountBuffer::U32(counts.to_vec()),
            };
            let shape = BatchShape { frames, detector: self.detector };
            items.push(Item::Data(FrameBatch { first: at as u64, shape, counts }));
            at += frames;
        }
        items
    }

    /// What the encode stage makes of it; all blocks are whole.
    pub(crate) fn encode(&self, batch: usize) -> Vec<Item<Block>> {
        let whole = |item| match item {
            Item::Data(Encoded::Whole(block)) => Item::Data(block),
            Item::Data(Encoded::SoFar(block)) => panic!("shown unasked: {}", block.first()),
            Item::Gap(gap) => Item::Gap(gap),
        };
        self.encoded(batch).into_iter().map(whole).collect()
    }

    /// The same as the stage sends it.
    pub(crate) fn encoded(&self, batch: usize) -> Vec<Item<Encoded>> {
        let (to_stage, batches) = unbounded();
        let (blocks, encoded) = unbounded();
        for item in self.batches(batch) {
            to_stage.send(item).unwrap();
        }
        drop(to_stage);
        let stage = EncodeStage::new(Cpu).with_positions(self.scan.positions() as u64);
        stage.run(batches, blocks).unwrap();
        encoded.iter().collect()
    }

    /// The block that starts at `first`, of the frames before `end` alone; nothing where there are none.
    pub(crate) fn block_so_far(&self, first: u64, end: u64) -> Option<Block> {
        let (to_stage, batches) = unbounded();
        let (blocks, encoded) = unbounded();
        for item in self.batches(1) {
            match item {
                Item::Data(batch) if (first..end).contains(&batch.first) => {
                    to_stage.send(Item::Data(batch)).unwrap();
                }
                _ => {}
            }
        }
        drop(to_stage);
        EncodeStage::new(Cpu).run(batches, blocks).unwrap();
        let whole = |item| if let Item::Data(Encoded::Whole(block)) = item { Some(block) } else { None };
        encoded.iter().filter_map(whole).next()
    }

    pub(crate) fn empty_resident(&self, budget: Budget) -> Arc<Resident> {
        Arc::new(Resident::new(self.scan, self.detector, self.count_type, budget).unwrap())
    }

    /// A resident that holds everything.
    pub(crate) fn resident(&self, batch: usize) -> Arc<Resident> {
        let resident = self.empty_resident(Budget::UNLIMITED);
        for item in self.encode(batch) {
            match item {
                Item::Data(block) => drop(resident.append(block).unwrap()),
                Item::Gap(gap) => drop(resident.mark_missing(&gap)),
            }
        }
        resident
    }
}
