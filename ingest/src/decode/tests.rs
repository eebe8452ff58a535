use crossbeam_channel::unbounded;
use kernels::Cpu;
use kernels::bslz4_decode::Encoding;
use kernels::types::{CountBuffer, CountType, DetectorShape, FrameBatch};

use super::*;

const DETECTOR: DetectorShape = DetectorShape { rows: 2, cols: 3 };

/// Raw u16 frames, frame n filled with n; a frame listed in `short` lacks its last byte.
fn batch(first: u64, frames: u64, short: &[u64]) -> RawBatch {
    let mut bytes = Vec::new();
    let mut ranges = Vec::new();
    for frame in first..first + frames {
        let start = bytes.len();
        bytes.extend((0..6).flat_map(|_| (frame as u16).to_le_bytes()));
        ranges.push(start..bytes.len() - usize::from(short.contains(&frame)));
    }
    RawBatch::new(first, Encoding::Raw, CountType::U16, DETECTOR, bytes, ranges)
}

fn decoded(items: Vec<Item<RawBatch>>) -> (Vec<String>, Arc<IngestCounters>) {
    let (raw, raw_in) = unbounded();
    let (frames, frames_out) = unbounded::<Item<FrameBatch<Cpu>>>();
    items.into_iter().for_each(|item| raw.send(item).unwrap());
    drop(raw);
    let counters = Arc::new(IngestCounters::default());
    DecodeStage::new(Cpu, counters.clone()).run(raw_in, frames).unwrap();
    let seen = frames_out
        .iter()
        .map(|item| match item {
            Item::Gap(gap) => format!("gap {}+{}", gap.first, gap.count),
            Item::Data(batch) => {
                let CountBuffer::U16(counts) = batch.counts else { panic!("u16 frames stay u16") };
                for (at, frame) in counts.chunks(6).enumerate() {
                    assert_eq!(frame, [(batch.first + at as u64) as u16; 6]);
                }
                format!("frames {}+{}", batch.first, batch.shape.frames)
            }
        })
        .collect();
    (seen, counters)
}

#[test]
fn a_corrupt_frame_becomes_a_gap_and_its_neighbours_go_on() {
    let (seen, counters) = decoded(vec![Item::Data(batch(10, 5, &[12])), Item::Data(batch(15, 2, &[]))]);
    assert_eq!(seen, ["frames 10+2", "gap 12+1", "frames 13+2", "frames 15+2"]);
    assert_eq!((counters.frames_decoded.get(), counters.frames_corrupt.get()), (6, 1));
}

#[test]
fn a_batch_of_nothing_but_corrupt_frames_is_all_gaps() {
    let (seen, _) = decoded(vec![Item::Data(batch(0, 2, &[0, 1]))]);
    assert_eq!(seen, ["gap 0+1", "gap 1+1"]);
}

#[test]
fn the_reason_names_the_frame_and_its_bytes() {
    let stage = DecodeStage::<FrameBatch<Cpu>>::new(Cpu, Arc::default());
    let items = stage.decode(&batch(7, 1, &[7])).unwrap();
    let Item::Gap(gap) = &items[0] else { panic!("a short frame is a gap") };
    let text = gap.reason.to_string();
    assert!(text.contains("frame 7") && text.contains("11 bytes"), "{text}");
}
