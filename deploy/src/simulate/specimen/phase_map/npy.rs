//! A phase map as numpy writes it.

use std::io::Read;

use anyhow::{Context, bail, ensure};

use super::{PhaseMap, check_pixels};
use crate::room::room_for;

/// Most bytes of the text that describes the array; numpy itself reads no more than 10000.
const MOST_HEADER_BYTES: usize = 1 << 16;

/// Numbers read at once.
const AT_ONCE: usize = 1 << 13;

/// Reads a file of `file_bytes`: numpy.lib.format versions 1 to 3, f4 or f8, little-endian, C order, two axes. Memory is
/// asked for once the header and the length of the file agree.
pub(super) fn read(mut file: impl Read, file_bytes: u64) -> anyhow::Result<PhaseMap> {
    let short = "the .npy header is cut short";
    let mut start = [0; 8];
    file.read_exact(&mut start).context(short)?;
    ensure!(start.starts_with(b"\x93NUMPY"), "is no .npy file");
    let length_bytes = if start[6] == 1 { 2 } else { 4 };
    let mut length = [0; 4];
    file.read_exact(&mut length[..length_bytes]).context(short)?;
    let length = u32::from_le_bytes(length) as usize;
    ensure!(
        length <= MOST_HEADER_BYTES,
        "got a .npy header of {length} bytes, expected at most {MOST_HEADER_BYTES}"
    );
    let mut header = vec![0; length];
    file.read_exact(&mut header).context(short)?;
    let header = std::str::from_utf8(&header).context("the .npy header is no text")?;
    let (rows, cols, width) = described(header)?;
    check_pixels(rows, cols)?;
    let numbers = rows * cols;
    let got = file_bytes.saturating_sub((start.len() + length_bytes + length) as u64);
    let expected = (numbers * width) as u64;
    ensure!(got == expected, "got {got} bytes of phase, expected {expected}");

    let number = |part: &[u8]| match part {
        &[a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
        part => part.try_into().map_or(f64::NAN, f64::from_le_bytes),
    };
    let mut phase_rad = room_for(numbers, "the phase map")?;
    let mut bytes = vec![0; AT_ONCE * width];
    while phase_rad.len() < numbers {
        let part = &mut bytes[..(numbers - phase_rad.len()).min(AT_ONCE) * width];
        file.read_exact(part).context("the phases are cut short")?;
        phase_rad.extend(part.chunks_exact(width).map(number));
    }
    Ok(PhaseMap { rows, cols, phase_rad })
}

/// Rows, columns, and bytes of a number.
fn described(header: &str) -> anyhow::Result<(usize, usize, usize)> {
    let width = match header {
        _ if header.contains("'<f4'") => 4,
        _ if header.contains("'<f8'") => 8,
        _ => bail!("got {}, expected f4 or f8, little-endian", header.trim_end()),
    };
    ensure!(header.contains("'fortran_order': False"), "got column-major order, expected row-major");
    let shape = header.split_once("'shape':").and_then(|(_, rest)| rest.split_once('(')?.1.split_once(')'));
    let shape: Vec<usize> = shape
        .map(|(inside, _)| inside.split(',').filter_map(|part| part.trim().parse().ok()).collect())
        .unwrap_or_default();
    let &[rows, cols] = shape.as_slice() else { bail!("got {} axes, expected 2", shape.len()) };
    Ok((rows, cols, width))
}
