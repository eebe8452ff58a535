//! Images of a series for those who look, one at a time, computed from what has been kept so far. Those that are written at the
//! end are made in `pipeline/final_images.rs`.

use anyhow::{anyhow, ensure};
use kernels::types::{DetectorShape, Pixels};
use resident::{Missing, Snapshot};
use serde::Deserialize;
use serde_json::{Value, json};
use ssb::BrightField;
use ssb::bright_field::{ANY_SEMI_ANGLE, Pattern, bright_field};

use super::series::{Series, View};
use crate::optics::{ResolvedOptics, check_place};
use crate::output::{Axes, Image, Quantity, Values, picture_png, tiff_bytes};
use crate::rings::Ring;

/// What is asked of an image.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// In which form.
    pub(super) format: Format,
    /// Limits of the ring, in units of the bright-field radius.
    inner: Option<f64>,
    outer: Option<f64>,
    /// Centre of the ring, px.
    row: Option<f64>,
    col: Option<f64>,
}

impl Asked {
    /// An image in a form, with a ring and its centre where they are given.
    pub(super) fn new(
        format: Format,
        [inner, outer]: [Option<f64>; 2],
        [row, col]: [Option<f64>; 2],
    ) -> Self {
        Self { format, inner, outer, row, col }
    }

    /// What a query asks for.
    ///
    /// # Errors
    /// The name of a parameter that is not known, comes twice or has no such value, with what was got and expected.
    pub(super) fn of_query(query: &[(String, String)]) -> Result<Self, String> {
        let mut asked = Self::default();
        for (at, (name, value)) in query.iter().enumerate() {
            if query.iter().take(at).any(|(earlier, _)| earlier == name) {
                return Err(format!("{name}: got it twice, expected it once"));
            }
            let number = || match value.parse() {
                Ok(number) if !f64::is_nan(number) => Ok(Some(number)),
                _ => Err(format!("{name}: got '{value}', expected a number")),
            };
            match name.as_str() {
                "format" => {
                    let format = Format::ALL.into_iter().find(|format| format.word() == value);
                    asked.format = format
                        .ok_or_else(|| format!("format: got '{value}', expected raw, npy, tiff or png"))?;
                }
                "inner" => asked.inner = number()?,
                "outer" => asked.outer = number()?,
                "row" => asked.row = number()?,
                "col" => asked.col = number()?,
                // read where access is checked
                "token" => {}
                _ => {
                    return Err(format!(
                        "got the parameter '{name}', expected format, inner, outer, row, col or token"
                    ));
                }
            }
        }
        Ok(asked)
    }

    /// What tells it from others.
    pub(super) fn key(&self) -> String {
        format!("{:?} {:?} {:?} {:?} {:?}", self.format, self.inner, self.outer, self.row, self.col)
    }
}

/// What an image is of: it is another one when this has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) series: u64,
    /// Frames that are kept; not of the phase, which has versions.
    pub(super) frames: u64,
    pub(super) phase: u64,
    /// Counts up with what is chosen.
    pub(super) choices: u64,
}

/// The forms of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// A header in JSON and single-precision values.
    #[default]
    Raw,
    /// numpy.
    Npy,
    /// 32-bit float, calibrated.
    Tiff,
    /// To look at.
    Png,
}

impl Format {
    const ALL: [Self; 4] = [Self::Raw, Self::Npy, Self::Tiff, Self::Png];

    /// The word of the API.
    pub(super) fn word(self) -> &'static str {
        self.extension().unwrap_or("raw")
    }

    /// For the answer's head.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Raw | Self::Npy => "application/octet-stream",
            Self::Tiff => "image/tiff",
            Self::Png => "image/png",
        }
    }

    /// The ending of its file.
    pub(super) fn extension(self) -> Option<&'static str> {
        match self {
            Self::Raw => None,
            Self::Npy => Some("npy"),
            Self::Tiff => Some("tiff"),
            Self::Png => Some("png"),
        }
    }
}

/// The image of a name, or nothing where there is no such name.
pub(super) fn named(name: &str) -> Option<Quantity> {
    Quantity::ALL.into_iter().find(|quantity| quantity.stem() == name)
}

/// Computes an image of a series that is still in memory, and its version.
///
/// # Errors
/// Nothing has come yet, or the memory was let go; a ring that is none; no bright field where one is needed.
pub(super) fn image(series: &Series, quantity: Quantity, asked: &Asked) -> anyhow::Result<(Image, u64)> {
    let View { snapshot, optics, rings, pixel_mask } =
        series.view().ok_or_else(|| anyhow!("series {} is no longer in memory", series.number))?;
    let totals = snapshot.totals();
    ensure!(totals.frames > 0, "no frame of series {} has come yet", series.number);
    let (scan, step) = (snapshot.scan(), optics.step());
    let over = snapshot.over_scan();
    let over_scan = |values| {
        anyhow::Ok(Image::over_scan(quantity, scan, step, values)?.with_missing(over.coverage().missing()))
    };
    let bad: Vec<bool> = pixel_mask.iter().map(|&mask| mask != 0).collect();
    let image = match quantity {
        Quantity::Phase | Quantity::Amplitude | Quantity::MeanPhase => {
            let (made, version) = series.phase(|phase| (phase.made(), phase.version()));
            let made = made.ok_or_else(|| anyhow!("there is no phase yet"))?;
            let values = match quantity {
                Quantity::Phase => made.phase.clone(),
                Quantity::Amplitude => made.amplitude.clone(),
                _ => made.mean_phase.clone().ok_or_else(|| anyhow!("no mean phase was asked for"))?,
            };
            return Ok((over_scan(Values::F32(values))?, version));
        }
        Quantity::BrightField | Quantity::AnnularDarkField | Quantity::DarkField => {
            let field = field(series, &snapshot, &optics, &pixel_mask)?;
            let ring = asked.ring(match quantity {
                Quantity::BrightField => rings.bf,
                Quantity::AnnularDarkField => rings.adf,
                _ => rings.df,
            })?;
            let centre = asked.centre(field.centre, snapshot.detector())?;
            let mut bad = bad;
            for &pixel in field.hot.iter().chain(&field.marked) {
                if let Some(bad) = bad.get_mut(pixel as usize) {
                    *bad = true;
                }
            }
            let mask = ring.mask(snapshot.detector(), centre, field.radius, &bad);
            let sums = over.mask_sum_from(&series.ring_images(), &mask, Missing::Report)?;
            over_scan(Values::U64(sums.value))?
        }
        Quantity::ComRow => over_scan(Values::F64(over.com(Some(&bad), Missing::Report)?.value.row))?,
        Quantity::ComCol => over_scan(Values::F64(over.com(Some(&bad), Missing::Report)?.value.col))?,
        Quantity::FrameSum => over_scan(Values::U64(over.frame_sums(Missing::Report)?.value))?,
        Quantity::DetectorTotal => {
            let total = over.detector_total(Missing::Report)?.value;
            let sampling = optics.detector_sampling.as_ref().map(|sampling| sampling.value);
            Image::over_detector(quantity, snapshot.detector(), sampling, Values::U64(total.to_vec()))?
        }
        Quantity::MeanPattern => {
            let mean = over.mean_pattern(Missing::Report)?.value;
            let sampling = optics.detector_sampling.as_ref().map(|sampling| sampling.value);
            Image::over_detector(quantity, snapshot.detector(), sampling, Values::F64(mean))?
        }
    };
    Ok((image, totals.frames))
}

impl Asked {
    /// The ring that is asked for.
    fn ring(&self, usual: Ring) -> anyhow::Result<Ring> {
        let ring =
            Ring { inner: self.inner.unwrap_or(usual.inner), outer: self.outer.unwrap_or(usual.outer) };
        ensure!(
            0.0 <= ring.inner && ring.inner < ring.outer && ring.inner.is_finite(),
            "got a ring from {} to {}, expected 0 <= inner < outer in units of the bright-field radius",
            ring.inner,
            ring.outer
        );
        Ok(ring)
    }

    /// The centre of the ring, on the detector; that of the bright field where none is asked for.
    fn centre(&self, [row, col]: [f64; 2], detector: DetectorShape) -> anyhow::Result<[Pixels; 2]> {
        let centre = [Pixels(self.row.unwrap_or(row)), Pixels(self.col.unwrap_or(col))];
        let refused = |(got, expected)| anyhow!("got the centre of a ring {got}, expected {expected}");
        check_place(centre, detector).map_err(refused)?;
        Ok(centre)
    }
}

/// The bright field: that of the phase where there is one, or of the mean pattern so far.
fn field(
    series: &Series,
    snapshot: &Snapshot,
    optics: &ResolvedOptics,
    pixel_mask: &[u32],
) -> anyhow::Result<BrightField> {
    let found = series.phase(|phase| phase.bright_field().cloned());
    if let Some(field) = found.filter(|field| is_as_pinned(field, optics)) {
        return Ok(BrightField::clone(&field));
    }
    let over = snapshot.over_scan();
    let totals = over.detector_total(Missing::Report)?;
    let (totals, positions) = (totals.value, totals.coverage.covered());
    let hits = over.marker_hits(Missing::Report)?.value;
    let pattern = Pattern {
        detector: snapshot.detector(),
        totals: &totals,
        frames: positions,
        pixel_mask,
        marker_hits: Some(&hits),
    };
    let semi_angle = optics.semi_angle.as_ref().map_or(ANY_SEMI_ANGLE, |angle| angle.value);
    Ok(bright_field(&pattern, semi_angle, &optics.pins())?)
}

/// Whether a bright field has the disk that is pinned, if one is.
fn is_as_pinned(field: &BrightField, optics: &ResolvedOptics) -> bool {
    let pins = optics.pins();
    pins.centre.is_none_or(|centre| centre == field.centre)
        && pins.radius.is_none_or(|radius| radius == field.radius)
}

/// An image in the form in which it is sent, with its description.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// What it is, for a form that does not say so itself.
    header: Value,
    /// The file, or the values of a raw image.
    payload: Vec<u8>,
}

impl Made {
    /// An image that was computed.
    ///
    /// # Errors
    /// The memory for it cannot be had.
    pub(super) fn of(image: &Image, version: u64, format: Format) -> anyhow::Result<Self> {
        let payload = match format {
            Format::Raw => {
                let values = image.values_seen()?;
                values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect()
            }
            Format::Npy => image.npy()?,
            Format::Tiff => tiff_bytes(image)?,
            Format::Png => picture_png(image)?,
        };
        Ok(Self { header: header(image, version), payload })
    }

    /// A file of a series that is no longer in memory.
    pub(super) fn of_file(payload: Vec<u8>) -> Self {
        Self { header: json!({}), payload }
    }

    /// The file alone; of a raw image with its header.
    ///
    /// # Errors
    /// A header of more than 4 GiB.
    pub(super) fn file(self, format: Format) -> anyhow::Result<Vec<u8>> {
        match format {
            Format::Raw => self.frame(&json!({})),
            _ => Ok(self.payload),
        }
    }

    /// A header in JSON that also says what `more` says, its length before it in 32 bits, little-endian, and the image.
    ///
    /// # Errors
    /// A header of more than 4 GiB.
    pub(super) fn frame(&self, more: &Value) -> anyhow::Result<Vec<u8>> {
        let mut header = self.header.clone();
        if let (Some(header), Some(more)) = (header.as_object_mut(), more.as_object()) {
            header.extend(more.clone());
        }
        let mut header = header.to_string().into_bytes();
        header.resize(header.len().next_multiple_of(4), b' ');
        let mut bytes = Vec::with_capacity(4 + header.len() + self.payload.len());
        bytes.extend_from_slice(&u32::try_from(header.len())?.to_le_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&self.payload);
        Ok(bytes)
    }
}

/// What an image is.
fn header(image: &Image, version: u64) -> Value {
    let (axes, size, unit) = match image.axes() {
        Axes::Scan { step: Some(step) } => ("scan", Some(step.map(|step| step.0)), "nm"),
        Axes::Scan { step: None } => ("scan", None, "px"),
        Axes::Detector { sampling: Some(sampling) } => {
            ("detector", Some(sampling.map(|step| step.0)), "mrad")
        }
        Axes::Detector { sampling: None } => ("detector", None, "px"),
    };
    let quantity = image.quantity();
    json!({
        "name": quantity.stem(),
        "title": quantity.title(),
        "unit": quantity.unit(),
        "shape": image.shape(),
        "axes": axes,
        "pixel_size": size,
        "pixel_unit": unit,
        "version": version,
        "missing": image.missing().iter().map(|run| [run.start, run.end]).collect::<Vec<_>>(),
    })
}
