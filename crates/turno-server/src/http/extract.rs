//! Extractors of bodies, queries and names. An error names the invalid field.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRef, FromRequest, FromRequestParts, Path, RawQuery, Request};
use http::header::{CONTENT_TYPE, HeaderMap};
use http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::de::{DeserializeOwned, IgnoredAny};
use turno::problem::ProblemCode;
use turno::{MAX_ITEMS, MAX_PAGE};

use super::problem::Problem;

/// Default size of a page.
const DEFAULT_PAGE_SIZE: u32 = 100;

/// Limits of a request's body. Part of the router's state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    pub(crate) max_bytes: usize,
    pub(crate) timeout: Duration,
}

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

/// An optional JSON body.
#[derive(Debug)]
pub(crate) struct MaybeJson<T>(pub(crate) T);

/// Query parameters.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

/// The name in the path.
#[derive(Debug)]
pub(crate) struct Name(pub(crate) String);

impl<T, S> FromRequest<S> for Json<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
    BodyLimits: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let body = read_body(request, state).await?;
        if !is_json {
            return Err(Problem::new(ProblemCode::UnsupportedMediaType));
        }
        parse_json(&body).map(Json)
    }
}

impl<T, S> FromRequest<S> for MaybeJson<T>
where
    T: DeserializeOwned + Default,
    S: Send + Sync,
    BodyLimits: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let body = read_body(request, state).await?;
        if body.is_empty() {
            return Ok(MaybeJson(T::default()));
        }
        if !is_json {
            return Err(Problem::new(ProblemCode::UnsupportedMediaType));
        }
        // In OpenAPI, an optional body may also be `null`.
        parse_json::<Option<T>>(&body).map(|value| MaybeJson(value.unwrap_or_default()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let RawQuery(query) = RawQuery::from_request_parts(parts, state)
            .await
            .unwrap_or(RawQuery(None));
        let query = query.unwrap_or_default();
        valid_percent_encoding("the query", &query)?;
        let words = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
        serde_path_to_error::deserialize(words)
            .map(Query)
            .map_err(|error| invalid(&error))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        valid_percent_encoding("the name in the path", parts.uri.path())?;
        Path::<String>::from_request_parts(parts, state)
            .await
            .map(|Path(name)| Name(name))
            .map_err(|_| badly_encoded("the name in the path"))
    }
}

/// Rejects text that is not percent-encoded UTF-8. A lossy conversion would produce another name.
fn valid_percent_encoding(what: &str, encoded: &str) -> Result<(), Problem> {
    let mut escapes = encoded.split('%').skip(1);
    let is_escape = |text: &str| {
        let mut letters = text.bytes();
        (0..2).all(|_| letters.next().is_some_and(|byte| byte.is_ascii_hexdigit()))
    };
    if escapes.all(is_escape) && percent_decode_str(encoded).decode_utf8().is_ok() {
        return Ok(());
    }
    Err(badly_encoded(what))
}

fn badly_encoded(what: &str) -> Problem {
    Problem::new(ProblemCode::Malformed).because(format!(
        "{what} is not UTF-8 in percent-encoding: write it in UTF-8, and %25 for a percent sign"
    ))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Reads the whole body, within the limits of size and time.
async fn read_body<S>(request: Request, state: &S) -> Result<Bytes, Problem>
where
    S: Send + Sync,
    BodyLimits: FromRef<S>,
{
    let limits = BodyLimits::from_ref(state);
    let read = Bytes::from_request(request, state);
    match tokio::time::timeout(limits.timeout, read).await {
        Err(_) => Err(Problem::new(ProblemCode::Timeout)),
        Ok(Ok(body)) => Ok(body),
        Ok(Err(BytesRejection::FailedToBufferBody(error)))
            if error.status() == http::StatusCode::PAYLOAD_TOO_LARGE =>
        {
            Err(Problem::new(ProblemCode::TooLarge).because(format!(
                "the body has more than {} bytes: send less at a time",
                limits.max_bytes
            )))
        }
        Ok(Err(_)) => {
            Err(Problem::new(ProblemCode::Malformed)
                .because("the body is incomplete: send all of it"))
        }
    }
}

fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let parsed = serde_path_to_error::deserialize(&mut json);
    // If the body is not JSON at all, report that and not a wrong field.
    match &parsed {
        Ok(_) => json.end(),
        Err(_) => serde_json::from_slice(body).map(|IgnoredAny| ()),
    }
    .map_err(|error| not_json(&error))?;
    // serde also accepts a list for an object, field by field.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::invalid("", "the body is a list: send an object"));
    }
    parsed.map_err(|error| match error.inner() {
        inner if inner.is_data() => invalid(&error),
        inner => not_json(inner),
    })
}

fn not_json(error: &serde_json::Error) -> Problem {
    Problem::new(ProblemCode::Malformed)
        .because(format!("the body is not one JSON value ({error})"))
}

/// The problem of an invalid field: its path or, for an unknown or missing field, its name.
fn invalid<E: std::fmt::Display>(error: &serde_path_to_error::Error<E>) -> Problem {
    let reason = error.inner().to_string();
    let path = error.path().to_string();
    let path = if path == "." { String::new() } else { path };
    // serde's messages are "unknown field `x`, expected …" and "missing field `x`". The path does not contain a missing field.
    let named = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|words| reason.split_once(words)?.1.split('`').next());
    let field = match named {
        Some(name) if path.is_empty() => name.to_owned(),
        Some(name) if path == name || path.ends_with(&format!(".{name}")) => path,
        Some(name) => format!("{path}.{name}"),
        None => path,
    };
    Problem::invalid(field, reason)
}

/// Returns the size of a page: the default, or the requested one if it is valid.
pub(crate) fn limit(requested: Option<u32>) -> Result<u32, Problem> {
    match requested.unwrap_or(DEFAULT_PAGE_SIZE) {
        0 => Err(Problem::invalid("limit", "limit is 0: ask for 1 or more")),
        limit if limit > MAX_PAGE => Err(Problem::invalid(
            "limit",
            format!("limit is {limit}, and {MAX_PAGE} is the most: ask for more with `after`"),
        )),
        limit => Ok(limit),
    }
}

/// Rejects a prefix or cursor with control characters: no name has them, and not all stores can search for them.
pub(crate) fn printable(field: &'static str, text: &str) -> Result<(), Problem> {
    if text.chars().any(char::is_control) {
        let reason = format!("{field} has a control character, and no name has one: remove it");
        return Err(Problem::invalid(field, reason));
    }
    Ok(())
}

/// Rejects an empty list, which is always a mistake of the caller, and one that is too long.
pub(crate) fn non_empty<T>(field: &'static str, list: &[T]) -> Result<(), Problem> {
    if list.is_empty() {
        let reason = format!("{field} is empty: give 1 or more");
        return Err(Problem::invalid(field, reason));
    }
    at_most(field, list)
}

/// Rejects a list that is too long for one call.
pub(crate) fn at_most<T>(field: &'static str, list: &[T]) -> Result<(), Problem> {
    if list.len() > MAX_ITEMS {
        let many = list.len();
        let reason =
            format!("{field} has {many} entries, and {MAX_ITEMS} is the most: divide them");
        return Err(Problem::invalid(field, reason));
    }
    Ok(())
}
