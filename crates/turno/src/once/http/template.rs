//! A configured response with values of the request.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, VARY};
use http::{Response, StatusCode};

use super::Carried;
use super::accept::{MediaType, preferred};
use crate::error::{Error, Result};
use crate::once::json::{Node, Value, parse};
use crate::once::pointer::pointer;

/// Key of an object that is replaced by a value of the request.
const REQUEST: &str = "$request";

/// A response in which `{"$request": "/tipoPrestacion"}` is replaced by the value that this JSON pointer refers to in the
/// request's body.
///
/// In a JSON body the value is copied as it is written, and a value that does not exist is `null`. In XML, HTML and plain text, a
/// string is copied without its quotation marks (in XML and HTML escaped), and `null` or no value is an empty text.
///
/// ```
/// use turno::once::http::Template;
///
/// let template = Template::new(200, r#"{"resultadoOperacion": "02", "tipoPrestacion": {"$request": "/tipoPrestacion"}}"#)?
///     // Clients that prefer XML (`Accept`) get this one.
///     .variant(Template::with_type(200, "application/xml", r#"<salida tipo='{"$request": "/tipoPrestacion"}'>02</salida>"#)?);
/// # Ok::<_, turno::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Template {
    first: Variant,
    others: Vec<Variant>,
}

/// One representation of the response.
#[derive(Debug, Clone)]
struct Variant {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// `None`: the content type is not a media type.
    media: Option<MediaType>,
    format: Format,
    text: String,
    /// Ranges of the placeholders, and their pointers.
    holes: Vec<(Range<usize>, String)>,
}

/// How values are written into a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    /// XML or HTML.
    Markup,
    Plain,
    /// Values cannot be written into it.
    Other,
}

impl Format {
    fn of(media: &MediaType) -> Self {
        if media.is_one_of(&["application/json"], "+json") {
            Format::Json
        } else if media.is_one_of(&["application/xml", "text/xml", "text/html"], "+xml") {
            Format::Markup
        } else if media.is_one_of(&["text/plain"], "") {
            Format::Plain
        } else {
            Format::Other
        }
    }

    /// Returns a value of the request, given as JSON, in this format.
    fn write(self, value: Option<&str>) -> String {
        if self == Format::Json {
            return value.unwrap_or("null").to_owned();
        }
        let text = match value {
            None | Some("null") => String::new(),
            Some(value) if value.starts_with('"') => {
                // The body was parsed before, so this does not fail.
                serde_json::from_str(value).unwrap_or_default()
            }
            Some(value) => value.to_owned(),
        };
        match self {
            Format::Markup => text.chars().map(escaped).collect(),
            _ => text,
        }
    }
}

/// Returns a character as XML and HTML have it in texts and attributes.
fn escaped(letter: char) -> Cow<'static, str> {
    Cow::Borrowed(match letter {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        '\'' => "&#39;",
        '\t' => "&#9;",
        '\n' => "&#10;",
        '\r' => "&#13;",
        // XML cannot contain them, not even escaped.
        '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => "\u{fffd}",
        letter => return Cow::Owned(letter.into()),
    })
}

fn invalid(message: impl std::fmt::Display) -> Error {
    Error::invalid("template", format!("template {message}"))
}

impl Template {
    /// Creates a template with this status and this JSON body.
    ///
    /// # Errors
    /// Returns an error if the status is invalid, the body is not JSON, or a pointer is invalid.
    ///
    /// ```
    /// use turno::once::http::{InFlight, Policy, Template};
    ///
    /// let busy = Template::new(200, r#"{"result": "in progress", "loan": {"$request": "/loan"}}"#)?;
    /// let policy = Policy::new("pagos").in_flight(InFlight::Template(busy));
    /// assert!(Template::new(200, "in progress").is_err()); // not JSON
    /// # Ok::<_, turno::Error>(())
    /// ```
    pub fn new(status: u16, body: impl Into<String>) -> Result<Self> {
        Self::with_type(status, "application/json", body)
    }

    /// Creates a template with this status, content type and body.
    ///
    /// # Errors
    /// Returns an error if the status or the content type is invalid, the content type is JSON and the body is not, a pointer is
    /// invalid, or the body has a placeholder and is neither JSON nor XML, HTML or plain text.
    pub fn with_type(status: u16, content_type: &str, body: impl Into<String>) -> Result<Self> {
        let media = MediaType::parse(content_type).ok_or_else(|| {
            invalid(format!(
                "has the content type {content_type:?}: write, for example, application/xml"
            ))
        })?;
        let header = HeaderValue::from_str(content_type).map_err(invalid)?;
        let text: String = body.into();
        let format = Format::of(&media);
        let status = checked_status(status, &text)?;
        let holes = find_holes(format, &text)?;
        Ok(Template {
            first: Variant {
                status,
                headers: vec![(CONTENT_TYPE, header)],
                media: Some(media),
                format,
                text,
                holes,
            },
            others: Vec::new(),
        })
    }

    /// Sets a header, in all variants so far. A content type replaces that of the first one, and does not change how values are
    /// written.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        if name == CONTENT_TYPE {
            self.first.media = value.to_str().ok().and_then(MediaType::parse);
            self.first.set(name, value);
            return self;
        }
        for variant in std::iter::once(&mut self.first).chain(&mut self.others) {
            variant.set(name.clone(), value.clone());
        }
        self
    }

    /// Adds a variant for clients that prefer its content type. The request's `Accept` header decides; of equally good variants,
    /// the one that was added first is sent.
    pub fn variant(mut self, variant: Template) -> Self {
        self.others.push(variant.first);
        self.others.extend(variant.others);
        self
    }

    /// Returns the response to a request with this body and `Accept`.
    pub(super) fn fill<B>(&self, accept: &str, body: &[u8]) -> Response<Carried<B>> {
        if self.others.is_empty() {
            return self.first.fill(body);
        }
        let variants = || std::iter::once(&self.first).chain(&self.others);
        let index = preferred(variants().map(|variant| variant.media.as_ref()), accept);
        let variant = variants().nth(index).unwrap_or(&self.first);
        let mut response = variant.fill(body);
        response.headers_mut().append(VARY, ACCEPT.into());
        response
    }
}

impl Variant {
    fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value));
    }

    fn fill<B>(&self, body: &[u8]) -> Response<Carried<B>> {
        let mut filled = String::with_capacity(self.text.len());
        let mut from = 0;
        for (hole, path) in &self.holes {
            filled.push_str(&self.text[from..hole.start]);
            // A body that is not JSON has no values.
            let value = pointer(body, path).ok().flatten();
            let value = value.and_then(|value| std::str::from_utf8(value).ok());
            filled.push_str(&self.format.write(value));
            from = hole.end;
        }
        filled.push_str(&self.text[from..]);
        let mut response = Response::new(Carried::whole(Bytes::from(filled)));
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers.iter().cloned());
        response
    }
}

/// Returns the status of a response with this body.
fn checked_status(status: u16, body: &str) -> Result<StatusCode> {
    // A status below 200 is not a final response.
    let known = StatusCode::from_u16(status).ok();
    let known = known.filter(|known| (200..600).contains(&known.as_u16()));
    let known = known.ok_or_else(|| {
        invalid(format!(
            "has the status {status}, and must have one between 200 and 599"
        ))
    })?;
    if matches!(status, 204 | 205 | 304) && !body.is_empty() {
        return Err(invalid(format!(
            "has the status {status} and a body: HTTP allows none, so use another status"
        )));
    }
    Ok(known)
}

/// Finds the placeholders of a body, in their order, and checks them.
fn find_holes(format: Format, text: &str) -> Result<Vec<(Range<usize>, String)>> {
    let holes = match format {
        Format::Json => find_in_json(text)?,
        _ => find_in_text(text),
    };
    if format == Format::Other && !holes.is_empty() {
        return Err(invalid(
            "has a placeholder in a body that is neither JSON nor XML, HTML or plain text: remove it",
        ));
    }
    for (_, path) in &holes {
        pointer(b"null", path).map_err(|error| invalid(format!("has a placeholder: {error}")))?;
    }
    Ok(holes)
}

/// Finds the placeholders of a JSON body, in their order.
fn find_in_json(text: &str) -> Result<Vec<(Range<usize>, String)>> {
    let root = parse(text.as_bytes()).map_err(invalid)?;
    let mut holes = Vec::new();
    find(text, &root, &mut holes);
    holes.sort_by_key(|(range, _)| range.start);
    Ok(holes)
}

/// Finds the placeholders of another body, in their order.
fn find_in_text(text: &str) -> Vec<(Range<usize>, String)> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Placeholder {
        #[serde(rename = "$request")]
        pointer: String,
    }
    let mut holes: Vec<(Range<usize>, String)> = Vec::new();
    for (start, _) in text.match_indices('{') {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter();
        if let Some(Ok(Placeholder { pointer })) = values.next() {
            holes.push((start..start + values.byte_offset(), pointer));
        }
    }
    holes
}

/// Finds the placeholders.
fn find(text: &str, node: &Node, holes: &mut Vec<(Range<usize>, String)>) {
    match &node.value {
        Value::Array(nodes) => nodes.iter().for_each(|node| find(text, node, holes)),
        Value::Object(members) => {
            if let [member] = members.as_slice()
                && member.key == REQUEST
                && let Ok(pointer) = serde_json::from_str(&text[member.node.range.clone()])
            {
                holes.push((node.range.clone(), pointer));
                return;
            }
            members
                .iter()
                .for_each(|member| find(text, &member.node, holes));
        }
        Value::Plain | Value::Escaped(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::{BodyExt, Full};

    use super::*;

    fn filled(template: &str, body: &str) -> String {
        let template = Template::new(200, template).unwrap();
        let response: Response<Carried<Full<Bytes>>> = template.fill("", body.as_bytes());
        assert_eq!(response.headers()["content-type"], "application/json");
        text_of(response)
    }

    fn text_of(response: Response<Carried<Full<Bytes>>>) -> String {
        let length = response.body().size_hint().exact().unwrap();
        let body = futures_util::FutureExt::now_or_never(response.into_body().collect());
        let body = body.unwrap().unwrap().to_bytes();
        assert_eq!(length, body.len() as u64);
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[test]
    fn values_of_the_request_are_copied_as_they_are_written() {
        let template = r#"{"a": "02", "b": {"$request": "/x/1"}, "c": [{"$request": "/none"}, {"$request": ""}]}"#;
        assert_eq!(
            filled(template, r#"{"x": [0, 1.00e2]}"#),
            r#"{"a": "02", "b": 1.00e2, "c": [null, {"x": [0, 1.00e2]}]}"#
        );
        assert_eq!(
            filled(r#"{"a": {"$request": "/s"}}"#, r#"{"s": "\",\"x\":\"y"}"#),
            r#"{"a": "\",\"x\":\"y"}"#,
            "a value stays a value"
        );
        assert_eq!(
            filled(r#"{"a": {"$request": "/s"}}"#, "no json"),
            r#"{"a": null}"#
        );
        assert_eq!(
            filled(r#"{"a": {"$request": "/s", "b": 1}, "$request": 1}"#, "{}"),
            r#"{"a": {"$request": "/s", "b": 1}, "$request": 1}"#,
            "other objects are as they are"
        );
    }

    #[test]
    fn a_bad_template_is_refused() {
        for (status, body) in [
            (20, "{}"),
            (101, "{}"),
            (600, "{}"),
            (200, "{"),
            (204, "{}"),
            (200, r#"{"$request": "no-slash"}"#),
        ] {
            let error = Template::new(status, body).unwrap_err();
            assert_eq!(error.field(), Some("template"), "{body}");
        }
        for (content_type, body) in [
            ("", ""),
            ("text", ""),
            ("text/*", ""),
            ("text/plain\n", ""),
            ("application/problem+json", "<a/>"),
            ("text/csv", r#"a,{"$request": "/a"}"#),
            ("text/plain", r#"{"$request": "no-slash"}"#),
        ] {
            let error = Template::with_type(200, content_type, body).unwrap_err();
            assert_eq!(error.field(), Some("template"), "{body}");
        }
        Template::with_type(204, "text/plain", "").unwrap();
    }

    #[test]
    fn values_are_written_in_the_format_of_the_body() {
        let body = r#"{"s": "<a href=\"x\">&'\n\u0001ñ", "n": 1.0, "o": {"a": "<"}, "z": null}"#;
        for (content_type, template, wanted) in [
            (
                "application/xml",
                r#"<a b='{"$request": "/s"}'>{ "$request" : "/n" }</a>"#,
                "<a b='&lt;a href=&quot;x&quot;&gt;&amp;&#39;&#10;\u{fffd}ñ'>1.0</a>",
            ),
            (
                "application/soap+xml; charset=utf-8",
                r#"<a>{"$request": "/o"}{"$request": "/none"}{"$request": "/z"}</a>"#,
                "<a>{&quot;a&quot;: &quot;&lt;&quot;}</a>",
            ),
            (
                "text/plain",
                r#"{{"$request": "/n"}} {"$request": "/o/a"}; {"$request": 1} {"$request": "/n", "a": 1}"#,
                r#"{1.0} <; {"$request": 1} {"$request": "/n", "a": 1}"#,
            ),
            (
                "application/json",
                r#"[{"$request": "/s"}]"#,
                r#"["<a href=\"x\">&'\n\u0001ñ"]"#,
            ),
            ("text/csv", "a,{},{\"a\"}", "a,{},{\"a\"}"),
        ] {
            let template = Template::with_type(200, content_type, template).unwrap();
            let response = template.fill("", body.as_bytes());
            assert_eq!(response.headers()["content-type"], content_type);
            assert!(response.headers().get("vary").is_none());
            assert_eq!(text_of(response), wanted);
        }
    }

    #[test]
    fn the_client_chooses_the_variant() {
        let template = Template::new(200, "[]")
            .unwrap()
            .variant(Template::with_type(503, "application/xml", "<a/>").unwrap())
            .header("x-a".parse().unwrap(), HeaderValue::from_static("b"))
            .variant(Template::with_type(200, "text/plain", "a").unwrap());
        for (accept, status, wanted) in [
            ("", 200, "[]"),
            ("image/png", 200, "[]"),
            ("text/*, application/xml;q=0.5", 200, "a"),
            ("application/xml", 503, "<a/>"),
        ] {
            let response = template.fill(accept, b"");
            assert_eq!(response.status(), status, "{accept}");
            assert_eq!(response.headers()["vary"], "accept");
            assert_eq!(response.headers().contains_key("x-a"), wanted != "a");
            assert_eq!(text_of(response), wanted, "{accept}");
        }
    }
}
