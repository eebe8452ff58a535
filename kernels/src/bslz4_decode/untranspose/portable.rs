//! The transpose in 64-bit integers.

/// Writes the counts from byte `from` of every plane on.
pub(super) fn untranspose<const BYTES: usize>(planes: &[u8], out: &mut [u8], from: usize) {
    let plane_bytes = planes.len() / (8 * BYTES);
    out[from * 8 * BYTES..].fill(0);
    for byte in 0..BYTES {
        let group = &planes[byte * 8 * plane_bytes..][..8 * plane_bytes];
        if is_zero(group) {
            continue;
        }
        let planes: [&[u8]; 8] = std::array::from_fn(|bit| &group[bit * plane_bytes..][..plane_bytes]);
        for (at, out) in out.chunks_exact_mut(8 * BYTES).enumerate().skip(from) {
            let bits = u64::from_le_bytes(std::array::from_fn(|bit| planes[bit][at]));
            if bits != 0 {
                for (count, value) in transpose_8x8(bits).to_le_bytes().into_iter().enumerate() {
                    out[count * BYTES + byte] = value;
                }
            }
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |any, byte| any | byte) == 0
}

/// Swaps rows and columns of an 8 x 8 bit matrix: bit `c` of byte `r` goes to bit `r` of byte `c`
/// (H. S. Warren, Hacker's Delight, section 7-3).
pub(crate) fn transpose_8x8(mut bits: u64) -> u64 {
    let swap = (bits ^ (bits >> 7)) & 0x00aa_00aa_00aa_00aa;
    bits ^= swap ^ (swap << 7);
    let swap = (bits ^ (bits >> 14)) & 0x0000_cccc_0000_cccc;
    bits ^= swap ^ (swap << 14);
    let swap = (bits ^ (bits >> 28)) & 0x0000_0000_f0f0_f0f0;
    bits ^ swap ^ (swap << 28)
}
