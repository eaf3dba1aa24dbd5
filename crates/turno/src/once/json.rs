//! JSON text as a lossless tree: every value knows its range in the text.

use std::borrow::Cow;
use std::ops::Range;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, LinePosition, Peek};

use crate::error::{Error, Result};

/// Maximum number of nested arrays and objects.
pub const MAX_DEPTH: usize = 64;
/// Maximum number of digits before a number's point or exponent. It is the parser's own limit.
pub const MAX_INTEGER_DIGITS: usize = 4300;
/// Maximum number of characters of a key in an error message.
pub(super) const SHOWN: usize = 60;
/// Byte order mark, which some editors write before UTF-8 and JSON does not allow.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A value and its range in the text.
pub(super) struct Node {
    pub(super) range: Range<usize>,
    pub(super) value: Value,
}

/// Kind of a value, with the data that its text alone does not give.
pub(super) enum Value {
    /// A literal, a number, or a string without escapes: its text is already canonical.
    Plain,
    /// A string with escapes, decoded.
    Escaped(String),
    Array(Vec<Node>),
    /// Sorted by the keys' bytes, without duplicates.
    Object(Vec<Member>),
}

pub(super) struct Member {
    pub(super) key: String,
    pub(super) node: Node,
}

/// Parses one JSON text, by the rules of [`canonical_json`](super::canonical_json).
pub(super) fn parse(text: &[u8]) -> Result<Node> {
    document(text).map_err(|wrong| wrong.in_text(text))
}

/// A syntax error and its byte offset.
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
    // First, because the parser does not validate text that it need not decode.
    if let Err(error) = std::str::from_utf8(text) {
        return Err(Wrong::new("a byte that is not UTF-8", error.valid_up_to()));
    }
    let mut jiter = Jiter::new(text);
    let peek = jiter.peek()?;
    let root = node(&mut jiter, peek, 0)?;
    jiter.finish()?;
    Ok(root)
}

/// Parses the value that begins here, nested in `depth` others.
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
            // Validates the escapes without decoding: most strings have none.
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
        // A number, or a byte with which no value begins, which this rejects too.
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
