//! The format of a history: calls and answers as lines of JSON.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Violation, inbox, lock, once, outbox};
use crate::load::steady_us;

/// What a process asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// A lock.
    Lock(lock::Call),
    /// The inbox.
    Inbox(inbox::Call),
    /// The outbox.
    Outbox(outbox::Call),
    /// Once.
    Once(once::Call),
}

/// Answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A lock.
    Lock(lock::Answer),
    /// The inbox.
    Inbox(inbox::Answer),
    /// The outbox.
    Outbox(outbox::Answer),
    /// Once.
    Once(once::Answer),
    /// An error after which the outcome is not known, such as a lost connection.
    Unknown(String),
    /// An error that says that nothing was done, such as a full disk.
    Refused(String),
    /// An error that no fault explains. Always a violation.
    Broken(String),
}

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Process, unique among all processes of a run: a restarted one has another name.
    pub process: String,
    /// Number of the operation in its process.
    pub number: u64,
    /// When this was written: before the request is sent, or after the answer has come.
    pub at_us: i64,
    /// Call or answer.
    #[serde(flatten)]
    pub what: What,
}

/// Content of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A call.
    Call(Call),
    /// The answer of an earlier call.
    Answer(Answer),
}

/// A call with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<C, A> {
    /// Process that made the call.
    pub process: String,
    /// Before the request was sent.
    pub call_us: i64,
    /// When it can have its effect at the latest: the answer's time, or the end of time if the outcome is unknown.
    pub return_us: i64,
    /// What was asked for.
    pub call: C,
    /// What was answered; `None` if the outcome is unknown.
    pub answer: Option<A>,
}

/// All operations of a run, each part in the order of its calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Locks.
    pub lock: Vec<Operation<lock::Call, lock::Answer>>,
    /// Inbox.
    pub inbox: Vec<Operation<inbox::Call, inbox::Answer>>,
    /// Outbox.
    pub outbox: Vec<Operation<outbox::Call, outbox::Answer>>,
    /// Once.
    pub once: Vec<Operation<once::Call, once::Answer>>,
    /// Number of operations without a known outcome.
    pub unknown: usize,
    /// Number of operations that were refused.
    pub refused: usize,
    /// Errors that no fault explains, and answers that do not belong to their calls.
    pub broken: Vec<String>,
}

impl History {
    /// Reads all files of a folder that end in `.jsonl`.
    ///
    /// # Errors
    /// Returns an error if a line cannot be read. Nothing is left out silently.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut lines = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
            let file = entry?.path();
            if file.extension().is_none_or(|ending| ending != "jsonl") {
                continue;
            }
            let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
            for (index, line) in text.lines().enumerate() {
                let parsed = serde_json::from_str(line);
                lines.push(parsed.with_context(|| format!("{}:{}", file.display(), index + 1))?);
            }
        }
        Ok(Self::of(lines))
    }

    /// Joins calls and answers.
    pub fn of(mut lines: Vec<Entry>) -> Self {
        lines.sort_by_key(|line| (line.at_us, matches!(line.what, What::Answer(_))));
        let mut answers: HashMap<(String, u64), (i64, Answer)> = HashMap::new();
        let mut calls = Vec::new();
        let mut history = History::default();
        for line in lines {
            match line.what {
                What::Call(call) => calls.push((line.process, line.number, line.at_us, call)),
                What::Answer(answer) => {
                    let key = (line.process, line.number);
                    if let Some((_, other)) = answers.insert(key, (line.at_us, answer)) {
                        history
                            .broken
                            .push(format!("two answers; one is {other:?}"));
                    }
                }
            }
        }
        for (process, number, call_us, call) in calls {
            let answer = answers.remove(&(process.clone(), number));
            history.add(process, call_us, call, answer);
        }
        let without_call = answers
            .into_values()
            .map(|(_, answer)| format!("no call for {answer:?}"));
        history.broken.extend(without_call);
        history
    }

    fn add(&mut self, process: String, call_us: i64, call: Call, answer: Option<(i64, Answer)>) {
        let (return_us, answer) = match answer {
            Some((_, Answer::Broken(error))) => {
                self.broken.push(format!("{process}: {call:?}: {error}"));
                (i64::MAX, None)
            }
            // Nothing was done, so nothing may be seen of it.
            Some((_, Answer::Refused(_))) => {
                self.refused += 1;
                return;
            }
            Some((_, Answer::Unknown(_))) | None => {
                self.unknown += 1;
                (i64::MAX, None)
            }
            Some((at_us, answer)) => (at_us, Some(answer)),
        };
        macro_rules! push {
            ($part:ident, $kind:ident, $call:expr) => {{
                let answer = match answer {
                    Some(Answer::$kind(answer)) => Some(answer),
                    None => None,
                    Some(other) => {
                        self.broken.push(format!("{other:?} answers {:?}", $call));
                        return;
                    }
                };
                self.$part.push(Operation {
                    process,
                    call_us,
                    return_us,
                    call: $call,
                    answer,
                });
            }};
        }
        match call {
            Call::Lock(call) => push!(lock, Lock, call),
            Call::Inbox(call) => push!(inbox, Inbox, call),
            Call::Outbox(call) => push!(outbox, Outbox, call),
            Call::Once(call) => push!(once, Once, call),
        }
    }

    /// Errors that no fault explains.
    pub fn errors(&self) -> impl Iterator<Item = Violation> {
        self.broken.iter().map(|what| Violation {
            promise: "an error has a cause",
            what: what.clone(),
        })
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.lock.len() + self.inbox.len() + self.outbox.len() + self.once.len()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Writes the history of one process.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    process: String,
    file: File,
    next: AtomicU64,
}

/// A call whose answer is not recorded yet.
#[derive(Debug)]
#[must_use = "without an answer, the outcome counts as unknown"]
pub struct Pending {
    recorder: Recorder,
    number: u64,
}

impl Recorder {
    /// Opens a new file for the history of a process.
    ///
    /// # Errors
    /// Returns an error if there is such a file: two processes with one name would mix their answers.
    pub fn create(folder: &Path, process: &str) -> io::Result<Self> {
        let file = folder.join(format!("{process}.jsonl"));
        let mut options = OpenOptions::new();
        Ok(Recorder(Arc::new(Inner {
            process: process.to_owned(),
            file: options.append(true).create_new(true).open(file)?,
            next: AtomicU64::new(1),
        })))
    }

    /// Records a call, before its request is sent.
    ///
    /// # Panics
    /// If the file cannot be written: a run with a lost call proves nothing.
    pub fn call(&self, call: Call) -> Pending {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.write(number, What::Call(call));
        Pending {
            recorder: self.clone(),
            number,
        }
    }

    fn write(&self, number: u64, what: What) {
        let line = Entry {
            process: self.0.process.clone(),
            number,
            at_us: steady_us(),
            what,
        };
        let mut text = serde_json::to_string(&line).expect("a line is plain data");
        text.push('\n');
        // One write, so that a kill does not cut a line.
        let written = (&self.0.file).write_all(text.as_bytes());
        written.expect("the history can be written");
    }
}

impl Pending {
    /// Records the answer, after it has come.
    pub fn answer(self, answer: Answer) {
        self.recorder.write(self.number, What::Answer(answer));
    }

    /// Records an error: of an outage, of a full disk, or one that no fault explains.
    pub fn failed(self, error: &turno::Error) {
        let text = format!("{error:?}");
        self.answer(if error.is_unavailable() {
            Answer::Unknown(text)
        } else if is_full(error) {
            Answer::Refused(text)
        } else {
            Answer::Broken(text)
        });
    }
}

/// Whether the store's disk is full. Nothing was done.
pub fn is_full(error: &turno::Error) -> bool {
    error.is_refused() && error.to_string().contains("full")
}

/// The name in a payload: a text, or the field `name` of an object.
///
/// # Errors
/// Returns an error if there is no name.
pub fn name_in(payload: Option<&str>) -> Result<String> {
    let payload: serde_json::Value = serde_json::from_str(payload.unwrap_or_default())?;
    let name = payload.as_str().or_else(|| payload["name"].as_str());
    Ok(name.context("a payload has a name")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire() -> Call {
        Call::Lock(lock::Call::Acquire {
            resource: "a".to_owned(),
            owner: "me".to_owned(),
            mode: lock::Mode::Exclusive,
            ttl_us: 5,
        })
    }

    #[test]
    fn what_is_recorded_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(folder.path(), "client-1").unwrap();
        recorder
            .call(acquire())
            .answer(Answer::Lock(lock::Answer::Busy));
        let _unanswered = recorder.call(acquire());
        recorder
            .call(acquire())
            .answer(Answer::Unknown("cut".to_owned()));
        recorder
            .call(acquire())
            .answer(Answer::Broken("no table".to_owned()));
        recorder
            .call(acquire())
            .answer(Answer::Once(once::Answer::InFlight));
        recorder
            .call(acquire())
            .answer(Answer::Refused("full".to_owned()));
        let history = History::read(folder.path()).unwrap();
        let answers: Vec<_> = history.lock.iter().map(|one| one.answer.clone()).collect();
        assert_eq!(answers, [Some(lock::Answer::Busy), None, None, None]);
        assert_eq!((history.unknown, history.refused), (2, 1));
        assert_eq!(history.broken.len(), 2, "{:?}", history.broken);
        assert!(history.lock[0].call_us <= history.lock[0].return_us);
        assert_eq!(history.lock[1].return_us, i64::MAX);
    }

    #[test]
    fn a_name_is_used_once() {
        let folder = tempfile::tempdir().unwrap();
        Recorder::create(folder.path(), "client-1").unwrap();
        Recorder::create(folder.path(), "client-1").unwrap_err();
    }

    #[test]
    fn a_line_that_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.jsonl"), "{\"process\":\"x\"").unwrap();
        let error = format!("{:#}", History::read(folder.path()).unwrap_err());
        assert!(error.contains("x.jsonl:1"), "{error}");
    }

    #[test]
    fn an_answer_without_a_call_is_reported() {
        let line = Entry {
            process: "p".to_owned(),
            number: 1,
            at_us: 1,
            what: What::Answer(Answer::Lock(lock::Answer::Busy)),
        };
        assert_eq!(History::of(vec![line]).broken.len(), 1);
    }
}
