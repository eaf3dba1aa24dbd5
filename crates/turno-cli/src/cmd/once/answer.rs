//! A command's answer as JSON: exit code and output. Output is stored as text if it is UTF-8, else as base64.

use std::fmt::Write as _;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

/// Exit code and output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) exit_code: u8,
    /// Number of bytes on both streams.
    pub(super) output_bytes: u64,
    /// The output; `None` if it was too large to be kept.
    pub(super) output: Option<Output>,
}

/// The output of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// An answer in its stored form.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    exit_code: u8,
    output_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
}

impl Answer {
    pub(super) fn read(text: &str) -> Result<Self> {
        let stored: Stored = serde_json::from_str(text)?;
        let stdout = bytes(stored.stdout, stored.stdout_base64)?;
        let stderr = bytes(stored.stderr, stored.stderr_base64)?;
        Ok(Answer {
            exit_code: stored.exit_code,
            output_bytes: stored.output_bytes,
            output: stdout
                .zip(stderr)
                .map(|(stdout, stderr)| Output { stdout, stderr }),
        })
    }

    pub(super) fn stored(&self) -> Stored {
        let mut stored = Stored {
            exit_code: self.exit_code,
            output_bytes: self.output_bytes,
            ..Stored::default()
        };
        if let Some(output) = &self.output {
            (stored.stdout, stored.stdout_base64) = text(&output.stdout);
            (stored.stderr, stored.stderr_base64) = text(&output.stderr);
        }
        stored
    }

    /// Returns a short description for people.
    pub(super) fn described(&self) -> String {
        let Some(output) = &self.output else {
            return format!(
                "without its output of {} bytes, too large to store",
                self.output_bytes
            );
        };
        let mut words = format!("{} bytes of output", self.output_bytes);
        if !output.stderr.is_empty() {
            let _ = write!(words, ", {} of them on standard error", output.stderr.len());
        }
        words
    }
}

/// Returns the bytes as text, or else as base64. Text with a NUL counts as binary, because databases reject it.
fn text(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => (Some(text.to_owned()), None),
        _ => (None, Some(BASE64.encode(bytes))),
    }
}

fn bytes(text: Option<String>, base64: Option<String>) -> Result<Option<Vec<u8>>> {
    Ok(match (text, base64) {
        (Some(text), _) => Some(text.into_bytes()),
        (None, Some(base64)) => Some(BASE64.decode(base64)?),
        (None, None) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_survives_the_round_trip_byte_for_byte() {
        for (stdout, stderr) in [
            (&b""[..], &b""[..]),
            (b"caf\xc3\xa9\r\n\x1b[1m", b"no newline"),
            (b"\xff\xfe\0", b"a\0b"),
        ] {
            let answer = Answer {
                exit_code: 3,
                output_bytes: (stdout.len() + stderr.len()) as u64,
                output: Some(Output {
                    stdout: stdout.to_vec(),
                    stderr: stderr.to_vec(),
                }),
            };
            let text = serde_json::to_string(&answer.stored()).unwrap();
            assert!(!text.contains("\\u0000"), "{text}");
            assert_eq!(Answer::read(&text).unwrap(), answer);
        }
    }

    #[test]
    fn an_answer_without_its_output_still_has_its_code() {
        let answer = Answer {
            exit_code: 1,
            output_bytes: 1 << 40,
            output: None,
        };
        let text = serde_json::to_string(&answer.stored()).unwrap();
        assert_eq!(text, r#"{"exit_code":1,"output_bytes":1099511627776}"#);
        assert_eq!(Answer::read(&text).unwrap(), answer);
    }

    #[test]
    fn the_answer_of_another_face_is_not_taken_for_a_commands() {
        for text in [
            "1",
            "{}",
            r#"{"exit_code":0}"#,
            r#"{"exit_code":0,"output_bytes":0,"x":1}"#,
        ] {
            assert!(Answer::read(text).is_err(), "{text}");
        }
    }
}
