//! Who is told what a person should know of the stream.

use super::Notice;

/// What is done with a notice.
type Told = dyn Fn(&Notice) + Send;

/// Told of every notice.
#[derive(Default)]
pub(super) struct Listener(Option<Box<Told>>);

impl Listener {
    pub(super) fn new(told: impl Fn(&Notice) + Send + 'static) -> Self {
        Self(Some(Box::new(told)))
    }

    pub(super) fn tell(&self, notice: &Notice) {
        tracing::warn!("{notice}");
        if let Some(told) = &self.0 {
            told(notice);
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Listener").field(&self.0.is_some()).finish()
    }
}
