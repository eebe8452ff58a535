//! DECTRIS file sets: a master, the data files its links name, side-cars beside it.
//!
//! In: the path of a master (or of a data file by itself). Out: what is in the set, what is missing in words a microscopist
//! understands, and the runs of frames to read ([`FileSet::runs`]). Nothing is computed from names: data files are those
//! the master links to, in the order of the links' names (SIMPLON filewriter, legacy format).

mod data_file;
mod metadata;
mod side_car;

pub use data_file::DataFile;
pub use metadata::Metadata;
pub use side_car::SideCar;

use std::path::{Path, PathBuf};

use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape, Gap, GapReason, Item};

use crate::FileIdentity;
use crate::error::IngestError;
use crate::hdf5::{File, Hdf5Error, LinkTarget, Lost};
use crate::source::StoredRun;

/// Where the filewriter puts its links, or its images when all are in one file.
const DATA_GROUP: &str = "/entry/data";

/// An acquisition as the filewriter left it.
#[derive(Debug)]
pub struct FileSet {
    /// The file that was opened.
    pub master: PathBuf,
    /// What the master says of the acquisition.
    pub metadata: Metadata,
    /// Data files in the order of their frames.
    pub files: Vec<DataFile>,
    /// Metadata files beside the set.
    pub side_cars: Vec<SideCar>,
    /// Shape of a frame.
    pub detector: DetectorShape,
    /// Type of a count.
    pub count_type: CountType,
    /// How frames are compressed.
    pub encoding: Encoding,
    /// Frames the acquisition should have: triggers x images, or what the files hold when the master does not say.
    pub frames_expected: u64,
}

impl FileSet {
    /// Opens a set and indexes every data file.
    ///
    /// A data file that is missing, cut short or of another shape is recorded in [`DataFile::problem`] and its frames become gaps.
    ///
    /// # Errors
    /// [`IngestError::Hdf5`] when the master itself is no readable HDF5 file; [`IngestError::NoFrames`] when no image
    /// dataset can be read at all.
    pub fn open(master: &Path) -> Result<Self, IngestError> {
        let file = File::open(master).map_err(|source| IngestError::hdf5(master, source))?;
        let metadata = Metadata::read(&file);
        let mut files = linked_files(&file, master)?;
        let Some(pattern) = kind_of_set(&files, metadata.pixel_mask.as_ref().map(|&(shape, _)| shape)) else {
            let problems: Vec<String> = files
                .iter()
                .filter_map(|file| Some(format!("{}: {}", file.path.display(), file.problem.as_ref()?)))
                .collect();
            return Err(IngestError::NoFrames {
                master: master.to_path_buf(),
                problems: problems.join("; "),
            });
        };
        for file in &mut files {
            file.refuse_unlike(pattern);
        }
        refuse_doubled(&mut files);
        place(&mut files, metadata.frames());
        let held = files.last().map_or(0, |file| file.first + file.num_frames);
        note_contradiction(&mut files, &metadata, held);
        let frames_expected = metadata.frames().unwrap_or(held).max(held);
        let (detector, count_type, encoding) = pattern;
        Ok(Self {
            master: master.to_path_buf(),
            metadata,
            files,
            side_cars: side_car::beside(master),
            detector,
            count_type,
            encoding,
            frames_expected,
        })
    }

    /// What there is to read, in rising frame order, with a gap wherever frames are known to be missing.
    pub fn runs(&self) -> Vec<Item<StoredRun>> {
        let mut runs = Vec::new();
        let mut next = 0;
        for file in &self.files {
            let why = match next {
                0 => "no data file holds what comes before the first",
                _ => "the data files before and after do not join",
            };
            push_gap(&mut runs, &mut next, file.first, why.to_owned());
            match &file.problem {
                Some(problem) if file.frames.is_empty() => {
                    let why = format!("{}: {problem}", file.path.display());
                    push_gap(&mut runs, &mut next, file.first + file.num_frames, why);
                }
                _ => {
                    next = file.first + file.frames.len() as u64;
                    runs.push(Item::Data(StoredRun {
                        first: file.first,
                        path: file.path.clone(),
                        identity: file.identity,
                        frames: file.frames.clone(),
                        encoding: self.encoding,
                        count_type: self.count_type,
                        detector: self.detector,
                    }));
                }
            }
        }
        let why = format!("the data files end at frame {next}, {} were expected", self.frames_expected);
        push_gap(&mut runs, &mut next, self.frames_expected, why);
        runs
    }

    /// Frames whose bytes lie inside their files.
    pub fn frames_present(&self) -> u64 {
        self.files.iter().map(DataFile::frames_present).sum()
    }

    /// Compressed bytes of all frames that are there.
    pub fn compressed_bytes(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.frames).map(|frame| frame.bytes).sum()
    }
}

fn push_gap(runs: &mut Vec<Item<StoredRun>>, next: &mut u64, end: u64, why: String) {
    if *next < end {
        runs.push(Item::Gap(Gap { first: *next, count: end - *next, reason: GapReason::Unreadable(why) }));
        *next = end;
    }
}

/// The data files a master links to, or the file itself when it holds the images. A link may lead to another, and the
/// group itself into another file.
fn linked_files(file: &File, master: &Path) -> Result<Vec<DataFile>, IngestError> {
    let lost = |Lost { file, why }| IngestError::hdf5(&file, why);
    let elsewhere = file.follow(DATA_GROUP).map_err(lost)?;
    let (file, group) =
        elsewhere.as_ref().map_or((file, DATA_GROUP), |elsewhere| (&elsewhere.file, &elsewhere.path));
    let links = file.links(group).map_err(|source| IngestError::hdf5(file.path(), source))?;
    let mut files = Vec::new();
    for link in links.into_iter().filter(|link| link.name.starts_with("data")) {
        let link_number = link.name.strip_prefix("data_").and_then(|number| number.parse().ok());
        let mut found = match link.target {
            LinkTarget::External { file: name, path } => DataFile::linked(&file.beside(&name), &path),
            LinkTarget::Hard(_) | LinkTarget::Soft(_) => {
                DataFile::at_end_of(file, &format!("{group}/{}", link.name))
            }
        };
        found.link_number = link_number;
        files.push(found);
    }
    if files.is_empty() {
        let why = format!("{DATA_GROUP} has no link and no dataset that starts with 'data'");
        return Err(IngestError::hdf5(master, Hdf5Error::NotFound { path: DATA_GROUP.to_owned(), why }));
    }
    Ok(files)
}

/// Of the kinds of frames that the files hold, the one with the shape of the master's mask; of several, the one of most frames.
///
/// So a foreign file among the set's own is the one that is refused, wherever it stands.
fn kind_of_set(files: &[DataFile], mask: Option<[usize; 2]>) -> Option<data_file::Kind> {
    let frames_of = |kind: data_file::Kind| -> u64 {
        files
            .iter()
            .filter(|file| file.kind() == Some(kind))
            .fold(0, |frames, file| frames.saturating_add(file.num_frames))
    };
    // Reversed: of equals, `max_by_key` takes the last, and the first file is to win.
    files
        .iter()
        .rev()
        .filter_map(DataFile::kind)
        .max_by_key(|&kind| (mask == Some([kind.0.rows, kind.0.cols]), frames_of(kind)))
}

/// Gives up a file that stands in the set already, behind another link or another name: its frames are not there twice.
fn refuse_doubled(files: &mut [DataFile]) {
    for at in 1..files.len() {
        let (before, rest) = files.split_at_mut(at);
        let own = &mut rest[0];
        let is_own = |other: &&DataFile| other.identity == own.identity && other.path != own.path;
        let of_a_file = own.identity != FileIdentity::default();
        // the links of one file to several of its datasets have the same path; to the same dataset, the same first frame
        let same_frames = |other: &&DataFile| {
            other.identity == own.identity
                && other.frames.first().map(|frame| frame.offset)
                    == own.frames.first().map(|frame| frame.offset)
        };
        let double = before.iter().find(|other| is_own(other) || same_frames(other));
        if let Some(other) = double.filter(|_| of_a_file && !own.frames.is_empty()) {
            let why = format!("it is the same file as {}", other.path.display());
            own.refuse(&why);
            own.num_frames = 0;
        }
    }
}

/// The place of each file among the links of a whole set, counted from 0: by the numbers in the names of the links where all
/// have one, else by their order.
fn link_places(files: &mut [DataFile]) -> (Vec<u64>, bool) {
    if files.iter().all(|file| file.link_number.is_some()) {
        files.sort_by_key(|file| file.link_number);
    }
    let numbers: Option<Vec<u64>> = files.iter().map(|file| file.link_number).collect();
    // a number far beyond the files that there are is no place
    let is_strict = |numbers: &Vec<u64>| numbers.is_sorted_by(|one, next| one < next && *next < 1 << 24);
    match numbers.filter(is_strict) {
        Some(numbers) => {
            // names count from 1; a set that counts from 0 has a 0
            let first = numbers.first().map_or(1, |&number| number.min(1));
            (numbers.into_iter().map(|number| number - first).collect(), true)
        }
        None => ((0..files.len() as u64).collect(), false),
    }
}

/// The number of the first image of the acquisition: 1 as a rule, 0 with some writers, any (`image_nr_start`) where all files
/// agree on it.
fn first_image(
    files: &[DataFile],
    places: &[u64],
    usual: u64,
    are_numbered: bool,
    expected: Option<u64>,
) -> u64 {
    let lowest = files.iter().filter_map(|file| file.image_nr_low).min().unwrap_or(1);
    let mut first = Vec::new();
    for (file, &place) in files.iter().zip(places) {
        if let Some(low) = file.image_nr_low {
            first.push(low.checked_sub(usual.saturating_mul(place)));
        }
    }
    // the last file of a whole set ends with the last image
    let last =
        files.last().filter(|_| are_numbered).and_then(|file| Some((file.image_nr_low?, file.num_frames)));
    if let (Some((low, num_frames)), Some(expected)) = (last, expected) {
        first.extend(low.saturating_add(num_frames).checked_sub(expected).map(Some));
    }
    let votes = |number: u64| first.iter().filter(|&&first| first == Some(number)).count();
    match (votes(0), votes(1)) {
        (0, 0) => {
            let agreed = first.first().copied().flatten().filter(|&number| {
                let is_first_read = places.first() == Some(&0) && files[0].image_nr_low.is_some();
                are_numbered
                    && first.iter().all(|&other| other == Some(number))
                    && (is_first_read || first.len() > 1)
            });
            agreed.unwrap_or(lowest.min(1))
        }
        (zero, one) if zero > one => 0,
        _ => lowest.min(1),
    }
}

/// Gives every file its first frame: from its own image numbers where it has them, else behind the file before it, and
/// behind the files to which the master has lost its link.
///
/// A file that cannot be read has as many frames as the files around it leave open.
fn place(files: &mut [DataFile], expected: Option<u64>) {
    let usual = files.iter().map(|file| file.num_frames).max().unwrap_or(0);
    let (places, are_numbered) = link_places(files);
    let origin = first_image(files, &places, usual, are_numbered, expected);
    for (&place, file) in places.iter().zip(files.iter_mut()) {
        let place = usual.saturating_mul(place);
        file.at_its_place = file.image_nr_low.is_some_and(|low| low.saturating_sub(origin) == place);
    }
    let in_order = files.is_sorted_by_key(|file| file.image_nr_low);
    if files.iter().all(|file| file.image_nr_low.is_some()) {
        // Of two that claim the same images, the one that is linked where it belongs comes first.
        files.sort_by_key(|file| (file.image_nr_low, !file.at_its_place));
        if !in_order {
            files[0]
                .add_problem("the files were not in the order of their image numbers; taken in that order");
        }
    }
    let mut next = 0_u64;
    let mut due = 0;
    for at in 0..files.len() {
        if files[at].image_nr_low.is_none() && are_numbered && places[at] > due {
            next = next.saturating_add(usual.saturating_mul(places[at] - due));
        }
        due = places[at] + 1;
        let stated = files[at].image_nr_low.map(|low| low.saturating_sub(origin));
        if let Some(first) = stated.filter(|&first| first < next) {
            next = settle_claim(files, at, first, next);
        }
        files[at].first = stated.filter(|&first| first >= next).unwrap_or(next);
        if files[at].num_frames == 0 && files[at].problem.is_some() {
            let following = files[at + 1..]
                .iter()
                .find_map(|file| file.image_nr_low)
                .map(|low| low.saturating_sub(origin));
            let unread_until =
                files[at + 1..].iter().take_while(|file| file.image_nr_low.is_none()).count() as u64 + 1;
            let first = files[at].first;
            let room = following.or(expected).unwrap_or(first.saturating_add(usual)).saturating_sub(first);
            files[at].num_frames = if unread_until == 1 { room } else { usual.min(room) };
        }
        next = files[at].first.saturating_add(files[at].num_frames);
    }
}

/// Notes a master that announces fewer frames than the files hold, with the first file that goes beyond. Too few frames in
/// the files are a gap, and need no note.
fn note_contradiction(files: &mut [DataFile], metadata: &Metadata, held: u64) {
    let (Some(announced), Some(images), Some(triggers)) =
        (metadata.frames(), metadata.nimages, metadata.ntrigger)
    else {
        return;
    };
    if let Some(file) = files.iter_mut().find(|file| file.first + file.num_frames > announced) {
        file.add_problem(&format!(
            "the master announces {announced} frames (nimages {images} x ntrigger {triggers}), the data files hold {held}"
        ));
    }
}

/// Two files claim the same images: `files[at]` from frame `first` on, the one before it up to `next`. Returns where the one
/// before ends when that is settled.
fn settle_claim(files: &mut [DataFile], at: usize, first: u64, next: u64) -> u64 {
    const CLAIMED: &str = "another file claims the same images";
    let Some(before) = at.checked_sub(1).and_then(|before| files.get_mut(before)) else { return next };
    if before.numbers_doubtful && before.first <= first {
        before.shorten(first - before.first);
        return first;
    }
    if !before.at_its_place {
        before.refuse(CLAIMED); // neither can be trusted
    }
    files[at].refuse(CLAIMED);
    next
}

#[cfg(test)]
mod tests;
