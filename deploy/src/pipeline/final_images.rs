//! What the resident and the reconstruction are asked for at the end of a run: every image that is written. Single images for
//! those who look, at any time, are made in `serve/images.rs`.

use kernels::types::Pixels;
use resident::{Missing, Snapshot};
use ssb::LiveResult;

use crate::optics::ResolvedOptics;
use crate::output::{Image, Quantity, Values};
use crate::report::{BrightField, Mask};
use crate::rings::Rings;

/// Everything to be written.
pub(super) struct Found {
    pub(super) images: Vec<Image>,
    pub(super) masks: Vec<(String, Mask)>,
    pub(super) bright_field: Option<BrightField>,
}

/// Images over the scan and over the detector. Where a position is missing, sums are 0 and centres of mass NaN; the
/// report says which.
pub(super) fn compute(
    snapshot: &Snapshot,
    live: Option<&LiveResult>,
    optics: &ResolvedOptics,
    rings: Rings,
    pixel_mask: &[u32],
) -> anyhow::Result<Found> {
    let detector = snapshot.detector();
    let step = optics.step();
    let scan = snapshot.scan();
    let sampling = optics.detector_sampling.as_ref().map(|sampling| sampling.value);
    let listed: Vec<bool> = pixel_mask.iter().map(|&mask| mask != 0).collect();
    let mut bad = listed.clone();
    for &pixel in live.iter().flat_map(|live| live.bright_field.hot.iter().chain(&live.bright_field.marked)) {
        if let Some(bad) = bad.get_mut(pixel as usize) {
            *bad = true;
        }
    }
    let over = snapshot.over_scan();
    let coverage = over.coverage();
    let over_scan = |quantity, values| {
        anyhow::Ok(Image::over_scan(quantity, scan, step, values)?.with_missing(coverage.missing()))
    };
    let over_detector = |quantity, values| Image::over_detector(quantity, detector, sampling, values);

    let mut found = Found { images: Vec::new(), masks: Vec::new(), bright_field: None };
    if let Some(live) = live {
        if let Some(made) = live.reconstruction.as_ref().filter(|made| made.has_phase()) {
            found.images.push(over_scan(Quantity::Phase, Values::F32(made.phase.clone()))?);
            found.images.push(over_scan(Quantity::Amplitude, Values::F32(made.amplitude.clone()))?);
            if let Some(mean_phase) = &made.mean_phase {
                found.images.push(over_scan(Quantity::MeanPhase, Values::F32(mean_phase.clone()))?);
            }
        }
        found.bright_field = Some(account(live, snapshot, &listed)?);
        let centre = live.bright_field.centre.map(Pixels);
        let radius = live.bright_field.radius;
        for (quantity, ring) in [
            (Quantity::BrightField, rings.bf),
            (Quantity::AnnularDarkField, rings.adf),
            (Quantity::DarkField, rings.df),
        ] {
            let mask = ring.mask(detector, centre, radius, &bad);
            let pixels = mask.iter().filter(|&&inside| inside).count() as u64;
            let sums = over.mask_sum(&mask, Missing::Report)?;
            found.images.push(over_scan(quantity, Values::U64(sums.value))?);
            let described = Mask::of(ring, radius, sampling, pixels);
            found.masks.push((quantity.stem().to_owned(), described));
        }
    }
    let com = over.com(Some(&bad), Missing::Report)?.value;
    found.images.push(over_scan(Quantity::ComRow, Values::F64(com.row))?);
    found.images.push(over_scan(Quantity::ComCol, Values::F64(com.col))?);
    let sums = over.frame_sums(Missing::Report)?.value;
    found.images.push(over_scan(Quantity::FrameSum, Values::U64(sums))?);
    let total = over.detector_total(Missing::Report)?.value;
    found.images.push(over_detector(Quantity::DetectorTotal, Values::U64(total.to_vec()))?);
    let mean = over.mean_pattern(Missing::Report)?.value;
    found.images.push(over_detector(Quantity::MeanPattern, Values::F64(mean))?);
    Ok(found)
}

/// The bright field in the words of the report.
fn account(live: &LiveResult, snapshot: &Snapshot, listed: &[bool]) -> anyhow::Result<BrightField> {
    let field = &live.bright_field;
    let cols = field.detector.cols.max(1);
    let place = |pixel: usize| [pixel / cols, pixel % cols];
    let totals = snapshot.over_scan().detector_total(Missing::Report)?.value;
    // What is listed is there to be looked at; an empty corner of the detector is a number.
    const MOST_LISTED: usize = 100;
    let is_dead = |&&pixel: &&u32| totals.get(pixel as usize) == Some(&0);
    Ok(BrightField {
        pixels_used: live.reconstruction.as_ref().map_or(field.pixels.len(), |made| made.num_pixels) as u64,
        pixels_in_disk: field.num_in_disk as u64,
        masked_pixels: listed.iter().filter(|&&bad| bad).count() as u64,
        hot_pixels: field.hot.iter().chain(&field.marked).map(|&pixel| place(pixel as usize)).collect(),
        num_dead_pixels: field.pixels.iter().filter(is_dead).count() as u64,
        dead_pixels: field
            .pixels
            .iter()
            .filter(is_dead)
            .map(|&pixel| place(pixel as usize))
            .take(MOST_LISTED)
            .collect(),
    })
}
