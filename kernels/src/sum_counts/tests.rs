use super::*;
use crate::device::Cpu;
use crate::types::{Count, IntoCountBuffer};

fn counts<T: Count>(len: usize, largest: u32, one_in: u64) -> Vec<T> {
    let mut state = 11_u64;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let count =
                if (state >> 33).is_multiple_of(one_in) { (state >> 40) as u32 % (largest + 1) } else { 0 };
            T::try_from(count).unwrap_or_default()
        })
        .collect()
}

fn sums_are_those_of_plain_loops<D: SumCounts, T: IntoCountBuffer>(device: &D, largest: u32) {
    for (frames, rows, cols) in
        [(0, 8, 8), (1, 1, 1), (3, 7, 9), (2, 8, 32), (2, 9, 33), (2, 24, 96), (1, 0, 5), (1, 65, 31)]
    {
        let detector = DetectorShape { rows, cols };
        let shape = BatchShape { frames, detector };
        let host: Vec<T> = counts(shape.counts(), largest, 3);
        let mut expected = FrameSums::default();
        let (tile_rows, tile_cols) = tile_shape(detector);
        expected.tiles = vec![0; frames * tile_rows * tile_cols];
        for frame in 0..frames {
            let [mut total, mut row_moment, mut col_moment] = [0_u64; 3];
            for row in 0..rows {
                for col in 0..cols {
                    let count: u64 = host[(frame * rows + row) * cols + col].into();
                    total += count;
                    row_moment += count * row as u64;
                    col_moment += count * col as u64;
                    expected.tiles[(frame * tile_rows + row / 8) * tile_cols + col / 8] += count;
                }
            }
            expected.total.push(total);
            expected.row_moment.push(row_moment);
            expected.col_moment.push(col_moment);
        }
        let buffer = T::wrap(device.upload(&host).unwrap());
        assert_eq!(device.sum_counts(&buffer, shape).unwrap(), expected, "{frames} frames of {detector}");
    }
}

#[test]
fn cpu_sums_are_those_of_plain_loops() {
    sums_are_those_of_plain_loops::<_, u8>(&Cpu, 255);
    for largest in [3, 1820, 1821, 65535] {
        sums_are_those_of_plain_loops::<_, u16>(&Cpu, largest);
    }
    sums_are_those_of_plain_loops::<_, u32>(&Cpu, 1000);
    sums_are_those_of_plain_loops::<_, u32>(&Cpu, u32::MAX - 1);
}

#[test]
fn a_buffer_that_does_not_fit_its_shape_is_refused() {
    let shape = BatchShape { frames: 2, detector: DetectorShape { rows: 2, cols: 2 } };
    let error = Cpu.sum_counts(&CountBuffer::U8(vec![0; 7]), shape).unwrap_err();
    assert!(error.to_string().contains("got 7 counts, expected 8"));
}
