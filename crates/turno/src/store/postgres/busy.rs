//! Which resources were busy a moment ago. Whoever asks for one of them again will most likely be told
//! the same, so the store reads before it calls. A wrong guess costs one read, never a wrong answer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most resources that are remembered; beyond, all are forgotten, which costs some calls.
const REMEMBERED: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct BusyLately(Mutex<HashMap<String, Instant>>);

impl BusyLately {
    /// Was it busy, with a holder whose time is not up?
    pub(super) fn is_likely(&self, resource: &str) -> bool {
        self.all().get(resource).is_some_and(|until| Instant::now() < *until)
    }

    pub(super) fn note(&self, resource: &str, remaining: Duration) {
        let mut all = self.all();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(resource.to_owned(), Instant::now() + remaining);
    }

    pub(super) fn forget(&self, resource: &str) {
        self.all().remove(resource);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
