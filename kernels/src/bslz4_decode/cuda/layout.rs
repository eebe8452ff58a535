//! Where the frames of a batch lie in the memory they go up from.

use std::ops::Range;

use rayon::prelude::*;

use crate::bslz4_decode::{Encoding, check_plausible};
use crate::types::Count;

/// The longest block that the kernel decodes.
const MOST_BLOCK_BYTES: usize = 32 << 10;
/// Bytes that the kernel may read after a frame.
const SLACK_BYTES: usize = 64;
/// Frames go up in an eighth of what there is, within these bounds: one chunk is decoded while the next goes up.
const CHUNK_BYTES: [usize; 2] = [2 << 20, 16 << 20];
/// As much as this is copied by one thread.
const ONE_THREAD_BYTES: usize = 1 << 20;

/// Whether frames of so many counts are any of the kernel's business.
pub(super) fn is_for_the_device(pixels: usize, count_bytes: usize) -> bool {
    pixels >= 8 && pixels <= u32::MAX as usize / 2 / count_bytes
}

/// Frames behind a table of where they are, without gaps.
#[derive(Debug)]
pub(in crate::bslz4_decode) struct Layout {
    /// Of each frame: where it begins, and its length; 0 for one that the kernel does not decode.
    pub(super) table: Vec<[u32; 2]>,
    pub(super) pixels: usize,
    count_bytes: usize,
    /// Decoded length of a block, or of the whole frame where that is less.
    pub(super) block_bytes: usize,
    /// All of it, with the slack.
    pub(in crate::bslz4_decode) bytes: usize,
}

/// Frames that go up together.
#[derive(Debug)]
pub(in crate::bslz4_decode) struct Chunk {
    pub(super) frames: Range<usize>,
    /// Where they are; the table too, for the first ones.
    pub(super) bytes: Range<usize>,
}

impl Layout {
    /// `pixels` as [`is_for_the_device`] wants them.
    pub(in crate::bslz4_decode) fn new<T: Count>(frames: &[&[u8]], pixels: usize) -> Self {
        let count_bytes = size_of::<T>();
        let frame_bytes = pixels * count_bytes;
        let whole = frame_bytes / (8 * count_bytes) * (8 * count_bytes);
        let block_bytes = |frame: &[u8]| {
            check_plausible::<T>(Encoding::Bslz4, frame, frame_bytes).ok()?;
            let size = u32::from_be_bytes(*frame.get(8..)?.first_chunk()?);
            let size = usize::try_from(size).ok()?.min(whole);
            (size <= MOST_BLOCK_BYTES).then_some(size)
        };
        let sizes: Vec<Option<usize>> = frames.iter().map(|frame| block_bytes(frame)).collect();
        // frames of a detector have the same; others are left to the processor
        let of_batch = sizes.iter().copied().flatten().next();
        let mut bytes = frames.len() * size_of::<[u32; 2]>();
        let mut place = |(frame, size): (&&[u8], Option<usize>)| {
            let end = bytes.checked_add(frame.len()).filter(|&end| end <= u32::MAX as usize - SLACK_BYTES);
            match end {
                Some(end) if size.is_some() && size == of_batch => {
                    let at = std::mem::replace(&mut bytes, end);
                    [at as u32, frame.len() as u32]
                }
                _ => [bytes as u32, 0],
            }
        };
        let table = frames.iter().zip(sizes).map(&mut place).collect();
        Self {
            table,
            pixels,
            count_bytes,
            block_bytes: of_batch.unwrap_or(8 * count_bytes),
            bytes: bytes + SLACK_BYTES,
        }
    }

    pub(super) fn frame_bytes(&self) -> usize {
        self.pixels * self.count_bytes
    }

    /// Blocks of a frame.
    pub(super) fn num_blocks(&self) -> usize {
        let group = 8 * self.count_bytes;
        (self.frame_bytes() / group * group).div_ceil(self.block_bytes)
    }

    /// All frames, in parts that go up one after the other.
    pub(super) fn chunks(&self) -> Vec<Chunk> {
        let most = (self.bytes / 8).clamp(CHUNK_BYTES[0], CHUNK_BYTES[1]);
        let mut chunks = vec![Chunk { frames: 0..0, bytes: 0..0 }];
        for (index, &[at, len]) in self.table.iter().enumerate() {
            let end = at as usize + len as usize;
            if let Some(last) = chunks.last_mut() {
                if index > 0 && end - last.bytes.start > most {
                    chunks.push(Chunk { frames: index..index + 1, bytes: at as usize..end });
                } else {
                    last.frames.end = index + 1;
                    last.bytes.end = end;
                }
            }
        }
        if let Some(last) = chunks.last_mut() {
            last.bytes.end = self.bytes;
        }
        chunks
    }

    /// Copies the frames of a chunk, and the table with the first ones, to where they belong in `memory`.
    pub(in crate::bslz4_decode) fn copy(&self, frames: &[&[u8]], chunk: &Chunk, memory: &mut [u8]) {
        let mut rest = &mut memory[chunk.bytes.clone()];
        if chunk.bytes.start == 0 {
            let table: &[u8] = bytemuck::cast_slice(&self.table);
            let (place, after) = rest.split_at_mut(table.len());
            place.copy_from_slice(table);
            rest = after;
        }
        let mut pieces = Vec::with_capacity(chunk.frames.len());
        for index in chunk.frames.clone().filter(|&index| self.table[index][1] > 0) {
            let (place, after) = std::mem::take(&mut rest).split_at_mut(frames[index].len());
            pieces.push((place, frames[index]));
            rest = after;
        }
        if chunk.bytes.len() <= ONE_THREAD_BYTES {
            pieces.into_iter().for_each(|(place, frame)| place.copy_from_slice(frame));
        } else {
            pieces.into_par_iter().with_min_len(16).for_each(|(place, frame)| place.copy_from_slice(frame));
        }
    }

    /// A frame where [`Self::copy`] has put it.
    pub(super) fn frame<'a>(&self, index: usize, memory: &'a [u8]) -> &'a [u8] {
        let [at, len] = self.table[index];
        &memory[at as usize..][..len as usize]
    }
}
