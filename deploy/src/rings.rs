//! Virtual detectors: rings about the beam centre, in units of the bright-field radius.

use kernels::types::{DetectorShape, Pixels};

/// A ring about the beam centre, in units of the bright-field radius R: a pixel belongs to it when
/// inner R <= distance <= outer R.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ring {
    /// Inner radius in units of R; 0 for a disk.
    pub inner: f64,
    /// Outer radius in units of R; infinity reaches to the corners.
    pub outer: f64,
}

/// The three virtual detectors of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rings {
    /// Bright field.
    pub bf: Ring,
    /// Annular dark field.
    pub adf: Ring,
    /// Dark field: everything outside the disk.
    pub df: Ring,
}

impl Default for Rings {
    /// bf r <= 0.9 R; adf 1.2 R <= r <= 1.85 R; df 1.1 R <= r.
    fn default() -> Self {
        Self {
            bf: Ring { inner: 0.0, outer: 0.9 },
            adf: Ring { inner: 1.2, outer: 1.85 },
            df: Ring { inner: 1.1, outer: f64::INFINITY },
        }
    }
}

impl std::str::FromStr for Ring {
    type Err = String;

    /// Reads `IN,OUT` in units of the bright-field radius; `inf` is allowed as OUT.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once(',')
            .and_then(|(inner, outer)| Some((inner.trim().parse().ok()?, outer.trim().parse().ok()?)));
        match parsed {
            Some((inner, outer)) if 0.0 <= inner && inner < outer && f64::is_finite(inner) => {
                Ok(Self { inner, outer })
            }
            _ => Err(format!(
                "got ring '{text}', expected IN,OUT with 0 <= IN < OUT in units of the bright-field radius, such as 1.2,1.85 or 1.1,inf"
            )),
        }
    }
}

impl Ring {
    /// True when a pixel at `distance` \[px\] from the centre lies in the ring about a disk of `radius` \[px\].
    pub fn contains(self, distance: f64, radius: f64) -> bool {
        // 0 * inf is no number: an endless ring has no outer edge.
        let inside_outer = self.outer == f64::INFINITY || distance <= self.outer * radius;
        self.inner * radius <= distance && inside_outer
    }

    /// Which detector pixels belong to the ring, row-major: inner R <= |pixel - centre| <= outer R, and good.
    ///
    /// `bad` holds one flag a pixel, row-major; an empty slice says that every pixel is good.
    ///
    /// # Panics
    /// When `bad` is neither empty nor one flag a pixel.
    pub fn mask(
        self,
        detector: DetectorShape,
        centre: [Pixels; 2],
        radius: Pixels,
        bad: &[bool],
    ) -> Vec<bool> {
        assert!(bad.is_empty() || bad.len() == detector.pixels(), "one flag a pixel");
        let [Pixels(centre_row), Pixels(centre_col)] = centre;
        let mut mask = Vec::with_capacity(detector.pixels());
        for det_row in 0..detector.rows {
            for det_col in 0..detector.cols {
                let distance = (det_row as f64 - centre_row).hypot(det_col as f64 - centre_col);
                let good = bad.get(mask.len()).is_none_or(|bad| !bad);
                mask.push(good && self.contains(distance, radius.0));
            }
        }
        mask
    }
}

impl std::fmt::Display for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.inner, self.outer) {
            (0.0, outer) => write!(f, "r <= {outer} R"),
            (inner, f64::INFINITY) => write!(f, "{inner} R <= r"),
            (inner, outer) => write!(f, "{inner} R <= r <= {outer} R"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_read_from_text_and_nonsense_is_refused_by_its_text() {
        assert_eq!("1.2, 1.85".parse(), Ok(Ring { inner: 1.2, outer: 1.85 }));
        assert_eq!("1.1,inf".parse(), Ok(Ring { inner: 1.1, outer: f64::INFINITY }));
        for nonsense in ["", "1", "2,1", "-1,2", "nan,2", "1,nan", "inf,inf", "1,1"] {
            let refused = nonsense.parse::<Ring>().unwrap_err();
            assert!(refused.contains(&format!("'{nonsense}'")), "{refused}");
        }
    }

    #[test]
    fn a_mask_is_the_pixels_between_both_radii_that_are_good() {
        let detector = DetectorShape { rows: 5, cols: 7 };
        let (centre, radius) = ([Pixels(2.0), Pixels(3.0)], Pixels(2.0));
        let ring = Ring { inner: 0.5, outer: 1.0 };
        let mut bad = vec![false; 35];
        bad[2 * 7 + 5] = true;
        let mask = ring.mask(detector, centre, radius, &bad);
        for (pixel, inside) in mask.iter().enumerate() {
            let (row, col) = (pixel / 7, pixel % 7);
            let distance_squared = (row as i64 - 2).pow(2) + (col as i64 - 3).pow(2);
            assert_eq!(*inside, (1..=4).contains(&distance_squared) && pixel != 19, "row {row} col {col}");
        }
        let everywhere = Ring { inner: 0.0, outer: f64::INFINITY };
        assert!(everywhere.mask(detector, centre, Pixels(0.0), &[]).iter().all(|inside| *inside));
    }

    #[test]
    fn the_default_rings_are_those_of_the_golden_masks() {
        let Some(data) = std::env::var_os("SIDEBAND_GOLDENS") else {
            let _ =
                std::io::Write::write_all(&mut std::io::stderr(), b"not run: SIDEBAND_GOLDENS is not set\n");
            return;
        };
        let golden = |name: &str| {
            let path = std::path::Path::new(&data).join("sto-small/goldens").join(name);
            let bytes = std::fs::read(path).unwrap();
            let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
            bytes[header..].to_vec()
        };
        let bad: Vec<bool> =
            golden("pixel_mask_u32.npy").chunks_exact(4).map(|word| word != [0; 4]).collect();
        let rings = Rings::default();
        for (ring, name) in [(rings.bf, "bf_mask_bool.npy"), (rings.adf, "adf_mask_bool.npy")] {
            let expected: Vec<bool> = golden(name).iter().map(|byte| *byte != 0).collect();
            let detector = DetectorShape { rows: 192, cols: 192 };
            let mask = ring.mask(detector, [Pixels(95.3), Pixels(96.85)], Pixels(50.0), &bad);
            let differ = mask.iter().zip(&expected).filter(|(ours, theirs)| ours != theirs).count();
            assert_eq!((mask.len(), differ), (expected.len(), 0), "{name}");
        }
    }
}
