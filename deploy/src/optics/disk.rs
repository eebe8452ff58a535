//! A bright-field disk that is larger than a detector, said before anything is computed of it.

use std::f64::consts::PI;

use kernels::types::DetectorShape;

use super::ResolvedOptics;

/// Radius of the bright-field disk as far as it is known before a frame is seen: pinned, or the semi-angle over a sampling
/// that is pinned; pixels.
pub(crate) fn known_radius_px(optics: &ResolvedOptics) -> Option<f64> {
    let by_sampling = || {
        let [row, col] = optics.detector_sampling.as_ref()?.value;
        Some(optics.semi_angle.as_ref()?.value.0 / row.0.max(col.0))
    };
    optics.bf_radius.as_ref().map(|radius| radius.value.0).or_else(by_sampling)
}

/// A sentence about a disk that no detector of this shape shows whole; none where it may.
pub(crate) fn disk_note(radius_px: f64, detector: DetectorShape) -> Option<String> {
    let (all, side) = (detector.pixels(), detector.rows.min(detector.cols));
    // as written, a disk that just touches the edge may be 0.5 px wider
    if 2.0 * radius_px <= side as f64 + 1.0 {
        return None;
    }
    let disk = PI * radius_px * radius_px;
    let lit = disk.min(all as f64);
    Some(format!(
        "the bright-field disk has a radius of {radius_px:.0} px (semi-angle over the angle of a pixel), the detector is \
         {detector}: up to {lit:.0} of its {all} pixels are bright field, of a disk of {disk:.0}, and each of them takes its \
         time and memory; is the semi-angle right?"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_larger_than_the_detector_is_said_with_its_numbers() {
        let detector = DetectorShape { rows: 96, cols: 192 };
        assert_eq!([25.0, 48.0, 48.5].map(|radius| disk_note(radius, detector)), [None, None, None]);
        let said = disk_note(199.0, detector).unwrap();
        for number in ["radius of 199 px", "96x192", "up to 18432 of its 18432 pixels", "a disk of 124410"] {
            assert!(said.contains(number), "{said}");
        }
        assert!(disk_note(60.0, detector).unwrap().contains("up to 11310 of its 18432 pixels"));
    }
}
