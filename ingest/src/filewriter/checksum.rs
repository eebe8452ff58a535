//! The checksum of HDF5 metadata: Bob Jenkins's lookup3 `hashlittle`, initial value 0
//! (HDF5 file format specification 3.0, "Checksum" of the superblock and of object headers; burtleburtle.net/bob/c/lookup3.c).

/// The lookup3 hash of `bytes`.
pub(super) fn lookup3(bytes: &[u8]) -> u32 {
    // The length enters modulo 2^32, as in the original.
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut lanes = [start; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        let (head, tail) = rest.split_at(12);
        add(&mut lanes, head);
        mix(&mut lanes);
        rest = tail;
    }
    if !rest.is_empty() {
        add(&mut lanes, rest);
        finish(&mut lanes);
    }
    lanes[2]
}

/// Adds up to 12 bytes to the lanes, little-endian, zero padded.
fn add(lanes: &mut [u32; 3], bytes: &[u8]) {
    for (index, &byte) in bytes.iter().enumerate() {
        let lane = &mut lanes[index / 4];
        *lane = lane.wrapping_add(u32::from(byte) << (8 * (index % 4)));
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &mut u32, z: u32, bits: u32| {
        // x -= y; x ^= y << bits; y += z
        *x = x.wrapping_sub(*y) ^ y.rotate_left(bits);
        *y = y.wrapping_add(z);
    };
    step(a, c, *b, 4);
    step(b, a, *c, 6);
    step(c, b, *a, 8);
    step(a, c, *b, 16);
    step(b, a, *c, 19);
    step(c, b, *a, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: u32, bits: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(bits));
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}

#[cfg(test)]
mod tests {
    use super::lookup3;

    #[test]
    fn the_published_values_of_lookup3_come_out() {
        // driver5() of lookup3.c, initial value 0.
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
