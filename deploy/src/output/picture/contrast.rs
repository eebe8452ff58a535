//! Which value is black and which is white.

use crate::room::room_for;

/// Below this share of the values the colour map is cut off, and above one minus it.
const CUT: f64 = 0.002;

/// How values map to the length of the colour bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By the square root above the lower limit: weak scattering becomes visible.
    SquareRoot,
    /// Evenly, with the median in the middle of the bar: for signed values.
    AboutMedian,
}

/// The limits of a picture's colour bar and how values lie between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrast {
    /// Value at the dark end.
    pub low: f64,
    /// Value at the bright end; more than `low`.
    pub high: f64,
    /// How values lie between them.
    pub scale: Scale,
    /// Number of values that are finite.
    pub num_finite: usize,
}

impl Contrast {
    /// Limits from the 0.2nd and 99.8th percentile of the finite values; widened where they coincide.
    ///
    /// # Errors
    /// The memory to sort them in cannot be had.
    pub fn of(values: &[f64], scale: Scale) -> anyhow::Result<Self> {
        let mut finite = room_for(values.len(), "the values of a picture, sorted")?;
        finite.extend(values.iter().copied().filter(|value| value.is_finite()));
        let num_finite = finite.len();
        if finite.is_empty() {
            return Ok(Self { low: 0.0, high: 1.0, scale, num_finite });
        }
        finite.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| finite[((num_finite - 1) as f64 * share).round() as usize];
        let (mut low, mut high) = (at(CUT), at(1.0 - CUT));
        if scale == Scale::AboutMedian {
            let median = at(0.5);
            let half = (high - median).max(median - low);
            (low, high) = (median - half, median + half);
        }
        if low >= high {
            let room = (low.abs() * 1e-3).max(f64::MIN_POSITIVE.sqrt());
            (low, high) = (low - room, high + room);
        }
        Ok(Self { low, high, scale, num_finite })
    }

    /// Where a value lies on the colour bar, 0 to 1; none when it is no number.
    pub fn place(&self, value: f64) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        let even = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        Some(match self.scale {
            Scale::SquareRoot => even.sqrt(),
            Scale::Linear | Scale::AboutMedian => even,
        })
    }

    /// The value at a place of the colour bar.
    pub fn value_at(&self, place: f64) -> f64 {
        let even = match self.scale {
            Scale::SquareRoot => place * place,
            Scale::Linear | Scale::AboutMedian => place,
        };
        self.low + even * (self.high - self.low)
    }

    /// The scale and the cut in words.
    pub fn described(&self) -> String {
        let scale = match self.scale {
            Scale::Linear => "linear",
            Scale::SquareRoot => "square root",
            Scale::AboutMedian => "linear about the median",
        };
        format!("{scale}, percentiles {} to {}", CUT * 100.0, 100.0 - CUT * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_and_what_is_no_number_do_not_set_the_limits() {
        let mut values: Vec<f64> = (0..10_000).map(|value| f64::from(value) / 100.0).collect();
        values[17] = 1e9;
        values[18] = f64::NAN;
        values[19] = f64::NEG_INFINITY;
        let contrast = Contrast::of(&values, Scale::Linear).unwrap();
        assert_eq!(contrast.num_finite, 9_998);
        assert!((contrast.low - 0.2).abs() < 0.05 && (contrast.high - 99.8).abs() < 0.05, "{contrast:?}");
        assert_eq!((contrast.place(1e9), contrast.place(f64::NAN)), (Some(1.0), None));
    }

    #[test]
    fn equal_values_lie_in_the_middle_and_none_is_fine() {
        for value in [0.0, -3.0, 1e12] {
            let place = Contrast::of(&[value; 9], Scale::Linear).unwrap().place(value).unwrap();
            assert!((place - 0.5).abs() < 1e-3, "{value}: {place}");
        }
        let nothing = Contrast::of(&[f64::NAN], Scale::SquareRoot).unwrap();
        assert_eq!((nothing.num_finite, nothing.low, nothing.high), (0, 0.0, 1.0));
    }

    #[test]
    fn the_median_is_the_middle_of_a_signed_scale() {
        let contrast = Contrast::of(&[95.0, 95.1, 95.2, 97.0], Scale::AboutMedian).unwrap();
        assert!((contrast.place(95.2).unwrap() - 0.5).abs() < 1e-9, "{contrast:?}");
    }

    #[test]
    fn place_and_value_are_inverse() {
        for scale in [Scale::Linear, Scale::SquareRoot, Scale::AboutMedian] {
            let contrast = Contrast::of(&[-1.0, 0.0, 4.0], scale).unwrap();
            for place in [0.0, 0.25, 0.5, 1.0] {
                assert!((contrast.place(contrast.value_at(place)).unwrap() - place).abs() < 1e-12);
            }
        }
    }
}
