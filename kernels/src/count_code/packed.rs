//! Numbers of one width after the other, least significant bit first, in 32-bit words.

/// Words that `len` numbers of `width` bits take.
pub fn num_words(len: usize, width: u32) -> usize {
    (len * width as usize).div_ceil(32)
}

/// Bits that the largest of some numbers needs; 0 for 0.
pub fn width_of(largest: u64) -> u32 {
    64 - largest.leading_zeros()
}

/// Appends numbers of `width` bits, at most 64, the last word filled with zeros.
pub fn pack(numbers: impl Iterator<Item = u64>, width: u32, words: &mut Vec<u32>) {
    if width == 0 {
        return;
    }
    if width > 32 {
        return pack_wide(numbers, width, words);
    }
    let (mut waiting, mut bits) = (0_u64, 0);
    for number in numbers {
        waiting |= number << bits;
        bits += width;
        if bits >= 32 {
            words.push(waiting as u32);
            waiting >>= 32;
            bits -= 32;
        }
    }
    if bits > 0 {
        words.push(waiting as u32);
    }
}

fn pack_wide(numbers: impl Iterator<Item = u64>, width: u32, words: &mut Vec<u32>) {
    let (mut waiting, mut bits) = (0_u128, 0);
    for number in numbers {
        waiting |= u128::from(number) << bits;
        bits += width;
        while bits >= 32 {
            words.push(waiting as u32);
            waiting >>= 32;
            bits -= 32;
        }
    }
    if bits > 0 {
        words.push(waiting as u32);
    }
}

/// Calls `each` with the numbers `first..end` of a stream; numbers beyond its words read 0.
pub fn unpack(words: &[u32], width: u32, first: usize, end: usize, mut each: impl FnMut(u64)) {
    let word = |index: usize| u128::from(words.get(index).copied().unwrap_or(0));
    let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
    if width <= 32 {
        // one number lies in two neighbouring words at most
        for index in first..end {
            let bit = index * width as usize;
            let pair = (word(bit / 32) as u64) | (word(bit / 32 + 1) as u64) << 32;
            each(pair >> (bit % 32) & mask);
        }
        return;
    }
    for index in first..end {
        let (from, bit) = (index * width as usize / 32, index * width as usize % 32);
        let three = word(from) | word(from + 1) << 32 | word(from + 2) << 64;
        each((three >> bit) as u64 & mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_come_back() {
        for width in 0..=64 {
            let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            let numbers: Vec<u64> =
                (1..100_u64).map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask).collect();
            let mut words = vec![7];
            pack(numbers.iter().copied(), width, &mut words);
            assert_eq!(words.len() - 1, num_words(numbers.len(), width));
            let mut back = Vec::new();
            unpack(&words[1..], width, 0, numbers.len(), |number| back.push(number));
            assert_eq!(back, numbers);
            back.clear();
            unpack(&words[1..], width, 40, 53, |number| back.push(number));
            assert_eq!(back, numbers[40..53]);
        }
    }
}
