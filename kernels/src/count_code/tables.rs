//! The probability tables: integer frequencies that add up to 4096, computed by a rule that has no rounding freedom.
//!
//! Three families, all over [`SYMBOLS`] symbols:
//! - *sparse* `k`: symbol `4 h + c` is a run of `h` (0 to 15) cells of `2^shift` zeros and then a count of class `c`
//!   (1, 2, 3, at least 4); symbol 64 is sixteen cells of zeros and no count. Rate `RATIO[k % 4] 2^(k / 4 - 15)`.
//! - *dense* `j`: symbol is the count, 64 stands for any other. Poisson with mean `(16 + 3 j)^2 / 400`.
//! - *wide* `k`: symbol is `(count - base) >> shift`, 64 stands for any other. Gaussian about 32 of
//!   standard deviation `2.8 RATIO[k]`.

use std::sync::OnceLock;

use super::SCALE_BITS;
use super::numbers::{exp, log2};

/// Symbols of every table.
pub(crate) const SYMBOLS: usize = 65;
/// The symbol that stands for what the others do not: sixteen cells of zeros (sparse), any other count (dense, wide).
pub(crate) const OTHER: usize = 64;
/// Cells of zeros that [`OTHER`] skips in a sparse table.
pub(crate) const SKIP_CELLS: usize = 16;
/// Number of sparse tables.
pub(crate) const SPARSE_TABLES: usize = 60;
/// Number of dense tables.
pub(crate) const DENSE_TABLES: usize = 29;
/// Number of wide tables.
pub(crate) const WIDE_TABLES: usize = 4;
/// Symbol at which a wide table has its centre.
pub(crate) const WIDE_CENTRE: i64 = 32;

/// 2^(i / 4), correctly rounded.
pub(crate) const RATIO: [f64; 4] =
    [1.0, 1.189_207_115_002_721, std::f64::consts::SQRT_2, 1.681_792_830_507_429];
const SCALE: u32 = 1 << SCALE_BITS;

/// One symbol as the encoder needs it: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    /// `ceil(2^64 / frequency)`, at most `2^64 - 1`: see [`step`](Self::step).
    reciprocal: u64,
    /// States from here on give up a word first.
    pub(crate) limit: u32,
    /// First slot; for a frequency of 1 the gap more.
    bias: u16,
    /// Slots of all other symbols.
    gap: u16,
}

impl Symbol {
    /// A symbol that is never coded.
    const NEVER: Self = Self { reciprocal: 0, limit: 0, bias: 0, gap: SCALE as u16 };

    fn new(start: u32, frequency: u16) -> Self {
        if frequency == 0 {
            return Self::NEVER;
        }
        let wide = u32::from(frequency);
        let gap = SCALE - wide;
        let bias = if frequency == 1 { start + gap } else { start };
        Self {
            // 2^64 / frequency, rounded up: for 1 it is one less than that
            reciprocal: u64::MAX / u64::from(wide) + u64::from(frequency > 1),
            limit: wide << (31 - SCALE_BITS),
            bias: bias as u16,
            gap: gap as u16,
        }
    }

    /// Whether the symbol is ever coded.
    #[inline(always)]
    pub(crate) fn is_coded(&self) -> bool {
        self.gap < SCALE as u16
    }

    /// The state after this symbol, `state / frequency * 4096 + state % frequency + start`; `state` is at least 1 and below
    /// `limit`.
    #[inline(always)]
    pub(crate) fn step(&self, state: u32) -> u32 {
        // the reciprocal is less than 1 too large, so the product less than 2^31 / 2^64 and the quotient not at all; where
        // it is 1 too small the quotient is too, and the bias makes up for it
        let quotient = ((u128::from(state) * u128::from(self.reciprocal)) >> 64) as u32;
        state + quotient * u32::from(self.gap) + u32::from(self.bias)
    }
}

/// One table, for encoding and decoding.
#[derive(Debug)]
pub(crate) struct Table {
    /// By symbol.
    pub(crate) symbols: [Symbol; SYMBOLS],
    /// By slot: `frequency << 20 | (slot - start) << 8 | symbol`.
    pub(crate) slots: Box<[u32; SCALE as usize]>,
}

/// A sparse table with what its choice and its use need beside the frequencies.
#[derive(Debug)]
pub(crate) struct SparseTable {
    /// The table.
    pub(crate) table: Table,
    /// log2 of the zeros in a cell.
    pub(crate) shift: u32,
    /// Bits a count costs beside its class, and each zero.
    pub(crate) event_bits: f64,
    /// Bits of one zero.
    pub(crate) zero_bits: f64,
    /// Bits of the classes 1, 2, 3, at least 4.
    pub(crate) class_bits: [f64; 4],
}

/// Rate of counts of sparse table `index`.
pub(crate) fn sparse_rate(index: usize) -> f64 {
    let mut rate = RATIO[index % 4];
    for _ in index / 4..15 {
        rate *= 0.5;
    }
    rate
}

/// Mean of dense table `index`.
pub(crate) fn dense_mean(index: usize) -> f64 {
    let root = (16 + 3 * index) as f64;
    root * root / 400.0
}

/// Standard deviation of wide table `index`, in cells.
pub(crate) fn wide_deviation(index: usize) -> f64 {
    2.8 * RATIO[index % 4]
}

/// Sparse table `index`, below [`SPARSE_TABLES`].
pub(crate) fn sparse(index: usize) -> &'static SparseTable {
    static TABLES: [OnceLock<SparseTable>; SPARSE_TABLES] = [const { OnceLock::new() }; SPARSE_TABLES];
    TABLES[index].get_or_init(|| {
        let rate = sparse_rate(index);
        let shift = 12_usize.saturating_sub(index / 4) as u32;
        // exp(-rate 2^shift), by squaring
        let no_count = 1.0 / exp(rate);
        let mut no_count_in_cell = no_count;
        for _ in 0..shift {
            no_count_in_cell *= no_count_in_cell;
        }
        let mut classes = [rate, rate * rate / 2.0, rate * rate * rate / 6.0, 0.0];
        let mut term = classes[2];
        for count in 4..30 {
            term = term * rate / f64::from(count);
            classes[3] += term;
        }
        let any = classes[0] + classes[1] + classes[2] + classes[3];
        let mut weights = [0.0; SYMBOLS];
        let mut run = 1.0;
        for cells in 0..SKIP_CELLS {
            for class in 0..4 {
                weights[cells * 4 + class] = run * (1.0 - no_count_in_cell) * classes[class] / any;
            }
            run *= no_count_in_cell;
        }
        weights[OTHER] = run;
        SparseTable {
            table: Table::new(&frequencies(&weights, 0.0)),
            shift,
            event_bits: f64::from(shift) - log2(1.0 - no_count_in_cell),
            zero_bits: -log2(no_count),
            class_bits: classes.map(|class| -log2(class / any)),
        }
    })
}

/// Dense table `index`, below [`DENSE_TABLES`].
pub(crate) fn dense(index: usize) -> &'static Table {
    static TABLES: [OnceLock<Table>; DENSE_TABLES] = [const { OnceLock::new() }; DENSE_TABLES];
    TABLES[index].get_or_init(|| {
        let mean = dense_mean(index);
        let mut weights = [0.0; SYMBOLS];
        let mut term = 1.0;
        for (count, weight) in weights.iter_mut().enumerate() {
            *weight = term;
            term = term * mean / (count + 1) as f64;
        }
        Table::new(&frequencies(&weights, 0.25))
    })
}

/// Wide table `index`, below [`WIDE_TABLES`].
pub(crate) fn wide(index: usize) -> &'static Table {
    static TABLES: [OnceLock<Table>; WIDE_TABLES] = [const { OnceLock::new() }; WIDE_TABLES];
    TABLES[index].get_or_init(|| {
        let deviation = wide_deviation(index);
        // u^(d^2) from u^((d - 1)^2) u^(2 d - 1)
        let u = 1.0 / exp(1.0 / (2.0 * deviation * deviation));
        let mut powers = [1.0; WIDE_CENTRE as usize + 1];
        let mut odd = u;
        for distance in 1..powers.len() {
            powers[distance] = powers[distance - 1] * odd;
            odd *= u * u;
        }
        let mut weights = [0.0; SYMBOLS];
        for (symbol, weight) in weights.iter_mut().enumerate().take(OTHER) {
            *weight = powers[symbol.abs_diff(WIDE_CENTRE as usize)];
        }
        Table::new(&frequencies(&weights, 0.25))
    })
}

/// Frequencies that add up to 4096: weight times 4096 over the sum of weights, rounded half up, at least 1. Symbols
/// whose exact share is below `least` slots get none, except [`OTHER`]. What is left over or missing is given to, or
/// taken one by one from, the symbol with the most (the first of equals).
fn frequencies(weights: &[f64; SYMBOLS], least: f64) -> [u16; SYMBOLS] {
    let mut total = 0.0;
    for weight in weights {
        total += weight;
    }
    let mut frequencies = [0_u16; SYMBOLS];
    let mut sum = 0_u32;
    for (symbol, frequency) in frequencies.iter_mut().enumerate() {
        let share = weights[symbol] * f64::from(SCALE) / total;
        if share >= least || symbol == OTHER {
            *frequency = ((share + 0.5).floor() as u16).max(1);
        }
        sum += u32::from(*frequency);
    }
    let first_largest = |frequencies: &[u16; SYMBOLS]| {
        let mut largest = 0;
        for symbol in 1..SYMBOLS {
            if frequencies[symbol] > frequencies[largest] {
                largest = symbol;
            }
        }
        largest
    };
    while sum > SCALE {
        frequencies[first_largest(&frequencies)] -= 1;
        sum -= 1;
    }
    frequencies[first_largest(&frequencies)] += (SCALE - sum) as u16;
    frequencies
}

impl Table {
    fn new(frequencies: &[u16; SYMBOLS]) -> Self {
        let mut symbols = [Symbol::NEVER; SYMBOLS];
        let mut slots = Box::new([0_u32; SCALE as usize]);
        let mut start = 0_u32;
        for (symbol, &frequency) in frequencies.iter().enumerate() {
            let wide = u32::from(frequency);
            for offset in 0..wide {
                slots[(start + offset) as usize] = wide << 20 | offset << 8 | symbol as u32;
            }
            symbols[symbol] = Symbol::new(start, frequency);
            start += wide;
        }
        Self { symbols, slots }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<&'static Table> {
        (0..SPARSE_TABLES)
            .map(|index| &sparse(index).table)
            .chain((0..DENSE_TABLES).map(dense))
            .chain((0..WIDE_TABLES).map(wide))
            .collect()
    }

    /// The frequencies of a table, from its slots.
    fn frequencies_of(table: &Table) -> [u32; SYMBOLS] {
        let mut frequencies = [0; SYMBOLS];
        table.slots.iter().for_each(|slot| frequencies[(slot & 0xff) as usize] += 1);
        frequencies
    }

    #[test]
    fn every_slot_belongs_to_one_symbol_and_steps_are_those_of_division() {
        for table in all() {
            let frequencies = frequencies_of(table);
            let mut start = 0;
            for (symbol, &frequency) in table.symbols.iter().zip(&frequencies) {
                assert_eq!(symbol.is_coded(), frequency > 0);
                if symbol.is_coded() {
                    assert!(frequency < 4096);
                    let states = [1, 2, 3, 4095, 4096, 32767, 1 << 20, symbol.limit - 1, symbol.limit >> 1];
                    for x in states.into_iter().filter(|&state| state < symbol.limit) {
                        let expected = x / frequency * 4096 + x % frequency + start;
                        assert_eq!(symbol.step(x), expected, "{x}, {frequency}");
                    }
                }
                start += frequency;
            }
            assert!(frequencies[OTHER] > 0);
        }
    }

    /// FNV-1a over all frequencies (u16, little-endian), tables in order: written into the format's documentation.
    #[test]
    fn the_tables_are_the_ones_of_the_format() {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for table in all() {
            for frequency in frequencies_of(table) {
                for byte in (frequency as u16).to_le_bytes() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                }
            }
        }
        assert_eq!(format!("{hash:016x}"), TABLES_HASH);
    }

    const TABLES_HASH: &str = "10653b29f9f17c02";
}
