//! Any bytes on the wire, through the ZMTP reader, the parsers of both versions of the stream and the reader of a series: no
//! panic, no memory by say-so, and every frame number handed on once, in order, as a frame or as a gap.
//!
//! The first two bytes choose the version, how the wire cuts the bytes, and the size of the slabs; then either the bytes behind
//! them as they are, or a sound series with the changes that those bytes say, four bytes a change.

#![no_main]

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use ingest::raw::RawBatch;
use ingest::stream::compose::{SeriesFacts, Version};
use ingest::stream::message::parse;
use ingest::stream::over::Over;
use ingest::stream::series::{SeriesReader, SeriesSettings};
use ingest::stream::slab::Slab;
use ingest::stream::zmtp::{Filled, PullReader};
use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape, Item};
use libfuzzer_sys::fuzz_target;

const NUM_FRAMES: u64 = 40;

struct Wire(VecDeque<u8>, usize);

impl Read for Wire {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.0.len().min(out.len()).min(self.1);
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        out.iter_mut().zip(self.0.drain(..len)).for_each(|(out, byte)| *out = byte);
        Ok(len)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn greeting() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    (bytes[0], bytes[8], bytes[9], bytes[10]) = (0xff, 1, 0x7f, 3);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes.extend_from_slice(b"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH");
    bytes
}

fn sound(version: Version) -> Vec<u8> {
    let facts = SeriesFacts {
        id: 3,
        unique_id: "01KB0000000000000000000003".to_owned(),
        num_images: NUM_FRAMES,
        detector: DetectorShape { rows: 8, cols: 8 },
        count_type: CountType::U16,
        encoding: Encoding::Bslz4,
        incident_energy_ev: 2e5,
        frame_time_s: 1e-4,
    };
    let images = (0..NUM_FRAMES).map(|number| facts.image(version, number, &[number as u8; 20]));
    let messages = [facts.start(version)].into_iter().chain(images).chain([facts.end(version)]);
    messages.flat_map(|message| message.bytes().to_vec()).collect()
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, cut], rest)) = data.split_first_chunk::<2>() else { return };
    let mut bytes = match choice & 3 {
        0 => rest.to_vec(),
        1 => sound(Version::V1),
        _ => sound(Version::V2),
    };
    if choice & 3 != 0 {
        for &[low, high, kind, value] in rest.as_chunks::<4>().0.iter().take(64) {
            let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len().max(1);
            match kind % 4 {
                _ if bytes.is_empty() => {}
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value & 7),
                2 => {
                    let piece = bytes[at..bytes.len().min(at + usize::from(value))].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => drop(bytes.drain(at..bytes.len().min(at + usize::from(value)))),
            }
        }
    }
    let slab_bytes = [16, 64, 1000, 1 << 16][usize::from(choice >> 6)];
    let mut wire: VecDeque<u8> = greeting().into();
    wire.extend(bytes);
    let wire = Wire(wire, 1 + usize::from(cut) * usize::from(cut));
    let mut reader = PullReader::connect(wire, 1 << 17).expect("a sound handshake");
    let (mut slab, mut next) = (Slab::new(slab_bytes), Slab::new(slab_bytes));
    let mut series = SeriesReader::new(SeriesSettings::new(NUM_FRAMES), Over::default());
    let (now, mut due) = (Instant::now(), 0);
    let mut hand_on = |item: Item<RawBatch>| {
        let (first, count) = match item {
            Item::Data(batch) => (batch.first, batch.num_frames() as u64),
            Item::Gap(gap) => (gap.first, gap.count),
        };
        assert_eq!(first, due, "frames and gaps follow each other");
        assert!(count > 0);
        due = first + count;
    };
    let mut is_over = false;
    let mut read = |slab: &Slab| {
        for parts in slab.messages() {
            if let Ok(message) = parse(parts)
                && !is_over
            {
                is_over = series.take(&message, now, &mut hand_on).is_some();
            }
        }
    };
    loop {
        if reader.wants_slab(&slab) {
            reader.change_slab(&mut slab, &mut next);
            read(&slab);
            std::mem::swap(&mut slab, &mut next);
            assert!(slab.capacity() <= 1 << 18, "memory by say-so");
        }
        match reader.fill(&mut slab) {
            Ok(Filled::Bytes(_)) => {}
            Ok(Filled::Nothing) | Err(_) => break,
        }
    }
    read(&slab);
    if !is_over && series.key().is_some() {
        let ending = series.look(now + Duration::from_secs(60), &mut hand_on);
        assert!(ending.is_some());
        is_over = true;
    }
    assert!(!is_over || due == NUM_FRAMES, "{due} frames accounted for");
});
