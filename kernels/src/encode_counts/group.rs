//! One group: the events of its pixels to bytes. The stream is written from its end, so that it is read forwards.

use super::choice::{Segment, choose};
use super::stats::Stats;
use crate::count_code::model::Model;
use crate::count_code::tables::{
    OTHER, SKIP_CELLS, SparseTable, Symbol, Table, WIDE_CENTRE, dense, sparse, wide,
};
use crate::count_code::{GROUP_PIXELS, INTERVAL, LAST_SEGMENT, STATE_LOW, TWO_STATES};
use crate::types::CountType;

/// A count that is not 0 and where it stands among the covered positions of the interval.
pub(crate) trait Event: Copy + Default + Send + Sync + std::fmt::Debug {
    /// Joins a position below 1024 and a count.
    fn new(position: usize, count: u32) -> Self;
    /// The position.
    fn position(self) -> usize;
    /// The count.
    fn count(self) -> u32;
    /// The sparse symbol of a count below 4 with fewer than sixteen zeros since `before`, [`UNUSUAL`] for others.
    #[inline(always)]
    fn symbol_after(self, before: Self) -> u8 {
        let cells = self.position().wrapping_sub(before.position() + 1);
        let class = self.count().wrapping_sub(1);
        if cells < SKIP_CELLS && class < 3 { (4 * cells) as u8 | class as u8 } else { UNUSUAL }
    }
}

/// Position in the low 10 bits, a count of at most 6 bits above.
impl Event for u16 {
    #[inline(always)]
    fn new(position: usize, count: u32) -> Self {
        (count << 10) as Self | position as Self
    }
    #[inline(always)]
    fn position(self) -> usize {
        (self & 1023).into()
    }
    #[inline(always)]
    fn count(self) -> u32 {
        (self >> 10).into()
    }
    /// In 16 bits throughout, so that a vector holds as many as can be.
    #[inline(always)]
    fn symbol_after(self, before: Self) -> u8 {
        let cells = (self & 1023).wrapping_sub((before & 1023) + 1);
        let class = (self >> 10).wrapping_sub(1);
        let symbol = (cells << 2 | class) as u8;
        if cells < SKIP_CELLS as Self && class < 3 { symbol } else { UNUSUAL }
    }
}

/// Position in the low 10 bits, a count of at most 16 bits above.
impl Event for u32 {
    #[inline(always)]
    fn new(position: usize, count: u32) -> Self {
        count << 10 | position as u32
    }
    #[inline(always)]
    fn position(self) -> usize {
        (self & 1023) as usize
    }
    #[inline(always)]
    fn count(self) -> u32 {
        self >> 10
    }
}

/// Position in the low 10 bits, a count of at most 32 bits above.
impl Event for u64 {
    #[inline(always)]
    fn new(position: usize, count: u32) -> Self {
        u64::from(count) << 10 | position as u64
    }
    #[inline(always)]
    fn position(self) -> usize {
        (self & 1023) as usize
    }
    #[inline(always)]
    fn count(self) -> u32 {
        (self >> 10) as u32
    }
}

/// Words that the longest group can take: a sparse count of 32 bits written out takes seven at most (symbol, place in
/// the cell, class, four of the value), and no position takes more; a symbol for sixteen zeros or more takes one.
const MOST_WORDS: usize = GROUP_PIXELS * INTERVAL * 8 + 64;
/// Counts from which two states are worth their bytes.
const EVENTS_FOR_TWO_STATES: u64 = 64;

/// Encodes groups one after the other; holds the work space.
#[derive(Debug)]
pub(crate) struct GroupEncoder {
    words: Box<[u16; MOST_WORDS]>,
    stats: Vec<Stats>,
    /// Counts of a pixel, where they are coded one by one.
    counts: Vec<u32>,
    /// Symbols of a pixel, where its counts are coded with the zeros before them.
    symbols: Box<[u8; INTERVAL]>,
    /// Bits of a count written out.
    count_bits: u32,
}

impl GroupEncoder {
    pub(crate) fn new(count_type: CountType) -> Self {
        let count_bits = count_type.bytes() as u32 * 8;
        Self {
            words: Box::new([0; MOST_WORDS]),
            stats: Vec::with_capacity(GROUP_PIXELS),
            counts: vec![0; INTERVAL],
            symbols: Box::new([0; INTERVAL]),
            count_bits,
        }
    }

    /// Appends the bytes of a group to `out`: the events of each pixel, positions ascending, of `samples` (1 to 1024, or
    /// 0 where no pixel has events). Returns the statistics of the pixels.
    pub(crate) fn encode<E: Event>(
        &mut self,
        pixels: &[&[E]],
        samples: usize,
        out: &mut Vec<u8>,
    ) -> &[Stats] {
        self.stats.clear();
        self.stats.extend(pixels.iter().map(|events| Stats::of(events, samples)));
        if pixels.iter().all(|events| events.is_empty()) {
            return &self.stats;
        }
        let count_bytes = self.count_bits as usize / 8;
        let mut segments = [(Model::Zero, 0); GROUP_PIXELS];
        let num_segments = choose(&self.stats, count_bytes, &mut segments);
        let start = out.len();
        self.write(&segments[..num_segments], pixels, samples, out);
        // an estimate can be wrong about odd counts; two bytes of header, at most eight of states
        if out.len() - start > pixels.len() * samples * count_bytes + 10 {
            out.truncate(start);
            self.write(&[(Model::Literal, pixels.len())], pixels, samples, out);
        }
        &self.stats
    }

    fn write<E: Event>(&mut self, segments: &[Segment], pixels: &[&[E]], samples: usize, out: &mut Vec<u8>) {
        let events: u64 = self.stats.iter().map(|stats| stats.events).sum();
        let two = events >= EVENTS_FOR_TWO_STATES;
        if two {
            out.push(TWO_STATES);
        }
        for (index, (model, pixels)) in segments.iter().enumerate() {
            if index + 1 == segments.len() {
                out.push(model.code() | LAST_SEGMENT);
            } else {
                out.extend_from_slice(&[model.code(), *pixels as u8]);
            }
            model.write_parameters(self.count_bits as usize / 8, out);
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has AVX2 and BMI2, just asked.
            return unsafe { self.write_stream_avx2(two, segments, pixels, samples, out) };
        }
        self.write_stream_of(two, segments, pixels, samples, out);
    }

    /// The processor must have AVX2 and BMI2: products that leave more registers free, symbols sixteen at a time.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi2")]
    fn write_stream_avx2<E: Event>(
        &mut self,
        two: bool,
        segments: &[Segment],
        pixels: &[&[E]],
        samples: usize,
        out: &mut Vec<u8>,
    ) {
        self.write_stream_of(two, segments, pixels, samples, out);
    }

    #[inline(always)]
    fn write_stream_of<E: Event>(
        &mut self,
        two: bool,
        segments: &[Segment],
        pixels: &[&[E]],
        samples: usize,
        out: &mut Vec<u8>,
    ) {
        if two {
            self.write_stream::<E, true>(segments, pixels, samples, out);
        } else {
            self.write_stream::<E, false>(segments, pixels, samples, out);
        }
    }

    #[inline(always)]
    fn write_stream<E: Event, const TWO: bool>(
        &mut self,
        segments: &[Segment],
        pixels: &[&[E]],
        samples: usize,
        out: &mut Vec<u8>,
    ) {
        let first = self.words.len();
        // a single state starts as small as it can and so costs what it holds; two share the words, and each can
        // tell whether the next is its own only while it stays above the lower bound
        let state = if TWO { STATE_LOW } else { 1 };
        let mut coder = Coder::<TWO> { state, other: state, words: &mut self.words, first };
        let mut end = pixels.len();
        for &(model, num_pixels) in segments.iter().rev() {
            let start = end - num_pixels;
            let pixels = &pixels[start..end];
            end = start;
            match model {
                Model::Zero | Model::Constant(_) => {}
                Model::Sparse(index) => {
                    let SparseTable { table, shift, .. } = sparse(index);
                    match shift {
                        // most counts are in segments whose cells are single zeros
                        0 => {
                            let listed = Some(&mut *self.symbols);
                            write_sparse(&mut coder, table, 0, pixels, samples, self.count_bits, listed);
                        }
                        _ => write_sparse(&mut coder, table, *shift, pixels, samples, self.count_bits, None),
                    }
                }
                Model::Literal | Model::Dense(_) | Model::Wide { .. } => {
                    for events in pixels.iter().rev() {
                        let counts = &mut self.counts[..samples];
                        counts.fill(0);
                        events.iter().for_each(|event| counts[event.position()] = event.count());
                        write_counts(&mut coder, model, counts, self.count_bits);
                    }
                }
            }
        }
        coder.finish(out);
    }
}

/// Writes every count of a pixel, zeros too, the last first, by a model that codes them one by one.
fn write_counts<const TWO: bool>(coder: &mut Coder<TWO>, model: Model, counts: &[u32], count_bits: u32) {
    // in registers, not behind the reference
    let mut local = Coder::<TWO> { words: &mut *coder.words, ..*coder };
    let (table, base, shift) = match model {
        Model::Dense(index) => (dense(index), 0, 0),
        Model::Wide { centre, shift, table } => {
            (wide(table), i64::from(centre) - (WIDE_CENTRE << shift), shift)
        }
        _ => {
            for &count in counts.iter().rev() {
                local.turn();
                local.raw(count, count_bits);
            }
            (coder.state, coder.other, coder.first) = (local.state, local.other, local.first);
            return;
        }
    };
    for &count in counts.iter().rev() {
        local.turn();
        let above = i64::from(count) - base;
        let coded = usize::try_from(above >> shift).unwrap_or(OTHER).min(OTHER);
        let symbol = &table.symbols[coded];
        if coded < OTHER && symbol.is_coded() {
            local.raw((above & ((1 << shift) - 1)) as u32, shift);
            local.symbol(symbol);
        } else {
            local.raw(count, count_bits);
            local.symbol(&table.symbols[OTHER]);
        }
    }
    (coder.state, coder.other, coder.first) = (local.state, local.other, local.first);
}

/// Writes the counts of a sparse segment, the last first: each with the run of zeros before it. Where there is room to
/// list the symbols of a pixel first, cells are single zeros.
#[inline(always)]
fn write_sparse<E: Event, const TWO: bool>(
    coder: &mut Coder<TWO>,
    table: &Table,
    shift: u32,
    pixels: &[&[E]],
    samples: usize,
    count_bits: u32,
    mut symbols: Option<&mut [u8; INTERVAL]>,
) {
    // in registers, not behind the reference
    let mut local = Coder::<TWO> { words: &mut *coder.words, ..*coder };
    // for each pixel, the place behind the last count before it
    let mut starts = [0; GROUP_PIXELS];
    let mut end = 0;
    for ((pixel, events), start) in pixels.iter().enumerate().zip(&mut starts) {
        *start = end;
        end = events.last().map_or(end, |last| pixel * samples + last.position() + 1);
    }
    write_skips(&mut local, table, (pixels.len() * samples - end).div_ceil(SKIP_CELLS << shift));
    for ((pixel, events), start) in pixels.iter().enumerate().zip(starts).rev() {
        let zeros = |before: E, event: E| event.position() - before.position() - 1;
        match &mut symbols {
            Some(symbols) => {
                let mut symbols = list_symbols(events, symbols);
                while let [rest @ .., symbol] = symbols {
                    symbols = rest;
                    if *symbol == UNUSUAL {
                        let (before, event) = (events[rest.len()], events[rest.len() + 1]);
                        write_count(&mut local, table, 0, zeros(before, event), event.count(), count_bits);
                    } else {
                        local.turn();
                        local.symbol(&table.symbols[usize::from(*symbol) % OTHER]);
                    }
                }
            }
            None => {
                for pair in events.windows(2).rev() {
                    write_count(
                        &mut local,
                        table,
                        shift,
                        zeros(pair[0], pair[1]),
                        pair[1].count(),
                        count_bits,
                    );
                }
            }
        }
        if let Some(first) = events.first() {
            let zeros = pixel * samples + first.position() - start;
            write_count(&mut local, table, shift, zeros, first.count(), count_bits);
        }
    }
    (coder.state, coder.other, coder.first) = (local.state, local.other, local.first);
}

/// Stands for a count that takes more than one symbol.
const UNUSUAL: u8 = u8::MAX;

/// The symbol of each count but the first, with the zeros before it, for cells that are single zeros. No branches, so
/// that compilers make vectors of it.
#[inline(always)]
fn list_symbols<'a, E: Event>(events: &[E], symbols: &'a mut [u8; INTERVAL]) -> &'a [u8] {
    let symbols = &mut symbols[..events.len().saturating_sub(1)];
    for ((symbol, &before), &event) in symbols.iter_mut().zip(events).zip(events.iter().skip(1)) {
        *symbol = event.symbol_after(before);
    }
    symbols
}

/// Writes a run of zeros and the count behind it.
#[inline(always)]
fn write_count<const TWO: bool>(
    coder: &mut Coder<TWO>,
    table: &Table,
    shift: u32,
    zeros: usize,
    count: u32,
    count_bits: u32,
) {
    coder.turn();
    let class = count.wrapping_sub(1).min(3) as usize;
    if class == 3 {
        if count < 7 {
            coder.short_raw(count - 4, 2);
        } else {
            coder.raw(count, count_bits);
            coder.short_raw(3, 2);
        }
    }
    if shift > 0 {
        coder.short_raw((zeros & ((1 << shift) - 1)) as u32, shift);
    }
    let cells = zeros >> shift;
    coder.symbol(&table.symbols[4 * (cells % SKIP_CELLS) + class]);
    write_skips(coder, table, cells / SKIP_CELLS);
}

/// Writes full runs of cells of zeros.
#[inline(always)]
fn write_skips<const TWO: bool>(coder: &mut Coder<TWO>, table: &Table, skips: usize) {
    for _ in 0..skips {
        coder.turn();
        coder.symbol(&table.symbols[OTHER]);
    }
}

/// The range coder: two states (one unused where the stream has one), words from the back of the buffer.
struct Coder<'a, const TWO: bool> {
    state: u32,
    other: u32,
    words: &'a mut [u16; MOST_WORDS],
    first: usize,
}

impl<const TWO: bool> Coder<'_, TWO> {
    /// Changes to the state of the item before: called before the item's parts are written.
    #[inline(always)]
    fn turn(&mut self) {
        if TWO {
            std::mem::swap(&mut self.state, &mut self.other);
        }
    }

    /// Gives up a word when the state is at `limit`.
    #[inline(always)]
    fn give_up(&mut self, limit: u32) {
        let full = self.state >= limit;
        self.words[self.first - 1] = self.state as u16;
        self.first -= usize::from(full);
        self.state = if full { self.state >> 16 } else { self.state };
    }

    #[inline(always)]
    fn symbol(&mut self, symbol: &Symbol) {
        self.give_up(symbol.limit);
        self.state = symbol.step(self.state);
    }

    /// `bits` bits, at most 12.
    #[inline(always)]
    fn short_raw(&mut self, value: u32, bits: u32) {
        self.give_up(1 << (31 - bits));
        self.state = self.state << bits | value;
    }

    /// `bits` bits, at most 32, by the byte: the lowest is read first, so written last.
    #[inline(always)]
    fn raw(&mut self, value: u32, bits: u32) {
        for byte in (0..bits.div_ceil(8)).rev() {
            self.short_raw(value >> (byte * 8) & 0xff, (bits - byte * 8).min(8));
        }
    }

    /// Writes states and words. The state written last is read first.
    fn finish(self, out: &mut Vec<u8>) {
        let words = &self.words[self.first..];
        let states = [self.state, self.other];
        for state in &states[..1 + usize::from(TWO)] {
            let bytes = state.to_le_bytes();
            let short = 4 - state.leading_zeros() as usize / 8;
            let len = match (TWO, words.is_empty(), *state) {
                (false, true, 1) => 0,
                (false, true, _) => short,
                _ => 4,
            };
            out.extend_from_slice(&bytes[..len]);
        }
        if cfg!(target_endian = "little") {
            out.extend_from_slice(bytemuck::cast_slice(words));
        } else {
            out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
    }
}
