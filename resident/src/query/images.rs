//! Counts themselves: frames, regions, scan images of detector pixels.

use std::ops::Range;

use kernels::Cpu;
use kernels::count_code::GROUP_PIXELS;
use kernels::decode_counts::{DecodeCounts, ImageWindow};
use kernels::types::Count;
use rayon::prelude::*;

use super::{Part, filled};
use crate::coverage::{Answer, Coverage, Missing};
use crate::error::ResidentError;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// One frame, `[det_row][det_col]`.
    ///
    /// # Errors
    /// [`ResidentError`]: outside the scan, missing under [`Missing::Fail`], `T` narrower than the counts.
    pub fn frame<T: Count>(&self, position: u64, missing: Missing) -> Result<Answer<Vec<T>>, ResidentError> {
        let detector = self.detector();
        self.region(position..position.saturating_add(1), 0..detector.rows, 0..detector.cols, missing)
    }

    /// A crop of the detector over a range of scan positions, `[position][det_row][det_col]`.
    ///
    /// # Errors
    /// [`ResidentError`]: outside scan or detector, missing under [`Missing::Fail`], `T` narrower than the counts, no
    /// memory for the answer.
    pub fn region<T: Count>(
        &self,
        positions: Range<u64>,
        det_rows: Range<usize>,
        det_cols: Range<usize>,
        missing: Missing,
    ) -> Result<Answer<Vec<T>>, ResidentError> {
        let detector = self.detector();
        for (what, got, len) in
            [("detector rows", &det_rows, detector.rows), ("detector columns", &det_cols, detector.cols)]
        {
            if got.start > got.end || got.end > len {
                return Err(ResidentError::OutsideAxis { what, got: got.clone(), len });
            }
        }
        let coverage = missing.allow(self.coverage(positions.clone())?)?;
        let pixels: Vec<u32> = det_rows
            .flat_map(|row| det_cols.clone().map(move |col| (row * detector.cols + col) as u32))
            .collect();
        let asked = positions.end - positions.start;
        let mut value = filled("a region", asked, pixels.len(), T::default())?;
        if pixels.is_empty() {
            return Ok(Answer { value, coverage });
        }
        for part in self.parts(positions) {
            let Some((block, within)) = part.held().filter(|(_, within)| !within.is_empty()) else {
                continue;
            };
            let len = within.len();
            let mut images = filled("a region", len as u64, pixels.len(), T::default())?;
            let window = ImageWindow { stride: len, column: 0 };
            Cpu.decode_pixels(block.counts(), &pixels, within, &mut images, window)
                .map_err(|error| ResidentError::Decode { first: block.first(), error })?;
            let frames = &mut value[part.at * pixels.len()..(part.at + len) * pixels.len()];
            frames.par_chunks_mut(pixels.len()).enumerate().for_each(|(position, frame)| {
                for (count, image) in frame.iter_mut().zip(images.chunks_exact(len)) {
                    *count = image[position];
                }
            });
        }
        Ok(Answer { value, coverage })
    }

    /// Scan images of detector pixels over a range of scan positions, `[pixel][position]` in the order of `pixels`;
    /// repeats are allowed. Pixels that follow each other are decoded together, 16 at a time: ask for many at once, and
    /// for whole intervals ([`encoder::INTERVAL`] positions) where possible.
    ///
    /// # Errors
    /// [`ResidentError`]: outside scan or detector, missing under [`Missing::Fail`], `T` narrower than the counts, no
    /// memory for the answer.
    pub fn pixel_images<T: Count>(
        &self,
        pixels: &[u32],
        positions: Range<u64>,
        missing: Missing,
    ) -> Result<Answer<Vec<T>>, ResidentError> {
        let mut value = Vec::new();
        let coverage = self.pixel_images_into(pixels, positions, missing, &mut value)?;
        Ok(Answer { value, coverage })
    }

    /// As [`Self::pixel_images`], into memory that is used again: `out` is resized to fit, what it held is overwritten.
    ///
    /// # Errors
    /// As [`Self::pixel_images`]; what `out` holds is then undefined.
    pub fn pixel_images_into<T: Count>(
        &self,
        pixels: &[u32],
        positions: Range<u64>,
        missing: Missing,
        out: &mut Vec<T>,
    ) -> Result<Coverage, ResidentError> {
        self.check_pixels(pixels)?;
        let coverage = missing.allow(self.coverage(positions.clone())?)?;
        let stride = (positions.end - positions.start) as usize;
        let len = stride.saturating_mul(pixels.len());
        if out.len() < len && out.try_reserve_exact(len - out.len()).is_err() {
            return Err(ResidentError::TooLarge {
                what: "pixel images",
                positions: stride as u64,
                pixels: pixels.len() as u64,
                bytes: (len as u64).saturating_mul(size_of::<T>() as u64),
            });
        }
        out.resize(len, T::default());
        if len == 0 {
            return Ok(coverage);
        }
        let parts = self.parts(positions);
        // one block's groups are enough work for all threads, or the blocks are
        if pixels.len() / GROUP_PIXELS >= 4 * rayon::current_num_threads() || parts.len() < 2 {
            for part in parts {
                self.images_of_part(pixels, &part, out, ImageWindow { stride, column: part.at })?;
            }
            return Ok(coverage);
        }
        let images: Vec<(Part<'_>, Vec<T>)> = parts
            .into_par_iter()
            .map(|part| {
                let len = part.within.len();
                let mut images = vec![T::default(); len * pixels.len()];
                self.images_of_part(pixels, &part, &mut images, ImageWindow { stride: len, column: 0 })?;
                Ok((part, images))
            })
            .collect::<Result<_, ResidentError>>()?;
        out.par_chunks_mut(stride).enumerate().for_each(|(pixel, whole)| {
            for (part, images) in &images {
                let len = part.within.len();
                whole[part.at..part.at + len].copy_from_slice(&images[pixel * len..(pixel + 1) * len]);
            }
        });
        Ok(coverage)
    }

    /// Writes every position of a part: counts where the block has them, 0 elsewhere.
    fn images_of_part<T: Count>(
        &self,
        pixels: &[u32],
        part: &Part<'_>,
        out: &mut Vec<T>,
        window: ImageWindow,
    ) -> Result<(), ResidentError> {
        let held = part.held();
        let len = held.as_ref().map_or(0, |(_, within)| within.len());
        if len < part.within.len() {
            for image in out.chunks_mut(window.stride) {
                image[window.column + len..window.column + part.within.len()].fill(T::default());
            }
        }
        let Some((block, within)) = held else { return Ok(()) };
        Cpu.decode_pixels(block.counts(), pixels, within, out, window)
            .map_err(|error| ResidentError::Decode { first: block.first(), error })
    }
}
