//! Paths that leave a file: external links, from file to file.

use std::path::PathBuf;

use super::{File, Found, Hdf5Error};

/// Files opened one after another before giving up.
const MOST_FILES: usize = 16;

/// Where a path ends that left its file.
#[derive(Debug)]
pub struct Elsewhere {
    /// The file.
    pub file: File,
    /// The path inside it.
    pub path: String,
}

/// A path that ends nowhere.
#[derive(Debug)]
pub struct Lost {
    /// The file in which, or at which, it was lost.
    pub file: PathBuf,
    /// Why.
    pub why: Hdf5Error,
}

impl File {
    /// Follows a path through every kind of link to the object at its end; None when that lies in this file.
    ///
    /// # Errors
    /// A link that leads nowhere, a file that cannot be opened, links that go round in circles or through more than 16
    /// files.
    pub fn follow(&self, path: &str) -> Result<Option<Elsewhere>, Lost> {
        let mut elsewhere: Option<Elsewhere> = None;
        let mut passed = Vec::new();
        loop {
            let (file, at) =
                elsewhere.as_ref().map_or((self, path), |elsewhere| (&elsewhere.file, &elsewhere.path));
            let lost = |why| Lost { file: file.path().to_path_buf(), why };
            let Found::External { file: name, path: onward } = file.find(at).map_err(lost)? else {
                return Ok(elsewhere);
            };
            let identity = file.identity();
            let place = (identity.device, identity.inode, at.to_owned());
            let is_circle = passed.contains(&place);
            if is_circle || passed.len() == MOST_FILES {
                let how =
                    if is_circle { "go round in circles" } else { "lead from file to file without end" };
                let why = format!("its links {how}: after {} files it goes on in {name}", passed.len());
                return Err(lost(Hdf5Error::NotFound { path: path.to_owned(), why }));
            }
            passed.push(place);
            let next = file.beside(&name);
            let file =
                File::open_with(&next, self.storage.checksums()).map_err(|why| Lost { file: next, why })?;
            elsewhere = Some(Elsewhere { file, path: onward });
        }
    }

    /// What `ask` finds at the end of a path, or None when there is nothing.
    pub(super) fn at_end<T>(
        &self,
        path: &str,
        ask: impl FnOnce(&File, &str) -> Result<T, Hdf5Error>,
    ) -> Result<Option<T>, Hdf5Error> {
        let asked = match self.follow(path) {
            Ok(None) => ask(self, path),
            Ok(Some(elsewhere)) => ask(&elsewhere.file, &elsewhere.path),
            Err(lost) => Err(lost.why),
        };
        match asked {
            Ok(found) => Ok(Some(found)),
            Err(Hdf5Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
