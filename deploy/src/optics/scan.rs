//! What numbers of frames say of the scan they could be.

use kernels::types::{FrameOrder, ScanGeometry, ScanPath, ScanShape};

/// More positions than this are not laid out as a rectangle.
const MOST_TRIED: u64 = 1 << 32;
/// Frames a position that are thought of where a number of frames is no plain square.
const MOST_SUMMED: u64 = 16;

/// Which square scans so many frames could be, as the end of a sentence; nothing where none comes to mind.
pub(super) fn hint(frames: u64, order: FrameOrder) -> String {
    if let Some(side) = square(frames, order) {
        return match order == FrameOrder::default() {
            true => format!("; {frames} = {side} x {side}, so it could be {side}x{side}"),
            false => format!("; with {order} it could be {side}x{side}"),
        };
    }
    if order != (FrameOrder { path: order.path, ..FrameOrder::default() }) {
        return String::new();
    }
    let mut could_be = Vec::new();
    let summed = (2..=MOST_SUMMED).find_map(|frames_per_position| {
        Some((square(frames, FrameOrder { frames_per_position, ..order })?, frames_per_position))
    });
    could_be
        .extend(summed.map(|(side, summed)| format!("{side}x{side} with --frames-per-position {summed}")));
    // a fly-back of at most a quarter of the line
    let with_flyback = (2..=frames.min(MOST_TRIED).isqrt())
        .rev()
        .take_while(|side| side * side >= frames / 5 * 4)
        .find_map(|side| {
            let flyback_frames = frames.is_multiple_of(side).then(|| frames / side - side)?;
            Some((square(frames, FrameOrder { flyback_frames, ..order })?, flyback_frames))
        });
    could_be
        .extend(with_flyback.map(|(side, flyback)| format!("{side}x{side} with --flyback-frames {flyback}")));
    match could_be.is_empty() {
        true => String::new(),
        false => format!("; it could be {}", could_be.join(", or ")),
    }
}

/// The side of the square scan that is so many frames in an order, with the last fly-back or without.
fn square(frames: u64, order: FrameOrder) -> Option<u64> {
    let FrameOrder { frames_per_position, flyback_frames, skip_frames, .. } = order;
    let frames = frames.checked_sub(skip_frames)?;
    [frames, frames.checked_add(flyback_frames)?].into_iter().find_map(|all| {
        // the largest side with side (side k + f) <= all
        let half = flyback_frames as f64 / (2 * frames_per_position.max(1)) as f64;
        let near = ((half * half + all as f64 / frames_per_position.max(1) as f64).sqrt() - half) as u64;
        let fits = |side: &u64| {
            let line =
                side.checked_mul(frames_per_position).and_then(|line| line.checked_add(flyback_frames));
            *side > 1 && line.and_then(|line| line.checked_mul(*side)) == Some(all)
        };
        (near.saturating_sub(1)..=near + 1).find(fits)
    })
}

/// The scan of so many images in an order that is nearest to a square, with rows no longer than columns where that can be.
pub(crate) fn nearly_square(images: u64, order: FrameOrder) -> Option<ScanShape> {
    let frames = images.checked_sub(order.skip_frames).filter(|&frames| frames > 0)?;
    let (summed, flyback) = (order.frames_per_position.max(1), order.flyback_frames);
    let in_lines = |all: u64, rows: u64| {
        let line = all.is_multiple_of(rows).then(|| all / rows)?.checked_sub(flyback)?;
        let cols = line.is_multiple_of(summed).then(|| line / summed).filter(|&cols| cols >= 1)?;
        Some(ScanShape { rows: usize::try_from(rows).ok()?, cols: usize::try_from(cols).ok()? })
    };
    let most_rows = (frames / summed).clamp(1, MOST_TRIED).isqrt();
    let of = |all: u64| {
        (1..=most_rows).rev().find_map(|rows| in_lines(all, rows).filter(|scan| scan.rows <= scan.cols))
    };
    let both = [Some(frames), frames.checked_add(flyback)].map(|all| all.and_then(of));
    both.into_iter().flatten().max_by_key(|scan| scan.rows)
}

/// The scan of a detector that is set to a trigger a line.
pub(crate) fn set_scan(set: ScanShape, order: FrameOrder) -> Option<ScanShape> {
    let line = u64::try_from(set.cols).ok()?.checked_sub(order.flyback_frames)?;
    let summed = order.frames_per_position.max(1);
    let cols = line.is_multiple_of(summed).then(|| line / summed).filter(|&cols| cols > 1)?;
    Some(ScanShape { rows: set.rows, cols: usize::try_from(cols).ok()? })
}

/// A sentence about frames that the scan does not need; none where it needs all, the fly-back after the last line or not.
pub(crate) fn surplus(geometry: &ScanGeometry, frames: u64) -> Option<String> {
    let needed = geometry.num_frames();
    if frames <= needed || frames == geometry.num_frames_with_last_flyback() {
        return None;
    }
    let rest = frames - needed;
    let order = FrameOrder { path: ScanPath::Raster, ..geometry.order() };
    Some(format!(
        "the scan {geometry} needs {needed} of the {frames} frames: the last {rest} belong to no position{}",
        hint(frames, order)
    ))
}

/// A sentence about lines that are not as long as the images of a trigger, where there are as many triggers as lines.
pub(crate) fn line_note(
    geometry: &ScanGeometry,
    triggers: Option<u64>,
    images_a_trigger: Option<u64>,
) -> Option<String> {
    let (triggers, images) =
        (triggers.filter(|&number| number > 1)?, images_a_trigger.filter(|&number| number > 1)?);
    let row = geometry.frames_of_row(0);
    let line = row.end - row.start + geometry.order().flyback_frames;
    if triggers != geometry.scan().rows as u64 || line == images {
        return None;
    }
    let advice = match images.checked_sub(row.end - row.start) {
        Some(flyback) => format!("; is it --flyback-frames {flyback}?"),
        None => String::new(),
    };
    Some(format!(
        "the detector took {triggers} x {images} images, a trigger a line; a line of the scan {geometry} is {line} frames{advice}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order([frames_per_position, flyback_frames, skip_frames]: [u64; 3]) -> FrameOrder {
        FrameOrder { path: ScanPath::Raster, frames_per_position, flyback_frames, skip_frames }
    }

    #[test]
    fn a_number_of_frames_hints_at_the_squares_it_could_be() {
        let plain = FrameOrder::default();
        assert_eq!(hint(65536, plain), "; 65536 = 256 x 256, so it could be 256x256");
        assert_eq!(hint(3 * 4096, plain), "; it could be 64x64 with --frames-per-position 3");
        assert_eq!(hint(64 * 71, plain), "; it could be 64x64 with --flyback-frames 7");
        assert_eq!(hint(4099, plain), "");
        assert_eq!(
            hint(64 * 136 + 5, order([2, 8, 5])),
            "; with 2 frames a position, 8 fly-back frames after each row, 5 frames skipped before the first row it could be 64x64"
        );
        assert_eq!([hint(0, plain), hint(1, plain), hint(u64::MAX, order([65536, 9, 1]))], ["", "", ""]);
    }

    #[test]
    fn a_scan_of_unknown_shape_is_as_square_as_its_number_of_images_allows() {
        let shape =
            |images, numbers| nearly_square(images, order(numbers)).map(|scan| (scan.rows, scan.cols));
        let plain = |images| shape(images, [1, 0, 0]);
        assert_eq!([plain(4096), plain(8192), plain(12)], [Some((64, 64)), Some((64, 128)), Some((3, 4))]);
        assert_eq!([plain(4099), plain(1), plain(0)], [Some((1, 4099)), Some((1, 1)), None]);
        assert_eq!(shape(8192 + 100, [2, 0, 100]), Some((64, 64)));
        // with the last fly-back, and without it
        assert_eq!(shape(64 * 136, [2, 8, 0]), Some((64, 64)));
        assert_eq!(shape(64 * 136 - 8, [2, 8, 0]), Some((64, 64)));
        assert_eq!(shape(7, [2, 0, 0]), None);
        let set = ScanShape { rows: 64, cols: 136 };
        assert_eq!(set_scan(set, order([2, 8, 0])), Some(ScanShape { rows: 64, cols: 64 }));
        assert_eq!(set_scan(set, order([3, 8, 0])), None);
    }

    #[test]
    fn frames_that_no_position_takes_are_said_and_the_last_flyback_is_none_of_them() {
        let scan = ScanShape { rows: 64, cols: 63 };
        let said = surplus(&scan.into(), 4096).unwrap();
        assert_eq!(
            said,
            "the scan 64x63 needs 4032 of the 4096 frames: the last 64 belong to no position; 4096 = 64 x 64, so it could be 64x64"
        );
        let geometry = ScanGeometry::new(scan, order([1, 9, 0])).unwrap();
        let needed = geometry.num_frames();
        assert_eq!(
            [needed, needed + 9, needed - 1].map(|frames| surplus(&geometry, frames)),
            [None, None, None]
        );
        assert!(surplus(&geometry, needed + 1).is_some());
        let note = line_note(&scan.into(), Some(64), Some(72)).unwrap();
        assert!(note.ends_with("a line of the scan 64x63 is 63 frames; is it --flyback-frames 9?"), "{note}");
        assert_eq!(line_note(&geometry, Some(64), Some(72)), None);
        assert_eq!(line_note(&geometry, Some(4096), Some(1)), None);
    }
}
