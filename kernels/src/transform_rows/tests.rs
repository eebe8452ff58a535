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
    let mut rows = device.open_rows(shape).unwrap();
    device.transform_row(&mut rows, 1, &counts, &covered).unwrap();
    let row = device.row_spectra(&rows, 1).unwrap();
    assert_eq!(row.len(), pixels * shape.q_cols());
    for (at, got) in row.iter().enumerate() {
        let (pixel, q_col) = (at / shape.q_cols(), at % shape.q_cols());
        let got = Complex64::new(got.re.into(), got.im.into());
        let there = (0..cols).filter(|&col| covered[col]);
        let expected: Complex64 = there
            .map(|col| {
                let angle = -std::f64::consts::TAU * (q_col * col % cols) as f64 / cols as f64;
                f64::from(counts[pixel * cols + col]) * Complex64::cis(angle)
            })
            .sum();
        // f32 rounding of a sum of `cols` counts below 7
        let bound = 4e-6 * (cols as f64).sqrt() + 3e-7 * expected.norm();
        assert!((got - expected).norm() <= bound, "pixel {pixel}, q_col {q_col}: {got} for {expected}");
    }
    for missing in [0, 2] {
        assert!(device.row_spectra(&rows, missing).unwrap().iter().all(|&value| value == Complex32::ZERO));
    }
}

fn rows_of_any_length_and_any_number_of_pixels_equal_the_sum<D: TransformRows>(device: &D) {
    for (pixels, cols) in [
        (1, 1),
        (1, 8),
        (15, 9),
        (16, 16),
        (17, 64),
        (33, 37),
        (256, 12),
        (257, 10),
        (530, 7),
        (3, 512),
        (2, 9_000), // longer than shared memory
    ] {
        rows_equal_the_sum(device, pixels, cols);
    }
}

fn an_empty_scan_row_or_no_pixel_gives_nothing<D: TransformRows>(device: &D) {
    for (pixels, cols) in [(0, 8), (0, 0)] {
        let shape = SpectraShape { scan: ScanShape { rows: 1, cols }, pixels };
        let mut rows = device.open_rows(shape).unwrap();
        device.transform_row(&mut rows, 0, &[], &vec![true; cols]).unwrap();
        assert!(device.row_spectra(&rows, 0).unwrap().is_empty());
    }
}

fn what_does_not_fit_is_refused_with_what_was_got_and_expected<D: TransformRows>(device: &D) {
    let shape = SpectraShape { scan: ScanShape { rows: 1, cols: 4 }, pixels: 3 };
    let mut rows = device.open_rows(shape).unwrap();
    let refused = device.transform_row(&mut rows, 0, &[0; 11], &[true; 4]).unwrap_err().to_string();
    assert_eq!(refused, "scan row of 11 counts, expected 3 pixels x 4 columns");
    let refused = device.transform_row(&mut rows, 0, &[0; 12], &[true; 5]).unwrap_err().to_string();
    assert_eq!(refused, "coverage of 5 scan columns, expected 4");
    let refused = device.transform_row(&mut rows, 1, &[0; 12], &[true; 4]).unwrap_err().to_string();
    assert_eq!(refused, "scan row 1, expected one of 1");
}

on_every_device!(
    rows_of_any_length_and_any_number_of_pixels_equal_the_sum,
    an_empty_scan_row_or_no_pixel_gives_nothing,
    what_does_not_fit_is_refused_with_what_was_got_and_expected,
);

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let shape = SpectraShape { scan: ScanShape { rows: 1, cols: 24 }, pixels: 700 };
    let counts: Vec<u32> = (0..700 * 24).map(|i| (i * 7919 % 23) as u32).collect();
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut rows = Cpu.open_rows(shape).unwrap();
        pool.install(|| Cpu.transform_row(&mut rows, 0, &counts, &[true; 24]).unwrap());
        Cpu.row_spectra(&rows, 0).unwrap()
    };
    assert!(with(1) == with(2));
}
