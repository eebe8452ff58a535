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

/// The 16-bit words of a stream that are still to come.
#[derive(Clone, Copy)]
struct Words<'a> {
    words: &'a [[u8; 2]],
    next: usize,
}

impl Words<'_> {
    /// Takes a word in when a state has run low; nothing happens when no word is left.
    #[inline(always)]
    fn refill(&mut self, state: u32) -> u32 {
        let word = match self.words.get(self.next) {
            Some(&word) => u32::from(u16::from_le_bytes(word)),
            None => return state,
        };
        // one state in eight or so runs low, and no processor can tell which: a selection, not a branch
        let low = state < STATE_LOW;
        self.next += usize::from(low);
        std::hint::select_unpredictable(low, state << 16 | word, state)
    }

    #[inline(always)]
    fn symbol(&mut self, state: &mut u32, slots: &[u32; 1 << SCALE_BITS]) -> usize {
        let slot = slots[(*state & ((1 << SCALE_BITS) - 1)) as usize];
        // below 2^31 again: frequency <= 4095, state >> 12 < 2^19
        *state = self.refill((slot >> 20) * (*state >> SCALE_BITS) + (slot >> 8 & 0xfff));
        (slot & 0xff) as usize
    }

    /// `bits` bits, at most 12.
    #[inline(always)]
    fn short_raw(&mut self, state: &mut u32, bits: u32) -> u32 {
        let value = *state & ((1 << bits) - 1);
        *state = self.refill(*state >> bits);
        value
    }

    /// `bits` bits, at most 32, by the byte, the lowest first.
    #[inline(always)]
    fn raw(&mut self, state: &mut u32, bits: u32) -> u32 {
        (0..bits).step_by(8).fold(0, |value, bit| value | self.short_raw(state, (bits - bit).min(8)) << bit)
    }
}

/// The range decoder: two states that take turns (the second unused when the stream has one) over the same words.
#[derive(Clone, Copy)]
struct Decoder<'a> {
    /// Whose turn it is.
    state: u32,
    other: u32,
    words: Words<'a>,
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
        Ok(Self { state, other, words: Words { words, next: 0 } })
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
    let decoder = Decoder::open(bytes, two)?;
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has BMI2, just asked.
        return unsafe { decode_stream_bmi2(decoder, two, &segments[..num_segments], count_type, rows) };
    }
    decode_stream_of(decoder, two, &segments[..num_segments], count_type, rows)
}

/// The processor must have BMI2: shifts by a variable that leave the flags and a register alone.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi2")]
fn decode_stream_bmi2<T: Count>(
    decoder: Decoder<'_>,
    two: bool,
    segments: &[(Model, usize)],
    count_type: CountType,
    rows: &mut [&mut [T]],
) -> Result<(), GroupFault> {
    decode_stream_of(decoder, two, segments, count_type, rows)
}

#[inline(always)]
fn decode_stream_of<T: Count>(
    decoder: Decoder<'_>,
    two: bool,
    segments: &[(Model, usize)],
    count_type: CountType,
    rows: &mut [&mut [T]],
) -> Result<(), GroupFault> {
    if two {
        decode_stream::<T, true>(decoder, segments, count_type, rows)
    } else {
        decode_stream::<T, false>(decoder, segments, count_type, rows)
    }
}

#[inline(always)]
fn decode_stream<T: Count, const TWO: bool>(
    mut decoder: Decoder<'_>,
    segments: &[(Model, usize)],
    count_type: CountType,
    rows: &mut [&mut [T]],
) -> Result<(), GroupFault> {
    let mut rest = rows;
    for &(model, pixels) in segments {
        let (rows, tail) = rest.split_at_mut(pixels);
        rest = tail;
        match model {
            Model::Zero => {}
            Model::Constant(value) => {
                let value = T::try_from(value).map_err(|_| GroupFault::Range)?;
                rows.iter_mut().for_each(|row| row.fill(value));
            }
            Model::Literal => decode_literal::<T, TWO>(&mut decoder, count_type, rows)?,
            Model::Wide { centre, shift, table } => {
                decode_wide::<T, TWO>(&mut decoder, count_type, rows, centre, shift, table)?;
            }
            Model::Sparse(index) => decode_sparse::<T, TWO>(&mut decoder, count_type, rows, index)?,
            Model::Dense(index) => decode_dense::<T, TWO>(&mut decoder, count_type, rows, index)?,
        }
    }
    let first = if TWO { STATE_LOW } else { 1 };
    let at_end = decoder.state == first
        && decoder.words.next == decoder.words.words.len()
        && (!TWO || decoder.other == first);
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

/// Every count of `rows` in turn, as `next` takes it from the words and the state whose turn it is.
#[inline(always)]
fn decode_each<'a, T: Count, const TWO: bool>(
    decoder: &mut Decoder<'a>,
    rows: &mut [&mut [T]],
    mut next: impl FnMut(&mut Words<'a>, &mut u32) -> Result<u32, GroupFault>,
) -> Result<(), GroupFault> {
    // in registers, not behind the reference
    let Decoder { state: mut a, other: mut b, mut words } = *decoder;
    let mut count = |state: &mut u32| T::try_from(next(&mut words, state)?).map_err(|_| GroupFault::Range);
    for row in rows {
        let (pairs, odd) = row.as_chunks_mut::<2>();
        for [first, second] in pairs {
            *first = count(&mut a)?;
            *second = count(if TWO { &mut b } else { &mut a })?;
        }
        for last in odd {
            *last = count(&mut a)?;
            if TWO {
                std::mem::swap(&mut a, &mut b);
            }
        }
    }
    *decoder = Decoder { state: a, other: b, words };
    Ok(())
}

#[inline(always)]
fn decode_literal<T: Count, const TWO: bool>(
    decoder: &mut Decoder<'_>,
    count_type: CountType,
    rows: &mut [&mut [T]],
) -> Result<(), GroupFault> {
    let bits = count_type.bytes() as u32 * 8;
    decode_each::<T, TWO>(decoder, rows, |words, state| Ok(words.raw(state, bits)))
}

#[inline(always)]
fn decode_dense<T: Count, const TWO: bool>(
    decoder: &mut Decoder<'_>,
    count_type: CountType,
    rows: &mut [&mut [T]],
    index: usize,
) -> Result<(), GroupFault> {
    let bits = count_type.bytes() as u32 * 8;
    let slots = &*dense(index).slots;
    decode_each::<T, TWO>(decoder, rows, |words, state| {
        let symbol = words.symbol(state, slots);
        Ok(if symbol == OTHER { words.raw(state, bits) } else { symbol as u32 })
    })
}

#[inline(always)]
fn decode_wide<T: Count, const TWO: bool>(
    decoder: &mut Decoder<'_>,
    count_type: CountType,
    rows: &mut [&mut [T]],
    centre: u32,
    shift: u32,
    table: usize,
) -> Result<(), GroupFault> {
    let bits = count_type.bytes() as u32 * 8;
    let slots = &*wide(table).slots;
    let base = i64::from(centre) - (WIDE_CENTRE << shift);
    decode_each::<T, TWO>(decoder, rows, |words, state| {
        let symbol = words.symbol(state, slots);
        let value = if symbol == OTHER {
            words.raw(state, bits)
        } else {
            let low = i64::from(words.raw(state, shift));
            u32::try_from(base + ((symbol as i64) << shift) + low).map_err(|_| GroupFault::Range)?
        };
        if value > count_type.marker() { Err(GroupFault::Range) } else { Ok(value) }
    })
}

/// Counts with the zeros before them: where the next one goes, and what its symbols mean.
struct SparseRows<'r, 'o, T> {
    slots: &'static [u32; 1 << SCALE_BITS],
    shift: u32,
    /// Bits of a count written out.
    bits: u32,
    row: &'r mut [T],
    /// Rows behind this one.
    rest: std::slice::IterMut<'r, &'o mut [T]>,
    /// In the row; behind its end it is in the next.
    position: usize,
    small: [T; 4],
}

impl<T: Count> SparseRows<'_, '_, T> {
    /// Goes to the row of the position; false where the rows end.
    #[inline(always)]
    fn settle(&mut self) -> bool {
        while self.position >= self.row.len() {
            self.position -= self.row.len();
            match self.rest.next() {
                Some(next) => self.row = next,
                None => return false,
            }
        }
        true
    }

    /// One coded item; the position has been settled.
    #[inline(always)]
    fn item(&mut self, words: &mut Words<'_>, state: &mut u32) -> Result<(), GroupFault> {
        let symbol = words.symbol(state, self.slots);
        if symbol == OTHER {
            self.position += SKIP_CELLS << self.shift;
            return Ok(());
        }
        self.position += (symbol >> 2) << self.shift;
        if self.shift > 0 {
            self.position += words.short_raw(state, self.shift) as usize;
        }
        if !self.settle() {
            return Err(GroupFault::Range);
        }
        let class = symbol & 3;
        self.row[self.position] = if class < 3 {
            self.small[class]
        } else {
            let value = match words.short_raw(state, 2) {
                3 => words.raw(state, self.bits),
                more => 4 + more,
            };
            T::try_from(value).map_err(|_| GroupFault::Range)?
        };
        self.position += 1;
        Ok(())
    }
}

#[inline(always)]
fn decode_sparse<T: Count, const TWO: bool>(
    decoder: &mut Decoder<'_>,
    count_type: CountType,
    rows: &mut [&mut [T]],
    index: usize,
) -> Result<(), GroupFault> {
    let model = sparse(index);
    let mut rest = rows.iter_mut();
    let Some(row) = rest.next() else { return Ok(()) };
    let mut rows = SparseRows {
        slots: &model.table.slots,
        shift: model.shift,
        bits: count_type.bytes() as u32 * 8,
        row,
        rest,
        position: 0,
        small: [1, 2, 3, 0].map(|value: u32| T::try_from(value).unwrap_or_default()),
    };
    // in registers, not behind the reference
    let Decoder { state: mut a, other: mut b, mut words } = *decoder;
    loop {
        if !rows.settle() {
            *decoder = Decoder { state: a, other: b, words };
            return Ok(());
        }
        rows.item(&mut words, &mut a)?;
        if TWO {
            if !rows.settle() {
                *decoder = Decoder { state: b, other: a, words };
                return Ok(());
            }
            rows.item(&mut words, &mut b)?;
        }
    }
}
