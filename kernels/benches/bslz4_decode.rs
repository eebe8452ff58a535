//! How fast one core decodes bslz4 frames, beside the C decoders, on simulated electron counts.
//!
//! Every decoder must first give the counts that were encoded. Then rounds follow, each decoder once a round in turn, so that
//! whatever else the machine does meets all of them; only the ratios within a round are to be trusted on a shared machine.
//! `tests/peers/fetch-c-decoders.sh` gets the C decoders. `--check` runs every decoder once and times nothing.

#[path = "bslz4_decode/frames.rs"]
mod frames;
#[path = "bslz4_decode/peers.rs"]
mod peers;
#[path = "bslz4_decode/poisson.rs"]
mod poisson;

use std::time::{Duration, Instant};

use frames::{Case, FRAMES};
use kernels::bslz4_decode::{Encoding, Isa, decode_frame_with};
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{Count, CountType};
use peers::Peers;

/// Frames of a round: so few that most rounds are not interrupted.
const ROUND_FRAMES: usize = 8;
const ROUNDS: usize = 25 * FRAMES / ROUND_FRAMES;

/// Where a decoder puts the frames.
#[derive(Clone, Copy)]
enum Target {
    /// All into the memory of one frame: the decoder alone.
    OneFrame,
    /// Each into its own: the decoder and the memory of the machine.
    Batch,
}

/// Decodes a frame; false if it refuses.
type Decode<'a, T> = dyn Fn(&[u8], &mut [T]) -> bool + 'a;

struct Decoder<'a, T> {
    name: String,
    decode: Box<Decode<'a, T>>,
}

fn main() {
    let check_only = std::env::args().any(|argument| argument == "--check");
    let peers = Peers::load();
    let mut cases = 0;
    for case in frames::CASES {
        match case.count_type {
            CountType::U8 => run::<u8>(&case, &peers, check_only),
            CountType::U16 => run::<u16>(&case, &peers, check_only),
            CountType::U32 => run::<u32>(&case, &peers, check_only),
        }
        cases += 1;
    }
    println!("\n{cases} cases, every decoder gave the counts that were encoded");
}

fn run<T: Count>(case: &Case, peers: &Peers, check_only: bool) {
    let counts: Vec<T> = case.counts();
    let pixels = case.pixels();
    let frames: Vec<Vec<u8>> = counts
        .chunks(pixels)
        .map(|frame| {
            let mut bytes = Vec::new();
            encode_bslz4(frame, &mut bytes);
            bytes
        })
        .collect();
    let decoders = decoders::<T>(peers);
    let mut out = vec![T::default(); counts.len()];
    for decoder in &decoders {
        out.fill(T::try_from(0x5a).unwrap_or_default());
        for (frame, out) in frames.iter().zip(out.chunks_mut(pixels)) {
            assert!((decoder.decode)(frame, out), "{}: {} refuses a frame", case, decoder.name);
        }
        assert!(out == counts, "{}: {} gives other counts", case, decoder.name);
    }
    if check_only {
        println!("{case}: {} decoders agree", decoders.len());
        return;
    }
    let compressed = frames.iter().map(Vec::len).sum::<usize>() as f64 / FRAMES as f64;
    println!("\n**{case}**: {} bytes a frame, {compressed:.0} compressed", pixels * size_of::<T>());
    println!(
        "\n| decoder | frames/s | GB/s | best GB/s | ratio to bitshuffle C | ratio to DECTRIS C | batch GB/s |"
    );
    println!("|---|---|---|---|---|---|---|");
    let one_frame = measure(&decoders, &frames, &mut out, pixels, Target::OneFrame);
    let batch = measure(&decoders, &frames, &mut out, pixels, Target::Batch);
    for (index, decoder) in decoders.iter().enumerate() {
        let secs = median(one_frame[index].iter().map(Duration::as_secs_f64));
        let best = one_frame[index].iter().min().map_or(f64::NAN, Duration::as_secs_f64);
        let batch_secs = median(batch[index].iter().map(Duration::as_secs_f64));
        let gb = (ROUND_FRAMES * pixels * size_of::<T>()) as f64 / 1e9;
        let ratio = |peer: &str| match decoders.iter().position(|decoder| decoder.name == peer) {
            Some(peer) => {
                let pairs = one_frame[peer].iter().zip(&one_frame[index]);
                format!("{:.2}", median(pairs.map(|(peer, own)| peer.as_secs_f64() / own.as_secs_f64())))
            }
            None => "not run".to_owned(),
        };
        println!(
            "| {} | {:.0} | {:.2} | {:.2} | {} | {} | {:.2} |",
            decoder.name,
            ROUND_FRAMES as f64 / secs,
            gb / secs,
            gb / best,
            ratio(peers::BITSHUFFLE),
            ratio(peers::DECTRIS),
            gb / batch_secs,
        );
    }
}

fn decoders<T: Count>(peers: &Peers) -> Vec<Decoder<'_, T>> {
    let mut decoders = Vec::new();
    if let Some(bitshuffle) = &peers.bitshuffle {
        decoders.push(Decoder {
            name: peers::BITSHUFFLE.to_owned(),
            decode: Box::new(|bytes, out| bitshuffle.decode(bytes, out)),
        });
    }
    if let Some(dectris) = &peers.dectris {
        decoders.push(Decoder {
            name: peers::DECTRIS.to_owned(),
            decode: Box::new(|bytes, out| dectris.decode(bytes, out)),
        });
    }
    for isa in Isa::available() {
        decoders.push(Decoder {
            name: format!("sideband, {isa}"),
            decode: Box::new(move |bytes, out| decode_frame_with(isa, Encoding::Bslz4, bytes, out).is_ok()),
        });
    }
    decoders
}

/// Time of `ROUND_FRAMES` frames, `[decoder][round]`; the rounds go through all frames again and again.
fn measure<T: Count>(
    decoders: &[Decoder<'_, T>],
    frames: &[Vec<u8>],
    out: &mut [T],
    pixels: usize,
    target: Target,
) -> Vec<Vec<Duration>> {
    let mut times = vec![Vec::with_capacity(ROUNDS); decoders.len()];
    for round in 0..ROUNDS {
        let first = round * ROUND_FRAMES % FRAMES;
        for (decoder, times) in decoders.iter().zip(&mut times) {
            let start = Instant::now();
            for (index, frame) in frames.iter().enumerate().skip(first).take(ROUND_FRAMES) {
                let at = match target {
                    Target::OneFrame => 0,
                    Target::Batch => index * pixels,
                };
                let decoded = (decoder.decode)(frame, &mut out[at..at + pixels]);
                assert!(std::hint::black_box(decoded));
            }
            times.push(start.elapsed());
        }
    }
    times
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
