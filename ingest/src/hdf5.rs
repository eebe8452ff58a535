//! Reads HDF5 metadata: groups, links, attributes, small datasets, and where the chunks of large ones lie.
//!
//! Our own reader of the published file format (HDF5 File Format Specification 3.0 and 4.0, The HDF Group), for what
//! detectors and h5py write. It never decodes detector frames: it says where each lies ([`Dataset::chunk_index`]).
//! Nothing in a file is trusted: every address is inside the file, every length bounded by it, every walk by a budget.
//! Read [`File::open`] and [`File::dataset`] first.

mod attribute;
mod btree1;
mod btree2;
pub(crate) mod checksum;
mod chunk_arrays;
mod chunk_index;
mod cursor;
mod dataset;
mod error;
mod follow;
mod fractal_heap;
mod group;
mod messages;
mod object_header;
mod storage;
mod superblock;
mod value;

pub use chunk_index::{ChunkIndex, ChunkLocation};
pub use dataset::{Dataset, Filter, filter_id};
pub use error::Hdf5Error;
pub use follow::{Elsewhere, Lost};
pub use group::{Link, LinkTarget};
pub use messages::{ByteOrder, ElementType};
pub use storage::Checksums;
pub use value::Value;

use std::path::{Path, PathBuf};

use group::Group;
use storage::Storage;

use crate::identity::FileIdentity;

/// Links followed from the root to an object before giving up.
const MOST_LINKS: usize = 32;

/// An open HDF5 file, read only.
#[derive(Debug)]
pub struct File {
    storage: Storage,
    root: u64,
}

/// Where following a path ended.
#[derive(Debug)]
pub enum Found {
    /// An object of this file, by the address of its header.
    Here(u64),
    /// The path goes on in another file, named as the link names it.
    External {
        /// File named by the link, as written there.
        file: String,
        /// Path inside that file, with what was left of the path appended.
        path: String,
    },
}

impl File {
    /// Opens a file and reads its superblock.
    ///
    /// # Errors
    /// [`Hdf5Error::Io`]; [`Hdf5Error::NotHdf5`] when no superblock is found; [`Hdf5Error::Unsupported`] for a version from the future.
    pub fn open(path: &Path) -> Result<Self, Hdf5Error> {
        Self::open_with(path, Checksums::Verify)
    }

    /// The same, with a choice what to do about checksums.
    ///
    /// # Errors
    /// As [`File::open`].
    pub fn open_with(path: &Path, checksums: Checksums) -> Result<Self, Hdf5Error> {
        let mut storage = Storage::open(path, checksums)?;
        let root = superblock::read(&mut storage)?;
        Ok(Self { storage, root })
    }

    /// The path it was opened with.
    pub fn path(&self) -> &Path {
        self.storage.path()
    }

    /// Bytes in the file when it was opened.
    pub fn num_bytes(&self) -> u64 {
        self.storage.num_bytes()
    }

    /// Which file it is, as it was when opened.
    pub fn identity(&self) -> FileIdentity {
        self.storage.identity()
    }

    /// The links of a group, sorted by name.
    ///
    /// # Errors
    /// [`Hdf5Error::NotFound`] when the path leads nowhere or out of this file, and whatever is wrong with the file.
    pub fn links(&self, group: &str) -> Result<Vec<Link>, Hdf5Error> {
        let address = self.here(group)?;
        let mut links = Group::read(&self.storage, address)?.links;
        links.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(links)
    }

    /// The dataset at a path such as `/entry/data/data_000001`, in this file.
    ///
    /// # Errors
    /// [`Hdf5Error::NotFound`] when there is none, or when a link leads to another file ([`File::follow`] goes there).
    pub fn dataset(&self, path: &str) -> Result<Dataset<'_>, Hdf5Error> {
        Dataset::read(&self.storage, self.here(path)?, path)
    }

    /// A whole small dataset, in this file or in one that links lead to, or None when there is none at the path.
    ///
    /// # Errors
    /// Whatever is wrong with a dataset that is there, or with a file a link names.
    pub fn value(&self, path: &str) -> Result<Option<Value>, Hdf5Error> {
        self.at_end(path, |file, path| file.dataset(path)?.read_all())
    }

    /// An attribute of the object at a path, in this file or in one that links lead to, or None when there is none.
    ///
    /// # Errors
    /// Whatever is wrong with an object that is there, or with a file a link names.
    pub fn attribute(&self, path: &str, name: &str) -> Result<Option<Value>, Hdf5Error> {
        let found = self.at_end(path, |file, path| attribute::read(&file.storage, file.here(path)?, name))?;
        Ok(found.flatten())
    }

    fn here(&self, path: &str) -> Result<u64, Hdf5Error> {
        match self.find(path)? {
            Found::Here(address) => Ok(address),
            Found::External { file, .. } => Err(Hdf5Error::NotFound {
                path: path.to_owned(),
                why: format!("it lies in another file, {file}"),
            }),
        }
    }

    /// Follows a path, through hard and soft links, to an object or to the file where it goes on.
    ///
    /// # Errors
    /// [`Hdf5Error::NotFound`] when a part of the path is missing or links go round in circles.
    pub fn find(&self, path: &str) -> Result<Found, Hdf5Error> {
        let missing = |why: String| Hdf5Error::NotFound { path: path.to_owned(), why };
        let mut rest: Vec<String> = parts(path);
        let mut address = self.root;
        let mut done: Vec<String> = Vec::new();
        let mut followed = 0;
        while let Some(part) = rest.pop() {
            let group = Group::read(&self.storage, address)?;
            let link = group.links.into_iter().find(|link| link.name == part);
            match link.map(|link| link.target) {
                None => return Err(missing(format!("/{} has no '{part}'", done.join("/")))),
                Some(LinkTarget::Hard(target)) => {
                    address = target;
                    done.push(part);
                }
                Some(LinkTarget::Soft(target)) => {
                    followed += 1;
                    if followed > MOST_LINKS {
                        return Err(missing("links go round in circles".to_owned()));
                    }
                    if target.starts_with('/') {
                        address = self.root;
                        done.clear();
                    }
                    rest.extend(parts(&target));
                }
                Some(LinkTarget::External { file, path }) => {
                    rest.reverse();
                    let path = std::iter::once(path).chain(rest).collect::<Vec<_>>().join("/");
                    return Ok(Found::External { file, path });
                }
            }
        }
        Ok(Found::Here(address))
    }

    /// The file a link names; what the link says, never a computed name.
    ///
    /// It is looked for in this file's folder and then, when the path that was opened is a symbolic link, in the folder of
    /// the file behind it, as HDF5's own library does. The path in this file's folder when it is in neither.
    pub fn beside(&self, name: &str) -> PathBuf {
        let in_folder_of = |path: &Path| path.parent().unwrap_or(Path::new("")).join(name);
        let here = in_folder_of(self.path());
        if here.exists() {
            return here;
        }
        let behind = self.path().canonicalize().ok().map(|path| in_folder_of(&path));
        behind.filter(|path| path.exists()).unwrap_or(here)
    }
}

/// The parts of a path, last first.
fn parts(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").rev().map(str::to_owned).collect()
}
