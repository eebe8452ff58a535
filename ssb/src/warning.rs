//! What a user should know about a result that is nevertheless valid.

use kernels::types::{Milliradians, Nanometres, Optics, Pixels, ScanShape};

use crate::bright_field::BrightField;
use crate::probe::probe_radius;

/// Something that limits a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// The scan step is too large to carry every frequency the probe transfers: detail between the scan's own Nyquist
    /// frequency and twice the semi-angle folds back.
    Undersampled {
        /// Scan step along the axis.
        step: Nanometres,
        /// The largest that would do, lambda / (4 semi-angle).
        complete: Nanometres,
        /// The largest at which the native grid reaches the semi-angle, lambda / (2 semi-angle).
        limit: Nanometres,
        /// 0 for rows, 1 for columns.
        axis: usize,
    },
    /// At no spatial frequency of the scan do the direct and a turned disk overlap: there is nothing to take a phase from.
    NoOverlap {
        /// Scan step along (row, col).
        step: [Nanometres; 2],
        /// The coarsest detail of the scan that is no constant, its longest side.
        coarsest: Nanometres,
        /// The finest detail the probe carries, lambda / (2 semi-angle).
        finest: Nanometres,
    },
    /// The phase is the same at every position.
    ConstantPhase,
    /// The disk reaches beyond the detector.
    DiskCut {
        /// How far, at the worst side.
        beyond: Pixels,
    },
    /// The whole detector is as bright as the disk: where the disk ends cannot be seen.
    DiskFills {
        /// Part of the good pixels that is brighter than half the disk, 0 to 1.
        lit: f64,
    },
    /// Pixels of the disk showed the marker of a saturated pixel.
    Saturated {
        /// Pixels of the disk that did.
        in_disk: usize,
        /// Pixels of the whole detector that did.
        in_all: usize,
        /// Pixels of the disk.
        disk: usize,
    },
    /// The aberrations make the probe wider than the detector pixels resolve: chi turns by more than half a turn from one
    /// pixel of the bright field to the next.
    ProbeTooWide {
        /// Width of the probe, by ray optics.
        probe: Nanometres,
        /// What the pixels resolve, lambda over the angle of a pixel.
        resolved: Nanometres,
        /// The angle of a pixel.
        pixel: Milliradians,
    },
    /// A pinned centre contradicts the disk by more than a pixel.
    CentreDiffers {
        /// The pinned centre \[px\], (row, col).
        pinned: [f64; 2],
        /// The centre of the disk.
        measured: [f64; 2],
    },
    /// A pinned radius contradicts the disk by more than three in a hundred.
    RadiusDiffers {
        /// The pinned radius.
        pinned: Pixels,
        /// What the edge of the disk says.
        measured: Pixels,
    },
    /// A pinned detector sampling contradicts the disk by more than a tenth.
    SamplingDiffers {
        /// The pinned sampling.
        pinned: Milliradians,
        /// What the edge of the disk says.
        measured: Milliradians,
    },
    /// Positions were missing and count as each pixel's mean.
    Filled {
        /// Positions without a frame.
        missing: usize,
        /// Positions of the scan.
        positions: usize,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Undersampled { step, complete, limit, axis } => {
                let axis = if *axis == 0 { "rows" } else { "columns" };
                let (step, complete, limit) = (step.0, complete.0, limit.0);
                write!(f, "scan step along {axis} is {step:.4} nm, more than ")?;
                match step > limit {
                    true => write!(
                        f,
                        "lambda / (2 semi-angle) = {limit:.4} nm: most of the detail that the probe carries is too fine for \
                         this scan and folds back into false detail; a step of at most lambda / (4 semi-angle) = \
                         {complete:.4} nm carries all of it"
                    ),
                    false => write!(
                        f,
                        "lambda / (4 semi-angle) = {complete:.4} nm: the finest detail that the probe carries, with periods \
                         from {limit:.4} to {:.4} nm, folds back into weak false detail",
                        2.0 * step
                    ),
                }
            }
            Self::NoOverlap { step, coarsest, finest } => write!(
                f,
                "no phase image: at no spatial frequency of this scan do the disks overlap; the whole scan is {:.4} nm \
                 wide (step {:.4}, {:.4} nm), the probe carries nothing finer than lambda / (2 semi-angle) = {:.4} nm; \
                 are the scan step in nm and the semi-angle in mrad right?",
                coarsest.0, step[0].0, step[1].0, finest.0
            ),
            Self::ConstantPhase => {
                write!(
                    f,
                    "no phase image: the phase is the same at every scan position; are all frames alike, or the scan too small?"
                )
            }
            Self::DiskCut { beyond } => {
                write!(
                    f,
                    "the bright-field disk reaches {:.1} px beyond the detector: its edge is cut off",
                    beyond.0
                )
            }
            Self::DiskFills { lit } => write!(
                f,
                "{:.0} % of the detector is as bright as the disk: the disk may be larger than the detector (camera length); \
                 then centre, radius and detector sampling cannot be measured, and have to be given",
                100.0 * lit
            ),
            Self::Saturated { in_disk, in_all, disk } => write!(
                f,
                "{in_disk} of {disk} pixels in the bright-field disk ({in_all} of the detector) showed the largest count and \
                 are left out: saturated, or masked by the detector"
            ),
            Self::ProbeTooWide { probe, resolved, pixel } => write!(
                f,
                "the aberrations make the probe {:.4} nm wide, detector pixels of {:.4} mrad resolve at most lambda / pixel = \
                 {:.4} nm: the aberrations turn the phase by more than half a turn between neighbouring pixels, and what is \
                 finer than a pixel is lost; are all of them in nm?",
                probe.0, pixel.0, resolved.0
            ),
            Self::CentreDiffers { pinned, measured } => write!(
                f,
                "bright-field centre is pinned at {:.2}, {:.2} px, the edge of the disk says {:.2}, {:.2} px",
                pinned[0], pinned[1], measured[0], measured[1]
            ),
            Self::RadiusDiffers { pinned, measured } => write!(
                f,
                "bright-field radius is pinned at {:.2} px, the edge of the disk says {:.2} px",
                pinned.0, measured.0
            ),
            Self::SamplingDiffers { pinned, measured } => write!(
                f,
                "detector sampling is pinned at {:.4} mrad/px, the edge of the disk says {:.4} mrad/px",
                pinned.0, measured.0
            ),
            Self::Filled { missing, positions } => write!(
                f,
                "{missing} of {positions} scan positions are missing and count as each pixel's mean"
            ),
        }
    }
}

impl Warning {
    /// Whether it means that there is no phase image to be looked at.
    pub fn is_without_phase(&self) -> bool {
        matches!(self, Self::NoOverlap { .. } | Self::ConstantPhase)
    }
}

/// Phases that differ by less than this \[rad\] are the same: rounding, not an image.
const SAME_PHASE: f32 = 1e-9;

/// What the result itself gives reason to warn of: `transfer` as in a reconstruction, `[q_row][q_col]`.
pub(crate) fn warnings_of_result(
    optics: &Optics,
    scan: ScanShape,
    most_transfer: f64,
    phase: &[f32],
) -> Option<Warning> {
    let step = optics.scan_step;
    if most_transfer <= 0.0 {
        let width = (scan.rows as f64 * step[0].0).max(scan.cols as f64 * step[1].0);
        let finest = optics.wavelength().0 * 1e9 / (2.0 * optics.semi_angle.radians());
        return Some(Warning::NoOverlap { step, coarsest: Nanometres(width), finest: Nanometres(finest) });
    }
    // sixteen at a time: one after the other would wait for each comparison
    let mut low = [f32::INFINITY; 16];
    let mut high = [f32::NEG_INFINITY; 16];
    let (sixteens, rest) = phase.as_chunks::<16>();
    for phases in sixteens.iter().map(<[f32; 16]>::as_slice).chain([rest]) {
        for ((low, high), &phase) in low.iter_mut().zip(&mut high).zip(phases) {
            *low = low.min(phase);
            *high = high.max(phase);
        }
    }
    let low = low.into_iter().fold(f32::INFINITY, f32::min);
    let high = high.into_iter().fold(f32::NEG_INFINITY, f32::max);
    (high - low <= SAME_PHASE).then_some(Warning::ConstantPhase)
}

/// The largest scan step that carries every frequency the probe transfers, lambda / (4 semi-angle): the disks overlap up
/// to |q| = 2 semi-angle / lambda, which has to lie within 1 / (2 step).
pub fn complete_step(optics: &Optics) -> Nanometres {
    Nanometres(optics.wavelength().0 * 1e9 / (4.0 * optics.semi_angle.radians()))
}

/// What the scan gives reason to warn of, before a count is there.
pub fn scan_warnings(optics: &Optics) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (axis, &step) in optics.scan_step.iter().enumerate() {
        let (complete, limit) = (complete_step(optics), Nanometres(2.0 * complete_step(optics).0));
        if step.0 > complete.0 {
            warnings.push(Warning::Undersampled { step, complete, limit, axis });
        }
    }
    warnings
}

/// What optics and bright field give reason to warn of.
pub fn warnings(optics: &Optics, bright_field: &BrightField) -> Vec<Warning> {
    let mut warnings = scan_warnings(optics);
    warnings.extend(probe_too_wide(optics, bright_field.sampling));
    let in_disk = bright_field.num_marked_in_disk();
    if in_disk > 0 {
        let (in_all, disk) = (bright_field.marked.len(), bright_field.num_in_disk);
        warnings.push(Warning::Saturated { in_disk, in_all, disk });
    }
    if bright_field.lit >= FILLING {
        warnings.push(Warning::DiskFills { lit: bright_field.lit });
        return warnings; // what follows is about the edge of the disk
    }
    let beyond = |centre: [f64; 2], radius: Pixels| {
        let [row, col] = centre;
        let (rows, cols) = (bright_field.detector.rows as f64, bright_field.detector.cols as f64);
        let room = [row + 0.5, col + 0.5, rows - 0.5 - row, cols - 0.5 - col];
        radius.0 - room.into_iter().fold(f64::MAX, f64::min)
    };
    let cut = beyond(bright_field.centre, bright_field.radius);
    if cut > 0.0 {
        warnings.push(Warning::DiskCut { beyond: Pixels(cut) });
    }
    // Of a disk that is cut off neither the centre nor the radius is seen.
    if beyond(bright_field.measured_centre, bright_field.measured_radius) <= 0.0 {
        warnings.extend(pins_that_differ(bright_field));
    }
    let measured = optics.semi_angle.0 / bright_field.edge_radius.0;
    for pinned in bright_field.sampling {
        if (pinned.0 / measured - 1.0).abs() > 0.1 {
            warnings.push(Warning::SamplingDiffers { pinned, measured: Milliradians(measured) });
            break;
        }
    }
    warnings
}

/// A detector of which this part is as bright as the disk has no dark rim.
const FILLING: f64 = 0.98;

/// Half a turn of chi from one pixel to the next is a ray that lands lambda / (2 pixel) off the axis.
fn probe_too_wide(optics: &Optics, sampling: [Milliradians; 2]) -> Option<Warning> {
    let pixel = Milliradians(sampling[0].0.max(sampling[1].0));
    let resolved = Nanometres(optics.wavelength().0 * 1e9 / pixel.radians());
    let probe = Nanometres(2.0 * probe_radius(optics, &[]).0 * 1e9);
    (probe.0 > resolved.0).then_some(Warning::ProbeTooWide { probe, resolved, pixel })
}

/// A pinned centre more than a pixel off, a pinned radius more than 3 % off. A small disk is a coarse one: half a pixel of
/// radius is always allowed.
fn pins_that_differ(bright_field: &BrightField) -> impl Iterator<Item = Warning> {
    let (pinned, measured) = (bright_field.centre, bright_field.measured_centre);
    let apart = (pinned[0] - measured[0]).hypot(pinned[1] - measured[1]);
    let centre = (apart > 1.0).then_some(Warning::CentreDiffers { pinned, measured });
    let (pinned, measured) = (bright_field.radius, bright_field.edge_radius);
    let apart = (pinned.0 - measured.0).abs();
    let is_pinned = pinned != bright_field.measured_radius;
    let radius = (is_pinned && apart > (0.03 * measured.0).max(0.5))
        .then_some(Warning::RadiusDiffers { pinned, measured });
    centre.into_iter().chain(radius)
}
