//! Writes the files a DECTRIS detector writes: a master file and linked data files of compressed images.
//!
//! In: images already compressed as the detector compresses them (as a rule bitshuffle + LZ4, 12-byte big-endian header), in
//! order, and how many did not come between them. Out: `NAME_master.h5` and `NAME_data_000001.h5`, ... in the layout `hdf5 nexus legacy nxmx` of the detector's
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
mod side_car;
#[cfg(test)]
mod tests;
mod value;

use std::ops::Range;
use std::path::{Path, PathBuf};

use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};

pub use error::FilewriterError;
pub use master::{MasterMetadata, MasterTable, MasterValue};
pub(crate) use side_car::write_side_car;

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
    /// How every image is compressed; a dataset has no filter for [`Encoding::Lz4Block`].
    pub encoding: Encoding,
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
    /// Images of the set, those that were skipped among them.
    pub num_images: u64,
    /// Images that were skipped, counted from 0, in rising order.
    pub missing: Vec<Range<u64>>,
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
    missing: Vec<Range<u64>>,
}

#[derive(Debug)]
struct OpenFile {
    file: PendingFile,
    chunks: Vec<Chunk>,
    num_images: u64,
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
        let set = Self {
            folder: folder.to_owned(),
            settings,
            open: None,
            complete: Vec::new(),
            num_images: 0,
            missing: Vec::new(),
        };
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
        let bytes = self.check_chunk(self.num_images + 1, compressed)?;
        let open = self.open_file()?;
        let address = open.file.append(compressed)?;
        open.chunks.push(Chunk { image: open.num_images, address, bytes });
        self.count(1)
    }

    /// Leaves out the next images, which did not come. The set counts them and has no chunk for them: readers find zeros in
    /// their place, and sideband a gap. The master lists them.
    ///
    /// # Errors
    /// `Io`, after which the set cannot be continued.
    pub fn skip(&mut self, images: u64) -> Result<(), FilewriterError> {
        if images == 0 {
            return Ok(());
        }
        let first = self.num_images;
        match self.missing.last_mut().filter(|last| last.end == first) {
            Some(last) => last.end += images,
            None => self.missing.push(first..first + images),
        }
        let end = first + images;
        while self.num_images < end {
            let left_in_file = self.settings.images_per_file - self.open_file()?.num_images;
            self.count(left_in_file.min(end - self.num_images))?;
        }
        Ok(())
    }

    /// The data file that the next image belongs into.
    fn open_file(&mut self) -> Result<&mut OpenFile, FilewriterError> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let file = PendingFile::create(self.data_path(self.complete.len() as u64 + 1))?;
                OpenFile { file, chunks: Vec::new(), num_images: 0 }
            }
        };
        Ok(self.open.insert(open))
    }

    /// Counts images of the open file, and closes it when it is full.
    fn count(&mut self, images: u64) -> Result<(), FilewriterError> {
        self.num_images += images;
        if let Some(open) = &mut self.open {
            open.num_images += images;
            if open.num_images == self.settings.images_per_file {
                self.close_data_file()?;
            }
        }
        Ok(())
    }

    /// Images appended and skipped so far.
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
        let root = master::master(&self.settings, self.num_images, &self.missing, &data_names);
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
        Ok(FilewriterSummary {
            master,
            data_files,
            num_images: self.num_images,
            missing: self.missing,
            bytes,
        })
    }

    fn close_data_file(&mut self) -> Result<(), FilewriterError> {
        let Some(OpenFile { file, chunks, num_images }) = self.open.take() else { return Ok(()) };
        let DetectorShape { rows, cols } = self.settings.detector;
        let mut metadata = file.metadata();
        let images = ChunkedImages {
            dims: [num_images, rows as u64, cols as u64],
            count_bytes: self.settings.count_type.bytes() as u8,
            encoding: self.settings.encoding,
            index: place_chunk_index(&mut metadata, &chunks, num_images),
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
        let header = || compressed.first_chunk::<12>().and_then(|header| header.first_chunk::<8>());
        let got_total = match self.settings.encoding {
            Encoding::Raw | Encoding::Lz4Block => compressed.len() as u64,
            Encoding::Bslz4 | Encoding::Lz4Framed => header().map_or(0, |total| u64::from_be_bytes(*total)),
        };
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
    if settings.encoding == Encoding::Lz4Block {
        return Err(FilewriterError::BadSetting {
            what: "compression",
            got: settings.encoding.to_string(),
            expected: "one that HDF5 has a filter for: bslz4, lz4 (framed), or raw".to_owned(),
        });
    }
    if settings.images_per_file == 0 {
        return Err(FilewriterError::BadSetting {
            what: "images per file",
            got: "0".to_owned(),
            expected: "at least 1".to_owned(),
        });
    }
    let pixels = settings.detector.pixels();
    for (what, got) in [
        ("pixel mask", settings.metadata.pixel_mask.len()),
        ("flat field", settings.metadata.flat_field.len()),
    ] {
        if got != 0 && got != pixels {
            return Err(FilewriterError::BadSetting {
                what,
                got: format!("{got} pixels"),
                expected: format!("{pixels} or none"),
            });
        }
    }
    Ok(())
}
