//! The two checksums of the format.

use super::error::Hdf5Error;

/// Bob Jenkins' "lookup3" hash (2006, public domain; `hashlittle` with initial value 0), the checksum of every
/// version 2 structure of the format (HDF5 file format specification 3.0; burtleburtle.net/bob/c/lookup3.c).
pub(crate) fn lookup3(bytes: &[u8]) -> u32 {
    let seed = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (seed, seed, seed);
    if bytes.is_empty() {
        return c;
    }
    // All whole triples of words but the last; the last 1 to 12 bytes take part zero-padded, with another mix.
    let (body, tail) = bytes.split_at((bytes.len() - 1) / 12 * 12);
    for triple in body.chunks_exact(12) {
        let [x, y, z] = words(triple);
        (a, b, c) = (a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z));
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
    }
    let [x, y, z] = words(tail);
    (a, b, c) = (a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// Up to 12 bytes as three little-endian words, zero-padded.
fn words(bytes: &[u8]) -> [u32; 3] {
    let mut padded = [0u8; 12];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    let [a, b, c, d, e, f, g, h, i, j, k, l] = padded;
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]), u32::from_le_bytes([i, j, k, l])]
}

/// Checks that the last four bytes are the checksum of those before.
pub(super) fn checked(what: &'static str, address: u64, bytes: &[u8]) -> Result<(), Hdf5Error> {
    let (body, stored) = bytes.split_at(bytes.len().saturating_sub(4));
    let stored = stored.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
    let computed = lookup3(body);
    if bytes.len() >= 4 && stored == computed {
        return Ok(());
    }
    let why = format!("got checksum {stored:08x}, its bytes give {computed:08x}");
    Err(Hdf5Error::Damaged { what, address, why })
}

/// Fletcher's checksum as HDF5's filter 3 stores it behind a chunk: sums of big-endian 16-bit words modulo 65535.
pub(super) fn fletcher32(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (0u64, 0u64);
    for pair in bytes.chunks(2) {
        let word = match pair {
            [first, second] => u64::from(*first) << 8 | u64::from(*second),
            [first] => u64::from(*first) << 8,
            _ => 0,
        };
        low = (low + word) % 65535;
        high = (high + low) % 65535;
    }
    (high << 16 | low) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup3_gives_its_authors_values() {
        // The self-test of lookup3.c, driver5: initial value 0.
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    #[test]
    fn a_changed_bit_changes_the_checksum() {
        let mut bytes = b"Four score and seven years ago".to_vec();
        bytes.extend_from_slice(&0x1777_0551u32.to_le_bytes());
        assert!(checked("text", 0, &bytes).is_ok());
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(checked("text", 0, &bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
