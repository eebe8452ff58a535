//! Any bytes as a frame of any encoding, type and length: no panic, and the same answer on every path.
//!
//! Byte 0 chooses the encoding, byte 1 the type, bytes 2 and 3 the number of counts; bit 7 of byte 0 puts a header in front
//! that asks for just that many, so that the fuzzer starts behind the first checks.

#![no_main]

use kernels::bslz4_decode::{Encoding, Isa, decode_frame_with};
use kernels::types::Count;
use libfuzzer_sys::fuzz_target;

const ENCODINGS: [Encoding; 4] = [Encoding::Raw, Encoding::Bslz4, Encoding::Lz4Framed, Encoding::Lz4Block];

fn decode<T: Count>(encoding: Encoding, header: bool, counts: usize, bytes: &[u8]) {
    let mut frame = Vec::new();
    if header {
        frame.extend_from_slice(&((counts * size_of::<T>()) as u64).to_be_bytes());
        frame.extend_from_slice(&512u32.to_be_bytes());
    }
    frame.extend_from_slice(bytes);
    let mut results = Isa::available().into_iter().map(|isa| {
        let mut out = vec![T::default(); counts];
        decode_frame_with(isa, encoding, &frame, &mut out).map(|()| out)
    });
    let first = results.next();
    assert!(results.all(|other| Some(&other) == first.as_ref()), "paths differ");
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, count_type, low, high], bytes)) = data.split_first_chunk::<4>() else { return };
    let encoding = ENCODINGS[usize::from(choice & 3)];
    let header = choice & 0x80 != 0;
    let counts = usize::from(u16::from_le_bytes([low, high]));
    match count_type % 3 {
        0 => decode::<u8>(encoding, header, counts, bytes),
        1 => decode::<u16>(encoding, header, counts, bytes),
        _ => decode::<u32>(encoding, header, counts, bytes),
    }
});
