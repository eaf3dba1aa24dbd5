//! Payloads between the command line and the store: JSON text on both sides, so that numbers are never rounded.

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::fail::Usage;

/// Indentation per level.
const INDENT: &str = "  ";

/// Rejects text that is not JSON.
pub(crate) fn check(text: &str) -> Result<(), Usage> {
    serde_json::from_str::<IgnoredAny>(text)
        .map(drop)
        .map_err(|error| {
            let detail =
                format!("payload is not JSON ({error}): quote a plain string, as in '\"hello\"'");
            Usage::new("payload", detail)
        })
}

/// Formats a payload on one line.
pub(crate) fn shown(text: &str) -> String {
    printable(&one_line(text))
}

/// Formats a payload on several lines. Does not parse it, so that numbers are not rounded.
pub(crate) fn pretty(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let (mut is_text, mut is_escaped) = (false, false);
    let mut letters = text.chars().peekable();
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(INDENT));
    };
    while let Some(letter) = letters.next() {
        if is_text {
            out.push(if letter.is_control() { ' ' } else { letter });
            is_text = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
            continue;
        }
        match letter {
            '{' | '[' => {
                out.push(letter);
                while letters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if let Some(end) = letters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            letter => {
                out.push(letter);
                is_text = letter == '"';
            }
        }
    }
    out
}

/// Returns the text of a string, or a number as it is written; `None` for other values.
pub(crate) fn word(value: &RawValue) -> Option<String> {
    let text = value.get();
    match text.chars().next() {
        Some('"') => serde_json::from_str(text).ok(),
        Some('-' | '0'..='9') => Some(text.to_owned()),
        _ => None,
    }
}

/// Replaces line breaks. JSON has them only between tokens: inside a string they are written `\n`.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Replaces control characters, which a terminal would interpret.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Cuts text to at most `longest` characters.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some(_) => text.chars().take(longest - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_characters() {
        assert_eq!(cut("ñandú", 5), "ñandú");
        assert_eq!(cut("ñandúes", 5), "ñand…");
    }

    #[test]
    fn a_payload_is_one_line_and_keeps_its_numbers() {
        let value = one_line("{\n  \"n\": 1.10\r\n}");
        assert_eq!(value, "{   \"n\": 1.10  }");
        assert!(!shown("\"\u{9b}2J\"").chars().any(char::is_control));
    }

    #[test]
    fn a_payload_is_laid_out_and_keeps_its_numbers() {
        for (text, laid_out) in [
            ("7", "7"),
            ("[ ]", "[]"),
            ("[\n]", "[]"),
            (
                r#"{"a":12345678901234567890.10,"b":[1,{}]}"#,
                "{\n  \"a\": 12345678901234567890.10,\n  \"b\": [\n    1,\n    {}\n  ]\n}",
            ),
            // Punctuation inside a string is not structure.
            (
                r#"{"a\"{": "x\\", "b": ",:[]"}"#,
                "{\n  \"a\\\"{\": \"x\\\\\",\n  \"b\": \",:[]\"\n}",
            ),
            ("\"\u{9b}2J\"", "\" 2J\""),
        ] {
            assert_eq!(pretty(text), laid_out, "{text}");
        }
    }
}
