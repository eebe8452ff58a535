//! Two-dimensional transforms of large maps, on all threads.

use rayon::prelude::*;
use rustfft::num_complex::Complex32;
use rustfft::{FftDirection, FftPlanner};

use crate::room::filled;

/// Transforms a `[rows][cols]` map in place, unnormalised. The sum order does not depend on the threads.
///
/// # Errors
/// The memory for another map cannot be had.
pub(super) fn transform_map(
    map: &mut Vec<Complex32>,
    rows: usize,
    cols: usize,
    direction: FftDirection,
) -> anyhow::Result<()> {
    let mut planner = FftPlanner::new();
    let mut other = filled(Complex32::default(), map.len(), "the transform of the specimen")?;
    for (length, breadth) in [(cols, rows), (rows, cols)] {
        let plan = planner.plan_fft(length, direction);
        map.par_chunks_mut(length).for_each_init(
            || vec![Complex32::default(); plan.get_inplace_scratch_len()],
            |scratch, line| plan.process_with_scratch(line, scratch),
        );
        transpose(map, &mut other, breadth, length);
        std::mem::swap(map, &mut other);
    }
    Ok(())
}

/// Writes `[rows][cols]` as `[cols][rows]`.
fn transpose(from: &[Complex32], to: &mut [Complex32], rows: usize, cols: usize) {
    const TILE: usize = 16;
    to.par_chunks_mut(rows * TILE).enumerate().for_each(|(band, lines)| {
        for first_row in (0..rows).step_by(TILE) {
            for (line, out) in lines.chunks_mut(rows).enumerate() {
                let col = band * TILE + line;
                let end = (first_row + TILE).min(rows);
                for (row, out) in (first_row..end).zip(&mut out[first_row..end]) {
                    *out = from[row * cols + col];
                }
            }
        }
    });
}

/// Writes the lines of `from`, `[lines][length]`, into columns of `to`, whose rows are `width` long:
/// line `i` becomes column `column_of[i]`. Rows of `to` are as many as a line is long.
pub(super) fn lines_to_columns(
    from: &[Complex32],
    length: usize,
    column_of: &[usize],
    to: &mut [Complex32],
    width: usize,
) {
    const TILE: usize = 16;
    for (tile, columns) in column_of.chunks(TILE).enumerate() {
        let lines = &from[tile * TILE * length..];
        for (row, out) in to.chunks_exact_mut(width).enumerate() {
            for (line, &column) in columns.iter().enumerate() {
                out[column] = lines[line * length + row];
            }
        }
    }
}

/// The reverse: column `column_of[i]` of `from` becomes line `i` of `to`.
pub(super) fn columns_to_lines(
    from: &[Complex32],
    width: usize,
    column_of: &[usize],
    to: &mut [Complex32],
    length: usize,
) {
    const TILE: usize = 16;
    for (columns, lines) in column_of.chunks(TILE).zip(to.chunks_mut(TILE * length)) {
        for (row, values) in from.chunks_exact(width).enumerate() {
            for (line, &column) in columns.iter().enumerate() {
                lines[line * length + row] = values[column];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_transforms_to_the_sum_that_defines_it() {
        let (rows, cols) = (24, 20);
        let value =
            |index: usize| Complex32::new((index * 7 % 13) as f32 - 6.0, (index * 5 % 11) as f32 - 5.0);
        let mut map: Vec<_> = (0..rows * cols).map(value).collect();
        transform_map(&mut map, rows, cols, FftDirection::Forward).unwrap();
        for (row, col) in [(0, 0), (3, 7), (23, 19)] {
            let sum: rustfft::num_complex::Complex64 = (0..rows * cols)
                .map(|index| {
                    let turn =
                        (index / cols * row) as f64 / rows as f64 + (index % cols * col) as f64 / cols as f64;
                    let value = value(index);
                    rustfft::num_complex::Complex64::new(value.re.into(), value.im.into())
                        * rustfft::num_complex::Complex64::cis(-2.0 * std::f64::consts::PI * turn)
                })
                .sum();
            let got = map[row * cols + col];
            assert!(
                (f64::from(got.re) - sum.re).hypot(f64::from(got.im) - sum.im) < 1e-3,
                "{row} {col} {got} {sum}"
            );
        }
    }

    #[test]
    fn lines_and_columns_are_each_other_s_reverse() {
        let (lines, length, width) = (35, 50, 64);
        let column_of: Vec<usize> = (0..lines).map(|line| (line + 40) % width).collect();
        let from: Vec<_> = (0..lines * length).map(|index| Complex32::new(index as f32, 0.0)).collect();
        let mut to = vec![Complex32::default(); length * width];
        lines_to_columns(&from, length, &column_of, &mut to, width);
        assert_eq!(to[3 * width + column_of[20]], from[20 * length + 3]);
        let mut back = vec![Complex32::default(); from.len()];
        columns_to_lines(&to, width, &column_of, &mut back, length);
        assert!(back == from);
    }
}
