use kernels::bslz4_decode::Encoding;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{CountType, DetectorShape};

use super::*;
use crate::filewriter::{Existing, FilewriterSet, FilewriterSettings, MasterMetadata};
use crate::hdf5::Checksums;

const MASK: &str = "/entry/instrument/detector/detectorSpecific/pixel_mask";

/// What is read of a sound master after `change` was made to its bytes, given where the mask's extents stand.
fn read_changed(change: impl Fn(&mut [u8], usize)) -> Metadata {
    let folder = tempfile::tempdir().unwrap();
    let settings = FilewriterSettings {
        name: "a".to_owned(),
        detector: DetectorShape { rows: 6, cols: 18 },
        count_type: CountType::U16,
        encoding: Encoding::Bslz4,
        images_per_file: 10,
        existing: Existing::Refuse,
        metadata: MasterMetadata { pixel_mask: vec![1; 6 * 18], ..MasterMetadata::default() },
    };
    let mut files = FilewriterSet::create(folder.path(), settings).unwrap();
    let mut chunk = Vec::new();
    encode_bslz4(&[0_u16; 6 * 18], &mut chunk);
    files.append_chunk(&chunk).unwrap();
    files.finish().unwrap();
    let master = folder.path().join("a_master.h5");
    let mut bytes = std::fs::read(&master).unwrap();
    let extents = [6_u64.to_le_bytes(), 18_u64.to_le_bytes()].concat();
    let at = bytes.windows(16).position(|window| window == extents).unwrap();
    change(&mut bytes, at);
    std::fs::write(&master, bytes).unwrap();
    Metadata::read(&File::open_with(&master, Checksums::Ignore).unwrap())
}

#[test]
fn a_pixel_mask_of_the_type_and_rank_of_one_is_read() {
    let metadata = read_changed(|_, _| ());
    assert_eq!(metadata.pixel_mask, Some(([6, 18], vec![1; 6 * 18])));
    assert_eq!(metadata.unreadable, [""; 0]);
}

#[test]
fn a_pixel_mask_of_text_is_named_as_unreadable() {
    let metadata = read_changed(|bytes, extents| {
        let integer = [0x10, 0, 0, 0, 4, 0, 0, 0];
        let datatype = bytes[extents..].windows(8).position(|window| window == integer).unwrap();
        bytes[extents + datatype] = 0x13; // text of four bytes an element
    });
    assert_eq!(metadata.pixel_mask, None);
    let expected = format!("{MASK}: text of shape [6, 18], expected whole numbers, rows x cols");
    assert_eq!(metadata.unreadable, [expected]);
}

#[test]
fn a_pixel_mask_of_one_axis_is_named_as_unreadable() {
    let metadata = read_changed(|bytes, extents| {
        // Version, rank, flags and type stand before the extents.
        assert_eq!(bytes[extents - 4..extents - 2], [2, 2]);
        bytes[extents - 3] = 1;
    });
    assert_eq!(metadata.pixel_mask, None);
    let expected = format!("{MASK}: whole numbers of shape [6], expected whole numbers, rows x cols");
    assert_eq!(metadata.unreadable, [expected]);
}
