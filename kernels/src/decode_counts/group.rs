//! One group: its bytes to the counts of its pixels. Every byte is taken for hostile.

use crate::count_code::model::Model;
use crate::count_code::tables::{OTHER, SKIP_CELLS, WIDE_CENTRE, dense, sparse, wide};
use crate::count_code::{LAST_SEGMENT, SCALE_BITS, STATE_LOW, TWO_STATES};
use crate::types::{Count, CountType};

/// What is wrong with the bytes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupFault {
    /// The directory does not say where it lies.
    #[error("no bytes in the directory")]
    Missing,
    /// The segments' headers end early, name an unknown model or do not add up to the pixels of the group.
    #[error("malformed segment header")]
    Header,
    /// A state or the number of bytes is impossible.
    #[error("malformed coder state")]
    State,
    /// A count lies outside the interval or does not fit the count type.
    #[error("count out of range")]
    Range,
    /// The stream does not end where the counts end.
    #[error("stream does not end with the counts")]
    End,
}

/// The range decoder: two states (the second unused when the stream has one) over 16-bit words.
#[derive(Clone, Copy)]
struct Decoder<'a> {
    state: u32,
    other: u32,
    two: bool,
    words: &'a [[u8; 2]],
    next: usize,
}

impl<'a> Decoder<'a> {
    fn open(bytes: &'a [u8], two: bool) -> Result<Self, GroupFault> {
        let mut rest = bytes;
        let mut take_state = || {
            if rest.is_empty() {
                return Ok(1);
            }
            let (state, tail) = rest.split_at(rest.len().min(4));
            rest = tail;
            let state = state.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
            let possible = state < STATE_LOW << 16 && (!two || state >= STATE_LOW);
            if possible { Ok(state) } else { Err(GroupFault::State) }
        };
        let state = take_state()?;
        let other = if two { take_state()? } else { 1 };
        let (words, odd) = rest.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(GroupFault::State);
        }
        Ok(Self { state, other, two, words, next: 0 })
    }

    /// Takes a word in when the state has run low; nothing happens when no word is left.
    #[inline(always)]
    fn refill(&mut self) {
        let word = match self.words.get(self.next) {
            Some(&word) => u32::from(u16::from_le_bytes(word)),
            None => return,
        };
        let low = u32::from(self.state < STATE_LOW);
        self.state = (self.state << (low * 16)) | (word & low.wrapping_neg());
        self.next += low as usize;
    }

    #[inline(always)]
    fn symbol(&mut self, slots: &[u32; 1 << SCALE_BITS]) -> usize {
        let slot = slots[(self.state & ((1 << SCALE_BITS) - 1)) as usize];
        // below 2^31 again: frequency <= 4095, state >> 12 < 2^19
        self.state = (slot >> 20) * (self.state >> SCALE_BITS) + (slot >> 8 & 0xfff);
        self.refill();
        (slot & 0xff) as usize
    }

    /// `bits` bits, at most 12.
    #[inline(always)]
    fn short_raw(&mut self, bits: u32) -> u32 {
        let value = self.state & ((1 << bits) - 1);
        self.state >>= bits;
        self.refill();
        value
    }

    /// `bits` bits, at most 32, by the byte, the lowest first.
    #[inline(always)]
    fn raw(&mut self, bits: u32) -> u32 {
        (0..bits).step_by(8).fold(0, |value, bit| value | self.short_raw((bits - bit).min(8)) << bit)
    }

    /// The next coded item is the other state's.
    #[inline(always)]
    fn turn(&mut self) {
        if self.two {
            std::mem::swap(&mut self.state, &mut self.other);
        }
    }
}

/// Decodes a group into `rows`, one per pixel, each as long as there are coded positions; every element is written.
///
/// `T` must be able to hold `count_type` (checked by the caller); all rows have one length.
pub(crate) fn decode_group<T: Count>(
    mut bytes: &[u8],
    count_type: CountType,
    rows: &mut [&mut [T]],
) -> Result<(), GroupFault> {
    for row in rows.iter_mut() {
        row.fill(T::default());
    }
    if bytes.is_empty() {
        return Ok(());
    }
    let positions = rows.first().map_or(0, |row| row.len());
    if positions == 0 {
        return Err(GroupFault::End);
    }
    let two = bytes[0] == TWO_STATES;
    if two {
        bytes = &bytes[1..];
    }
    let mut segments = [(Model::Zero, 0); crate::count_code::GROUP_PIXELS];
    let num_segments = read_segments(&mut bytes, count_type, rows.len(), &mut segments)?;
    let mut decoder = Decoder::open(bytes, two)?;
    let mut rest = rows;
    for &(model, pixels) in &segments[..num_segments] {
        let (rows, tail) = rest.split_at_mut(pixels);
        rest = tail;
        match model {
            Model::Zero => {}
            Model::Constant(value) => {
                let value = T::try_from(value).map_err(|_| GroupFault::Range)?;
                rows.iter_mut().for_each(|row| row.fill(value));
            }
            Model::Literal => decode_literal(&mut decoder, count_type, rows)?,
            Model::Wide { centre, shift, table } => {
                decode_wide(&mut decoder, count_type, rows, centre, shift, table)?;
            }
            Model::Sparse(index) => decode_sparse(&mut decoder, count_type, rows, index)?,
            Model::Dense(index) => decode_dense(&mut decoder, count_type, rows, index)?,
        }
    }
    let first = if two { STATE_LOW } else { 1 };
    let at_end =
        decoder.state == first && decoder.next == decoder.words.len() && (!two || decoder.other == first);
    if at_end { Ok(()) } else { Err(GroupFault::End) }
}

/// Reads segment headers until one is the last; fills `segments` with (model, pixels), returns how many.
fn read_segments(
    bytes: &mut &[u8],
    count_type: CountType,
    mut pixels_left: usize,
    segments: &mut [(Model, usize); crate::count_code::GROUP_PIXELS],
) -> Result<usize, GroupFault> {
    for (index, segment) in segments.iter_mut().enumerate() {
        let (&code, rest) = bytes.split_first().ok_or(GroupFault::Header)?;
        *bytes = rest;
        let last = code & LAST_SEGMENT != 0;
        let pixels = if last {
            pixels_left
        } else {
            let (&pixels, rest) = bytes.split_first().ok_or(GroupFault::Header)?;
            *bytes = rest;
            usize::from(pixels)
        };
        let model = Model::read(code & !LAST_SEGMENT, count_type.bytes(), bytes).ok_or(GroupFault::Header)?;
        if pixels == 0 || pixels > pixels_left {
            return Err(GroupFault::Header);
        }
        pixels_left -= pixels;
        *segment = (model, pixels);
        if last {
            return Ok(index + 1);
        }
    }
    Err(GroupFault::Header)
}

fn decode_literal<T: Count>(
    decoder: &mut Decoder,
    count_type: CountType,
    rows: &mut [&mut [T]],
) -> Result<(), GroupFault> {
    let bits = count_type.bytes() as u32 * 8;
    for count in rows.iter_mut().flat_map(|row| row.iter_mut()) {
        *count = T::try_from(decoder.raw(bits)).map_err(|_| GroupFault::Range)?;
        decoder.turn();
    }
    Ok(())
}

fn decode_dense<T: Count>(
    caller: &mut Decoder,
    count_type: CountType,
    rows: &mut [&mut [T]],
    index: usize,
) -> Result<(), GroupFault> {
    // in registers, not behind the reference
    let mut decoder = *caller;
    let bits = count_type.bytes() as u32 * 8;
    let slots = &*dense(index).slots;
    for count in rows.iter_mut().flat_map(|row| row.iter_mut()) {
        let symbol = decoder.symbol(slots);
        let value = if symbol == OTHER { decoder.raw(bits) } else { symbol as u32 };
        *count = T::try_from(value).map_err(|_| GroupFault::Range)?;
        decoder.turn();
    }
    *caller = decoder;
    Ok(())
}

fn decode_wide<T: Count>(
    caller: &mut Decoder,
    count_type: CountType,
    rows: &mut [&mut [T]],
    centre: u32,
    shift: u32,
    table: usize,
) -> Result<(), GroupFault> {
    // in registers, not behind the reference
    let mut decoder = *caller;
    let bits = count_type.bytes() as u32 * 8;
    let slots = &*wide(table).slots;
    let base = i64::from(centre) - (WIDE_CENTRE << shift);
    for count in rows.iter_mut().flat_map(|row| row.iter_mut()) {
        let symbol = decoder.symbol(slots);
        let value = if symbol == OTHER {
            decoder.raw(bits)
        } else {
            let low = i64::from(decoder.raw(shift));
            u32::try_from(base + ((symbol as i64) << shift) + low).map_err(|_| GroupFault::Range)?
        };
        if value > count_type.marker() {
            return Err(GroupFault::Range);
        }
        *count = T::try_from(value).map_err(|_| GroupFault::Range)?;
        decoder.turn();
    }
    *caller = decoder;
    Ok(())
}

fn decode_sparse<T: Count>(
    caller: &mut Decoder,
    count_type: CountType,
    rows: &mut [&mut [T]],
    index: usize,
) -> Result<(), GroupFault> {
    // in registers, not behind the reference
    let mut decoder = *caller;
    let bits = count_type.bytes() as u32 * 8;
    let model = sparse(index);
    let (slots, shift) = (&*model.table.slots, model.shift);
    let small: [T; 4] = [1, 2, 3, 0].map(|value: u32| T::try_from(value).unwrap_or_default());
    let mut rows = rows.iter_mut();
    let Some(mut row) = rows.next() else { return Ok(()) };
    let positions = row.len();
    let mut position = 0;
    loop {
        while position >= positions {
            position -= positions;
            match rows.next() {
                Some(next) => row = next,
                None => {
                    *caller = decoder;
                    return Ok(());
                }
            }
        }
        let symbol = decoder.symbol(slots);
        if symbol == OTHER {
            position += SKIP_CELLS << shift;
            decoder.turn();
            continue;
        }
        position += (symbol >> 2) << shift;
        if shift > 0 {
            position += decoder.short_raw(shift) as usize;
        }
        while position >= positions {
            position -= positions;
            row = rows.next().ok_or(GroupFault::Range)?;
        }
        let class = symbol & 3;
        row[position] = if class < 3 {
            small[class]
        } else {
            let value = match decoder.short_raw(2) {
                3 => decoder.raw(bits),
                more => 4 + more,
            };
            T::try_from(value).map_err(|_| GroupFault::Range)?
        };
        position += 1;
        decoder.turn();
    }
}
