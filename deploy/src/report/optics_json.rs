//! The optics in `result.json`: four objects with the same keys, in the order of the flags.

use kernels::types::{Milliradians, Nanometres, Pixels};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::optics::{Provenance, Resolved, ResolvedOptics};

/// One key of the four objects.
struct Entry {
    key: String,
    value: Value,
    provenance: Value,
    detail: Value,
    unit: &'static str,
}

impl Entry {
    fn new<T>(key: &str, unit: &'static str, resolved: &Resolved<T>, value: Value) -> Self {
        Self {
            key: key.to_owned(),
            value,
            provenance: json!(resolved.provenance),
            detail: json!(resolved.detail),
            unit,
        }
    }

    /// What nobody knows is null, with null for its origin.
    fn known<T>(
        key: &str,
        unit: &'static str,
        resolved: Option<&Resolved<T>>,
        value: impl Fn(&T) -> Value,
    ) -> Self {
        match resolved {
            Some(_) => Self::measured(key, unit, resolved, value),
            None => Self { detail: json!("not known"), ..Self::measured(key, unit, resolved, value) },
        }
    }

    /// What was to be measured and was not is null, with null for its origin.
    fn measured<T>(
        key: &str,
        unit: &'static str,
        resolved: Option<&Resolved<T>>,
        value: impl Fn(&T) -> Value,
    ) -> Self {
        match resolved {
            Some(resolved) => Self::new(key, unit, resolved, value(&resolved.value)),
            None => Self {
                key: key.to_owned(),
                value: Value::Null,
                provenance: Value::Null,
                detail: json!("not measured"),
                unit,
            },
        }
    }
}

/// Writes `optics`, `optics_provenance`, `optics_detail` and `optics_unit`.
pub(super) fn serialize<S: Serializer>(optics: &ResolvedOptics, serializer: S) -> Result<S::Ok, S::Error> {
    let entries = entries(optics);
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("optics", &Column(&entries, |entry| entry.value.clone()))?;
    map.serialize_entry("optics_provenance", &Column(&entries, |entry| entry.provenance.clone()))?;
    map.serialize_entry("optics_detail", &Column(&entries, |entry| entry.detail.clone()))?;
    map.serialize_entry("optics_unit", &Column(&entries, |entry| json!(entry.unit)))?;
    map.end()
}

/// Every value that is not taken by default, as a person reads it: key, value, where it comes from. Aberrations that are
/// taken as 0 are left out; what is to be measured says so.
pub(crate) fn told(optics: &ResolvedOptics) -> Vec<[String; 3]> {
    let is_default = |entry: &Entry| entry.provenance == json!(Provenance::Default) && entry.unit != "bool";
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let tell = |entry: Entry| match entry.value {
        Value::Null => [entry.key, "to be measured".to_owned(), String::new()],
        value => [entry.key, format!("{} {}", text(value), entry.unit), text(entry.detail)],
    };
    entries(optics).into_iter().filter(|entry| !is_default(entry)).map(tell).collect()
}

/// One of the four objects.
struct Column<'a>(&'a [Entry], fn(&Entry) -> Value);

impl Serialize for Column<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|entry| (&entry.key, (self.1)(entry))))
    }
}

fn entries(optics: &ResolvedOptics) -> Vec<Entry> {
    let shape = optics.scan_shape.value;
    let mut entries = vec![
        Entry::known("voltage_kv", "kV", optics.voltage.as_ref(), |voltage| json!(voltage.0)),
        Entry::known("semi_angle_mrad", "mrad", optics.semi_angle.as_ref(), |angle| json!(angle.0)),
        Entry::known("scan_step_nm", "nm, (row, col)", optics.scan_step.as_ref(), |step| {
            json!(step.map(|Nanometres(nm)| nm))
        }),
        Entry::known("rotation_deg", "deg, detector to scan", optics.rotation.as_ref(), |rotation| {
            json!(rotation.0)
        }),
        Entry::new("transpose", "bool", &optics.transpose, json!(optics.transpose.value)),
        Entry::new(
            "scan_shape",
            "positions, (rows, cols)",
            &optics.scan_shape,
            json!([shape.rows, shape.cols]),
        ),
        Entry::new("scan_path", "order", &optics.scan_path, json!(optics.scan_path.value)),
        Entry::new(
            "frames_per_position",
            "frames, summed",
            &optics.frames_per_position,
            json!(optics.frames_per_position.value),
        ),
        Entry::new(
            "flyback_frames",
            "frames after each scan row",
            &optics.flyback_frames,
            json!(optics.flyback_frames.value),
        ),
        Entry::new(
            "skip_frames",
            "frames before the first scan row",
            &optics.skip_frames,
            json!(optics.skip_frames.value),
        ),
        Entry::measured("bf_centre_px", "px, (row, col)", optics.bf_centre.as_ref(), |centre| {
            json!(centre.map(|Pixels(px)| px))
        }),
        Entry::measured("bf_radius_px", "px", optics.bf_radius.as_ref(), |radius| json!(radius.0)),
        Entry::measured(
            "detector_sampling_mrad",
            "mrad a pixel, (row, col)",
            optics.detector_sampling.as_ref(),
            |sampling| json!(sampling.map(|Milliradians(mrad)| mrad)),
        ),
    ];
    for term in &optics.aberrations {
        let digits = format!("{}{}", term.value.order, term.value.symmetry);
        entries.push(Entry::new(&format!("c{digits}_nm"), "nm", term, json!(term.value.size.0)));
        if term.value.symmetry > 0 {
            entries.push(Entry::new(
                &format!("phi{digits}_deg"),
                "deg, scan frame",
                term,
                json!(term.value.angle.0),
            ));
        }
    }
    entries
}
