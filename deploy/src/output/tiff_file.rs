//! 32-bit float TIFF with the pixel size where ImageJ and tifffile look for it.

use std::io::Cursor;

use tiff::encoder::{Rational, TiffEncoder, colortype};
use tiff::tags::{ResolutionUnit, Tag};

use super::{Image, Values};
use crate::room::{gathered, room_for};

/// The largest integer below which a 32-bit float holds every integer.
const EXACT_BELOW: u64 = 1 << 24;

/// The bytes of a TIFF file: one page, 32-bit float, ImageJ description (unit, range, quantity), resolution tags in
/// pixels a unit. Counts above 2^24 are rounded here, and the description says so; the `.npy` is exact.
///
/// # Errors
/// The image is larger than a TIFF can be (4 GiB), or the memory for it cannot be had.
pub fn tiff_bytes(image: &Image) -> anyhow::Result<Vec<u8>> {
    let [rows, cols] = image.shape();
    let (pixel_size, unit) = image.axes().pixel_size();
    let values = as_f32(image.values())?;
    let mut bytes = Cursor::new(room_for(values.len() * 4 + 1024, "a .tiff file")?);
    let mut encoder = TiffEncoder::new(&mut bytes)?;
    let mut page = encoder.new_image::<colortype::Gray32Float>(u32::try_from(cols)?, u32::try_from(rows)?)?;
    page.resolution_unit(ResolutionUnit::None);
    page.x_resolution(rational(1.0 / pixel_size[1]));
    page.y_resolution(rational(1.0 / pixel_size[0]));
    page.encoder().write_tag(Tag::Software, concat!("sideband ", env!("CARGO_PKG_VERSION")))?;
    page.encoder().write_tag(Tag::ImageDescription, description(image, &values, unit).as_str())?;
    page.write_data(&values)?;
    Ok(bytes.into_inner())
}

/// ImageJ reads `key=value` lines after a first line that names ImageJ.
fn description(image: &Image, values: &[f32], unit: &str) -> String {
    let quantity = image.quantity();
    let [row_axis, col_axis] = image.axes().names();
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let mut lines =
        vec!["ImageJ=1.54".to_owned(), "images=1".to_owned(), format!("unit={}", imagej_unit(unit))];
    if let (Some(min), Some(max)) = (finite().reduce(f32::min), finite().reduce(f32::max)) {
        lines.push(format!("min={min}"));
        lines.push(format!("max={max}"));
    }
    lines.push(format!("quantity={} [{}]", quantity.title(), quantity.unit()));
    lines.push(format!("axes={row_axis} {col_axis}"));
    lines.push(format!("dtype of {}.npy={}", quantity.stem(), image.values().dtype()));
    if let Values::U64(counts) = image.values() {
        let rounded = counts.iter().filter(|&&count| count > EXACT_BELOW).count();
        if rounded > 0 {
            lines.push(format!(
                "precision={rounded} values above 2^24 are rounded to 32-bit float; {}.npy is exact",
                quantity.stem()
            ));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn imagej_unit(unit: &str) -> &str {
    if unit == "px" { "pixel" } else { unit }
}

fn as_f32(values: &Values) -> anyhow::Result<Vec<f32>> {
    let what = "the values of a .tiff file";
    match values {
        Values::F32(values) => gathered(values.iter().copied(), what),
        Values::F64(values) => gathered(values.iter().map(|&value| value as f32), what),
        Values::U64(values) => gathered(values.iter().map(|&value| value as f32), what),
    }
}

/// A positive number as a fraction of 32-bit integers, to six digits or better.
fn rational(value: f64) -> Rational {
    if !(value.is_finite() && value > 0.0) {
        return Rational { n: 0, d: 1 };
    }
    let mut d = 1_000_000u32;
    while value * f64::from(d) > f64::from(u32::MAX) && d > 1 {
        d /= 10;
    }
    let n = (value * f64::from(d)).round().clamp(1.0, f64::from(u32::MAX));
    Rational { n: n as u32, d }
}

#[cfg(test)]
mod tests {
    use kernels::types::{DetectorShape, Milliradians, Nanometres, ScanShape};
    use tiff::decoder::{Decoder, DecodingResult};

    use super::super::Quantity;
    use super::*;

    fn read(bytes: Vec<u8>) -> (Vec<f32>, (u32, u32), String, [f64; 2]) {
        let mut decoder = Decoder::new(Cursor::new(bytes)).unwrap();
        let size = decoder.dimensions().unwrap();
        let text = decoder.get_tag_ascii_string(Tag::ImageDescription).unwrap();
        let resolution = [Tag::XResolution, Tag::YResolution].map(|tag| {
            let fraction = decoder.get_tag_u32_vec(tag);
            match fraction {
                Ok(fraction) => f64::from(fraction[0]) / f64::from(fraction[1]),
                Err(_) => match decoder.get_tag(tag).unwrap() {
                    tiff::decoder::ifd::Value::Rational(n, d) => f64::from(n) / f64::from(d),
                    other => panic!("{other:?}"),
                },
            }
        });
        let DecodingResult::F32(values) = decoder.read_image().unwrap() else { panic!("not 32-bit float") };
        (values, size, text, resolution)
    }

    #[test]
    fn values_and_pixel_size_come_back() {
        let values: Vec<f32> = (0..6).map(|value| value as f32 * 0.1 - 0.2).collect();
        let step = [Nanometres(0.016), Nanometres(0.02)];
        let scan = ScanShape { rows: 2, cols: 3 };
        let image = Image::over_scan(Quantity::Phase, scan, step, Values::F32(values.clone())).unwrap();
        let (read_values, size, text, resolution) = read(tiff_bytes(&image).unwrap());
        assert_eq!((read_values, size), (values, (3, 2)));
        assert!(text.starts_with("ImageJ=") && text.contains("\nunit=nm\n"), "{text}");
        assert!(text.contains("\nmin=-0.2\n") && text.contains("rad"), "{text}");
        assert!((resolution[0] - 50.0).abs() < 1e-6 && (resolution[1] - 62.5).abs() < 1e-6, "{resolution:?}");
    }

    #[test]
    fn counts_beyond_single_precision_are_declared() {
        let detector = DetectorShape { rows: 1, cols: 2 };
        let of = |counts: Vec<u64>| {
            let sampling = Some([Milliradians(0.6); 2]);
            let image =
                Image::over_detector(Quantity::DetectorTotal, detector, sampling, Values::U64(counts));
            read(tiff_bytes(&image.unwrap()).unwrap()).2
        };
        assert!(of(vec![1, EXACT_BELOW + 1]).contains("1 values above 2^24"));
        assert!(!of(vec![1, EXACT_BELOW]).contains("precision"));
        assert!(of(vec![1, 2]).contains("unit=mrad"));
    }

    #[test]
    fn a_fraction_keeps_six_digits_over_the_range_of_pixel_sizes() {
        for value in [1e-3, 0.5, 62.5, 1.0 / 0.6, 4294.0, 1e5, 1e9] {
            let Rational { n, d } = rational(value);
            assert!((f64::from(n) / f64::from(d) / value - 1.0).abs() < 1e-3, "{value}");
        }
        assert_eq!(rational(f64::NAN).n, 0);
    }
}
