//! JSON text as a tree that has lost nothing: every value knows where it stands in the text.

use std::borrow::Cow;
use std::ops::Range;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, LinePosition, Peek};

use crate::error::{Error, Result};

/// The most arrays and objects inside each other.
pub const MAX_DEPTH: usize = 64;
/// The most digits before a number's point or exponent. It is the parser's own limit.
pub const MAX_INTEGER_DIGITS: usize = 4300;
/// How much of a key a message repeats, in characters.
const SHOWN: usize = 60;
/// What some editors write before UTF-8, and JSON does not have.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A value, and the bytes of the text that it was written with.
pub(super) struct Node {
    pub(super) range: Range<usize>,
    pub(super) value: Value,
}

/// What a value is, as far as its text does not say it.
pub(super) enum Value {
    /// A literal, a number, or a string without escapes: its text is the only way to write it.
    Plain,
    /// A string with escapes, decoded.
    Escaped(String),
    Array(Vec<Node>),
    /// Sorted by the keys' bytes; no two are the same.
    Object(Vec<Member>),
}

pub(super) struct Member {
    pub(super) key: String,
    pub(super) node: Node,
}

/// The tree of one JSON text, by the rules of [`canonical_json`](super::canonical_json).
pub(super) fn parse(text: &[u8]) -> Result<Node> {
    document(text).map_err(|wrong| wrong.in_text(text))
}

/// The text of the value that a JSON pointer (RFC 6901) leads to, if there is one. The whole body is checked, by the
/// rules of [`canonical_json`](super::canonical_json), whatever the pointer says.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the templates of answers read bodies with it")
)]
pub(crate) fn pointer<'a>(text: &'a [u8], pointer: &str) -> Result<Option<&'a [u8]>> {
    let root = parse(text)?;
    let Some(path) = pointer.strip_prefix('/') else {
        return match pointer {
            "" => Ok(Some(&text[root.range])),
            _ => Err(wrong_pointer(pointer, "does not begin with /")),
        };
    };
    // Every step is checked, even behind one that leads nowhere: a pointer is right or wrong for all bodies.
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
            // "01" and "+1" are numbers to Rust, and no index to RFC 6901.
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

/// What keeps a text from being JSON, and the byte where.
struct Wrong {
    what: Cow<'static, str>,
    index: usize,
}

impl Wrong {
    fn new(what: impl Into<Cow<'static, str>>, index: usize) -> Self {
        let what = what.into();
        Wrong { what, index }
    }

    fn in_text(self, text: &[u8]) -> Error {
        Error::invalid(
            "body",
            format!(
                "body is not JSON that can be compared: {} at {}. Correct it, or send it with a content type that is not JSON",
                self.what,
                LinePosition::find(text, self.index),
            ),
        )
    }
}

impl From<JiterError> for Wrong {
    fn from(error: JiterError) -> Self {
        match error.error_type {
            JiterErrorType::JsonError(JsonErrorType::NumberOutOfRange) => Wrong::new(
                format!("a number with more than {MAX_INTEGER_DIGITS} digits"),
                error.index,
            ),
            other => Wrong::new(other.to_string(), error.index),
        }
    }
}

fn document(text: &[u8]) -> Result<Node, Wrong> {
    if text.starts_with(BYTE_ORDER_MARK) {
        return Err(Wrong::new("a byte order mark", 0));
    }
    // Before all else: where nothing has to be decoded, the parser does not look.
    if let Err(error) = std::str::from_utf8(text) {
        return Err(Wrong::new("a byte that is not UTF-8", error.valid_up_to()));
    }
    let mut jiter = Jiter::new(text);
    let peek = jiter.peek()?;
    let root = node(&mut jiter, peek, 0)?;
    jiter.finish()?;
    Ok(root)
}

/// The value that begins here, inside `depth` others.
fn node(jiter: &mut Jiter<'_>, peek: Peek, depth: usize) -> Result<Node, Wrong> {
    let start = jiter.current_index();
    if matches!(peek, Peek::Array | Peek::Object) && depth == MAX_DEPTH {
        return Err(Wrong::new(
            format!("more than {MAX_DEPTH} arrays and objects inside each other"),
            start,
        ));
    }
    let value = match peek {
        Peek::Null => {
            jiter.known_null()?;
            Value::Plain
        }
        Peek::True | Peek::False => {
            jiter.known_bool(peek)?;
            Value::Plain
        }
        Peek::String => {
            // Checks the escapes, and decodes nothing: most strings have none.
            jiter.known_bytes()?;
            let raw = jiter.slice_to_current(start);
            if raw.contains(&b'\\') {
                Value::Escaped(Jiter::new(raw).next_str()?.to_owned())
            } else {
                Value::Plain
            }
        }
        Peek::Array => Value::Array(elements(jiter, depth + 1)?),
        Peek::Object => Value::Object(members(jiter, depth + 1)?),
        // Or something that no value begins with, which this refuses as well.
        _ => {
            jiter.known_number_bytes(peek)?;
            Value::Plain
        }
    };
    let range = start..jiter.current_index();
    Ok(Node { range, value })
}

fn elements(jiter: &mut Jiter<'_>, depth: usize) -> Result<Vec<Node>, Wrong> {
    let mut nodes = Vec::new();
    let mut next = jiter.known_array()?;
    while let Some(peek) = next {
        nodes.push(node(jiter, peek, depth)?);
        next = jiter.array_step()?;
    }
    Ok(nodes)
}

fn members(jiter: &mut Jiter<'_>, depth: usize) -> Result<Vec<Member>, Wrong> {
    let mut members = Vec::new();
    let mut next = jiter.known_object()?.map(str::to_owned);
    while let Some(key) = next {
        let peek = jiter.peek()?;
        let node = node(jiter, peek, depth)?;
        members.push(Member { key, node });
        next = jiter.next_key()?.map(str::to_owned);
    }
    members.sort_by(|one, other| one.key.cmp(&other.key));
    let twice = members.windows(2).find(|pair| pair[0].key == pair[1].key);
    if let Some([_, second]) = twice {
        let shown: String = second.key.chars().take(SHOWN).collect();
        return Err(Wrong::new(
            format!("the key {shown:?} twice in one object, the second time with the value"),
            second.node.range.start,
        ));
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_to_the_text_of_a_value() {
        // The examples of RFC 6901, section 5, and what is around them.
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
