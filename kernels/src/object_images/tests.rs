//! Images of sums whose object is known.

use num_complex::Complex64;
use rand::{Rng, SeedableRng};

use super::*;
use crate::correct_spectra::CorrectedSums;

const BY: Normalisation = Normalisation { num_pixels: 7, dc: 350.0, damping: 0.02, with_planes: true };

/// Sums whose planes are anti-Hermitian, as those of a real scan are.
fn sums(scan: ScanShape) -> CorrectedSums {
    let q_cols = scan.cols / 2 + 1;
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(scan.positions() as u64);
    let mut plane = || -> Vec<Complex64> {
        (0..scan.rows * q_cols)
            .map(|_| Complex64::new(rng.random_range(-1.0..1.0), rng.random_range(-1.0..1.0)))
            .collect()
    };
    let mut anti_hermitian = || {
        let mut values = plane();
        values[0] = Complex64::ZERO;
        for row in 0..scan.rows {
            for col in (0..q_cols).filter(|&col| col == 0 || 2 * col == scan.cols) {
                let mirrored = (scan.rows - row) % scan.rows * q_cols + col;
                values[row * q_cols + col] = -values[mirrored].conj();
                if mirrored == row * q_cols + col {
                    values[mirrored].re = 0.0;
                }
            }
        }
        values
    };
    let (corrected, numerator) = (anti_hermitian(), anti_hermitian());
    let mut positive = || (0..scan.rows * q_cols).map(|_| rng.random_range(0.0..5.0)).collect::<Vec<f64>>();
    let (denominator, mut transfer) = (positive(), positive());
    transfer[0] = 0.0;
    CorrectedSums { corrected, numerator, denominator, transfer }
}

/// Re of the inverse transform, by the sum over both halves.
fn image_by_definition(plane: &[Complex64], scan: ScanShape, at: usize) -> f64 {
    let q_cols = scan.cols / 2 + 1;
    let (row, col) = (at / scan.cols, at % scan.cols);
    let turn = |q: usize, r: usize, n: usize| (q * r % n) as f64 / n as f64;
    let mut sum = 0.0;
    for (q, value) in plane.iter().enumerate() {
        let (q_row, q_col) = (q / q_cols, q % q_cols);
        let turns = turn(q_row, row, scan.rows) + turn(q_col, col, scan.cols);
        let times = if q_col == 0 || 2 * q_col == scan.cols { 1.0 } else { 2.0 };
        sum += times * (value * Complex64::cis(std::f64::consts::TAU * turns)).re;
    }
    sum / scan.positions() as f64
}

fn images_are_those_of_the_definition<D: MakeObjectImages>(device: &D) {
    for (rows, cols) in [(6, 8), (5, 7), (1, 12), (9, 1), (16, 6)] {
        let scan = ScanShape { rows, cols };
        let sums = sums(scan);
        let got = device.object_images(&device.upload_sums(&sums).unwrap(), scan, BY).unwrap();
        let real = BY.dc / scan.positions() as f64;
        let largest = sums.denominator.iter().copied().fold(0.0, f64::max);
        let mut object: Vec<Complex64> = sums.corrected.iter().map(|sum| sum / 7.0).collect();
        let least_squares: Vec<Complex64> = (sums.numerator.iter().zip(&sums.denominator))
            .map(|(numerator, denominator)| {
                numerator * (scan.positions() as f64 / BY.dc)
                    / (Complex64::I * (denominator + 0.02 * largest))
            })
            .collect();
        for at in 0..scan.positions() {
            // O = dc + i u: u is the real image of C / i
            let over_i: Vec<Complex64> = object.iter().map(|c| c / Complex64::I).collect();
            let u = image_by_definition(&over_i, scan, at);
            let wave = Complex64::new(real, u);
            let close = |what: &str, got: f32, expected: f64| {
                let error = (f64::from(got) - expected).abs();
                assert!(
                    error < 1e-6 * (1.0 + expected.abs()),
                    "{what} of {scan} at {at}: {got} for {expected}"
                );
            };
            close("Im O", got.imaginary[at], u);
            close("phase", got.phase[at], wave.arg());
            close("amplitude", got.amplitude[at], wave.norm());
            close(
                "least squares",
                got.phase_least_squares[at],
                image_by_definition(&least_squares, scan, at),
            );
        }
        object[0] = BY.dc.into();
        let most = sums.transfer.iter().copied().fold(0.0, f64::max) / 7.0;
        assert_eq!(got.most_transfer, most);
        let planes = got.planes.unwrap();
        assert_eq!(planes.spectrum, object);
        assert!(planes.transfer.iter().zip(&sums.transfer).all(|(&got, &sum)| got == sum / 7.0));
    }
}

fn sums_come_back_as_they_were<D: CorrectSpectra>(device: &D) {
    let sums = sums(ScanShape { rows: 5, cols: 6 });
    assert!(device.download_sums(&device.upload_sums(&sums).unwrap()).unwrap() == sums);
}

fn sums_of_another_scan_are_refused<D: MakeObjectImages>(device: &D) {
    let held = device.upload_sums(&sums(ScanShape { rows: 5, cols: 6 })).unwrap();
    let refused = device.object_images(&held, ScanShape { rows: 5, cols: 8 }, BY).unwrap_err();
    assert_eq!(refused.to_string(), "sums of 20 frequencies, expected 25 for a 5x8 scan");
}

fn nothing_at_all_has_no_phase<D: MakeObjectImages>(device: &D) {
    let scan = ScanShape { rows: 4, cols: 4 };
    let nothing = CorrectedSums {
        corrected: vec![Complex64::ZERO; 12],
        numerator: vec![Complex64::ZERO; 12],
        denominator: vec![0.0; 12],
        transfer: vec![0.0; 12],
    };
    let got = device.object_images(&device.upload_sums(&nothing).unwrap(), scan, BY).unwrap();
    assert_eq!((got.phase, got.phase_least_squares), (vec![0.0; 16], vec![0.0; 16]));
    assert_eq!(got.most_transfer, 0.0);
    let by = Normalisation { with_planes: false, ..BY };
    let got = device.object_images(&device.upload_sums(&nothing).unwrap(), scan, by).unwrap();
    assert_eq!((got.planes, got.amplitude), (None, vec![350.0 / 16.0; 16]));
}

on_every_device!(
    images_are_those_of_the_definition,
    sums_come_back_as_they_were,
    sums_of_another_scan_are_refused,
    nothing_at_all_has_no_phase,
);
