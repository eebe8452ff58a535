//! From the frames of a scan row to its positions.

use kernels::types::ScanGeometry;

/// Appends the counts of a scan row's positions, by column, made from those of its frames in the order of acquisition.
/// A sum beyond 32 bits, which only the marker of 32-bit counts can make, stays at the largest number: pixels that show
/// the marker are not used.
pub(crate) fn gather_counts(geometry: &ScanGeometry, scan_row: usize, frames: &[u32], out: &mut Vec<u32>) {
    if geometry.is_plain() {
        return out.extend_from_slice(frames);
    }
    let sum = |frames: &[u32]| frames.iter().fold(0u32, |sum, &count| sum.saturating_add(count));
    in_columns(geometry, scan_row, frames, sum, out);
}

/// Appends which positions of a scan row are there: those of which every frame is.
pub(crate) fn gather_covered(geometry: &ScanGeometry, scan_row: usize, frames: &[bool], out: &mut Vec<bool>) {
    in_columns(geometry, scan_row, frames, |frames| !frames.contains(&false), out);
}

fn in_columns<T, U>(
    geometry: &ScanGeometry,
    scan_row: usize,
    frames: &[T],
    of_position: impl Fn(&[T]) -> U,
    out: &mut Vec<U>,
) {
    let at_once = usize::try_from(geometry.order().frames_per_position).unwrap_or(usize::MAX).max(1);
    let positions = frames.chunks_exact(at_once).map(of_position);
    match geometry.is_reversed(scan_row) {
        true => out.extend(positions.rev()),
        false => out.extend(positions),
    }
}

#[cfg(test)]
mod tests {
    use kernels::types::{FrameOrder, ScanPath, ScanShape};

    use super::*;

    #[test]
    fn frames_are_summed_and_rows_on_the_way_back_turned_round() {
        let order = FrameOrder {
            path: ScanPath::Snake,
            frames_per_position: 2,
            flyback_frames: 3,
            ..FrameOrder::default()
        };
        let geometry = ScanGeometry::new(ScanShape { rows: 2, cols: 3 }, order).unwrap();
        let counts = |row| {
            let mut out = Vec::new();
            gather_counts(&geometry, row, &[1, 2, 10, 20, u32::MAX, 1], &mut out);
            out
        };
        assert_eq!([counts(0), counts(1)], [[3, 30, u32::MAX], [u32::MAX, 30, 3]]);
        let mut covered = Vec::new();
        gather_covered(&geometry, 1, &[true, true, false, true, true, false], &mut covered);
        assert_eq!(covered, [false, false, true]);
    }
}
