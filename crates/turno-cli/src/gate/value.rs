//! Values of a route's keys. Each is checked when it is parsed, so that errors have their place in the file.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, header};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use turno::once::http::Template;
use turno_server::gate::ProbePath;

use super::word::WordOr;
use crate::config::value::{Pause, Time};

/// Maximum TTL of an answer: ten years.
const MAX_TTL: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
/// Maximum wait of a request: one day.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum size of a route's name. Once keys begin with it.
const MAX_NAME_BYTES: usize = 100;

/// A route's name.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Name(pub(super) String);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(format!(
                "a name has 1 to {MAX_NAME_BYTES} bytes and no control characters: shorten or correct it"
            ));
        }
        Ok(Name(name))
    }
}

/// A path, optionally with parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Path(pub(super) String);

impl TryFrom<String> for Path {
    type Error = String;

    fn try_from(path: String) -> Result<Self, String> {
        if !path.starts_with('/') || path.contains(['?', '#', ' ']) {
            return Err(
                "this is not a path: write one such as /pagos, /pagos/{id}/cargo or /v1/{*rest}, without a query"
                    .to_owned(),
            );
        }
        Ok(Path(path))
    }
}

/// An HTTP method.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Verb(pub(super) Method);

impl TryFrom<String> for Verb {
    type Error = String;

    fn try_from(method: String) -> Result<Self, String> {
        match Method::from_bytes(method.as_bytes()) {
            Ok(known) if method.bytes().all(|letter| !letter.is_ascii_lowercase()) => {
                Ok(Verb(known))
            }
            _ => Err(format!(
                "{method:?} is not a method: write, for example, POST, in capitals"
            )),
        }
    }
}

/// The name of a header.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Header(pub(super) String);

impl TryFrom<String> for Header {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known: HeaderName = name.parse().map_err(|_| {
            format!("{name:?} is not a header name: write, for example, X-Request-Id")
        })?;
        Ok(Header(known.as_str().to_owned()))
    }
}

impl Header {
    pub(super) fn name(&self) -> HeaderName {
        self.0
            .parse()
            .expect("the name was checked when it was parsed")
    }
}

/// The caller of a request: `"none"`, a list of headers, or `{ cookie = "session" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
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
        struct Written;
        impl<'de> Visitor<'de> for Written {
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
        from.deserialize_any(Written)
    }
}

/// Name of a response header that may be stored: not a header of the transfer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Header")]
pub(super) struct AnswerHeader(pub(super) Header);

impl TryFrom<Header> for AnswerHeader {
    type Error = String;

    fn try_from(header: Header) -> Result<Self, String> {
        let carries = [
            header::CONNECTION,
            header::CONTENT_LENGTH,
            header::TRAILER,
            header::TRANSFER_ENCODING,
            header::UPGRADE,
        ];
        if carries.contains(&header.name()) {
            return Err(format!(
                "{} is a header of the transfer, which the gate sets itself: leave it out",
                header.0
            ));
        }
        Ok(AnswerHeader(header))
    }
}

/// The value of a header.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct HeaderText(HeaderValue);

impl TryFrom<String> for HeaderText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(HeaderText).map_err(|_| {
            format!("{text:?} is not a header value: use visible characters on one line")
        })
    }
}

/// Source of the key.
pub(super) type Key = WordOr<KeyWord, KeyTable>;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KeyWord {
    Header,
    Content,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyTable {
    pub(super) header: Header,
}

/// Response to a request whose own work is in flight.
pub(super) type InFlightPolicy = WordOr<InFlightWord, InFlightTable>;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InFlightWord {
    Conflict,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "InFlightKeys")]
pub(super) enum InFlightTable {
    Wait(Duration),
    Template(Answer),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InFlightKeys {
    wait: Option<Wait>,
    template: Option<Answer>,
}

impl TryFrom<InFlightKeys> for InFlightTable {
    type Error = &'static str;

    fn try_from(keys: InFlightKeys) -> Result<Self, &'static str> {
        match (keys.wait, keys.template) {
            (Some(wait), None) => Ok(InFlightTable::Wait(wait.0)),
            (None, Some(template)) => Ok(InFlightTable::Template(template)),
            _ => Err(
                "must be \"conflict\", { wait = \"30s\" } or { template = { status = 200, body = '…' } }",
            ),
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "Time")]
struct Wait(Duration);

impl TryFrom<Time> for Wait {
    type Error = String;

    fn try_from(time: Time) -> Result<Self, String> {
        if time.0 > MAX_WAIT {
            return Err(format!("the maximum wait is {MAX_WAIT:?}: lower it"));
        }
        Ok(Wait(time.0))
    }
}

/// A custom response.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "AnswerKeys")]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) template: Template,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerKeys {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<AnswerHeader, HeaderText>,
    body: Json,
}

/// JSON text. Checked before the other keys, so that an error has its own place.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Json(String);

impl TryFrom<String> for Json {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // The status does not matter: only the body is checked.
        Template::new(200, text.clone()).map_err(|error| error.to_string())?;
        Ok(Json(text))
    }
}

impl TryFrom<AnswerKeys> for Answer {
    type Error = turno::Error;

    fn try_from(keys: AnswerKeys) -> Result<Self, turno::Error> {
        let mut template = Template::new(keys.status, keys.body.0)?;
        for (name, value) in keys.headers {
            template = template.header(name.0.name(), value.0);
        }
        Ok(Answer {
            status: keys.status,
            template,
        })
    }
}

/// What happens to a request whose earlier run is unknown.
pub(super) type UnknownPolicy = WordOr<UnknownWord, UnknownTable>;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UnknownWord {
    Refuse,
    Rerun,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnknownTable {
    pub(super) probe: Probe,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Probe {
    pub(super) path: Question,
    pub(super) timeout: Option<Time>,
}

/// Path of a probe.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Question {
    pub(super) text: String,
    pub(super) path: ProbePath,
}

impl TryFrom<String> for Question {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let path = text.parse()?;
        Ok(Question { text, path })
    }
}

/// Range of statuses: `2xx`, `404`, `200-299`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Range {
    pub(super) text: String,
    pub(super) range: RangeInclusive<u16>,
}

impl TryFrom<String> for Range {
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
            Some(range) => Ok(Range { text, range }),
            None => Err(format!(
                "{text:?} is not a status: write 2xx, 404 or 500-503, between 200 and 599"
            )),
        }
    }
}

/// Meaning of a response that is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unstored {
    Release,
    Unknown,
}

/// What happens on a failure: reject the request (closed) or pass it on (open).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FailureMode {
    Closed,
    Open,
}

/// Whether a route's policy is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    On,
    Shadow,
    Off,
}

/// TTL of an answer.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "Pause")]
pub(super) struct Ttl(pub(super) Duration);

impl TryFrom<Pause> for Ttl {
    type Error = &'static str;

    fn try_from(pause: Pause) -> Result<Self, &'static str> {
        match pause.0 {
            ttl if ttl > MAX_TTL => Err("the maximum is ten years: lower the TTL"),
            ttl => Ok(Ttl(ttl)),
        }
    }
}
