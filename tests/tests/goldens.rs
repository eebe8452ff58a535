//! A whole run on the golden acquisition, through the pipeline, against answers that sideband did not make.
#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::path::Path;

use deploy::optics::{OpticsRequest, OpticsValues, parse_aberration};
use deploy::report::Status;
use deploy::request::{RunRequest, StopFlag};
use deploy::rings::Rings;
use ingest::stream::threshold::Threshold;
use kernels::types::{Degrees, Milliradians, Nanometres, Pixels, ScanShape};
use tests::not_run;
use tests::npy::Npy;

fn array(path: &Path) -> Npy {
    Npy::read(path).unwrap()
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    // NaN must not pass.
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |most, next| if next <= most { most } else { next })
}

#[test]
fn a_run_on_the_golden_acquisition_gives_every_golden() {
    let Some(data) = std::env::var_os("SIDEBAND_GOLDENS") else {
        not_run("SIDEBAND_GOLDENS is not set");
        return;
    };
    let folder = Path::new(&data).join("sto-small");
    let goldens = folder.join("goldens");
    for (calibration, centre, sampling) in [
        ("autocal", None, None),
        ("truecal", Some([Pixels(95.3), Pixels(96.85)]), Some([Milliradians(0.6); 2])),
    ] {
        let out = tempfile::tempdir().unwrap();
        let flags = OpticsValues {
            semi_angle: Some(Milliradians(30.0)),
            scan_step: Some([Nanometres(0.016); 2]),
            rotation: Some(Degrees(-12.5)),
            scan_shape: Some(ScanShape { rows: 64, cols: 64 }),
            bf_centre: centre,
            detector_sampling: sampling,
            aberrations: vec![
                parse_aberration("C10=-6.30475").unwrap(),
                parse_aberration("C12=1.8,11.564222").unwrap(),
            ],
            ..OpticsValues::default()
        };
        let request = RunRequest {
            master: folder.join("sto-small_master.h5"),
            series: None,
            threshold: Threshold::First,
            at_once: 1,
            out: out.path().to_path_buf(),
            optics: OpticsRequest { flags, optics_file: None, ..Default::default() },
            processor: kernels::Processor::Cpu,
            memory_budget_bytes: None,
            threads: None,
            loss: true,
            quiet: true,
            rings: Rings::default(),
            stop: StopFlag::default(),
        };
        let report = deploy::pipeline::run(request).unwrap().remove(0);
        assert_eq!(report.status, Status::Complete);
        assert_eq!((report.frames.received, report.frames.missing), (4096, 0));
        for (ours, golden) in
            [("detector_total", "detector_total_u64"), ("frame_sum", "frame_sum_all_pixels_u64")]
        {
            let ours = array(&out.path().join(format!("{ours}.npy")));
            let expected = array(&goldens.join(format!("{golden}.npy")));
            assert_eq!((&*ours.descr, &*expected.descr), ("<u8", "<u8"));
            assert!(ours.integers().unwrap() == expected.integers().unwrap(), "{golden} differs");
        }
        for (ours, golden) in [
            ("com_row", "com_row_px_f64"),
            ("com_col", "com_col_px_f64"),
            ("mean_pattern", "mean_pattern_f64"),
        ] {
            let ours = array(&out.path().join(format!("{ours}.npy"))).reals().unwrap();
            let difference =
                largest_difference(&ours, &array(&goldens.join(format!("{golden}.npy"))).reals().unwrap());
            assert!(difference <= 1e-9, "{golden}: {difference}");
        }
        let phase = array(&out.path().join("phase.npy")).reals().unwrap();
        let golden = array(&goldens.join(format!("ssb_phase_{calibration}_f64.npy"))).reals().unwrap();
        let difference = largest_difference(&phase, &golden);
        assert!(difference <= 2e-5, "{calibration} phase: {difference} rad");
        let text = std::fs::read_to_string(goldens.join("report.json")).unwrap();
        let golden: serde_json::Value = serde_json::from_str(&text).unwrap();
        let golden = golden[calibration]["loss"].as_f64().unwrap();
        let loss = report.loss_rad2.unwrap();
        assert!((loss / golden - 1.0).abs() <= 1e-6, "{calibration} loss: {loss}, expected {golden}");
    }
}
