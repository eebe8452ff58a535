//! What a person should know before the scan is over: seen in what is announced, and in the frames so far.

use ingest::stream::source::Announced;
use kernels::types::{Milliradians, Pixels};
use resident::{Missing, Snapshot};
use ssb::{BrightField, scan_warnings, warnings};

use crate::optics::ResolvedOptics;
use crate::rings::Ring;

/// How a warning of descan begins.
pub(super) const DESCAN: &str = "descan: ";
/// The disk may move so far over a scan \[px\].
const MOST_DESCAN_PX: f64 = 0.5;
/// Scan rows that are looked at, spread over those that have come.
const ROWS_LOOKED_AT: usize = 8;
/// So many standard errors beyond the limit, for it to be no accident.
const STANDARD_ERRORS: f64 = 3.0;
/// The centre of mass is taken within so many radii of the disk.
const AROUND: f64 = 1.25;

/// What can be warned of before the first frame.
pub(super) fn before(announced: &Announced, optics: Option<&ResolvedOptics>) -> Vec<String> {
    let mut said = Vec::new();
    if announced.pixel_mask.is_none() {
        said.push("no pixel mask: every pixel counts as good".to_owned());
    }
    said.extend(optics.map(of_scan).unwrap_or_default());
    said.extend(optics.and_then(ResolvedOptics::unknown_text));
    said
}

/// What the scan itself gives reason to warn of.
pub(super) fn of_scan(optics: &ResolvedOptics) -> Vec<String> {
    let known = optics.optics_at([Milliradians(1.0); 2]);
    known.iter().flat_map(scan_warnings).map(|warning| warning.to_string()).collect()
}

/// What the optics and the bright field of the frames so far give reason to warn of.
pub(super) fn of(optics: &ResolvedOptics, field: &BrightField) -> Vec<String> {
    let known = optics.optics_at(field.sampling);
    let found = known.map(|known| warnings(&known, field)).unwrap_or_default();
    let mut said: Vec<String> = found.iter().map(ToString::to_string).collect();
    if optics.optics_at(field.sampling).is_none() && !field.marked.is_empty() {
        let (in_disk, in_all) = (field.num_marked_in_disk(), field.marked.len());
        said.push(format!(
            "{in_disk} pixels in the bright-field disk ({in_all} of the detector) showed the largest count and are left \
             out: saturated, or masked by the detector"
        ));
    }
    said
}

/// How far the disk moves over the first `rows` rows of the scan, where that is more than it may: a plane through the
/// centres of mass of what is around the disk.
pub(super) fn descan(
    snapshot: &Snapshot,
    field: &BrightField,
    pixel_mask: &[u32],
    rows: usize,
) -> Option<String> {
    let ring = Ring { inner: 0.0, outer: AROUND };
    let good: Vec<bool> = pixel_mask.iter().map(|&mask| mask != 0).collect();
    let around = ring.mask(field.detector, field.centre.map(Pixels), field.radius, &good);
    let mut bad: Vec<bool> = around.iter().map(|inside| !inside).collect();
    for &pixel in field.hot.iter().chain(&field.marked) {
        if let Some(bad) = bad.get_mut(pixel as usize) {
            *bad = true;
        }
    }
    let mut points = Vec::new();
    for at in 0..ROWS_LOOKED_AT.min(rows) {
        let row = at * (rows - 1) / (ROWS_LOOKED_AT.min(rows) - 1).max(1);
        let com = snapshot.com(Some(&bad), snapshot.row(row), Missing::Report).ok()?.value;
        let geometry = snapshot.geometry();
        let cols = snapshot.scan().cols.max(1);
        for (at, (&com_row, &com_col)) in com.row.iter().zip(&com.col).enumerate() {
            // frames of a position come one after the other; some rows are scanned backwards
            let place = (at / (com.row.len() / cols).max(1)).min(cols - 1);
            let col = if geometry.is_reversed(row) { cols - 1 - place } else { place };
            if com_row.is_finite() && com_col.is_finite() {
                points.push(Point { place: [row as f64, col as f64], centre: [com_row, com_col] });
            }
        }
    }
    let spans = [rows.saturating_sub(1), snapshot.scan().cols.saturating_sub(1)].map(|span| span as f64);
    let (moved_px, error_px) = moved(&points, spans)?;
    (moved_px > MOST_DESCAN_PX + STANDARD_ERRORS * error_px).then(|| {
        format!(
            "{DESCAN}the bright-field disk moves by {moved_px:.1} px over the scan, expected at most {MOST_DESCAN_PX} px: \
             align the descan"
        )
    })
}

/// The centre of mass at a scan position.
#[derive(Clone, Copy, Debug)]
struct Point {
    place: [f64; 2],
    centre: [f64; 2],
}

/// How far the plane through the points goes over these spans of the scan \[px\], and the standard error of that; nothing of
/// too few points, or all on a line.
fn moved(points: &[Point], spans: [f64; 2]) -> Option<(f64, f64)> {
    let num = points.len() as f64;
    if points.len() < 16 {
        return None;
    }
    let mean = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / num;
    let middle = [0, 1].map(|axis| mean(&|point| point.place[axis]));
    let from_middle = |point: &Point, axis: usize| point.place[axis] - middle[axis];
    let product = |a: usize, b: usize| mean(&|point| from_middle(point, a) * from_middle(point, b));
    let (rr, rc, cc) = (product(0, 0), product(0, 1), product(1, 1));
    let determinant = rr * cc - rc * rc;
    if determinant <= 1e-9 * rr * cc {
        return None;
    }
    let mut moved = 0.0_f64;
    let mut error = 0.0_f64;
    for axis in [0, 1] {
        let level = mean(&|point| point.centre[axis]);
        let along = |by: usize| mean(&|point| (point.centre[axis] - level) * from_middle(point, by));
        let (along_row, along_col) = (along(0), along(1));
        let slope = [
            (cc * along_row - rc * along_col) / determinant,
            (rr * along_col - rc * along_row) / determinant,
        ];
        let left = mean(&|point| {
            let fit = slope[0] * from_middle(point, 0) + slope[1] * from_middle(point, 1);
            (point.centre[axis] - level - fit).powi(2)
        });
        let errors = [left * cc / determinant / num, left * rr / determinant / num].map(f64::sqrt);
        moved = moved.hypot(slope[0].abs() * spans[0] + slope[1].abs() * spans[1]);
        error = error.hypot((errors[0] * spans[0]).hypot(errors[1] * spans[1]));
    }
    Some((moved, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(slope: f64, noise: f64) -> Vec<Point> {
        let places = (0..8).flat_map(|row| (0..32).map(move |col| [f64::from(row) * 4.0, f64::from(col)]));
        let shake = |place: [f64; 2]| noise * ((place[0] * 12.9 + place[1] * 78.2).sin() * 43758.5).fract();
        let at = |place: [f64; 2]| Point { place, centre: [50.0 + slope * place[0] + shake(place), 48.0] };
        places.map(at).collect()
    }

    #[test]
    fn a_disk_that_moves_is_measured_and_noise_is_no_movement() {
        let (moved_px, error_px) = moved(&points(0.05, 0.0), [28.0, 31.0]).unwrap();
        assert!((moved_px - 1.4).abs() < 1e-9 && error_px < 1e-6, "{moved_px} {error_px}");
        let (moved_px, error_px) = moved(&points(0.0, 2.0), [28.0, 31.0]).unwrap();
        assert!(moved_px < MOST_DESCAN_PX + STANDARD_ERRORS * error_px, "{moved_px} {error_px}");
        assert!(error_px > 0.05);
        assert_eq!(moved(&points(0.05, 0.0)[..8], [28.0, 31.0]), None);
        // of one row alone, nothing is known of the other direction
        assert_eq!(moved(&points(0.05, 0.0)[..32], [28.0, 31.0]), None);
    }
}
