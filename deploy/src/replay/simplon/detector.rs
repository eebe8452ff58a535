//! The detector behind the REST interface: values, state, commands.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crossbeam_channel::Sender;
use ingest::stream::compose::Version;
use serde_json::{Map, Value, json};

use super::parameters::{Kind, PARAMETERS, Parameter, Section, find};
use crate::replay::monitor::Monitor;
use crate::replay::sender::Order;
use crate::replay::source::Source;
use crate::replay::{ReplaySettings, SeriesSource};
use crate::report::utc;
use crate::simplon::as_darray;

/// What a detector is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Switched on, not initialised.
    Na,
    /// Waiting to be armed.
    Idle,
    /// Armed, waiting for a trigger.
    Ready,
    /// Taking images.
    Acquire,
}

impl State {
    /// As SIMPLON names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Na => "na",
            Self::Idle => "idle",
            Self::Ready => "ready",
            Self::Acquire => "acquire",
        }
    }

    /// Whether it is between arm and end.
    pub fn is_armed(self) -> bool {
        matches!(self, Self::Ready | Self::Acquire)
    }
}

/// What the sender and the REST interface both know.
#[derive(Debug, Default)]
pub struct Shared {
    state: AtomicU8,
    /// Messages of the present or last series that nobody took.
    pub dropped: AtomicU64,
    /// What of the series can be looked at.
    pub monitor: Monitor,
    series_over: AtomicU64,
    last_series: AtomicU64,
}

impl Shared {
    /// What the detector is doing.
    pub fn state(&self) -> State {
        match self.state.load(SeqCst) {
            0 => State::Na,
            1 => State::Idle,
            2 => State::Ready,
            _ => State::Acquire,
        }
    }

    /// Series that are over.
    pub fn series_over(&self) -> u64 {
        self.series_over.load(SeqCst)
    }

    /// Counts a series that is over.
    pub fn end_series(&self) {
        self.series_over.fetch_add(1, SeqCst);
    }

    /// The number of the next series.
    pub fn next_series(&self) -> u64 {
        self.last_series.fetch_add(1, SeqCst) + 1
    }

    /// Notes what the detector is doing.
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, SeqCst);
    }
}

/// Why something is not done, with the code of the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Refused {
    /// HTTP status.
    pub code: u16,
    /// In words.
    pub what: String,
}

impl Refused {
    pub(super) fn new(code: u16, what: impl Into<String>) -> Self {
        Self { code, what: what.into() }
    }

    pub(super) fn unknown(module: &str, name: &str) -> Self {
        Self::new(404, format!("{module}: there is no {name}"))
    }
}

type Key = (&'static str, &'static str);

/// The detector.
#[derive(Debug)]
pub struct Detector {
    source: Arc<SeriesSource>,
    shared: Arc<Shared>,
    orders: Sender<Order>,
    pulse_delay: Duration,
    /// The pixel mask of the source as it is answered; none where the source has none.
    pixel_mask: Option<Value>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Values of the configurations.
    values: BTreeMap<Key, Value>,
    /// As they are after `initialize`.
    initial: BTreeMap<Key, Value>,
    last_unique_id: String,
}

impl Detector {
    /// A detector whose configuration is what is said of a source. Its first series has the number of a recorded one.
    pub fn new(
        set: &Source,
        source: Arc<SeriesSource>,
        settings: &ReplaySettings,
        shared: Arc<Shared>,
        orders: Sender<Order>,
    ) -> Self {
        let mut values = BTreeMap::new();
        let is_setting = |row: &&Parameter| row.section == Section::Config && row.kind != Kind::Array;
        for row in PARAMETERS.iter().filter(is_setting) {
            values.insert((row.module, row.name), row.kind.initial());
        }
        for (name, value) in configuration(set) {
            values.insert(("detector", name), value);
        }
        let format = match settings.version {
            Version::V1 => "legacy",
            Version::V2 => "cbor",
        };
        values.insert(("stream", "format"), json!(format));
        let inner = Inner { initial: values.clone(), values, last_unique_id: String::new() };
        shared.set_state(State::Idle);
        if let Some(recording) = &set.recording {
            shared.last_series.store(recording.key.id.saturating_sub(1), SeqCst);
        }
        inner.configure(&shared.monitor);
        let pulse_delay = settings.pulse_delay;
        let mask = set.metadata.pixel_mask.as_ref();
        let pixel_mask = mask.map(|(shape, mask)| as_darray(*shape, mask));
        Self { source, shared, orders, pulse_delay, pixel_mask, inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a GET of a parameter is answered with.
    ///
    /// # Errors
    /// 404
    pub fn get(
        &self,
        module: &str,
        section: Section,
        name: &str,
        files: &[String],
    ) -> Result<Value, Refused> {
        let row = find(module, section, name).ok_or_else(|| Refused::unknown(module, name))?;
        let value = match section {
            _ if row.kind == Kind::Array => {
                let nothing = || Refused::new(404, format!("{name}: the source of the replay has none"));
                Some(self.pixel_mask.clone().ok_or_else(nothing)?)
            }
            Section::Config => self.inner().values.get(&(row.module, row.name)).cloned(),
            Section::Status => self.status(row.module, row.name, files),
        };
        Ok(row.envelope(&value.unwrap_or_else(|| row.kind.initial())))
    }

    /// What is measured rather than set.
    fn status(&self, module: &str, name: &str, files: &[String]) -> Option<Value> {
        let state = self.shared.state();
        let is_enabled = |module| self.inner().values.get(&(module, "mode")) == Some(&json!("enabled"));
        Some(match (module, name) {
            ("detector", "state") => json!(state.name()),
            ("detector" | "system", "time") => json!(utc(SystemTime::now())),
            ("detector", "series_unique_id") => json!(self.inner().last_unique_id),
            ("stream" | "filewriter", "state") => json!(match state {
                _ if !is_enabled(if module == "stream" { "stream" } else { "filewriter" }) => "disabled",
                State::Acquire => "acquire",
                _ => "ready",
            }),
            ("stream", "dropped") => json!(self.shared.dropped.load(SeqCst)),
            ("filewriter", "files") => json!(files),
            ("monitor", "buffer_free") => json!(self.shared.monitor.free_and_dropped().0),
            ("monitor", "dropped") => json!(self.shared.monitor.free_and_dropped().1),
            ("monitor", "state") => json!(match self.shared.monitor.free_and_dropped() {
                (0, 1..) => "overflow",
                _ => "normal",
            }),
            _ => return None,
        })
    }

    /// Sets a parameter. Returns the names of all that have changed with it.
    ///
    /// # Errors
    /// 404; 403 while armed or where it cannot be set; 400 for a value that it cannot have.
    pub fn set(&self, module: &str, name: &str, value: &Value) -> Result<Vec<&'static str>, Refused> {
        let row = find(module, Section::Config, name).ok_or_else(|| Refused::unknown(module, name))?;
        if !row.is_settable {
            return Err(Refused::new(403, format!("{name} can be read only")));
        }
        let mut inner = self.inner();
        let state = self.shared.state();
        if state.is_armed() {
            return Err(Refused::new(
                403,
                format!("{name} can be read only while the state is {}", state.name()),
            ));
        }
        let value = row.check(value).map_err(|what| Refused::new(400, what))?;
        if (module, name) == ("stream", "format") {
            let version = version_of(&value);
            self.source.check(version).map_err(|error| Refused::new(400, error.to_string()))?;
            self.order(Order::Version(version))?;
        }
        inner.values.insert((row.module, row.name), value);
        inner.settle(row.name);
        inner.configure(&self.shared.monitor);
        let mut changed = vec![row.name];
        changed.extend(row.changes);
        changed.sort_unstable();
        Ok(changed)
    }

    fn order(&self, order: Order) -> Result<(), Refused> {
        self.orders.try_send(order).map_err(|_| Refused::new(503, "the stream does not answer"))
    }

    /// Carries out a command. Returns what it is answered with; of most, nothing.
    ///
    /// # Errors
    /// 404; 400 in a state in which it cannot be done.
    pub fn command(&self, module: &str, name: &str) -> Result<Option<Value>, Refused> {
        let mut inner = self.inner();
        let state = self.shared.state();
        let not_now = |expected: &str| {
            let what = format!("{name}: the state is {}, expected {expected}", state.name());
            Err(Refused::new(400, what))
        };
        let sequence = || Ok(Some(json!({ "sequence id": self.shared.last_series.load(SeqCst) })));
        match (module, name) {
            ("detector", "initialize") | ("system", "restart") => {
                if state.is_armed() {
                    self.order(Order::Abort)?;
                }
                inner.values = inner.initial.clone();
                inner.configure(&self.shared.monitor);
                self.order(Order::Version(inner.version()))?;
                self.shared.set_state(if module == "system" { State::Na } else { State::Idle });
                Ok(None)
            }
            ("detector", "arm") => {
                if state != State::Idle {
                    return not_now("idle");
                }
                self.arm(&mut inner, self.pulse_delay)?;
                sequence()
            }
            ("detector", "trigger") => match state.is_armed() {
                true => self.order(Order::Trigger).map(|()| None),
                false => not_now("ready"),
            },
            ("detector", "disarm" | "cancel") => {
                self.order(Order::Finish)?;
                sequence()
            }
            ("detector", "abort") => {
                self.order(Order::Abort)?;
                sequence()
            }
            ("stream" | "filewriter" | "monitor", "initialize") => {
                let initial: Vec<_> =
                    inner.initial.iter().map(|(key, value)| (*key, value.clone())).collect();
                inner.values.extend(initial.into_iter().filter(|(key, _)| key.0 == module));
                if module == "monitor" {
                    self.shared.monitor.clear();
                    inner.configure(&self.shared.monitor);
                }
                Ok(None)
            }
            ("monitor", "clear") => {
                self.shared.monitor.clear();
                Ok(None)
            }
            ("detector", "status_update" | "hv_reset") | ("filewriter", "clear") => Ok(None),
            _ => Err(Refused::unknown(module, name)),
        }
    }

    /// The images that the monitor has.
    pub fn monitor(&self) -> &Monitor {
        &self.shared.monitor
    }

    /// Arms without asking about the state: for a replay that arms itself.
    ///
    /// # Errors
    /// The sender is gone.
    pub fn arm_now(&self) -> Result<(), Refused> {
        self.arm(&mut self.inner(), Duration::ZERO)
    }

    fn arm(&self, inner: &mut Inner, delay: Duration) -> Result<(), Refused> {
        let id = self.shared.next_series();
        let of_detector = |((module, _), _): &(&Key, &Value)| *module == "detector";
        let is_untouched =
            inner.values.iter().filter(of_detector).eq(inner.initial.iter().filter(of_detector));
        let (detector, stream) = (inner.module("detector"), inner.module("stream"));
        let series = self.source.series(id, inner.version(), &detector, &stream, is_untouched);
        let mut series = series.map_err(|error| Refused::new(400, error.to_string()))?;
        series.delay = delay;
        inner.last_unique_id.clone_from(&series.facts.unique_id);
        self.shared.dropped.store(0, SeqCst);
        let before = self.shared.state();
        self.shared.set_state(State::Ready);
        self.order(Order::Arm(Box::new(series))).inspect_err(|_| self.shared.set_state(before))
    }

    /// Whether it is between arm and end.
    pub fn is_armed(&self) -> bool {
        self.shared.state().is_armed()
    }
}

fn version_of(format: &Value) -> Version {
    if format == "legacy" { Version::V1 } else { Version::V2 }
}

impl Inner {
    fn version(&self) -> Version {
        self.values.get(&("stream", "format")).map_or(Version::V2, version_of)
    }

    /// Tells the monitor how it is set.
    fn configure(&self, monitor: &Monitor) {
        let value = |name| self.values.get(&("monitor", name));
        let size = value("buffer_size").and_then(Value::as_u64).unwrap_or(1);
        monitor.configure(
            value("mode") == Some(&json!("enabled")),
            size,
            value("discard_new") == Some(&json!(true)),
        );
    }

    /// The configuration of a module.
    fn module(&self, module: &str) -> Map<String, Value> {
        let of = self.values.iter().filter(|((of, _), _)| *of == module);
        of.map(|((_, name), value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn number(&self, name: &'static str) -> f64 {
        self.values.get(&("detector", name)).and_then(Value::as_f64).unwrap_or(0.0)
    }

    fn put(&mut self, name: &'static str, value: Value) {
        self.values.insert(("detector", name), value);
    }

    /// Lets what depends on a parameter follow.
    fn settle(&mut self, name: &str) {
        let readout = self.number("detector_readout_time");
        match name {
            "count_time" => self.put("frame_time", json!(self.number("count_time") + readout)),
            "roi_mode" => {
                for name in ["count_time", "frame_time"] {
                    if let Some(value) = self.initial.get(&("detector", name)).cloned() {
                        self.put(name, value);
                    }
                }
            }
            // a frame is not shorter than it counts
            "frame_time" => {
                let least = self.number("count_time") + readout;
                self.put("frame_time", json!(self.number("frame_time").max(least)));
            }
            "photon_energy" => self.put("incident_energy", json!(self.number("photon_energy"))),
            "incident_energy" => self.put("photon_energy", json!(self.number("incident_energy"))),
            _ => {}
        }
        if matches!(name, "count_time" | "roi_mode" | "frame_time") {
            let (count_time, frame_time) = (self.number("count_time"), self.number("frame_time"));
            self.put("frame_count_time", json!(count_time));
            self.put("frame_period", json!(frame_time));
            // 83.9 million counts a second and pixel, as in a real ARINA's master
            let most = 2f64.powf(self.number("bit_depth_image")) - 1.0;
            let cutoff = (83.9e6 * count_time).round().clamp(1.0, most.max(1.0));
            self.put("countrate_correction_count_cutoff", json!(cutoff as u64));
        }
        if matches!(name, "photon_energy" | "incident_energy") {
            self.put("threshold_energy", json!(self.number("photon_energy") / 2.0));
        }
    }
}

/// The configuration of the detector that wrote a set.
fn configuration(set: &Source) -> Vec<(&'static str, Value)> {
    let said = &set.metadata;
    let mut values = vec![
        ("x_pixels_in_detector", json!(set.detector.cols)),
        ("y_pixels_in_detector", json!(set.detector.rows)),
        ("bit_depth_image", json!(8 * set.count_type.bytes())),
        ("ntrigger", json!(set.frames_expected)),
    ];
    if let (Some(images), Some(triggers)) = (said.nimages, said.ntrigger)
        && images.checked_mul(triggers) == Some(set.frames_expected)
    {
        values.extend([("nimages", json!(images)), ("ntrigger", json!(triggers))]);
    }
    let mut add = |name, value: Option<Value>| values.extend(value.map(|value| (name, value)));
    let number = |number: Option<f64>| number.map(|number| json!(number));
    let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
    for name in ["photon_energy", "incident_energy"] {
        add(name, number(said.incident_energy_ev));
    }
    add("count_time", number(said.count_time_secs));
    add("frame_count_time", number(said.count_time_secs));
    add("frame_time", number(said.frame_time_secs));
    add("frame_period", number(said.frame_time_secs));
    add("threshold_energy", number(said.threshold_energy_ev));
    add("beam_center_y", number(said.beam_centre.map(|[row, _]| row.0)));
    add("beam_center_x", number(said.beam_centre.map(|[_, col]| col.0)));
    add("x_pixel_size", number(said.pixel_metres));
    add("y_pixel_size", number(said.pixel_metres));
    add("countrate_correction_count_cutoff", said.saturation_value.map(|value| json!(value)));
    add("number_of_excluded_pixels", said.masked_pixels().map(|pixels| json!(pixels)));
    add("pixel_mask_applied", said.pixel_mask_applied.map(|applied| json!(applied)));
    add("description", text(&said.description));
    add("detector_number", text(&said.serial));
    add("sensor_material", text(&said.sensor_material));
    add("data_collection_date", text(&said.date));
    let mode = said.trigger_mode.as_deref();
    add(
        "trigger_mode",
        mode.filter(|mode| ["ints", "inte", "exts", "exte"].contains(mode)).map(|mode| json!(mode)),
    );
    if let Some(voltage) = said.voltage() {
        let wavelength = kernels::types::electron_wavelength(voltage).0 * 1e10;
        add("wavelength", Some(json!(wavelength)));
    }
    values
}
