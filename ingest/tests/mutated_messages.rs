//! A million messages that something is wrong with, through the parsers of both streams and the reader of series: no panic,
//! and memory stays what a frame takes.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

#[path = "support/counting.rs"]
mod counting;
#[path = "support/random.rs"]
mod random;

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use ingest::stream::compose::{SeriesFacts, Version};
use ingest::stream::message::parse;
use ingest::stream::over::Over;
use ingest::stream::series::{SeriesReader, SeriesSettings};
use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};

use counting::{MOST, NOW};
use random::Random;

/// Messages of each version.
const MESSAGES: u64 = 500_000;
/// Most bytes there may be beyond those at the start.
const MOST_BYTES: usize = 32 << 20;

/// Does something to the parts of a message.
fn mutate(parts: &mut Vec<Vec<u8>>, random: &mut Random) {
    for _ in 0..=random.next(6) {
        if parts.is_empty() {
            return;
        }
        let part = random.next(parts.len());
        let len = parts[part].len();
        let at = random.next(len);
        match random.next(9) {
            0 if len > 0 => parts[part][at] ^= 1 << random.next(8),
            1 if len > 0 => parts[part][at] = random.next(256) as u8,
            2 => parts[part].truncate(at),
            3 => parts[part].insert(at, random.next(256) as u8),
            4 if len > 0 => drop(parts[part].remove(at)),
            5 => {
                let end = at + random.next(len - at + 1);
                let again = parts[part][at..end].to_vec();
                parts[part].splice(at..at, again);
            }
            6 => drop(parts.remove(part)),
            7 => {
                let tail = parts[part].split_off(at);
                parts.insert(part + 1, tail);
            }
            // lengths and numbers that are as large as can be
            _ if len > 9 => {
                parts[part][at.min(len - 9)..][..9].fill([0x1b, 0xff, b'9', 0x5b][random.next(4)])
            }
            _ => {}
        }
    }
}

#[test]
fn a_million_mutated_messages_neither_panic_nor_take_memory() {
    let mut random = Random(2026);
    let mut understood = 0_u64;
    let start = NOW.load(Relaxed);
    for version in [Version::V1, Version::V2] {
        let facts = SeriesFacts {
            id: 3,
            unique_id: "01HAVE26CHARACTERSATLEAST0".to_owned(),
            num_images: 1 << 20,
            detector: DetectorShape { rows: 8, cols: 16 },
            count_type: CountType::U16,
            encoding: Encoding::Bslz4,
            incident_energy_ev: 300_000.0,
            frame_time_s: 1e-5,
        };
        let mut reader = SeriesReader::new(SeriesSettings::new(1 << 20), Over::default());
        let mut now = Instant::now();
        for number in 0..MESSAGES {
            let message = match random.next(20) {
                0 => facts.start(version),
                1 => facts.end(version),
                _ => facts.image(version, number, &[number as u8; 90]),
            };
            let mut parts: Vec<Vec<u8>> = message.parts().map(<[u8]>::to_vec).collect();
            mutate(&mut parts, &mut random);
            if let Ok(message) = parse(parts.iter().map(Vec::as_slice)) {
                understood += 1;
                now += Duration::from_micros(1);
                let ended = reader.take(&message, now, |_| ());
                if ended.is_some() {
                    reader = SeriesReader::new(SeriesSettings::new(1 << 20), Over::default());
                }
            }
            if number % 128 == 0 && reader.look(now, |_| ()).is_some() {
                reader = SeriesReader::new(SeriesSettings::new(1 << 20), Over::default());
            }
        }
        let most = MOST.load(Relaxed) - start;
        assert!(most < MOST_BYTES, "{version:?}: {most} bytes");
    }
    // what was changed harmlessly is understood: the parsers were not turned away at the first byte
    assert!((MESSAGES / 20..MESSAGES * 2).contains(&understood), "{understood}");
}
