//! Row transforms against the sum in float64.

use num_complex::Complex64;
use rand::{Rng, SeedableRng};

use super::*;
use crate::device::Cpu;

fn rows_equal_the_sum<D: TransformRows>(device: &D, pixels: usize, cols: usize) {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(cols as u64);
    let counts: Vec<u32> = (0..pixels * cols).map(|_| rng.random_range(0..7)).collect();
    let covered: Vec<bool> = (0..cols).map(|col| col % 5 != 3).collect();
    let shape = SpectraShape { scan: ScanShape { rows: 3, cols }, pixels };
    let row = device.transform_row(&counts, &covered, shape).unwrap();
    let row = device.download(&row).unwrap();
    assert_eq!(row.len(), shape.row_len());
    for q_col in 0..shape.q_cols() {
        for block in 0..shape.blocks() {
            let chunk = block / BLOCKS_PER_CHUNK;
            let at = shape.chunk_range(chunk, q_col).start + block % BLOCKS_PER_CHUNK;
            for lane in 0..LANES {
                let pixel = block * LANES + lane;
                let got = Complex64::new(row[at].re.0[lane].into(), row[at].im.0[lane].into());
                let expected: Complex64 = if pixel < pixels {
                    (0..cols)
                        .filter(|&col| covered[col])
                        .map(|col| {
                            let angle = -std::f64::consts::TAU * (q_col * col % cols) as f64 / cols as f64;
                            f64::from(counts[pixel * cols + col]) * Complex64::cis(angle)
                        })
                        .sum()
                } else {
                    Complex64::ZERO
                };
                let bound = 4e-6 * (cols as f64).sqrt(); // f32 rounding of a sum of `cols` counts below 7
                assert!(
                    (got - expected).norm() <= bound,
                    "pixel {pixel}, q_col {q_col}: {got} for {expected}"
                );
            }
        }
    }
}

#[test]
fn rows_of_any_length_and_any_number_of_pixels_equal_the_sum() {
    for (pixels, cols) in
        [(1, 1), (1, 8), (15, 9), (16, 16), (17, 64), (33, 37), (256, 12), (257, 10), (530, 7)]
    {
        rows_equal_the_sum(&Cpu, pixels, cols);
    }
}

#[test]
fn an_empty_scan_row_or_no_pixel_gives_nothing() {
    for (pixels, cols) in [(0, 8), (0, 0)] {
        let shape = SpectraShape { scan: ScanShape { rows: 1, cols }, pixels };
        assert!(Cpu.transform_row(&[], &vec![true; cols], shape).unwrap().is_empty());
    }
}

#[test]
fn counts_of_the_wrong_length_are_refused_with_both_lengths() {
    let shape = SpectraShape { scan: ScanShape { rows: 1, cols: 4 }, pixels: 3 };
    let refused = Cpu.transform_row(&[0; 11], &[true; 4], shape).unwrap_err().to_string();
    assert_eq!(refused, "scan row of 11 counts, expected 3 pixels x 4 columns");
    let refused = Cpu.transform_row(&[0; 12], &[true; 5], shape).unwrap_err().to_string();
    assert_eq!(refused, "coverage of 5 scan columns, expected 4");
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let shape = SpectraShape { scan: ScanShape { rows: 1, cols: 24 }, pixels: 700 };
    let counts: Vec<u32> = (0..700 * 24).map(|i| (i * 7919 % 23) as u32).collect();
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Cpu.transform_row(&counts, &[true; 24], shape).unwrap())
    };
    assert!(with(1) == with(2));
}
