//! decode_counts on the processor: one group a task.

use std::ops::Range;

use rayon::prelude::*;

use super::{DecodeCounts, DecodeCountsError, GroupFault, ImageWindow, check, check_windows, decode_group};
use crate::count_code::{EncodedCounts, GROUP_PIXELS};
use crate::device::Cpu;
use crate::types::Count;

impl DecodeCounts for Cpu {
    fn decode_pixels<T: Count>(
        &self,
        counts: &EncodedCounts,
        pixels: &[u32],
        positions: Range<usize>,
        out: &mut Vec<T>,
        window: ImageWindow,
    ) -> Result<(), DecodeCountsError> {
        let len = check::<T>(counts, &positions)?;
        check_windows(counts, pixels, len, out.len(), window)?;
        if pixels.is_empty() || len == 0 {
            return Ok(());
        }
        let images =
            out.chunks_mut(window.stride).map(|image| &mut image[window.column..window.column + len]);
        let mut asked: Vec<(u32, &mut [T])> = pixels.iter().copied().zip(images).collect();
        if !asked.is_sorted_by_key(|(pixel, _)| *pixel) {
            asked.sort_by_key(|(pixel, _)| *pixel);
        }
        let group_of = |asked: &(u32, &mut [T])| asked.0 as usize / GROUP_PIXELS;
        let groups: Vec<&mut [(u32, &mut [T])]> =
            asked.chunk_by_mut(|a, b| group_of(a) == group_of(b)).collect();
        let slots: Vec<usize> = counts.coverage().present().collect();
        groups.into_par_iter().try_for_each_init(Vec::new, |scratch, asked| {
            let group = asked.first().map_or(0, group_of);
            let whole = len == slots.len() && len == counts.positions();
            if whole && asked.is_sorted_by(|a, b| a.0 < b.0) {
                decode_in_place(counts, group, asked, scratch)
            } else {
                decode_and_pick(counts, group, asked, &positions, &slots, scratch)
            }
        })
    }

    fn decode_positions<T: Count>(
        &self,
        counts: &EncodedCounts,
        positions: Range<usize>,
        out: &mut Vec<T>,
    ) -> Result<(), DecodeCountsError> {
        let len = check::<T>(counts, &positions)?;
        let pixels = counts.detector().pixels();
        let expected = pixels.saturating_mul(len);
        if out.len() < expected {
            return Err(DecodeCountsError::Buffer { got: out.len(), expected });
        }
        if expected == 0 {
            return Ok(());
        }
        // covered positions of the range: (index in the streams, frame of `out`)
        let chosen: Vec<(usize, usize)> = (counts.coverage().present().enumerate())
            .filter(|(_, position)| positions.contains(position))
            .map(|(index, position)| (index, position - positions.start))
            .collect();
        let coded = counts.coverage().count();
        // `[group][frame][pixel]`, then interleaved to frames
        let mut by_group = vec![T::default(); counts.directory().groups() * len * GROUP_PIXELS];
        by_group.par_chunks_mut(len * GROUP_PIXELS).enumerate().try_for_each_init(
            Vec::new,
            |scratch, (group, picked)| {
                if counts.group(group).is_some_and(|bytes| bytes.is_empty()) {
                    return Ok(()); // zeros already
                }
                let rows = decode_to_scratch(counts, group, coded, scratch)?;
                for (pixel, row) in rows.chunks(coded.max(1)).enumerate() {
                    for &(index, frame) in &chosen {
                        picked[frame * GROUP_PIXELS + pixel] = row[index];
                    }
                }
                Ok::<(), DecodeCountsError>(())
            },
        )?;
        out[..expected].par_chunks_mut(pixels).enumerate().for_each(|(frame, counts)| {
            for (group, pixels) in counts.chunks_mut(GROUP_PIXELS).enumerate() {
                let from = (group * len + frame) * GROUP_PIXELS;
                pixels.copy_from_slice(&by_group[from..from + pixels.len()]);
            }
        });
        Ok(())
    }
}

/// Pixels of a group; fewer in the last group of a detector.
fn pixels_in(counts: &EncodedCounts, group: usize) -> usize {
    (counts.detector().pixels() - group * GROUP_PIXELS).min(GROUP_PIXELS)
}

fn decode<T: Count>(
    counts: &EncodedCounts,
    group: usize,
    rows: &mut [&mut [T]],
) -> Result<(), DecodeCountsError> {
    counts
        .group(group)
        .ok_or(GroupFault::Missing)
        .and_then(|bytes| decode_group(bytes, counts.count_type(), rows))
        .map_err(|fault| DecodeCountsError::Corrupt { group, first_pixel: group * GROUP_PIXELS, fault })
}

/// Asked images that are whole intervals: decoded where they belong, pixels nobody asked for into `scratch`.
fn decode_in_place<T: Count>(
    counts: &EncodedCounts,
    group: usize,
    asked: &mut [(u32, &mut [T])],
    scratch: &mut Vec<T>,
) -> Result<(), DecodeCountsError> {
    if counts.group(group).is_some_and(|bytes| bytes.is_empty()) {
        asked.iter_mut().for_each(|(_, image)| image.fill(T::default()));
        return Ok(());
    }
    let (pixels, positions) = (pixels_in(counts, group), counts.positions());
    scratch.resize(GROUP_PIXELS * positions, T::default());
    let mut spare = scratch.chunks_mut(positions);
    let mut asked = asked.iter_mut().peekable();
    let mut rows: Vec<&mut [T]> = Vec::with_capacity(pixels);
    for pixel in group * GROUP_PIXELS..group * GROUP_PIXELS + pixels {
        match asked.next_if(|(asked, _)| *asked as usize == pixel) {
            Some((_, image)) => rows.push(image),
            None => rows.extend(spare.next()),
        }
    }
    decode(counts, group, &mut rows)
}

/// All rows of a group, each `coded` long, one after the other.
fn decode_to_scratch<'a, T: Count>(
    counts: &EncodedCounts,
    group: usize,
    coded: usize,
    scratch: &'a mut Vec<T>,
) -> Result<&'a [T], DecodeCountsError> {
    let pixels = pixels_in(counts, group);
    scratch.resize(GROUP_PIXELS * coded, T::default());
    let mut rows: Vec<&mut [T]> = scratch.chunks_mut(coded.max(1)).take(pixels).collect();
    decode(counts, group, &mut rows)?;
    Ok(&scratch[..pixels * coded])
}

fn decode_and_pick<T: Count>(
    counts: &EncodedCounts,
    group: usize,
    asked: &mut [(u32, &mut [T])],
    positions: &Range<usize>,
    slots: &[usize],
    scratch: &mut Vec<T>,
) -> Result<(), DecodeCountsError> {
    let rows = decode_to_scratch(counts, group, slots.len(), scratch)?;
    let first = slots.partition_point(|&position| position < positions.start);
    let end = slots.partition_point(|&position| position < positions.end);
    for (pixel, image) in asked {
        image.fill(T::default());
        let row = *pixel as usize % GROUP_PIXELS * slots.len();
        for (&position, &count) in slots[first..end].iter().zip(&rows[row + first..row + end]) {
            image[position - positions.start] = count;
        }
    }
    Ok(())
}
