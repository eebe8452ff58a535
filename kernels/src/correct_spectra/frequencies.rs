//! The scan frequencies of one column of the half plane that can be anything but zero.

use super::GammaModel;
use super::gamma::PhaseParts;
use crate::types::ScanShape;

/// One q, ready for the inner loop.
#[derive(Clone, Debug)]
pub(crate) struct Frequency {
    /// Row of the half plane.
    pub(crate) q_row: usize,
    /// lambda q in units of the semi-angle.
    pub(crate) q: [f64; 2],
    /// 1, or 1/2 at a Nyquist frequency, which is evaluated at both signs.
    pub(crate) weight: f64,
    /// Whether gamma is computed from `parts`. Far from zero frequency, with aberrations above C12, it is computed from
    /// chi(k - q) and chi(k + q) instead: one of them may lie far outside the aperture, where chi is so large that f32
    /// cannot take it off again. Near zero frequency it is the small difference of both that f32 cannot form.
    pub(crate) is_near: bool,
    /// chi about k for this q.
    pub(crate) parts: PhaseParts,
}

/// |lambda q| in semi-angles up to which `is_near` holds: there chi grows by no more than 1.25^6 beyond the aperture.
const NEAR: f64 = 0.25;

/// The index of a sample of the transform as a signed frequency, `-len/2..=(len-1)/2`.
fn signed(index: usize, len: usize) -> isize {
    if index < len.div_ceil(2) { index as isize } else { index as isize - len as isize }
}

/// All q of column `q_col` at which gamma can differ from zero, in the order of their rows; never q = 0.
pub(crate) fn column_frequencies(model: &GammaModel, scan: ScanShape, q_col: usize) -> Vec<Frequency> {
    // Beyond this neither k - q nor k + q is inside the aperture for any k inside; a little more for rounding.
    let support = 2.0 * model.outer_radius() + 1e-6;
    let is_nyquist = |index: usize, len: usize| len.is_multiple_of(2) && index == len / 2;
    let col_is_nyquist = is_nyquist(q_col, scan.cols);
    let mut frequencies = Vec::new();
    for q_row in 0..scan.rows {
        if q_row == 0 && q_col == 0 {
            continue;
        }
        let index = [signed(q_row, scan.rows), signed(q_col, scan.cols)];
        let nyquist = [is_nyquist(q_row, scan.rows), col_is_nyquist];
        let signs: &[isize] = if nyquist[0] || nyquist[1] { &[1, -1] } else { &[1] };
        for sign in signs {
            let index: [isize; 2] =
                std::array::from_fn(|axis| if nyquist[axis] { index[axis] * sign } else { index[axis] });
            let q = model.angle_of_frequency(index, scan);
            if q[0].hypot(q[1]) <= support {
                let is_near = q[0].hypot(q[1]) < NEAR;
                let weight = 1.0 / signs.len() as f64;
                frequencies.push(Frequency { q_row, q, weight, is_near, parts: model.parts(q) });
            }
        }
    }
    frequencies
}
