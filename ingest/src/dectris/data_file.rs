//! One data file of a set: where its frames lie, or why it cannot be used.

use std::path::{Path, PathBuf};

use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};

use crate::FileIdentity;
use crate::hdf5::{ByteOrder, ChunkLocation, Dataset, ElementType, File, Filter, Hdf5Error, filter_id};
use crate::source::StoredFrame;

/// What all files of a set have in common.
pub(super) type Kind = (DetectorShape, CountType, Encoding);

/// A data file and what was found in it.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// The file, as the master's link names it, in the master's folder.
    pub path: PathBuf,
    /// First frame, counted from 0 over the acquisition.
    pub first: u64,
    /// Frames it holds, or should hold when it cannot be read.
    pub num_frames: u64,
    /// Where every frame lies; empty when the file cannot be used.
    pub frames: Vec<StoredFrame>,
    /// Number of its first image as the file states it, usually counted from 1.
    pub image_nr_low: Option<u64>,
    /// Number in the name of the master's link to it, such as 3 of `data_000003`.
    pub link_number: Option<u64>,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// Its image numbers and its number of frames contradict each other.
    pub(super) numbers_doubtful: bool,
    /// Its first image is the one that belongs where the master's links have it.
    pub(super) at_its_place: bool,
    /// The file as it was when its index was read; the default when it could not be.
    pub(super) identity: FileIdentity,
    kind: Option<Kind>,
}

impl DataFile {
    /// The images at the end of a path in a file that a link names.
    pub(super) fn linked(path: &Path, dataset: &str) -> Self {
        match File::open(path) {
            Ok(file) => Self::at_end_of(&file, dataset),
            Err(error) => Self::unusable(path, plain(&error)),
        }
    }

    /// The images at the end of a path that starts in an open file, wherever its links lead.
    pub(super) fn at_end_of(file: &File, dataset: &str) -> Self {
        match file.follow(dataset) {
            Ok(None) => Self::in_file(file, dataset),
            Ok(Some(elsewhere)) => Self::in_file(&elsewhere.file, &elsewhere.path),
            Err(lost) => Self::unusable(&lost.file, plain(&lost.why)),
        }
    }

    /// A file of so many frames whose images begin with this number; for tests of where files belong.
    #[cfg(test)]
    pub(super) fn numbered(link_number: u64, num_frames: u64, image_nr_low: Option<u64>) -> Self {
        let frames = vec![StoredFrame { offset: 0, bytes: 1 }; num_frames as usize];
        let identity = FileIdentity { inode: 1000 + link_number, bytes: 1, ..FileIdentity::default() };
        let unusable = Self::unusable(Path::new("test"), String::new());
        Self {
            num_frames,
            frames,
            image_nr_low,
            link_number: Some(link_number),
            problem: None,
            identity,
            ..unusable
        }
    }

    /// The images of an open file.
    fn in_file(file: &File, dataset: &str) -> Self {
        match Self::index(file, dataset) {
            Ok(found) => found,
            Err(error) => Self::unusable(file.path(), plain(&error)),
        }
    }

    fn unusable(path: &Path, problem: String) -> Self {
        Self {
            path: path.to_path_buf(),
            first: 0,
            num_frames: 0,
            frames: Vec::new(),
            image_nr_low: None,
            link_number: None,
            problem: Some(problem),
            numbers_doubtful: false,
            at_its_place: false,
            identity: FileIdentity::default(),
            kind: None,
        }
    }

    fn index(file: &File, path: &str) -> Result<Self, Hdf5Error> {
        let dataset = file.dataset(path)?;
        let (num_frames, detector) = frames_shape(&dataset, path)?;
        let count_type = count_type(&dataset)?;
        let encoding = encoding(dataset.filters(), count_type)?;
        let (frames, problems) = locate(&dataset, num_frames, detector, count_type)?;
        let number = |name| file.attribute(path, name).ok().flatten().and_then(|value| value.unsigned());
        let mut found = Self {
            path: file.path().to_path_buf(),
            first: 0,
            num_frames,
            frames,
            image_nr_low: number("image_nr_low"),
            link_number: None,
            problem: None,
            numbers_doubtful: false,
            at_its_place: false,
            identity: file.identity(),
            kind: Some((detector, count_type, encoding)),
        };
        found.note_problems(problems, number("image_nr_high"));
        Ok(found)
    }

    /// Problems that leave some frames usable.
    fn note_problems(&mut self, mut problems: Vec<String>, image_nr_high: Option<u64>) {
        let unwritten = self.frames.iter().filter(|frame| frame.bytes == 0).count();
        let beyond = self.frames.len() as u64 - unwritten as u64 - self.frames_present();
        if unwritten > 0 {
            let all = self.num_frames;
            problems.push(match (problems.is_empty(), unwritten as u64 == all) {
                (true, true) => format!("none of its {all} frames was ever written"),
                (true, false) => format!("{unwritten} of {all} frames were never written"),
                (false, _) => format!("{unwritten} of {all} frames cannot be found in it"),
            });
        }
        if beyond > 0 {
            problems.push(format!("cut short: {beyond} of {} frames lie beyond its end", self.num_frames));
        }
        if let (Some(low), Some(high)) = (self.image_nr_low, image_nr_high)
            && !numbers_fit(low, high, self.num_frames)
        {
            problems.push(format!("it says images {low} to {high}, but holds {}", self.num_frames));
            // One of the three is wrong: none says where the frames belong.
            self.image_nr_low = None;
            self.numbers_doubtful = true;
        }
        self.problem = (!problems.is_empty()).then(|| problems.join("; "));
    }

    /// Shape, type and compression, when the file can be used.
    pub(super) fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Gives up a file whose frames are unlike those of the set.
    pub(super) fn refuse_unlike(&mut self, (detector, count_type, encoding): Kind) {
        let Some(own) = self.kind else { return };
        if own == (detector, count_type, encoding) {
            return;
        }
        self.refuse(&format!(
            "it holds {} frames of {}, {}; the set has {detector} frames of {count_type}, {encoding}",
            own.0, own.1, own.2
        ));
    }

    /// Gives up the file; its frames become a gap.
    pub(super) fn refuse(&mut self, why: &str) {
        self.add_problem(why);
        self.frames.clear();
        self.image_nr_low = None;
        self.kind = None;
    }

    /// Keeps only the first frames: the next file begins behind them.
    pub(super) fn shorten(&mut self, num_frames: u64) {
        self.add_problem(&format!("the next file's images begin after {num_frames} of its frames"));
        self.num_frames = num_frames;
        self.frames.truncate(usize::try_from(num_frames).unwrap_or(usize::MAX));
    }

    /// Notes what is wrong beside what is known already.
    pub(super) fn add_problem(&mut self, why: &str) {
        self.problem = Some(match self.problem.take() {
            Some(known) => format!("{known}; {why}"),
            None => why.to_owned(),
        });
    }

    /// Frames whose bytes lie inside the file.
    pub fn frames_present(&self) -> u64 {
        let inside = |frame: &&StoredFrame| {
            frame.bytes > 0
                && frame.offset.checked_add(frame.bytes).is_some_and(|end| end <= self.identity.bytes)
        };
        self.frames.iter().filter(inside).count() as u64
    }
}

/// Whether images `low` to `high` are so many frames, and numbers that an acquisition can have.
fn numbers_fit(low: u64, high: u64, num_frames: u64) -> bool {
    const MOST_IMAGES: u64 = 1 << 48;
    let span = high.checked_sub(low).and_then(|span| span.checked_add(1));
    span == Some(num_frames) && high < MOST_IMAGES
}

/// An error without the path, which stands beside it.
fn plain(error: &Hdf5Error) -> String {
    match error {
        Hdf5Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            "not found".to_owned()
        }
        Hdf5Error::Io { source, .. } => source.to_string(),
        Hdf5Error::NotHdf5 { bytes, .. } => format!("not an HDF5 file ({bytes} bytes)"),
        other => other.to_string(),
    }
}

fn unsupported(what: &'static str, got: String) -> Hdf5Error {
    Hdf5Error::Unsupported { what, got }
}

/// Number of frames and the shape of each; a single image counts as one frame.
fn frames_shape(dataset: &Dataset<'_>, path: &str) -> Result<(u64, DetectorShape), Hdf5Error> {
    let (frames, rows, cols) = match *dataset.shape() {
        [frames, rows, cols] => (frames, rows, cols),
        [rows, cols] => (1, rows, cols),
        ref other => {
            return Err(unsupported(
                "image dataset",
                format!("{path} of shape {other:?}, expected frames x rows x cols"),
            ));
        }
    };
    // A frame of more than 2^28 pixels is no detector's.
    let axis = |axis: u64| usize::try_from(axis).ok().filter(|&axis| (1..=1 << 16).contains(&axis));
    match (axis(rows), axis(cols)) {
        (Some(rows), Some(cols)) if rows * cols <= 1 << 28 => Ok((frames, DetectorShape { rows, cols })),
        _ => Err(unsupported("frame shape", format!("{rows} x {cols} pixels"))),
    }
}

fn count_type(dataset: &Dataset<'_>) -> Result<CountType, Hdf5Error> {
    match dataset.element() {
        ElementType::Integer { bytes: 1, signed: false, .. } => Ok(CountType::U8),
        ElementType::Integer { bytes: 2, signed: false, order: ByteOrder::Little } => Ok(CountType::U16),
        ElementType::Integer { bytes: 4, signed: false, order: ByteOrder::Little } => Ok(CountType::U32),
        other => Err(unsupported("count type", format!("{other:?}, expected little-endian u8, u16 or u32"))),
    }
}

/// How frames are compressed, from the filters they went through.
fn encoding(filters: &[Filter], count_type: CountType) -> Result<Encoding, Hdf5Error> {
    match filters {
        [] => Ok(Encoding::Raw),
        [Filter { id: filter_id::LZ4, .. }] => Ok(Encoding::Lz4Framed),
        [Filter { id: filter_id::BITSHUFFLE, values }] => {
            // (version, version, bytes of an element, elements a block, compressor); 2 is LZ4.
            match (values.get(2), values.get(4)) {
                (Some(&bytes), _) if bytes as usize != count_type.bytes() => Err(unsupported(
                    "bitshuffle",
                    format!("elements of {bytes} bytes for counts of {} bytes", count_type.bytes()),
                )),
                (_, Some(2)) => Ok(Encoding::Bslz4),
                (_, other) => {
                    Err(unsupported("bitshuffle compressor", format!("{other:?}, expected 2 (LZ4)")))
                }
            }
        }
        other => {
            let ids: Vec<u16> = other.iter().map(|filter| filter.id).collect();
            Err(unsupported(
                "compression of frames",
                format!("HDF5 filters {ids:?}, expected none, 32004 (LZ4) or 32008 (bitshuffle)"),
            ))
        }
    }
}

/// Where every frame lies, and what is wrong with some of them.
fn locate(
    dataset: &Dataset<'_>,
    num_frames: u64,
    detector: DetectorShape,
    count_type: CountType,
) -> Result<(Vec<StoredFrame>, Vec<String>), Hdf5Error> {
    let frame_bytes = (detector.pixels() * count_type.bytes()) as u64;
    if let Some((start, bytes)) = dataset.contiguous() {
        if bytes / frame_bytes < num_frames {
            return Err(unsupported(
                "contiguous frames",
                format!("{bytes} bytes for {num_frames} frames of {frame_bytes}"),
            ));
        }
        let at =
            |frame| StoredFrame { offset: start.saturating_add(frame * frame_bytes), bytes: frame_bytes };
        return Ok(((0..num_frames).map(at).collect(), Vec::new()));
    }
    let expected: &[u64] = match dataset.shape().len() {
        3 => &[1, detector.rows as u64, detector.cols as u64],
        _ => &[detector.rows as u64, detector.cols as u64],
    };
    if dataset.chunk_shape() != Some(expected) {
        return Err(unsupported(
            "chunks",
            format!("{:?}, expected one frame a chunk, {expected:?}", dataset.chunk_shape()),
        ));
    }
    let index = dataset.chunk_index_salvaged()?;
    let mut problems = Vec::new();
    if let Some(first) = index.flaws.first() {
        let more = match index.flaws.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        problems.push(format!("its list of frames is damaged: {first}{more}"));
    }
    // A chunk that skipped its filter is stored plain; the decoder is told one encoding for all, so it cannot be read.
    let filtered = !dataset.filters().is_empty();
    let plain = |chunk: &ChunkLocation| filtered && chunk.filter_mask != 0;
    let num_plain = index.chunks.iter().filter(|chunk| plain(chunk)).count();
    if num_plain > 0 {
        problems.push(format!("{num_plain} frames say that they are not compressed as the others are"));
    }
    let frame = |chunk: ChunkLocation| StoredFrame {
        offset: chunk.offset,
        bytes: if plain(&chunk) { 0 } else { chunk.bytes },
    };
    Ok((index.chunks.into_iter().map(frame).collect(), problems))
}

#[cfg(test)]
mod tests;
