//! A phase given as a picture: `.npy` in radians, or a grey PNG from 0 to a largest phase.

use std::path::Path;

use anyhow::{Context, bail, ensure};

use super::SmoothPhase;

/// A phase on square pixels, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::simulate) struct PhaseMap {
    pub(in crate::simulate) rows: usize,
    pub(in crate::simulate) cols: usize,
    pub(in crate::simulate) phase_rad: Vec<f64>,
}

/// Most pixels of a map.
const MOST_PIXELS: usize = 1 << 28;

/// Reads a map by the ending of its name; a PNG's full scale becomes `white_rad`.
///
/// # Errors
/// The file and what is wrong with it.
pub(in crate::simulate) fn read_phase_map(path: &Path, white_rad: f64) -> anyhow::Result<PhaseMap> {
    let bytes = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let read =
        match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("npy") => read_npy(&bytes),
            Some("png") => read_png(&bytes, white_rad),
            _ => Err(anyhow::anyhow!("expected a name that ends in .npy or .png")),
        };
    let map = read.with_context(|| format!("{}", path.display()))?;
    ensure!(
        map.phase_rad.iter().all(|phase| phase.is_finite()),
        "{}: holds phases that are not finite",
        path.display()
    );
    Ok(map)
}

/// numpy.lib.format versions 1 to 3, f4 or f8, little-endian, C order, two axes.
fn read_npy(bytes: &[u8]) -> anyhow::Result<PhaseMap> {
    ensure!(bytes.starts_with(b"\x93NUMPY"), "is no .npy file");
    let short = "the .npy header is cut short";
    let (length_bytes, start): (usize, usize) = if bytes.get(6) == Some(&1) { (2, 10) } else { (4, 12) };
    let length = bytes.get(8..8 + length_bytes).context(short)?;
    let length = length.iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
    let header = bytes.get(start..start.saturating_add(length)).context(short)?;
    let header = std::str::from_utf8(header).context("the .npy header is no text")?;
    let wide = match header {
        _ if header.contains("'<f4'") => 4,
        _ if header.contains("'<f8'") => 8,
        _ => bail!("got {header}, expected f4 or f8, little-endian"),
    };
    ensure!(header.contains("'fortran_order': False"), "got column-major order, expected row-major");
    let shape = header.split_once("'shape':").and_then(|(_, rest)| rest.split_once('(')?.1.split_once(')'));
    let shape: Vec<usize> = shape
        .map(|(inside, _)| inside.split(',').filter_map(|part| part.trim().parse().ok()).collect())
        .unwrap_or_default();
    let &[rows, cols] = shape.as_slice() else { bail!("got {} axes, expected 2", shape.len()) };
    check_pixels(rows, cols)?;
    let data = &bytes[start + length..];
    ensure!(
        data.len() == rows * cols * wide,
        "got {} bytes of phase, expected {}",
        data.len(),
        rows * cols * wide
    );
    let number = |part: &[u8]| match part {
        &[a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
        part => part.try_into().map_or(f64::NAN, f64::from_le_bytes),
    };
    Ok(PhaseMap { rows, cols, phase_rad: data.chunks_exact(wide).map(number).collect() })
}

fn read_png(bytes: &[u8], white_rad: f64) -> anyhow::Result<PhaseMap> {
    let decoder = png::Decoder::new(std::io::Cursor::new(bytes));
    let mut reader = decoder.read_info().context("is no PNG")?;
    let (rows, cols) = (reader.info().height as usize, reader.info().width as usize);
    check_pixels(rows, cols)?;
    let size = reader.output_buffer_size().context("the picture is too large")?;
    let mut pixels = vec![0; size];
    let info = reader.next_frame(&mut pixels).context("the picture is damaged")?;
    pixels.truncate(info.buffer_size());
    let grey: Vec<f64> = match (info.color_type, info.bit_depth) {
        (png::ColorType::Grayscale, png::BitDepth::Eight) => {
            pixels.iter().map(|&grey| f64::from(grey) / 255.0).collect()
        }
        (png::ColorType::Grayscale, png::BitDepth::Sixteen) => pixels
            .chunks_exact(2)
            .map(|grey| f64::from(u16::from_be_bytes([grey[0], grey[1]])) / 65_535.0)
            .collect(),
        (colour, depth) => {
            bail!("got a {colour:?} picture of {depth:?} bits, expected grey without alpha, 8 or 16 bits")
        }
    };
    Ok(PhaseMap { rows, cols, phase_rad: grey.into_iter().map(|grey| grey * white_rad).collect() })
}

fn check_pixels(rows: usize, cols: usize) -> anyhow::Result<()> {
    let pixels = rows.saturating_mul(cols);
    ensure!(
        (1..=MOST_PIXELS).contains(&pixels),
        "got {rows} x {cols} pixels, expected 1 to {MOST_PIXELS} in all"
    );
    Ok(())
}

impl PhaseMap {
    /// The map as a smooth phase: its middle in the middle of the scan, pixels `pixel_m` wide, cubic (Catmull-Rom)
    /// between them, its edge carried on outwards.
    pub(in crate::simulate) fn smooth(self, pixel_m: f64) -> SmoothPhase {
        Box::new(move |row_m, col_m| {
            let (row, row_weights) = taps(row_m / pixel_m + (self.rows as f64 - 1.0) / 2.0);
            let (col, col_weights) = taps(col_m / pixel_m + (self.cols as f64 - 1.0) / 2.0);
            let mut phase = 0.0;
            for (row_tap, row_weight) in row_weights.into_iter().enumerate() {
                for (col_tap, col_weight) in col_weights.into_iter().enumerate() {
                    let at_row = (row + row_tap as i64).clamp(0, self.rows as i64 - 1) as usize;
                    let at_col = (col + col_tap as i64).clamp(0, self.cols as i64 - 1) as usize;
                    phase += row_weight * col_weight * self.phase_rad[at_row * self.cols + at_col];
                }
            }
            phase
        })
    }
}

/// First of four pixels, and their weights.
fn taps(position: f64) -> (i64, [f64; 4]) {
    let floor = position.floor();
    let t = position - floor;
    let weights = [
        0.5 * (-t + 2.0 * t * t - t * t * t),
        0.5 * (2.0 - 5.0 * t * t + 3.0 * t * t * t),
        0.5 * (t + 4.0 * t * t - 3.0 * t * t * t),
        0.5 * (-t * t + t * t * t),
    ];
    (floor as i64 - 1, weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn an_npy_map_is_read_and_every_cut_of_it_is_refused() {
        let data: Vec<u8> =
            [0.0_f32, 0.5, 1.0, -1.0, 2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
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
    fn a_png_spans_zero_to_the_largest_phase() {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 2, 1);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Sixteen);
        encoder.write_header().unwrap().write_image_data(&[0, 0, 255, 255]).unwrap();
        assert_eq!(read_png(&bytes, 0.7).unwrap().phase_rad, [0.0, 0.7]);
        assert!(read_png(&bytes[..30], 0.7).is_err());
    }

    #[test]
    fn the_phase_between_pixels_follows_a_slope_exactly() {
        let phase_rad =
            (0..7 * 5).map(|index| (index / 5) as f64 * 0.1 + (index % 5) as f64 * 0.01).collect();
        let smooth = PhaseMap { rows: 7, cols: 5, phase_rad }.smooth(2.0);
        assert!((smooth(0.0, 0.0) - 0.32).abs() < 1e-12);
        assert!((smooth(1.3, -0.7) - (0.32 + 0.065 - 0.0035)).abs() < 1e-12);
        assert!((smooth(1e3, 1e3) - 0.64).abs() < 1e-12, "the edge is carried on");
    }
}
