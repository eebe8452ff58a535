use std::time::Duration;

use super::*;
use kernels::Cpu;
use kernels::decode_counts::DecodeCounts;
use kernels::types::{BatchShape, CountBuffer, DetectorShape, FrameBatch};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const DETECTOR: DetectorShape = DetectorShape { rows: 18, cols: 21 };

/// Counts of frame `position`: the same whoever asks.
fn frame(position: u64) -> Vec<u16> {
    let mut rng = Pcg64Mcg::seed_from_u64(position);
    (0..DETECTOR.pixels())
        .map(|pixel| match pixel {
            7 => u16::MAX,
            30 => rng.random_range(900..1100),
            _ if pixel % 21 < 11 => {
                u16::from(rng.random::<f32>() < 0.2) + u16::from(rng.random::<f32>() < 0.05)
            }
            _ => u16::from(rng.random::<f32>() < 0.001),
        })
        .collect()
}

fn batch(first: u64, frames: u64) -> Item<FrameBatch<Cpu>> {
    let counts = (first..first + frames).flat_map(frame).collect();
    let shape = BatchShape { frames: frames as usize, detector: DETECTOR };
    Item::Data(FrameBatch { first, shape, counts: CountBuffer::U16(counts) })
}

fn gap(first: u64, count: u64) -> Item<FrameBatch<Cpu>> {
    Item::Gap(Gap { first, count, reason: GapReason::NotReceived("test".to_owned()) })
}

/// What the stage sends for these items, and its counters.
fn run(
    stage: EncodeStage<FrameBatch<Cpu>>,
    items: impl IntoIterator<Item = Item<FrameBatch<Cpu>>>,
) -> (Vec<Block>, Vec<Gap>, Arc<EncodeCounters>) {
    let counters = stage.counters();
    let (batches, batches_in) = crossbeam_channel::unbounded();
    let (blocks, blocks_in) = crossbeam_channel::unbounded();
    items.into_iter().for_each(|item| batches.send(item).unwrap());
    drop(batches);
    stage.run(batches_in, blocks).unwrap();
    let (mut sent, mut gaps) = (Vec::new(), Vec::new());
    for item in blocks_in {
        match item {
            Item::Data(Encoded::Whole(block)) => sent.push(block),
            Item::Data(Encoded::SoFar(block)) => panic!("shown unasked: {}", block.first()),
            Item::Gap(gap) => gaps.push(gap),
        }
    }
    (sent, gaps, counters)
}

fn in_batches(frames: u64, size: u64) -> impl Iterator<Item = Item<FrameBatch<Cpu>>> {
    (0..frames).step_by(size as usize).map(move |first| batch(first, size.min(frames - first)))
}

#[test]
fn blocks_do_not_depend_on_batch_size_or_threads() {
    let frames = 2 * INTERVAL as u64 + 77;
    let (expected, _, counters) = run(EncodeStage::new(Cpu), in_batches(frames, frames));
    assert_eq!(expected.iter().map(Block::first).collect::<Vec<_>>(), [0, 1024, 2048]);
    assert_eq!(expected.iter().map(Block::positions).collect::<Vec<_>>(), [1024, 1024, 77]);
    assert_eq!(counters.frames.load(Relaxed), frames);
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for size in [1, 7, 512, frames] {
            let (blocks, ..) = pool.install(|| run(EncodeStage::new(Cpu), in_batches(frames, size)));
            assert!(blocks == expected, "batches of {size}, {threads} threads");
        }
    }
}

#[test]
fn what_is_shown_has_the_frames_so_far_and_leaves_no_trace_in_whole_blocks() {
    let frames = 2 * INTERVAL as u64 + 77;
    let (expected, ..) = run(EncodeStage::new(Cpu), in_batches(frames, frames));
    for seed in 0..3 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let stage = EncodeStage::new(Cpu).showing(Showing { first: Duration::ZERO, every: Duration::ZERO });
        let counters = stage.counters();
        let (batches, batches_in) = crossbeam_channel::unbounded();
        let (blocks, blocks_in) = crossbeam_channel::unbounded();
        let running = std::thread::spawn(move || stage.run(batches_in, blocks));
        let (mut at, mut whole, mut shown) = (0, Vec::new(), 0);
        while at < frames {
            let size = random.random_range(1..300).min(frames - at);
            batches.send(batch(at, size)).unwrap();
            at += size;
            // somebody looks, now and then, until everything that came is to be seen
            let mut seen = if random.random_bool(0.5) { 0 } else { at };
            while seen < at {
                let block = match blocks_in.recv().unwrap() {
                    Item::Data(Encoded::Whole(block)) => {
                        whole.push(block.clone());
                        block
                    }
                    Item::Data(Encoded::SoFar(block)) => {
                        let alone =
                            run(EncodeStage::new(Cpu), [batch(block.first(), block.positions() as u64)]);
                        assert!(alone.0 == std::slice::from_ref(&block));
                        shown += 1;
                        block
                    }
                    Item::Gap(gap) => panic!("{gap:?}"),
                };
                seen = block.first() + block.positions() as u64;
            }
        }
        drop(batches);
        running.join().unwrap().unwrap();
        let rest: Vec<Encoded> = blocks_in
            .iter()
            .filter_map(|item| if let Item::Data(sent) = item { Some(sent) } else { None })
            .collect();
        let sent = shown + rest.iter().filter(|sent| matches!(sent, Encoded::SoFar(_))).count();
        whole.extend(rest.into_iter().filter_map(Encoded::whole));
        assert!(whole == expected && shown > 0, "seed {seed}");
        assert_eq!(counters.shown.load(Relaxed), sent as u64);
        assert_eq!((counters.blocks.load(Relaxed), counters.frames.load(Relaxed)), (3, frames));
    }
}

#[test]
fn counts_and_sums_of_a_block_are_those_of_its_frames() {
    let (blocks, ..) = run(EncodeStage::new(Cpu), in_batches(1100, 100));
    let block = &blocks[1];
    let mut counts = vec![0_u16; block.positions() * DETECTOR.pixels()];
    Cpu.decode_positions(block.counts(), 0..block.positions(), &mut counts).unwrap();
    let mut pixel_sums = vec![0_u64; DETECTOR.pixels()];
    for (position, counts) in counts.chunks(DETECTOR.pixels()).enumerate() {
        let expected = frame(block.first() + position as u64);
        assert_eq!(counts, expected);
        let total: u64 = expected.iter().map(|&count| u64::from(count)).sum();
        assert_eq!(block.totals()[position], total);
        pixel_sums.iter_mut().zip(&expected).for_each(|(sum, &count)| *sum += u64::from(count));
        for size in [crate::TileSize::Small, crate::TileSize::Large] {
            let (rows, cols) = size.tiles(DETECTOR);
            for tile in 0..rows * cols {
                let (row, col) = (tile / cols, tile % cols);
                let inside = |pixel: usize| {
                    pixel / DETECTOR.cols / size.side() == row && pixel % DETECTOR.cols / size.side() == col
                };
                let expected: u64 = (expected.iter().enumerate())
                    .filter(|(pixel, _)| inside(*pixel))
                    .map(|(_, &count)| u64::from(count))
                    .sum();
                let mut got = Vec::new();
                block.tiles().for_each(size, row, col, position..position + 1, |sum| got.push(sum));
                assert_eq!(got, [expected]);
            }
        }
    }
    assert_eq!(block.pixel_sums().to_vec(), pixel_sums);
    let marked = block.pixel_sums().marked();
    assert_eq!(marked, [crate::MarkerHits { pixel: 7, hits: 76 }]);
}

#[test]
fn a_gap_is_a_hole_and_is_passed_on() {
    let items = [batch(0, 10), gap(10, 5), batch(15, 5), gap(20, 1024), batch(1044, 6)];
    let (blocks, gaps, counters) = run(EncodeStage::new(Cpu), items);
    assert_eq!(gaps.iter().map(|gap| (gap.first, gap.count)).collect::<Vec<_>>(), [(10, 5), (20, 1024)]);
    assert_eq!(counters.frames_missing.load(Relaxed), 1029);
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0].positions(), 1024);
    assert_eq!(blocks[0].coverage().present().collect::<Vec<_>>(), (0..10).chain(15..20).collect::<Vec<_>>());
    assert_eq!((blocks[1].first(), blocks[1].positions()), (1024, 26));
    assert_eq!(blocks[1].coverage().present().collect::<Vec<_>>(), (20..26).collect::<Vec<_>>());
}

#[test]
fn blocks_that_are_missing_altogether_are_gaps_only() {
    let items = [batch(5, 1), gap(6, u64::MAX - 6)];
    let (blocks, gaps, _) = run(EncodeStage::new(Cpu), items);
    assert_eq!((blocks.len(), gaps.len()), (1, 1));
    let (blocks, gaps, _) = run(EncodeStage::new(Cpu), [gap(0, 3000), batch(5000, 1)]);
    assert_eq!((blocks.len(), gaps.len()), (1, 1));
    assert_eq!((blocks[0].first(), blocks[0].positions()), (4096, 905));
}

#[test]
fn repeated_and_late_frames_are_dropped_and_counted() {
    let items = [batch(0, 100), batch(90, 20), batch(1024, 1), batch(500, 600), batch(1000, 3)];
    let (blocks, gaps, counters) = run(EncodeStage::new(Cpu), items);
    assert_eq!(counters.frames_repeated.load(Relaxed), 10 + 1);
    assert_eq!(counters.frames_late.load(Relaxed), 524 + 3);
    assert_eq!(gaps.iter().map(|gap| (gap.first, gap.count)).collect::<Vec<_>>(), [(500, 524), (1000, 3)]);
    assert_eq!(blocks[0].coverage().count(), 110);
    assert_eq!(blocks[1].coverage().present().collect::<Vec<_>>(), (0..76).collect::<Vec<_>>());
    assert_eq!(counters.frames.load(Relaxed), 186);
}

#[test]
fn a_scan_of_known_length_ends_its_last_block_there() {
    let stage = || EncodeStage::new(Cpu).with_positions(1500);
    let (blocks, ..) = run(stage(), in_batches(1400, 300));
    assert_eq!(blocks[1].positions(), 476);
    assert_eq!(blocks[1].coverage().count(), 376);

    // the last block comes while the input is still open
    let (batches, batches_in) = crossbeam_channel::unbounded();
    let (blocks, blocks_in) = crossbeam_channel::unbounded();
    let running = std::thread::spawn(move || stage().run(batches_in, blocks));
    in_batches(1500, 500).for_each(|item| batches.send(item).unwrap());
    let firsts: Vec<u64> = blocks_in
        .iter()
        .take(2)
        .map(|item| match item {
            Item::Data(Encoded::Whole(block)) => block.first(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(firsts, [0, 1024]);
    drop(batches);
    running.join().unwrap().unwrap();
}

#[test]
fn frames_of_another_detector_are_refused_by_name() {
    let (batches, batches_in) = crossbeam_channel::unbounded();
    let (blocks, _blocks_in) = crossbeam_channel::unbounded();
    let detector = DetectorShape { rows: 2, cols: 2 };
    let other = FrameBatch::<Cpu> {
        first: 3,
        shape: BatchShape { frames: 1, detector },
        counts: CountBuffer::U16(vec![0; 4]),
    };
    batches.send(batch(0, 3)).unwrap();
    batches.send(Item::Data(other)).unwrap();
    drop(batches);
    let error = EncodeStage::new(Cpu).run(batches_in, blocks).unwrap_err().to_string();
    assert_eq!(error, "frames from 3: got frames of 2x2, expected 18x21 like those before");
}

#[test]
fn the_stage_stops_in_order_when_nobody_listens() {
    let (batches, batches_in) = crossbeam_channel::unbounded();
    let (blocks, blocks_in) = crossbeam_channel::unbounded();
    drop(blocks_in);
    batches.send(batch(0, 1024)).unwrap();
    EncodeStage::new(Cpu).run(batches_in, blocks).unwrap();
}
