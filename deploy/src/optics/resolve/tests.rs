use super::super::parse_aberration;
use super::*;

const FRAMES: Acquisition = Acquisition { frames_expected: 4096 };

fn file() -> Source {
    let values = OpticsValues { voltage: Some(Kilovolts(300.0)), ..Default::default() };
    Source { provenance: Provenance::File, place: "set_master.h5".to_owned(), values }
}

fn enough() -> OpticsRequest {
    OpticsRequest {
        flags: OpticsValues {
            semi_angle: Some(Milliradians(30.0)),
            scan_step: Some([Nanometres(0.016); 2]),
            rotation: Some(Degrees(-12.5)),
            scan_shape: Some(ScanShape { rows: 64, cols: 64 }),
            ..Default::default()
        },
        optics_file: None,
        ..Default::default()
    }
}

fn refusal(request: &OpticsRequest, recorded: &[Source]) -> String {
    resolve(request, recorded, FRAMES).unwrap_err().to_string()
}

#[test]
fn everything_that_is_missing_is_asked_for_in_one_error_by_flag() {
    let text = refusal(&OpticsRequest::default(), &[]);
    for flag in ["--voltage-kv", "--semi-angle-mrad", "--scan-step-nm", "--rotation-deg", "--scan-shape"] {
        assert!(text.contains(flag), "{flag} not in: {text}");
    }
    assert!(text.contains("5 parameters"), "{text}");
    assert!(text.contains("4096 = 64 x 64, so it could be 64x64"), "{text}");
    assert!(text.contains("semi_angle_mrad") && text.contains("--optics"), "{text}");
}

#[test]
fn what_a_file_says_is_not_asked_for() {
    let text = refusal(&OpticsRequest::default(), &[file()]);
    assert!(!text.contains("--voltage-kv"), "{text}");
    let optics = resolve(&enough(), &[file()], FRAMES).unwrap();
    assert_eq!(
        (optics.voltage.as_ref().unwrap().value.0, optics.voltage.as_ref().unwrap().provenance),
        (300.0, Provenance::File)
    );
    assert!(optics.voltage.as_ref().unwrap().detail.contains("set_master.h5"));
}

#[test]
fn flag_beats_optics_file_beats_file_beats_side_car() {
    let says = |kv: f64| OpticsValues { voltage: Some(Kilovolts(kv)), ..Default::default() };
    let side_car = Source { provenance: Provenance::SideCar, place: "set.h5".to_owned(), values: says(80.0) };
    let mut master = file();
    let mut request = enough();
    let found = |request: &OpticsRequest, recorded: &[Source]| {
        let optics = resolve(request, recorded, FRAMES).unwrap();
        (optics.voltage.as_ref().unwrap().value.0, optics.voltage.as_ref().unwrap().provenance)
    };
    assert_eq!(found(&request, std::slice::from_ref(&side_car)), (80.0, Provenance::SideCar));
    assert_eq!(found(&request, &[side_car.clone(), master.clone()]), (300.0, Provenance::File));
    request.optics_file = Some(("optics.toml".into(), says(200.0)));
    assert_eq!(found(&request, &[side_car.clone(), master.clone()]), (200.0, Provenance::OpticsFile));
    request.flags.voltage = Some(Kilovolts(120.0));
    assert_eq!(found(&request, &[side_car.clone(), master.clone()]), (120.0, Provenance::Flag));
    master.values.voltage = None;
    assert_eq!(found(&request, &[side_car, master]), (120.0, Provenance::Flag));
}

#[test]
fn a_weaker_source_that_says_otherwise_is_noted() {
    let mut request = enough();
    request.flags.voltage = Some(Kilovolts(200.0));
    let optics = resolve(&request, &[file()], FRAMES).unwrap();
    let noted = optics.notes.iter().any(|note| {
        note == "voltage_kv: file set_master.h5 says 300 kV, --voltage-kv says 200 kV and is used"
    });
    assert!(noted, "{:?}", optics.notes);
}

#[test]
fn aberrations_not_given_are_zero_by_default_and_noted() {
    let mut request = enough();
    request.flags.aberrations = vec![parse_aberration("C10=-6.3").unwrap()];
    request.optics_file = Some((
        "optics.toml".into(),
        OpticsValues {
            aberrations: vec![parse_aberration("C10=5").unwrap(), parse_aberration("C12=1.8,11.6").unwrap()],
            ..Default::default()
        },
    ));
    let optics = resolve(&request, &[file()], FRAMES).unwrap();
    assert_eq!(optics.aberrations.len(), ABERRATIONS.len());
    let found: Vec<_> =
        optics.aberrations.iter().take(3).map(|term| (term.value.size.0, term.provenance)).collect();
    assert_eq!(found, [(-6.3, Provenance::Flag), (1.8, Provenance::OpticsFile), (0.0, Provenance::Default)]);
    assert!(optics.notes.iter().any(|note| note.contains("taken as 0: C21 C23")), "{:?}", optics.notes);
    assert_eq!(optics.optics_at([Milliradians(0.6); 2]).unwrap().aberrations.0.len(), 2);
}

#[test]
fn a_scan_that_needs_more_than_the_frames_is_refused_with_both_numbers() {
    let mut request = enough();
    request.flags.scan_shape = Some(ScanShape { rows: 64, cols: 65 });
    let text = refusal(&request, &[file()]);
    assert!(text.contains("4160") && text.contains("4096"), "{text}");
    request.flags.scan_shape = Some(ScanShape { rows: 64, cols: 32 });
    request.flags.frames_per_position = Some(2);
    request.flags.flyback_frames = Some(1);
    let text = refusal(&request, &[file()]);
    assert!(
        text.contains(
            "64x32, 2 frames a position, 1 fly-back frames after each row (--scan-shape) needs 4159"
        ),
        "{text}"
    );
    request.flags.flyback_frames = None;
    request.flags.scan_path = Some(ScanPath::Snake);
    let optics = resolve(&request, &[file()], FRAMES).unwrap();
    assert_eq!(optics.geometry.to_string(), "64x32, snake, 2 frames a position");
    assert_eq!(optics.scan_path.provenance, Provenance::Flag);
    assert_eq!(optics.skip_frames.provenance, Provenance::Default);
    assert_eq!(request.frame_order(), optics.geometry.order());
    let mut request = enough();
    request.flags.scan_shape = Some(ScanShape { rows: usize::MAX, cols: 2 });
    assert!(refusal(&request, &[file()]).contains("268435456 frames"));
}

#[test]
fn impossible_values_are_refused_with_their_unit() {
    type Spoil = fn(&mut OpticsValues);
    let cases: [(&str, Spoil); 13] = [
        ("0 frames", |said| said.frames_per_position = Some(0)),
        ("4294967295 frames", |said| said.frames_per_position = Some(u32::MAX.into())),
        ("4294967295 frames", |said| said.flyback_frames = Some(u32::MAX.into())),
        ("18446744073709551615 frames", |said| said.skip_frames = Some(u64::MAX)),
        ("0 mrad", |said| said.semi_angle = Some(Milliradians(0.0))),
        ("201 mrad", |said| said.semi_angle = Some(Milliradians(201.0))),
        ("NaN mrad", |said| said.semi_angle = Some(Milliradians(f64::NAN))),
        ("300000 kV", |said| said.voltage = Some(Kilovolts(300_000.0))),
        ("-1 nm", |said| said.scan_step = Some([Nanometres(-1.0), Nanometres(1.0)])),
        ("inf deg", |said| said.rotation = Some(Degrees(f64::INFINITY))),
        ("0 px", |said| said.bf_radius = Some(Pixels(0.0))),
        ("0 mrad, 1 mrad", |said| said.detector_sampling = Some([Milliradians(0.0), Milliradians(1.0)])),
        ("NaN px", |said| said.bf_centre = Some([Pixels(f64::NAN), Pixels(0.0)])),
    ];
    for (got, spoil) in cases {
        let mut request = enough();
        spoil(&mut request.flags);
        let text = refusal(&request, &[file()]);
        assert!(text.contains(got) && text.contains("expected"), "{got}: {text}");
    }
}

#[test]
fn what_a_file_says_and_cannot_be_is_ignored_with_a_note() {
    // 8.05 keV is copper's X-ray line: a detector left at its factory setting.
    let mut recorded = file();
    recorded.values.voltage = Some(Kilovolts(8.05));
    let asked = refusal(&enough(), std::slice::from_ref(&recorded));
    assert!(asked.contains("--voltage-kv"), "{asked}");
    assert!(asked.contains("file set_master.h5 says 8.05 kV, ignored: expected 10 to 1000 kV"), "{asked}");
    assert!(!asked.contains("has none"), "{asked}");
    let mut request = enough();
    request.flags.voltage = Some(Kilovolts(200.0));
    let optics = resolve(&request, &[recorded], FRAMES).unwrap();
    assert_eq!(optics.voltage.as_ref().unwrap().value.0, 200.0);
    let noted = |note: &String| note.contains("8.05 kV") && note.contains("set_master.h5");
    assert!(optics.notes.iter().any(noted), "{:?}", optics.notes);
}

#[test]
fn an_aberration_given_twice_is_refused_by_name() {
    let mut request = enough();
    request.flags.aberrations = vec![parse_aberration("C30=1").unwrap(), parse_aberration("C30=2").unwrap()];
    assert!(refusal(&request, &[file()]).contains("C30"));
}

#[test]
fn measurement_fills_only_what_is_not_pinned() {
    let mut request = enough();
    request.flags.bf_centre = Some([Pixels(95.0), Pixels(96.0)]);
    let mut optics = resolve(&request, &[file()], FRAMES).unwrap();
    assert!(optics.bf_radius.is_none() && optics.detector_sampling.is_none());
    optics.fill_measured(MeasuredBrightField {
        centre: [Pixels(1.0), Pixels(2.0)],
        radius: Pixels(50.0),
        sampling: Some([Milliradians(0.6); 2]),
    });
    let centre = optics.bf_centre.unwrap();
    assert_eq!((centre.value[0].0, centre.provenance), (95.0, Provenance::Flag));
    let radius = optics.bf_radius.unwrap();
    assert_eq!((radius.value.0, radius.provenance), (50.0, Provenance::Fitted));
    assert_eq!(optics.detector_sampling.unwrap().provenance, Provenance::Fitted);
}

#[test]
fn a_wrong_scan_shape_is_said_together_with_what_is_missing() {
    let mut request = enough();
    request.flags.scan_shape = Some(ScanShape { rows: 500, cols: 40 });
    request.flags.semi_angle = None;
    let text = refusal(&request, &[file()]);
    for words in ["20000 frames", "4096 frames", "--semi-angle-mrad MRAD"] {
        assert!(text.contains(words), "'{words}' not in {text}");
    }
}

/// A shape of 2^53 x 2^53 was taken for the next series, which then failed.
#[test]
fn a_scan_that_nobody_can_keep_is_refused_when_it_is_said() {
    for (rows, cols, frames) in
        [(1 << 53, 1 << 53, 1), (1 << 20, 1 << 20, 1), (usize::MAX, 2, 1), (2048, 2048, 65_536)]
    {
        let scan_shape = Some(ScanShape { rows, cols });
        let said = OpticsValues { scan_shape, frames_per_position: Some(frames), ..Default::default() };
        let text = crate::optics::check_values(&said).unwrap_err().to_string();
        assert!(text.contains(&format!("{rows}x{cols}")) && text.contains("268435456 frames"), "{text}");
    }
    let largest = Some(ScanShape { rows: 1 << 14, cols: 1 << 14 });
    assert!(crate::optics::check_values(&OpticsValues { scan_shape: largest, ..Default::default() }).is_ok());
}
