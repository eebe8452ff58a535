//! The `.npy` format, version 1.0 (numpy.lib.format): exact values, C order.

use num_complex::{Complex32, Complex64};

use crate::room::room_for;

/// A type numpy can hold.
pub trait NpyElement: bytemuck::Pod {
    /// Kind and bytes, as in numpy's `descr` without the byte order: `f4`, `u8` (u64), `c8` (complex64).
    const KIND: &'static str;
}

impl NpyElement for f32 {
    const KIND: &'static str = "f4";
}
impl NpyElement for f64 {
    const KIND: &'static str = "f8";
}
impl NpyElement for u32 {
    const KIND: &'static str = "u4";
}
impl NpyElement for u64 {
    const KIND: &'static str = "u8";
}
impl NpyElement for Complex32 {
    const KIND: &'static str = "c8";
}
impl NpyElement for Complex64 {
    const KIND: &'static str = "c16";
}

/// The bytes of an `.npy` file holding `values`, row-major, of the given shape.
///
/// # Errors
/// The memory for them cannot be had.
///
/// # Panics
/// When the shape does not have as many elements as `values`.
pub fn npy_bytes<T: NpyElement>(values: &[T], shape: &[usize]) -> anyhow::Result<Vec<u8>> {
    assert_eq!(values.len(), shape.iter().product::<usize>(), "one value an element of {shape:?}");
    let order = if cfg!(target_endian = "little") { '<' } else { '>' };
    let lengths: String = shape.iter().map(|length| format!("{length}, ")).collect();
    let mut header =
        format!("{{'descr': '{order}{}', 'fortran_order': False, 'shape': ({lengths}), }}", T::KIND);
    // Magic (6), version (2), header length (2), header, newline: together a multiple of 64.
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header.extend(std::iter::repeat_n(' ', padded - header.len() - 1));
    header.push('\n');
    let header_len = u16::try_from(header.len()).expect("a header of a few lengths is short");
    let mut bytes = room_for(10 + header.len() + size_of_val(values), "an .npy file")?;
    bytes.extend_from_slice(b"\x93NUMPY\x01\x00");
    bytes.extend_from_slice(&header_len.to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(bytemuck::cast_slice(values));
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_numpy_writes() {
        let bytes = npy_bytes(&[1u64, 2, 3, u64::MAX, 5, 6], &[2, 3]).unwrap();
        assert_eq!(bytes.len(), 128 + 6 * 8);
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let header = std::str::from_utf8(&bytes[10..128]).unwrap();
        assert!(
            header.starts_with("{'descr': '<u8', 'fortran_order': False, 'shape': (2, 3, ), }"),
            "{header}"
        );
        assert!(header.ends_with(" \n"));
        assert_eq!(&bytes[128 + 24..128 + 32], &[0xff; 8]);
    }

    #[test]
    fn one_axis_no_element_and_complex_values_are_fine() {
        assert!(npy_bytes::<f32>(&[], &[0, 4]).unwrap().len().is_multiple_of(64));
        assert_eq!(npy_bytes(&[Complex32::new(1.0, -2.0)], &[1]).unwrap().len() % 64, 8);
        let text = String::from_utf8_lossy(&npy_bytes(&[0.5f64; 3], &[3]).unwrap()).into_owned();
        assert!(text.contains("'<f8'") && text.contains("(3, )"), "{text}");
    }
}
