//! Bytes that are not a frame: cut short, flipped, lengthened, invented. Never a panic; an error, or counts of the right length that
//! every path agrees on.

use proptest::prelude::*;
use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::bslz4_encode::encode_bslz4;

fn chunk<T: Count>(kind: Kind, len: usize, block_bytes: usize) -> Vec<u8> {
    let mut chunk = Vec::new();
    encode_bslz4_in_blocks(&counts_of::<T>(kind, len, 3), block_bytes, &mut chunk);
    chunk
}

/// Says what the decoder says, after the oracle has been heard: what one takes for a frame the other does, with the same counts.
fn agrees_with_the_oracle<T: Count>(bytes: &[u8], counts: usize) -> Result<(), DecodeError> {
    let decoded = decode_everywhere::<T>(Encoding::Bslz4, bytes, counts);
    if let Ok(decoded) = &decoded {
        assert_eq!(oracle::decode_bslz4::<T>(bytes).as_ref(), Some(decoded));
    }
    decoded.map(drop)
}

#[test]
fn a_frame_truncated_at_any_length_is_an_error() {
    for kind in [Kind::Disk, Kind::Noise] {
        let frame = chunk::<u16>(kind, 5003, 1024);
        for len in 0..frame.len() {
            assert!(
                agrees_with_the_oracle::<u16>(&frame[..len], 5003).is_err(),
                "{len} of {} bytes",
                frame.len()
            );
        }
        let lz4 = lz4_flex::block::compress(bytemuck::cast_slice(&counts_of::<u16>(kind, 5003, 3)));
        for len in 0..lz4.len() {
            assert!(decode_everywhere::<u16>(Encoding::Lz4Block, &lz4[..len], 5003).is_err());
        }
    }
}

#[test]
fn a_byte_too_many_is_an_error() {
    for len in [5000, 5003] {
        let mut frame = chunk::<u16>(Kind::Disk, len, 1024);
        frame.push(0);
        let expected_bytes = len % 8 * 2;
        assert_eq!(
            agrees_with_the_oracle::<u16>(&frame, len),
            Err(DecodeError::Leftover { got_bytes: expected_bytes + 1, expected_bytes })
        );
    }
}

#[test]
fn flipped_bits_never_panic_and_never_change_the_length() {
    let mut random = Pcg64::seed_from_u64(10_000);
    let frames = [chunk::<u16>(Kind::Disk, 36_864, 8192), chunk::<u16>(Kind::Noise, 4000, 512)];
    let (mut errors, mut decoded) = (0, 0);
    for flip in 0..10_000 {
        let frame = &frames[usize::from(flip % 5 == 0)];
        let len = if flip % 5 == 0 { 4000 } else { 36_864 };
        let mut bytes = frame.clone();
        let at = random.random_range(0..8 * bytes.len());
        bytes[at / 8] ^= 1 << (at % 8);
        let mut out = oracle::dirty::<u16>(len);
        match decode_frame(Encoding::Bslz4, &bytes, &mut out) {
            Ok(()) => decoded += 1,
            Err(error) => {
                errors += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(errors > 1000 && decoded > 100, "{errors} errors, {decoded} decoded: this tested little");
}

/// One change of the kind that transport, disks and attackers make.
pub(super) fn mutate(bytes: &mut Vec<u8>, random: &mut Pcg64) {
    let at = random.random_range(0..bytes.len().max(1)).min(bytes.len().saturating_sub(1));
    match random.random_range(0..8) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.random_range(0..8),
        1 if !bytes.is_empty() => bytes[at] = [0, 0xff, 0x0f, 0xf0][random.random_range(0..4)],
        2 => bytes.truncate(at),
        3 => bytes.insert(at, random.random()),
        4 if bytes.len() > 16 => {
            let field = [8, 12, at.min(bytes.len() - 4)][random.random_range(0..3)];
            let value = [0, 1, 16, 8192, 0x7fff_ffff, 0x8000_0000, u32::MAX][random.random_range(0..7)];
            bytes[field..field + 4].copy_from_slice(&u32::to_be_bytes(value));
        }
        5 if bytes.len() > 16 => {
            let len = random.random_range(1..16).min(bytes.len() - at);
            random.fill_bytes(&mut bytes[at..at + len]);
        }
        6 if bytes.len() > 16 => {
            let from = random.random_range(12..bytes.len());
            let len = (bytes.len() - from.max(at)).min(random.random_range(1..64));
            bytes.copy_within(from..from + len, at);
        }
        _ => bytes.extend((0..random.random_range(1..40)).map(|_| random.random::<u8>())),
    }
}

fn fuzz<T: Count>(cases: usize, seed: u64) {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut errors = 0;
    for case in 0..cases {
        let kind = Kind::ALL[case % Kind::ALL.len()];
        let len = random.random_range(0..1500);
        let block_bytes = 8 * size_of::<T>() * random.random_range(1..40);
        let mut bytes = chunk::<T>(kind, len, block_bytes);
        for _ in 0..random.random_range(1..4) {
            mutate(&mut bytes, &mut random);
        }
        errors += usize::from(agrees_with_the_oracle::<T>(&bytes, len).is_err());
        for encoding in [Encoding::Lz4Framed, Encoding::Lz4Block, Encoding::Raw] {
            let _ = decode_everywhere::<T>(encoding, &bytes, len);
        }
    }
    assert!(errors > cases / 4, "only {errors} errors in {cases} cases: this tested little");
}

#[test]
fn twenty_thousand_damaged_frames_give_an_error_or_what_the_oracle_gives() {
    fuzz::<u8>(7000, 1);
    fuzz::<u16>(7000, 2);
    fuzz::<u32>(7000, 3);
}

#[test]
fn a_bare_block_is_taken_exactly_when_lz4_flex_takes_it() {
    let mut random = Pcg64::seed_from_u64(4);
    let mut taken = 0;
    for case in 0..20_000 {
        let len = random.random_range(0..600);
        let counts = counts_of::<u8>(Kind::ALL[case % Kind::ALL.len()], len, case as u64);
        let mut block = lz4_flex::block::compress(&counts);
        if case % 8 != 0 {
            mutate(&mut block, &mut random);
        }
        // Room beyond the end brings the fast loop into play, which a buffer of just the length keeps out.
        let mut expected = vec![0; len];
        let expected =
            matches!(lz4_flex::block::decompress_into(&block, &mut expected), Ok(got) if got == len)
                .then_some(expected);
        for isa in Isa::available() {
            let mut frame = block.clone();
            frame.extend([0x1f; 64]);
            let mut dst = vec![0xee; len + lz4_block::SLACK_BYTES];
            let result = lz4_block::decode(isa, &frame, 0..block.len(), &mut dst, len);
            dst.truncate(len);
            assert_eq!(result.is_ok().then_some(dst), expected, "{isa}: {result:?}");
        }
        taken += usize::from(expected.is_some());
    }
    assert!((4000..16_000).contains(&taken), "{taken} blocks were valid");
}

#[test]
fn every_error_says_what_was_got_and_expected() {
    let good = chunk::<u16>(Kind::Disk, 512, 512);
    let patched = |at: usize, bytes: &[u8]| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        agrees_with_the_oracle::<u16>(&frame, 512).unwrap_err().to_string()
    };
    let short = agrees_with_the_oracle::<u16>(&good[..11], 512).unwrap_err();
    assert_eq!(short.to_string(), "got 11 bytes, expected a header of 12");
    assert_eq!(patched(7, &[9]), "got a frame of 1033 bytes decoded, expected 1024");
    assert_eq!(patched(0, &[0xff]), "got a frame of 18374686479671624704 bytes decoded, expected 1024");
    assert_eq!(patched(8, &[0; 4]), "got a block size of 0 bytes, expected a positive multiple of 16");
    assert_eq!(patched(11, &[8]), "got a block size of 520 bytes, expected a positive multiple of 16");
    let left = good.len() - 16;
    assert_eq!(
        patched(12, &[0x80, 0, 0, 0]),
        format!("block 0: got {left} bytes to the end of the frame, expected 2147483648")
    );
    assert_eq!(patched(12, &[0, 0, 0, 0]), "block 0: lz4 ends at byte 0, expected more");
    assert_eq!(patched(16, &[0x10, 1, 0, 0]), "block 0: lz4 goes back 0 bytes, expected 1 to 1");
    assert_eq!(patched(16, &[0x10, 1, 2, 0]), "block 0: lz4 goes back 2 bytes, expected 1 to 1");
    let lz4 = |bytes: &[u8]| decode_everywhere::<u8>(Encoding::Lz4Block, bytes, 8).unwrap_err().to_string();
    assert_eq!(lz4(&[0x10, 1]), "block 0: lz4 gives 1 bytes, expected 8");
    assert_eq!(lz4(&[0x1f, 1, 1, 0, 0]), "block 0: lz4 gives at least 20 bytes, expected 8");
    assert_eq!(lz4(&[0x90; 10]), "block 0: lz4 gives at least 9 bytes, expected 8");
    let raw = decode_everywhere::<u16>(Encoding::Raw, &[0; 3], 2).unwrap_err();
    assert_eq!(raw.to_string(), "got a frame of 3 bytes decoded, expected 4");
}

#[test]
fn the_first_block_that_is_wrong_is_named() {
    let mut frame = chunk::<u16>(Kind::Noise, 4096, 1024);
    let block_bytes = u32::from_be_bytes(frame[12..16].try_into().unwrap()) as usize;
    // Block 1 loses its first literals, block 2 has a size beyond the end.
    frame[12 + 4 + block_bytes + 4] = 0;
    let third = 12 + 2 * (4 + block_bytes);
    frame[third] = 0x7f;
    let error = agrees_with_the_oracle::<u16>(&frame, 4096).unwrap_err();
    assert!(matches!(error, DecodeError::Block { block: 1, .. }), "{error}");
}

#[test]
fn a_huge_block_size_costs_no_memory() {
    let counts = counts_of::<u16>(Kind::Disk, 4096, 1);
    let mut frame = Vec::new();
    encode_bslz4(&counts, &mut frame);
    frame[8..12].copy_from_slice(&0xffff_fff0u32.to_be_bytes());
    assert_eq!(decode_everywhere(Encoding::Bslz4, &frame, 4096).as_ref(), Ok(&counts));
}

proptest! {
    #[test]
    fn any_counts_round_trip(counts in prop::collection::vec(any::<u32>(), 0..3000), shift in 0u32..32, groups in 1usize..300) {
        let counts: Vec<u32> = counts.into_iter().map(|count| count.checked_shr(shift).unwrap_or(0)).collect();
        round_trip(&counts, 32 * groups);
        round_trip(&counts.iter().map(|count| *count as u16).collect::<Vec<_>>(), 16 * groups);
        round_trip(&counts.iter().map(|count| *count as u8).collect::<Vec<_>>(), 8 * groups);
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..400), counts in 0usize..200) {
        for encoding in [Encoding::Raw, Encoding::Bslz4, Encoding::Lz4Framed, Encoding::Lz4Block] {
            let _ = decode_everywhere::<u8>(encoding, &bytes, counts);
            let _ = decode_everywhere::<u32>(encoding, &bytes, counts);
        }
    }
}
