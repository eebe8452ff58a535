//! The file of the daemon's settings, `sideband.toml`. What it leaves out is taken by default; what it does not know is
//! refused by name. A flag is stronger than the environment, which is stronger than the file.

mod print;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use ingest::stream::threshold::Threshold;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::device::DeviceChoice;
use crate::optics::{OpticsTable, OpticsValues, check_values, in_keys, in_words};
use crate::request::MOST_THREADS;
use crate::rings::{Ring, Rings};

/// Most bytes of a file of settings.
const MOST_BYTES: u64 = 1 << 20;

/// Seconds of silence after which a series is over, where nobody says otherwise.
pub const DEFAULT_SILENCE_S: f64 = 10.0;
/// Memory between the wire and the rest, MiB.
pub const DEFAULT_RING_MIB: u32 = 256;
/// Where the page is.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8040));

/// Seconds of silence that can be asked for.
pub const SILENCES_S: [f64; 2] = [0.1, 86_400.0];
/// Sizes of the ring that can be asked for, MiB.
pub const RINGS_MIB: [f64; 2] = [8.0, 65_536.0];
/// Sizes of memory and log that can be asked for, GB.
pub const SIZES_GB: [f64; 2] = [1e-3, 1e9];

/// Refuses a number outside its range, by its name.
///
/// # Errors
/// The name, what was got and what was expected.
pub fn within(name: &str, value: f64, [least, most]: [f64; 2], unit: &str) -> Result<f64, String> {
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(format!("{name}: got {value}, expected {least} to {most} {unit}").trim_end().to_owned()),
    }
}

/// `HOST:PORT` of the stream, with or without `tcp://` before it.
///
/// # Errors
/// What was got and what was expected.
pub fn stream_address(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("tcp://").unwrap_or(text);
    match host_and_port(address) {
        Some((_, Some(_))) => Ok(address.to_owned()),
        _ => Err(format!(
            "got the stream '{text}', expected HOST:PORT: port 9999 for stream v1, 31001 for stream v2"
        )),
    }
}

/// Refuses what is no `HOST[:PORT]` of a SIMPLON interface, with or without `http://` before it.
///
/// # Errors
/// What was got and what was expected.
pub fn check_api(text: &str) -> Result<(), String> {
    let address = text.trim_start_matches("http://").trim_end_matches('/');
    match host_and_port(address) {
        Some(_) => Ok(()),
        None => Err(format!("got the api '{text}', expected HOST or HOST:PORT")),
    }
}

/// Where the page is: an address and a port, or a name, which is looked up; of its addresses the first of IPv4, if it has one.
///
/// # Errors
/// What was got and what was expected.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let refused = |why: String| {
        format!("got the address '{text}', expected ADDR:PORT, such as 127.0.0.1:8040, or NAME:PORT{why}")
    };
    let found = text.to_socket_addrs().map_err(|error| match error.kind() {
        // not even of that form
        ErrorKind::InvalidInput => refused(String::new()),
        _ => refused(format!(" with a name that can be looked up: {error}")),
    })?;
    let found: Vec<SocketAddr> = found.collect();
    let of_ipv4 = found.iter().find(|address| address.is_ipv4());
    of_ipv4.or(found.first()).copied().ok_or_else(|| refused(String::new()))
}

/// A host, which is no more than looked at, and the port behind it, above 0.
fn host_and_port(address: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match address.rsplit_once(':') {
        // colons in brackets are of an address of IPv6
        Some((host, port)) if !port.ends_with(']') => {
            (host, Some(port.parse().ok().filter(|port: &u16| *port > 0)?))
        }
        _ => (address, None),
    };
    let is_host = !host.is_empty() && !host.contains(|letter: char| letter == '/' || letter.is_whitespace());
    is_host.then_some((host, port))
}

/// Everything that can be set, by table; `None` where nothing is said.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where frames come from.
    pub stream: StreamConfig,
    /// Where they are shown.
    pub page: PageConfig,
    /// Where results go.
    pub results: ResultsConfig,
    /// Where what comes is kept as it came.
    pub record: RecordConfig,
    /// What is made of what was recorded.
    pub export: ExportConfig,
    /// How much the daemon may take.
    pub limits: LimitsConfig,
    /// The virtual detectors.
    pub virtual_detectors: RingsConfig,
    /// The microscope, with the keys of an optics file.
    pub optics: OpticsTable,
}

/// `[stream]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamConfig {
    /// `HOST:PORT` of the detector's PUSH socket.
    pub address: Option<String>,
    /// `HOST:PORT` of the detector's SIMPLON interface.
    pub api: Option<String>,
    /// Which thresholds are acquired: `first`, `all`, a number or the name of a channel.
    #[serde(deserialize_with = "threshold", serialize_with = "as_text")]
    pub threshold: Option<Threshold>,
    /// Seconds of silence after which a series is over.
    pub silence_s: Option<f64>,
    /// Memory between the wire and the rest, MiB.
    pub ring_mib: Option<u32>,
}

/// A number, or a text.
fn threshold<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Threshold>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected first, all, the number of a threshold or the name of a channel")]
    enum Said {
        Number(u8),
        Text(String),
    }
    let text = match Said::deserialize(deserializer)? {
        Said::Number(number) => number.to_string(),
        Said::Text(text) => text,
    };
    text.parse().map(Some).map_err(Error::custom)
}

fn as_text<S: Serializer>(threshold: &Option<Threshold>, serializer: S) -> Result<S::Ok, S::Error> {
    match threshold {
        Some(threshold) => serializer.collect_str(threshold),
        None => serializer.serialize_none(),
    }
}

/// `[page]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PageConfig {
    /// `ADDR:PORT`, or `NAME:PORT` of this machine.
    #[serde(deserialize_with = "listen")]
    pub listen: Option<SocketAddr>,
    /// File with the token.
    pub token_file: Option<PathBuf>,
}

fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    listen_address(&String::deserialize(deserializer)?).map(Some).map_err(Error::custom)
}

/// `[results]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResultsConfig {
    /// Folder that gets a folder for every series.
    pub out: Option<PathBuf>,
}

/// `[record]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordConfig {
    /// Folder of the log; nothing is recorded where none is named.
    pub folder: Option<PathBuf>,
    /// Most the log may take, GB (10^9 bytes).
    pub most_gb: Option<f64>,
    /// Whether the oldest segments are removed to make room; otherwise a full log is said and the live results go on.
    pub remove_oldest: Option<bool>,
}

/// `[export]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExportConfig {
    /// Whether every series becomes a DECTRIS file set once it is over and durable.
    pub on_completion: Option<bool>,
    /// Folder that gets a folder for every set; `exports` among the results where none is named.
    pub folder: Option<PathBuf>,
}

/// `[limits]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Most memory the encoded counts may take, GB (10^9 bytes).
    pub memory_gb: Option<f64>,
    /// Worker threads.
    pub threads: Option<usize>,
    /// What computes phases: `auto`, `cpu`, `cuda` or `cuda:NUMBER`.
    pub device: Option<DeviceChoice>,
}

/// `[virtual_detectors]`: `IN,OUT` in units of the bright-field radius.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RingsConfig {
    /// Bright field.
    #[serde(deserialize_with = "ring", serialize_with = "ring_as_text")]
    pub bf_ring: Option<Ring>,
    /// Annular dark field.
    #[serde(deserialize_with = "ring", serialize_with = "ring_as_text")]
    pub adf_ring: Option<Ring>,
    /// Dark field.
    #[serde(deserialize_with = "ring", serialize_with = "ring_as_text")]
    pub df_ring: Option<Ring>,
}

fn ring<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ring>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(Error::custom)
}

fn ring_as_text<S: Serializer>(ring: &Option<Ring>, serializer: S) -> Result<S::Ok, S::Error> {
    match ring {
        Some(Ring { inner, outer }) => serializer.collect_str(&format_args!("{inner},{outer}")),
        None => serializer.serialize_none(),
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is no TOML, names something unknown, or a value makes no sense; the text names the file, the line
    /// and the key.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let refused = |what: String| anyhow!("{}: {what}", path.display());
        let bytes = ingest::read_small_file(path, MOST_BYTES).map_err(|error| refused(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| refused(format!("is no text: {error}")))?;
        let config: Self = toml::from_str(&text).map_err(|error| refused(in_words(&error.to_string())))?;
        let optics = config.optics_values().map_err(|what| refused(format!("[optics]: {what}")))?;
        check_values(&optics).map_err(|error| refused(format!("[optics] {}", in_keys(&error))))?;
        config.check().map_err(refused)?;
        Ok(config)
    }

    /// Refuses numbers outside their ranges, and addresses that are none.
    fn check(&self) -> Result<(), String> {
        let numbers = [
            ("[stream] silence_s", self.stream.silence_s, SILENCES_S, "s"),
            ("[stream] ring_mib", self.stream.ring_mib.map(f64::from), RINGS_MIB, "MiB"),
            ("[record] most_gb", self.record.most_gb, SIZES_GB, "GB"),
            ("[limits] memory_gb", self.limits.memory_gb, SIZES_GB, "GB"),
            (
                "[limits] threads",
                self.limits.threads.map(|threads| threads as f64),
                [1.0, MOST_THREADS as f64],
                "",
            ),
        ];
        let said = |what: String| format!("[stream] {what}");
        self.stream.address.as_deref().map(stream_address).transpose().map_err(said)?;
        self.stream.api.as_deref().map(check_api).transpose().map_err(said)?;
        for (name, value, range, unit) in numbers {
            value.map(|value| within(name, value, range, unit)).transpose()?;
        }
        Ok(())
    }

    /// The same with every default that is a fixed value, but for those of the microscope: what is said of it is stronger than
    /// what files of the acquisition say.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        self.stream.threshold.get_or_insert_default();
        self.stream.silence_s.get_or_insert(DEFAULT_SILENCE_S);
        self.stream.ring_mib.get_or_insert(DEFAULT_RING_MIB);
        self.page.listen.get_or_insert(DEFAULT_LISTEN);
        self.record.remove_oldest.get_or_insert(false);
        self.export.on_completion.get_or_insert(false);
        let (usual, rings) = (Rings::default(), &mut self.virtual_detectors);
        rings.bf_ring.get_or_insert(usual.bf);
        rings.adf_ring.get_or_insert(usual.adf);
        rings.df_ring.get_or_insert(usual.df);
        self
    }

    /// What it says of the microscope.
    ///
    /// # Errors
    /// A shape or an aberration that is none.
    pub fn optics_values(&self) -> Result<OpticsValues, String> {
        self.optics.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sideband.toml");
        std::fs::write(&path, text).unwrap();
        Config::read(&path).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_full_file_is_read_and_an_empty_one_says_nothing() {
        let config = read(
            r#"
            [stream]
            address = "detector:31001"
            silence_s = 5
            [page]
            listen = "127.0.0.1:9000"
            [results]
            out = "/data/results"
            [record]
            folder = "/data/log"
            most_gb = 500
            [optics]
            voltage_kv = 300
            scan_step_nm = [0.016, 0.017]
            [optics.aberrations]
            C12 = [1.8, 11.5]
            "#,
        )
        .unwrap();
        assert_eq!(config.stream.address.as_deref(), Some("detector:31001"));
        assert_eq!(config.page.listen.unwrap().port(), 9000);
        let optics = config.optics_values().unwrap();
        assert_eq!((optics.voltage.unwrap().0, optics.aberrations.len()), (300.0, 1));
        assert!(read("").unwrap().stream.address.is_none());
    }

    #[test]
    fn what_is_not_known_or_makes_no_sense_is_refused_by_name() {
        for (text, named) in [
            ("[stream]\nadress = \"x\"", "adress"),
            ("[streams]\n", "streams"),
            ("[page]\nlisten = \"here\"", "listen"),
            ("[optics]\nscan_shape = \"64\"", "[optics]"),
            ("[optics.aberrations]\nC99 = 1.0", "C99"),
            ("[record]\nmost_gb = \"much\"", "most_gb"),
            ("[stream]\nsilence_s = -1", "silence_s: got -1, expected 0.1 to 86400 s"),
            ("[limits]\nthreads = 0", "threads"),
            ("[optics]\nvoltage_kv = 3", "[optics] voltage_kv: got 3 kV, expected 10 to 1000 kV"),
            ("[optics]\nscan_step_nm = 16e-12", "[optics] scan_step_nm: got"),
            ("[export]\non_completion = \"yes\"", "on_completion"),
            ("[stream]\naddress = \"detector\"", "[stream] got the stream 'detector', expected HOST:PORT"),
            ("[stream]\naddress = \"detector:0\"", "'detector:0'"),
            ("[stream]\naddress = \":31001\"", "':31001'"),
            ("[stream]\naddress = \"http://detector:31001\"", "expected HOST:PORT"),
            ("[stream]\napi = \"http://\"", "[stream] got the api 'http://', expected HOST or HOST:PORT"),
            ("[stream]\napi = \"detector:port\"", "'detector:port'"),
            ("[virtual_detectors]\nbf_ring = \"1\"", "ring '1'"),
            ("[virtual_detectors]\nbf_ring = \"1\"", "line 2"),
            ("[virtual_detectors]\nbf_ring = \"1\"", "bf_ring = \"1\""),
            ("[record]\nmost_gb = \"much\"", "expected a number without quotes and unit"),
            ("[stream]\nring_mib = 1.5", "expected a whole number"),
            ("[limits]\nthreads = -1", "expected a whole number"),
            ("[export]\non_completion = \"yes\"", "expected true or false"),
            ("[page]\nlisten = \"here\"", "'here', expected ADDR:PORT"),
            ("[page]\nlisten = \"no such name:80\"", "expected ADDR:PORT, such as 127.0.0.1:8040"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(named) && why.contains("sideband.toml"), "{why}");
        }
    }

    #[test]
    fn the_page_may_be_at_a_name_of_this_machine() {
        let listen = read("[page]\nlisten = \"localhost:8041\"").unwrap().page.listen.unwrap();
        assert!(listen.ip().is_loopback() && listen.port() == 8041, "{listen}");
        assert_eq!(listen_address("[::1]:0"), Ok("[::1]:0".parse().unwrap()));
    }
}
