//! The rules of the bright field on patterns with known answers.

use kernels::types::{Aberration, Aberrations, Degrees, Kilovolts, Nanometres, Optics};

use super::*;
use crate::warning::{Warning, warnings};

const DETECTOR: DetectorShape = DetectorShape { rows: 40, cols: 48 };
const SEMI_ANGLE: Milliradians = Milliradians(30.0);
const FRAMES: u64 = 1000;

/// A disk of 200 counts a pixel over 1000 frames on a background of 2.
fn totals(centre: [f64; 2], radius: f64) -> Vec<u64> {
    (0..DETECTOR.pixels())
        .map(|pixel| if is_within(pixel, DETECTOR, centre, radius) { 200 } else { 2 })
        .collect()
}

fn find(totals: &[u64], pixel_mask: &[u32], pins: &Pins) -> Result<BrightField, SsbError> {
    let pattern = Pattern { detector: DETECTOR, totals, frames: FRAMES, pixel_mask, marker_hits: None };
    bright_field(&pattern, SEMI_ANGLE, pins)
}

fn good() -> Vec<u32> {
    vec![0; DETECTOR.pixels()]
}

#[test]
fn a_disk_is_found_with_its_centre_radius_and_sampling() {
    let totals = totals([18.0, 25.0], 10.3);
    let field = find(&totals, &good(), &Pins::default()).unwrap();
    let expected: Vec<u32> =
        (0..DETECTOR.pixels()).filter(|&pixel| totals[pixel] == 200).map(|pixel| pixel as u32).collect();
    let area = expected.len() as f64;
    assert!((field.centre[0] - 18.0).abs() < 1e-12 && (field.centre[1] - 25.0).abs() < 1e-12);
    assert!((field.radius.0 - (area / std::f64::consts::PI).sqrt()).abs() < 1e-12);
    assert_eq!(field.edge_radius, field.radius);
    assert!((field.sampling[0].0 * field.edge_radius.0 - 30.0).abs() < 1e-12);
    // the radius of a circle of the same area cuts off a corner or two
    assert!(field.pixels.iter().all(|pixel| expected.contains(pixel)));
    assert!(field.pixels.len() as f64 > 0.97 * area);
    assert!(field.pixels.is_sorted());
    assert_eq!(field.num_in_disk, field.pixels.len());
}

#[test]
fn one_hot_pixel_neither_hides_the_disk_nor_takes_part() {
    let mut totals = totals([18.0, 25.0], 10.3);
    let clean = find(&totals, &good(), &Pins::default()).unwrap();
    let (outside, inside) = (3 * 48 + 5, 18 * 48 + 25);
    totals[outside] = 30_000;
    totals[inside] = 45_000;
    let field = find(&totals, &good(), &Pins::default()).unwrap();
    assert_eq!(field.hot, [outside as u32, inside as u32]);
    assert!(!field.pixels.contains(&(inside as u32)));
    assert_eq!(field.pixels.len() + 1, field.num_in_disk);
    assert!((field.centre[0] - clean.centre[0]).abs() < 0.01);
}

#[test]
fn masked_and_marked_pixels_do_not_count() {
    let totals = totals([18.0, 25.0], 10.3);
    let mut mask = good();
    mask[17 * 48 + 24] = 8;
    let mut marker_hits = vec![0; DETECTOR.pixels()];
    marker_hits[19 * 48 + 26] = 1;
    marker_hits[17 * 48 + 24] = 1000;
    let pattern = Pattern {
        detector: DETECTOR,
        totals: &totals,
        frames: FRAMES,
        pixel_mask: &mask,
        marker_hits: Some(&marker_hits),
    };
    let field = bright_field(&pattern, SEMI_ANGLE, &Pins::default()).unwrap();
    assert_eq!(field.marked, [19 * 48 + 26]);
    assert_eq!(field.pixels.len() + 2, field.num_in_disk);
    let later = candidates(&field, &mask, Pixels(2.0));
    assert!(later.contains(&(19 * 48 + 26)) && !later.contains(&(17 * 48 + 24)));
    assert!(field.pixels.iter().all(|pixel| later.contains(pixel)));
}

#[test]
fn a_pin_replaces_one_value_and_nothing_else() {
    let totals = totals([18.0, 25.0], 10.3);
    let free = find(&totals, &good(), &Pins::default()).unwrap();
    let centre = Some([18.4, 24.6]);
    let pinned = find(&totals, &good(), &Pins { centre, ..Pins::default() }).unwrap();
    assert_eq!((pinned.centre, pinned.radius, pinned.sampling), ([18.4, 24.6], free.radius, free.sampling));
    let radius = Some(Pixels(7.0));
    let pinned = find(&totals, &good(), &Pins { radius, ..Pins::default() }).unwrap();
    assert_eq!((pinned.centre, pinned.radius, pinned.sampling), (free.centre, Pixels(7.0), free.sampling));
    assert!(pinned.pixels.len() < 160);
    let sampling = Some([Milliradians(2.5), Milliradians(2.6)]);
    let pinned = find(&totals, &good(), &Pins { sampling, ..Pins::default() }).unwrap();
    assert_eq!((pinned.centre, pinned.radius), (free.centre, free.radius));
    assert_eq!(pinned.sampling, [Milliradians(2.5), Milliradians(2.6)]);
}

#[test]
fn a_blank_beam_is_said_to_be_one() {
    for (counts, said) in [(0, "is the beam blanked?"), (3, "may the disk fill the whole detector")] {
        let refused = find(&vec![counts; DETECTOR.pixels()], &good(), &Pins::default()).unwrap_err();
        assert!(matches!(refused, SsbError::NoDisk { good_pixels: 1920, .. }), "{refused}");
        assert!(refused.to_string().contains(said), "{refused}");
    }
    let masked = vec![1; DETECTOR.pixels()];
    let refused = find(&totals([18.0, 25.0], 10.3), &masked, &Pins::default()).unwrap_err();
    assert!(matches!(refused, SsbError::NoDisk { good_pixels: 0, .. }), "{refused}");
}

#[test]
fn a_disk_of_which_every_pixel_was_saturated_is_missed_with_their_number() {
    let totals = totals([18.0, 25.0], 10.3);
    let hits: Vec<u64> = totals.iter().map(|&total| u64::from(total == 200)).collect();
    let pattern = Pattern {
        detector: DETECTOR,
        totals: &totals,
        frames: FRAMES,
        pixel_mask: &good(),
        marker_hits: Some(&hits),
    };
    let refused = bright_field(&pattern, SEMI_ANGLE, &Pins::default()).unwrap_err().to_string();
    let saturated = hits.iter().sum::<u64>();
    assert!(refused.contains(&format!("({saturated} pixels more are left out")), "{refused}");
}

fn optics(field: &BrightField, c10_nm: f64) -> Optics {
    let defocus = Aberration::named("C10", Nanometres(c10_nm), Degrees(0.0)).unwrap();
    Optics {
        voltage: Kilovolts(300.0),
        semi_angle: SEMI_ANGLE,
        scan_step: [Nanometres(0.016); 2],
        detector_sampling: field.sampling,
        rotation: Degrees(0.0),
        transpose: false,
        aberrations: Aberrations(vec![defocus]),
    }
}

fn warned(totals: &[u64], pins: &Pins, c10_nm: f64) -> Vec<Warning> {
    let field = find(totals, &good(), pins).unwrap();
    warnings(&optics(&field, c10_nm), &field)
}

#[test]
fn a_pin_that_contradicts_the_disk_is_warned_of_and_one_that_agrees_is_not() {
    let totals = totals([18.0, 25.0], 10.3);
    let centre = |row, col| Pins { centre: Some([row, col]), ..Pins::default() };
    assert_eq!(warned(&totals, &centre(18.6, 24.4), 0.0), []);
    let found = warned(&totals, &centre(19.0, 25.2), 0.0);
    assert!(matches!(found[..], [Warning::CentreDiffers { pinned: [19.0, 25.2], .. }]), "{found:?}");
    let said = found[0].to_string();
    assert!(said.ends_with("pinned at 19.00, 25.20 px, the edge of the disk says 18.00, 25.00 px"), "{said}");
    let radius = |px| Pins { radius: Some(Pixels(px)), ..Pins::default() };
    assert_eq!(warned(&totals, &radius(10.6), 0.0), []);
    let found = warned(&totals, &radius(9.0), 0.0);
    assert!(matches!(found[..], [Warning::RadiusDiffers { pinned: Pixels(9.0), .. }]), "{found:?}");
    // Far off the disk, as (col, row) for (row, col) would be.
    let found = warned(&totals, &centre(30.0, 10.0), 0.0);
    assert!(found.iter().any(|warning| matches!(warning, Warning::CentreDiffers { .. })), "{found:?}");
}

/// 30 mrad over 10.3 px are 2.9 mrad a pixel, which resolve 0.68 nm; a defocus of 11.3 nm makes the probe as wide.
#[test]
fn a_probe_wider_than_the_pixels_resolve_is_warned_of_with_both_widths() {
    let totals = totals([18.0, 25.0], 10.3);
    assert_eq!(warned(&totals, &Pins::default(), -11.0), []);
    for c10_nm in [-12.0, 12.0, -6304.75] {
        let found = warned(&totals, &Pins::default(), c10_nm);
        let [Warning::ProbeTooWide { probe, resolved, .. }] = found[..] else { panic!("{found:?}") };
        assert!(
            (probe.0 / (2.0 * c10_nm.abs() * 0.03) - 1.0).abs() < 1e-6 && (resolved.0 - 0.68).abs() < 0.01
        );
    }
}

#[test]
fn a_detector_that_is_lit_all_over_is_said_to_be() {
    let totals: Vec<u64> = (0..DETECTOR.pixels() as u64).map(|pixel| 200 + pixel * 7 % 31).collect();
    let found = warned(&totals, &Pins::default(), 0.0);
    assert!(matches!(found[..], [Warning::DiskFills { lit: 1.0 }]), "{found:?}");
}

#[test]
fn saturated_pixels_of_the_disk_are_counted() {
    let totals = totals([18.0, 25.0], 10.3);
    let mut hits = good().iter().map(|_| 0).collect::<Vec<u64>>();
    (hits[18 * 48 + 25], hits[18 * 48 + 26], hits[3 * 48 + 5]) = (1, 9, 2);
    let pattern = Pattern {
        detector: DETECTOR,
        totals: &totals,
        frames: FRAMES,
        pixel_mask: &good(),
        marker_hits: Some(&hits),
    };
    let field = bright_field(&pattern, SEMI_ANGLE, &Pins::default()).unwrap();
    let found = warnings(&optics(&field, 0.0), &field);
    let expected = Warning::Saturated { in_disk: 2, in_all: 3, disk: field.num_in_disk };
    assert_eq!(found, [expected]);
}

#[test]
fn input_that_makes_no_sense_is_refused() {
    let totals = totals([18.0, 25.0], 10.3);
    let few = find(&totals, &good(), &Pins { radius: Some(Pixels(1.0)), ..Pins::default() }).unwrap_err();
    assert!(matches!(few, SsbError::TooFewPixels { got: 5, at_least: 16, .. }), "{few}");
    let nan = find(&totals, &good(), &Pins { centre: Some([f64::NAN, 3.0]), ..Pins::default() }).unwrap_err();
    assert!(matches!(nan, SsbError::BadPin { quantity: "beam centre row in px", .. }), "{nan}");
    let short = find(&totals[1..], &good(), &Pins::default()).unwrap_err();
    assert_eq!(short.to_string(), "totals of 1919 pixels, expected 1920 for a 40x48 detector");
    let pattern =
        Pattern { detector: DETECTOR, totals: &totals, frames: 1, pixel_mask: &good(), marker_hits: None };
    for angle in [0.0, -3.0, f64::NAN, 1000.0] {
        let refused = bright_field(&pattern, Milliradians(angle), &Pins::default()).unwrap_err();
        assert!(matches!(refused, SsbError::SemiAngle { .. }), "{refused}");
    }
}
