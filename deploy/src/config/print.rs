//! A file of settings written out: what is said, every default, and every other key as a comment.

use std::fmt::Write;

use toml::{Table, Value};

use super::Config;

/// What a key has that nothing is said of.
enum Unsaid {
    /// Taken where nothing else says it.
    Default(&'static str),
    /// There is no fixed value: what stands for it, and one it could have.
    None(&'static str, &'static str),
}

use Unsaid::{Default, None as Example};

/// Every table with its keys, in the order in which they are printed.
const TABLES: [(&str, &[(&str, Unsaid)]); 8] = [
    (
        "stream",
        &[
            ("address", Example("needed", "\"192.168.30.10:31001\"")),
            ("api", Example("not asked", "\"192.168.30.10:80\"")),
            ("threshold", Default("\"first\"")),
            ("silence_s", Default("10.0")),
            ("ring_mib", Default("256")),
        ],
    ),
    (
        "page",
        &[
            ("listen", Default("\"127.0.0.1:8040\"")),
            ("token_file", Example("no token on loopback, else one is made up", "\"/etc/sideband/token\"")),
        ],
    ),
    ("results", &[("out", Example("needed", "\"/srv/sideband/results\""))]),
    (
        "record",
        &[
            ("folder", Example("nothing is recorded", "\"/srv/sideband/log\"")),
            ("most_gb", Example("what the disk holds", "2000.0")),
            ("remove_oldest", Default("false")),
        ],
    ),
    (
        "export",
        &[
            ("on_completion", Default("false")),
            ("folder", Example("exports, among the results", "\"/srv/sideband/exports\"")),
        ],
    ),
    (
        "limits",
        &[
            ("memory_gb", Example("from the memory that is free", "32.0")),
            ("threads", Example("one a core", "8")),
            ("device", Default("\"auto\"")),
        ],
    ),
    (
        "virtual_detectors",
        &[
            ("bf_ring", Default("\"0,0.9\"")),
            ("adf_ring", Default("\"1.2,1.85\"")),
            ("df_ring", Default("\"1.1,inf\"")),
        ],
    ),
    (
        "optics",
        &[
            ("voltage_kv", Example("what the stream says", "300.0")),
            ("semi_angle_mrad", Example("not known", "30.0")),
            ("scan_step_nm", Example("not known", "0.016")),
            ("rotation_deg", Example("not known", "-12.5")),
            ("transpose", Default("false")),
            ("scan_shape", Example("what the detector is set to, or not known", "\"256x256\"")),
            ("scan_path", Default("\"raster\"")),
            ("frames_per_position", Default("1")),
            ("flyback_frames", Default("0")),
            ("skip_frames", Default("0")),
            ("bf_centre", Example("measured", "[95.3, 96.85]")),
            ("bf_radius_px", Example("measured", "50.0")),
            ("detector_sampling_mrad", Example("measured", "0.6")),
        ],
    ),
];

/// The table of the aberrations, below the optics.
const ABERRATIONS: &str = "aberrations";

impl Config {
    /// The settings as TOML, with every default and every key. A comment holds what nothing is said of: its default, or an
    /// example of a key that has none. Read back, it says the same as [`with_defaults`](Self::with_defaults).
    ///
    /// # Errors
    /// A value that TOML cannot hold.
    pub fn printed(self) -> Result<String, toml::ser::Error> {
        let mut said = Table::try_from(self.with_defaults())?;
        let mut text = String::new();
        for (table, keys) in TABLES {
            let mut said = match said.remove(table) {
                Some(Value::Table(said)) => said,
                _ => Table::new(),
            };
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{table}]");
            for (key, unsaid) in keys {
                let _ = match (said.remove(*key), unsaid) {
                    (Some(value), _) => writeln!(text, "{key} = {value}"),
                    (None, Default(value)) => writeln!(text, "# {key} = {value}  # the default"),
                    (None, Example(instead, value)) => {
                        writeln!(text, "# {key} = {value}  # an example; not given: {instead}")
                    }
                };
            }
            if let Some(Value::Table(terms)) = said.remove(ABERRATIONS) {
                let _ = writeln!(text, "\n[{table}.{ABERRATIONS}]");
                for (term, value) in &terms {
                    let _ = writeln!(text, "{term} = {value}");
                }
                if terms.is_empty() {
                    let _ = writeln!(text, "# C10 = -6.3  # an example; not given: 0");
                }
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kernels::types::{Degrees, Kilovolts, Milliradians, Nanometres, Pixels, ScanPath, ScanShape};

    use super::super::*;
    use super::*;

    /// The names of all keys that say something, as `table.key`.
    fn keys(text: &str) -> BTreeSet<String> {
        let tables: Table = toml::from_str(text).unwrap();
        let mut keys = BTreeSet::new();
        for (table, said) in &tables {
            let Value::Table(said) = said else { panic!("{table} is no table") };
            keys.extend(said.keys().map(|key| format!("{table}.{key}")));
        }
        keys
    }

    /// The text with its comments taken as what they would say.
    fn uncommented(text: &str) -> String {
        text.lines().map(|line| format!("{}\n", line.strip_prefix("# ").unwrap_or(line))).collect()
    }

    /// With something said of everything: a key that is new has to be named here, or this is not compiled.
    fn full() -> Config {
        let text = || Some("a:1".to_owned());
        let path = || Some(PathBuf::from("/a"));
        Config {
            stream: StreamConfig {
                address: text(),
                api: text(),
                threshold: Some(Threshold::All),
                silence_s: Some(1.0),
                ring_mib: Some(8),
            },
            page: PageConfig { listen: Some(DEFAULT_LISTEN), token_file: path() },
            results: ResultsConfig { out: path() },
            record: RecordConfig { folder: path(), most_gb: Some(1.0), remove_oldest: Some(true) },
            export: ExportConfig { on_completion: Some(true), folder: path() },
            limits: LimitsConfig { memory_gb: Some(1.0), threads: Some(1), device: Some(DeviceChoice::Cpu) },
            virtual_detectors: RingsConfig {
                bf_ring: Some(Rings::default().bf),
                adf_ring: Some(Rings::default().adf),
                df_ring: Some(Rings::default().df),
            },
            optics: OpticsTable::of(&OpticsValues {
                voltage: Some(Kilovolts(300.0)),
                semi_angle: Some(Milliradians(30.0)),
                scan_step: Some([Nanometres(0.016), Nanometres(0.017)]),
                rotation: Some(Degrees(1.0)),
                transpose: Some(true),
                scan_shape: Some(ScanShape { rows: 2, cols: 3 }),
                scan_path: Some(ScanPath::Snake),
                frames_per_position: Some(2),
                flyback_frames: Some(3),
                skip_frames: Some(4),
                bf_centre: Some([Pixels(1.0), Pixels(2.0)]),
                bf_radius: Some(Pixels(3.0)),
                detector_sampling: Some([Milliradians(0.6); 2]),
                aberrations: vec![crate::optics::parse_aberration("C12=1.8,11.6").unwrap()],
            }),
        }
    }

    fn same(left: Config, right: Config) {
        assert_eq!(Table::try_from(left).unwrap(), Table::try_from(right).unwrap());
    }

    #[test]
    fn what_is_printed_without_a_file_is_the_default_and_names_every_key() {
        let printed = Config::default().printed().unwrap();
        same(toml::from_str(&printed).unwrap(), Config::default().with_defaults());
        let named = uncommented(&printed);
        assert_eq!(keys(&named), keys(&toml::to_string(&full()).unwrap()));
        // what stands in the comments can be said, and the defaults among it change nothing
        let said: Config = toml::from_str(&named).unwrap();
        said.check().unwrap();
        let optics = said.optics_values().unwrap();
        check_values(&optics).unwrap();
        assert_eq!((optics.transpose, optics.scan_path), (Some(false), Some(ScanPath::default())));
        let numbers = [optics.frames_per_position, optics.flyback_frames, optics.skip_frames];
        assert_eq!(numbers, [Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn what_is_said_is_printed_and_read_again() {
        let printed = full().printed().unwrap();
        assert!(!printed.contains('#'), "{printed}");
        same(toml::from_str(&printed).unwrap(), full());
    }
}
