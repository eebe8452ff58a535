//! Which colour map a quantity is shown in, by name.

use super::canvas::Rgb;
use super::contrast::Scale;
use crate::output::Quantity;

/// A named colour map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColourMap {
    /// Black to white.
    Gray,
    /// Black over purple to light yellow (matplotlib).
    Magma,
    /// Blue over green to yellow (matplotlib).
    Viridis,
    /// Blue over white to red (ColorBrewer RdBu, reversed), for signed values.
    BlueRed,
}

impl ColourMap {
    /// The map and the scale of a quantity.
    pub(super) fn of(quantity: Quantity) -> (Self, Scale) {
        match quantity {
            Quantity::Phase | Quantity::MeanPhase => (Self::Magma, Scale::Linear),
            Quantity::Amplitude
            | Quantity::BrightField
            | Quantity::AnnularDarkField
            | Quantity::DarkField
            | Quantity::FrameSum => (Self::Gray, Scale::Linear),
            Quantity::ComRow | Quantity::ComCol => (Self::BlueRed, Scale::AboutMedian),
            Quantity::DetectorTotal | Quantity::MeanPattern => (Self::Viridis, Scale::SquareRoot),
        }
    }

    /// The name people know it by.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gray => "gray",
            Self::Magma => "magma",
            Self::Viridis => "viridis",
            Self::BlueRed => "RdBu_r",
        }
    }

    /// The colour at `place`, 0 to 1.
    pub(super) fn colour(self, place: f64) -> Rgb {
        let place = place.clamp(0.0, 1.0);
        match self {
            Self::Gray => [(place * 255.0).round() as u8; 3],
            Self::Magma => rgb(colorous::MAGMA.eval_continuous(place)),
            Self::Viridis => rgb(colorous::VIRIDIS.eval_continuous(place)),
            Self::BlueRed => rgb(colorous::RED_BLUE.eval_continuous(1.0 - place)),
        }
    }
}

fn rgb(colour: colorous::Color) -> Rgb {
    [colour.r, colour.g, colour.b]
}
