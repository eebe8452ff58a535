//! Everything a reader can be asked of a file, asked: shared by the damage tests and the fuzzer.

use ingest::hdf5::{Checksums, File, LinkTarget};
use std::path::Path;

/// Groups deeper than this are not looked into.
const MOST_DEPTH: usize = 6;
/// Objects looked at in one file.
const MOST_OBJECTS: usize = 200;

/// Opens a file with and without its checksums and asks for everything in it. Returns the number of answers that are no errors.
pub fn walk(path: &Path) -> usize {
    [Checksums::Verify, Checksums::Ignore]
        .into_iter()
        .filter_map(|checksums| File::open_with(path, checksums).ok())
        .map(|file| {
            let mut left = MOST_OBJECTS;
            object(&file, "/", MOST_DEPTH, &mut left)
        })
        .sum()
}

fn object(file: &File, path: &str, depth: usize, left: &mut usize) -> usize {
    if *left == 0 {
        return 0;
    }
    *left -= 1;
    let mut answers = usize::from(file.find(path).is_ok());
    for name in ["image_nr_low", "units", "note", "attribute_7"] {
        answers += usize::from(matches!(file.attribute(path, name), Ok(Some(_))));
    }
    if let Ok(dataset) = file.dataset(path) {
        answers += usize::from(dataset.read_all().is_ok());
        answers += usize::from(dataset.chunk_index_salvaged().is_ok());
    } else if depth > 0 {
        for link in file.links(path).unwrap_or_default() {
            if !matches!(link.target, LinkTarget::External { .. }) {
                answers +=
                    object(file, &format!("{}/{}", path.trim_end_matches('/'), link.name), depth - 1, left);
            }
        }
    }
    answers
}
