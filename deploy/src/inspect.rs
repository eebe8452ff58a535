//! What is in a file set, what is missing, and what a run would ask for: for a person, and for machines.

mod gather;

use std::path::PathBuf;

use kernels::types::Milliradians;
use serde::Serialize;
use ssb::scan_warnings;

use crate::optics::{Missing, OpticsError, ResolvedOptics, surplus};
use crate::report::{MissingFrames, as_text, told};

pub use gather::recorded_sources;

/// The findings of an inspection.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// The master file.
    #[serde(serialize_with = "as_text")]
    pub master: PathBuf,
    /// The detector.
    pub detector: Detector,
    /// Time of a frame.
    pub exposure: Exposure,
    /// Energy of the electrons the file states \[keV\].
    pub energy_kev: Option<f64>,
    /// Beam centre the file states (row, col) \[px\]; a run measures its own.
    pub beam_centre_px: Option<[f64; 2]>,
    /// Triggers and images a trigger.
    pub triggers: Triggers,
    /// Detector pixels the mask names; none when there is no mask.
    pub masked_pixels: Option<u64>,
    /// Whether the detector has replaced masked pixels by the largest count.
    pub pixel_mask_applied: Option<bool>,
    /// Frames the acquisition should have.
    pub frames_expected: u64,
    /// Frames whose bytes are there.
    pub frames_present: u64,
    /// Compressed bytes of the frames that are there.
    pub compressed_bytes: u64,
    /// What is not there, and why.
    pub gaps: Vec<MissingFrames>,
    /// Data files in the order of their frames.
    pub data_files: Vec<DataFile>,
    /// Metadata files beside the set.
    pub side_cars: Vec<SideCar>,
    /// Whether a run with the same flags has all it needs.
    pub run: Verdict,
}

/// The detector.
#[derive(Clone, Debug, Serialize)]
pub struct Detector {
    /// Its own description.
    pub description: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// (rows, cols).
    pub shape: [usize; 2],
    /// Type of a count.
    pub count_type: String,
    /// How frames are compressed.
    pub encoding: String,
    /// Width of a pixel \[um\].
    pub pixel_um: Option<f64>,
}

/// Time of a frame.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Exposure {
    /// Counting time of a frame \[s\].
    pub count_time_secs: Option<f64>,
    /// From frame to frame \[s\].
    pub frame_time_secs: Option<f64>,
}

/// Triggers of the acquisition.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Triggers {
    /// Number of triggers.
    pub triggers: Option<u64>,
    /// Images a trigger.
    pub images_a_trigger: Option<u64>,
}

/// One data file.
#[derive(Clone, Debug, Serialize)]
pub struct DataFile {
    /// The file.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// First frame, counted from 0.
    pub first: u64,
    /// Frames it should hold.
    pub frames: u64,
    /// Frames whose bytes are there.
    pub frames_present: u64,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// One metadata file beside the set.
#[derive(Clone, Debug, Serialize)]
pub struct SideCar {
    /// The file.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// What it says, `name = value unit`.
    pub says: Vec<String>,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// Whether a run has all it needs; what the counts hold is not known.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// True when every parameter is known and at least one frame is there: nothing is missing.
    pub would_succeed: bool,
    /// Flags that are needed, with what each is.
    pub needs: Vec<Need>,
    /// What stands in the way beside missing flags.
    pub problem: Option<String>,
    /// The values a run would use, when all are known.
    pub values: Vec<UsedValue>,
    /// What a run would warn of, as far as it is known before a count is read.
    pub warnings: Vec<String>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// A value a run would use.
#[derive(Clone, Debug, Serialize)]
pub struct UsedValue {
    /// Its key in `result.json`.
    pub key: String,
    /// The value with its unit.
    pub value: String,
    /// Where it comes from; empty for what a run measures.
    pub from: String,
}

/// A flag that is needed.
#[derive(Clone, Debug, Serialize)]
pub struct Need {
    /// The flag and its value, `--rotation-deg DEG`.
    pub flag: String,
    /// What it is and where it could come from.
    pub what: String,
}

impl Verdict {
    /// Judges by the resolution of the optics, the frames there should be and those that are there.
    pub fn of(
        resolution: &Result<ResolvedOptics, OpticsError>,
        frames_expected: u64,
        frames_present: u64,
    ) -> Self {
        let empty = (frames_present == 0).then(|| "no frame is there".to_owned());
        let needs = |missing: &[Missing]| {
            missing.iter().map(|one| Need { flag: one.usage(), what: one.explanation() }).collect()
        };
        let without = |needs: Vec<Need>, problem: Option<String>| Self {
            would_succeed: false,
            needs,
            problem,
            values: vec![],
            warnings: vec![],
            notes: vec![],
        };
        match resolution {
            Ok(optics) => {
                let used = told(optics).into_iter().map(|[key, value, from]| UsedValue { key, value, from });
                // Of the detector's sampling these do not depend.
                let settled = optics.optics_at([Milliradians(1.0); 2]);
                let warnings = settled.as_ref().map(scan_warnings).unwrap_or_default();
                let surplus = surplus(&optics.geometry, frames_expected);
                Self {
                    would_succeed: empty.is_none(),
                    needs: vec![],
                    problem: empty,
                    values: used.collect(),
                    warnings: surplus.into_iter().chain(warnings.iter().map(ToString::to_string)).collect(),
                    notes: optics.notes.clone(),
                }
            }
            Err(OpticsError::Missing(missing)) => without(needs(missing), empty),
            Err(OpticsError::MissingAndWrongShape { missing, wrong }) => {
                without(needs(missing), Some(wrong.to_string()))
            }
            Err(other) => without(vec![], Some(other.to_string())),
        }
    }
}

impl Inspection {
    /// The findings as a microscopist reads them.
    pub fn text(&self) -> String {
        let mut page = Page::default();
        let missing = self.frames_expected.saturating_sub(self.frames_present);
        let [rows, cols] = self.detector.shape;
        page.plain(format!(
            "{}: {} frames of {rows} x {cols} pixels, {}",
            self.master.display(),
            self.frames_expected,
            match missing {
                0 => "all there".to_owned(),
                some => format!("{some} MISSING"),
            }
        ));
        page.plain(String::new());
        page.entry("detector", &self.detector_text());
        page.entry("exposure", &self.exposure_text());
        page.entry("energy", &self.energy_kev.map_or("not stated".to_owned(), |kev| format!("{kev} keV")));
        page.entry(
            "beam centre",
            &self.beam_centre_px.map_or("not stated; a run measures it".to_owned(), |[row, col]| {
                let short = |px: f64| (px * 100.0).round() / 100.0;
                let (row, col) = (short(row), short(col));
                format!("row {row}, col {col} px, as the file states; a run measures its own")
            }),
        );
        page.entry("triggers", &self.triggers_text());
        page.entry("pixel mask", &self.mask_text());
        page.entry("data files", &self.files_text());
        self.losses_text(&mut page);
        self.side_cars_text(&mut page);
        page.plain(String::new());
        self.verdict_text(&mut page);
        page.0.join("\n")
    }

    fn detector_text(&self) -> String {
        let detector = &self.detector;
        let mut parts = vec![detector.description.clone().unwrap_or("description not stated".to_owned())];
        parts.extend(detector.serial.as_ref().map(|serial| format!("serial {serial}")));
        parts.extend(detector.pixel_um.map(|um| format!("{um:.0} um pixels")));
        parts.push(format!("{} counts, {}", detector.count_type, detector.encoding));
        parts.join(", ")
    }

    fn exposure_text(&self) -> String {
        let micros = |secs: f64| format!("{:.1} us", secs * 1e6);
        let mut parts = Vec::new();
        if let Some(secs) = self.exposure.frame_time_secs.filter(|secs| *secs > 0.0) {
            let all = secs * self.frames_expected as f64;
            parts.push(format!("{} a frame ({:.0} frames/s), {all:.3} s in all", micros(secs), 1.0 / secs));
        }
        parts.extend(self.exposure.count_time_secs.map(|secs| format!("counting {}", micros(secs))));
        if parts.is_empty() { "not stated".to_owned() } else { parts.join(", ") }
    }

    fn triggers_text(&self) -> String {
        match (self.triggers.triggers, self.triggers.images_a_trigger) {
            (Some(triggers), Some(images)) if triggers > 1 && images > 1 => {
                format!("{triggers} triggers x {images} images: taken as scan lines x positions a line")
            }
            (Some(triggers), Some(images)) => {
                format!("{triggers} triggers x {images} images: says nothing of the scan's shape")
            }
            _ => "not stated".to_owned(),
        }
    }

    fn mask_text(&self) -> String {
        match (self.masked_pixels, self.pixel_mask_applied) {
            (None, _) => "none in the file".to_owned(),
            (Some(pixels), Some(true)) => {
                format!(
                    "{pixels} bad pixels listed; the detector has replaced their counts by the largest, a run leaves them out"
                )
            }
            (Some(0), _) => "no bad pixel listed".to_owned(),
            (Some(pixels), _) => {
                let bad = if pixels == 1 { "bad pixel" } else { "bad pixels" };
                format!("{pixels} {bad} listed; their counts stay in the frames, a run leaves them out")
            }
        }
    }

    fn files_text(&self) -> String {
        let bad = self.data_files.iter().filter(|file| file.problem.is_some()).count();
        let all = self.data_files.len();
        let size = format!("{:.1} MB of compressed frames", self.compressed_bytes as f64 / 1e6);
        match bad {
            0 => format!("{all}, all readable, {size}"),
            some => format!("{all}, of which {some} cannot be used in full, {size}"),
        }
    }

    /// Files that cannot be used in full, then gaps that no file accounts for.
    fn losses_text(&self, page: &mut Page) {
        let frames =
            |first: u64, count: u64| format!("frames {first} to {}", first + count.saturating_sub(1));
        for file in &self.data_files {
            if let Some(problem) = &file.problem {
                page.entry(
                    "",
                    &format!("{}: {}: {problem}", frames(file.first, file.frames), file.path.display()),
                );
            }
        }
        let accounted = |first: u64| {
            let mut bad = self.data_files.iter().filter(|file| file.problem.is_some());
            bad.any(|file| (file.first..file.first.saturating_add(file.frames)).contains(&first))
        };
        for gap in self.gaps.iter().filter(|gap| !accounted(gap.first)) {
            page.entry("", &format!("{}: {}: {}", frames(gap.first, gap.count), gap.kind, gap.reason));
        }
    }

    fn side_cars_text(&self, page: &mut Page) {
        if self.side_cars.is_empty() {
            page.entry("side-car", "none beside the master");
        }
        for side_car in &self.side_cars {
            let says = match (&side_car.problem, side_car.says.is_empty()) {
                (Some(problem), _) => problem.clone(),
                (None, true) => "says nothing of use".to_owned(),
                (None, false) => side_car.says.join(", "),
            };
            page.entry("side-car", &format!("{}: {says}", side_car.path.display()));
        }
    }

    fn verdict_text(&self, page: &mut Page) {
        let verdict = &self.run;
        if verdict.would_succeed {
            let partial = self.frames_present < self.frames_expected;
            page.plain(match partial {
                false => "nothing is missing for a run; the counts were not looked at".to_owned(),
                true => "nothing but frames is missing for a run, which would be named partial; the counts were not looked at"
                    .to_owned(),
            });
            let width = |of: fn(&UsedValue) -> &str| {
                verdict.values.iter().map(|used| of(used).len()).max().unwrap_or(0)
            };
            let (key, value) = (width(|used| &used.key), width(|used| &used.value));
            for used in &verdict.values {
                let line = format!("  {:key$}  {:value$}  {}", used.key, used.value, used.from);
                page.plain(line.trim_end().to_owned());
            }
        } else {
            page.plain("a run would NOT succeed yet".to_owned());
        }
        if let Some(problem) = &verdict.problem {
            page.plain(format!("  {problem}"));
        }
        if !verdict.needs.is_empty() {
            page.plain("  it needs, as flags or in a TOML file given with --optics:".to_owned());
            let width = verdict.needs.iter().map(|need| need.flag.len()).max().unwrap_or(0);
            for need in &verdict.needs {
                page.plain(format!("  {:width$}  {}", need.flag, need.what));
            }
            page.plain(
                "  and the probe's aberrations where they are known, --aberration NAME=NM[,DEG] (C10 is minus the \
                 defocus); those not given are taken as 0"
                    .to_owned(),
            );
        }
        for warning in &verdict.warnings {
            page.plain(format!("  warning: {warning}"));
        }
        for note in &verdict.notes {
            page.plain(format!("  note: {note}"));
        }
    }
}

/// Lines of a two-column text.
#[derive(Default)]
struct Page(Vec<String>);

impl Page {
    fn plain(&mut self, line: String) {
        self.0.push(line);
    }

    fn entry(&mut self, name: &str, text: &str) {
        self.0.push(format!("{name:12}{text}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optics::{Acquisition, OpticsRequest, resolve};

    fn missing(first: u64, reason: &str) -> MissingFrames {
        MissingFrames { first, count: 100, kind: "unreadable", reason: reason.to_owned() }
    }

    fn inspection() -> Inspection {
        let asked = resolve(&OpticsRequest::default(), &[], Acquisition { frames_expected: 4096 });
        Inspection {
            master: "set_master.h5".into(),
            detector: Detector {
                description: Some("Dectris ARINA CZT".to_owned()),
                serial: None,
                shape: [192, 192],
                count_type: "u16".to_owned(),
                encoding: "bslz4".to_owned(),
                pixel_um: Some(100.0),
            },
            exposure: Exposure { count_time_secs: Some(9.9e-6), frame_time_secs: Some(1e-5) },
            energy_kev: Some(300.0),
            beam_centre_px: Some([95.300_003_051, 96.849_998]),
            triggers: Triggers { triggers: Some(4096), images_a_trigger: Some(1) },
            masked_pixels: Some(2),
            pixel_mask_applied: Some(false),
            frames_expected: 4096,
            frames_present: 3096,
            compressed_bytes: 7_000_000,
            gaps: vec![missing(1000, "set_data_000002.h5: not found"), missing(3900, "the data files end")],
            data_files: vec![DataFile {
                path: "set_data_000002.h5".into(),
                first: 1000,
                frames: 1000,
                frames_present: 0,
                problem: Some("not found".to_owned()),
            }],
            side_cars: vec![],
            run: Verdict::of(&asked, 4096, 3096),
        }
    }

    #[test]
    fn the_words_say_what_is_there_what_is_missing_and_what_is_needed() {
        let text = inspection().text();
        for words in [
            "4096 frames of 192 x 192 pixels, 1000 MISSING",
            "Dectris ARINA CZT",
            "100000 frames/s",
            "300 keV",
            "says nothing of the scan's shape",
            "2 bad pixels listed; their counts stay in the frames, a run leaves them out",
            "row 95.3, col 96.85 px, as the file states; a run measures its own",
            "--aberration NAME=NM[,DEG]",
            "frames 1000 to 1999: set_data_000002.h5: not found",
            "frames 3900 to 3999: unreadable: the data files end",
            "none beside the master",
            "a run would NOT succeed yet",
            "--rotation-deg DEG",
            "64 x 64",
        ] {
            assert!(text.contains(words), "'{words}' not in:\n{text}");
        }
        assert_eq!(text.matches("not found").count(), 1, "each loss is said once:\n{text}");
    }

    #[test]
    fn machines_get_the_same_as_json() {
        let json = serde_json::to_value(inspection()).unwrap();
        assert_eq!(json["run"]["would_succeed"], false);
        assert_eq!(json["run"]["needs"].as_array().unwrap().len(), 5);
        assert_eq!(json["gaps"][0]["count"], 100);
    }

    #[test]
    fn a_set_without_a_frame_cannot_run_whatever_is_given() {
        let asked = resolve(&OpticsRequest::default(), &[], Acquisition { frames_expected: 1 });
        let verdict = Verdict::of(&asked, 1, 0);
        assert!(!verdict.would_succeed && verdict.problem.is_some());
    }
}
