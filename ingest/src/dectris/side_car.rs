//! Files beside a set in which the scan controller left what the detector does not know. Two layouts are known:
//!
//! - NOVENA-like: `NAME.h5` beside `NAME_master.h5`, group "STEM Metadata" with attributes;
//! - NCEM: `NAME_em_metadata.h5`, `/electron_microscope/scan_controller/regular_scan/n_pixels_{y,x}` (as openNCEM reads it).

use std::path::{Path, PathBuf};

use kernels::types::{Degrees, Kilovolts, Nanometres, ScanShape};

use crate::hdf5::{File, Hdf5Error};

/// What one side-car says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SideCar {
    /// The file.
    pub path: PathBuf,
    /// Scan rows and columns.
    pub scan_shape: Option<ScanShape>,
    /// Step between scan positions.
    pub scan_step: Option<Nanometres>,
    /// Dwell time \[s\] as written, for display.
    pub dwell: Option<f64>,
    /// Scan rotation as written \[deg\]. It turns the scan, not the detector: shown, never used as the detector's rotation.
    pub scan_rotation: Option<Degrees>,
    /// Accelerating voltage.
    pub voltage: Option<Kilovolts>,
    /// Camera length as written, for display.
    pub camera_length: Option<f64>,
    /// What is wrong with it.
    pub problem: Option<String>,
}

type ReadSideCar = fn(&File) -> Result<SideCar, Hdf5Error>;

/// The side-cars beside a master.
pub(super) fn beside(master: &Path) -> Vec<SideCar> {
    let Some(stem) = master.file_stem().and_then(|stem| stem.to_str()) else { return Vec::new() };
    let base = stem.strip_suffix("_master").unwrap_or(stem);
    let folder = master.parent().unwrap_or(Path::new(""));
    let readers: [(String, ReadSideCar); 2] =
        [(format!("{base}.h5"), stem_metadata), (format!("{base}_em_metadata.h5"), em_metadata)];
    let mut found = Vec::new();
    for (name, read) in readers {
        let path = folder.join(name);
        if path == *master || !path.exists() {
            continue;
        }
        let side_car = match File::open(&path).and_then(|file| read(&file)) {
            Ok(side_car) => SideCar { path, ..side_car },
            Err(Hdf5Error::NotFound { .. }) => continue, // an HDF5 file that is no side-car
            Err(error) => SideCar { path, problem: Some(error.to_string()), ..SideCar::default() },
        };
        found.push(side_car);
    }
    found
}

fn shape(rows: Option<u64>, cols: Option<u64>) -> Option<ScanShape> {
    let axis = |axis: Option<u64>| usize::try_from(axis?).ok().filter(|&axis| axis > 0);
    Some(ScanShape { rows: axis(rows)?, cols: axis(cols)? })
}

/// "STEM Metadata": no attribute carries a unit. Voltages of at least 1000 are volts, below kilovolts. A pixel size below
/// 1e-6 is metres (no scan steps by a micrometre), else nanometres.
fn stem_metadata(file: &File) -> Result<SideCar, Hdf5Error> {
    const GROUP: &str = "/STEM Metadata";
    file.links(GROUP)?;
    let value = |name: &str| file.attribute(GROUP, name);
    let number = |name: &str| {
        value(name).map(|value| value.and_then(|value| value.number()).filter(|n| n.is_finite()))
    };
    let unsigned = |name: &str| value(name).map(|value| value.and_then(|value| value.unsigned()));
    let positive = |number: Option<f64>| number.filter(|&number| number > 0.0);
    Ok(SideCar {
        scan_shape: shape(unsigned("NumPixelsY")?, unsigned("NumPixelsX")?),
        scan_step: positive(number("Pixel Size")?)
            .map(|size| Nanometres(if size < 1e-6 { size * 1e9 } else { size })),
        dwell: number("ScanDwellTime")?,
        scan_rotation: number("Rotation")?.map(Degrees),
        voltage: positive(number("High Tension")?)
            .map(|size| Kilovolts(if size >= 1000.0 { size * 1e-3 } else { size })),
        camera_length: number("Camera Length")?,
        ..SideCar::default()
    })
}

fn em_metadata(file: &File) -> Result<SideCar, Hdf5Error> {
    const SCAN: &str = "/electron_microscope/scan_controller/regular_scan";
    file.links(SCAN)?;
    let unsigned = |name: &str| -> Result<Option<u64>, Hdf5Error> {
        let path = format!("{SCAN}/{name}");
        let value = match file.value(&path)? {
            Some(value) => Some(value),
            None => file.attribute(SCAN, name)?,
        };
        Ok(value.and_then(|value| value.unsigned()))
    };
    Ok(SideCar { scan_shape: shape(unsigned("n_pixels_y")?, unsigned("n_pixels_x")?), ..SideCar::default() })
}
