//! Bright-field pixels as runs along detector rows, in the detector's own frame: what correct_runs.cuh walks.
//!
//! In that frame the pixels of a run have one row and columns one apart, so that what changes along it is a constant turn
//! (C10, C12) or a polynomial in the column.

use rayon::prelude::*;

use super::gamma::{BINOMIALS, Coefficients, MAX_POWER};
use super::{BrightFieldPixels, GammaModel};

/// Pixels of a run, at most.
pub(crate) const RUN_PIXELS: usize = 8;
/// A pixel this far from where the run expects it is taken to be there \[px\].
const SAME_PLACE: f64 = 1e-6;

/// One run as correct_runs.cuh has it.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Run {
    /// (row, col) of its first pixel, from the beam's centre \[px\].
    place: [f64; 2],
    chi_turns: [f64; RUN_PIXELS],
    aperture: [f32; RUN_PIXELS],
    first: u32,
    pixels: u32,
    is_whole: u32,
    unused: u32,
}

/// The detector as correct_runs.cuh has it.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Detector {
    /// Angle in the scan frame to (row, col) \[px\].
    frame: [[f64; 2]; 2],
    /// chi of (row, col).
    chi_turns: Coefficients,
    /// A(v) = edge - |v| \[px\], cut to 0..=1.
    edge: f64,
}

/// Runs of all pixels that take part, in order.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) runs: Vec<Run>,
    /// The first run of each split, and the number of runs.
    pub(crate) starts: Vec<u32>,
    pub(crate) detector: Detector,
}

impl Runs {
    /// Runs of which none has pixels on both sides of a multiple of `per_split`; None where detector pixels are not square.
    pub(crate) fn new(pixels: &BrightFieldPixels, model: &GammaModel, per_split: usize) -> Option<Self> {
        let [row, col] = model.pixel();
        if row != col {
            return None;
        }
        let detector = Detector::new(model);
        let chi_turns = |angle: &[f64; 2]| if model.power() > 2 { model.chi_turns(*angle) } else { 0.0 };
        let of_pixels = pixels.angles.par_iter().with_min_len(512);
        let of_pixels: Vec<_> =
            of_pixels.map(|angle| (model.aperture(*angle) as f32, chi_turns(angle))).collect();
        let (mut runs, mut starts) = (Vec::new(), Vec::new());
        let mut open: Option<Run> = None;
        for (index, (&angle, &used)) in pixels.angles.iter().zip(&pixels.used).enumerate() {
            let place = detector.place(angle);
            let is_split = index % per_split == 0;
            if let Some(run) = open.take_if(|run| is_split || !run.continues_at(place)) {
                runs.extend(run.finished());
            }
            if is_split {
                starts.push(runs.len() as u32);
            }
            let run = open.get_or_insert(Run { place, first: index as u32, ..bytemuck::Zeroable::zeroed() });
            let at = run.pixels as usize;
            if used {
                (run.aperture[at], run.chi_turns[at]) = of_pixels[index];
            }
            run.pixels += 1;
        }
        runs.extend(open.and_then(Run::finished));
        starts.push(runs.len() as u32);
        Some(Self { runs, starts, detector })
    }
}

impl Run {
    /// Whether the pixel at `place` is the next of this run.
    fn continues_at(&self, place: [f64; 2]) -> bool {
        let expected = [self.place[0], self.place[1] + f64::from(self.pixels)];
        (self.pixels as usize) < RUN_PIXELS
            && place.iter().zip(expected).all(|(at, expected)| (at - expected).abs() < SAME_PLACE)
    }

    /// The run as it is walked; nothing where no pixel of it takes part.
    fn finished(mut self) -> Option<Self> {
        self.is_whole = self.aperture.iter().all(|&aperture| aperture == 1.0).into();
        self.aperture.iter().any(|&aperture| aperture > 0.0).then_some(self)
    }
}

impl Detector {
    /// Detector pixels must be square.
    fn new(model: &GammaModel) -> Self {
        let (row, col) = (model.angle_of_pixel(1.0, 0.0, [0.0; 2]), model.angle_of_pixel(0.0, 1.0, [0.0; 2]));
        let determinant = row[0] * col[1] - col[0] * row[1];
        Self {
            frame: [
                [col[1] / determinant, -col[0] / determinant],
                [-row[1] / determinant, row[0] / determinant],
            ],
            chi_turns: in_steps(model.chi_turns_f64(), row, col),
            edge: 1.0 / model.pixel()[0] + 0.5,
        }
    }

    fn place(&self, angle: [f64; 2]) -> [f64; 2] {
        self.frame.map(|line| line[0] * angle[0] + line[1] * angle[1])
    }
}

/// The polynomial of u as one of (x, y), where u = x row + y col.
fn in_steps(polynomial: &Coefficients, row: [f64; 2], col: [f64; 2]) -> Coefficients {
    // (x row[axis] + y col[axis])^power: coefficients of x^(power - k) y^k
    let powers = |axis: usize, power: usize| -> [f64; MAX_POWER + 1] {
        std::array::from_fn(|k| match k <= power {
            true => BINOMIALS[power][k] * row[axis].powi((power - k) as i32) * col[axis].powi(k as i32),
            false => 0.0,
        })
    };
    let mut turned = Coefficients::default();
    for i in 0..=MAX_POWER {
        for j in 0..=MAX_POWER - i {
            if polynomial[i][j] == 0.0 {
                continue;
            }
            let (first, second) = (powers(0, i), powers(1, j));
            for k in 0..=i {
                for l in 0..=j {
                    turned[i + j - k - l][k + l] += polynomial[i][j] * first[k] * second[l];
                }
            }
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Aberration, Aberrations, Degrees, Kilovolts, Milliradians, Nanometres, Optics};

    fn model(transpose: bool, sampling: [f64; 2]) -> GammaModel {
        let term = |name, size| Aberration::named(name, Nanometres(size), Degrees(33.0)).unwrap();
        GammaModel::new(&Optics {
            voltage: Kilovolts(300.0),
            semi_angle: Milliradians(30.0),
            scan_step: [Nanometres(0.02); 2],
            detector_sampling: sampling.map(Milliradians),
            rotation: Degrees(27.0),
            transpose,
            aberrations: Aberrations(vec![
                term("C10", 9.0),
                term("C12", 3.0),
                term("C23", 200.0),
                term("C45", 3e5),
            ]),
        })
        .unwrap()
    }

    const CENTRE: [f64; 2] = [7.3, 9.1];

    fn disk(model: &GammaModel) -> (Vec<[f64; 2]>, BrightFieldPixels) {
        let mut places = Vec::new();
        let mut pixels = BrightFieldPixels::default();
        for row in 0..20 {
            for col in 0..20 {
                let (row, col) = (f64::from(row), f64::from(col));
                let angle = model.angle_of_pixel(row, col, CENTRE);
                if model.aperture(angle) > 0.0 && col != 9.0 {
                    pixels.used.push(places.len() % 17 != 3);
                    places.push([row - CENTRE[0], col - CENTRE[1]]);
                    pixels.angles.push(angle);
                }
            }
        }
        (places, pixels)
    }

    #[test]
    fn every_used_pixel_is_in_one_run_where_the_detector_has_it() {
        for transpose in [false, true] {
            let model = model(transpose, [4.0; 2]);
            let (places, pixels) = disk(&model);
            let per_split = 24;
            let Runs { runs, starts, detector } = Runs::new(&pixels, &model, per_split).unwrap();
            let mut seen = vec![0; places.len()];
            for (split, ends) in starts.windows(2).enumerate() {
                for run in &runs[ends[0] as usize..ends[1] as usize] {
                    for at in 0..run.pixels as usize {
                        let index = run.first as usize + at;
                        assert_eq!(index / per_split, split);
                        let place = [run.place[0], run.place[1] + at as f64];
                        for (got, expected) in place.into_iter().zip(places[index]) {
                            assert!((got - expected).abs() < 1e-9, "{place:?}, expected {:?}", places[index]);
                        }
                        let aperture = model.aperture(pixels.angles[index]) as f32;
                        assert_eq!(run.aperture[at], if pixels.used[index] { aperture } else { 0.0 });
                        let chi = |power: usize| -> f64 {
                            let terms = (0..=power).flat_map(|i| (0..=power - i).map(move |j| (i, j)));
                            let powers =
                                |(i, j): (usize, usize)| place[0].powi(i as i32) * place[1].powi(j as i32);
                            terms.map(|(i, j)| detector.chi_turns[i][j] * powers((i, j))).sum()
                        };
                        let expected = model.chi_turns(pixels.angles[index]);
                        assert!((chi(6) - expected).abs() < 1e-9, "{} turns, expected {expected}", chi(6));
                        seen[index] += 1;
                    }
                    assert!(run.aperture[run.pixels as usize..].iter().all(|&aperture| aperture == 0.0));
                }
            }
            assert!(seen.iter().zip(&pixels.used).all(|(&seen, &used)| seen <= 1 && (!used || seen == 1)));
            assert!(runs.len() < places.len() / 3, "{} runs of {} pixels", runs.len(), places.len());
        }
    }

    #[test]
    fn pixels_that_are_not_square_make_no_runs() {
        let model = model(false, [4.0, 4.1]);
        assert!(Runs::new(&disk(&model).1, &model, 8).is_none());
    }
}
