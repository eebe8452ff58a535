//! Images of rings that are dragged, against plain loops.

use encoder::Block;
use kernels::types::{CountType, DetectorShape, Item, ScanShape};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::dense::Dense;
use crate::{Budget, MaskImages, Missing, ResidentError};

const SCAN: ScanShape = ScanShape { rows: 30, cols: 70 }; // 2100 positions: 1024, 1024, 52
const DETECTOR: DetectorShape = DetectorShape { rows: 45, cols: 41 };

/// A ring that may have walked off the detector.
struct Ring {
    centre: [f64; 2],
    inner: f64,
    outer: f64,
}

impl Ring {
    fn mask(&self) -> Vec<bool> {
        let distance = |pixel: usize| {
            ((pixel / DETECTOR.cols) as f64 - self.centre[0])
                .hypot((pixel % DETECTOR.cols) as f64 - self.centre[1])
        };
        (0..DETECTOR.pixels()).map(|pixel| (self.inner..=self.outer).contains(&distance(pixel))).collect()
    }

    /// A small step as of a pointer, now and then a leap.
    fn moved(&mut self, random: &mut Pcg64) {
        let far = if random.random_bool(0.1) { 20.0 } else { 1.5 };
        match random.random_range(0..3) {
            0 => self.centre = self.centre.map(|place| place + random.random_range(-far..far)),
            1 => self.inner = (self.inner + random.random_range(-far..far)).max(0.0),
            _ => self.outer = (self.outer + random.random_range(-far..far)).max(0.0),
        }
    }
}

#[test]
fn the_image_of_a_dragged_ring_is_that_of_its_mask_while_the_scan_comes() {
    for (count_type, seed) in [(CountType::U8, 1), (CountType::U16, 2), (CountType::U32, 3)] {
        let dense = Dense::new(SCAN, DETECTOR, count_type, &[71..74, 1030..1040, 2099..2100], seed);
        let mut random = Pcg64::seed_from_u64(seed);
        let resident = dense.empty_resident(Budget::UNLIMITED);
        let images = MaskImages::default();
        let mut rings = [
            Ring { centre: [20.0, 22.0], inner: 0.0, outer: 12.0 },
            Ring { centre: [20.0, 22.0], inner: 14.0, outer: 18.0 },
        ];
        let mut ask = |times: usize, covered: u64| {
            let snapshot = resident.snapshot();
            for _ in 0..times {
                let ring = &mut rings[random.random_range(0..2)];
                // the same is asked for again, too
                if random.random_bool(0.8) {
                    ring.moved(&mut random);
                }
                let mask = ring.mask();
                let answer = images.mask_sum(&snapshot, &mask, Missing::Report).unwrap();
                assert_eq!(answer, snapshot.mask_sum(&mask, snapshot.positions(), Missing::Report).unwrap());
                let weights: Vec<i64> = mask.iter().map(|&inside| inside.into()).collect();
                let direct = dense.weighted(&weights, 0..covered);
                assert!(answer.value[..covered as usize].iter().map(|&sum| i128::from(sum)).eq(direct));
            }
        };
        ask(2, 0);
        let blocks = dense.encode(512).into_iter();
        let blocks: Vec<Block> =
            blocks.filter_map(|item| if let Item::Data(block) = item { Some(block) } else { None }).collect();
        for block in blocks {
            for part in [10, 40, 700] {
                let end = (block.first() + part).min(block.first() + block.positions() as u64);
                resident.show(dense.block_so_far(block.first(), end).unwrap()).unwrap();
                ask(3, end);
            }
            let end = block.first() + block.positions() as u64;
            resident.append(block).unwrap();
            ask(12, end);
        }
    }
}

#[test]
fn a_mask_of_another_detector_and_missing_positions_are_refused() {
    let dense = Dense::new(SCAN, DETECTOR, CountType::U16, &[5..6, 9..9], 1);
    let (images, snapshot) = (MaskImages::default(), dense.resident(512).snapshot());
    let refused = images.mask_sum(&snapshot, &[true], Missing::Report).unwrap_err();
    assert!(matches!(refused, ResidentError::WrongElements { got: 1, .. }), "{refused}");
    let refused =
        images.mask_sum(&snapshot, &[true; DETECTOR.rows * DETECTOR.cols], Missing::Fail).unwrap_err();
    assert!(matches!(refused, ResidentError::Missing { first_missing: 5, .. }), "{refused}");
}
