//! Error messages on standard error, and their exit codes.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::BUSY;
use crate::output::{Format, Output};

const FAILED: u8 = 1;
const BAD_USAGE: u8 = 2;

/// Bad usage: exit code 2. Names the invalid field.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) field: String,
    pub(crate) detail: String,
}

impl Usage {
    pub(crate) fn new(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Usage {
            field: field.into(),
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Usage {}

/// A lease was lost while work depended on it.
#[derive(Debug)]
pub(crate) struct Lost(pub(crate) String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lost {}

/// The requested object does not exist.
#[derive(Debug)]
pub(crate) struct NotFound(pub(crate) String);

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFound {}

/// Prints an error and returns its exit code.
pub(crate) fn report(error: &anyhow::Error, output: Output) -> ExitCode {
    if is_broken_pipe(error) {
        // The reader of our output has closed the pipe.
        return ExitCode::from(FAILED);
    }
    if let Some(wrong) = error.downcast_ref::<Usage>() {
        return usage(&wrong.detail, Some(&wrong.field), output);
    }
    if let Some(lost) = error.downcast_ref::<Lost>() {
        return say("lost", &lost.0, None, output, FAILED);
    }
    if let Some(missing) = error.downcast_ref::<NotFound>() {
        return say("not_found", &missing.0, None, output, FAILED);
    }
    match error.downcast_ref::<turno::Error>() {
        // Only the error's own text: it names the cause already, and the chain would repeat it.
        Some(known) if known.is_invalid() => usage(&known.to_string(), known.field(), output),
        Some(known) => say(&code(known), &known.to_string(), None, output, FAILED),
        None => say("failed", &format!("{error:#}"), None, output, FAILED),
    }
}

/// Prints a usage error.
pub(crate) fn usage(detail: &str, field: Option<&str>, output: Output) -> ExitCode {
    say("invalid", detail, field, output, BAD_USAGE)
}

/// How a command ends that could not do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed,
    /// Another process holds the lock or does the work: retry later.
    Busy,
}

/// Prints why the work was not done, with details. On standard error, because standard output belongs to the work.
pub(crate) fn problem(
    code: &str,
    detail: &str,
    more: &Value,
    output: Output,
    exit: Exit,
) -> ExitCode {
    match (output.format, exit) {
        (Format::Json, _) => {
            let mut object = json!({"code": code, "detail": detail});
            for (name, value) in more.as_object().into_iter().flatten() {
                object[name] = value.clone();
            }
            print(&object.to_string());
        }
        (Format::Human, Exit::Busy) => print(detail),
        (Format::Human, Exit::Failed) => {
            print(&format!("{} {detail}", output.alert("error:", "31")));
        }
    }
    ExitCode::from(match exit {
        Exit::Failed => FAILED,
        Exit::Busy => BUSY,
    })
}

/// Prints a warning. It does not change the exit code.
pub(crate) fn warn(detail: &str, output: Output) {
    match output.format {
        Format::Json => print(&json!({"code": "warning", "detail": detail}).to_string()),
        Format::Human => print(&format!("{} {detail}", output.alert("warning:", "33"))),
    }
}

fn say(code: &str, detail: &str, field: Option<&str>, output: Output, exit: u8) -> ExitCode {
    match output.format {
        Format::Json => {
            let mut object = json!({"code": code, "detail": detail});
            if let Some(field) = field {
                object["field"] = field.into();
            }
            print(&object.to_string());
        }
        Format::Human => print(&format!("{} {detail}", output.alert("error:", "31"))),
    }
    ExitCode::from(exit)
}

fn print(line: &str) {
    // Nothing is left to do if standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Returns the server's problem code, which is more specific, or else the library's error kind.
fn code(error: &turno::Error) -> String {
    let source = std::error::Error::source(error);
    source
        .and_then(|source| source.downcast_ref::<turno_client::Error>()?.code())
        .unwrap_or_else(|| kind(error))
        .to_owned()
}

fn kind(error: &turno::Error) -> &'static str {
    if error.is_unavailable() {
        "unavailable"
    } else if error.is_refused() {
        "refused"
    } else if error.is_schema() {
        "schema"
    } else if error.is_lost() {
        "lost"
    } else if error.is_no_queue() {
        "no_queue"
    } else {
        "broken"
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
