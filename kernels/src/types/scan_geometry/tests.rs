use proptest::prelude::*;

use super::*;

fn order(path: ScanPath, [frames_per_position, flyback_frames, skip_frames]: [u64; 3]) -> FrameOrder {
    FrameOrder { path, frames_per_position, flyback_frames, skip_frames }
}

proptest! {
    /// Against a list of frames written down one by one, as a detector takes them.
    #[test]
    fn every_frame_is_in_the_position_it_was_taken_at_and_in_no_other(
        rows in 1usize..7, cols in 1usize..7, snake: bool, frames in 1u64..4, flyback in 0u64..4, skip in 0u64..9,
    ) {
        let path = if snake { ScanPath::Snake } else { ScanPath::Raster };
        let scan = ScanShape { rows, cols };
        let geometry = ScanGeometry::new(scan, order(path, [frames, flyback, skip])).unwrap();
        let mut taken: Vec<Option<(usize, usize)>> = vec![None; skip as usize];
        for row in 0..rows {
            let back: Vec<usize> = (0..cols).rev().collect();
            let forth: Vec<usize> = (0..cols).collect();
            for col in if snake && row % 2 == 1 { back } else { forth } {
                taken.extend(vec![Some((row, col)); frames as usize]);
            }
            if row + 1 == rows {
                prop_assert_eq!(geometry.num_frames(), taken.len() as u64);
            }
            taken.extend(vec![None; flyback as usize]);
        }
        prop_assert_eq!(geometry.num_frames_with_last_flyback(), taken.len() as u64);

        let mut mapped: Vec<Option<(usize, usize)>> = vec![None; taken.len()];
        for row in 0..rows {
            let of_row = geometry.frames_of_row(row);
            prop_assert_eq!(of_row.end - of_row.start, cols as u64 * frames);
            for col in 0..cols {
                let of_position = geometry.frames_of_position(row, col);
                prop_assert!(of_row.start <= of_position.start && of_position.end <= of_row.end);
                prop_assert_eq!(of_position.end - of_position.start, frames);
                for frame in of_position {
                    prop_assert_eq!(mapped[frame as usize].replace((row, col)), None, "frame {}", frame);
                }
            }
            if row > 0 {
                let before = geometry.frames_of_row(row - 1);
                prop_assert_eq!(before.end + flyback, of_row.start);
            }
        }
        prop_assert_eq!(&mapped, &taken);

        let all = taken.len();
        for (start, end) in [(0, all), (all / 3, 2 * all / 3), (all / 2, all / 2 + 1), (0, 1), (all, all + 5)] {
            let touched = geometry.rows_of_frames(start as u64..end as u64);
            for (frame, place) in taken.iter().enumerate().take(end).skip(start) {
                if let Some((row, _)) = place {
                    prop_assert!(touched.contains(row), "frame {} of row {}, {:?}", frame, row, touched);
                }
            }
            let is_near = |row: usize| {
                let frames = geometry.frames_of_row(row);
                frames.start < end as u64 && (start as u64) < frames.end + flyback
            };
            prop_assert!(touched.clone().all(is_near), "{:?}", touched);
        }
        prop_assert!(geometry.frames_of_row(rows).is_empty());
        prop_assert!(geometry.frames_of_position(0, cols).is_empty());
    }

    #[test]
    fn no_numbers_are_a_panic(
        rows: usize, cols: usize, snake: bool, frames: u64, flyback: u64, skip: u64, at: usize, first: u64, last: u64,
    ) {
        let path = if snake { ScanPath::Snake } else { ScanPath::Raster };
        let scan = ScanShape { rows: rows >> (rows % 64), cols: cols >> (cols % 64) };
        let numbers = [frames >> (frames % 64), flyback >> (flyback % 64), skip >> (skip % 64)];
        let made = ScanGeometry::new(scan, order(path, numbers));
        for geometry in made.into_iter().chain([ScanGeometry::from(scan)]) {
            let _ = (geometry.frames_of_row(at), geometry.rows_of_frames(first..last));
            let _ = geometry.frames_of_position(at.min(scan.rows.saturating_sub(1)), scan.cols.saturating_sub(1));
            let _ = geometry.to_string();
        }
    }
}

#[test]
fn numbers_that_cannot_be_are_refused_in_words() {
    let scan = ScanShape { rows: 4, cols: 4 };
    let refused =
        |scan, numbers| ScanGeometry::new(scan, order(ScanPath::Snake, numbers)).unwrap_err().to_string();
    assert_eq!(refused(scan, [0, 0, 0]), "got 0 frames a position, expected at least 1");
    assert_eq!(
        refused(ScanShape { rows: 0, cols: 4 }, [1, 0, 0]),
        "got a scan of 0x4, expected at least 1x1"
    );
    for numbers in [[u64::MAX, 0, 0], [1, u64::MAX, 0], [1, 0, u64::MAX], [1 << 61, 0, 1]] {
        assert!(refused(scan, numbers).contains("more frames than can be counted"), "{numbers:?}");
    }
    let huge = ScanShape { rows: usize::MAX, cols: usize::MAX };
    assert!(refused(huge, [1, 0, 0]).contains("more frames than can be counted"));
    let plain = ScanGeometry::new(huge, FrameOrder::default()).unwrap_err().to_string();
    let as_shape = format!("got a scan of {huge}: it needs more frames than can be counted");
    assert_eq!(plain, as_shape);
    let large = u64::from(u32::MAX);
    let fine =
        ScanGeometry::new(ScanShape { rows: 1, cols: 1 }, order(ScanPath::Raster, [large; 3])).unwrap();
    assert_eq!(fine.num_frames(), 2 * large);
}

#[test]
fn a_plain_scan_is_its_frames() {
    let geometry = ScanGeometry::from(ScanShape { rows: 3, cols: 5 });
    assert!(geometry.is_plain());
    assert_eq!((geometry.num_frames(), geometry.num_frames_with_last_flyback()), (15, 15));
    assert_eq!(geometry.frames_of_row(1), 5..10);
    assert_eq!(geometry.frames_of_position(2, 4), 14..15);
    assert_eq!(geometry.to_string(), "3x5");
    let snake = ScanGeometry::new(geometry.scan(), order(ScanPath::Snake, [2, 7, 9])).unwrap();
    assert_eq!(
        snake.to_string(),
        "3x5, snake, 2 frames a position, 7 fly-back frames after each row, 9 frames skipped before the first row"
    );
}
