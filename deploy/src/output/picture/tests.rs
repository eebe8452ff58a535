use std::io::Cursor;

use kernels::types::{DetectorShape, Nanometres, ScanShape};

use super::*;
use crate::output::{Quantity, Values};

struct Read {
    width: usize,
    rgb: Vec<u8>,
    texts: Vec<(String, String)>,
}

fn read(bytes: Vec<u8>) -> Read {
    let mut reader = png::Decoder::new(Cursor::new(bytes)).read_info().unwrap();
    let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut rgb).unwrap();
    let info = reader.info();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    let texts =
        info.uncompressed_latin1_text.iter().map(|text| (text.keyword.clone(), text.text.clone())).collect();
    Read { width: info.width as usize, rgb, texts }
}

fn phase(rows: usize, cols: usize, values: Vec<f32>) -> Image {
    let scan = ScanShape { rows, cols };
    Image::over_scan(Quantity::Phase, scan, [Nanometres(0.016); 2], Values::F32(values)).unwrap()
}

#[test]
fn a_small_image_is_magnified_by_a_whole_number_and_keeps_every_value_in_place() {
    // Columns of constant value: any horizontal line through the upper part of the image shows all of them in order.
    let values = (0..64 * 64).map(|pixel| (pixel % 64) as f32).collect();
    let picture = read(picture_png(&phase(64, 64, values)).unwrap());
    let row = 100;
    let line: Vec<[u8; 3]> = picture.rgb[row * picture.width * 3..(row + 1) * picture.width * 3]
        .chunks_exact(3)
        .map(|rgb| [rgb[0], rgb[1], rgb[2]])
        .collect();
    let margin = line.iter().position(|rgb| *rgb != [255; 3]).unwrap();
    for col in 0..64 {
        let expected = ColourMap::Magma.colour(f64::from(col) / 63.0);
        for step in 0..8 {
            assert_eq!(line[margin + col as usize * 8 + step], expected, "col {col} step {step}");
        }
    }
}

#[test]
fn the_text_chunks_name_the_colour_map_the_limits_and_the_unit() {
    let picture = read(picture_png(&phase(2, 2, vec![-0.25, 0.0, 0.0, 0.5])).unwrap());
    let said = |keyword: &str| picture.texts.iter().find(|(key, _)| key == keyword).unwrap().1.clone();
    assert_eq!(said("Colour map"), "magma");
    assert!(said("Limits").starts_with("-0.25 to 0.5 rad"), "{}", said("Limits"));
    assert!(said("Pixel size").contains("0.016 nm"));
    assert!(said("Software").starts_with("sideband "));
}

#[test]
fn what_is_no_number_is_hatched_in_grey() {
    let mut values = vec![0.0; 64];
    values[9] = f32::NAN;
    let greys = |values| {
        let picture = read(picture_png(&phase(8, 8, values)).unwrap());
        picture.rgb.chunks_exact(3).filter(|rgb| *rgb == [150; 3] || *rgb == [205; 3]).count()
    };
    assert!(greys(values) >= 64 * 64);
    assert!(greys(vec![0.0; 64]) < 200);
}

/// A series of unknown shape is one row as long as it has frames: its picture took 2 kB a frame, 20 GB for ten million.
#[test]
fn a_row_of_a_million_positions_is_shown_in_part() {
    let values = vec![0.25; 1_000_000];
    let bytes = picture_png(&phase(1, 1_000_000, values)).unwrap();
    let at = |from: usize| u32::from_be_bytes(bytes[from..from + 4].try_into().unwrap());
    assert!((16_000..17_000).contains(&at(16)) && at(20) < 1000, "{} x {}", at(16), at(20));
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("one of 62 shown"));
}

#[test]
fn any_shape_and_any_values_give_a_picture() {
    for (rows, cols) in [(1, 1), (1, 700), (700, 1), (3, 2), (600, 500)] {
        for value in [0.0, f32::NAN, f32::INFINITY, 1e30, -1e-30] {
            assert!(picture_png(&phase(rows, cols, vec![value; rows * cols])).is_ok());
        }
    }
    let detector = DetectorShape { rows: 2, cols: 2 };
    let counts = Values::U64(vec![u64::MAX, 0, 1, 2]);
    let image = Image::over_detector(Quantity::DetectorTotal, detector, None, counts).unwrap();
    assert!(picture_png(&image).is_ok());
}

#[test]
fn numbers_are_written_short() {
    for (value, text) in [
        (0.0, "0"),
        (0.5, "0.5"),
        (-0.123_456, "-0.123"),
        (95.312, "95.3"),
        (1500.0, "1500"),
        (20.0, "20"),
        (1.0, "1"),
        (2.5e7, "2.50e7"),
        (1e-5, "1.00e-5"),
    ] {
        assert_eq!(number(value), text);
    }
}

#[test]
fn a_position_without_a_frame_is_hatched_whatever_its_value_and_sets_no_limit() {
    let counts = (0..64).map(|at| if (8..16).contains(&at) { 0 } else { 1000 + at }).collect();
    let scan = ScanShape { rows: 8, cols: 8 };
    let image =
        Image::over_scan(Quantity::FrameSum, scan, [Nanometres(0.016); 2], Values::U64(counts)).unwrap();
    let greys = |picture: &Read| picture.rgb.chunks_exact(3).filter(|rgb| *rgb == [150; 3]).count();
    let whole = read(picture_png(&image).unwrap());
    let gapped = read(picture_png(&image.clone().with_missing(&[8..12, 12..16])).unwrap());
    // Half the stripes of a row of eight squares, 64 pixels a side.
    assert!(greys(&gapped) > greys(&whole) + 8 * 64 * 64 / 3, "{} {}", greys(&gapped), greys(&whole));
    let said = |picture: &Read, keyword: &str| {
        picture.texts.iter().find(|(key, _)| key == keyword).map(|(_, text)| text.clone())
    };
    assert_eq!(said(&gapped, "Hatched").unwrap(), "hatched: 8 positions missing");
    assert!(said(&gapped, "Limits").unwrap().starts_with("1000 to 1063 counts"));
    assert_eq!(said(&whole, "Hatched"), None);
    assert_eq!(image.clone().with_missing(&[8..12, 12..16]).npy().unwrap(), image.npy().unwrap());
    assert!(picture_png(&image.with_missing(&[60..64, 64..99])).is_ok());
}
