//! Values from a file, one per line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::fail::Usage;

/// Path that stands for standard input.
const STDIN: &str = "-";

/// Kind of the values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// Name in messages: `payload`.
    pub(crate) field: &'static str,
    /// Maximum size of a value, in bytes.
    pub(crate) longest: usize,
    /// Advice for a value that is too large.
    pub(crate) remedy: &'static str,
}

/// The non-empty lines of a file.
pub(crate) struct Lines {
    from: Box<dyn BufRead>,
    kind: Kind,
    /// Number of the last line, from 1.
    number: u64,
    bytes: u64,
    /// Size of the file in bytes, if it is known.
    length: Option<u64>,
}

impl Lines {
    /// Opens a file.
    pub(crate) fn open(path: &Path, kind: Kind) -> Result<Self, Usage> {
        let (from, length): (Box<dyn BufRead>, _) = if path.as_os_str() == STDIN {
            (Box::new(io::stdin().lock()), None)
        } else {
            let file = File::open(path).map_err(|error| {
                let detail = format!(
                    "{} cannot be read ({error}): give another file, or - for standard input",
                    path.display()
                );
                Usage::new("file", detail)
            })?;
            let length = file.metadata().ok().filter(|about| about.is_file());
            (
                Box::new(BufReader::new(file)),
                length.map(|about| about.len()),
            )
        };
        Ok(Lines::new(from, kind, length))
    }

    fn new(from: Box<dyn BufRead>, kind: Kind, length: Option<u64>) -> Self {
        Lines {
            from,
            kind,
            number: 0,
            bytes: 0,
            length,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns the next non-empty line; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<String>> {
        // Limited, so that a file without line breaks does not fill the memory.
        let longest = self.kind.longest.saturating_add("\r\n".len());
        loop {
            let mut line = Vec::new();
            self.number += 1;
            let read = Read::by_ref(&mut self.from)
                .take(longest as u64)
                .read_until(b'\n', &mut line)
                .with_context(|| format!("line {} could not be read", self.number))?;
            self.bytes += read as u64;
            if read == 0 {
                return Ok(None);
            }
            if read == longest && line.last() != Some(&b'\n') {
                return Err(self.too_long().into());
            }
            let text = String::from_utf8(line).map_err(|_| {
                let field = self.kind.field;
                Usage::new(
                    field,
                    format!("{field} is not UTF-8: write the file in UTF-8"),
                )
            })?;
            // White space around a value is not part of it.
            let text = text.trim();
            if text.len() > self.kind.longest {
                return Err(self.too_long().into());
            }
            if !text.is_empty() {
                return Ok(Some(text.to_owned()));
            }
        }
    }

    fn too_long(&self) -> Usage {
        let Kind {
            field,
            longest,
            remedy,
        } = self.kind;
        Usage::new(
            field,
            format!("{field} has more than the maximum of {longest} bytes: {remedy}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static [u8], longest: usize) -> Lines {
        let kind = Kind {
            field: "payload",
            longest,
            remedy: "make it shorter",
        };
        Lines::new(Box::new(text), kind, None)
    }

    #[test]
    fn empty_lines_are_counted_and_skipped() {
        let mut lines = lines(b"1\r\n\n  \n {\"a\": 2} \n3", 100);
        let mut next = || {
            let line = lines.next().unwrap();
            line.map(|line| (lines.number(), line))
        };
        assert_eq!(next(), Some((1, "1".to_owned())));
        assert_eq!(next(), Some((4, "{\"a\": 2}".to_owned())));
        assert_eq!(next(), Some((5, "3".to_owned())));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_line_is_bounded() {
        let mut fits = lines(b"12345\r\n12345", 5);
        assert_eq!(fits.next().unwrap().as_deref(), Some("12345"));
        assert_eq!(fits.next().unwrap().as_deref(), Some("12345"));
        assert_eq!(fits.next().unwrap(), None);
        for long in [&b"123456\n"[..], b"123456", b"1234567890\n"] {
            let refused = lines(long, 5).next().unwrap_err();
            assert_eq!(refused.downcast_ref::<Usage>().unwrap().field, "payload");
        }
    }

    #[test]
    fn what_is_not_utf8_is_refused() {
        let refused = lines(b"\"\xff\"\n", 100).next().unwrap_err();
        assert_eq!(refused.downcast_ref::<Usage>().unwrap().field, "payload");
    }
}
