//! Types of events whose destination accepts none at the moment, such as a full queue. The others are published meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::destination::Destination;
use crate::backoff::Backoff;
use crate::sink::Outage;

/// The types that met an outage and have not recovered.
#[derive(Debug)]
pub(super) struct Routes {
    backoff: Backoff,
    of_type: Mutex<HashMap<String, Destination>>,
}

/// Decision whether an event may be published now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Now,
    /// Not now. The delay is known after the other events of its type were published: [`Routes::delay`].
    Later,
}

impl Routes {
    pub(super) fn new(backoff: Backoff) -> Self {
        Routes {
            backoff,
            of_type: Mutex::default(),
        }
    }

    /// Decides which events of a batch, in their order, may be published now.
    pub(super) fn admit<'a>(
        &self,
        kinds: impl IntoIterator<Item = &'a str>,
        now: Instant,
    ) -> Vec<Admission> {
        let mut of_type = self.of_type();
        // Number of further events of each type; `None` without a limit.
        let mut left: HashMap<&str, Option<u32>> = HashMap::new();
        let admit = |kind: &'a str| {
            let left = left.entry(kind).or_insert_with(|| {
                let destination = of_type.get_mut(kind)?;
                if destination.pause(now).is_some() {
                    return Some(0);
                }
                if destination.allowed() == 1 {
                    destination.begin_trial(self.backoff, now);
                }
                Some(destination.allowed())
            });
            match left {
                None => Admission::Now,
                Some(0) => Admission::Later,
                Some(many) => {
                    *many -= 1;
                    Admission::Now
                }
            }
        };
        kinds.into_iter().map(admit).collect()
    }

    /// Records that the destination of a type accepts no events.
    pub(super) fn outage(&self, kind: &str, outage: &Outage, now: Instant) {
        let mut of_type = self.of_type();
        let is_new = !of_type.contains_key(kind);
        let destination = of_type
            .entry(kind.to_owned())
            .or_insert_with(|| Destination::new(now));
        destination.outage(self.backoff, outage.retry_after(), now);
        if is_new {
            tracing::warn!(kind, %outage, "events of this type are put off; no attempt is spent, and they are tried again");
        } else {
            tracing::debug!(kind, %outage, "events of this type are still put off");
        }
    }

    /// Records that the destination of a type has accepted or refused events.
    pub(super) fn success(&self, kind: &str, now: Instant) {
        let mut of_type = self.of_type();
        if let Some(destination) = of_type.get_mut(kind) {
            destination.success(now);
            if destination.is_over() {
                of_type.remove(kind);
                tracing::info!(kind, "events of this type are published again");
            }
        }
    }

    /// Returns the delay of an event of this type that was not published.
    pub(super) fn delay(&self, kind: &str, now: Instant) -> Duration {
        let of_type = self.of_type();
        let pause = of_type
            .get(kind)
            .and_then(|destination| destination.pause(now));
        pause.unwrap_or_default()
    }

    fn of_type(&self) -> MutexGuard<'_, HashMap<String, Destination>> {
        self.of_type.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_is_out_is_tried_with_one_event_and_the_others_go_on() {
        let routes = Routes::new(Backoff {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(1),
        });
        let batch = ["full", "fine", "full", "full", "fine"];
        let admitted = |now: Instant| -> Vec<bool> {
            let admitted = routes.admit(batch, now).into_iter();
            admitted.map(|it| it == Admission::Now).collect()
        };
        let mut now = Instant::now();
        assert_eq!(admitted(now), [true; 5]);
        routes.outage("full", &Outage::new("full"), now);
        assert_eq!(admitted(now), [false, true, false, false, true]);
        assert!(routes.delay("full", now) > Duration::ZERO);
        now += Duration::from_secs(2);
        assert_eq!(admitted(now), [true, true, false, false, true]);
        assert_eq!(
            admitted(now),
            [false, true, false, false, true],
            "one trial at a time"
        );
        routes.success("full", now);
        assert_eq!(admitted(now), [true, true, true, false, true]);
        routes.success("full", now);
        assert_eq!(admitted(now), [true; 5]);
        assert_eq!(routes.delay("fine", now), Duration::ZERO);
    }
}
