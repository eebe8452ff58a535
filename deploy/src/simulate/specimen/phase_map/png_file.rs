//! A phase map as a grey picture.

use std::io::{BufRead, Seek};

use anyhow::{Context, bail, ensure};
use png::{BitDepth, ColorType, Decoder, Limits};

use super::{PhaseMap, check_pixels};
use crate::room::{filled, gathered};

/// Bytes a file may have beyond twice its pixels', for what stands beside them: colour profiles, words.
const BYTES_BESIDE: u64 = 16 << 20;

/// Memory the decoder may take beyond one row.
const DECODER_BYTES: usize = 1 << 20;

/// Reads a picture of `file_bytes`, grey without alpha, 8 or 16 bits: black is 0, white `white_rad`. Memory is asked for
/// once the header was found to be sound.
pub(super) fn read(file: impl BufRead + Seek, file_bytes: u64, white_rad: f64) -> anyhow::Result<PhaseMap> {
    let mut decoder = Decoder::new(file);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let header = decoder.read_header_info().context("is no PNG")?;
    let (rows, cols) = (header.height as usize, header.width as usize);
    let bytes = match (header.color_type, header.bit_depth) {
        (ColorType::Grayscale, BitDepth::Eight) => 1,
        (ColorType::Grayscale, BitDepth::Sixteen) => 2,
        (colour, depth) => {
            bail!("got a {colour:?} picture of {depth:?} bits, expected grey without alpha, 8 or 16 bits")
        }
    };
    check_pixels(rows, cols)?;
    let most = 2 * (rows * cols * bytes) as u64 + BYTES_BESIDE;
    ensure!(
        file_bytes <= most,
        "got a file of {file_bytes} bytes, expected at most {most} for {rows} x {cols} pixels"
    );
    decoder.set_limits(Limits { bytes: cols * bytes + DECODER_BYTES });
    let mut reader = decoder.read_info().context("the picture is damaged")?;
    let size = reader.output_buffer_size().context("the picture is too large")?;
    let mut pixels = filled(0, size, "the picture")?;
    let info = reader.next_frame(&mut pixels).context("the picture is damaged")?;
    pixels.truncate(info.buffer_size());
    let phase_rad = match bytes {
        1 => gathered(pixels.iter().map(|&grey| f64::from(grey) / 255.0 * white_rad), "the phase map"),
        _ => {
            let greys = pixels.chunks_exact(2).map(|grey| u16::from_be_bytes([grey[0], grey[1]]));
            gathered(greys.map(|grey| f64::from(grey) / 65_535.0 * white_rad), "the phase map")
        }
    }?;
    Ok(PhaseMap { rows, cols, phase_rad })
}
