//! The TOML file of `--optics`.

use std::collections::BTreeMap;
use std::path::Path;

use kernels::types::{
    ABERRATIONS, Aberration, Degrees, Kilovolts, Milliradians, Nanometres, Pixels, ScanPath, ScanShape,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::text::aberration_of;
use super::{OpticsError, OpticsValues, ResolvedOptics};

/// The file as it is written; the keys are the flags with underscores.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OpticsTable {
    voltage_kv: Option<f64>,
    semi_angle_mrad: Option<f64>,
    scan_step_nm: Option<OneOrTwo>,
    rotation_deg: Option<f64>,
    transpose: Option<bool>,
    scan_shape: Option<WrittenShape>,
    scan_path: Option<ScanPath>,
    frames_per_position: Option<u64>,
    flyback_frames: Option<u64>,
    skip_frames: Option<u64>,
    #[serde(default, deserialize_with = "row_col")]
    bf_centre: Option<[f64; 2]>,
    bf_radius_px: Option<f64>,
    detector_sampling_mrad: Option<OneOrTwo>,
    #[serde(default)]
    aberrations: BTreeMap<String, WrittenAberration>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "expected one number or [ROW, COL]")]
enum OneOrTwo {
    Both(f64),
    RowCol([f64; 2]),
}

/// Two numbers and no more: an array takes the first two of any.
fn row_col<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[f64; 2]>, D::Error> {
    let numbers: Option<Vec<f64>> = Option::deserialize(deserializer)?;
    let two = |numbers: Vec<f64>| {
        let got = numbers.len();
        numbers.try_into().map_err(|_| D::Error::custom(format!("got {got} numbers, expected 2, [ROW, COL]")))
    };
    numbers.map(two).transpose()
}

impl OneOrTwo {
    fn pair(self) -> [f64; 2] {
        match self {
            Self::Both(both) => [both, both],
            Self::RowCol(pair) => pair,
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "expected a shape such as \"256x256\" or [256, 256]")]
enum WrittenShape {
    Text(String),
    RowsCols([usize; 2]),
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "expected NM, or [NM, DEG]")]
enum WrittenAberration {
    Size(f64),
    SizeAndAngle(Vec<f64>),
}

impl ResolvedOptics {
    /// What is known, with the keys of an optics file; the bright field where it is pinned or measured.
    pub fn table(&self) -> OpticsTable {
        OpticsTable::of(&OpticsValues {
            voltage: self.voltage.as_ref().map(|voltage| voltage.value),
            semi_angle: self.semi_angle.as_ref().map(|angle| angle.value),
            scan_step: self.step(),
            rotation: self.rotation.as_ref().map(|rotation| rotation.value),
            transpose: Some(self.transpose.value),
            scan_shape: self.is_shape_known().then_some(self.scan_shape.value),
            scan_path: Some(self.scan_path.value),
            frames_per_position: Some(self.frames_per_position.value),
            flyback_frames: Some(self.flyback_frames.value),
            skip_frames: Some(self.skip_frames.value),
            bf_centre: self.bf_centre.as_ref().map(|centre| centre.value),
            bf_radius: self.bf_radius.as_ref().map(|radius| radius.value),
            detector_sampling: self.detector_sampling.as_ref().map(|sampling| sampling.value),
            aberrations: self.aberrations.iter().map(|term| term.value).collect(),
        })
    }
}

/// Most bytes of an optics file: a full one has about a thousand.
const MOST_BYTES: u64 = 1 << 20;

/// Reads an optics file.
///
/// # Errors
/// [`OpticsError::OpticsFile`]: not readable, no regular file, more than a mebibyte, not TOML, an unknown key (by name), or a value that makes no sense.
pub fn read_optics_file(path: &Path) -> Result<OpticsValues, OpticsError> {
    let refused = |what: String| OpticsError::OpticsFile { path: path.to_owned(), what };
    let bytes = ingest::read_small_file(path, MOST_BYTES).map_err(|error| refused(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| refused(format!("is no text: {error}")))?;
    parse(&text).map_err(refused)
}

fn parse(text: &str) -> Result<OpticsValues, String> {
    let table: OpticsTable = toml::from_str(text).map_err(|error| in_words(&error.to_string()))?;
    table.values()
}

impl OpticsTable {
    /// These values in a table.
    pub(crate) fn of(values: &OpticsValues) -> Self {
        let pair = |pair: [f64; 2]| {
            if pair[0] == pair[1] { OneOrTwo::Both(pair[0]) } else { OneOrTwo::RowCol(pair) }
        };
        let terms = values.aberrations.iter().filter(|term| term.size.0 != 0.0);
        let written = |term: &Aberration| match term.symmetry {
            0 => WrittenAberration::Size(term.size.0),
            _ => WrittenAberration::SizeAndAngle(vec![term.size.0, term.angle.0]),
        };
        Self {
            voltage_kv: values.voltage.map(|voltage| voltage.0),
            semi_angle_mrad: values.semi_angle.map(|angle| angle.0),
            scan_step_nm: values.scan_step.map(|step| pair(step.map(|step| step.0))),
            rotation_deg: values.rotation.map(|rotation| rotation.0),
            transpose: values.transpose,
            scan_shape: values.scan_shape.map(|scan| WrittenShape::RowsCols([scan.rows, scan.cols])),
            scan_path: values.scan_path,
            frames_per_position: values.frames_per_position,
            flyback_frames: values.flyback_frames,
            skip_frames: values.skip_frames,
            bf_centre: values.bf_centre.map(|centre| centre.map(|px| px.0)),
            bf_radius_px: values.bf_radius.map(|radius| radius.0),
            detector_sampling_mrad: values.detector_sampling.map(|mrad| pair(mrad.map(|mrad| mrad.0))),
            aberrations: terms.map(|term| (term.name(), written(term))).collect(),
        }
    }

    /// What it says.
    ///
    /// # Errors
    /// A shape or an aberration that is none.
    pub(crate) fn values(&self) -> Result<OpticsValues, String> {
        let scan_shape = match &self.scan_shape {
            None => None,
            Some(WrittenShape::Text(text)) => Some(text.parse()?),
            Some(WrittenShape::RowsCols([rows, cols])) => Some(ScanShape { rows: *rows, cols: *cols }),
        };
        let mut aberrations = Vec::new();
        for (name, value) in &self.aberrations {
            let term = match value {
                WrittenAberration::Size(size) => aberration_of(name, &[*size]),
                WrittenAberration::SizeAndAngle(numbers) => aberration_of(name, numbers),
            }?;
            aberrations.push(term);
        }
        let sampling = self.detector_sampling_mrad.map(|sampling| sampling.pair().map(Milliradians));
        Ok(OpticsValues {
            voltage: self.voltage_kv.map(Kilovolts),
            semi_angle: self.semi_angle_mrad.map(Milliradians),
            scan_step: self.scan_step_nm.map(|step| step.pair().map(Nanometres)),
            rotation: self.rotation_deg.map(Degrees),
            transpose: self.transpose,
            scan_shape,
            scan_path: self.scan_path,
            frames_per_position: self.frames_per_position,
            flyback_frames: self.flyback_frames,
            skip_frames: self.skip_frames,
            bf_centre: self.bf_centre.map(|centre| centre.map(Pixels)),
            bf_radius: self.bf_radius_px.map(Pixels),
            detector_sampling: sampling,
            aberrations,
        })
    }
}

/// What a parser says, with words for the types that a program has.
pub(crate) fn without_types(said: &str) -> String {
    let types = [("f64", "a number"), ("a boolean", "true or false")];
    let whole = ["u8", "u32", "u64", "usize"].map(|whole| (whole, "a whole number, 0 or more"));
    types.into_iter().chain(whole).fold(said.to_owned(), |said, (of_program, word)| {
        said.replace(&format!("expected {of_program}"), &format!("expected {word}"))
    })
}

/// What the parser of TOML says, in the words of one who writes the file.
pub(crate) fn in_words(said: &str) -> String {
    let said = without_types(said.trim_end());
    let said = said.replace("expected a number", "expected a number without quotes and unit");
    let names_a_term = ABERRATIONS.iter().any(|(name, ..)| said.contains(&format!("unknown field `{name}`")));
    match names_a_term {
        true => format!("{said}\naberrations stand below a line [aberrations]"),
        false => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_read() {
        let values = parse(
            r#"
            voltage_kv = 300
            semi_angle_mrad = 30.0
            scan_step_nm = [0.016, 0.017]
            rotation_deg = -12.5
            transpose = true
            scan_shape = "64x48"
            scan_path = "snake"
            frames_per_position = 2
            flyback_frames = 8
            skip_frames = 3
            bf_centre = [95.3, 96.85]
            bf_radius_px = 50
            detector_sampling_mrad = 0.6
            [aberrations]
            C10 = -6.3
            C12 = [1.8, 11.6]
            "#,
        )
        .unwrap();
        assert_eq!(values.voltage, Some(Kilovolts(300.0)));
        assert_eq!(values.scan_step, Some([Nanometres(0.016), Nanometres(0.017)]));
        assert_eq!(values.rotation, Some(Degrees(-12.5)));
        assert_eq!(values.transpose, Some(true));
        assert_eq!(values.scan_shape, Some(ScanShape { rows: 64, cols: 48 }));
        assert_eq!(values.scan_path, Some(ScanPath::Snake));
        let numbers = [values.frames_per_position, values.flyback_frames, values.skip_frames];
        assert_eq!(numbers, [Some(2), Some(8), Some(3)]);
        assert_eq!(values.bf_centre, Some([Pixels(95.3), Pixels(96.85)]));
        assert_eq!(values.bf_radius, Some(Pixels(50.0)));
        assert_eq!(values.detector_sampling, Some([Milliradians(0.6); 2]));
        let sizes: Vec<_> =
            values.aberrations.iter().map(|term| (term.name(), term.size.0, term.angle.0)).collect();
        assert_eq!(sizes, [("C10".to_owned(), -6.3, 0.0), ("C12".to_owned(), 1.8, 11.6)]);
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        for (text, name) in [
            ("voltage = 300", "voltage"),
            ("[aberrations]\nC99 = 1", "C99"),
            ("[aberation]\nC10 = 1", "aberation"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(name), "{refused}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_kind_says_what_was_expected() {
        for (text, said) in [
            ("scan_step_nm = \"small\"", "one number or [ROW, COL]"),
            ("scan_shape = 64", "256x256"),
            ("scan_path = \"zigzag\"", "`raster` or `snake`"),
            ("flyback_frames = -1", "expected a whole number, 0 or more"),
            ("bf_centre = [1, 2, 3]", "bf_centre"),
            ("bf_centre = [1, 2, 3]", "got 3 numbers, expected 2, [ROW, COL]"),
            ("bf_centre = [1]", "got 1 numbers, expected 2"),
            ("scan_step_nm = [1, 2, 3]", "one number or [ROW, COL]"),
            ("[aberrations]\nC12 = 1.8", "C12=1.8,DEG"),
            ("[aberrations]\nC10 = true", "NM"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}
