//! The encryption keys of stored answers: from the environment, or from a file that `turno.toml` names. Never from an option,
//! which other users of the machine can see. The keys are never printed.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use turno::once::AnswerKeys;

use crate::config::Once;
use crate::fail::Usage;

pub(crate) const VARIABLE: &str = "TURNO_ANSWER_KEYS";
const SETTING: &str = "once.answer_keys_file";
/// Maximum size of the file in bytes: more than a thousand keys. A larger file is the wrong file.
const LONGEST: u64 = 64 * 1024;

/// Returns the keys of the environment, or else of the file; `None` if neither is set.
pub(crate) fn read(file: &Once) -> Result<Option<AnswerKeys>, Usage> {
    match std::env::var(VARIABLE) {
        // Also if the variable is empty, which is an error: it was set because answers are to be encrypted.
        Ok(text) => parse(&text, VARIABLE, VARIABLE).map(Some),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(refused(VARIABLE, VARIABLE, "it is not valid UTF-8"))
        }
        Err(std::env::VarError::NotPresent) => {
            file.answer_keys_file.as_deref().map(of_file).transpose()
        }
    }
}

fn of_file(path: &Path) -> Result<AnswerKeys, Usage> {
    let place = path.display().to_string();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 > LONGEST => Err(refused(
            SETTING,
            &place,
            "it is too long to be a list of keys",
        )),
        Ok(_) => parse(&text, SETTING, &place),
        Err(error) => Err(refused(
            SETTING,
            &place,
            &format!("it cannot be read ({error})"),
        )),
    }
}

/// Parses keys, separated by line breaks or commas. `#` begins a comment.
fn parse(text: &str, field: &str, place: &str) -> Result<AnswerKeys, Usage> {
    let lines = text.lines().map(str::trim);
    let keys: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.trim_end_matches(','))
        .collect();
    keys.join(",")
        .parse()
        .map_err(|error: turno::Error| refused(field, place, &error.to_string()))
}

fn refused(field: &str, place: &str, why: &str) -> Usage {
    Usage::new(field, format!("{place} has no valid answer keys: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

    #[test]
    fn keys_stand_on_lines_or_between_commas() {
        for text in [
            format!("a:{KEY},b:{KEY}"),
            format!("# the newest first\na:{KEY}\n\nb:{KEY}\n"),
            format!("a:{KEY},\r\nb:{KEY}\r\n"),
        ] {
            let keys = parse(&text, SETTING, "keys").expect("these are keys");
            assert_eq!(format!("{keys:?}"), r#"["a", "b"]"#);
        }
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_shown() {
        for text in ["", "# nothing", KEY, &format!("a:{KEY}\na:{KEY}")] {
            let usage = parse(text, SETTING, "keys").expect_err("these are no keys");
            assert!(!usage.detail.contains(KEY), "{usage}");
        }
    }
}
