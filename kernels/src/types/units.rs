//! Quantities with their unit in the type. Convert at one boundary only; inner loops carry the unit in the name.

use serde::{Deserialize, Serialize};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident, $symbol:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl $name {
            /// The symbol of the unit, as printed beside a value.
            pub const SYMBOL: &'static str = $symbol;
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{} {}", self.0, $symbol)
            }
        }
    };
}

unit!(/// Accelerating voltage.
    Kilovolts, "kV");
unit!(/// A length at the scale of the sample and of low-order aberrations.
    Nanometres, "nm");
unit!(/// A length in SI.
    Metres, "m");
unit!(/// A scattering angle at the edge of the program.
    Milliradians, "mrad");
unit!(/// An angle inside the program.
    Radians, "rad");
unit!(/// An angle at the edge of the program.
    Degrees, "deg");
unit!(/// A distance on the detector, in pixel pitches.
    Pixels, "px");

impl Nanometres {
    /// The same length in metres.
    pub fn metres(self) -> f64 {
        self.0 * 1e-9
    }
}

impl Milliradians {
    /// The same angle in radians.
    pub fn radians(self) -> f64 {
        self.0 * 1e-3
    }
}

impl Degrees {
    /// The same angle in radians.
    pub fn radians(self) -> f64 {
        self.0.to_radians()
    }
}

impl Kilovolts {
    /// The same voltage in volts.
    pub fn volts(self) -> f64 {
        self.0 * 1e3
    }
}
