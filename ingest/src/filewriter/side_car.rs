//! The file beside a set that says how it was scanned and what is missing: the scan in the layout that NCEM's scan
//! controller leaves and [`SideCar`](crate::dectris::SideCar) reads,
//! `/electron_microscope/scan_controller/regular_scan/n_pixels_{y,x}`.

use std::ops::Range;
use std::path::Path;

use kernels::types::ScanShape;

use super::error::FilewriterError;
use super::master::missing_images;
use super::object::Node;
use super::pending::{PendingFile, sync_folder};

/// Writes a side-car; under its name it is whole. One that is there is replaced.
///
/// # Errors
/// [`FilewriterError::Io`]
pub(crate) fn write_side_car(
    path: &Path,
    scan: Option<ScanShape>,
    missing: &[Range<u64>],
) -> Result<(), FilewriterError> {
    let mut members = Vec::new();
    if let Some(scan) = scan {
        let numbers = vec![
            Node::dataset("n_pixels_x", scan.cols as u64),
            Node::dataset("n_pixels_y", scan.rows as u64),
        ];
        let scan = Node::group("regular_scan", "", numbers);
        let controller = Node::group("scan_controller", "", vec![scan]);
        members.push(Node::group("electron_microscope", "", vec![controller]));
    }
    if !missing.is_empty() {
        members.push(missing_images(missing));
    }
    let file = PendingFile::create(path.to_owned())?;
    let metadata = file.metadata();
    file.complete(metadata, &Node::group("", "", members))?.publish()?;
    sync_folder(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}
