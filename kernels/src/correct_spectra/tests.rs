//! The correction against its definition in float64.

use num_complex::Complex64;
use rand::{Rng, SeedableRng};

use super::*;
use crate::device::Cpu;
use crate::transform_rows::TransformRows;
use crate::types::{Aberration, Aberrations, Degrees, Kilovolts, Milliradians, Nanometres, Optics};

/// Optics whose disk has a radius of about 13 pixels; `names` get sizes that give a few radians at the edge.
fn optics(names: &[&str], sampling_mrad: [f64; 2], step_nm: f64) -> Optics {
    let term = |(index, name): (usize, &&str)| {
        let order: i32 = name[1..2].parse().unwrap();
        let size = Nanometres((1.0 + index as f64 * 0.1) * (30.0f64).powi(order - 1));
        Aberration::named(name, size, Degrees(20.0 + 31.0 * index as f64)).unwrap()
    };
    Optics {
        voltage: Kilovolts(300.0),
        semi_angle: Milliradians(30.0),
        scan_step: [Nanometres(step_nm), Nanometres(step_nm * 1.1)],
        detector_sampling: sampling_mrad.map(Milliradians),
        rotation: Degrees(-12.5),
        transpose: false,
        aberrations: Aberrations(names.iter().enumerate().map(term).collect()),
    }
}

const ORDERS: [&[&str]; 4] = [
    &[],
    &["C10", "C12"],
    &["C10", "C12", "C21", "C23", "C30", "C32", "C34"],
    &["C10", "C12", "C21", "C23", "C30", "C32", "C34", "C41", "C43", "C45", "C50", "C52", "C54", "C56"],
];

/// Every pixel of the disk and some around it, detector row-major; every 41st is not used.
fn disk(model: &GammaModel) -> BrightFieldPixels {
    let centre = [14.3, 15.1];
    let mut pixels = BrightFieldPixels::default();
    for row in 0..31 {
        for col in 0..31 {
            let angle = model.angle_of_pixel(f64::from(row), f64::from(col), centre);
            if angle[0].hypot(angle[1]) < 1.06 {
                pixels.used.push(pixels.angles.len() % 41 != 40);
                pixels.angles.push(angle);
            }
        }
    }
    pixels
}

/// G by the sum that defines it, `[pixel][q_row][q_col]`.
fn spectra_by_definition(counts: &[f64], pixels: usize, scan: ScanShape) -> Vec<Complex64> {
    let cols = scan.cols / 2 + 1;
    let turn = |q: usize, r: usize, n: usize| -((q * r % n) as f64) / n as f64 * std::f64::consts::TAU;
    let mut g = Vec::new();
    for pixel in 0..pixels {
        let image = &counts[pixel * scan.positions()..][..scan.positions()];
        let rows: Vec<Complex64> = (0..scan.rows * cols)
            .map(|i| {
                let (row, q_col) = (i / cols, i % cols);
                (0..scan.cols)
                    .map(|c| image[row * scan.cols + c] * Complex64::cis(turn(q_col, c, scan.cols)))
                    .sum()
            })
            .collect();
        g.extend((0..scan.rows * cols).map(|i| -> Complex64 {
            let (q_row, q_col) = (i / cols, i % cols);
            (0..scan.rows).map(|r| rows[r * cols + q_col] * Complex64::cis(turn(q_row, r, scan.rows))).sum()
        }));
    }
    g
}

/// Signed frequency indices of a sample, and its alias with the sign of Nyquist components changed.
fn indices(q_row: usize, q_col: usize, scan: ScanShape) -> [[isize; 2]; 2] {
    let signed = |i: usize, n: usize| if 2 * i < n { i as isize } else { i as isize - n as isize };
    let (row, col) = (signed(q_row, scan.rows), signed(q_col, scan.cols));
    let flip = |i: isize, n: usize| if 2 * i.unsigned_abs() == n { -i } else { i };
    [[row, col], [flip(row, scan.rows), flip(col, scan.cols)]]
}

fn sums_by_definition(
    g: &[Complex64],
    pixels: &BrightFieldPixels,
    model: &GammaModel,
    scan: ScanShape,
) -> CorrectedSums {
    let cols = scan.cols / 2 + 1;
    let plane = scan.rows * cols;
    let mut sums = CorrectedSums {
        corrected: vec![Complex64::ZERO; plane],
        numerator: vec![Complex64::ZERO; plane],
        denominator: vec![0.0; plane],
        transfer: vec![0.0; plane],
    };
    for q in 1..plane {
        for index in indices(q / cols, q % cols, scan) {
            let angle = model.angle_of_frequency(index, scan);
            for (k, _) in pixels.used.iter().enumerate().filter(|&(_, &used)| used) {
                let gamma = model.gamma(pixels.angles[k], angle);
                let value = g[k * plane + q] * gamma.conj() / 2.0;
                sums.numerator[q] += value;
                sums.corrected[q] += value / gamma.norm().max(1e-8);
                sums.denominator[q] += gamma.norm_sqr() / 2.0;
                sums.transfer[q] += gamma.norm() / 2.0;
            }
        }
    }
    sums
}

fn random_counts(pixels: usize, scan: ScanShape) -> Vec<u32> {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(scan.positions() as u64);
    (0..pixels * scan.positions()).map(|_| rng.random_range(0..9)).collect()
}

fn transform<D: TransformRows>(
    device: &D,
    counts: &[u32],
    covered: &dyn Fn(usize, usize) -> bool,
    shape: SpectraShape,
) -> D::Rows {
    let ScanShape { rows, cols } = shape.scan;
    let mut transformed = device.open_rows(shape).unwrap();
    for scan_row in 0..rows {
        let flags: Vec<bool> = (0..cols).map(|col| covered(scan_row, col)).collect();
        let of_pixel = |k: usize| &counts[(k * rows + scan_row) * cols..][..cols];
        let row: Vec<u32> = (0..shape.pixels).flat_map(of_pixel).copied().collect();
        if flags.contains(&true) {
            device.transform_row(&mut transformed, scan_row, &row, &flags).unwrap();
        }
    }
    transformed
}

fn corrected<D: CorrectSpectra>(
    device: &D,
    spectra: &Spectra<'_, D>,
    pixels: &BrightFieldPixels,
    model: &GammaModel,
) -> CorrectedSums {
    device.download_sums(&device.correct_spectra(spectra, pixels, model).unwrap()).unwrap()
}

fn assert_close(what: &str, got: &[Complex64], expected: &[Complex64], bound: f64) {
    for (q, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (got - expected).norm();
        assert!(error <= bound, "{what} at {q}: {got} for {expected}, off by {error:e}, bound {bound:e}");
    }
}

fn the_overlap_function_equals_its_definition_at_all_orders<D: CorrectSpectra>(device: &D) {
    for (names, sampling) in ORDERS.iter().zip([[2.3, 2.3], [2.3, 2.3], [2.5, 2.1], [2.3, 2.3]]) {
        let model = GammaModel::new(&optics(names, sampling, 0.021)).unwrap();
        let pixels = disk(&model);
        let scan = ScanShape { rows: 9, cols: 14 };
        let gamma = device.overlap_function(&pixels, &model, scan).unwrap();
        let cols = scan.cols / 2 + 1;
        for (at, got) in gamma.iter().enumerate() {
            let (k, q) = (at / (scan.rows * cols), at % (scan.rows * cols));
            let expected: Complex64 = indices(q / cols, q % cols, scan)
                .iter()
                .map(|&index| model.gamma(pixels.angles[k], model.angle_of_frequency(index, scan)) / 2.0)
                .sum();
            let expected = if pixels.used[k] && q != 0 { expected } else { Complex64::ZERO };
            let error = (Complex64::new(got.re.into(), got.im.into()) - expected).norm();
            // f32 phases of up to ten turns
            assert!(error < 1e-5, "{names:?}, k {k}, q {q}: {got} for {expected}, off by {error:e}");
        }
    }
}

#[test]
fn gamma_is_anti_hermitian_in_q_at_all_orders() {
    for names in ORDERS {
        let model = GammaModel::new(&optics(names, [2.5, 2.1], 0.02)).unwrap();
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        for _ in 0..2000 {
            let mut angle = || [rng.random_range(-1.0..1.0), rng.random_range(-1.0..1.0)];
            let (k, q) = (angle(), angle());
            let mirrored = model.gamma(k, [-q[0], -q[1]]);
            assert!((mirrored + model.gamma(k, q).conj()).norm() < 1e-12);
        }
    }
}

fn sums_equal_their_definition_at_all_orders_and_scan_shapes<D: CorrectSpectra>(device: &D) {
    let scans = [(8, 8), (9, 14), (7, 5), (1, 12), (12, 1)].map(|(rows, cols)| ScanShape { rows, cols });
    for (names, scan) in ORDERS.iter().cycle().zip(scans.iter().cycle()).take(20) {
        let sampling = if scan.rows == 9 { [2.5, 2.1] } else { [2.3, 2.3] };
        let model = GammaModel::new(&optics(names, sampling, 0.021)).unwrap();
        let pixels = disk(&model);
        let shape = SpectraShape { scan: *scan, pixels: pixels.angles.len() };
        let counts = random_counts(shape.pixels, *scan);
        let rows = transform(device, &counts, &|_, _| true, shape);
        let spectra = Spectra { rows: &rows, fill: None };
        let got = corrected(device, &spectra, &pixels, &model);

        let counts: Vec<f64> = counts.into_iter().map(f64::from).collect();
        let g = spectra_by_definition(&counts, shape.pixels, *scan);
        let expected = sums_by_definition(&g, &pixels, &model, *scan);
        // each of ~500 pixels has |G| of some ten and a relative error of a few 1e-7
        let bound = 3e-6 * 20.0 * (scan.positions() as f64).sqrt() * (shape.pixels as f64).sqrt();
        assert_close("corrected", &got.corrected, &expected.corrected, bound);
        assert_close("numerator", &got.numerator, &expected.numerator, bound);
        for q in 0..got.transfer.len() {
            assert!((got.transfer[q] - expected.transfer[q]).abs() < 1e-5 * shape.pixels as f64);
            assert!((got.denominator[q] - expected.denominator[q]).abs() < 1e-5 * shape.pixels as f64);
        }
        assert!(expected.transfer.iter().any(|&transfer| transfer > 1.0) || names.is_empty());

        let spectrum = device.pixel_spectrum(&spectra, 17).unwrap();
        let plane = spectrum.len();
        let spectrum: Vec<Complex64> =
            spectrum.iter().map(|g| Complex64::new(g.re.into(), g.im.into())).collect();
        let scale = g[17 * plane].re;
        assert_close("G", &spectrum, &g[17 * plane..][..plane], 1e-6 * scale);
    }
}

fn gaps_count_as_the_mean_that_fills_them<D: CorrectSpectra>(device: &D) {
    let scan = ScanShape { rows: 10, cols: 9 };
    let model = GammaModel::new(&optics(ORDERS[1], [2.3, 2.3], 0.021)).unwrap();
    let pixels = disk(&model);
    let shape = SpectraShape { scan, pixels: pixels.angles.len() };
    let counts = random_counts(shape.pixels, scan);
    let covered = |row: usize, col: usize| row != 4 && (row != 7 || col > 3);
    let mut rows = transform(device, &counts, &covered, shape);
    let means: Vec<f32> = (0..shape.pixels).map(|k| 2.0 + k as f32 / 300.0).collect();
    let gap = |row: usize| -> Option<Vec<Complex32>> {
        let missing: Vec<usize> = (0..scan.cols).filter(|&col| !covered(row, col)).collect();
        let turn = |q: usize, col: usize| -std::f32::consts::TAU * (q * col) as f32 / scan.cols as f32;
        let at = |q: usize| missing.iter().map(|&col| Complex32::cis(turn(q, col))).sum();
        (!missing.is_empty()).then(|| (0..shape.q_cols()).map(at).collect())
    };
    let fill = MeanFill { means: means.clone(), gaps: (0..scan.rows).map(gap).collect() };
    let spectra = Spectra { rows: &rows, fill: Some(&fill) };
    let got = corrected(device, &spectra, &pixels, &model);

    let filled: Vec<f64> = (0..counts.len())
        .map(|i| {
            let (k, position) = (i / scan.positions(), i % scan.positions());
            let is_there = covered(position / scan.cols, position % scan.cols);
            if is_there { counts[i].into() } else { means[k].into() }
        })
        .collect();
    let g = spectra_by_definition(&filled, shape.pixels, scan);
    let expected = sums_by_definition(&g, &pixels, &model, scan);
    assert_close("corrected", &got.corrected, &expected.corrected, 1e-2);
    let spectrum = device.pixel_spectrum(&spectra, 5).unwrap();
    device.close_rows(&mut rows, Some(&fill)).unwrap();
    let closed = Spectra { rows: &rows, fill: Some(&fill) };
    assert!(corrected(device, &closed, &pixels, &model) == got, "closing changes no bit");
    assert!(device.pixel_spectrum(&closed, 5).unwrap() == spectrum);
    let rows = transform(device, &counts, &covered, shape);
    let without = Spectra { rows: &rows, fill: None };
    let without = corrected(device, &without, &pixels, &model);
    let difference =
        without.corrected.iter().zip(&expected.corrected).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
    assert!(difference > 1.0, "the gap is no test if it does not matter: {difference}");
}

/// A pixel counts fully or not at all, by its phase alone, on the two sides of the outer end of an edge.
fn a_pixel_at_the_very_end_of_an_edge_is_on_the_side_where_float64_has_it<D: CorrectSpectra>(device: &D) {
    let scan = ScanShape { rows: 8, cols: 8 };
    let mut all = Vec::new();
    // k and q have whole and half pixels, of which many are 12.5 from one another: (7.5, 10), (3.5, 12), (12.5, 0)
    for edge in [12.5 - 2e-6, 12.5 + 2e-6] {
        let mut optics = optics(ORDERS[1], [30.0 / (edge - 0.5); 2], 0.02);
        optics.rotation = Degrees(0.0);
        let step_m = optics.wavelength().0 / (0.03 * 0.5 / (edge - 0.5) * 8.0);
        optics.scan_step = [Nanometres(step_m * 1e9); 2];
        let model = GammaModel::new(&optics).unwrap();
        let mut pixels = BrightFieldPixels::default();
        for pixel in 0..27 * 27 {
            let angle = model.angle_of_pixel(f64::from(pixel / 27), f64::from(pixel % 27), [13.0; 2]);
            if model.aperture(angle) > 0.0 {
                pixels.angles.push(angle);
                pixels.used.push(true);
            }
        }
        let shape = SpectraShape { scan, pixels: pixels.angles.len() };
        let counts = random_counts(shape.pixels, scan);
        let rows = transform(device, &counts, &|_, _| true, shape);
        let got = corrected(device, &Spectra { rows: &rows, fill: None }, &pixels, &model);
        let counts: Vec<f64> = counts.into_iter().map(f64::from).collect();
        let g = spectra_by_definition(&counts, shape.pixels, scan);
        let expected = sums_by_definition(&g, &pixels, &model, scan);
        assert_close("corrected", &got.corrected, &expected.corrected, 0.1);
        all.push(expected.corrected);
    }
    let apart = all[0].iter().zip(&all[1]).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
    assert!(apart > 1.0, "the edge is no test where it does not matter: {apart}");
}

on_every_device!(
    a_pixel_at_the_very_end_of_an_edge_is_on_the_side_where_float64_has_it,
    the_overlap_function_equals_its_definition_at_all_orders,
    sums_equal_their_definition_at_all_orders_and_scan_shapes,
    gaps_count_as_the_mean_that_fills_them,
);

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let scan = ScanShape { rows: 16, cols: 18 };
    let model = GammaModel::new(&optics(ORDERS[2], [2.3, 2.3], 0.021)).unwrap();
    let pixels = disk(&model);
    let shape = SpectraShape { scan, pixels: pixels.angles.len() };
    let rows = transform(&Cpu, &random_counts(shape.pixels, scan), &|_, _| true, shape);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let spectra = Spectra { rows: &rows, fill: None };
        pool.install(|| Cpu.correct_spectra(&spectra, &pixels, &model).unwrap())
    };
    assert!(with(1) == with(2));
}

#[test]
fn impossible_optics_are_refused_by_name() {
    let mut flat = optics(&["C10"], [2.3, 2.3], 0.02);
    flat.scan_step[1] = Nanometres(0.0);
    assert!(
        GammaModel::new(&flat).unwrap_err().to_string().starts_with("scan step along columns in nm is 0")
    );
    let mut strange = optics(&["C10"], [2.3, 2.3], 0.02);
    strange.aberrations.0[0].symmetry = 1;
    assert!(GammaModel::new(&strange).unwrap_err().to_string().contains("C11"));
    let mut infinite = optics(&["C10"], [2.3, 2.3], 0.02);
    infinite.aberrations.0[0].size = Nanometres(f64::INFINITY);
    assert!(GammaModel::new(&infinite).is_err());
}

#[test]
fn pixels_of_the_wrong_number_are_refused_with_both_numbers() {
    let shape = SpectraShape { scan: ScanShape { rows: 2, cols: 4 }, pixels: 3 };
    let rows = Cpu.open_rows(shape).unwrap();
    let model = GammaModel::new(&optics(&[], [2.3, 2.3], 0.02)).unwrap();
    let pixels = BrightFieldPixels { angles: vec![[0.0; 2]; 2], used: vec![true; 2] };
    let spectra = Spectra::<Cpu> { rows: &rows, fill: None };
    let refused = Cpu.correct_spectra(&spectra, &pixels, &model).unwrap_err().to_string();
    assert_eq!(refused, "angles of bright-field pixels: got 2, expected 3");
}
