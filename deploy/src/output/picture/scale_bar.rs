//! How long a scale bar is.

use super::number;

/// A bar of a round length.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScaleBar {
    /// Image pixels it spans along the columns.
    pub(super) length_px: f64,
    /// The length as it is written beside it.
    pub(super) label: String,
}

impl ScaleBar {
    /// The longest of 1, 2, 5 times a power of ten that spans at most 30 % of `cols` pixels of `pixel_size` `unit`s.
    pub(super) fn of(cols: usize, pixel_size: f64, unit: &str) -> Option<Self> {
        let most = 0.3 * cols as f64 * pixel_size;
        if !(most.is_finite() && most > 0.0) {
            return None;
        }
        let power = 10f64.powf(most.log10().floor());
        let length = [5.0, 2.0, 1.0].into_iter().map(|digit| digit * power).find(|length| *length <= most)?;
        let (shown, shown_unit) = match unit {
            // Below a tenth of a nanometre people think in picometres.
            "nm" if length < 0.0999 => (length * 1e3, "pm"),
            "nm" if length >= 999.9 => (length * 1e-3, "um"),
            _ => (length, unit),
        };
        Some(Self { length_px: length / pixel_size, label: format!("{} {shown_unit}", number(shown)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_round_and_spans_up_to_a_third() {
        for (cols, size, unit, label) in [
            (64, 0.016, "nm", "0.2 nm"),
            (64, 0.001, "nm", "10 pm"),
            (192, 0.6, "mrad", "20 mrad"),
            (192, 1.0, "px", "50 px"),
            (512, 10.0, "nm", "1 um"),
        ] {
            let bar = ScaleBar::of(cols, size, unit).unwrap();
            assert_eq!(bar.label, label);
            let share = bar.length_px / cols as f64;
            assert!((0.1..=0.3001).contains(&share), "{share}");
        }
        assert_eq!(ScaleBar::of(0, 1.0, "nm"), None);
        assert_eq!(ScaleBar::of(3, f64::NAN, "nm"), None);
    }
}
