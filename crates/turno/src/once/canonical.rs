//! Canonical form of JSON text.

use super::json::{Node, Value, parse};
use crate::error::Result;

/// Converts JSON to its canonical form, so that different spellings of the same value can be compared.
///
/// - Members are sorted by the UTF-8 bytes of their keys, and white space is removed.
/// - Strings are UTF-8, escaped only where necessary: `\"`, `\\`, `\b`, `\f`, `\n`, `\r`, `\t`, and `\u00xx` in lower
///   case for the other characters below U+0020.
/// - **Numbers are not changed.** `1`, `1.0` and `1e0` differ, and so do neighbours above 2⁵³: if two different requests
///   were considered the same, one of them would be lost.
///
/// ```
/// let one = turno::once::canonical_json(br#"{ "b": 1.0, "a": "\u0041" }"#)?;
/// assert_eq!(one, br#"{"a":"A","b":1.0}"#);
/// # Ok::<(), turno::Error>(())
/// ```
///
/// The run time is linear in the length of the text, and logarithmic in the number of members of an object.
///
/// # Errors
///
/// Returns an error with [`Error::is_invalid`](crate::Error::is_invalid), and with the line and column, for text that
/// RFC 8259 does not allow, and for text that parsers interpret differently: an object with a duplicate key, half a
/// surrogate pair, a byte order mark, more than [`MAX_DEPTH`](super::MAX_DEPTH) nested arrays and objects, and a number
/// with more than [`MAX_INTEGER_DIGITS`](super::MAX_INTEGER_DIGITS) digits before its point.
pub fn canonical_json(text: &[u8]) -> Result<Vec<u8>> {
    let root = parse(text)?;
    // The canonical form is never longer than the text, so the capacity is sufficient.
    let mut out = Vec::with_capacity(text.len());
    write(text, &root, &mut out);
    Ok(out)
}

fn write(text: &[u8], node: &Node, out: &mut Vec<u8>) {
    match &node.value {
        Value::Plain => out.extend_from_slice(&text[node.range.clone()]),
        Value::Escaped(decoded) => write_string(decoded, out),
        Value::Array(nodes) => {
            out.push(b'[');
            for (index, node) in nodes.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(text, node, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (index, member) in members.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(&member.key, out);
                out.push(b':');
                write(text, &member.node, out);
            }
            out.push(b'}');
        }
    }
}

fn write_string(decoded: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, decoded).expect("a string can always be written into memory");
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_DEPTH, MAX_INTEGER_DIGITS};
    use super::*;

    fn canonical(text: &str) -> String {
        String::from_utf8(canonical_json(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn there_is_one_form() {
        for (text, form) in [
            (" null ", "null"),
            ("[ ]", "[]"),
            ("{\t}", "{}"),
            ("\r\n[true ,false\n, null]", "[true,false,null]"),
            (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
            (
                r#"{"b":{"d":[{"y":1,"x":2}],"c":0},"a":0}"#,
                r#"{"a":0,"b":{"c":0,"d":[{"x":2,"y":1}]}}"#,
            ),
            // By bytes after decoding: "A" (41) before "a" (61), the empty key first.
            (
                r#"{"a":1,"\u0041":2,"":3,"aa":4}"#,
                r#"{"":3,"A":2,"a":1,"aa":4}"#,
            ),
            // UTF-8's order, not that of UTF-16: U+FF5E before U+1F600.
            (
                r#"{"\ud83d\ude00":1,"\uff5e":2}"#,
                "{\"\u{ff5e}\":2,\"\u{1f600}\":1}",
            ),
            (r#""\u0041\/\u00f1""#, "\"A/ñ\""),
            (r#""\u0022\u005C""#, r#""\"\\""#),
            (
                r#""\u0008\u000C\u000a\u000D\u0009\u001F\u0000""#,
                r#""\b\f\n\r\t\u001f\u0000""#,
            ),
            // Neither of these must be escaped.
            ("\"\\u007f\\u2028\"", "\"\u{7f}\u{2028}\""),
        ] {
            assert_eq!(canonical(text), form, "{text}");
            assert_eq!(canonical(form), form, "again: {form}");
        }
    }

    #[test]
    fn every_control_character_has_one_form() {
        for code in 0..0x20_u8 {
            let form = match code {
                0x08 => r"\b".to_owned(),
                0x09 => r"\t".to_owned(),
                0x0a => r"\n".to_owned(),
                0x0c => r"\f".to_owned(),
                0x0d => r"\r".to_owned(),
                _ => format!("\\u{code:04x}"),
            };
            assert_eq!(
                canonical(&format!("\"\\u{code:04X}\"")),
                format!("\"{form}\"")
            );
            assert!(canonical_json(&[b'"', code, b'"']).is_err(), "{code}");
        }
    }

    #[test]
    fn numbers_stay_as_they_are_written() {
        for number in [
            "0",
            "-0",
            "0.0",
            "1",
            "1.0",
            "1e0",
            "100",
            "1e2",
            "1E2",
            "1e+2",
            "9007199254740992",
            "9007199254740993",
            "123456789012345678901234567890.10",
            "1e400",
            "-1e-400",
        ] {
            assert_eq!(canonical(number), number);
            assert_eq!(canonical(&format!(" [{number} ]")), format!("[{number}]"));
        }
        let long = "7".repeat(MAX_INTEGER_DIGITS);
        assert_eq!(canonical(&format!("-{long}.5")), format!("-{long}.5"));
        assert!(canonical_json(format!("{long}7").as_bytes()).is_err());
        assert!(canonical_json(format!("0.{long}{long}").as_bytes()).is_ok());
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "\u{feff}{}",
            "{} {}",
            "{},",
            "nul",
            "nullx",
            "True",
            "NaN",
            "Infinity",
            "-Infinity",
            "-NaN",
            "[NaN]",
            "01",
            "-01",
            "00",
            "+1",
            ".5",
            "-.5",
            "1.",
            "1.e2",
            "1e",
            "1e+",
            "-",
            "0x10",
            "1_000",
            "1 2",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[",
            "]",
            "[1}",
            "{",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{,"a":1}"#,
            "{a:1}",
            "{1:1}",
            "'a'",
            "\"",
            r#""\""#,
            r#""\x41""#,
            r#""\u12""#,
            r#""\u12G4""#,
            "\"\n\"",
            "// c\n1",
            "/**/1",
            "\u{a0}1",
            "1\u{a0}",
            "\u{b}1",
            "1\0",
        ] {
            let error = canonical_json(text.as_bytes()).unwrap_err();
            assert_eq!(error.field(), Some("body"), "{text:?}");
        }
        for text in [
            &b"\"\xff\""[..],
            b"\"\xc3\"",
            b"\"\xed\xa0\x80\"",
            b"\xc3",
            b"{\"\xff\":1}",
        ] {
            assert!(canonical_json(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_refused() {
        for half in [
            r"\ud83d",
            r"\ude00",
            r"\ud83d\u0041",
            r"\ud83dx",
            r"\ud83d\ud83d",
            r"\ude00\ud83d",
            r"\ud83d\n",
        ] {
            for text in [format!("\"{half}\""), format!("{{\"{half}\":1}}")] {
                assert!(canonical_json(text.as_bytes()).is_err(), "{text}");
            }
        }
        assert_eq!(canonical(r#""\ud83d\ude00""#), "\"\u{1f600}\"");
    }

    #[test]
    fn a_key_is_there_once_however_it_is_written() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":3}"#,
            r#"[{"x":{"":0,"":0}}]"#,
        ] {
            let error = canonical_json(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("twice"), "{error}");
        }
        assert!(canonical_json(r#"{"a":{"a":1},"b":{"a":1}}"#.as_bytes()).is_ok());
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| format!("{}0{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(canonical(&nested(MAX_DEPTH)), nested(MAX_DEPTH));
        assert!(canonical_json(nested(MAX_DEPTH + 1).as_bytes()).is_err());
        // Far too deep for a recursive parser's stack.
        assert!(canonical_json("{\"a\":[".repeat(500_000).as_bytes()).is_err());
    }

    #[test]
    fn a_refusal_says_what_where_and_what_to_do() {
        let error = canonical_json(b"{\n  \"a\": 1,\n  \"a\": 2\n}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "body is not JSON that can be compared: the key \"a\" twice in one object, the second time with the value at \
             line 3 column 8. Correct it, or send it with a content type that is not JSON"
        );
        let error = canonical_json(b"[1, 02]").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("invalid number at line 1 column 6"),
            "{error}"
        );
    }
}
