//! Reconstructions of simulated acquisitions against a float64 implementation of the equations.
//!
//! The goldens were made with numpy in complex128 over the full frequency plane, from the same counts. Bounds are those
//! of float32 spectra: a phase of 2e-5 rad.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ingest::decode::DecodeStage;
use ingest::dectris::FileSet;
use ingest::source::FileSource;
use kernels::correct_spectra::{BrightFieldPixels, GammaModel};
use kernels::types::{
    Aberration, Aberrations, CountBuffer, Degrees, DetectorShape, FrameBatch, Item, Kilovolts, Milliradians,
    Nanometres, Optics, ScanShape,
};
use kernels::{Cpu, Cuda};
use num_complex::Complex64;
use serde_json::Value;
use ssb::bright_field::bright_field;
use ssb::reconstruct::reconstruct;
use ssb::{BrightField, LiveSpectra, Moments, Options, Pattern, Pins, Reconstruction, SsbDevice};
use tests::not_run;
use tests::npy::Npy;

struct Set {
    folder: PathBuf,
    truth: Value,
    counts: Vec<u16>,
    pixel_mask: Vec<u32>,
    scan: ScanShape,
    detector: DetectorShape,
}

fn set(name: &str) -> Option<Set> {
    let Ok(goldens) = std::env::var("SIDEBAND_GOLDENS") else {
        not_run("SIDEBAND_GOLDENS is not set");
        return None;
    };
    let folder = Path::new(&goldens).join(name);
    let truth: Value = serde_json::from_slice(&std::fs::read(folder.join("truth.json")).unwrap()).unwrap();
    let files = FileSet::open(&folder.join(format!("{name}_master.h5"))).unwrap();
    let (_, pixel_mask) = files.metadata.pixel_mask.clone().unwrap();
    let set = Set {
        counts: counts(&files),
        pixel_mask,
        scan: ScanShape { rows: index(&truth["scan_shape"][0]), cols: index(&truth["scan_shape"][1]) },
        detector: files.detector,
        folder,
        truth,
    };
    assert_eq!(set.counts.len(), set.scan.positions() * set.detector.pixels());
    Some(set)
}

/// Every count of a file set, `[frame][det_row][det_col]`.
fn counts(files: &FileSet) -> Vec<u16> {
    let (raw, raw_in) = crossbeam_channel::unbounded();
    FileSource::new(files.runs(), 1, Arc::default()).run(raw);
    let (frames, frames_in) = crossbeam_channel::unbounded();
    DecodeStage::new(Cpu, Arc::default()).run(raw_in, frames).unwrap();
    let mut counts = Vec::new();
    for item in frames_in {
        match item {
            Item::Data(FrameBatch { counts: CountBuffer::U16(batch), .. }) => counts.extend(batch),
            other => panic!("expected 16-bit frames without a gap, got {other:?}"),
        }
    }
    counts
}

fn index(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

impl Set {
    fn golden(&self, name: &str) -> Npy {
        Npy::read(&self.folder.join("goldens").join(name)).unwrap()
    }

    /// The optics of truth.json, C10 at mid depth.
    fn optics(&self) -> Optics {
        let terms = &self.truth["aberrations"];
        let c12 = (
            Nanometres(number(&terms["C12_m"]) * 1e9),
            Degrees(number(&terms["phi12_scan_frame_rad"]).to_degrees()),
        );
        let c10 = Nanometres(number(&terms["C10_at_mid_depth_m"]) * 1e9);
        Optics {
            voltage: Kilovolts(number(&self.truth["voltage_V"]) * 1e-3),
            semi_angle: Milliradians(number(&self.truth["semiangle_rad"]) * 1e3),
            scan_step: [Nanometres(number(&self.truth["scan_step_m"]) * 1e9); 2],
            detector_sampling: self.true_sampling(),
            rotation: Degrees(number(&self.truth["detector_to_scan_rotation_rad"]).to_degrees()),
            transpose: false,
            aberrations: Aberrations(vec![
                Aberration::named("C10", c10, Degrees(0.0)).unwrap(),
                Aberration::named("C12", c12.0, c12.1).unwrap(),
            ]),
        }
    }

    fn true_sampling(&self) -> [Milliradians; 2] {
        [Milliradians(number(&self.truth["detector_sampling_rad_per_px"]) * 1e3); 2]
    }

    fn true_calibration(&self) -> Pins {
        let centre = [0, 1].map(|axis| number(&self.truth["bf_centre_row_col_px"][axis]));
        Pins { centre: Some(centre), radius: None, sampling: Some(self.true_sampling()) }
    }

    fn bright_field(&self, pins: &Pins) -> BrightField {
        let mut totals = vec![0u64; self.detector.pixels()];
        for frame in self.counts.chunks_exact(totals.len()) {
            totals.iter_mut().zip(frame).for_each(|(total, &count)| *total += u64::from(count));
        }
        let pattern = Pattern {
            detector: self.detector,
            totals: &totals,
            frames: self.scan.positions() as u64,
            pixel_mask: &self.pixel_mask,
            marker_hits: None,
        };
        bright_field(&pattern, self.optics().semi_angle, pins).unwrap()
    }

    fn spectra(&self, pixels: &[u32], order: impl Iterator<Item = usize>) -> LiveSpectra<Cpu> {
        self.spectra_on(Cpu, pixels, order)
    }

    fn spectra_on<D: SsbDevice>(
        &self,
        device: D,
        pixels: &[u32],
        order: impl Iterator<Item = usize>,
    ) -> LiveSpectra<D> {
        let mut spectra = LiveSpectra::new(device, self.scan, pixels.to_vec()).unwrap();
        let cols = self.scan.cols;
        for scan_row in order {
            let frames = &self.counts[scan_row * cols * self.detector.pixels()..];
            let at = |&pixel: &u32| {
                (0..cols).map(move |col| u32::from(frames[col * self.detector.pixels() + pixel as usize]))
            };
            let counts: Vec<u32> = pixels.iter().flat_map(at).collect();
            spectra.add_row(scan_row, &counts, &vec![true; cols]).unwrap();
        }
        spectra
    }
}

fn largest(what: &str, got: impl IntoIterator<Item = f64>, expected: &[f64]) -> f64 {
    let got: Vec<f64> = got.into_iter().collect();
    assert_eq!(got.len(), expected.len(), "{what}");
    assert!(got.iter().all(|value| value.is_finite()), "{what}");
    got.iter().zip(expected).map(|(got, expected)| (got - expected).abs()).fold(0.0, f64::max)
}

fn correlation(a: &[f32], b: &[f64]) -> f64 {
    let mean_a = a.iter().map(|&a| f64::from(a)).sum::<f64>() / a.len() as f64;
    let mean_b = b.iter().sum::<f64>() / b.len() as f64;
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (&a, &b) in a.iter().zip(b) {
        let (a, b) = (f64::from(a) - mean_a, b - mean_b);
        (ab, aa, bb) = (ab + a * b, aa + a * a, bb + b * b);
    }
    ab / (aa * bb).sqrt()
}

fn matches_golden(set: &Set, result: &Reconstruction, calibration: &str) {
    let reals = |name: &str| set.golden(&format!("{name}_{calibration}_f64.npy")).reals().unwrap();
    let expected = reals("ssb_phase");
    let error = largest("phase", result.phase.iter().map(|&x| x.into()), &expected);
    assert!(error <= 2e-5, "{calibration}: phase off by {error:e} rad");
    let correlated = correlation(&result.phase, &expected);
    assert!(correlated >= 0.999_999, "{calibration}: correlation {correlated}");

    let object = set.golden(&format!("ssb_object_{calibration}_c128.npy")).complex().unwrap();
    let scale = object.iter().map(|o| o.norm()).fold(0.0, f64::max);
    let difference = |(got, expected): (&num_complex::Complex32, &Complex64)| {
        (Complex64::new(got.re.into(), got.im.into()) - expected).norm()
    };
    let object_error = result.object().iter().zip(&object).map(difference).fold(0.0, f64::max) / scale;
    assert!(object_error <= 1e-5, "{calibration}: object off by {object_error:e} of its peak");

    let spectrum = set.golden(&format!("ssb_spectrum_{calibration}_c128.npy")).complex().unwrap();
    let q_cols = set.scan.cols / 2 + 1;
    let norm = |plane: &[Complex64]| plane.iter().skip(1).map(|c| c.norm_sqr()).sum::<f64>().sqrt();
    let half: Vec<Complex64> =
        spectrum.chunks_exact(set.scan.cols).flat_map(|row| &row[..q_cols]).copied().collect();
    let off: Vec<Complex64> = result
        .planes
        .as_ref()
        .unwrap()
        .spectrum
        .iter()
        .zip(&half)
        .map(|(got, expected)| got - expected)
        .collect();
    assert!((result.planes.as_ref().unwrap().spectrum[0] - half[0]).norm() <= 1e-12 * half[0].norm());
    let spectrum_error = norm(&off) / norm(&half);
    assert!(spectrum_error <= 1e-4, "{calibration}: spectrum off by {spectrum_error:e} of its norm");

    let expected = reals("ssb_mean_phase");
    let mean_phase = result.mean_phase.as_ref().unwrap();
    let mean_error = largest("mean phase", mean_phase.iter().map(|&x| x.into()), &expected);
    assert!(mean_error <= 2e-5, "{calibration}: mean phase off by {mean_error:e} rad");

    let report: Value =
        serde_json::from_slice(&std::fs::read(set.folder.join("goldens/report.json")).unwrap()).unwrap();
    let expected_loss = number(&report[calibration]["loss"]);
    let loss_error = (result.loss.unwrap() / expected_loss - 1.0).abs();
    assert!(loss_error <= 1e-6, "{calibration}: loss off by {loss_error:e}");

    let expected = reals("ssb_phase_least_squares");
    let rms = (expected.iter().map(|x| x * x).sum::<f64>() / expected.len() as f64).sqrt();
    let least_error =
        largest("least squares", result.phase_least_squares.iter().map(|&x| x.into()), &expected) / rms;
    assert!(least_error <= 1e-5, "{calibration}: least-squares phase off by {least_error:e} of its rms");
    println!(
        "{calibration}: phase {error:.2e} rad, 1 - correlation {:.1e}, object {object_error:.1e}, spectrum \
         {spectrum_error:.1e}, mean phase {mean_error:.2e} rad, loss {loss_error:.1e}, least squares {least_error:.1e}",
        1.0 - correlated
    );
}

fn reconstructions_match<D: SsbDevice>(device: &D, name: &str) {
    let Some(set) = set(name) else { return };
    let options = Options { moments: Moments::Compute, with_planes: true, ..Options::default() };
    for (calibration, suffix, pins) in
        [("truecal", "_truecal", set.true_calibration()), ("autocal", "", Pins::default())]
    {
        let field = set.bright_field(&pins);
        let axis = |axis: &str| set.golden(&format!("bf_{axis}{suffix}_i32.npy")).integers().unwrap();
        let expected: Vec<u32> = axis("rows")
            .into_iter()
            .zip(axis("cols"))
            .map(|(row, col)| (row as usize * set.detector.cols + col as usize) as u32)
            .collect();
        assert!(field.pixels == expected, "{calibration}: another set of bright-field pixels");
        let hot: Vec<u32> = field.hot.clone();
        let golden_hot = set.golden("hot_found_bool.npy").integers().unwrap();
        let golden_hot: Vec<u32> =
            (0..golden_hot.len()).filter(|&at| golden_hot[at] != 0).map(|at| at as u32).collect();
        assert_eq!(hot, golden_hot);
        let spectra = set.spectra_on(device.clone(), &field.pixels, 0..set.scan.rows);
        let result = reconstruct(&spectra, &field, &set.optics(), &options).unwrap();
        matches_golden(&set, &result, calibration);
        if calibration == "truecal" {
            transfer_matches(&set, &result);
            samples_match(device, &set, &spectra, &field);
        } else {
            let report: Value =
                serde_json::from_slice(&std::fs::read(set.folder.join("goldens/report.json")).unwrap())
                    .unwrap();
            for axis in [0, 1] {
                assert!((field.centre[axis] - number(&report["centre_auto"][axis])).abs() < 1e-9);
            }
            assert!((field.radius.0 - number(&report["radius_auto"])).abs() < 1e-9);
            assert!((field.edge_radius.0 - number(&report["edge_radius_auto"])).abs() < 1e-9);
            assert!((field.sampling[0].0 - number(&report["sampling_auto_mrad_px"])).abs() < 1e-9);
        }
    }
}

fn transfer_matches(set: &Set, result: &Reconstruction) {
    let pctf = set.golden("pctf_truecal_f64.npy").reals().unwrap();
    let q_cols = set.scan.cols / 2 + 1;
    let half: Vec<f64> = pctf.chunks_exact(set.scan.cols).flat_map(|row| &row[..q_cols]).copied().collect();
    let error = largest("transfer", result.planes.as_ref().unwrap().transfer.iter().copied(), &half);
    assert!(error <= 1e-6, "transfer function off by {error:e}");
}

fn samples_match<D: SsbDevice>(device: &D, set: &Set, spectra: &LiveSpectra<D>, field: &BrightField) {
    let sample = set.golden("G_sample_index_i64.npy").integers().unwrap();
    let plane = set.scan.rows * (set.scan.cols / 2 + 1);
    let expected = set.golden("G_sample_c128.npy").complex().unwrap();
    for (&pixel, expected) in sample.iter().zip(expected.chunks_exact(plane)) {
        let got = spectra.pixel_spectrum(pixel as usize).unwrap();
        let norm = expected.iter().map(|g| g.norm_sqr()).sum::<f64>().sqrt();
        let off = |(got, expected): (&num_complex::Complex32, &Complex64)| {
            (Complex64::new(got.re.into(), got.im.into()) - expected).norm_sqr()
        };
        let error = got.iter().zip(expected).map(off).sum::<f64>().sqrt() / norm;
        assert!(error <= 1e-5, "G of pixel {pixel} off by {error:e} of its norm");
    }

    let model = GammaModel::new(&set.optics()).unwrap();
    let angles: Vec<[f64; 2]> = sample
        .iter()
        .map(|&pixel| {
            let [row, col] = field.row_col(field.pixels[pixel as usize]);
            model.angle_of_pixel(row, col, field.centre)
        })
        .collect();
    let k = set.golden("k_scan_truecal_per_m_f64.npy").reals().unwrap();
    let per_angle = set.optics().semi_angle.radians() / set.optics().wavelength().0;
    for (&pixel, angle) in sample.iter().zip(&angles) {
        for axis in [0, 1] {
            let expected = k[2 * pixel as usize + axis];
            assert!((angle[axis] * per_angle - expected).abs() <= 1e-6 * expected.abs().max(1e9));
        }
    }
    let pixels = BrightFieldPixels { used: vec![true; angles.len()], angles };
    let gamma = device.overlap_function(&pixels, &model, set.scan).unwrap();
    let expected = set.golden("gamma_sample_c128.npy").complex().unwrap();
    let q_cols = set.scan.cols / 2 + 1;
    let half: Vec<Complex64> =
        expected.chunks_exact(set.scan.cols).flat_map(|row| &row[..q_cols]).copied().collect();
    let off = |(got, expected): (&num_complex::Complex32, &Complex64)| {
        (Complex64::new(got.re.into(), got.im.into()) - expected).norm()
    };
    let error = gamma.iter().zip(&half).map(off).fold(0.0, f64::max);
    assert!(error <= 1e-5, "gamma off by {error:e}");
    println!("gamma samples {error:.1e}");
}

#[test]
fn the_thin_sample_matches_float64() {
    reconstructions_match(&Cpu, "sto-small");
}

#[test]
fn the_thick_tilted_sample_matches_float64() {
    reconstructions_match(&Cpu, "thick-tilt");
}

/// The CUDA kernels run on the processor; with `SIDEBAND_TEST_CUDA` set, on the machine's CUDA device.
#[test]
fn cuda_kernels_match_float64() {
    let device = match std::env::var_os("SIDEBAND_TEST_CUDA") {
        Some(_) => Cuda::new(0).unwrap(),
        None => Cuda::emulated(1),
    };
    reconstructions_match(&device, "sto-small");
}

#[test]
fn the_order_of_rows_and_the_number_of_threads_leave_no_trace() {
    let Some(set) = set("sto-small") else { return };
    let field = set.bright_field(&Pins::default());
    let options = Options { moments: Moments::Compute, with_planes: true, ..Options::default() };
    let with = |threads: usize, order: Vec<usize>| {
        pool_of(threads).install(|| {
            let spectra = set.spectra(&field.pixels, order.into_iter());
            let mut result = reconstruct(&spectra, &field, &set.optics(), &options).unwrap();
            result.timings = Default::default();
            result
        })
    };
    let forward = with(1, (0..set.scan.rows).collect());
    let shuffled = with(2, (0..set.scan.rows).map(|row| row * 37 % 64).collect());
    assert!(forward == shuffled);
}

fn pool_of(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}
