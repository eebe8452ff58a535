//! Real bytes of two EIGER detectors, from the Apache-2.0 project DiamondLightSource/tickit-devices: `frame_sample`, a stream v1 blob
//! (`bs16-lz4<`, u16, 4362 x 4148), and `image.cbor`, a stream v2 image of the same detector model.

use std::path::PathBuf;

use super::*;

const COUNTS: usize = 4362 * 4148;

/// A file of the recordings, or nothing and the reason on the terminal.
fn recording(name: &str) -> Option<Vec<u8>> {
    let Some(folder) = std::env::var_os("SIDEBAND_GOLDENS") else {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"not run: SIDEBAND_GOLDENS is not set\n");
        return None;
    };
    let path = PathBuf::from(folder).join("tickit-eiger").join(name);
    Some(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn decodes_as_the_oracle_does(frame: &[u8]) {
    let expected = oracle::decode_bslz4::<u16>(frame).unwrap();
    assert_eq!(expected.len(), COUNTS);
    let decoded = decode_everywhere::<u16>(Encoding::Bslz4, frame, COUNTS).unwrap();
    let different = decoded.iter().zip(&expected).filter(|(decoded, expected)| decoded != expected).count();
    assert_eq!(different, 0, "counts that differ, of {COUNTS}");
    assert!(decoded.contains(&u16::MAX), "the gaps between modules are marked");
}

#[test]
fn a_real_stream_v1_blob_decodes() {
    let Some(frame) = recording("frame_sample") else { return };
    decodes_as_the_oracle_does(&frame);
}

#[test]
fn the_payload_of_a_real_stream_v2_image_decodes() {
    let Some(message) = recording("image.cbor") else { return };
    // The byte string follows the text "bslz4" and the element size 2; its length is a u32 (CBOR head 0x5a).
    let start = message.windows(8).position(|bytes| bytes == b"\x65bslz4\x02\x5a").unwrap() + 8;
    let len = u32::from_be_bytes(message[start..start + 4].try_into().unwrap()) as usize;
    decodes_as_the_oracle_does(&message[start + 4..][..len]);
}
