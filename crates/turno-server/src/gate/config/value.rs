//! Values of a route's keys. Each is checked when it is parsed, so that errors have their place in the file.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, header};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;
use turno::once::http::KeyFrom;
use turno_api::duration::WireDuration;

use super::template::Answer;
use super::word_or_table::WordOrTable;
use crate::gate::probe::ProbePath;
use crate::setting::Time;

/// Header of the IETF draft.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Maximum TTL of an answer: ten years.
const MAX_TTL: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
/// Maximum wait of a request in seconds: one day.
const MAX_WAIT_SECONDS: u64 = 24 * 60 * 60;
/// Maximum size of a route's name in bytes. Once keys begin with it.
const MAX_NAME_BYTES: usize = 100;

/// Parses a value, and checks it.
fn checked<'de, D, T, U>(from: D, check: impl FnOnce(T) -> Result<U, String>) -> Result<U, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    check(T::deserialize(from)?).map_err(de::Error::custom)
}

/// TTL of an answer. Zero is allowed: then no answer is kept.
#[derive(Debug, Deserialize)]
#[serde(try_from = "WireDuration")]
pub(super) struct Ttl(pub(super) Duration);

impl TryFrom<WireDuration> for Ttl {
    type Error = &'static str;

    fn try_from(WireDuration(ttl): WireDuration) -> Result<Self, &'static str> {
        match ttl {
            ttl if ttl > MAX_TTL => Err("the maximum is ten years: lower the TTL"),
            ttl => Ok(Ttl(ttl)),
        }
    }
}

/// Parses a route's name.
pub(super) fn name<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Spanned<String>>, D::Error> {
    checked(from, |name: Spanned<String>| {
        let text = name.get_ref();
        if text.is_empty() || text.len() > MAX_NAME_BYTES || text.chars().any(char::is_control) {
            return Err(format!(
                "a name has 1 to {MAX_NAME_BYTES} bytes and no control characters: shorten or correct it"
            ));
        }
        Ok(Some(name))
    })
}

/// Parses a path, optionally with parameters.
pub(super) fn path<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Spanned<String>>, D::Error> {
    checked(from, |path: Spanned<String>| {
        let text = path.get_ref();
        match text.starts_with('/') && !text.contains(['?', '#', ' ']) {
            true => Ok(Some(path)),
            false => Err(
                "this is not a path: write one such as /pagos, /pagos/{id}/cargo or /v1/{*rest}, without a query"
                    .to_owned(),
            ),
        }
    })
}

/// Parses a list of methods.
pub(super) fn methods<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Method>, D::Error> {
    let method = |text: String| match Method::from_bytes(text.as_bytes()) {
        Ok(method) if !text.bytes().any(|letter| letter.is_ascii_lowercase()) => Ok(method),
        _ => Err(format!(
            "{text:?} is not a method: write, for example, POST, in capitals"
        )),
    };
    checked(from, |methods: Vec<String>| match methods.is_empty() {
        true => Err("methods is empty: write, for example, [\"POST\"]".to_owned()),
        false => methods.into_iter().map(method).collect(),
    })
}

/// Parses the source of the client's key.
pub(super) fn key<'de, D: Deserializer<'de>>(from: D) -> Result<KeyFrom, D::Error> {
    Ok(match WordOrTable::deserialize(from)? {
        WordOrTable::Word(KeyWord::Header) => KeyFrom::Header(IDEMPOTENCY_KEY),
        WordOrTable::Word(KeyWord::Content) => KeyFrom::Content,
        WordOrTable::Table(KeyTable { header }) => KeyFrom::Header(header.0),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum KeyWord {
    Header,
    Content,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyTable {
    header: Header,
}

/// The name of a header.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Header(pub(super) HeaderName);

impl TryFrom<String> for Header {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
            .map(Header)
            .map_err(|_| format!("{name:?} is not a header name: write, for example, X-Request-Id"))
    }
}

/// The caller of a request: `"none"`, a list of headers, or `{ cookie = "session" }`.
#[derive(Debug)]
pub(super) enum Principal {
    None,
    Headers(Vec<Header>),
    Cookie(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum PrincipalWord {
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrincipalTable {
    cookie: String,
}

impl<'de> Deserialize<'de> for Principal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct PrincipalVisitor;
        impl<'de> Visitor<'de> for PrincipalVisitor {
            type Value = Principal;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\", a list of headers or a table with cookie")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Principal, E> {
                PrincipalWord::deserialize(StrDeserializer::new(word)).map(|_| Principal::None)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Principal, A::Error> {
                let headers = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                if headers.is_empty() {
                    return Err(de::Error::custom(
                        "is empty: name a header, or write \"none\" if every caller may get the answers",
                    ));
                }
                Ok(Principal::Headers(headers))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Principal, A::Error> {
                let table = PrincipalTable::deserialize(MapAccessDeserializer::new(table))?;
                if table.cookie.is_empty() || table.cookie.contains(['=', ';', ' ', ',', '"']) {
                    return Err(de::Error::custom(
                        "is not a cookie name: write, for example, session",
                    ));
                }
                Ok(Principal::Cookie(table.cookie))
            }
        }
        from.deserialize_any(PrincipalVisitor)
    }
}

/// Name of a response header that may be stored: not a header of the transfer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "Header")]
pub(super) struct AnswerHeader(pub(super) HeaderName);

impl TryFrom<Header> for AnswerHeader {
    type Error = String;

    fn try_from(Header(name): Header) -> Result<Self, String> {
        let of_transfer = [
            header::CONNECTION,
            header::CONTENT_LENGTH,
            header::TRAILER,
            header::TRANSFER_ENCODING,
            header::UPGRADE,
        ];
        if of_transfer.contains(&name) {
            return Err(format!(
                "{name} is a header of the transfer, which the gate sets itself: leave it out"
            ));
        }
        Ok(AnswerHeader(name))
    }
}

/// The value of a header.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct HeaderText(pub(super) HeaderValue);

impl TryFrom<String> for HeaderText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(HeaderText).map_err(|_| {
            format!("{text:?} is not a header value: use visible characters on one line")
        })
    }
}

/// Response to a duplicate while the first request is in flight.
#[derive(Debug, Deserialize)]
#[serde(try_from = "WordOrTable<InFlightWord, InFlightTable>")]
pub(super) enum InFlightRule {
    Conflict,
    Wait(Duration),
    Template(Answer),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum InFlightWord {
    Conflict,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InFlightTable {
    wait: Option<Time<MAX_WAIT_SECONDS>>,
    template: Option<Answer>,
}

impl TryFrom<WordOrTable<InFlightWord, InFlightTable>> for InFlightRule {
    type Error = &'static str;

    fn try_from(value: WordOrTable<InFlightWord, InFlightTable>) -> Result<Self, &'static str> {
        let table = match value {
            WordOrTable::Word(InFlightWord::Conflict) => return Ok(InFlightRule::Conflict),
            WordOrTable::Table(table) => table,
        };
        match (table.wait, table.template) {
            (Some(wait), None) => Ok(InFlightRule::Wait(wait.0)),
            (None, Some(template)) => Ok(InFlightRule::Template(template)),
            _ => Err(
                "must be \"conflict\", { wait = \"30s\" } or { template = { status = 200, body = '…' } }",
            ),
        }
    }
}

/// What happens to a request whose earlier run is unknown.
#[derive(Debug, Deserialize)]
#[serde(from = "WordOrTable<UnknownWord, UnknownTable>")]
pub(super) enum UnknownRule {
    Refuse,
    Rerun,
    Probe(ProbeTable),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum UnknownWord {
    Refuse,
    Rerun,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnknownTable {
    probe: ProbeTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProbeTable {
    pub(super) path: ProbePath,
    pub(super) timeout: Option<Time>,
}

impl From<WordOrTable<UnknownWord, UnknownTable>> for UnknownRule {
    fn from(value: WordOrTable<UnknownWord, UnknownTable>) -> Self {
        match value {
            WordOrTable::Word(UnknownWord::Refuse) => UnknownRule::Refuse,
            WordOrTable::Word(UnknownWord::Rerun) => UnknownRule::Rerun,
            WordOrTable::Table(table) => UnknownRule::Probe(table.probe),
        }
    }
}

/// Range of statuses: `2xx`, `404`, `200-299`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct StatusRange {
    pub(super) text: String,
    pub(super) range: RangeInclusive<u16>,
}

impl TryFrom<String> for StatusRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let range = match text.strip_suffix("xx") {
            Some(hundreds) => hundreds
                .parse::<u16>()
                .ok()
                .filter(|hundreds| *hundreds < 10)
                .map(|hundreds| hundreds * 100..=hundreds * 100 + 99),
            None => {
                let (first, last) = text.split_once('-').unwrap_or((&text, &text));
                match (first.trim().parse(), last.trim().parse()) {
                    (Ok(first), Ok(last)) => Some(first..=last),
                    _ => None,
                }
            }
        };
        let known = range.filter(|range| {
            (200..=599).contains(range.start())
                && (200..=599).contains(range.end())
                && !range.is_empty()
        });
        match known {
            Some(range) => Ok(StatusRange { text, range }),
            None => Err(format!(
                "{text:?} is not a status: write 2xx, 404 or 500-503, between 200 and 599"
            )),
        }
    }
}

/// Meaning of a response that is not stored.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unstored {
    Release,
    Unknown,
}
