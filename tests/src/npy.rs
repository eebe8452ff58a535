//! A reader of numpy's `.npy` files, as much of it as the goldens need: little-endian numbers in C order.

use std::path::Path;

use num_complex::Complex64;

/// An array read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Npy {
    /// Lengths along the axes.
    pub shape: Vec<usize>,
    /// numpy's name of the type, for example `<f8`.
    pub descr: String,
    data: Vec<u8>,
}

/// What is wrong with a file.
#[derive(Debug)]
pub struct NpyError(pub String);

impl std::fmt::Display for NpyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NpyError {}

fn wrong(what: impl Into<String>) -> NpyError {
    NpyError(what.into())
}

impl Npy {
    /// Reads a file.
    ///
    /// # Errors
    /// [`NpyError`] with the path when it cannot be read or is no `.npy` file of the kind described above.
    pub fn read(path: &Path) -> Result<Self, NpyError> {
        let bytes = std::fs::read(path).map_err(|error| wrong(format!("{}: {error}", path.display())))?;
        Self::parse(&bytes).map_err(|error| wrong(format!("{}: {error}", path.display())))
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`NpyError`] when they are no `.npy` file of the kind described above.
    pub fn parse(bytes: &[u8]) -> Result<Self, NpyError> {
        let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(|| wrong("no \\x93NUMPY at the start"))?;
        let (len_bytes, rest) = match rest {
            [1, _, rest @ ..] => (2, rest),
            [2 | 3, _, rest @ ..] => (4, rest),
            _ => return Err(wrong("unknown version")),
        };
        let (len, rest) = rest.split_at_checked(len_bytes).ok_or_else(|| wrong("cut short in the header"))?;
        let len = len.iter().rev().fold(0usize, |len, &byte| len << 8 | usize::from(byte));
        let (header, data) = rest.split_at_checked(len).ok_or_else(|| wrong("cut short in the header"))?;
        let header = std::str::from_utf8(header).map_err(|_| wrong("header is not text"))?;
        if !header.contains("'fortran_order': False") {
            return Err(wrong("not in C order"));
        }
        let descr = between(header, "'descr': '", "'")?.to_owned();
        let shape = between(header, "'shape': (", ")")?
            .split(',')
            .map(str::trim)
            .filter(|len| !len.is_empty())
            .map(|len| len.parse().map_err(|_| wrong(format!("length '{len}'"))))
            .collect::<Result<Vec<usize>, _>>()?;
        let item: usize = descr.get(2..).and_then(|size| size.parse().ok()).ok_or_else(|| wrong(&*descr))?;
        let expected = shape.iter().try_fold(item, |bytes, &len| bytes.checked_mul(len));
        if expected != Some(data.len()) {
            return Err(wrong(format!("{} bytes for {descr} {shape:?}", data.len())));
        }
        Ok(Self { shape, descr, data: data.to_vec() })
    }

    /// The values as float64; integers beyond 2^53 are refused.
    ///
    /// # Errors
    /// [`NpyError`] for a type that is not real or an integer that float64 cannot hold.
    pub fn reals(&self) -> Result<Vec<f64>, NpyError> {
        match self.descr.as_str() {
            "<f8" => Ok(self.items().map(f64::from_le_bytes).collect()),
            "<f4" => Ok(self.items().map(|item| f32::from_le_bytes(item).into()).collect()),
            _ => {
                let to_f64 = |value: i128| match value.unsigned_abs() <= 1 << 53 {
                    true => Ok(value as f64),
                    false => Err(wrong(format!("{value} has no float64"))),
                };
                self.integers()?.into_iter().map(to_f64).collect()
            }
        }
    }

    /// The values as integers; booleans are 0 and 1.
    ///
    /// # Errors
    /// [`NpyError`] for a type that is no integer.
    pub fn integers(&self) -> Result<Vec<i128>, NpyError> {
        Ok(match self.descr.as_str() {
            "|b1" | "|u1" => self.data.iter().map(|&byte| byte.into()).collect(),
            "<u2" => self.items().map(|item| u16::from_le_bytes(item).into()).collect(),
            "<u4" => self.items().map(|item| u32::from_le_bytes(item).into()).collect(),
            "<u8" => self.items().map(|item| u64::from_le_bytes(item).into()).collect(),
            "<i4" => self.items().map(|item| i32::from_le_bytes(item).into()).collect(),
            "<i8" => self.items().map(|item| i64::from_le_bytes(item).into()).collect(),
            other => return Err(wrong(format!("{other} is no integer type known here"))),
        })
    }

    /// The values as complex128.
    ///
    /// # Errors
    /// [`NpyError`] for any other type.
    pub fn complex(&self) -> Result<Vec<Complex64>, NpyError> {
        if self.descr != "<c16" {
            return Err(wrong(format!("{} is not <c16", self.descr)));
        }
        let parts: Vec<f64> = self.items().map(f64::from_le_bytes).collect();
        Ok(parts.chunks_exact(2).map(|parts| Complex64::new(parts[0], parts[1])).collect())
    }

    fn items<const BYTES: usize>(&self) -> impl Iterator<Item = [u8; BYTES]> + '_ {
        self.data.as_chunks::<BYTES>().0.iter().copied()
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Result<&'a str, NpyError> {
    let missing = || wrong(format!("no {before}...{after} in the header"));
    let (_, rest) = text.split_once(before).ok_or_else(missing)?;
    Ok(rest.split_once(after).ok_or_else(missing)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn arrays_come_back_with_their_shape() {
        let bytes = file("<u2", "(2, 1)", &[1, 0, 0, 1]);
        let array = Npy::parse(&bytes).unwrap();
        assert_eq!((array.shape.clone(), array.integers().unwrap()), (vec![2, 1], vec![1, 256]));
        assert_eq!(array.reals().unwrap(), [1.0, 256.0]);
        let complex: Vec<u8> = [0.5f64, -2.0].iter().flat_map(|part| part.to_le_bytes()).collect();
        let array = Npy::parse(&file("<c16", "(1,)", &complex)).unwrap();
        assert_eq!(array.complex().unwrap(), [Complex64::new(0.5, -2.0)]);
    }

    #[test]
    fn a_file_cut_short_anywhere_is_refused() {
        let bytes = file("<f8", "(2,)", &[0; 16]);
        assert!(Npy::parse(&bytes).is_ok());
        for len in 0..bytes.len() {
            assert!(Npy::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
