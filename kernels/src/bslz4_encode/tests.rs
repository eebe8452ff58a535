//! The encoder against bytes worked out by hand; the round trips are in `bslz4_decode/tests.rs`.

use super::*;

#[test]
fn a_frame_that_fills_no_group_is_all_leftover() {
    let mut chunk = Vec::new();
    encode_bslz4(&[1u32, 2, 3, 0x0102_0304], &mut chunk);
    let expected: Vec<u8> =
        [&[0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0x20, 0][..], &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 3, 2, 1]]
            .concat();
    assert_eq!(chunk, expected);
}

#[test]
fn planes_are_in_the_order_of_bits_and_counts() {
    let mut planes = [0xaa; 16];
    let counts: [u16; 8] = [0x0001, 0, 0, 0x8000, 0, 0, 0, 0x0101];
    transpose(&little_endian(&counts), &mut planes, 2);
    let mut expected = [0; 16];
    expected[0] = 0b1000_0001;
    expected[8] = 0b1000_0000;
    expected[15] = 0b0000_1000;
    assert_eq!(planes, expected);
}

#[test]
fn frames_are_appended() {
    let mut chunk = vec![7];
    encode_bslz4(&[0u8; 4096], &mut chunk);
    assert_eq!(chunk[..9], [7, 0, 0, 0, 0, 0, 0, 0x10, 0]);
}

#[test]
fn a_block_that_does_not_shrink_is_stored_raw() {
    let mut chunk = Vec::new();
    let counts: Vec<u8> = (0..=255).collect();
    encode_lz4_framed(&counts, 256, &mut chunk);
    assert_eq!(chunk.len(), 12 + 4 + 256);
    assert_eq!(chunk[16..], counts);
}

#[test]
#[should_panic(expected = "got a block size of 12 bytes, expected a positive multiple of 16")]
fn a_block_size_that_cuts_a_group_is_refused() {
    encode_bslz4_in_blocks(&[0u16; 8], 12, &mut Vec::new());
}
