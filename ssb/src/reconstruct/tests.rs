//! Reconstructions of objects whose phase is known, and of counts against a plain float64 implementation.

use kernels::Cpu;
use kernels::types::{
    Aberration, Aberrations, Degrees, DetectorShape, Kilovolts, Milliradians, Nanometres, Pixels,
};
use num_complex::Complex64;
use rand::{Rng, SeedableRng};

use super::*;

const SIZE: usize = 27;

fn optics(names: &[(&str, f64)]) -> Optics {
    let term = |&(name, nm): &(&str, f64)| Aberration::named(name, Nanometres(nm), Degrees(25.0)).unwrap();
    Optics {
        voltage: Kilovolts(300.0),
        semi_angle: Milliradians(30.0),
        scan_step: [Nanometres(0.017), Nanometres(0.019)],
        detector_sampling: [Milliradians(2.7); 2],
        rotation: Degrees(-33.0),
        transpose: true,
        aberrations: Aberrations(names.iter().map(term).collect()),
    }
}

fn field(optics: &Optics) -> BrightField {
    let centre = [13.2, 12.7];
    let detector = DetectorShape { rows: SIZE, cols: SIZE };
    let inside = |&pixel: &u32| {
        let (row, col) = (f64::from(pixel / SIZE as u32), f64::from(pixel % SIZE as u32));
        (row - centre[0]).hypot(col - centre[1]) <= 11.4
    };
    let pixels: Vec<u32> = (0..(SIZE * SIZE) as u32).filter(inside).collect();
    BrightField {
        num_in_disk: pixels.len(),
        pixels,
        detector,
        centre,
        radius: Pixels(11.4),
        edge_radius: Pixels(11.1),
        sampling: optics.detector_sampling,
        hot: Vec::new(),
        marked: Vec::new(),
        measured_centre: centre,
        measured_radius: Pixels(11.4),
        lit: 0.5,
    }
}

fn add_all(field: &BrightField, scan: ScanShape, counts: &[u32], order: &[usize]) -> LiveSpectra<Cpu> {
    let mut spectra = LiveSpectra::new(Cpu, scan, field.pixels.clone()).unwrap();
    for &row in order {
        let line = |image: &[u32]| image[row * scan.cols..][..scan.cols].to_vec();
        let row_counts: Vec<u32> = counts.chunks_exact(scan.positions()).flat_map(line).collect();
        spectra.add_row(row, &row_counts, &vec![true; scan.cols]).unwrap();
    }
    spectra
}

/// Counts of a phase object of a few sine waves, |phase| below 1 mrad, `[pixel][scan_row][scan_col]`, and its phase.
fn phase_object(scan: ScanShape, optics: &Optics, field: &BrightField) -> (Vec<u32>, Vec<f64>) {
    let model = GammaModel::new(optics).unwrap();
    let waves: [([isize; 2], Complex64); 4] = [
        ([1, 2], Complex64::new(1e-4, 4e-5)),
        ([-3, 1], Complex64::new(-5e-5, 8e-5)),
        ([0, 4], Complex64::new(3e-5, -9e-5)),
        ([4, -2], Complex64::new(7e-5, 2e-5)),
    ];
    let turns = |q: [isize; 2], at: usize| {
        let (row, col) = ((at / scan.cols) as f64, (at % scan.cols) as f64);
        Complex64::cis(
            std::f64::consts::TAU
                * (q[0] as f64 * row / scan.rows as f64 + q[1] as f64 * col / scan.cols as f64),
        )
    };
    let phase = (0..scan.positions())
        .map(|at| 2.0 * waves.iter().map(|&(q, c)| (c * turns(q, at)).re).sum::<f64>())
        .collect();
    let mut counts = Vec::new();
    for &pixel in &field.pixels {
        let [row, col] = field.row_col(pixel);
        let k = model.angle_of_pixel(row, col, field.centre);
        for at in 0..scan.positions() {
            // the wave at k: every frequency of 1 + i phase carries what the probe holds at k - q
            let mut wave = model.probe(k);
            for (q, c) in waves {
                for (q, c) in [(q, c), ([-q[0], -q[1]], c.conj())] {
                    let angle = model.angle_of_frequency(q, scan);
                    wave += Complex64::I * c * turns(q, at) * model.probe([k[0] - angle[0], k[1] - angle[1]]);
                }
            }
            counts.push((1e9 * wave.norm_sqr()).round() as u32);
        }
    }
    (counts, phase)
}

fn largest_difference(got: &[f32], expected: &[f64]) -> f64 {
    got.iter().zip(expected).map(|(&got, expected)| (f64::from(got) - expected).abs()).fold(0.0, f64::max)
}

#[test]
fn a_weak_phase_object_comes_back_in_radians_at_all_orders() {
    let scan = ScanShape { rows: 15, cols: 18 };
    for names in [
        &[][..],
        &[("C10", 5.0), ("C12", 2.0)],
        &[("C10", -4.0), ("C21", 60.0), ("C23", 80.0)],
        &[("C10", -3.0), ("C30", 2000.0), ("C41", 6e4), ("C45", 5e4), ("C50", 1e6), ("C56", 1e6)],
    ] {
        let optics = optics(names);
        let field = field(&optics);
        let (counts, phase) = phase_object(scan, &optics, &field);
        let spectra = add_all(&field, scan, &counts, &(0..scan.rows).collect::<Vec<_>>());
        let options = Options { least_squares_damping: 1e-4, ..Options::default() };
        let result = reconstruct(&spectra, &field, &optics, &options).unwrap();
        let peak = phase.iter().map(|phase| phase.abs()).fold(0.0, f64::max);
        // the mean over the bright field is taken for full illumination, which its outermost pixels do not have
        let model = GammaModel::new(&optics).unwrap();
        let at = |&pixel: &u32| {
            let [row, col] = field.row_col(pixel);
            model.aperture(model.angle_of_pixel(row, col, field.centre)).powi(2)
        };
        let illumination = field.pixels.iter().map(at).sum::<f64>() / field.pixels.len() as f64;
        let phase: Vec<f64> = phase.iter().map(|phase| phase / illumination).collect();
        let error = largest_difference(&result.phase_least_squares, &phase);
        // damping, and frequencies near the end of the support, where second order counts
        assert!(error < 0.03 * peak, "{names:?}: off by {error:e} of {peak:e} rad");
    }
}

#[test]
fn the_sign_of_an_odd_aberration_matters() {
    let scan = ScanShape { rows: 15, cols: 18 };
    let optics_true = optics(&[("C10", -4.0), ("C21", 60.0), ("C23", 80.0)]);
    let field = field(&optics_true);
    let (counts, phase) = phase_object(scan, &optics_true, &field);
    let spectra = add_all(&field, scan, &counts, &(0..scan.rows).collect::<Vec<_>>());
    let wrong = optics(&[("C10", -4.0), ("C21", -60.0), ("C23", -80.0)]);
    let options = Options { least_squares_damping: 1e-4, ..Options::default() };
    let result = reconstruct(&spectra, &field, &wrong, &options).unwrap();
    let peak = phase.iter().map(|phase| phase.abs()).fold(0.0, f64::max);
    assert!(largest_difference(&result.phase_least_squares, &phase) > 0.2 * peak);
}

fn random_counts(pixels: usize, scan: ScanShape) -> Vec<u32> {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(11);
    (0..pixels * scan.positions()).map(|_| rng.random_range(0..5)).collect()
}

/// arg of the object over the full frequency plane, in complex128, straight from the definitions. Rows and columns at the
/// Nyquist frequency take the mean of both signs.
fn phase_by_definition(counts: &[f64], scan: ScanShape, field: &BrightField, optics: &Optics) -> Vec<f64> {
    let model = GammaModel::new(optics).unwrap();
    let n = scan.positions();
    let turn = |q: [usize; 2], at: usize| {
        let row = (q[0] * (at / scan.cols) % scan.rows) as f64 / scan.rows as f64;
        std::f64::consts::TAU * (row + (q[1] * (at % scan.cols) % scan.cols) as f64 / scan.cols as f64)
    };
    let signed = |i: usize, n: usize| if 2 * i < n { i as isize } else { i as isize - n as isize };
    let mut spectrum = vec![Complex64::ZERO; n];
    for q in 0..n {
        let at_q = [q / scan.cols, q % scan.cols];
        let index = [signed(at_q[0], scan.rows), signed(at_q[1], scan.cols)];
        let mirror = [
            if 2 * at_q[0] == scan.rows { -index[0] } else { index[0] },
            if 2 * at_q[1] == scan.cols { -index[1] } else { index[1] },
        ];
        for (image, &pixel) in counts.chunks_exact(n).zip(&field.pixels) {
            let g: Complex64 =
                image.iter().enumerate().map(|(at, &count)| count * Complex64::cis(-turn(at_q, at))).sum();
            if q == 0 {
                spectrum[0] += g;
                continue;
            }
            let [row, col] = field.row_col(pixel);
            let k = model.angle_of_pixel(row, col, field.centre);
            for index in [index, mirror] {
                let gamma = model.gamma(k, model.angle_of_frequency(index, scan));
                spectrum[q] += 0.5 * g * gamma.conj() / gamma.norm().max(1e-8);
            }
        }
    }
    (0..n)
        .map(|at| {
            let wave =
                |(q, s): (usize, &Complex64)| s * Complex64::cis(turn([q / scan.cols, q % scan.cols], at));
            spectrum.iter().enumerate().map(wave).sum::<Complex64>().arg()
        })
        .collect()
}

#[test]
fn odd_and_even_scans_equal_a_plain_float64_implementation() {
    for (rows, cols) in [(5, 7), (6, 8), (9, 4), (1, 11), (13, 2)] {
        let scan = ScanShape { rows, cols };
        let optics = optics(&[("C10", 4.0), ("C12", 1.0), ("C21", 50.0)]);
        let field = field(&optics);
        let counts = random_counts(field.pixels.len(), scan);
        let spectra = add_all(&field, scan, &counts, &(0..rows).collect::<Vec<_>>());
        let result = reconstruct(&spectra, &field, &optics, &Options::default()).unwrap();
        let counts: Vec<f64> = counts.into_iter().map(f64::from).collect();
        let expected = phase_by_definition(&counts, scan, &field, &optics);
        let error = largest_difference(&result.phase, &expected);
        assert!(error < 2e-6, "{scan}: off by {error:e} rad"); // f32 spectra of counts around 2
        assert!(expected.iter().any(|phase| phase.abs() > 1e-3), "{scan}: an empty image is no test");
    }
}

#[test]
fn the_order_of_rows_leaves_no_trace() {
    let scan = ScanShape { rows: 9, cols: 10 };
    let optics = optics(&[("C10", 4.0)]);
    let field = field(&optics);
    let counts = random_counts(field.pixels.len(), scan);
    let with = |order: &[usize]| {
        let spectra = add_all(&field, scan, &counts, order);
        let options = Options { moments: Moments::Compute, ..Options::default() };
        let result = reconstruct(&spectra, &field, &optics, &options).unwrap();
        Reconstruction { timings: Timings::default(), ..result }
    };
    assert!(with(&[0, 1, 2, 3, 4, 5, 6, 7, 8]) == with(&[4, 8, 0, 7, 1, 2, 6, 3, 5]));
}

#[test]
fn missing_positions_count_as_the_mean_and_are_reported() {
    let scan = ScanShape { rows: 6, cols: 8 };
    let optics = optics(&[("C10", 4.0)]);
    let field = field(&optics);
    let counts = random_counts(field.pixels.len(), scan);
    let covered = |at: usize| at / 8 != 2 && at != 35;
    let mut spectra = LiveSpectra::new(Cpu, scan, field.pixels.clone()).unwrap();
    for row in [0, 1, 3, 4, 5] {
        let line = |image: &[u32]| image[row * 8..][..8].to_vec();
        let mut row_counts: Vec<u32> = counts.chunks_exact(48).flat_map(line).collect();
        let flags: Vec<bool> = (row * 8..row * 8 + 8).map(covered).collect();
        for (i, count) in row_counts.iter_mut().enumerate() {
            if !flags[i % 8] {
                *count = 65_535; // what stands at a missing position does not matter
            }
        }
        spectra.add_row(row, &row_counts, &flags).unwrap();
    }
    let result = reconstruct(&spectra, &field, &optics, &Options::default()).unwrap();
    assert_eq!(result.num_covered, 48 - 9);
    assert!(result.warnings.contains(&Warning::Filled { missing: 9, positions: 48 }));

    let filled: Vec<f64> = counts
        .chunks_exact(48)
        .flat_map(|image| {
            let there = || {
                image.iter().enumerate().filter(|&(at, _)| covered(at)).map(|(_, &count)| f64::from(count))
            };
            let mean = there().sum::<f64>() / 39.0;
            (0..48).map(move |at| if covered(at) { image[at].into() } else { mean }).collect::<Vec<f64>>()
        })
        .collect();
    let expected = phase_by_definition(&filled, scan, &field, &optics);
    let error = largest_difference(&result.phase, &expected);
    assert!(error < 2e-6, "off by {error:e} rad");
}

#[test]
fn what_cannot_be_reconstructed_is_said() {
    let scan = ScanShape { rows: 2, cols: 4 };
    let optics = optics(&[]);
    let field = field(&optics);
    let mut spectra = LiveSpectra::new(Cpu, scan, field.pixels.clone()).unwrap();
    let refuse = |spectra: &LiveSpectra<Cpu>, field: &BrightField| {
        reconstruct(spectra, field, &optics, &Options::default()).unwrap_err().to_string()
    };
    assert_eq!(refuse(&spectra, &field), "no position of the 2x4 scan was received");
    let zeros = vec![0; field.pixels.len() * 4];
    assert!(
        spectra
            .add_row(2, &zeros, &[true; 4])
            .unwrap_err()
            .to_string()
            .starts_with("scan row 2, expected less")
    );
    spectra.add_row(1, &zeros, &[true; 4]).unwrap();
    assert_eq!(spectra.add_row(1, &zeros, &[true; 4]).unwrap_err().to_string(), "scan row 1 came twice");
    assert!(refuse(&spectra, &field).starts_with("no bright-field disk"));
    let mut larger = field.clone();
    larger.pixels.insert(0, 0);
    assert!(refuse(&spectra, &larger).starts_with("bright-field pixels with spectra"));
}

#[test]
fn coarse_scans_and_cut_disks_are_warned_of() {
    let fine = Optics { scan_step: [Nanometres(0.0164); 2], ..optics(&[]) };
    let coarse = Optics { scan_step: [Nanometres(0.0164), Nanometres(0.04)], ..fine.clone() };
    let mut cut = field(&coarse);
    (cut.centre[0], cut.measured_centre[0]) = (8.0, 8.0);
    let found = warnings(&coarse, &cut);
    assert!(matches!(found[0], Warning::Undersampled { axis: 1, .. }), "{found:?}");
    assert!(matches!(found[1], Warning::DiskCut { beyond } if (beyond.0 - 2.9).abs() < 1e-9), "{found:?}");
    assert_eq!(found.len(), 2);
    let mut pinned = field(&coarse);
    pinned.sampling[0] = Milliradians(3.5);
    let found = warnings(&fine, &pinned);
    assert!(matches!(found[..], [Warning::SamplingDiffers { .. }]), "{found:?}");
}

#[test]
fn a_result_without_overlap_or_of_one_phase_is_said_to_have_no_phase() {
    let optics = optics(&[]);
    let scan = ScanShape { rows: 4, cols: 4 };
    let of = |transfer: f64, phase: &[f32]| warnings_of_result(&optics, scan, transfer, phase);
    let without = of(0.0, &[0.0; 16]).unwrap();
    assert!(matches!(without, Warning::NoOverlap { .. }) && without.is_without_phase());
    assert_eq!(of(0.1, &[0.2; 16]), Some(Warning::ConstantPhase));
    let mut phase = [0.0; 16];
    phase[3] = 1e-5;
    assert_eq!(of(0.1, &phase), None);
}

/// 300 kV and 30 mrad: lambda / (4 semi-angle) is 0.01641 nm, twice that 0.03281 nm.
#[test]
fn a_coarse_scan_is_warned_of_in_two_grades() {
    let said = |step: f64| {
        let optics = Optics { scan_step: [Nanometres(step), Nanometres(0.01)], ..optics(&[]) };
        let found = warnings(&optics, &field(&optics));
        found.iter().map(ToString::to_string).collect::<String>()
    };
    assert_eq!(said(0.0164), "");
    assert!(said(0.0165).contains("rows is 0.0165 nm") && said(0.0165).contains("weak false detail"));
    assert!(said(0.0165).contains("lambda / (4 semi-angle) = 0.0164 nm") && said(0.0328).contains("weak"));
    assert!(said(0.0329).contains("most of the detail") && said(0.0329).contains("= 0.0328 nm"));
}
