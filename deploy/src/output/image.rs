//! One image with what it shows: quantity, unit, axes.

use std::ops::Range;

use anyhow::ensure;
use kernels::types::{DetectorShape, Milliradians, Nanometres, ScanShape};

use super::npy::npy_bytes;
use crate::room::gathered;

/// What an image shows. Each has its file name, its unit and its way to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Single-sideband phase.
    Phase,
    /// Amplitude of the single-sideband object wave.
    Amplitude,
    /// Mean over bright-field pixels of their own phases.
    MeanPhase,
    /// Counts in the bright-field ring.
    BrightField,
    /// Counts in the annular dark-field ring.
    AnnularDarkField,
    /// Counts outside the disk.
    DarkField,
    /// Centre of mass, row component.
    ComRow,
    /// Centre of mass, column component.
    ComCol,
    /// Counts of every pixel of a frame.
    FrameSum,
    /// Counts of a detector pixel over all frames.
    DetectorTotal,
    /// Mean counts of a detector pixel.
    MeanPattern,
}

impl Quantity {
    /// Everything there is.
    pub const ALL: [Self; 11] = [
        Self::Phase,
        Self::Amplitude,
        Self::MeanPhase,
        Self::BrightField,
        Self::AnnularDarkField,
        Self::DarkField,
        Self::ComRow,
        Self::ComCol,
        Self::FrameSum,
        Self::DetectorTotal,
        Self::MeanPattern,
    ];

    /// File name without extension.
    pub fn stem(self) -> &'static str {
        match self {
            Self::Phase => "phase",
            Self::Amplitude => "amplitude",
            Self::MeanPhase => "mean_phase",
            Self::BrightField => "bf",
            Self::AnnularDarkField => "adf",
            Self::DarkField => "df",
            Self::ComRow => "com_row",
            Self::ComCol => "com_col",
            Self::FrameSum => "frame_sum",
            Self::DetectorTotal => "detector_total",
            Self::MeanPattern => "mean_pattern",
        }
    }

    /// For the head of a picture.
    pub fn title(self) -> &'static str {
        match self {
            Self::Phase => "Phase, single sideband",
            Self::Amplitude => "Amplitude, single sideband",
            Self::MeanPhase => "Mean phase, single sideband",
            Self::BrightField => "Bright field",
            Self::AnnularDarkField => "Annular dark field",
            Self::DarkField => "Dark field",
            Self::ComRow => "Centre of mass, row",
            Self::ComCol => "Centre of mass, column",
            Self::FrameSum => "All counts of a frame",
            Self::DetectorTotal => "Counts of a detector pixel, all frames",
            Self::MeanPattern => "Mean diffraction pattern",
        }
    }

    /// The unit of the values.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Phase | Self::MeanPhase => "rad",
            // The object wave is normalised by the mean counts of a bright-field pixel: see docs, outputs.
            Self::Amplitude => "arb. unit",
            Self::ComRow | Self::ComCol => "px",
            Self::BrightField
            | Self::AnnularDarkField
            | Self::DarkField
            | Self::FrameSum
            | Self::DetectorTotal => "counts",
            Self::MeanPattern => "counts a position",
        }
    }
}

/// The values of an image, row-major, in the type they are exact in.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Counts.
    U64(Vec<u64>),
}

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::U64(values) => values.len(),
        }
    }

    /// True when there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type by numpy's name.
    pub fn dtype(&self) -> &'static str {
        match self {
            Self::F32(_) => "float32",
            Self::F64(_) => "float64",
            Self::U64(_) => "uint64",
        }
    }

    /// The values rounded to double precision, for pictures.
    ///
    /// # Errors
    /// The memory for them cannot be had.
    pub(crate) fn to_f64(&self) -> anyhow::Result<Vec<f64>> {
        let what = "the values of a picture";
        match self {
            Self::F32(values) => gathered(values.iter().map(|&value| value.into()), what),
            Self::F64(values) => gathered(values.iter().copied(), what),
            Self::U64(values) => gathered(values.iter().map(|&value| value as f64), what),
        }
    }
}

/// What the two axes of an image are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Axes {
    /// (scan_row, scan_col).
    Scan {
        /// Distance of neighbouring positions along (row, col), when it is known.
        step: Option<[Nanometres; 2]>,
    },
    /// (det_row, det_col).
    Detector {
        /// Scattering angle of a pixel along (row, col), when it is known.
        sampling: Option<[Milliradians; 2]>,
    },
}

impl Axes {
    /// The names of the axes.
    pub fn names(self) -> [&'static str; 2] {
        match self {
            Self::Scan { .. } => ["scan_row", "scan_col"],
            Self::Detector { .. } => ["det_row", "det_col"],
        }
    }

    /// Size of one pixel along (row, col) and its unit; pixels where nothing else is known.
    pub fn pixel_size(self) -> ([f64; 2], &'static str) {
        match self {
            Self::Scan { step: Some(step) } => (step.map(|nm| nm.0), "nm"),
            Self::Detector { sampling: Some(sampling) } => (sampling.map(|mrad| mrad.0), "mrad"),
            Self::Scan { step: None } | Self::Detector { sampling: None } => ([1.0, 1.0], "px"),
        }
    }
}

/// One image, ready to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    quantity: Quantity,
    shape: [usize; 2],
    values: Values,
    axes: Axes,
    missing: Vec<Range<u64>>,
}

impl Image {
    /// An image over the scan, with the distance of its positions when it is known.
    ///
    /// # Errors
    /// When there is not one value a scan position, or none at all.
    pub fn over_scan(
        quantity: Quantity,
        scan: ScanShape,
        step: impl Into<Option<[Nanometres; 2]>>,
        values: Values,
    ) -> anyhow::Result<Self> {
        Self::checked(quantity, [scan.rows, scan.cols], values, Axes::Scan { step: step.into() })
    }

    /// An image over the detector.
    ///
    /// # Errors
    /// When there is not one value a pixel, or none at all.
    pub fn over_detector(
        quantity: Quantity,
        detector: DetectorShape,
        sampling: Option<[Milliradians; 2]>,
        values: Values,
    ) -> anyhow::Result<Self> {
        Self::checked(quantity, [detector.rows, detector.cols], values, Axes::Detector { sampling })
    }

    fn checked(quantity: Quantity, shape: [usize; 2], values: Values, axes: Axes) -> anyhow::Result<Self> {
        let expected = shape[0].checked_mul(shape[1]);
        ensure!(
            expected == Some(values.len()) && !values.is_empty(),
            "{}: got {} values, expected {} x {} and at least one",
            quantity.stem(),
            values.len(),
            shape[0],
            shape[1]
        );
        Ok(Self { quantity, shape, values, axes, missing: Vec::new() })
    }

    /// The same image, of which these positions (half-open, counted row by row) have no frame: whatever value they hold,
    /// a picture hatches them.
    pub fn with_missing(mut self, missing: &[Range<u64>]) -> Self {
        self.missing = missing.to_vec();
        self
    }

    /// Positions without a frame, half-open runs counted row by row.
    pub fn missing(&self) -> &[Range<u64>] {
        &self.missing
    }

    /// Number of positions without a frame.
    pub fn num_missing(&self) -> u64 {
        self.missing.iter().map(|run| run.end.saturating_sub(run.start)).sum()
    }

    /// The values as a picture shows them: NaN where there is no frame.
    ///
    /// # Errors
    /// The memory for them cannot be had.
    pub(crate) fn values_seen(&self) -> anyhow::Result<Vec<f64>> {
        let mut values = self.values.to_f64()?;
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(values.len());
        let runs: Vec<_> = self.missing.iter().map(|run| place(run.start)..place(run.end)).collect();
        for run in runs {
            if let Some(values) = values.get_mut(run) {
                values.fill(f64::NAN);
            }
        }
        Ok(values)
    }

    /// What it shows.
    pub fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// (rows, cols).
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The values, row-major.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Its axes.
    pub fn axes(&self) -> Axes {
        self.axes
    }

    /// The bytes of its `.npy` file.
    ///
    /// # Errors
    /// The memory for them cannot be had.
    pub fn npy(&self) -> anyhow::Result<Vec<u8>> {
        match &self.values {
            Values::F32(values) => npy_bytes(values, &self.shape),
            Values::F64(values) => npy_bytes(values, &self.shape),
            Values::U64(values) => npy_bytes(values, &self.shape),
        }
    }
}
