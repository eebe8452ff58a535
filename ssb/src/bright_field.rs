//! The bright field: which detector pixels a reconstruction reads, and what the disk says of the geometry.
//!
//! Everything is measured on the mean pattern after bad pixels are taken out: those of the detector's own mask, those
//! found hot, and those that ever showed the marker of a saturated or masked pixel. Then
//! - the disk is every pixel above mean + standard deviation of the good pixels;
//! - the centre is the disk's unweighted centroid, the radius sqrt(pixels in the disk / pi);
//! - the bright field is every good pixel within the radius, in detector row-major order;
//! - the edge radius is sqrt(pixels above half the disk's median / pi), and the detector sampling is the semi-angle
//!   divided by it. It tends to come out 0.5 % large.
//!
//! What the user pins replaces that one value and nothing else.

mod hot;
#[cfg(test)]
mod tests;

use kernels::types::{DetectorShape, Milliradians, Pixels};

pub use hot::find_hot;

use crate::error::SsbError;

/// Fewer good pixels than this are no bright field.
pub const FEWEST_PIXELS: usize = 16;

/// Stands for a semi-angle that is not known: all of a bright field that is in pixels is right with it, the sampling is in
/// units of the semi-angle.
pub const ANY_SEMI_ANGLE: Milliradians = Milliradians(1.0);

/// Sums over the frames of an acquisition, `[det_row][det_col]`.
#[derive(Clone, Copy, Debug)]
pub struct Pattern<'a> {
    /// The detector.
    pub detector: DetectorShape,
    /// Counts of every pixel over all frames.
    pub totals: &'a [u64],
    /// Number of frames summed.
    pub frames: u64,
    /// The detector's own mask: 0 is good.
    pub pixel_mask: &'a [u32],
    /// How often each pixel showed the marker of a masked or saturated pixel; None when that cannot happen.
    pub marker_hits: Option<&'a [u64]>,
}

/// What the user knows better than the pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pins {
    /// Beam centre \[px\], (row, col).
    pub centre: Option<[f64; 2]>,
    /// Radius within which pixels are used.
    pub radius: Option<Pixels>,
    /// Detector sampling along (row, col), per pixel.
    pub sampling: Option<[Milliradians; 2]>,
}

/// The bright field of an acquisition.
#[derive(Clone, Debug, PartialEq)]
pub struct BrightField {
    /// The pixels used, `det_row * cols + det_col`, ascending.
    pub pixels: Vec<u32>,
    /// The detector.
    pub detector: DetectorShape,
    /// Beam centre \[px\], (row, col), pinned or measured.
    pub centre: [f64; 2],
    /// Radius within which pixels are used, pinned or measured.
    pub radius: Pixels,
    /// Radius at half the plateau: where the aperture ends.
    pub edge_radius: Pixels,
    /// Detector sampling along (row, col), per pixel, pinned or measured.
    pub sampling: [Milliradians; 2],
    /// Hot pixels that the detector's mask does not list.
    pub hot: Vec<u32>,
    /// Pixels left out because they showed the marker at least once and the mask does not list them.
    pub marked: Vec<u32>,
    /// Pixels within the radius, bad ones included.
    pub num_in_disk: usize,
    /// Centre of the disk \[px\] as the pattern has it, (row, col), whatever is pinned.
    pub measured_centre: [f64; 2],
    /// Radius of the disk as the pattern has it, by its area, whatever is pinned.
    pub measured_radius: Pixels,
    /// Part of the good detector pixels that is brighter than half the disk, 0 to 1.
    pub lit: f64,
}

impl BrightField {
    /// (row, col) of a pixel number.
    pub fn row_col(&self, pixel: u32) -> [f64; 2] {
        row_col(pixel as usize, self.detector)
    }

    /// Pixels within the radius that showed the marker and are not listed in the detector's mask.
    pub fn num_marked_in_disk(&self) -> usize {
        let inside = |&&pixel: &&u32| is_within(pixel as usize, self.detector, self.centre, self.radius.0);
        self.marked.iter().filter(inside).count()
    }
}

fn row_col(pixel: usize, detector: DetectorShape) -> [f64; 2] {
    let cols = detector.cols.max(1);
    [(pixel / cols) as f64, (pixel % cols) as f64]
}

fn is_within(pixel: usize, detector: DetectorShape, centre: [f64; 2], radius: f64) -> bool {
    let [row, col] = row_col(pixel, detector);
    (row - centre[0]).powi(2) + (col - centre[1]).powi(2) <= radius.powi(2)
}

impl Pattern<'_> {
    fn check(&self) -> Result<(), SsbError> {
        let lengths = [
            ("totals", Some(self.totals.len())),
            ("pixel mask", Some(self.pixel_mask.len())),
            ("marker hits", self.marker_hits.map(<[u64]>::len)),
        ];
        let expected = self.detector.pixels();
        for (what, got) in lengths {
            if let Some(got) = got.filter(|&got| got != expected) {
                return Err(SsbError::WrongDetector { what, got, expected, detector: self.detector });
            }
        }
        Ok(())
    }
}

impl Pins {
    fn check(&self, detector: DetectorShape) -> Result<(), SsbError> {
        let positive = |got: f64| got > 0.0 && got.is_finite();
        if let Some([row, col]) = self.centre {
            for (quantity, got, len) in [
                ("beam centre row in px", row, detector.rows),
                ("beam centre column in px", col, detector.cols),
            ] {
                if !(got >= -(len as f64) && got <= 2.0 * len as f64) {
                    return Err(SsbError::BadPin {
                        quantity,
                        got,
                        expected: "a position on or near the detector",
                    });
                }
            }
        }
        if let Some(Pixels(got)) = self.radius.filter(|radius| !positive(radius.0)) {
            return Err(SsbError::BadPin {
                quantity: "bright-field radius in px",
                got,
                expected: "a positive number",
            });
        }
        for Milliradians(got) in self.sampling.into_iter().flatten() {
            if !positive(got) {
                let quantity = "detector sampling in mrad/px";
                return Err(SsbError::BadPin { quantity, got, expected: "a positive number" });
            }
        }
        Ok(())
    }
}

/// Finds the bright field on a mean pattern.
///
/// # Errors
/// [`SsbError::NoDisk`] for a pattern without counts or contrast; [`SsbError::TooFewPixels`];
/// [`SsbError::WrongDetector`], [`SsbError::BadPin`], [`SsbError::SemiAngle`] for input that makes no sense.
pub fn bright_field(
    pattern: &Pattern<'_>,
    semi_angle: Milliradians,
    pins: &Pins,
) -> Result<BrightField, SsbError> {
    pattern.check()?;
    pins.check(pattern.detector)?;
    if !(semi_angle.0 > 0.0 && semi_angle.0 < 1000.0) {
        return Err(SsbError::SemiAngle { got_mrad: semi_angle.0 });
    }
    let frames = pattern.frames.max(1) as f64;
    let mean: Vec<f64> = pattern.totals.iter().map(|&total| total as f64 / frames).collect();
    let mut bad: Vec<bool> = pattern.pixel_mask.iter().map(|&mask| mask != 0).collect();
    let marked = take_marked(pattern, &mut bad);
    let hot = find_hot(&mean, &bad, pattern.detector, pattern.frames);
    hot.iter().for_each(|&pixel| bad[pixel as usize] = true);

    let disk = disk(&mean, &bad, marked.len())?;
    let sum = disk.iter().fold([0.0; 2], |sum, &pixel| {
        let [row, col] = row_col(pixel, pattern.detector);
        [sum[0] + row, sum[1] + col]
    });
    let measured_centre = sum.map(|sum| sum / disk.len() as f64);
    let measured_radius = (disk.len() as f64 / std::f64::consts::PI).sqrt();
    let centre = pins.centre.unwrap_or(measured_centre);
    let radius = pins.radius.map_or(measured_radius, |radius| radius.0);
    let half = 0.5 * median(disk.iter().map(|&pixel| mean[pixel]).collect());
    let num_above = (0..mean.len()).filter(|&pixel| !bad[pixel] && mean[pixel] > half).count();
    let edge_radius = (num_above as f64 / std::f64::consts::PI).sqrt();
    let inside = |&pixel: &usize| is_within(pixel, pattern.detector, centre, radius);
    let in_disk: Vec<usize> = (0..mean.len()).filter(inside).collect();
    let pixels: Vec<u32> = in_disk.iter().filter(|&&pixel| !bad[pixel]).map(|&pixel| pixel as u32).collect();
    if pixels.len() < FEWEST_PIXELS {
        let [row, col] = centre;
        return Err(SsbError::TooFewPixels {
            got: pixels.len(),
            at_least: FEWEST_PIXELS,
            row,
            col,
            radius_px: radius,
            saturated: marked.len(),
        });
    }
    let sampling = pins.sampling.unwrap_or([Milliradians(semi_angle.0 / edge_radius); 2]);
    Ok(BrightField {
        pixels,
        detector: pattern.detector,
        centre,
        radius: Pixels(radius),
        edge_radius: Pixels(edge_radius),
        sampling,
        hot,
        marked,
        num_in_disk: in_disk.len(),
        measured_centre,
        measured_radius: Pixels(measured_radius),
        lit: num_above as f64 / bad.iter().filter(|&&bad| !bad).count().max(1) as f64,
    })
}

/// Pixels that may turn out to belong to the bright field once all frames are in: all that the mask does not exclude
/// within `margin` of the radius. Ascending.
pub fn candidates(bright_field: &BrightField, pixel_mask: &[u32], margin: Pixels) -> Vec<u32> {
    let radius = bright_field.radius.0 + margin.0;
    let is_candidate = |&(pixel, &mask): &(usize, &u32)| {
        mask == 0 && is_within(pixel, bright_field.detector, bright_field.centre, radius)
    };
    pixel_mask.iter().enumerate().filter(is_candidate).map(|(pixel, _)| pixel as u32).collect()
}

/// Marks pixels bad that showed the marker; returns those the mask does not list.
fn take_marked(pattern: &Pattern<'_>, bad: &mut [bool]) -> Vec<u32> {
    let mut marked = Vec::new();
    for (pixel, _) in pattern.marker_hits.into_iter().flatten().enumerate().filter(|&(_, &hits)| hits > 0) {
        if !std::mem::replace(&mut bad[pixel], true) {
            marked.push(pixel as u32);
        }
    }
    marked
}

/// Pixels above mean + standard deviation of the good ones.
fn disk(mean: &[f64], bad: &[bool], saturated: usize) -> Result<Vec<usize>, SsbError> {
    let good: Vec<usize> = (0..mean.len()).filter(|&pixel| !bad[pixel]).collect();
    let count = good.len().max(1) as f64;
    let average = good.iter().map(|&pixel| mean[pixel]).sum::<f64>() / count;
    let variance = good.iter().map(|&pixel| (mean[pixel] - average).powi(2)).sum::<f64>() / count;
    let threshold = average + variance.sqrt();
    let disk: Vec<usize> = good.iter().copied().filter(|&pixel| mean[pixel] > threshold).collect();
    if disk.is_empty() {
        let brightest = good.iter().map(|&pixel| mean[pixel]).fold(0.0, f64::max);
        return Err(SsbError::NoDisk { good_pixels: good.len(), mean_counts: average, brightest, saturated });
    }
    Ok(disk)
}

/// The middle value, the mean of the middle two of an even number; 0 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (len, middle) if len % 2 == 1 => values[middle],
        (_, middle) => 0.5 * (values[middle - 1] + values[middle]),
    }
}
