//! One acquisition taken in two ways: row by row, and there and back, each position in two frames, with fly-back and a
//! start in vain. What is computed of both is the same.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deploy::optics::{OpticsRequest, OpticsValues};
use deploy::report::{RunReport, Status};
use deploy::request::{RunRequest, StopFlag};
use deploy::rings::Rings;
use deploy::simulate::SimulateArgs;
use ingest::dectris::FileSet;
use ingest::filewriter::{Existing, FilewriterSet, FilewriterSettings, MasterMetadata};
use ingest::stream::threshold::Threshold;
use kernels::Cpu;
use kernels::bslz4_decode::Encoding;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{
    CountType, Degrees, DetectorShape, Kilovolts, Milliradians, Nanometres, Pixels, ScanPath, ScanShape,
};
use rand::{Rng, SeedableRng};
use resident::{Budget, Missing, Resident};
use tests::npy::Npy;

const SCAN: ScanShape = ScanShape { rows: 26, cols: 24 };
const DETECTOR: DetectorShape = DetectorShape { rows: 48, cols: 48 };
const FRAMES: usize = 2;
const FLYBACK: usize = 7;
const SKIP: usize = 5;

/// Two sets of the same counts: row by row, and the other way. Of the second, frame `lost` does not come, nor of the first
/// the position it belongs to.
struct Sets {
    plain: PathBuf,
    other: PathBuf,
}

/// The frames of the simulator, `[position][pixel]`.
fn simulated(folder: &Path) -> Vec<Vec<u16>> {
    let args = SimulateArgs {
        scan_shape: SCAN,
        detector_shape: DETECTOR,
        detector_sampling_mrad: 2.0,
        quiet: true,
        ..SimulateArgs::demo(folder.to_owned())
    };
    deploy::simulate::run(&args, &StopFlag::default()).unwrap();
    let set = FileSet::open(&folder.join("simulated_master.h5")).unwrap();
    let resident = Resident::new(SCAN, DETECTOR, CountType::U16, Budget::UNLIMITED).map(Arc::new).unwrap();
    deploy::pipeline::fill(Cpu, &set, &resident, &StopFlag::default()).unwrap();
    let snapshot = resident.snapshot();
    snapshot.positions().map(|frame| snapshot.frame(frame, Missing::Fail).unwrap().value).collect()
}

/// Writes a set; a frame that is None is left out.
fn write(folder: &Path, name: &str, frames: &[Option<Vec<u16>>]) -> PathBuf {
    let settings = FilewriterSettings {
        name: name.to_owned(),
        detector: DETECTOR,
        count_type: CountType::U16,
        encoding: Encoding::Bslz4,
        images_per_file: 1000,
        existing: Existing::Refuse,
        metadata: MasterMetadata { voltage: Kilovolts(200.0), ..MasterMetadata::default() },
    };
    let mut set = FilewriterSet::create(folder, settings).unwrap();
    for frame in frames {
        match frame {
            Some(counts) => {
                let mut chunk = Vec::new();
                encode_bslz4(counts, &mut chunk);
                set.append_chunk(&chunk).unwrap();
            }
            None => set.skip(1).unwrap(),
        }
    }
    set.finish().unwrap().master
}

fn sets(folder: &Path, lost: Option<(usize, usize)>) -> Sets {
    let frames = simulated(&folder.join("simulated"));
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(4);
    let mut noise = |number: usize| -> Vec<Option<Vec<u16>>> {
        (0..number).map(|_| Some((0..DETECTOR.pixels()).map(|_| rng.random_range(0..9)).collect())).collect()
    };
    let mut split = rand_pcg::Pcg64Mcg::seed_from_u64(5);
    let mut other = noise(SKIP);
    for row in 0..SCAN.rows {
        for step in 0..SCAN.cols {
            let col = if row % 2 == 1 { SCAN.cols - 1 - step } else { step };
            let all = &frames[row * SCAN.cols + col];
            // every electron goes to either frame
            let first: Vec<u16> = all
                .iter()
                .map(|&count| (0..count).map(|_| u16::from(split.random_bool(0.4))).sum())
                .collect();
            let second: Vec<u16> = all.iter().zip(&first).map(|(all, first)| all - first).collect();
            let is_lost = lost == Some((row, col));
            other.push(Some(first));
            other.push((!is_lost).then_some(second));
        }
        other.extend(noise(FLYBACK));
    }
    let plain: Vec<Option<Vec<u16>>> = frames
        .into_iter()
        .enumerate()
        .map(|(at, frame)| (lost != Some((at / SCAN.cols, at % SCAN.cols))).then_some(frame))
        .collect();
    Sets { plain: write(folder, "plain", &plain), other: write(folder, "other", &other) }
}

/// What a run is told beside the microscope.
#[derive(Clone, Copy)]
enum Told {
    Plain(ScanShape),
    Other,
}

fn run(master: &Path, out: &Path, told: Told, is_pinned: bool) -> RunReport {
    let mut flags = OpticsValues {
        semi_angle: Some(Milliradians(25.0)),
        scan_step: Some([Nanometres(0.024); 2]),
        rotation: Some(Degrees(-12.5)),
        ..OpticsValues::default()
    };
    match told {
        Told::Plain(scan) => flags.scan_shape = Some(scan),
        Told::Other => {
            flags.scan_shape = Some(SCAN);
            flags.scan_path = Some(ScanPath::Snake);
            flags.frames_per_position = Some(FRAMES as u64);
            flags.flyback_frames = Some(FLYBACK as u64);
            flags.skip_frames = Some(SKIP as u64);
        }
    }
    if is_pinned {
        flags.bf_centre = Some([Pixels(23.5), Pixels(23.5)]);
        flags.bf_radius = Some(Pixels(12.4));
    }
    let request = RunRequest {
        master: master.to_owned(),
        series: None,
        threshold: Threshold::First,
        at_once: 1,
        out: out.to_owned(),
        optics: OpticsRequest { flags, ..OpticsRequest::default() },
        processor: kernels::Processor::Cpu,
        memory_budget_bytes: None,
        threads: None,
        loss: false,
        quiet: true,
        rings: Rings::default(),
        stop: StopFlag::default(),
    };
    deploy::pipeline::run(request).unwrap().remove(0)
}

const IMAGES: [&str; 9] =
    ["phase", "amplitude", "bf", "adf", "com_row", "com_col", "frame_sum", "detector_total", "mean_pattern"];

fn bytes(out: &Path, image: &str) -> Vec<u8> {
    std::fs::read(out.join(format!("{image}.npy"))).unwrap()
}

#[test]
fn a_snake_with_fly_back_and_two_frames_a_position_gives_what_the_raster_gives() {
    let dir = tempfile::tempdir().unwrap();
    let sets = sets(dir.path(), None);
    let (plain, other) = (dir.path().join("plain-out"), dir.path().join("other-out"));
    // with the disk known the same pixels are transformed from the beginning
    let expected = run(&sets.plain, &plain, Told::Plain(SCAN), true);
    let report = run(&sets.other, &other, Told::Other, true);
    assert_eq!((expected.status, report.status), (Status::Complete, Status::Complete));
    assert_eq!(report.frames.expected as usize, SKIP + SCAN.rows * (SCAN.cols * FRAMES + FLYBACK));
    // the fly-back after the last row is no surplus
    assert!(!report.warnings.iter().any(|warning| warning.contains("belong to no position")));
    for image in IMAGES {
        assert!(bytes(&plain, image) == bytes(&other, image), "{image} differs");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(other.join("result.json")).unwrap()).unwrap();
    let optics = &json["optics"];
    assert_eq!(
        [
            &optics["scan_path"],
            &optics["frames_per_position"],
            &optics["flyback_frames"],
            &optics["skip_frames"]
        ],
        [&serde_json::json!("snake"), &FRAMES.into(), &FLYBACK.into(), &SKIP.into()]
    );
    assert_eq!(json["optics_provenance"]["flyback_frames"], "flag");

    // with the disk measured the same images; which pixels are transformed early depends on the first frames, and the order
    // in which they are summed on that
    run(&sets.plain, &plain, Told::Plain(SCAN), false);
    // a wrong shape first: the same frames under the right one give what they always give
    let wrong = ScanShape { rows: 30, cols: 40 };
    let report = run(&sets.other, &other, Told::Plain(wrong), false);
    let surplus = SKIP + SCAN.rows * (SCAN.cols * FRAMES + FLYBACK) - 1200;
    let said = format!("the last {surplus} belong to no position");
    assert!(report.warnings.iter().any(|warning| warning.contains(&said)), "{:?}", report.warnings);
    run(&sets.other, &other, Told::Other, false);
    for image in IMAGES {
        if !["phase", "amplitude"].contains(&image) {
            assert!(bytes(&plain, image) == bytes(&other, image), "{image} differs");
            continue;
        }
        let values = |out: &Path| Npy::read(&out.join(format!("{image}.npy"))).unwrap().reals().unwrap();
        let (a, b) = (values(&plain), values(&other));
        let largest = b.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let near = a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 2e-6 * largest.max(1.0));
        assert!(near && a.len() == SCAN.positions(), "{image} differs");
    }
}

#[test]
fn a_position_that_lost_one_of_its_frames_is_a_hole() {
    let dir = tempfile::tempdir().unwrap();
    let (row, col) = (7, 3);
    let sets = sets(dir.path(), Some((row, col)));
    let (plain, other) = (dir.path().join("plain-out"), dir.path().join("other-out"));
    let expected = run(&sets.plain, &plain, Told::Plain(SCAN), true);
    let report = run(&sets.other, &other, Told::Other, true);
    assert_eq!((expected.frames.missing, report.frames.missing), (1, 1));
    assert_eq!((expected.status, report.status), (Status::Partial, Status::Partial));
    for image in IMAGES {
        assert!(bytes(&plain, image) == bytes(&other, image), "{image} differs");
    }
    let com = Npy::read(&other.join("com_row.npy")).unwrap().reals().unwrap();
    let holes: Vec<usize> = (0..com.len()).filter(|&at| com[at].is_nan()).collect();
    assert_eq!(holes, [row * SCAN.cols + col]);
}
