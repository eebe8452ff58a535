//! Everything that has a name in the REST interface, as a table.
//!
//! Names, units and what changes with what: SIMPLON API 1.8 as `fastcs-eiger`, `tickit-devices` and recordings show it.

use serde_json::{Map, Value, json};

/// Where a parameter belongs: `/MODULE/api/1.8.0/SECTION/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Can be set, in part.
    Config,
    /// Can be read.
    Status,
}

/// What a value is, and what it is in the beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A number.
    Float(f64),
    /// A whole number, not negative.
    Uint(u64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(&'static str),
    /// A list of texts.
    List(&'static [&'static str]),
    /// An array of whole numbers, of which the table knows nothing more.
    Array,
}

impl Kind {
    /// The value in the beginning.
    pub fn initial(self) -> Value {
        match self {
            Self::Float(value) => json!(value),
            Self::Uint(value) => json!(value),
            Self::Bool(value) => json!(value),
            Self::Text(value) => json!(value),
            Self::List(values) => json!(values),
            Self::Array => Value::Null,
        }
    }

    /// As SIMPLON names it.
    pub fn value_type(self) -> &'static str {
        match self {
            Self::Float(_) => "float",
            Self::Uint(_) | Self::Array => "uint",
            Self::Bool(_) => "bool",
            Self::Text(_) | Self::List(_) => "string",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// `detector`, `stream`, ...
    pub module: &'static str,
    /// Where in the module.
    pub section: Section,
    /// Its name.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// Whether it can be set.
    pub is_settable: bool,
    /// Smallest and largest value.
    pub range: Option<(f64, f64)>,
    /// Unit; empty where there is none.
    pub unit: &'static str,
    /// All values there are; empty where any is.
    pub allowed: &'static [&'static str],
    /// What changes when it is set, besides itself.
    pub changes: &'static [&'static str],
}

impl Parameter {
    /// What a GET is answered with.
    pub fn envelope(&self, value: &Value) -> Value {
        let mut envelope = Map::new();
        let access = if self.is_settable { "rw" } else { "r" };
        envelope.insert("value".to_owned(), value.clone());
        envelope.insert("value_type".to_owned(), json!(self.kind.value_type()));
        envelope.insert("access_mode".to_owned(), json!(access));
        if let Some((min, max)) = self.range {
            let bound = |bound: f64| match self.kind {
                Kind::Uint(_) => json!(bound as u64),
                _ => json!(bound),
            };
            envelope.insert("min".to_owned(), bound(min));
            envelope.insert("max".to_owned(), bound(max));
        }
        if !self.unit.is_empty() {
            envelope.insert("unit".to_owned(), json!(self.unit));
        }
        if !self.allowed.is_empty() {
            envelope.insert("allowed_values".to_owned(), json!(self.allowed));
        }
        Value::Object(envelope)
    }

    /// Takes a value that is of the right type and in range.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn check(&self, value: &Value) -> Result<Value, String> {
        let name = self.name;
        let refused = || format!("{name}: got {value}, expected a value of type {}", self.kind.value_type());
        let taken = match self.kind {
            Kind::Float(_) => json!(value.as_f64().filter(|value| value.is_finite()).ok_or_else(refused)?),
            Kind::Uint(_) => json!(value.as_u64().ok_or_else(refused)?),
            Kind::Bool(_) => json!(value.as_bool().ok_or_else(refused)?),
            Kind::Text(_) => json!(value.as_str().ok_or_else(refused)?),
            Kind::List(_) | Kind::Array => return Err(refused()),
        };
        if let (Some((min, max)), Some(number)) = (self.range, taken.as_f64())
            && !(min..=max).contains(&number)
        {
            return Err(format!("{name}: got {number}, expected {min} to {max} {}", self.unit));
        }
        if let (false, Some(text)) = (self.allowed.is_empty(), taken.as_str())
            && !self.allowed.contains(&text)
        {
            return Err(format!("{name}: got {text:?}, expected one of {:?}", self.allowed));
        }
        Ok(taken)
    }
}

const fn row(module: &'static str, section: Section, name: &'static str, kind: Kind) -> Parameter {
    Parameter {
        module,
        section,
        name,
        kind,
        is_settable: false,
        range: None,
        unit: "",
        allowed: &[],
        changes: &[],
    }
}

/// A parameter of the configuration that can be set.
const fn set(module: &'static str, name: &'static str, kind: Kind) -> Parameter {
    Parameter { is_settable: true, ..row(module, Config, name, kind) }
}

/// A parameter of the detector's configuration that can be set.
const fn det(name: &'static str, kind: Kind) -> Parameter {
    set("detector", name, kind)
}

/// A parameter of the detector's configuration that cannot.
const fn fixed(name: &'static str, kind: Kind) -> Parameter {
    row("detector", Config, name, kind)
}

const fn status(module: &'static str, name: &'static str, kind: Kind) -> Parameter {
    row(module, Status, name, kind)
}

impl Parameter {
    const fn range(self, min: f64, max: f64) -> Self {
        Self { range: Some((min, max)), ..self }
    }

    const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    const fn of(self, allowed: &'static [&'static str]) -> Self {
        Self { allowed, ..self }
    }

    const fn changes(self, changes: &'static [&'static str]) -> Self {
        Self { changes, ..self }
    }
}

use Kind::{Array, Bool, Float, List, Text, Uint};
use Section::{Config, Status};

/// Most images of a series, and triggers.
const MOST: f64 = 2e9;

/// The table.
pub const PARAMETERS: &[Parameter] = &[
    det("auto_summation", Bool(true)),
    det("beam_center_x", Float(0.0)).range(-1e6, 1e6).unit("px"),
    det("beam_center_y", Float(0.0)).range(-1e6, 1e6).unit("px"),
    fixed("bit_depth_image", Uint(16)),
    fixed("bit_depth_readout", Uint(16)),
    det("compression", Text("bslz4")).of(&["bslz4", "lz4", "none"]),
    det("count_time", Float(1e-4)).range(1e-6, 1e4).unit("s").changes(&[
        "bit_depth_image",
        "bit_depth_readout",
        "countrate_correction_count_cutoff",
        "frame_count_time",
        "frame_period",
        "frame_time",
    ]),
    det("counting_mode", Text("normal")).of(&["normal", "retrigger"]),
    det("countrate_correction_applied", Bool(false)).changes(&["countrate_correction_count_cutoff"]),
    fixed("countrate_correction_count_cutoff", Uint(65535)),
    fixed("data_collection_date", Text("")),
    fixed("description", Text("")),
    det("detector_distance", Float(0.0)).range(0.0, 100.0).unit("m"),
    fixed("detector_number", Text("")),
    fixed("detector_readout_time", Float(1e-7)).unit("s"),
    fixed("eiger_fw_version", Text("")),
    det("flatfield_correction_applied", Bool(false)),
    fixed("frame_count_time", Float(1e-4)).unit("s"),
    fixed("frame_period", Float(1e-4)).unit("s"),
    det("frame_time", Float(1e-4)).range(1e-6, 1e4).unit("s").changes(&["frame_period"]),
    det("incident_energy", Float(0.0)).range(0.0, 1e6).unit("eV").changes(&[
        "photon_energy",
        "threshold_energy",
        "wavelength",
    ]),
    det("nimages", Uint(1)).range(1.0, MOST),
    det("ntrigger", Uint(1)).range(1.0, MOST),
    fixed("number_of_excluded_pixels", Uint(0)),
    det("photon_energy", Float(0.0)).range(0.0, 1e6).unit("eV").changes(&[
        "incident_energy",
        "threshold_energy",
        "wavelength",
    ]),
    fixed("pixel_mask", Array),
    det("pixel_mask_applied", Bool(false)),
    det("roi_bit_depth", Uint(16)).range(8.0, 32.0).changes(&["bit_depth_image"]),
    det("roi_mode", Text("disabled")).of(&["disabled", "merge2x2", "lines"]).changes(&[
        "bit_depth_image",
        "count_time",
        "frame_count_time",
        "frame_period",
        "frame_time",
    ]),
    fixed("sensor_material", Text("")),
    fixed("sensor_thickness", Float(0.0)).unit("m"),
    fixed("software_version", Text("1.8.0")),
    det("threshold_energy", Float(0.0)).range(0.0, 1e6).unit("eV").changes(&["flatfield"]),
    det("trigger_mode", Text("exts")).of(&["ints", "inte", "exts", "exte", "extg", "eies"]),
    det("trigger_start_delay", Float(0.0)).range(0.0, 10.0).unit("s"),
    det("virtual_pixel_correction_applied", Bool(false)),
    det("wavelength", Float(0.0)).range(0.0, 1e6).unit("angstrom").changes(&[
        "incident_energy",
        "photon_energy",
        "threshold_energy",
    ]),
    fixed("x_pixel_size", Float(0.0)).unit("m"),
    fixed("x_pixels_in_detector", Uint(0)),
    fixed("y_pixel_size", Float(0.0)).unit("m"),
    fixed("y_pixels_in_detector", Uint(0)),
    status("detector", "state", Text("idle")).of(&[
        "na",
        "idle",
        "ready",
        "acquire",
        "configure",
        "initialize",
        "error",
        "test",
    ]),
    status("detector", "error", List(&[])),
    status("detector", "time", Text("")),
    status("detector", "temperature", Float(24.5)).unit("C"),
    status("detector", "humidity", Float(4.2)).unit("%"),
    status("detector", "high_voltage/state", Text("READY")),
    status("detector", "link_0", Text("up")),
    status("detector", "link_1", Text("up")),
    status("detector", "series_unique_id", Text("")),
    set("stream", "mode", Text("enabled")).of(&["enabled", "disabled"]),
    set("stream", "format", Text("cbor")).of(&["legacy", "cbor"]),
    set("stream", "header_detail", Text("basic")).of(&["none", "basic", "all"]),
    set("stream", "header_appendix", Text("")),
    set("stream", "image_appendix", Text("")),
    status("stream", "state", Text("ready")).of(&["disabled", "ready", "acquire", "error"]),
    status("stream", "error", List(&[])),
    status("stream", "dropped", Uint(0)),
    set("filewriter", "mode", Text("enabled")).of(&["enabled", "disabled"]),
    set("filewriter", "compression_enabled", Bool(true)),
    set("filewriter", "format", Text("hdf5 nexus legacy nxmx"))
        .of(&["hdf5 nexus legacy nxmx", "hdf5 nexus v2024.2 nxmx"]),
    set("filewriter", "image_nr_start", Uint(1)).range(0.0, MOST),
    set("filewriter", "name_pattern", Text("series_$id")),
    set("filewriter", "nimages_per_file", Uint(1000)).range(0.0, MOST),
    status("filewriter", "state", Text("ready")).of(&["disabled", "ready", "acquire", "error"]),
    status("filewriter", "error", List(&[])),
    status("filewriter", "files", List(&[])),
    set("monitor", "mode", Text("disabled")).of(&["enabled", "disabled"]),
    set("monitor", "buffer_size", Uint(512)).range(1.0, 1e6),
    set("monitor", "discard_new", Bool(false)),
    status("monitor", "state", Text("normal")).of(&["normal", "overflow"]),
    status("monitor", "error", List(&[])),
    status("monitor", "buffer_free", Uint(512)),
    status("monitor", "dropped", Uint(0)),
    status("system", "state", Text("ready")),
    status("system", "time", Text("")),
];

/// Commands of each module.
pub const COMMANDS: &[(&str, &[&str])] = &[
    ("detector", &["abort", "arm", "cancel", "disarm", "hv_reset", "initialize", "status_update", "trigger"]),
    ("stream", &["initialize"]),
    ("filewriter", &["clear", "initialize"]),
    ("monitor", &["clear", "initialize"]),
    ("system", &["restart"]),
];

/// The row of a name.
pub fn find(module: &str, section: Section, name: &str) -> Option<&'static Parameter> {
    let is_it = |row: &&Parameter| row.module == module && row.section == section && row.name == name;
    PARAMETERS.iter().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once_and_what_it_changes_exists() {
        for (at, row) in PARAMETERS.iter().enumerate() {
            let of = |other: &&Parameter| {
                (other.module, other.section, other.name) == (row.module, row.section, row.name)
            };
            assert_eq!(PARAMETERS.iter().filter(of).count(), 1, "{} {}", row.module, row.name);
            for &changed in row.changes {
                let exists = find(row.module, Section::Config, changed).is_some() || changed == "flatfield";
                assert!(exists && changed != row.name, "{at}: {changed}");
            }
            let initial = row.kind.initial();
            assert!(!row.is_settable || row.check(&initial) == Ok(initial), "{}", row.name);
        }
    }

    #[test]
    fn values_of_another_type_or_out_of_range_are_refused() {
        let count_time = find("detector", Section::Config, "count_time").unwrap();
        assert_eq!(count_time.check(&json!(1)), Ok(json!(1.0)));
        assert!(count_time.check(&json!("1")).unwrap_err().contains("type float"));
        assert!(count_time.check(&json!(1e9)).unwrap_err().contains("1000000000"));
        let nimages = find("detector", Section::Config, "nimages").unwrap();
        for wrong in [json!(-1), json!(1.5), json!(0), json!(3e9), json!(null), json!([1])] {
            assert!(nimages.check(&wrong).is_err(), "{wrong}");
        }
        let format = find("stream", Section::Config, "format").unwrap();
        assert!(format.check(&json!("hdf5")).unwrap_err().contains("legacy"));
    }
}
