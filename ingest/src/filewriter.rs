//! Writes the files a DECTRIS detector writes: a master file and linked data files of compressed images.
//!
//! In: images already compressed as the detector compresses them (bitshuffle + LZ4, 12-byte big-endian header), in
//! order. Out: `NAME_master.h5` and `NAME_data_000001.h5`, ... in the layout `hdf5 nexus legacy nxmx` of the detector's
//! filewriter, which h5py with hdf5plugin and all of the usual readers open.
//!
//! Images go straight to disk, one after the other; only their places are held in memory. Every file is written under a
//! temporary name and synced; the data files are named first and the master last, so that a master that can be seen
//! belongs to a whole set, whatever happened in between. Read [`FilewriterSet`] first.

mod chunk_index;
mod error;
mod master;
mod object;
mod pending;
#[cfg(test)]
mod tests;
mod value;

use std::path::{Path, PathBuf};

use kernels::types::{CountType, DetectorShape};

pub use error::FilewriterError;
pub use master::MasterMetadata;

use chunk_index::{Chunk, place_chunk_index};
use object::{ChunkedImages, Node};
use pending::{CompleteFile, PendingFile, io, sync_folder};

/// What to do with a set of the same name in the same folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse to start.
    Refuse,
    /// Replace it, all its files, once the new set is whole.
    Replace,
}

/// A set to be written.
#[derive(Clone, Debug)]
pub struct FilewriterSettings {
    /// Start of every file name.
    pub name: String,
    /// Shape of an image.
    pub detector: DetectorShape,
    /// Type of a count.
    pub count_type: CountType,
    /// Images of a data file, at least 1; the last file may hold fewer.
    pub images_per_file: u64,
    /// A set of the same name.
    pub existing: Existing,
    /// What the master file says.
    pub metadata: MasterMetadata,
}

/// What was written.
#[derive(Clone, Debug)]
pub struct FilewriterSummary {
    /// The master file.
    pub master: PathBuf,
    /// The data files, in order.
    pub data_files: Vec<PathBuf>,
    /// Images of the set.
    pub num_images: u64,
    /// Bytes of all files together.
    pub bytes: u64,
}

/// A set being written. Dropped before [`finish`](Self::finish), it leaves nothing behind.
#[derive(Debug)]
pub struct FilewriterSet {
    folder: PathBuf,
    settings: FilewriterSettings,
    open: Option<OpenFile>,
    complete: Vec<CompleteFile>,
    num_images: u64,
}

#[derive(Debug)]
struct OpenFile {
    file: PendingFile,
    chunks: Vec<Chunk>,
}

impl FilewriterSet {
    /// Starts a set in `folder`, which is made when it is missing.
    ///
    /// # Errors
    /// [`FilewriterError::Exists`] when the set's master is there and may not be replaced; `BadName`, `BadSetting` for
    /// settings no set can have; `Io` when the folder cannot be made.
    pub fn create(folder: &Path, settings: FilewriterSettings) -> Result<Self, FilewriterError> {
        check(&settings)?;
        std::fs::create_dir_all(folder).map_err(io("making the folder", folder))?;
        let set =
            Self { folder: folder.to_owned(), settings, open: None, complete: Vec::new(), num_images: 0 };
        if set.settings.existing == Existing::Refuse {
            // The first data file as well: it would be somebody's whose master is elsewhere.
            for path in [set.master_path(), set.data_path(1)] {
                if path.exists() {
                    return Err(FilewriterError::Exists { path });
                }
            }
        }
        Ok(set)
    }

    /// Appends one image, compressed.
    ///
    /// # Errors
    /// [`FilewriterError::WrongChunk`] when the chunk's header does not announce an image of this set; `Io`. After an
    /// `Io` error the set cannot be continued.
    pub fn append_chunk(&mut self, compressed: &[u8]) -> Result<(), FilewriterError> {
        let image = self.num_images + 1;
        let bytes = self.check_chunk(image, compressed)?;
        if self.open.is_none() {
            let number = self.complete.len() as u64 + 1;
            self.open =
                Some(OpenFile { file: PendingFile::create(self.data_path(number))?, chunks: Vec::new() });
        }
        if let Some(open) = &mut self.open {
            let address = open.file.append(compressed)?;
            open.chunks.push(Chunk { address, bytes });
            self.num_images = image;
            if open.chunks.len() as u64 == self.settings.images_per_file {
                self.close_data_file()?;
            }
        }
        Ok(())
    }

    /// Images appended so far.
    pub fn num_images(&self) -> u64 {
        self.num_images
    }

    /// Completes all files, gives them their names, the master last, and makes the names durable.
    ///
    /// # Errors
    /// [`FilewriterError::Empty`] without an image; `Io`.
    pub fn finish(mut self) -> Result<FilewriterSummary, FilewriterError> {
        if self.num_images == 0 {
            return Err(FilewriterError::Empty { name: self.settings.name.clone() });
        }
        self.close_data_file()?;
        let data_names: Vec<String> =
            (1..=self.complete.len() as u64).map(|number| self.data_name(number)).collect();
        let root = master::master(
            &self.settings.metadata,
            self.settings.detector,
            self.settings.count_type,
            self.num_images,
            &data_names,
        );
        let file = PendingFile::create(self.master_path())?;
        let metadata = file.metadata();
        let master = file.complete(metadata, &root)?;

        if self.settings.existing == Existing::Replace {
            self.remove_previous()?;
        }
        let bytes = master.bytes + self.complete.iter().map(|file| file.bytes).sum::<u64>();
        let mut data_files = Vec::with_capacity(self.complete.len());
        for file in self.complete {
            data_files.push(file.publish()?);
        }
        sync_folder(&self.folder)?;
        let master = master.publish()?;
        sync_folder(&self.folder)?;
        Ok(FilewriterSummary { master, data_files, num_images: self.num_images, bytes })
    }

    fn close_data_file(&mut self) -> Result<(), FilewriterError> {
        let Some(OpenFile { file, chunks }) = self.open.take() else { return Ok(()) };
        let DetectorShape { rows, cols } = self.settings.detector;
        let num_images = chunks.len() as u64;
        let mut metadata = file.metadata();
        let images = ChunkedImages {
            dims: [num_images, rows as u64, cols as u64],
            count_bytes: self.settings.count_type.bytes() as u8,
            index: place_chunk_index(&mut metadata, &chunks),
        };
        let data = Node::images("data", images)
            .with("image_nr_low", self.num_images - num_images + 1)
            .with("image_nr_high", self.num_images);
        let entry = Node::group("entry", "NXentry", vec![Node::group("data", "NXdata", vec![data])]);
        let root = Node::group("", "", vec![entry]);
        self.complete.push(file.complete(metadata, &root)?);
        Ok(())
    }

    /// Takes an earlier set of the same name away: its master first, so that no mixture ever looks whole.
    fn remove_previous(&self) -> Result<(), FilewriterError> {
        let remove = |path: PathBuf| match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("removing", &path)(error)),
            outcome => Ok(outcome.is_ok()),
        };
        let mut removed = remove(self.master_path())?;
        if removed {
            sync_folder(&self.folder)?;
        }
        let mut number = 1;
        while removed || number == 1 {
            removed = remove(self.data_path(number))?;
            number += 1;
        }
        Ok(())
    }

    fn check_chunk(&self, image: u64, compressed: &[u8]) -> Result<u32, FilewriterError> {
        let expected_total = (self.settings.detector.pixels() * self.settings.count_type.bytes()) as u64;
        let got_total = compressed
            .first_chunk::<12>()
            .and_then(|header| header.first_chunk::<8>())
            .map_or(0, |total| u64::from_be_bytes(*total));
        match u32::try_from(compressed.len()) {
            Ok(bytes) if got_total == expected_total => Ok(bytes),
            _ => Err(FilewriterError::WrongChunk {
                image,
                got_bytes: compressed.len(),
                got_total,
                expected_total,
            }),
        }
    }

    fn master_path(&self) -> PathBuf {
        self.folder.join(format!("{}_master.h5", self.settings.name))
    }

    fn data_name(&self, number: u64) -> String {
        format!("{}_data_{number:06}.h5", self.settings.name)
    }

    fn data_path(&self, number: u64) -> PathBuf {
        self.folder.join(self.data_name(number))
    }
}

fn check(settings: &FilewriterSettings) -> Result<(), FilewriterError> {
    const LONGEST_NAME: usize = 200;
    let name = &settings.name;
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains(['/', '\\', '\0']) {
        return Err(FilewriterError::BadName { got: name.clone() });
    }
    let DetectorShape { rows, cols } = settings.detector;
    let image_bytes = settings.detector.pixels().saturating_mul(settings.count_type.bytes());
    if rows == 0 || cols == 0 || u32::try_from(image_bytes).is_err() {
        return Err(FilewriterError::BadSetting {
            what: "detector shape",
            got: settings.detector.to_string(),
            expected: "at least one pixel and less than 4 GiB of counts".to_owned(),
        });
    }
    if settings.images_per_file == 0 {
        return Err(FilewriterError::BadSetting {
            what: "images per file",
            got: "0".to_owned(),
            expected: "at least 1".to_owned(),
        });
    }
    let mask = settings.metadata.pixel_mask.len();
    if mask != 0 && mask != settings.detector.pixels() {
        return Err(FilewriterError::BadSetting {
            what: "pixel mask",
            got: format!("{mask} pixels"),
            expected: format!("{} or none", settings.detector.pixels()),
        });
    }
    Ok(())
}
