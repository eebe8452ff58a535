//! The inverse against the sum that defines it.

use rand::{Rng, SeedableRng};

use super::*;
use crate::device::Cpu;

fn an_image_comes_back_from_its_own_transform<D: InvertHalfPlane>(device: &D) {
    for (rows, cols) in [(1, 1), (1, 6), (6, 1), (4, 4), (5, 7), (7, 4), (6, 9), (12, 10)] {
        let scan = ScanShape { rows, cols };
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(7);
        let image: Vec<f64> = (0..rows * cols).map(|_| rng.random_range(-1.0..1.0)).collect();
        let q_cols = cols / 2 + 1;
        let plane: Vec<Complex64> = (0..rows * q_cols)
            .map(|q| {
                let (q_row, q_col) = (q / q_cols, q % q_cols);
                let value = |(at, &value): (usize, &f64)| {
                    let turns = (q_row * (at / cols)) as f64 / rows as f64
                        + (q_col * (at % cols)) as f64 / cols as f64;
                    value * Complex64::cis(-std::f64::consts::TAU * turns)
                };
                image.iter().enumerate().map(value).sum()
            })
            .collect();
        let back = device.invert_half_plane(&plane, scan).unwrap();
        for (got, expected) in back.iter().zip(&image) {
            assert!((got - expected).abs() < 1e-13, "{scan}: {got} for {expected}");
        }
    }
}

on_every_device!(an_image_comes_back_from_its_own_transform);

#[test]
fn a_plane_of_the_wrong_length_is_refused_with_both_lengths() {
    let scan = ScanShape { rows: 2, cols: 5 };
    let refused = Cpu.invert_half_plane(&[Complex64::ZERO; 5], scan).unwrap_err().to_string();
    assert_eq!(refused, "half plane of 5 values, expected 6 for a 2x5 image");
}
