//! At most one warning or error per second and cause: the others are counted, and the count is logged.
//!
//! A store or a broker that is out for five seconds fails thousands of requests, each of which logs the same line.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

/// Period in which one line per cause is logged.
const INTERVAL: Duration = Duration::from_secs(1);
/// Target of the lines with the counts.
const TARGET: &str = "turno::repeated";
/// Fields that contain the cause of a line. Other fields, such as ids, differ from line to line.
const CAUSE_FIELDS: [&str; 4] = ["error", "outage", "cause", "why"];
/// Maximum size of a cause that is compared and shown.
const MAX_CAUSE_BYTES: usize = 300;
/// Maximum number of causes that are distinguished at a time. Beyond it, lines are distinguished by their place in the code.
const MAX_CAUSES: usize = 1000;

/// A filter that passes the first line of each cause, and counts the lines that follow within a second.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeats(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    causes: HashMap<Cause, Seen>,
    is_ending: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Cause {
    callsite: Identifier,
    text: String,
}

/// A line that was logged, and the number of its repetitions since.
#[derive(Debug)]
struct Seen {
    logged: Instant,
    times: u64,
    level: Level,
    message: String,
}

/// The log line for the repetitions of one cause.
#[derive(Debug)]
struct Summary {
    times: u64,
    level: Level,
    message: String,
    cause: String,
}

impl Repeats {
    /// Starts the thread that logs the counts. Ended by [`Reporter::end`].
    pub(super) fn report(&self) -> std::io::Result<Reporter> {
        let repeats = self.clone();
        let thread = std::thread::Builder::new()
            .name("repeated-log-lines".to_owned())
            .spawn(move || {
                while let Some(due) = repeats.next_due() {
                    due.iter().for_each(Summary::log);
                }
            })?;
        Ok(Reporter {
            repeats: self.clone(),
            thread,
        })
    }

    /// Waits for counts that are due; `None` at the end. Sleeps while there is nothing to count.
    fn next_due(&self) -> Option<Vec<Summary>> {
        let mut state = self.state();
        loop {
            let is_ending = state.is_ending;
            let due = state.due(Instant::now());
            if !due.is_empty() {
                return Some(due);
            }
            if is_ending {
                return None;
            }
            state = match state.next() {
                None => self
                    .0
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let pause = next.saturating_duration_since(Instant::now());
                    let waited = self.0.changed.wait_timeout(state, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Whether a line is the first of its cause in this second. If not, it is counted.
    fn is_first(&self, event: &Event<'_>) -> bool {
        let mut line = LogLine::default();
        event.record(&mut line);
        let mut cause = Cause {
            callsite: event.metadata().callsite(),
            text: line.cause,
        };
        let mut state = self.state();
        if state.causes.len() >= MAX_CAUSES && !state.causes.contains_key(&cause) {
            cause.text.clear();
        }
        if let Some(seen) = state.causes.get_mut(&cause) {
            seen.times += 1;
            return false;
        }
        let seen = Seen {
            logged: Instant::now(),
            times: 0,
            level: *event.metadata().level(),
            message: line.message,
        };
        state.causes.insert(cause, seen);
        self.0.changed.notify_one();
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns when the next count is due.
    fn next(&self) -> Option<Instant> {
        self.causes
            .values()
            .map(|seen| seen.logged + INTERVAL)
            .min()
    }

    /// Returns the counts of the periods that have ended, and resets them. A cause that was not repeated is removed.
    fn due(&mut self, now: Instant) -> Vec<Summary> {
        let is_ending = self.is_ending;
        let has_ended = |seen: &Seen| is_ending || now >= seen.logged + INTERVAL;
        self.causes
            .retain(|_, seen| seen.times > 0 || !has_ended(seen));
        let ended = self.causes.iter_mut().filter(|(_, seen)| has_ended(seen));
        ended
            .map(|(cause, seen)| {
                seen.logged = now;
                Summary {
                    times: std::mem::take(&mut seen.times),
                    level: seen.level,
                    message: seen.message.clone(),
                    cause: cause.text.clone(),
                }
            })
            .collect()
    }
}

impl Summary {
    fn log(&self) {
        let Summary {
            times,
            level,
            message,
            cause,
        } = self;
        match *level {
            Level::ERROR => {
                tracing::error!(target: TARGET, times, cause, "repeated in the last second: {message}");
            }
            _ => {
                tracing::warn!(target: TARGET, times, cause, "repeated in the last second: {message}");
            }
        }
    }
}

impl<S> Filter<S> for Repeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match *metadata.level() > Level::WARN {
            true => Interest::always(),
            // Each line is checked.
            false => Interest::sometimes(),
        }
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        *metadata.level() > Level::WARN || metadata.target() == TARGET || self.is_first(event)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
}

/// The fields of a line that identify its cause.
#[derive(Debug, Default)]
struct LogLine {
    message: String,
    cause: String,
}

impl LogLine {
    fn add(&mut self, field: &Field, text: &str) {
        let into = match field.name() {
            "message" => &mut self.message,
            name if CAUSE_FIELDS.contains(&name) => &mut self.cause,
            _ => return,
        };
        let room = MAX_CAUSE_BYTES.saturating_sub(into.len());
        into.push_str(&text[..text.floor_char_boundary(room)]);
    }
}

impl Visit for LogLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}

/// The thread that logs the counts.
#[derive(Debug)]
pub(super) struct Reporter {
    repeats: Repeats,
    thread: JoinHandle<()>,
}

impl Reporter {
    /// Logs the last counts and ends the thread.
    pub(super) fn end(self) {
        self.repeats.state().is_ending = true;
        self.repeats.0.changed.notify_one();
        // A thread that has panicked has nothing more to log.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io;

    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn take(&self) -> Vec<String> {
            let bytes = std::mem::take(&mut *self.0.lock().unwrap());
            let text = String::from_utf8(bytes).unwrap();
            text.lines().map(str::to_owned).collect()
        }
    }

    const OUTAGE: u64 = 5_000;

    fn outage() {
        for id in 0..OUTAGE {
            tracing::warn!(
                id,
                error = "connection refused",
                "the store does not answer"
            );
        }
    }

    /// Returns the lines that some work logs through a filter.
    pub(in crate::logging) fn logged(
        filter: impl Filter<tracing_subscriber::Registry> + Send + Sync + 'static,
        work: impl FnOnce(),
    ) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_filter(filter);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log), work);
        lines.take()
    }

    #[test]
    fn one_line_per_second_and_cause_and_then_the_count() {
        let repeats = Repeats::default();
        let lines = logged(repeats.clone(), || {
            outage();
            tracing::warn!(error = "too many clients", "the store does not answer");
            tracing::info!("not limited");
            tracing::info!("not limited");
            let later = Instant::now() + INTERVAL;
            repeats.state().due(later).iter().for_each(Summary::log);
            assert!(repeats.state().due(later + INTERVAL).is_empty());
            assert!(
                repeats.state().causes.is_empty(),
                "nothing is remembered for ever"
            );
        });
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(
            lines[0].contains("id=0") && lines[1].contains("too many clients"),
            "{lines:?}"
        );
        let repeated = "repeated in the last second: the store does not answer times=4999 cause=\"connection refused\"";
        assert!(lines[4].contains(repeated), "{lines:?}");
    }

    /// The control: without the filter each line is logged.
    #[test]
    fn without_the_filter_every_line_is_logged() {
        let lines = logged(LevelFilter::INFO, outage);
        assert_eq!(lines.len() as u64, OUTAGE);
    }

    #[test]
    fn many_causes_take_a_bounded_memory() {
        let repeats = Repeats::default();
        let lines = logged(repeats.clone(), || {
            for number in 0..3 * MAX_CAUSES {
                tracing::warn!(error = number, "it differs each time");
            }
        });
        assert!(lines.len() <= MAX_CAUSES + 1, "{}", lines.len());
        assert!(repeats.state().causes.len() <= MAX_CAUSES + 1);
    }

    #[test]
    fn the_last_counts_are_logged_at_the_end() {
        let repeats = Repeats::default();
        let lines = logged(repeats.clone(), || {
            outage();
            repeats.state().is_ending = true;
            while let Some(due) = repeats.next_due() {
                due.iter().for_each(Summary::log);
            }
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        let reporter = Repeats::default().report().unwrap();
        reporter.end();
    }
}
