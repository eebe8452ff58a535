use std::io::Cursor;

use super::*;

fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn grey_png(cols: u32, rows: u32, depth: png::BitDepth, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, cols, rows);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(data).unwrap();
    bytes
}

fn read_npy(bytes: &[u8]) -> anyhow::Result<PhaseMap> {
    npy::read(bytes, bytes.len() as u64)
}

fn read_png(bytes: &[u8], white_rad: f64) -> anyhow::Result<PhaseMap> {
    png_file::read(Cursor::new(bytes), bytes.len() as u64, white_rad)
}

/// What is said of a file of these bytes.
fn refused(name: &str, bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let error = format!("{:#}", read_phase_map(&path, 0.5).unwrap_err());
    assert!(error.starts_with(path.to_str().unwrap()), "{error}");
    error
}

#[test]
fn an_npy_map_is_read_and_every_cut_of_it_is_refused() {
    let data: Vec<u8> = [0.0_f32, 0.5, 1.0, -1.0, 2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let whole = npy("<f4", "2, 3", &data);
    let map = read_npy(&whole).unwrap();
    assert_eq!((map.rows, map.cols), (2, 3));
    assert_eq!(map.phase_rad, [0.0, 0.5, 1.0, -1.0, 2.0, 3.0]);
    for length in 0..whole.len() {
        assert!(read_npy(&whole[..length]).is_err(), "{length}");
    }
    for (kind, shape) in
        [("<i4", "2, 3"), ("<f4", "6,"), ("<f4", "99999999999, 99999999999"), ("<f4", "0, 3")]
    {
        assert!(read_npy(&npy(kind, shape, &data)).is_err(), "{kind} {shape}");
    }
}

#[test]
fn numbers_are_read_in_parts_that_join() {
    let numbers: Vec<f64> = (0..3 * 10_000).map(|number| f64::from(number) / 100.0).collect();
    let data: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(read_npy(&npy("<f8", "3, 10000", &data)).unwrap().phase_rad, numbers);
}

/// A header once sized an allocation, and a file was read whole before its header was looked at.
#[test]
fn a_header_that_promises_more_than_the_file_holds_asks_for_no_memory() {
    let refused = refused("map.npy", &npy("<f8", "16384, 16384", &[0; 24]));
    assert!(refused.contains("got 24 bytes of phase, expected 2147483648"), "{refused}");
    let mut long = b"\x93NUMPY\x02\x00".to_vec();
    long.extend(u32::MAX.to_le_bytes());
    let refused = read_npy(&long).unwrap_err().to_string();
    assert_eq!(refused, "got a .npy header of 4294967295 bytes, expected at most 65536");
}

#[test]
fn a_png_spans_zero_to_the_largest_phase() {
    let bytes = grey_png(2, 1, png::BitDepth::Sixteen, &[0, 0, 255, 255]);
    assert_eq!(read_png(&bytes, 0.7).unwrap().phase_rad, [0.0, 0.7]);
    assert!(read_png(&bytes[..30], 0.7).is_err());
    assert_eq!(
        read_png(&grey_png(1, 2, png::BitDepth::Eight, &[255, 0]), -0.7).unwrap().phase_rad,
        [-0.7, 0.0]
    );
}

#[test]
fn a_png_of_absurd_size_or_length_is_refused_by_its_header() {
    let mut bytes = grey_png(2, 1, png::BitDepth::Eight, &[0, 255]);
    let padded = png_file::read(Cursor::new(&bytes), 1 << 30, 0.7).unwrap_err().to_string();
    assert_eq!(padded, "got a file of 1073741824 bytes, expected at most 16777220 for 1 x 2 pixels");
    // Width and height stand behind the signature and the name of the first chunk; its checksum behind 13 bytes of data.
    bytes[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let checksum = checksum(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    let refused = refused("map.png", &bytes);
    assert!(refused.contains("got 2147483647 x 2147483647 pixels, expected 1 to 268435456"), "{refused}");
}

/// The CRC-32 of PNG chunks, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    let of_byte = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (sum & 1).wrapping_neg() & 0xedb8_8320)
    };
    !bytes.iter().fold(u32::MAX, of_byte)
}

#[test]
fn a_phase_no_specimen_has_is_refused_with_its_place() {
    for (absurd, said) in [
        (f64::NAN, "NaN rad"),
        (f64::INFINITY, "inf rad"),
        (f64::NEG_INFINITY, "-inf rad"),
        (1e30, "1e30 rad"),
        (-1000.1, "-1.0001e3 rad"),
    ] {
        let data: Vec<u8> =
            [0.0, 1000.0, -1000.0, 0.5, absurd, f64::NAN].iter().flat_map(|x| x.to_le_bytes()).collect();
        let refused = refused("map.npy", &npy("<f8", "2, 3", &data));
        assert!(refused.contains("row 1, column 1") && refused.contains(said), "{refused}");
        assert!(refused.contains("expected 1000 rad at most"), "{refused}");
    }
}

#[test]
fn one_pixel_or_one_value_is_a_phase_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    for (shape, numbers) in [("1, 1", 1), ("3, 2", 6), ("1, 5", 5), ("5, 1", 5)] {
        let path = dir.path().join("map.npy");
        std::fs::write(&path, npy("<f4", shape, &0.25_f32.to_le_bytes().repeat(numbers))).unwrap();
        let smooth = read_phase_map(&path, 0.5).unwrap().smooth(1e-9);
        for place in [-1.0, -1.3e-9, 0.0, 0.2e-9, 1.0] {
            assert!((smooth(place, -place) - 0.25).abs() < 1e-12, "{shape} at {place}");
        }
    }
}

#[test]
fn the_phase_between_pixels_follows_a_slope_exactly() {
    let phase_rad = (0..7 * 5).map(|index| (index / 5) as f64 * 0.1 + (index % 5) as f64 * 0.01).collect();
    let smooth = PhaseMap { rows: 7, cols: 5, phase_rad }.smooth(2.0);
    assert!((smooth(0.0, 0.0) - 0.32).abs() < 1e-12);
    assert!((smooth(1.3, -0.7) - (0.32 + 0.065 - 0.0035)).abs() < 1e-12);
    assert!((smooth(1e3, 1e3) - 0.64).abs() < 1e-12, "the edge is carried on");
}
