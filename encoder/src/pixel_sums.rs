//! The sum of every detector pixel over a block, and how often it showed the marker.

use kernels::count_code::packed::{num_words, pack, unpack, width_of};

/// Pixels that share a width.
const PIXELS: usize = 16;

/// Sums of the pixels of a block, packed: 16 consecutive pixels share a width, that of their largest sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PixelSums {
    pixels: usize,
    widths: Vec<u8>,
    words: Vec<u32>,
    marked: Vec<MarkerHits>,
}

/// A pixel that showed the marker of its count type (masked or saturated).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerHits {
    /// The pixel, row-major.
    pub pixel: u32,
    /// How often.
    pub hits: u32,
}

impl PixelSums {
    /// Packs the sums and marker hits of all pixels, row-major.
    pub(crate) fn new(sums: &[u64], marker_hits: &[u32]) -> Self {
        let mut packed =
            Self { pixels: sums.len(), widths: Vec::new(), words: Vec::new(), marked: Vec::new() };
        for sums in sums.chunks(PIXELS) {
            let width = width_of(sums.iter().copied().max().unwrap_or(0));
            packed.widths.push(width as u8);
            pack(sums.iter().copied(), width, &mut packed.words);
        }
        packed.words.shrink_to_fit();
        let marked = (0_u32..).zip(marker_hits).filter(|(_, hits)| **hits > 0);
        packed.marked = marked.map(|(pixel, &hits)| MarkerHits { pixel, hits }).collect();
        packed
    }

    /// Calls `each` with every pixel (row-major) and its sum.
    pub fn for_each(&self, mut each: impl FnMut(usize, u64)) {
        let mut words = self.words.as_slice();
        for (group, &width) in self.widths.iter().enumerate() {
            let first = group * PIXELS;
            let len = (self.pixels - first).min(PIXELS);
            let mut pixel = first;
            unpack(words, width.into(), 0, len, |sum| {
                each(pixel, sum);
                pixel += 1;
            });
            words = words.get(num_words(len, width.into())..).unwrap_or(&[]);
        }
    }

    /// The sums of all pixels, row-major.
    pub fn to_vec(&self) -> Vec<u64> {
        let mut sums = vec![0; self.pixels];
        self.for_each(|pixel, sum| sums[pixel] = sum);
        sums
    }

    /// The pixels that showed the marker, ascending.
    pub fn marked(&self) -> &[MarkerHits] {
        &self.marked
    }

    /// Bytes that the sums and the list of marked pixels take.
    pub fn bytes(&self) -> usize {
        self.widths.len() + self.words.len() * 4 + self.marked.len() * size_of::<MarkerHits>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_come_back_and_marked_pixels_are_listed() {
        let sums: Vec<u64> = (0..77).map(|pixel| (1 << (pixel % 50)) - 1).collect();
        let hits: Vec<u32> = (0..77).map(|pixel| u32::from(pixel == 30) * 5).collect();
        let packed = PixelSums::new(&sums, &hits);
        assert_eq!(packed.to_vec(), sums);
        assert_eq!(packed.marked(), [MarkerHits { pixel: 30, hits: 5 }]);
    }
}
