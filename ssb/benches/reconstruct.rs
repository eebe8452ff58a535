//! Row transforms and reconstruction, timed beside numpy on the same counts in the same run.
//!
//! `cargo bench -p ssb` prints time per step for a 128 x 128 scan of about 7,800 bright-field pixels and, where memory
//! allows, 256 x 256. With `SIDEBAND_PYTHON` set to a Python with numpy it also runs `tests/peers/ssb_numpy.py` and
//! compares phases. `-- --check` runs a small case once, for its answer; `-- --cuda` the CUDA device
//! beside the processor.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernels::lanes::InstructionSet;
use kernels::types::{
    Aberration, Aberrations, Degrees, DetectorShape, Kilovolts, Milliradians, Nanometres, Optics, Pixels,
    ScanShape,
};
use kernels::{Cpu, Processor};
use ssb::reconstruct::reconstruct;
use ssb::{BrightField, LiveSpectra, Moments, Options, Reconstruction, SsbDevice};

/// The largest difference from numpy's phase that is accepted.
const PHASE_BOUND_RAD: f64 = 2e-5;

struct Case {
    scan: ScanShape,
    optics: Optics,
    field: BrightField,
    /// `[pixel][scan_row][scan_col]`
    counts: Vec<u8>,
}

/// 0.19 electrons a pixel and frame, as in a scan of 1,500 electrons a frame.
fn case(scan: ScanShape, radius_px: f64, names: &[(&str, f64)]) -> Case {
    let size = (2.0 * radius_px + 20.0) as usize;
    let detector = DetectorShape { rows: size, cols: size };
    let centre = [radius_px + 9.3, radius_px + 10.85];
    let inside = |&pixel: &u32| {
        let (row, col) = ((pixel as usize / size) as f64, (pixel as usize % size) as f64);
        (row - centre[0]).hypot(col - centre[1]) <= radius_px
    };
    let pixels: Vec<u32> = (0..(size * size) as u32).filter(inside).collect();
    let sampling = [Milliradians(30.0 / radius_px); 2];
    let field = BrightField {
        num_in_disk: pixels.len(),
        pixels,
        detector,
        centre,
        radius: Pixels(radius_px),
        edge_radius: Pixels(radius_px),
        sampling,
        hot: Vec::new(),
        marked: Vec::new(),
        measured_centre: centre,
        measured_radius: Pixels(radius_px),
        lit: 0.5,
    };
    let term = |&(name, nm): &(&str, f64)| {
        Aberration::named(name, Nanometres(nm), Degrees(15.0)).expect("known name")
    };
    let optics = Optics {
        voltage: Kilovolts(300.0),
        semi_angle: Milliradians(30.0),
        scan_step: [Nanometres(0.016); 2],
        detector_sampling: sampling,
        rotation: Degrees(-12.5),
        transpose: false,
        aberrations: Aberrations(names.iter().map(term).collect()),
    };
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let counts = (0..field.pixels.len() * scan.positions())
        .map(|_| {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            match state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 54 {
                0..847 => 0,
                847..1008 => 1,
                1008..1022 => 2,
                _ => 3,
            }
        })
        .collect();
    Case { scan, optics, field, counts }
}

/// The largest difference of a CUDA device's phase from the processor's that is accepted.
const DEVICE_BOUND_RAD: f64 = 2e-5;

struct Run {
    rows: Duration,
    /// What is done once after the last row.
    closed: Duration,
    result: Reconstruction,
    bytes: u64,
}

/// What is timed as `rows` starts from u32 counts in memory, one scan row at a time, as the resident gives them.
fn run(case: &Case, moments: Moments) -> Run {
    run_on(&Cpu, case, moments, 1)
}

/// The same on a device, reconstructed `times` times: of the times the middle one counts.
fn run_on<D: SsbDevice>(device: &D, case: &Case, moments: Moments, times: usize) -> Run {
    let ScanShape { rows, cols } = case.scan;
    let mut spectra = LiveSpectra::new(device.clone(), case.scan, case.field.pixels.clone()).expect("memory");
    let covered = vec![true; cols];
    let mut time = Duration::ZERO;
    for scan_row in 0..rows {
        let images = case.counts.chunks_exact(rows * cols);
        let row: Vec<u32> =
            images.flat_map(|image| &image[scan_row * cols..][..cols]).map(|&count| count.into()).collect();
        let start = Instant::now();
        spectra.add_row(scan_row, &row, &covered).expect("a row of the right length");
        time += start.elapsed();
    }
    let start = Instant::now();
    spectra.close().expect("the columns");
    // a look at one pixel waits for what was issued
    spectra.pixel_spectrum(0).expect("a pixel");
    let closed = start.elapsed();
    let options = Options { moments, ..Options::default() };
    let made = || reconstruct(&spectra, &case.field, &case.optics, &options).expect("a reconstruction");
    let mut results: Vec<Reconstruction> = (0..times).map(|_| made()).collect();
    let is_same = |result: &Reconstruction| result.phase == results[0].phase;
    assert!(results.iter().all(is_same), "the same spectra gave another phase");
    results.sort_by_key(|result| result.timings.columns + result.timings.moments);
    let result = results.swap_remove(times / 2);
    Run { rows: time, closed, result, bytes: spectra.bytes() }
}

struct Numpy {
    spectra: f64,
    reconstruct: f64,
    phase: Vec<f64>,
    answer: String,
}

fn numpy(case: &Case) -> Option<Numpy> {
    let python = std::env::var("SIDEBAND_PYTHON").ok()?;
    let folder = std::env::temp_dir().join(format!("sideband-ssb-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let file = |name: &str| -> PathBuf { folder.join(name) };
    std::fs::write(file("counts.u8"), &case.counts).expect("room for the counts");
    let wavelength = case.optics.wavelength().0;
    let k: Vec<String> = case
        .field
        .pixels
        .iter()
        .map(|&pixel| {
            let [row, col] = case.field.row_col(pixel);
            let [row, col] = case.optics.scan_angle(row, col, case.field.centre);
            format!("[{:e},{:e}]", row.0 / wavelength, col.0 / wavelength)
        })
        .collect();
    let term = |term: &Aberration| {
        format!("[{},{},{:e},{:e}]", term.order, term.symmetry, term.size.metres(), term.angle.radians())
    };
    let terms: Vec<String> = case.optics.aberrations.0.iter().map(term).collect();
    let parameters = format!(
        r#"{{"scan":[{},{}],"voltage_v":{:e},"wavelength_m":{:e},"semiangle_rad":{:e},"sampling_rad":{:e},"step_m":{:e},"aberrations":[{}],"k_per_m":[{}]}}"#,
        case.scan.rows,
        case.scan.cols,
        case.optics.voltage.volts(),
        wavelength,
        case.optics.semi_angle.radians(),
        case.field.sampling[0].radians(),
        case.optics.scan_step[0].metres(),
        terms.join(","),
        k.join(",")
    );
    std::fs::write(file("parameters.json"), parameters).expect("room for the parameters");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/peers/ssb_numpy.py");
    let output = std::process::Command::new(python)
        .arg(script)
        .args([file("counts.u8"), file("parameters.json"), file("phase.f64")])
        .output()
        .expect("SIDEBAND_PYTHON runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let phase = std::fs::read(file("phase.f64")).expect("numpy's phase");
    let phase = phase.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect();
    std::fs::remove_dir_all(&folder).expect("the temporary folder goes");
    let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let seconds = |key: &str| -> f64 {
        let rest = answer.split_once(&format!("\"{key}\": ")).expect("a time").1;
        rest.split([',', '}']).next().expect("a number").parse().expect("a number")
    };
    Some(Numpy { spectra: seconds("spectra_s"), reconstruct: seconds("reconstruct_s"), phase, answer })
}

fn compare(run: &Run, numpy: &Numpy) -> f64 {
    assert_eq!(run.result.phase.len(), numpy.phase.len());
    let difference = |(got, expected): (&f32, &f64)| (f64::from(*got) - expected).abs();
    let worst = run.result.phase.iter().zip(&numpy.phase).map(difference).fold(0.0, f64::max);
    assert!(worst <= PHASE_BOUND_RAD, "phase differs from numpy's by {worst:e} rad");
    worst
}

fn print(case: &Case, run: &Run) {
    let timings = run.result.timings;
    let pairs = case.field.pixels.len() * case.scan.rows * (case.scan.cols / 2 + 1);
    println!(
        "{} scan, {} bright-field pixels, G {:.2} GB: rows {:.3} s, closing {:.4} s, columns + correction {:.4} s ({:.0} M pairs/s), \
         images {:.4} s, moments {:.3} s",
        case.scan,
        run.result.num_pixels,
        run.bytes as f64 * 1e-9,
        run.rows.as_secs_f64(),
        run.closed.as_secs_f64(),
        timings.columns.as_secs_f64(),
        pairs as f64 * 1e-6 / timings.columns.as_secs_f64(),
        timings.images.as_secs_f64(),
        timings.moments.as_secs_f64(),
    );
}

/// The CUDA device beside the processor, where there is one.
fn on_cuda(names: &[(&str, f64)]) {
    let device = match Processor::cuda(0) {
        Ok(device) => device,
        Err(why) => return println!("CUDA: not run: {why}"),
    };
    let small = case(ScanShape { rows: 128, cols: 126 }, 49.85, names);
    let run_there = run_on(&device, &small, Moments::Compute, 3);
    print!("CUDA: ");
    print(&small, &run_there);
    let here = run(&small, Moments::Compute);
    let pairs = run_there.result.phase.iter().zip(&here.result.phase);
    let worst = pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs()).fold(0.0, f64::max);
    assert!(worst <= DEVICE_BOUND_RAD, "phase differs from the processor's by {worst:e} rad");
    let losses = [&run_there, &here].map(|run| run.result.loss.expect("moments were asked for"));
    println!("phase differs from the processor's by {worst:.1e} rad, loss {} and {}", losses[0], losses[1]);
    drop(small);
    let only_small = std::env::args().any(|arg| arg == "--small");
    for (scan, least) in
        [(256, 6u64 << 30), (512, 24 << 30)].into_iter().filter(|&(scan, _)| scan == 256 || !only_small)
    {
        if available_bytes() < least {
            println!("CUDA, {scan}x{scan}: not run, less than {} GiB of memory free", least >> 30);
            continue;
        }
        let case = case(ScanShape { rows: scan, cols: scan }, 52.9, names);
        for moments in [Moments::Skip, Moments::Compute] {
            print!("CUDA: ");
            print(&case, &run_on(&device, &case, moments, 7));
        }
    }
}

fn available_bytes() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find(|line| line.starts_with("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn main() {
    let low = [("C10", -6.3), ("C12", 1.8)];
    let high = [("C10", -6.3), ("C12", 1.8), ("C21", 40.0), ("C23", 30.0), ("C30", 1000.0), ("C50", 1e6)];
    if std::env::args().any(|arg| arg == "--check") {
        for names in [&low[..], &high] {
            let case = case(ScanShape { rows: 18, cols: 20 }, 12.0, names);
            let run = run(&case, Moments::Compute);
            print(&case, &run);
            match numpy(&case) {
                Some(numpy) => println!("phase differs from numpy's by {:.1e} rad", compare(&run, &numpy)),
                None => println!("not compared with numpy: SIDEBAND_PYTHON is not set"),
            }
        }
        return;
    }
    if std::env::args().any(|arg| arg == "--cuda") {
        on_cuda(&low);
        return on_cuda(&high);
    }
    println!(
        "{} threads, {:?}",
        std::thread::available_parallelism().map_or(1, usize::from),
        InstructionSet::detect()
    );
    let medium = case(ScanShape { rows: 128, cols: 128 }, 49.85, &low);
    let first = run(&medium, Moments::Compute);
    print(&medium, &first);
    let again = run(&medium, Moments::Skip);
    print(&medium, &again);
    let fifth = case(ScanShape { rows: 128, cols: 128 }, 49.85, &high);
    print!("to fifth order: ");
    print(&fifth, &run(&fifth, Moments::Skip));
    drop(fifth);
    match numpy(&medium) {
        Some(numpy) => {
            let worst = compare(&first, &numpy);
            let timings = again.result.timings;
            let ours = (again.rows + timings.columns + timings.images).as_secs_f64();
            let theirs = numpy.spectra + numpy.reconstruct;
            println!("numpy: {}", numpy.answer);
            println!(
                "ours {ours:.3} s, numpy {theirs:.1} s: {:.0} times faster; phase differs by {worst:.1e} rad",
                theirs / ours
            );
            assert!(theirs >= 10.0 * ours, "expected at least 10 times faster than numpy");
        }
        None => println!("not compared with numpy: SIDEBAND_PYTHON is not set"),
    }
    drop(medium);
    if available_bytes() > 6 << 30 {
        let large = case(ScanShape { rows: 256, cols: 256 }, 49.85, &low);
        print(&large, &run(&large, Moments::Compute));
    } else {
        println!("256x256: not run, less than 6 GiB of memory free");
    }
}
