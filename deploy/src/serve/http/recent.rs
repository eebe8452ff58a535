//! Images that were just computed: many who look at the same thing cost no more than one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::serve::images::{Made, Stamp};

/// Images that are kept.
const MOST_KEPT: usize = 24;

/// The images, the newest last.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Vec<(String, Stamp, Arc<Made>)>>);

impl Recent {
    fn all(&self) -> MutexGuard<'_, Vec<(String, Stamp, Arc<Made>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The image of this name, if it was made of the same.
    pub(super) fn get(&self, key: &str, stamp: Stamp) -> Option<Arc<Made>> {
        let all = self.all();
        let found = all.iter().find(|(name, of, _)| name == key && *of == stamp)?;
        Some(found.2.clone())
    }

    /// Keeps an image in the place of older ones of its name.
    pub(super) fn put(&self, key: String, stamp: Stamp, made: Arc<Made>) {
        let mut all = self.all();
        all.retain(|(name, of, _)| *name != key || of.series != stamp.series);
        if all.len() >= MOST_KEPT {
            all.remove(0);
        }
        all.push((key, stamp, made));
    }
}
