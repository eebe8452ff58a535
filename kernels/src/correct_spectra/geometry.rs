//! Where the bright-field pixels are, by blocks of 16 and chunks of 256.

use super::{BrightFieldPixels, GammaModel};
use crate::lanes::{LANES, Lanes};
use crate::transform_rows::{BLOCKS_PER_CHUNK, SpectraShape};

/// Sixteen pixels.
#[derive(Clone, Debug)]
pub(crate) struct BlockGeometry {
    /// k, for the inner loop.
    pub(crate) row: Lanes,
    pub(crate) col: Lanes,
    /// What f32 leaves out of k: at the edge of an aperture it counts.
    pub(crate) row_rest: Lanes,
    pub(crate) col_rest: Lanes,
    /// chi(k) in turns, whole turns taken off.
    pub(crate) chi_turns: Lanes,
    /// A(k); 0 for pixels that are not used.
    pub(crate) aperture: Lanes,
    /// All sixteen are used and inside the aperture.
    pub(crate) whole: bool,
    /// k in float64, for the few that are too close to an edge.
    pub(crate) exact: [[f64; 2]; LANES],
}

/// Up to 16 blocks, each inside a band around a line segment, by which most blocks are told to be wholly inside or
/// outside an aperture without a look at their pixels.
#[derive(Clone, Debug)]
pub(crate) struct ChunkGeometry {
    pub(crate) blocks: Vec<BlockGeometry>,
    /// Middle of the segment of each block.
    pub(crate) centre: [Lanes; 2],
    /// From the middle to the end of the segment.
    pub(crate) half: [Lanes; 2],
    /// 1 / |half|^2.
    pub(crate) inverse_square: Lanes,
    /// Half the width of the band.
    pub(crate) width: Lanes,
}

impl ChunkGeometry {
    /// The geometry of every chunk of the pixels.
    pub(crate) fn all(pixels: &BrightFieldPixels, model: &GammaModel) -> Vec<Self> {
        let shape =
            SpectraShape { scan: crate::types::ScanShape { rows: 1, cols: 1 }, pixels: pixels.angles.len() };
        (0..shape.chunks()).map(|chunk| Self::new(shape, chunk, pixels, model)).collect()
    }

    fn new(shape: SpectraShape, chunk: usize, pixels: &BrightFieldPixels, model: &GammaModel) -> Self {
        let far = Lanes([1e6; LANES]); // blocks that are not there are far outside
        let mut geometry = Self {
            blocks: Vec::with_capacity(BLOCKS_PER_CHUNK),
            centre: [far; 2],
            half: [Lanes::default(); 2],
            inverse_square: Lanes([1.0; LANES]),
            width: Lanes::default(),
        };
        for (at, block) in shape.chunk_blocks(chunk).enumerate() {
            let range = block * LANES..((block + 1) * LANES).min(pixels.angles.len());
            let angles = &pixels.angles[range.clone()];
            let used = &pixels.used[range];
            geometry.blocks.push(BlockGeometry::new(angles, used, model));
            let inside: Vec<[f64; 2]> =
                angles.iter().zip(used).filter(|&(_, &used)| used).map(|(&angle, _)| angle).collect();
            let (Some(first), Some(last)) = (inside.first(), inside.last()) else { continue };
            let centre = [(first[0] + last[0]) / 2.0, (first[1] + last[1]) / 2.0];
            let half = [(last[0] - first[0]) / 2.0, (last[1] - first[1]) / 2.0];
            let square = (half[0] * half[0] + half[1] * half[1]).max(1e-12);
            let width = inside.iter().map(|angle| {
                let from = [angle[0] - centre[0], angle[1] - centre[1]];
                let along = ((from[0] * half[0] + from[1] * half[1]) / square).clamp(-1.0, 1.0);
                (from[0] - along * half[0]).hypot(from[1] - along * half[1])
            });
            for axis in 0..2 {
                geometry.centre[axis].0[at] = centre[axis] as f32;
                geometry.half[axis].0[at] = half[axis] as f32;
            }
            geometry.inverse_square.0[at] = (1.0 / square) as f32;
            geometry.width.0[at] = width.fold(0.0, f64::max) as f32;
        }
        geometry
    }
}

impl BlockGeometry {
    fn new(angles: &[[f64; 2]], used: &[bool], model: &GammaModel) -> Self {
        let mut block = Self {
            row: Lanes::default(),
            col: Lanes::default(),
            row_rest: Lanes::default(),
            col_rest: Lanes::default(),
            chi_turns: Lanes::default(),
            aperture: Lanes::default(),
            whole: false,
            exact: [[0.0; 2]; LANES],
        };
        for (lane, (&angle, &used)) in angles.iter().zip(used).enumerate() {
            block.row.0[lane] = angle[0] as f32;
            block.col.0[lane] = angle[1] as f32;
            block.row_rest.0[lane] = rest(angle[0]);
            block.col_rest.0[lane] = rest(angle[1]);
            let chi_turns = model.chi_turns(angle);
            block.chi_turns.0[lane] = (chi_turns - chi_turns.round()) as f32;
            block.aperture.0[lane] = if used { model.aperture(angle) as f32 } else { 0.0 };
            block.exact[lane] = angle;
        }
        block.whole = block.aperture.0.iter().all(|&aperture| aperture == 1.0);
        block
    }
}

/// What is left of a number after rounding to f32.
pub(crate) fn rest(value: f64) -> f32 {
    (value - f64::from(value as f32)) as f32
}
