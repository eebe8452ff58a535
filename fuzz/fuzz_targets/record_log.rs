//! Any bytes as a segment of a recording, through the reader, the list of series and the export: no panic, no memory by
//! say-so, and every byte of the file is a record's or is reported as damaged.
//!
//! The first byte chooses: the bytes behind it as they are, or a sound segment with the changes that they say, four bytes a
//! change, its checksums mended or not.

#![no_main]

#[path = "../../ingest/tests/support/recording.rs"]
mod recording;

use std::path::Path;
use std::sync::LazyLock;

use ingest::record::{ExportSettings, LogReader};
use ingest::record::{export_series, list_series};
use ingest::stream::compose::{SeriesFacts, Version};
use kernels::bslz4_decode::Encoding;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{CountType, DetectorShape};
use libfuzzer_sys::fuzz_target;
use recording::recorded;

const HEAD_BYTES: usize = 64;

/// A folder of this process, in memory where the system has such a place.
fn folder(name: &str) -> std::path::PathBuf {
    let shared = Path::new("/dev/shm");
    let base = if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() };
    base.join(format!("sideband-fuzz-{name}-{}", std::process::id()))
}

/// A segment with a series of each version of the stream, as a recorder writes it.
static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut messages = Vec::new();
    for (id, version) in [(3, Version::V1), (4, Version::V2)] {
        let facts = SeriesFacts {
            id,
            unique_id: format!("{id:026}"),
            num_images: 6,
            detector: DetectorShape { rows: 8, cols: 8 },
            count_type: CountType::U16,
            encoding: Encoding::Bslz4,
            incident_energy_ev: 2e5,
            frame_time_s: 1e-4,
        };
        messages.push(facts.start(version));
        for number in 0..6 {
            let mut chunk = Vec::new();
            encode_bslz4(&[number as u16; 64], &mut chunk);
            messages.push(facts.image(version, number, &chunk));
        }
        messages.push(facts.end(version));
    }
    let folder = folder("sound");
    recorded(&folder, &messages);
    let bytes = std::fs::read(folder.join("00000000.sbl")).expect("a segment");
    let _ = std::fs::remove_dir_all(folder);
    bytes
});

/// Gives every head in `bytes` the checksums of what it announces.
fn mend(bytes: &mut [u8]) {
    let mut at = HEAD_BYTES;
    while let Some(head) = bytes.get(at..at + HEAD_BYTES) {
        let announced = u64::from_le_bytes(head[8..16].try_into().expect("eight bytes"));
        let payload = at + HEAD_BYTES;
        let end = usize::try_from(announced).ok().and_then(|announced| payload.checked_add(announced));
        let end = end.filter(|&end| end <= bytes.len());
        let sum = crc32fast::hash(&bytes[payload..end.unwrap_or(payload)]);
        bytes[at + 56..at + 60].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32fast::hash(&bytes[at..at + 60]);
        bytes[at + 60..at + 64].copy_from_slice(&sum.to_le_bytes());
        let Some(end) = end else { return };
        at = end;
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let mut bytes = rest.to_vec();
    if choice & 3 != 0 {
        bytes.clone_from(&SOUND);
        for &[low, high, kind, value] in rest.as_chunks::<4>().0.iter().take(32) {
            let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len().max(1);
            let until = bytes.len().min(at + usize::from(value));
            match kind % 4 {
                _ if bytes.is_empty() => {}
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value & 7),
                2 => drop(bytes.splice(at..at, bytes[at..until].to_vec())),
                _ => drop(bytes.drain(at..until)),
            }
        }
        if choice & 2 != 0 {
            mend(&mut bytes);
        }
    }
    let folder = folder("log");
    let _ = std::fs::create_dir_all(&folder);
    std::fs::write(folder.join("00000000.sbl"), &bytes).expect("room");
    let mut reader = LogReader::open(&folder).expect("a folder");
    let (mut parts_bytes, mut heads_bytes) = (0, 0);
    while let Some(record) = reader.next_record().expect("a file that can be read") {
        let parts: u64 = record.parts().map(|part| 8 + part.len() as u64).sum();
        assert_eq!(parts + HEAD_BYTES as u64, record.place.bytes);
        parts_bytes += parts;
        heads_bytes += HEAD_BYTES as u64;
    }
    let report = reader.into_report();
    assert_eq!(report.bytes, parts_bytes + heads_bytes);
    let damaged: u64 = report.damages.iter().map(|damage| damage.bytes).sum();
    assert!(report.bytes + damaged <= bytes.len() as u64);
    if report.num_damages == 0 && report.holes.is_empty() && report.records > 0 {
        assert_eq!(report.bytes + HEAD_BYTES as u64, bytes.len() as u64, "bytes passed over without a word");
    }
    let (series, _) = list_series(&folder).expect("a file that can be read");
    if let Some(series) = series.first() {
        // refused or written
        let _ = export_series(&folder, &series.log_key(), &folder.join("out"), &ExportSettings::new("set"));
    }
    let _ = std::fs::remove_dir_all(folder);
});
