//! What is asked for over the API beside images: the microscope, the virtual detectors, the reconstruction. Kept as it was
//! given, key by key; what a number means and whether it can be is settled where it is used.

use anyhow::{anyhow, bail, ensure};
use serde_json::{Map, Value, json};
use ssb::Moments;

use crate::optics::{OpticsTable, OpticsValues, check_values, in_keys, without_types};
use crate::rings::{Ring, Rings};

/// The resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// The microscope.
    Optics,
    /// Which frames are which positions: five keys of the optics.
    Geometry,
    /// The virtual detectors, and the disk they are measured by.
    Masks,
    /// What the reconstruction computes.
    Reconstruction,
}

/// What was asked for, of the next series or of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Asked {
    /// With the keys of an optics file.
    optics: Map<String, Value>,
    /// `bf`, `adf`, `df`: `[inner, outer]`.
    rings: Map<String, Value>,
    mean_phase: bool,
}

/// Keys of the disk among the masks, and what they are called in the optics.
const DISK: [(&str, &str); 2] = [("centre_px", "bf_centre"), ("radius_px", "bf_radius_px")];

/// Keys of the geometry among the optics.
const GEOMETRY: [&str; 5] =
    ["scan_shape", "scan_path", "frames_per_position", "flyback_frames", "skip_frames"];

/// The geometry as the API tells it.
pub(super) fn geometry_json(optics: &OpticsTable) -> Value {
    let all = json!(optics);
    Value::Object(GEOMETRY.iter().map(|&key| (key.to_owned(), all[key].clone())).collect())
}

impl Asked {
    /// The same with what `body` says: a key that is named is set, or taken back by null; the others stay.
    ///
    /// # Errors
    /// No object, an unknown key, a value of the wrong type or out of its range; with what was got and expected.
    pub(super) fn with(&self, resource: Resource, body: &Value) -> anyhow::Result<Self> {
        let Some(body) = body.as_object() else { bail!("got no JSON object, expected one such as {{}}") };
        let mut asked = self.clone();
        match resource {
            Resource::Optics => merge(&mut asked.optics, body),
            Resource::Geometry => {
                for key in body.keys() {
                    ensure!(
                        GEOMETRY.contains(&key.as_str()),
                        "got the key '{key}', expected {}",
                        GEOMETRY.join(", ")
                    );
                }
                merge(&mut asked.optics, body);
            }
            Resource::Masks => {
                for (key, value) in body {
                    let of_disk = DISK.iter().find(|(name, _)| name == key);
                    let (into, key) = match of_disk {
                        Some((_, key)) => (&mut asked.optics, (*key).to_owned()),
                        None => (&mut asked.rings, key.clone()),
                    };
                    merge(into, &Map::from_iter([(key, value.clone())]));
                }
            }
            Resource::Reconstruction => {
                for (key, value) in body {
                    ensure!(key == "mean_phase", "got the key '{key}', expected mean_phase");
                    let Some(value) = value.as_bool() else {
                        bail!("mean_phase: got {value}, expected true or false")
                    };
                    asked.mean_phase = value;
                }
            }
        }
        let as_asked = |why: String| anyhow!(resource.in_its_keys(why));
        for (key, value) in &asked.optics {
            let one = Map::from_iter([(key.clone(), value.clone())]);
            let known: Result<OpticsTable, _> = serde_json::from_value(Value::Object(one));
            known.map_err(|why| as_asked(format!("{key}: {}", without_types(&why.to_string()))))?;
        }
        check_values(&asked.optics()?).map_err(|error| as_asked(in_keys(&error)))?;
        asked.rings(Rings::default())?;
        Ok(asked)
    }

    /// Takes back what was asked of the microscope by this key.
    pub(super) fn forget(&mut self, key: &str) {
        self.optics.remove(key);
    }

    /// What is said of the microscope.
    ///
    /// # Errors
    /// An unknown key, a value of the wrong type.
    pub(super) fn optics(&self) -> anyhow::Result<OpticsValues> {
        let table: OpticsTable = serde_json::from_value(Value::Object(self.optics.clone()))?;
        table.values().map_err(|why| anyhow!(why))
    }

    /// The virtual detectors; `usual` where nothing is said.
    ///
    /// # Errors
    /// An unknown key, a ring that is none.
    pub(super) fn rings(&self, usual: Rings) -> anyhow::Result<Rings> {
        let mut rings = usual;
        for (key, value) in &self.rings {
            let ring = ring(key, value)?;
            match key.as_str() {
                "bf" => rings.bf = ring,
                "adf" => rings.adf = ring,
                "df" => rings.df = ring,
                _ => bail!("got the key '{key}', expected bf, adf, df, centre_px or radius_px"),
            }
        }
        Ok(rings)
    }

    /// What the reconstruction computes.
    pub(super) fn moments(&self) -> Moments {
        if self.mean_phase { Moments::Compute } else { Moments::Skip }
    }

    /// What was asked for of the microscope, key by key.
    pub(super) fn optics_json(&self) -> Value {
        Value::Object(self.optics.clone())
    }
}

impl Resource {
    /// What is wrong with the optics; of the disk among the masks, by its keys there.
    pub(super) fn in_its_keys(self, why: String) -> String {
        let is_renamed = |(_, in_optics): &&(&str, &str)| self == Self::Masks && why.starts_with(in_optics);
        match DISK.iter().find(is_renamed) {
            Some((key, in_optics)) => why.replacen(in_optics, key, 1),
            None => why,
        }
    }
}

/// Sets what is named, takes back what is null; objects within key by key.
fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (value, into.get_mut(key)) {
            (Value::Null, _) => drop(into.remove(key)),
            (Value::Object(from), Some(Value::Object(into))) => merge(into, from),
            (value, _) => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

fn ring(key: &str, value: &Value) -> anyhow::Result<Ring> {
    let refused =
        || anyhow!("{key}: got {value}, expected [inner, outer] with 0 <= inner < outer, null for no end");
    let [inner, outer] = value.as_array().map(Vec::as_slice).unwrap_or_default() else {
        return Err(refused());
    };
    let inner = inner.as_f64().ok_or_else(refused)?;
    let outer = if outer.is_null() { f64::INFINITY } else { outer.as_f64().ok_or_else(refused)? };
    ensure!(0.0 <= inner && inner < outer, refused());
    Ok(Ring { inner, outer })
}

/// Rings as the API tells them.
pub(super) fn rings_json(rings: &Rings) -> Value {
    let ring = |ring: Ring| json!([ring.inner, ring.outer.is_finite().then_some(ring.outer)]);
    json!({ "bf": ring(rings.bf), "adf": ring(rings.adf), "df": ring(rings.df) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_set_and_null_takes_it_back() {
        let asked = Asked::default()
            .with(
                Resource::Optics,
                &json!({ "voltage_kv": 300, "aberrations": { "C10": -6.3, "C12": [1.8, 11] } }),
            )
            .unwrap()
            .with(Resource::Optics, &json!({ "semi_angle_mrad": 30, "aberrations": { "C12": null } }))
            .unwrap();
        let optics = asked.optics().unwrap();
        assert_eq!((optics.voltage.unwrap().0, optics.semi_angle.unwrap().0), (300.0, 30.0));
        assert_eq!(optics.aberrations.len(), 1);
        let asked = asked.with(Resource::Optics, &json!({ "voltage_kv": null })).unwrap();
        assert_eq!(asked.optics().unwrap().voltage, None);
        let asked = asked.with(Resource::Masks, &json!({ "df": [1.5, null], "radius_px": 20 })).unwrap();
        assert_eq!(asked.optics().unwrap().bf_radius.unwrap().0, 20.0);
        assert_eq!(asked.rings(Rings::default()).unwrap().df, Ring { inner: 1.5, outer: f64::INFINITY });
        assert_eq!(asked.rings(Rings::default()).unwrap().bf, Rings::default().bf);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_was_got_and_expected() {
        for (resource, body, said) in [
            (Resource::Optics, json!([1]), "expected one such as {}"),
            (Resource::Optics, json!({ "voltage": 300 }), "voltage"),
            (Resource::Optics, json!({ "voltage_kv": 3 }), "voltage_kv: got 3 kV, expected 10 to 1000 kV"),
            (Resource::Optics, json!({ "semi_angle_mrad": 0.03 }), "did you mean 30 mrad?"),
            (Resource::Optics, json!({ "aberrations": { "C10": 1e12 } }), "aberrations: got C10"),
            (Resource::Optics, json!({ "aberrations": { "C99": 1 } }), "C99"),
            (Resource::Masks, json!({ "bf": [1, 0.5] }), "bf: got [1,0.5], expected [inner, outer]"),
            (Resource::Masks, json!({ "haadf": [1, 2] }), "haadf"),
            (Resource::Masks, json!({ "radius_px": -1 }), "radius_px: got -1 px"),
            (Resource::Masks, json!({ "radius_px": "wide" }), "radius_px: invalid type"),
            (Resource::Masks, json!({ "centre_px": [1] }), "centre_px: got 1 numbers, expected 2"),
            (Resource::Reconstruction, json!({ "mean_phase": 1 }), "expected true or false"),
            (Resource::Reconstruction, json!({ "loss": true }), "loss"),
        ] {
            let why = format!("{:#}", Asked::default().with(resource, &body).unwrap_err());
            assert!(why.contains(said) && !why.starts_with("bf_"), "{body}: {why}");
        }
    }
}
