//! JSON pointers (RFC 6901).

use super::json::{Node, SHOWN, Value, parse};
use crate::error::{Error, Result};

/// Returns the text of the value that a JSON pointer (RFC 6901) refers to, if it exists. The whole body is validated, by
/// the rules of [`canonical_json`](super::canonical_json), whatever the pointer is.
pub(super) fn pointer<'a>(text: &'a [u8], pointer: &str) -> Result<Option<&'a [u8]>> {
    let root = parse(text)?;
    let Some(path) = pointer.strip_prefix('/') else {
        return match pointer {
            "" => Ok(Some(&text[root.range])),
            _ => Err(wrong_pointer(pointer, "does not begin with /")),
        };
    };
    // Every step is validated, even after one that does not exist: whether a pointer is valid must not depend on the body.
    let mut at = Some(&root);
    for step in path.split('/') {
        let step = unescape(step)
            .ok_or_else(|| wrong_pointer(pointer, "has a ~ without 0 or 1 behind it"))?;
        at = at.and_then(|node| child(node, &step));
    }
    Ok(at.map(|node| &text[node.range.clone()]))
}

fn child<'n>(node: &'n Node, step: &str) -> Option<&'n Node> {
    match &node.value {
        Value::Object(members) => {
            let found = members.binary_search_by(|member| member.key.as_str().cmp(step));
            found.ok().map(|index| &members[index].node)
        }
        Value::Array(nodes) => {
            let index: usize = step.parse().ok()?;
            // "01" and "+1" are numbers to Rust, but not indexes to RFC 6901.
            (index.to_string() == step).then(|| nodes.get(index))?
        }
        Value::Plain | Value::Escaped(_) => None,
    }
}

fn unescape(step: &str) -> Option<String> {
    let mut parts = step.split('~');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (letter, rest) = match part.as_bytes().first()? {
            b'0' => ('~', &part[1..]),
            b'1' => ('/', &part[1..]),
            _ => return None,
        };
        whole.push(letter);
        whole.push_str(rest);
    }
    Some(whole)
}

fn wrong_pointer(pointer: &str, what: &str) -> Error {
    let shown: String = pointer.chars().take(SHOWN).collect();
    Error::invalid(
        "pointer",
        format!(
            "pointer ({shown:?}) {what}: it is a JSON pointer of RFC 6901, such as /customer/id, with ~1 for / and ~0 for ~"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_to_the_text_of_a_value() {
        // The examples of RFC 6901, section 5, and some more.
        let text = br#" {"foo": ["bar", "b\u0061z"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4,
            "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8, "~1": 9, "nested": {"big": 12345678901234567890.10}} "#;
        for (path, found) in [
            ("/foo", Some(r#"["bar", "b\u0061z"]"#)),
            ("/foo/0", Some(r#""bar""#)),
            ("/foo/1", Some(r#""b\u0061z""#)),
            ("/", Some("0")),
            ("/a~1b", Some("1")),
            ("/c%d", Some("2")),
            ("/e^f", Some("3")),
            ("/g|h", Some("4")),
            ("/i\\j", Some("5")),
            ("/k\"l", Some("6")),
            ("/ ", Some("7")),
            ("/m~0n", Some("8")),
            ("/~01", Some("9")),
            ("/nested/big", Some("12345678901234567890.10")),
            ("/foo/2", None),
            ("/foo/00", None),
            ("/foo/01", None),
            ("/foo/+1", None),
            ("/foo/-", None),
            ("/foo/", None),
            ("/foo/99999999999999999999", None),
            ("/foo/0/0", None),
            ("/nothing/here", None),
        ] {
            let answer = pointer(text, path).unwrap();
            assert_eq!(answer, found.map(str::as_bytes), "{path}");
        }
        assert_eq!(pointer(text, "").unwrap(), Some(text.trim_ascii()));
    }

    #[test]
    fn a_wrong_pointer_is_named_and_so_is_a_wrong_body() {
        for path in ["foo", "/a~", "/a~2", "/nothing/~x"] {
            let error = pointer(b"{}", path).unwrap_err();
            assert_eq!(error.field(), Some("pointer"), "{path}");
        }
        let error = pointer(br#"{"a": 1, "b": [01]}"#, "/a").unwrap_err();
        assert_eq!(error.field(), Some("body"));
    }
}
