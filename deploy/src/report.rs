//! Everything a run can say about itself: `result.json`.
//!
//! Field by field in docs, reference, result-json. Read [`RunReport`] first.

mod clock;
mod folder;
mod optics_json;

use std::path::{Path, PathBuf};

use kernels::types::{Gap, GapReason, Milliradians, Pixels};
use serde::{Serialize, Serializer};

use crate::optics::ResolvedOptics;
use crate::output::{Image, PendingFile, write_image};
use crate::rings::Ring;

pub(crate) use clock::{command_line, moment, utc};
pub use folder::{
    Outcome, ResultFolder, folders_for, older_results, prepare_folder, remove_abandoned, scan_shape_in,
};
pub(crate) use optics_json::told;

/// The file a report is written to.
pub const RESULT_FILE: &str = "result.json";

/// What made a report that is ours.
const SOFTWARE_NAME: &str = "sideband";

/// The account of one run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Program and version.
    pub software: Software,
    /// The command line of the program, which may be another that uses this library.
    pub command: Vec<String>,
    /// When it began, UTC, as `2026-01-31T23:59:59Z`.
    pub started_utc: String,
    /// Whether everything is there.
    pub status: Status,
    /// Whether it was stopped on request before every frame had come; it is partial then.
    pub interrupted: bool,
    /// What it ran on.
    pub device: String,
    /// What was read.
    pub input: Input,
    /// What arrived and what did not.
    pub frames: Frames,
    /// Seconds by stage, in the order of the stages.
    #[serde(serialize_with = "as_map")]
    pub seconds: Vec<(String, f64)>,
    /// The microscope: `optics`, `optics_provenance`, `optics_detail` and `optics_unit`, with the same keys.
    #[serde(flatten, serialize_with = "optics_json::serialize")]
    pub optics: ResolvedOptics,
    /// The bright field that was used; none when the run ended before it was found.
    pub bright_field: Option<BrightField>,
    /// The virtual detectors, by image name.
    #[serde(serialize_with = "as_map")]
    pub masks: Vec<(String, Mask)>,
    /// The encoded resident.
    pub encoded: Option<Encoded>,
    /// Phase-variance loss \[rad^2\], when it was asked for.
    pub loss_rad2: Option<f64>,
    /// What was written, filled by [`write_results`].
    pub images: Vec<WrittenImage>,
    /// What limits or contradicts the results, one sentence each.
    pub warnings: Vec<String>,
    /// How the optics were found where a person might think otherwise: contradictions, defaults. One sentence each.
    pub notes: Vec<String>,
    /// The folder it was written to, set by [`write_results`].
    #[serde(skip)]
    pub folder: PathBuf,
}

/// Program and version.
#[derive(Clone, Debug, Serialize)]
pub struct Software {
    /// Always `sideband`.
    pub name: &'static str,
    /// The version of the package.
    pub version: &'static str,
}

impl Default for Software {
    fn default() -> Self {
        Self { name: SOFTWARE_NAME, version: env!("CARGO_PKG_VERSION") }
    }
}

/// Whether everything is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Every frame arrived and every result was computed.
    Complete,
    /// Frames or results are missing; the results cover what had arrived.
    Partial,
}

/// What was read.
#[derive(Clone, Debug, Serialize)]
pub struct Input {
    /// The master file, as it was given.
    #[serde(serialize_with = "as_text")]
    pub master: PathBuf,
    /// The same from the root; links in it are not followed.
    #[serde(serialize_with = "as_text")]
    pub master_absolute: PathBuf,
    /// What the master says of the detector and the day.
    pub acquisition: AcquiredWith,
    /// The data files that hold frames, then the side-cars that could be read.
    #[serde(serialize_with = "as_texts")]
    pub files: Vec<PathBuf>,
    /// Bytes of compressed frames that were read.
    pub compressed_bytes: u64,
}

/// What the master says of the detector and the day; null where it does not.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AcquiredWith {
    /// The detector's own description.
    pub detector: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// The date of the acquisition, as the detector writes it.
    pub date: Option<String>,
}

/// What arrived and what did not; received + missing = expected.
#[derive(Clone, Debug, Serialize)]
pub struct Frames {
    /// Frames the acquisition should have.
    pub expected: u64,
    /// Frames that arrived whole.
    pub received: u64,
    /// Frames that did not.
    pub missing: u64,
    /// Which did not, and why.
    pub gaps: Vec<MissingFrames>,
}

/// A run of frames that is not there.
#[derive(Clone, Debug, Serialize)]
pub struct MissingFrames {
    /// First missing frame, counted from 0.
    pub first: u64,
    /// Number of missing frames.
    pub count: u64,
    /// `not received`, `corrupt`, `unlike` or `unreadable`.
    pub kind: &'static str,
    /// What exactly was wrong.
    pub reason: String,
}

impl From<&Gap> for MissingFrames {
    fn from(gap: &Gap) -> Self {
        let (kind, reason) = match &gap.reason {
            GapReason::NotReceived(why) => ("not received", why),
            GapReason::Corrupt(why) => ("corrupt", why),
            GapReason::Unlike(why) => ("unlike", why),
            GapReason::Unreadable(why) => ("unreadable", why),
        };
        Self { first: gap.first, count: gap.count, kind, reason: reason.clone() }
    }
}

/// The bright field that was used.
#[derive(Clone, Debug, Serialize)]
pub struct BrightField {
    /// Good pixels in the disk: those the reconstruction used.
    pub pixels_used: u64,
    /// All pixels in the disk.
    pub pixels_in_disk: u64,
    /// Detector pixels left out because the detector's own mask names them.
    pub masked_pixels: u64,
    /// Detector pixels found to be hot, (row, col).
    pub hot_pixels: Vec<[usize; 2]>,
    /// Pixels inside the disk that never counted.
    pub num_dead_pixels: u64,
    /// The first hundred of them, (row, col).
    pub dead_pixels: Vec<[usize; 2]>,
}

/// A virtual detector.
#[derive(Clone, Debug, Serialize)]
pub struct Mask {
    /// Which pixels belong to it.
    pub rule: String,
    /// Inner radius.
    pub inner_px: f64,
    /// Outer radius; null when it reaches to the corners.
    pub outer_px: Option<f64>,
    /// Inner radius; null when the sampling is not known.
    pub inner_mrad: Option<f64>,
    /// Outer radius; null when it reaches to the corners, or the sampling is not known.
    pub outer_mrad: Option<f64>,
    /// Good pixels in it.
    pub pixels: u64,
}

impl Mask {
    /// Describes a ring about a disk of `radius`; `sampling` is that along (row, col), of which the mean counts.
    pub fn of(ring: Ring, radius: Pixels, sampling: Option<[Milliradians; 2]>, pixels: u64) -> Self {
        let mrad_per_px = sampling.map(|[row, col]| (row.0 + col.0) / 2.0);
        let inner_px = ring.inner * radius.0;
        let outer_px = ring.outer.is_finite().then_some(ring.outer * radius.0);
        Self {
            rule: format!("{ring}, R = bright-field radius, good pixels only"),
            inner_px,
            outer_px,
            inner_mrad: mrad_per_px.map(|mrad| inner_px * mrad),
            outer_mrad: outer_px.zip(mrad_per_px).map(|(px, mrad)| px * mrad),
            pixels,
        }
    }
}

/// The encoded resident and what it replaces.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Encoded {
    /// Bytes of the encoded counts with their index and sums.
    pub bytes: u64,
    /// Bytes the same counts take unencoded.
    pub dense_bytes: u64,
    /// Bytes of the spectra G.
    pub spectra_bytes: u64,
    /// Most memory the process held; null where the system does not say.
    pub peak_memory_bytes: Option<u64>,
}

/// One image that was written, three files.
#[derive(Clone, Debug, Serialize)]
pub struct WrittenImage {
    /// File name without extension.
    pub name: &'static str,
    /// File names in the result folder.
    pub files: Vec<String>,
    /// numpy's name of the type in the `.npy`.
    pub dtype: &'static str,
    /// (rows, cols).
    pub shape: [usize; 2],
    /// Names of the two axes.
    pub axes: [&'static str; 2],
    /// Unit of the values.
    pub unit: &'static str,
}

/// Writes every image into `out`, which [`prepare_folder`] has made, lists them in the report, and writes the report
/// last: a folder with `result.json` is whole.
///
/// Nothing older is touched before all of the new is on the disk; then every image of an older run is replaced or goes,
/// so that what lies in the folder belongs together. Other files stay.
///
/// # Errors
/// A file cannot be written or replaced; the text names it, and where the new ones are that were whole.
pub fn write_results(out: &Path, images: &[Image], report: &mut RunReport) -> anyhow::Result<PathBuf> {
    report.images.clear();
    report.folder = out.to_owned();
    let mut pending = Vec::new();
    for image in images {
        let files = write_image(out, image)?;
        let names = files.iter().filter_map(|file| Some(file.path().file_name()?.to_str()?.to_owned()));
        report.images.push(WrittenImage {
            name: image.quantity().stem(),
            files: names.collect(),
            dtype: image.values().dtype(),
            shape: image.shape(),
            axes: image.axes().names(),
            unit: image.quantity().unit(),
        });
        pending.extend(files);
    }
    let mut text = serde_json::to_vec_pretty(report)?;
    text.push(b'\n');
    let path = out.join(RESULT_FILE);
    let account = PendingFile::write(&path, &text)?;
    folder::publish(out, pending, account)?;
    Ok(path)
}

/// Serialises pairs as a map that keeps their order.
pub(crate) fn as_map<K: Serialize, V: Serialize, S: Serializer>(
    pairs: &[(K, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Serialises a path as text: JSON has nothing else, and a name that is no Unicode is no reason to lose a result.
pub(crate) fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// As [`as_text`], several.
fn as_texts<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

#[cfg(test)]
mod tests;
