//! Frames that are not bitshuffled, and the other types of counts.

use kernels::types::{CountBuffer, CountType};

use super::*;

/// Framed LZ4 in blocks of 256 bytes, every other one stored as it is.
fn framed(raw: &[u8]) -> Vec<u8> {
    let mut chunk = (raw.len() as u64).to_be_bytes().to_vec();
    chunk.extend(256_u32.to_be_bytes());
    for (number, block) in raw.chunks(256).enumerate() {
        let packed = match number % 2 {
            0 => lz4_flex::block::compress(block),
            _ => block.to_vec(),
        };
        chunk.extend((packed.len() as u32).to_be_bytes());
        chunk.extend(packed);
    }
    chunk
}

/// An LZ4 block of literals and one short match, exactly as long as what it holds.
fn as_long_as_raw() -> (Vec<u8>, Vec<u8>) {
    // 1023 bytes of literals need a token and 4 more of length; a match of 5 and literals of 5 behind take 1 + 2 + 1.
    for literals in 0..1024_usize {
        for length in 4..=18_usize {
            let Some(tail) = 1024_usize.checked_sub(literals + length).filter(|tail| (5..15).contains(tail))
            else {
                continue;
            };
            let mut block = vec![(15 << 4) | (length - 4) as u8];
            let mut more = literals - 15;
            while more >= 255 {
                block.push(255);
                more -= 255;
            }
            block.push(more as u8);
            let text: Vec<u8> = (0..literals).map(|at| (at * at % 251) as u8).collect();
            block.extend(&text);
            block.extend([1, 0]); // one byte back
            block.push((tail as u8) << 4);
            block.extend(vec![9; tail]);
            let mut raw = text;
            raw.extend(vec![raw[literals - 1]; length]);
            raw.extend(vec![9; tail]);
            if block.len() == 1024 {
                return (block, raw);
            }
        }
    }
    panic!("there is none");
}

const READ: &str = r#"
import sys, numpy as np, h5py, hdf5plugin
master, kind, expected = sys.argv[1:]
with h5py.File(master, "r") as h:
    frames = np.concatenate([h["entry/data"][key][...] for key in sorted(h["entry/data"])])
    data = h["entry/data/data_000001"]
    filters = data.id.get_create_plist()
    ids = [filters.get_filter(n)[0] for n in range(filters.get_nfilters())]
    assert ids == {"raw": [], "lz4": [32004], "bslz4": [32008]}[kind], ids
    assert (frames == np.fromfile(expected, frames.dtype).reshape(frames.shape)).all()
    said = h["entry/instrument/detector/detectorSpecific/compression"][()].decode()
    assert said == {"raw": "none"}.get(kind, kind), said
"#;

#[test]
fn frames_that_are_not_bitshuffled_are_exported_as_they_came() {
    let raw =
        |number: u64| -> Vec<u8> { counts(number).iter().flat_map(|count| count.to_le_bytes()).collect() };
    for (version, encoding, kind) in [
        (Version::V1, Encoding::Raw, "raw"),
        (Version::V2, Encoding::Raw, "raw"),
        (Version::V1, Encoding::Lz4Block, "lz4"),
        (Version::V2, Encoding::Lz4Framed, "lz4"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let facts = SeriesFacts { encoding, ..facts(4, 9) };
        let pack = |raw: &[u8]| match encoding {
            Encoding::Raw => raw.to_vec(),
            Encoding::Lz4Block => lz4_flex::block::compress(raw),
            _ => framed(raw),
        };
        let (long, held) = as_long_as_raw();
        let (long, held) =
            if encoding == Encoding::Lz4Block { (long, held) } else { (pack(&raw(2)), raw(2)) };
        let mut messages = vec![facts.start(version)];
        for number in 0..8 {
            let bytes = if number == 2 { long.clone() } else { pack(&raw(number)) };
            if number != 5 {
                messages.push(facts.image(version, number, &bytes));
            }
        }
        // one that is bitshuffled among them does not belong
        messages.push(SeriesFacts { encoding: Encoding::Bslz4, ..facts.clone() }.image(
            version,
            8,
            &chunk(8),
        ));
        let log = log_of(dir.path(), &messages);
        for missing in [MissingFrames::Hole, MissingFrames::Zeros] {
            let settings = ExportSettings { missing, ..ExportSettings::new(format!("{missing:?}")) };
            let summary = export_series(&log, &key(&facts, version), dir.path(), &settings).unwrap();
            assert_eq!((summary.frames, summary.unfit, &summary.missing[..]), (7, 1, &[5..6, 8..9][..]));
            let set = FileSet::open(&summary.set.master).unwrap();
            assert_eq!(set.encoding, summary.encoding);
            let (came, _) = decoded(&set);
            let mut expected: Vec<u8> = Vec::new();
            for (number, came) in (0..9).zip(came) {
                let is_there = ![5, 8].contains(&number);
                let frame = match number {
                    2 => held.clone(),
                    5 | 8 => vec![0; 1024],
                    _ => raw(number),
                };
                let bytes = came.map(|counts| counts.iter().flat_map(|count| count.to_le_bytes()).collect());
                let is_given = is_there || missing == MissingFrames::Zeros;
                assert_eq!(bytes, is_given.then(|| frame.clone()), "{version} {encoding} frame {number}");
                expected.extend(frame);
            }
            let path = dir.path().join("expected");
            std::fs::write(&path, expected).unwrap();
            python(READ, &[summary.set.master.to_str().unwrap(), kind, path.to_str().unwrap()]);
        }
    }
}

#[test]
fn counts_of_one_and_four_bytes_are_exported_too() {
    for (count_type, bytes) in [(CountType::U8, 1), (CountType::U32, 4)] {
        let dir = tempfile::tempdir().unwrap();
        let facts = SeriesFacts { count_type, ..facts(4, 3) };
        let mut chunk = Vec::new();
        let values: Vec<u32> = counts(1).into_iter().map(|count| u32::from(count) % 251).collect();
        match count_type {
            CountType::U8 => {
                encode_bslz4(&values.iter().map(|&value| value as u8).collect::<Vec<_>>(), &mut chunk)
            }
            _ => encode_bslz4(&values, &mut chunk),
        }
        let log = log_of(dir.path(), &[facts.start(Version::V1), facts.image(Version::V1, 1, &chunk)]);
        let settings = ExportSettings { missing: MissingFrames::Zeros, ..ExportSettings::new("set") };
        let summary = export_series(&log, &key(&facts, Version::V1), dir.path(), &settings).unwrap();
        let frames = [vec![0; 512], values, vec![0; 512]].concat();
        let expected: Vec<u8> =
            frames.iter().flat_map(|value| value.to_le_bytes()[..bytes].to_vec()).collect();
        let path = dir.path().join("expected");
        std::fs::write(&path, expected).unwrap();
        python(READ, &[summary.set.master.to_str().unwrap(), "bslz4", path.to_str().unwrap()]);
        let (raw, raw_in) = bounded(100);
        let (batches, batches_in) = bounded(100);
        let set = FileSet::open(&summary.set.master).unwrap();
        FileSource::new(set.runs(), 1, Arc::default()).run(raw);
        DecodeStage::<FrameBatch<Cpu>>::new(Cpu, Arc::default()).run(raw_in, batches).unwrap();
        let mut came: Vec<u32> = Vec::new();
        for item in batches_in {
            let Item::Data(batch) = item else { panic!("{item:?}") };
            match &batch.counts {
                CountBuffer::U8(counts) => came.extend(counts.iter().map(|&count| u32::from(count))),
                CountBuffer::U32(counts) => came.extend(counts.iter()),
                CountBuffer::U16(_) => panic!("counts of two bytes"),
            }
        }
        assert!(came == frames);
    }
}
