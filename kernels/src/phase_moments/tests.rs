//! Moments against single pixels inverted in float64.

use num_complex::Complex64;
use rand::{Rng, SeedableRng};

use super::*;
use crate::correct_spectra::CorrectSpectra;
use crate::device::Cpu;
use crate::invert_half_plane::InvertHalfPlane;
use crate::transform_rows::{SpectraShape, TransformRows};
use crate::types::{
    Aberration, Aberrations, Degrees, Kilovolts, Milliradians, Nanometres, Optics, ScanShape,
};

fn case<D: TransformRows>(
    device: &D,
    scan: ScanShape,
    names: &[&str],
) -> (D::Rows, SpectraShape, BrightFieldPixels, GammaModel) {
    let optics = Optics {
        voltage: Kilovolts(300.0),
        semi_angle: Milliradians(30.0),
        scan_step: [Nanometres(0.021); 2],
        detector_sampling: [Milliradians(5.1); 2],
        rotation: Degrees(20.0),
        transpose: false,
        aberrations: Aberrations(
            names
                .iter()
                .map(|name| Aberration::named(name, Nanometres(3.0), Degrees(33.0)).unwrap())
                .collect(),
        ),
    };
    let model = GammaModel::new(&optics).unwrap();
    let mut pixels = BrightFieldPixels::default();
    for at in 0..13 * 13 {
        let angle = model.angle_of_pixel(f64::from(at / 13), f64::from(at % 13), [6.2, 5.9]);
        if angle[0].hypot(angle[1]) < 1.05 {
            pixels.used.push(at % 17 != 3);
            pixels.angles.push(angle);
        }
    }
    let shape = SpectraShape { scan, pixels: pixels.angles.len() };
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(5);
    let mut rows = device.open_rows(shape).unwrap();
    for scan_row in 0..scan.rows {
        let counts: Vec<u32> = (0..shape.pixels * scan.cols).map(|_| rng.random_range(0..4)).collect();
        device.transform_row(&mut rows, scan_row, &counts, &vec![true; scan.cols]).unwrap();
    }
    (rows, shape, pixels, model)
}

fn moments_equal_those_of_pixels_inverted_one_by_one<D: PhaseMomentsOfPixels>(device: &D) {
    for (rows, cols, names) in
        [(8, 8, &["C10"][..]), (9, 10, &["C10", "C21"]), (7, 9, &["C12"]), (1, 6, &["C10"])]
    {
        let scan = ScanShape { rows, cols };
        let (rows, shape, pixels, model) = case(device, scan, names);
        let spectra = Spectra { rows: &rows, fill: None };
        let dc = 1.5 * scan.positions() as f64;
        let got = device.phase_moments(&spectra, &pixels, &model, dc).unwrap();

        // the single pixels on the processor
        let (rows, ..) = case(&Cpu, scan, names);
        let spectra = Spectra::<Cpu> { rows: &rows, fill: None };
        let (mut mean, mut square) = (vec![0.0; scan.positions()], 0.0);
        for pixel in (0..shape.pixels).filter(|&pixel| pixels.used[pixel]) {
            let mut one = pixels.clone();
            one.used = (0..shape.pixels).map(|other| other == pixel).collect();
            let sums = Cpu.correct_spectra(&spectra, &one, &model).unwrap();
            let u: Vec<Complex64> = sums.corrected.iter().map(|c| c / Complex64::I).collect();
            for (at, u) in Cpu.invert_half_plane(&u, scan).unwrap().into_iter().enumerate() {
                let phase = (u * scan.positions() as f64 / dc).atan();
                mean[at] += phase / pixels.num_used() as f64;
                square += phase * phase / pixels.num_used() as f64;
            }
        }
        let loss = (square - mean.iter().map(|m| m * m).sum::<f64>()) / mean.len() as f64;
        for (got, expected) in got.mean.iter().zip(&mean) {
            assert!((got - expected).abs() < 2e-6, "{scan}: mean phase {got} for {expected}"); // f32 phases below 2 rad
        }
        assert!(((got.loss - loss) / loss).abs() < 1e-6, "{scan}: loss {} for {loss}", got.loss);
        assert!(loss > 1e-3, "{scan}: {loss} is no test");
    }
}

on_every_device!(moments_equal_those_of_pixels_inverted_one_by_one);

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let (rows, _, pixels, model) = case(&Cpu, ScanShape { rows: 8, cols: 12 }, &["C10", "C30"]);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let spectra = Spectra { rows: &rows, fill: None };
        pool.install(|| Cpu.phase_moments(&spectra, &pixels, &model, 100.0).unwrap())
    };
    assert!(with(1) == with(2));
}

#[test]
fn phases_against_nothing_are_refused() {
    let (rows, _, mut pixels, model) = case(&Cpu, ScanShape { rows: 2, cols: 2 }, &[]);
    let spectra = Spectra::<Cpu> { rows: &rows, fill: None };
    let refused = Cpu.phase_moments(&spectra, &pixels, &model, 0.0).unwrap_err().to_string();
    assert_eq!(refused, "mean spectrum at zero frequency is 0, expected a positive number of counts");
    pixels.used.fill(false);
    assert!(matches!(Cpu.phase_moments(&spectra, &pixels, &model, 1.0), Err(MomentsError::NoPixels { .. })));
}
